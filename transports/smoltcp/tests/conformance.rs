//! The suite that every link passes, over two sockets of one stack.

mod net;

use std::cell::RefCell;
use std::rc::Rc;

use net::{Faults, Net, PORT, server_at};
use pmi_link::{Link, LinkError, Read, Wrote};
use pmi_smoltcp::{SocketLink, close_socket};
use smoltcp::iface::SocketHandle;

/// The stack, and the sockets without an owner that still have to close.
struct World {
    net: Net,
    leaving: Vec<SocketHandle>,
}

/// One end that is closed when it is dropped, as the suite expects.
struct End {
    world: Rc<RefCell<World>>,
    handle: SocketHandle,
}

impl Link for End {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        SocketLink::new(self.world.borrow_mut().net.socket(self.handle)).try_read(out)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        SocketLink::new(self.world.borrow_mut().net.socket(self.handle)).try_write(bytes)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.world.borrow_mut().leaving.push(self.handle);
    }
}

impl World {
    fn step(&mut self) {
        let Self { net, leaving } = self;
        leaving.retain(|handle| !close_socket(net.socket(*handle)));
        net.step();
    }
}

fn connect(world: &Rc<RefCell<World>>) -> (End, End) {
    let mut inner = world.borrow_mut();
    let [near, far] = [(); 2].map(|()| inner.net.add_socket(16 << 10));
    let port = inner.net.fresh_port();
    inner.net.socket(far).listen(PORT).unwrap();
    let Net { iface, sockets, .. } = &mut inner.net;
    let socket = sockets.get_mut::<smoltcp::socket::tcp::Socket<'_>>(near);
    socket.connect(iface.context(), server_at(), port).unwrap();
    while !inner.net.socket(far).may_send() || !inner.net.socket(near).may_send() {
        inner.step();
    }
    drop(inner);
    let end = |handle| End { world: world.clone(), handle };
    (end(near), end(far))
}

fn conforms(seed: u64, faults: Faults) {
    let world = Rc::new(RefCell::new(World { net: Net::new(seed, faults), leaving: Vec::new() }));
    pmi_link::conformance::all(|| connect(&world), || world.borrow_mut().step());
}

#[test]
fn socket_conforms_on_a_good_network() {
    conforms(1, Faults::default());
}

#[test]
fn socket_conforms_on_a_bad_network() {
    conforms(2, Faults { lost: 2, spoilt: 1, swapped: 10, doubled: 10 });
}

#[test]
fn socket_that_dials_or_listens_gives_and_takes_nothing_yet() {
    let mut net = Net::new(3, Faults::default());
    let handle = net.add_socket(64);
    net.socket(handle).listen(PORT).unwrap();
    let mut link = SocketLink::new(net.socket(handle));
    assert_eq!(link.try_read(&mut [0; 4]), Ok(Read::NotNow));
    assert_eq!(link.try_write(b"x"), Ok(Wrote::NotNow));
}
