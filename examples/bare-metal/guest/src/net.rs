//! The stack, with a clock.

use core::net::Ipv4Addr;

use pmi_core::time::Instant as CoreInstant;
use pmi_smoltcp::core_time;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpCidr};

use crate::machine::memory::Lent;
use crate::machine::micros;
use crate::machine::nic::{Frames, Nic};

/// Largest number of sockets at once.
pub(crate) const SOCKETS: usize = 4;

pub(crate) struct Net {
    pub(crate) iface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    nic: Nic,
}

type Buffers = [[[u8; SOCKET_BYTES]; 2]; SOCKETS];

static FRAMES: Lent<Frames> = Lent::new(Frames::new());
static PLACES: Lent<[SocketStorage<'static>; SOCKETS]> =
    Lent::new([const { SocketStorage::EMPTY }; SOCKETS]);
static BUFFERS: Lent<Buffers> = Lent::new([[[0; SOCKET_BYTES]; 2]; SOCKETS]);

impl Net {
    /// Sets the card up; `None` without one.
    pub(crate) fn new(addr: Ipv4Addr) -> Option<Self> {
        let mut nic = Nic::find(FRAMES.lend())?;
        let mut config = Config::new(EthernetAddress(nic.mac()).into());
        config.random_seed = micros();
        let mut iface = Interface::new(config, &mut nic, now());
        iface.update_ip_addrs(|list| {
            // One of the two addresses that fit.
            let _fits = list.push(IpCidr::new(addr.into(), 24));
        });
        Some(Self { iface, sockets: SocketSet::new(&mut PLACES.lend()[..]), nic })
    }

    /// Makes all sockets. A peer that is silent for longer than the time-out is considered lost.
    pub(crate) fn sockets(&mut self) -> [SocketHandle; SOCKETS] {
        BUFFERS.lend().each_mut().map(|[receive, send]| {
            let buffer = |bytes: &'static mut [u8; SOCKET_BYTES]| SocketBuffer::new(&mut bytes[..]);
            let mut socket = Socket::new(buffer(receive), buffer(send));
            socket.set_timeout(Some(Duration::from_secs(10)));
            socket.set_keep_alive(Some(Duration::from_secs(2)));
            socket.set_nagle_enabled(false);
            self.sockets.add(socket)
        })
    }

    pub(crate) fn poll(&mut self) {
        self.iface.poll(now(), &mut self.nic, &mut self.sockets);
    }
}

/// The time for the stack.
fn now() -> Instant {
    Instant::from_micros(i64::try_from(micros()).unwrap_or(i64::MAX))
}

/// The time for the machines.
pub(crate) fn core_now() -> CoreInstant {
    core_time(now())
}

const SOCKET_BYTES: usize = 1024;
