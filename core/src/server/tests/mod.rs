//! Test harness for the server: one line per rank and step.

mod pmi1;
mod pmi2;
#[cfg(feature = "pmix")]
mod pmix;
mod waits;

use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::store::Kvs;
use crate::store::{Arena, ArenaCell as Cell};

type Inbox = heapless::Vec<u8, 4096>;
type Store = Arena<Vec<Cell>, Vec<u8>>;

/// Storage in vectors, as on a host.
type Vectors = Arrays<Inbox, Store, Vec<Member>, 8, 4, 4>;

fn store() -> Store {
    Arena::new(vec![Cell::FREE; 64], vec![0; 8192])
}

/// A server with one job of `size` ranks, two to a node, each with a session.
struct World {
    server: Server<Vectors>,
    job: JobId,
    sessions: Vec<SessionId>,
}

const NOW: Instant = Instant::from_micros(7);

impl World {
    fn new(size: u32) -> Self {
        Self::with_uplink(size, false)
    }

    fn with_uplink(size: u32, has_uplink: bool) -> Self {
        let mut world = Self::without_sessions(size, has_uplink);
        for rank in 0..size {
            let peer = Peer::Member { job: world.job, rank: Rank(rank) };
            let id = world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
            world.sessions.push(id);
        }
        world
    }

    fn without_sessions(size: u32, has_uplink: bool) -> Self {
        let mut server = Server::new([const { None }; 8], [const { None }; 4], store());
        let name = crate::ids::KvsName::new(b"kvs_1").unwrap();
        let spec = JobSpec { name, spawner: None, universe_size: Some(16), has_uplink };
        let members = (0..size).map(|rank| Member::new(0, rank / 2)).collect();
        let job = server.add_job(spec, members, store()).unwrap();
        Self { server, job, sessions: Vec::new() }
    }

    /// Sends `line` as `rank`, and returns the answers.
    fn say(&mut self, rank: usize, line: &str) -> String {
        self.tell(rank, line).unwrap();
        self.hear(rank)
    }

    fn tell(&mut self, rank: usize, line: &str) -> Result<usize, PeerError> {
        let mut session = self.server.session(self.sessions[rank]).unwrap();
        session.handle_input(NOW, line.as_bytes())
    }

    /// Output that is due for `rank`, read as the run loop would.
    fn hear(&mut self, rank: usize) -> String {
        let mut session = self.server.session(self.sessions[rank]).unwrap();
        let mut heard = String::new();
        let mut out = [0; 2048];
        loop {
            while let Some(len) = session.poll_transmit(&mut out).unwrap() {
                heard.push_str(core::str::from_utf8(&out[..len]).unwrap());
            }
            let before = heard.len();
            let _ = session.handle_input(NOW, b"");
            if let Some(len) = session.poll_transmit(&mut out).unwrap() {
                heard.push_str(core::str::from_utf8(&out[..len]).unwrap());
            }
            if heard.len() == before {
                return heard;
            }
        }
    }

    fn init_all(&mut self) {
        for rank in 0..self.sessions.len() {
            let heard = self.say(rank, "cmd=init pmi_version=1 pmi_subversion=1\n");
            assert_eq!(heard, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
        }
    }

    fn ready(&mut self) -> Vec<u32> {
        core::iter::from_fn(|| self.server.next_ready()).map(|id| id.0).collect()
    }

    fn phase(&self, rank: u32) -> Phase {
        self.server.job(self.job).unwrap().member(Rank(rank)).unwrap().phase()
    }

    fn missing(&self) -> Vec<u32> {
        self.server.job(self.job).unwrap().missing().map(|rank| rank.0).collect()
    }
}

#[test]
fn being_connected_reaches_through_others_and_ends_with_the_connection() {
    let mut world = World::without_sessions(1, false);
    let mut add = |name: &[u8]| {
        let name = crate::ids::KvsName::new(name).unwrap();
        let spec = JobSpec { name, spawner: None, universe_size: None, has_uplink: false };
        world.server.add_job(spec, Vec::new(), store()).unwrap()
    };
    let (a, b, c, d) = (world.job, add(b"b"), add(b"c"), add(b"d"));
    let jobs = &mut world.server.shared.jobs;
    for (one, other) in [(a, b), (c, d), (b, c), (b, b), (a, b)] {
        assert!(connected_jobs::connect(jobs, one, other));
    }
    assert!(connected_jobs::is_connected(jobs, a, d));
    assert!(connected_jobs::disconnect(jobs, c, b));
    assert!(!connected_jobs::disconnect(jobs, c, b));
    assert!(connected_jobs::is_connected(jobs, a, b) && connected_jobs::is_connected(jobs, c, d));
    assert!(!connected_jobs::is_connected(jobs, a, d) && !connected_jobs::is_connected(jobs, b, c));
    connected_jobs::leave(jobs, d);
    assert!(!connected_jobs::is_connected(jobs, c, d));
}
