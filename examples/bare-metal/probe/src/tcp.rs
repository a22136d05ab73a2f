//! A client over smoltcp: Ethernet, ARP, IPv4, TCP, one socket. Cards of up to 200 bytes.

use pmi_core::client::FixedBuffer;
use pmi_core::command::Version;
use pmi_link::CallError;
use pmi_link::blocking::StreamClient;
use pmi_smoltcp::{Stack, StreamError, TcpStream};
use smoltcp::iface::{Config, Context, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};

use crate::mcu::{self, Late, Lent};

type Client = StreamClient<TcpStream<Node>, FixedBuffer, 1>;

static CLIENT: Late<Client> = Late::late();
static PLACES: Lent<[SocketStorage<'static>; 1]> = Lent::new([SocketStorage::EMPTY]);
static BUFFERS: Lent<[[u8; 512]; 2]> = Lent::new([[0; 512]; 2]);
static FRAMES: Lent<[[u8; FRAME_BYTES]; 2]> = Lent::new([[0; FRAME_BYTES]; 2]);

const FRAME_BYTES: usize = 1514;

#[inline(never)]
pub(crate) fn run() -> Result<(), CallError<StreamError>> {
    let pmi = connect().map_err(CallError::Io)?;
    let (id, key, value) = (u64::from(mcu::receive()), [mcu::receive()], [mcu::receive(); 2]);
    pmi.greet(id)?;
    pmi.init(Version::V1_1)?;
    pmi.kvsname()?;
    pmi.put(&key, &value)?;
    pmi.fence()?;
    let mut found = [0; 200];
    let len = pmi.get(&key, &mut found)?.unwrap_or(0);
    mcu::send(found.get(..len).unwrap_or(&[]));
    pmi.finalize()
}

// Not inlined, as in `Node::new`: what is built and moved passes through the stack once.
#[inline(never)]
fn connect() -> Result<&'static mut Client, StreamError> {
    let (node, handle) = Node::new();
    let server = IpEndpoint::new(Ipv4Address::new(10, 0, 0, 1).into(), 7000);
    let mut stream = TcpStream::new(node, handle);
    stream.connect(server, 49_152)?;
    Ok(CLIENT.lend().write(Client::with_buffer(stream, FixedBuffer::new())))
}

struct Node {
    iface: Interface,
    sockets: SocketSet<'static>,
    card: Card,
}

impl Node {
    #[inline(never)]
    fn new() -> (Self, SocketHandle) {
        let [incoming, outgoing] = FRAMES.lend();
        let mut card = Card { incoming, outgoing };
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
        let mut iface = Interface::new(config, &mut card, now());
        iface.update_ip_addrs(|list| {
            let _fits = list.push(IpCidr::new(Ipv4Address::new(10, 0, 0, 2).into(), 24));
        });
        let mut sockets = SocketSet::new(&mut PLACES.lend()[..]);
        let [receive, send] = BUFFERS.lend();
        let buffer = |bytes: &'static mut [u8; 512]| SocketBuffer::new(&mut bytes[..]);
        let handle = sockets.add(Socket::new(buffer(receive), buffer(send)));
        (Self { iface, sockets, card }, handle)
    }
}

impl Stack for Node {
    fn poll(&mut self) -> Result<(), StreamError> {
        self.iface.poll(now(), &mut self.card, &mut self.sockets);
        Ok(())
    }

    fn with_socket<T>(
        &mut self,
        handle: SocketHandle,
        run: impl FnOnce(&mut Context, &mut Socket<'_>) -> T,
    ) -> T {
        run(self.iface.context(), self.sockets.get_mut(handle))
    }
}

fn now() -> Instant {
    Instant::from_millis(i64::from(mcu::receive()))
}

/// A card that receives and sends one frame at a time.
struct Card {
    incoming: &'static mut [u8; FRAME_BYTES],
    outgoing: &'static mut [u8; FRAME_BYTES],
}

struct Incoming<'a>(&'a [u8]);
struct TxFrame<'a>(&'a mut [u8; FRAME_BYTES]);

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for TxFrame<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let frame = self.0.get_mut(..len).unwrap_or(&mut []);
        let result = write(frame);
        mcu::send(frame);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Incoming<'a>;
    type TxToken<'a> = TxFrame<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, TxFrame<'_>)> {
        // Number of waiting bytes; 0 without a frame.
        let len = usize::from(u16::from_be_bytes([mcu::receive(), mcu::receive()]));
        let frame = self.incoming.get_mut(..len).filter(|frame| !frame.is_empty())?;
        frame.iter_mut().for_each(|byte| *byte = mcu::receive());
        Some((Incoming(frame), TxFrame(self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxFrame<'_>> {
        Some(TxFrame(self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = FRAME_BYTES;
        capabilities.max_burst_size = Some(1);
        capabilities.medium = Medium::Ethernet;
        capabilities
    }
}
