//! A network within the test: one stack connected to itself over a wire that loses, swaps, doubles and
//! corrupts packets by seed, in a time that only the test advances.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::VecDeque;

use pmi_core::ids::JobId;
use pmi_core::pool::{Pool, PooledBuffer};
use pmi_core::server::{Arrays, Member, Server};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::{Duration, Instant as CoreInstant};
use pmi_smoltcp::{Acceptor, AcceptorEvent, ConnBuffer, core_time};
use pmi_testkit::server::{job_spec, unidentified};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, FaultInjector, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};

/// Probabilities of faults of packets, in per cent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u8,
    pub(crate) spoilt: u8,
    pub(crate) swapped: u8,
    pub(crate) doubled: u8,
}

/// Small numbers, determined by the seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// A loopback that swaps and doubles; loss and corruption are left to smoltcp's own injector.
pub(crate) struct Wire {
    queue: VecDeque<Vec<u8>>,
    dice: Dice,
    faults: Faults,
}

pub(crate) struct Packet(Vec<u8>);
pub(crate) struct Outlet<'a>(&'a mut Wire);

impl phy::RxToken for Packet {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Outlet<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        let Wire { queue, dice, faults } = self.0;
        if dice.below(100) < faults.doubled.into() {
            queue.push_back(packet.clone());
        }
        if dice.below(100) < faults.swapped.into() {
            queue.insert(dice.below(queue.len() + 1), packet);
        } else {
            queue.push_back(packet);
        }
        result
    }
}

impl phy::Device for Wire {
    type RxToken<'a> = Packet;
    type TxToken<'a> = Outlet<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Packet, Outlet<'_>)> {
        let packet = self.queue.pop_front()?;
        Some((Packet(packet), Outlet(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outlet<'_>> {
        Some(Outlet(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = 1500;
        capabilities.medium = Medium::Ip;
        capabilities
    }
}

pub(crate) struct Net {
    pub(crate) iface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    device: FaultInjector<Wire>,
    now: Instant,
    next_port: u16,
}

pub(crate) const PORT: u16 = 7000;

impl Net {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let wire = Wire { queue: VecDeque::new(), dice: Dice::new(seed), faults };
        // The injector's generator stays at 0 if it starts there.
        let mut device = FaultInjector::new(wire, u32::try_from(seed).unwrap() | 1);
        device.set_drop_chance(faults.lost);
        device.set_corrupt_chance(faults.spoilt);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut iface = Interface::new(config, &mut device, Instant::ZERO);
        iface.update_ip_addrs(|list| list.push(IpCidr::new(local(), 8)).unwrap());
        let sockets = SocketSet::new(Vec::new());
        Self { iface, sockets, device, now: Instant::ZERO, next_port: 49152 }
    }

    pub(crate) fn add_socket(&mut self, bytes: usize) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; bytes]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        self.sockets.add(socket)
    }

    pub(crate) fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Polls the stack, and advances the time to its next deadline.
    pub(crate) fn step(&mut self) {
        let result = self.iface.poll(self.now, &mut self.device, &mut self.sockets);
        let wanted = match (result, self.iface.poll_delay(self.now, &self.sockets)) {
            // The owner of a socket that changed acts first.
            (PollResult::SocketStateChanged, _) => 0,
            (PollResult::None, wanted) => wanted.map_or(0, |delay| delay.total_micros()),
        };
        self.now += smoltcp::time::Duration::from_micros(wanted.clamp(10, 100_000));
    }

    pub(crate) fn now(&self) -> CoreInstant {
        core_time(self.now)
    }

    pub(crate) fn fresh_port(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }
}

pub(crate) fn local() -> IpAddress {
    IpAddress::v4(127, 0, 0, 1)
}

pub(crate) fn server_at() -> IpEndpoint {
    IpEndpoint::new(local(), PORT)
}

/// Two sessions may hold half a message at the same time, of the four that are connected.
pub(crate) type Inbox = PooledBuffer<2048, 2>;
pub(crate) type Store = Arena<[ArenaCell; 32], [u8; 4096]>;

/// Storage of a board with eight connections.
pub(crate) type Board = Arrays<Inbox, Store, Vec<Member>, 8, 1, 1>;

/// A server with its sockets.
pub(crate) struct Office {
    pub(crate) server: Server<Board>,
    pub(crate) pool: &'static Pool<2048, 2>,
    pub(crate) job: JobId,
    pub(crate) acceptor: Acceptor<ConnBuffer<2048>, ConnBuffer<2048>, 4>,
    pub(crate) handles: [SocketHandle; 4],
    pub(crate) notices: Vec<AcceptorEvent>,
}

impl Office {
    pub(crate) fn new(net: &mut Net, members: Vec<Member>) -> Self {
        // Tests are short, and their memory is lent for good, as that of a board.
        let pool = Box::leak(Box::new(Pool::new(Box::leak(Box::new([[0; 2048]; 2])))));
        let store = || Arena::new([ArenaCell::FREE; 32], [0; 4096]);
        let mut server = Server::new([const { None }; 8], [const { None }; 1], store());
        let job = server.add_job(job_spec("kvs_0"), members, store()).unwrap();
        let handles = [(); 4].map(|()| net.add_socket(2048));
        // A long time limit, so that no connection is closed early: a segment may be lost many times in a
        // row.
        let acceptor = Acceptor::new(handles, PORT, Duration::from_secs(1_000));
        Self { server, pool, job, acceptor, handles, notices: Vec::new() }
    }

    pub(crate) fn turn(&mut self, net: &mut Net) {
        let (peer, pool) = (unidentified(self.job), self.pool);
        let open = |server: &mut Server<Board>| server.open(peer, pool.buffer(), [None]);
        let (now, notices) = (net.now(), &mut self.notices);
        let told = |notice| notices.push(notice);
        self.acceptor.poll(now, &mut net.sockets, &mut self.server, &mut [0; 4096], open, told);
        while self.server.poll_event().is_some() {}
    }
}
