//! A server for authors of launchers and resource managers: they start the processes, hand over one connected
//! socket for each rank, and react to events. The jobs are served as by `pmi-host`, PMI-1 and PMI-2 by the
//! first message of each rank.
//!
//! ```no_run
//! use pmi_std::server::{JobDescription, PmiServer, ServerEvent};
//! use std::os::fd::OwnedFd;
//! use std::os::unix::net::UnixStream;
//! use std::process::Command;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut server = PmiServer::new()?;
//! let (ours, theirs) = UnixStream::pair()?;
//! server.add_job(&JobDescription::new(b"job-1"), vec![ours])?;
//! let variables = [("PMI_FD", "0"), ("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("PMI_SNAPSHOT", "1")];
//! let mut rank = Command::new("./program").envs(variables).stdin(OwnedFd::from(theirs)).spawn()?;
//! server.run(|_, event| {
//!     if let ServerEvent::Aborted { code, .. } = event {
//!         eprintln!("aborted with {code:?}");
//!     }
//! })?;
//! rank.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! An owner with an event loop of its own watches the descriptor of the server
//! ([`AsFd`]) for input, calls [`handle_ready`](PmiServer::handle_ready) when there is some, and
//! takes the events with [`poll_event`](PmiServer::poll_event). No call but [`run`](PmiServer::run) waits.
//!
//! Ranks of this project's clients with `PMI_SNAPSHOT=1` in their environment share the values of their job
//! with the server in memory ([`snapshot`](crate::snapshot)): a get after a fence needs no message.
//!
//! All ranks of a job are on this machine. Published names and connections of jobs are handled inside, the
//! names unless the owner [serves them itself](PmiServer::serve_names_by_owner); a spawn, and the end of
//! processes, belong to the owner.

mod event;
mod kvs;
mod link;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use pmi_core::error::{Code, Misuse};
use pmi_core::ids::{KvsName, Rank, SessionId};
use pmi_core::server::{JobSpec, Member, Peer, Phase, Server, Storage};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_link::heap::Slab;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use thiserror::Error;

pub use self::event::{
    NameOperation, NameServiceId, NameServiceRequest, ServerEvent, SpawnId, SpawnProgram,
    SpawnRequest,
};
pub use self::kvs::HeapKvs;
use self::link::{ServedLink, ServerLink};
use crate::env::{SERVER_ATTRIBUTE, SERVER_PROJECT};
use crate::snapshot::server::Snapshots;
use crate::{BoundedBuf, Clock};
pub use pmi_core::ids::JobId;
pub use pmi_core::server::NameAnswer;

/// Storage of the jobs and sessions of a [`PmiServer`].
#[derive(Debug)]
struct HeapStorage;

impl Storage for HeapStorage {
    type Inbox = BoundedBuf;
    type Pending<T: 'static> = Slab<T>;
    type Sessions<T: 'static> = Slab<T>;
    type Kvs = HeapKvs;
    type Members = Vec<Member>;
    type Jobs<T: 'static> = Slab<T>;
    type Pmix = ();
}

/// A job to be served.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobDescription<'a> {
    /// Name of its key-value space, in PMI-2 its id; unique among the jobs of a server. At most 255 bytes.
    pub name: &'a [u8],
    /// Number of the program of each rank in the launch; 0 for ranks behind the end.
    pub appnums: &'a [i32],
    /// Largest number of processes of the launch; the number of ranks if it is missing.
    pub universe_size: Option<u32>,
    /// Job that has spawned this one.
    pub spawner: Option<JobId>,
    /// Pairs that are in the space before the first fence, as a spawn requests.
    pub preputs: &'a [(&'a [u8], &'a [u8])],
}

impl<'a> JobDescription<'a> {
    /// A job of this name, which no other has spawned.
    pub fn new(name: &'a [u8]) -> Self {
        Self { name, ..Self::default() }
    }
}

/// Error of a server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An error of the system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The call should not have been made; nothing has changed.
    #[error("{0}")]
    Misuse(#[from] Misuse),
}

/// A server of PMI for ranks that its owner has started.
pub struct PmiServer {
    server: Server<HeapStorage>,
    links: BTreeMap<SessionId, ServerLink>,
    events: VecDeque<ServerEvent>,
    snapshots: Snapshots,
    /// True if the owner serves published names.
    hands_names_up: bool,
    clock: Clock,
    epoll: OwnedFd,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for PmiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PmiServer").field("links", &self.links.len()).finish_non_exhaustive()
    }
}

/// Readable when [`PmiServer::handle_ready`] has something to do.
impl AsFd for PmiServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl PmiServer {
    /// A server without jobs.
    ///
    /// # Errors
    ///
    /// The error of the system if there is no free descriptor.
    pub fn new() -> io::Result<Self> {
        let server = Server::new(Slab::new(SESSIONS_MAX), Slab::new(JOBS_MAX), HeapKvs::default());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (links, events, clock) = (BTreeMap::new(), VecDeque::new(), Clock::start());
        let mut snapshots = Snapshots::default();
        snapshots.set_peers_max(segments_max());
        let (hands_names_up, scratch) = (false, vec![0; SCRATCH]);
        Ok(Self { server, links, events, snapshots, hands_names_up, clock, epoll, scratch })
    }

    /// Has the owner serve the published names of all jobs that it adds from now on, for example those of
    /// jobs under several servers: requests are [events](ServerEvent::NameRequested). Otherwise the jobs of
    /// this server share its own names.
    pub const fn serve_names_by_owner(&mut self) {
        self.hands_names_up = true;
    }

    /// Sets the number of ranks that may share memory with the server, each of which takes a descriptor
    /// besides its connection; a quarter of the limit on open files at first.
    pub fn set_segments_max(&mut self, count: usize) {
        self.snapshots.set_peers_max(count);
    }

    /// Adds a job with one rank for each stream, which is connected with `PMI_FD` of the process. The streams
    /// become non-blocking.
    ///
    /// # Errors
    ///
    /// [`ServerError::Misuse`] for an invalid name, or too many ranks or jobs; an error of the system.
    pub fn add_job(
        &mut self,
        description: &JobDescription<'_>,
        ranks: Vec<UnixStream>,
    ) -> Result<JobId, ServerError> {
        let size = u32::try_from(ranks.len()).map_err(|_| Misuse::NoRoom { what: "ranks" })?;
        let spawner = description.spawner.and_then(|job| self.server.job(job));
        let spec = JobSpec {
            name: KvsName::new(description.name)?,
            spawner: spawner.map(|job| job.name().clone()),
            universe_size: Some(description.universe_size.unwrap_or(size)),
            size: None,
            has_uplink: false,
        };
        let appnum = |rank: usize| description.appnums.get(rank).copied().unwrap_or_default();
        let members = (0..ranks.len()).map(|rank| Member::new(appnum(rank), 0)).collect();
        let job = self.server.add_job(spec, members, HeapKvs::default())?;
        if self.hands_names_up {
            self.server.hand_names_up(job)?;
        }
        let connected = self.preset(job, size, description).and_then(|()| {
            (0..).zip(ranks).try_for_each(|(rank, stream)| self.connect(job, rank, stream))
        });
        if connected.is_err() {
            self.remove_job(job)?;
        }
        connected.map(|()| job)
    }

    /// Stores what ranks read about their job.
    fn preset(
        &mut self,
        job: JobId,
        size: u32,
        description: &JobDescription<'_>,
    ) -> Result<(), ServerError> {
        let mut mapping = [0; 64];
        let nodes = (0..size).map(|_| 0);
        let len =
            write_mapping(nodes, &mut mapping).map_err(|_| Misuse::NoRoom { what: "ranks" })?;
        self.server.preset(job, PROCESS_MAPPING, mapping.get(..len).unwrap_or(b""))?;
        let universe = description.universe_size.unwrap_or(size).to_string();
        self.server.preset(job, b"universeSize", universe.as_bytes())?;
        self.server.preset(job, b"hasNameServ", b"TRUE")?;
        self.server.preset(job, SERVER_ATTRIBUTE, SERVER_PROJECT)?;
        for (key, value) in description.preputs {
            self.server.preput(job, key, value)?;
        }
        Ok(())
    }

    fn connect(&mut self, job: JobId, rank: u32, stream: UnixStream) -> Result<(), ServerError> {
        let peer = Peer::Member { job, rank: Rank(rank) };
        let id = self.server.open(peer, BoundedBuf::new(INBOX_MAX), Slab::new(THREADS_MAX))?;
        let link = ServerLink::new(stream, id, &self.epoll).inspect_err(|_| {
            self.server.close(id);
        })?;
        self.links.insert(id, link);
        Ok(())
    }

    /// Serves all ranks that have sent something, and those that wait for their answers. It does not wait.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls of the system; an error of a connection ends that connection only.
    pub fn handle_ready(&mut self) -> io::Result<()> {
        self.handle_within(Some(&rustix::event::Timespec::default())).map(drop)
    }

    /// The next event.
    ///
    /// Changes after: [`handle_ready`](Self::handle_ready).
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Number of ranks whose connection is open.
    pub fn connected(&self) -> usize {
        self.links.len()
    }

    /// Serves the ranks of all jobs until their connections have ended, those of jobs that `on_event` adds
    /// included.
    ///
    /// # Errors
    ///
    /// As for [`handle_ready`](Self::handle_ready).
    pub fn run(&mut self, mut on_event: impl FnMut(&mut Self, ServerEvent)) -> io::Result<()> {
        loop {
            // What an event has changed may be due.
            self.settle()?;
            while let Some(event) = self.poll_event() {
                on_event(self, event);
                self.settle()?;
            }
            if self.links.is_empty() {
                return Ok(());
            }
            self.handle_within(None)?;
        }
    }

    /// Answers a spawn with the job that was added for it, or with a code of PMI, such as -1.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the rank no longer waits for it.
    pub fn answer_spawn(
        &mut self,
        spawn: SpawnId,
        made: Result<JobId, i32>,
    ) -> Result<(), ServerError> {
        let made = made.map_err(Code);
        self.server.answer_spawn(spawn.session, spawn.exchange, made, &[])?;
        Ok(self.settle()?)
    }

    /// Answers a request about a published name.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the rank no longer waits for it.
    pub fn answer_name(
        &mut self,
        name: NameServiceId,
        answer: NameAnswer<'_>,
    ) -> Result<(), ServerError> {
        self.server.answer_name(name.0.session, name.0.exchange, answer)?;
        Ok(self.settle()?)
    }

    /// Records that the process of a rank has terminated: others that wait for it are reported by
    /// [`ServerEvent::FenceStuck`]. What it has sent before is served first.
    ///
    /// # Errors
    ///
    /// As for [`handle_ready`](Self::handle_ready).
    pub fn rank_exited(&mut self, job: JobId, rank: u32) -> io::Result<()> {
        let found = self.session_of(job, rank);
        if let Some(id) = found {
            while self.serve(id, true)? == ServedLink::HasMoved {}
            self.close(id);
        }
        self.server.member_gone(job, Rank(rank));
        self.settle()
    }

    /// Removes a job and the names that it has published, and closes the connections of its ranks.
    ///
    /// # Errors
    ///
    /// [`Misuse`] if there is no such job.
    pub fn remove_job(&mut self, job: JobId) -> Result<(), ServerError> {
        let is_of_job = |id: &SessionId| self.server.peer(*id).is_some_and(|(of, _)| of == job);
        let all: Vec<SessionId> = self.links.keys().copied().filter(is_of_job).collect();
        for id in all {
            self.links.remove(&id);
            self.server.close(id);
        }
        self.server.remove_job(job)?;
        self.snapshots.remove(job);
        Ok(())
    }

    fn session_of(&self, job: JobId, rank: u32) -> Option<SessionId> {
        self.server.job(job)?.member(Rank(rank))?.session()
    }

    /// Waits until a rank can be served, for `timeout` at most, and serves all such ranks.
    fn handle_within(&mut self, timeout: Option<&rustix::event::Timespec>) -> io::Result<()> {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(BATCH);
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in ready {
            let number = u32::try_from(event.data.u64());
            if let Ok(number) = number {
                self.serve(SessionId(number), true)?;
            }
        }
        self.settle()
    }

    /// Sends the responses that are due, and stores events, until nothing is left of both.
    fn settle(&mut self) -> io::Result<()> {
        loop {
            while let Some(id) = self.server.next_ready() {
                self.serve(id, false)?;
            }
            let Some(event) = self.server.poll_event() else { return Ok(()) };
            let event = ServerEvent::of(&mut self.server, event);
            self.events.extend(event);
        }
    }

    /// Moves the bytes of one connection.
    fn serve(&mut self, id: SessionId, reads: bool) -> io::Result<ServedLink> {
        let Some(link) = self.links.get_mut(&id) else { return Ok(ServedLink::Waits) };
        let Some((job, _)) = self.server.peer(id) else { return Ok(ServedLink::Waits) };
        let Some(session) = self.server.session(id) else { return Ok(ServedLink::Waits) };
        if reads {
            link.accept_segment(&self.snapshots);
        }
        let (now, mut events) = (self.clock.now(), Vec::new());
        let (peer, mut on_event) = (link.snapshot.clone(), |event| events.push(event));
        let mut session = self.snapshots.session(session, peer, job, &mut on_event);
        let state = link.serve(&mut session, now, &mut self.scratch, reads, &self.epoll)?;
        for event in events {
            self.events.extend(ServerEvent::of(&mut self.server, event));
        }
        if state == ServedLink::Ended {
            self.close(id);
        }
        Ok(state)
    }

    /// Closes a connection; its undelivered event counts.
    fn close(&mut self, id: SessionId) {
        // The descriptor leaves the set when it is closed.
        if self.links.remove(&id).is_none() {
            return;
        }
        let peer = self.server.peer(id);
        if let Some(event) = self.server.close(id) {
            self.events.extend(ServerEvent::of(&mut self.server, event));
        }
        if let Some((job, Some(rank))) = peer {
            let member = self.server.job(job).and_then(|job| job.member(rank));
            let is_finalized = member.is_some_and(|member| member.phase() == Phase::Finalized);
            self.events.push_back(ServerEvent::Disconnected { job, rank: rank.0, is_finalized });
        }
    }
}

/// Number of segments that leaves the owner most of its descriptors.
fn segments_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(SESSIONS_MAX, |limit| usize::try_from(limit / 4).unwrap_or(SESSIONS_MAX))
}

/// Ranks of all jobs, and jobs.
const SESSIONS_MAX: usize = 1 << 20;
const JOBS_MAX: usize = 1 << 16;

/// Requests of one rank that wait for their answers.
const THREADS_MAX: usize = 256;

/// Longest message of a rank, and so the memory that one rank can occupy.
const INBOX_MAX: usize = 1 << 20;

/// One half for reading and one for writing, where the longest reply fits.
const SCRATCH: usize = 16 * 1024;
const _: () = assert!(SCRATCH / 2 > pmi_core::limits::REPLY_BYTES);

/// Connections that one wait reports.
const BATCH: usize = 256;
