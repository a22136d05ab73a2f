//! A server with one job of two ranks, and both their sessions.

#![allow(dead_code, reason = "each test program uses its own part of this module")]

use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Arrays, JobSpec, Member, Peer, Server};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::Instant;

pub(crate) type Inbox = heapless::Vec<u8, MESSAGE_BYTES>;
type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

/// Storage in arrays and vectors.
pub(crate) type Small = Arrays<Inbox, Store, Vec<Member>, 4, 4, 1>;

pub(crate) struct Desk {
    pub(crate) server: Server<Small>,
    pub(crate) job: JobId,
    pub(crate) sessions: [SessionId; 2],
}

impl Desk {
    pub(crate) fn new() -> Self {
        let store = || Arena::new(vec![ArenaCell::FREE; 8], vec![0; 4096]);
        let mut server = Server::new([const { None }; 4], [const { None }; 1], store());
        let name = KvsName::new(b"kvs").expect("a name");
        let spec = JobSpec { name, spawner: None, universe_size: None, has_uplink: false };
        let job = server.add_job(spec, vec![Member::new(0, 0); 2], store()).expect("room");
        let sessions = [0, 1].map(|rank| {
            let peer = Peer::Member { job, rank: Rank(rank) };
            server.open(peer, Inbox::new(), [const { None }; 4]).expect("room for a session")
        });
        Self { server, job, sessions }
    }

    /// Hands in bytes of a rank.
    pub(crate) fn hand(&mut self, rank: usize, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut lent = self.server.session(self.sessions[rank]).expect("an open session");
        lent.handle_input(Instant::ZERO, bytes)
    }

    /// Output for a rank.
    pub(crate) fn said(&mut self, rank: usize) -> Vec<u8> {
        let mut lent = self.server.session(self.sessions[rank]).expect("an open session");
        let (mut said, mut out) = (Vec::new(), [0; MESSAGE_BYTES]);
        while let Ok(Some(len)) = lent.poll_transmit(&mut out) {
            said.extend_from_slice(&out[..len]);
        }
        said
    }
}
