//! A client over smoltcp: Ethernet, ARP, IPv4, TCP, one socket. Cards of up to 200 bytes.

use pmi_core::client::FixedBuffer;
use pmi_core::command::{FenceGroup, Place, Reply, Request, Text, Version};
use pmi_smoltcp::{ConnBuffer, ConnectionError, DialState, TcpClient, core_time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr, IpEndpoint, Ipv4Address};

use crate::mcu::{self, Late, Lent};

type Client = TcpClient<FixedBuffer, ConnBuffer<64>, ConnBuffer<512>, 1, 1>;

static CLIENT: Late<Client> = Late::late();
static PLACES: Lent<[SocketStorage<'static>; 1]> = Lent::new([SocketStorage::EMPTY]);
static BUFFERS: Lent<[[u8; 512]; 2]> = Lent::new([[0; 512]; 2]);
static SCRATCH: Lent<[u8; 1024]> = Lent::new([0; 1024]);
static FRAMES: Lent<[[u8; FRAME_BYTES]; 2]> = Lent::new([[0; FRAME_BYTES]; 2]);

const FRAME_BYTES: usize = 1514;

#[inline(never)]
pub(crate) fn run() -> Result<(), ConnectionError> {
    let (mut node, client) = (Node::new(), client());
    let server = IpEndpoint::new(Ipv4Address::new(10, 0, 0, 1).into(), 7000);
    let socket = node.sockets.get_mut::<Socket<'_>>(node.handle);
    client.connect(socket, node.iface.context(), server, 49_152)?;
    let (id, key, value) = (u64::from(mcu::receive()), [mcu::receive()], [mcu::receive(); 2]);
    let (key, value) = (Text::plain(&key), Text::plain(&value));
    let own = Place::Job(None);
    for request in &[
        Request::InitAck { id },
        Request::Init { version: Version::V1_1 },
        Request::KvsName,
        Request::Put { place: own, key, value },
        Request::Fence { group: FenceGroup::World, tag: None },
        Request::Get { place: own, key, wait: false },
        Request::Finalize,
    ] {
        let told = |reply: &Reply<'_>| mcu::send(&[u8::from(reply.code.is_success())]);
        client.request(request, |client| node.turn(client), told)?;
    }
    while !node.turn(client)?.is_closed() {}
    Ok(())
}

// Not inlined, as in `Node::new`: what is built and moved passes through the stack once.
#[inline(never)]
fn client() -> &'static mut Client {
    CLIENT.lend().write(Client::new())
}

struct Node {
    iface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    card: Card,
    scratch: &'static mut [u8],
}

impl Node {
    #[inline(never)]
    fn new() -> Self {
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
        Self { iface, sockets, handle, card, scratch: SCRATCH.lend() }
    }

    fn turn(&mut self, client: &mut Client) -> Result<DialState, ConnectionError> {
        self.iface.poll(now(), &mut self.card, &mut self.sockets);
        client.poll(core_time(now()), self.sockets.get_mut(self.handle), self.scratch)
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
