//! A server over vectors, with one job.

use std::string::String;
use std::vec;
use std::vec::Vec;

use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Arrays, JobSpec, Member, Peer, Phase, Server};
use pmi_core::storage::ArrayBuffer;
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::Instant;

/// Input buffer of one session.
pub type Inbox = ArrayBuffer<MESSAGE_BYTES>;

/// Key-value space of one job, or of the published names.
pub type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

/// Storage of a test server, as on a host: eight sessions of four jobs, and as many of PMIx clients.
pub type Vectors = Arrays<Inbox, Store, Vec<Member>, SESSIONS, EXCHANGES, JOBS, OfPmix>;

#[cfg(feature = "pmix")]
type OfPmix = super::pmix::Lent;
#[cfg(not(feature = "pmix"))]
type OfPmix = ();

/// Time of all calls: the tests of this server need a clock that stands still.
pub const NOW: Instant = Instant::from_micros(7);

/// Name of the first job.
pub const JOB_NAME: &str = "kvs_1";

/// Makes an empty key-value space of this size.
pub fn store(cells: usize, bytes: usize) -> Store {
    Arena::new(vec![ArenaCell::FREE; cells], vec![0; bytes])
}

/// Makes the name of a job.
pub fn kvsname(name: &str) -> KvsName {
    KvsName::new(name.as_bytes()).expect("a valid name")
}

/// Describes a job that was not spawned and has all its members on this server.
pub fn job_spec(name: &str) -> JobSpec {
    JobSpec {
        name: kvsname(name),
        spawner: None,
        universe_size: None,
        size: None,
        has_uplink: false,
    }
}

/// Makes the members of a job with `per_node` ranks on each node.
pub fn members(size: u32, per_node: u32) -> Vec<Member> {
    (0..size).map(|rank| Member::new(0, rank / per_node)).collect()
}

/// Describes a peer that must identify itself, at any time and without a proof.
pub const fn unidentified(job: JobId) -> Peer {
    Peer::Unidentified { job, deadline: None, challenge: None }
}

/// A server with the job [`JOB_NAME`].
pub struct TestServer {
    /// The server.
    pub server: Server<Vectors>,
    /// Its first job.
    pub job: JobId,
    /// Sessions in the order in which they were opened; [`TestServer::new`] opens that of each rank.
    pub sessions: Vec<SessionId>,
}

impl TestServer {
    /// Makes a server with a job of `size` ranks, two on each node, in a universe of 16, and the session of
    /// each rank.
    pub fn new(size: u32) -> Self {
        let mut server = Self::without_sessions(size);
        server.open_all(size);
        server
    }

    /// Makes the server of [`new`](Self::new) without sessions.
    pub fn without_sessions(size: u32) -> Self {
        let spec = JobSpec { universe_size: Some(16), ..job_spec(JOB_NAME) };
        Self::of(spec, members(size, 2))
    }

    /// Makes a server with this job.
    pub fn of(spec: JobSpec, members: Vec<Member>) -> Self {
        let (sessions, jobs) = ([const { None }; SESSIONS], [const { None }; JOBS]);
        let names = store(CELLS, STORE_BYTES);
        #[cfg(feature = "pmix")]
        let mut server = Server::with_pmix(sessions, jobs, names, super::pmix::tables());
        #[cfg(not(feature = "pmix"))]
        let mut server = Server::new(sessions, jobs, names);
        let job = server.add_job(spec, members, store(CELLS, STORE_BYTES)).expect("a valid job");
        Self { server, job, sessions: Vec::new() }
    }

    /// Adds another job.
    pub fn add_job(&mut self, spec: JobSpec, members: Vec<Member>) -> JobId {
        self.server.add_job(spec, members, store(CELLS, STORE_BYTES)).expect("room for a job")
    }

    /// Opens the session of each rank of the first job.
    pub fn open_all(&mut self, size: u32) {
        for rank in 0..size {
            self.open(Peer::Member { job: self.job, rank: Rank(rank) });
        }
    }

    /// Opens a session, which gets the next number.
    pub fn open(&mut self, peer: Peer) -> SessionId {
        let opened = self.server.open(peer, Inbox::new(), [const { None }; EXCHANGES]);
        let session = opened.expect("room for a session");
        self.sessions.push(session);
        session
    }

    /// Hands in bytes of a rank; returns the number of those that were taken.
    ///
    /// # Errors
    ///
    /// The error of the session.
    pub fn send(
        &mut self,
        rank: usize,
        bytes: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<usize, PeerError> {
        let mut session = self.server.session(self.sessions[rank]).expect("an open session");
        session.handle_input(NOW, bytes.as_ref())
    }

    /// Polls the output for a rank, and lets the session go on with deferred input, as a driver does.
    pub fn recv_bytes(&mut self, rank: usize) -> Vec<u8> {
        let mut session = self.server.session(self.sessions[rank]).expect("an open session");
        let (mut received, mut out) = (Vec::new(), [0; MESSAGE_BYTES]);
        loop {
            let before = received.len();
            while let Some(len) = session.poll_transmit(&mut out).expect("room for a message") {
                received.extend_from_slice(&out[..len]);
            }
            // An error stays, and its explanation is output.
            let _ = session.handle_input(NOW, b"");
            if let Some(len) = session.poll_transmit(&mut out).expect("room for a message") {
                received.extend_from_slice(&out[..len]);
            }
            if received.len() == before {
                return received;
            }
        }
    }

    /// Does as [`recv_bytes`](Self::recv_bytes), for messages of text.
    pub fn recv(&mut self, rank: usize) -> String {
        String::from_utf8(self.recv_bytes(rank)).expect("a message of text")
    }

    /// Sends whole messages of a rank, which the server accepts, and polls the output for it.
    pub fn request(&mut self, rank: usize, bytes: &(impl AsRef<[u8]> + ?Sized)) -> String {
        self.send(rank, bytes).expect("a message of the protocol");
        self.recv(rank)
    }

    /// Takes the numbers of the sessions that became ready.
    pub fn ready(&mut self) -> Vec<u32> {
        core::iter::from_fn(|| self.server.next_ready()).map(|id| id.0).collect()
    }

    /// Phase of a rank of the first job.
    pub fn phase(&self, rank: u32) -> Phase {
        let job = self.server.job(self.job).expect("the first job");
        job.member(Rank(rank)).expect("a member").phase()
    }

    /// Ranks of the first job that its fence waits for.
    pub fn missing(&self) -> Vec<u32> {
        let job = self.server.job(self.job).expect("the first job");
        job.missing().map(|rank| rank.0).collect()
    }

    /// Opens PMI 1.1 for each rank.
    pub fn init_all(&mut self) {
        for rank in 0..self.sessions.len() {
            let reply = self.request(rank, "cmd=init pmi_version=1 pmi_subversion=1\n");
            assert_eq!(reply, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
        }
    }
}

const SESSIONS: usize = 8;
const EXCHANGES: usize = 4;
const JOBS: usize = 4;
/// Size of each key-value space.
const CELLS: usize = 256;
const STORE_BYTES: usize = 1 << 18;
