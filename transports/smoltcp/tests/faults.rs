//! Whole jobs over a network that fails, by seed: every rank sees every card, and all ranks disconnect.

mod net;

use net::{Dice, Faults, Net, Office, server_at};
use pmi_core::client::{ClientEvent, FixedBuffer};
use pmi_core::command::{Answer, FenceGroup, Place, Request, Text, Version};
use pmi_core::server::Member;
use pmi_core::time::{Duration, Instant};
use pmi_smoltcp::{ConnBuffer, DialState, TcpClient};
use smoltcp::iface::SocketHandle;

/// A rank that runs its session one request at a time.
struct Rank {
    client: TcpClient<FixedBuffer, ConnBuffer<64>, ConnBuffer<2048>>,
    handle: SocketHandle,
    id: u32,
    asked: usize,
    answered: usize,
}

impl Rank {
    fn new(net: &mut Net, id: u32) -> Self {
        let handle = net.add_socket(512);
        let port = net.fresh_port();
        let mut client = TcpClient::new();
        let socket = net.sockets.get_mut(handle);
        client.connect(socket, net.iface.context(), server_at(), port).unwrap();
        Self { client, handle, id, asked: 0, answered: 0 }
    }

    /// Sends the next request, if the last one has its reply.
    fn ask(&mut self, size: u32) {
        if self.asked > self.answered || self.client.state() != DialState::Connected {
            return;
        }
        let own = Place::Job(None);
        let (mut key, mut value) = (String::new(), String::new());
        let request = match self.asked {
            0 => Request::InitAck { id: u64::from(self.id) },
            1 => Request::Init { version: Version::V1_1 },
            2 => Request::KvsName,
            3 => {
                key = format!("card-{}", self.id);
                value = card(self.id);
                let (key, value) = (Text::from(key.as_str()), Text::from(value.as_str()));
                Request::Put { place: own, key, value }
            }
            4 => Request::Fence { group: FenceGroup::World, tag: None },
            step if step < 5 + size as usize => {
                key = format!("card-{}", step - 5);
                Request::Get { place: own, key: Text::from(key.as_str()), wait: false }
            }
            _ => Request::Finalize,
        };
        self.client.client().start(&request).unwrap();
        self.asked += 1;
        drop((key, value));
    }

    fn turn(&mut self, net: &mut Net, size: u32) {
        self.ask(size);
        let (now, socket) = (net.now(), net.sockets.get_mut(self.handle));
        self.client.poll(now, socket, &mut [0; 4096]).unwrap();
        let Some(ClientEvent::Reply { reply, .. }) = self.client.poll_event() else { return };
        assert!(reply.code.is_success(), "{reply:?}");
        if let Some(peer) = self.answered.checked_sub(5).filter(|peer| *peer < size as usize) {
            let expected = card(u32::try_from(peer).unwrap());
            assert_eq!(reply.answer, Answer::Value(Text::from(expected.as_str())));
        }
        self.answered += 1;
    }
}

/// A value that needs more than one turn of the smallest buffer.
fn card(rank: u32) -> String {
    format!("rank {rank} is at 10.0.0.{rank}:4000 ").repeat(20).trim_end().replace(' ', "_")
}

fn run(seed: u64, size: u32, faults: Faults) -> Instant {
    let mut net = Net::new(seed, faults);
    let mut office = Office::new(&mut net, vec![Member::new(0, 0); size as usize]);
    let mut ranks: Vec<Rank> = (0..size).map(|id| Rank::new(&mut net, id)).collect();
    let limit = Instant::ZERO.plus(Duration::from_secs(3_600));
    while !ranks.iter().all(|rank| rank.client.state().is_closed()) || !office.acceptor.is_idle() {
        assert!(net.now() < limit, "seed {seed}: nothing ends");
        net.step();
        office.turn(&mut net);
        ranks.iter_mut().for_each(|rank| rank.turn(&mut net, size));
    }
    assert_eq!(office.notices, [], "seed {seed}");
    assert!(ranks.iter().all(|rank| rank.answered == 6 + size as usize), "seed {seed}");
    net.now()
}

#[test]
fn job_of_four_ends_at_once_on_a_good_network() {
    let end = run(1, 4, Faults::default());
    assert!(end < Instant::from_micros(500_000), "{end:?}");
}

#[test]
fn jobs_survive_loss_reordering_and_duplication_by_seed() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let mut pct = |bound| u8::try_from(dice.below(bound)).unwrap();
        let faults = Faults { lost: pct(13), spoilt: pct(6), swapped: pct(40), doubled: pct(25) };
        run(seed, 1 + u32::try_from(seed % 4).unwrap(), faults);
    }
}

#[test]
fn same_seed_gives_the_same_run() {
    let faults = Faults { lost: 9, spoilt: 3, swapped: 30, doubled: 20 };
    assert_eq!(run(77, 3, faults), run(77, 3, faults));
    assert_ne!(run(77, 3, faults), run(78, 3, faults));
}
