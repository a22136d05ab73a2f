//! One run of a client under the real server.

use super::super::error::ConformError;
use super::super::verdict::shown;
use super::discovery::{self, Discovery};
use super::mutation::{Action, Mutation, MutationKind};
use super::rank_process::{ClientConnection, RankEnd, RankProcess};
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::limits::REPLY_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, JobSpec, Member, Peer, Server};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_host_base::storage::{Heap, Slab, UniqueSlots};
use pmi_std::{BoundedBuf, Clock, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Result of a run.
#[derive(Debug)]
pub(super) struct RunResult {
    /// Ends of the ranks, by rank.
    pub(super) exits: Vec<RankEnd>,
    /// Requests of rank 0, in their order.
    pub(super) requests: Vec<String>,
    /// Number of changes.
    pub(super) changed_count: usize,
    /// Message by which a rank ended its session.
    pub(super) fault: Option<String>,
    /// First complaint of a rank that failed.
    pub(super) complaint: Option<String>,
    /// True if a rank accepted a value that no rank has put.
    pub(super) has_foreign_value: bool,
    /// Standard output of the ranks, by rank.
    pub(super) outputs: Vec<String>,
}

struct ClientRun {
    server: Server<Heap>,
    job: JobId,
    clock: Clock,
    mutation: &'static Mutation,
    ranks: Vec<RankProcess>,
    connections: Vec<ClientConnection>,
    listener: Option<TcpListener>,
    changed_count: usize,
    fault: Option<String>,
    /// Code and message of a rank that aborted the job.
    aborted: Option<String>,
    /// Time of the first failure.
    failed: Option<Instant>,
}

/// Starts the program of `words` as `count` ranks and serves them until they end or `limit` is over.
///
/// # Errors
///
/// The program cannot be started, or another error of the system.
pub(super) fn run(
    words: &[String],
    count: u32,
    mutation: &'static Mutation,
    limit: Duration,
) -> Result<RunResult, ConformError> {
    let mut run = ClientRun::new(count, mutation)?;
    let started = (0..count).try_for_each(|rank| run.start(words, rank, count));
    let until = Instant::now() + limit;
    let served = started.and_then(|()| run.serve(until));
    // No process is left behind, even after an error.
    run.kill_all(RankEnd::Late);
    served?;
    Ok(run.into_result())
}

impl ClientRun {
    fn new(count: u32, mutation: &'static Mutation) -> Result<Self, ConformError> {
        let members = usize::try_from(count).map_err(io::Error::other)?;
        let mut server = Server::new(Slab::new(members), UniqueSlots::new(1), Default::default());
        let name = match mutation.kind {
            MutationKind::KvsName(name) => name(),
            _ => b"kvs_conform_0".to_vec(),
        };
        let spec = JobSpec {
            name: KvsName::new(&name).map_err(io::Error::other)?,
            spawner: None,
            universe_size: Some(count),
            size: None,
            has_uplink: false,
        };
        let job = server
            .add_job(spec, vec![Member::new(0, 0); members], Default::default())
            .map_err(io::Error::other)?;
        let mut mapping = [0; 64];
        if !matches!(mutation.kind, MutationKind::NoMapping) {
            // One block, which fits whatever the number of ranks is.
            let nodes = std::iter::repeat_n(0, members);
            let len = write_mapping(nodes, &mut mapping).map_err(io::Error::other)?;
            server.preset(job, PROCESS_MAPPING, &mapping[..len]).map_err(io::Error::other)?;
        }
        for (key, value) in [("universeSize", count.to_string().as_str()), ("hasNameServ", "TRUE")]
        {
            server.preset(job, key.as_bytes(), value.as_bytes()).map_err(io::Error::other)?;
        }
        Ok(Self {
            server,
            job,
            clock: Clock::start(),
            mutation,
            ranks: Vec::new(),
            connections: Vec::new(),
            listener: Self::discovery(mutation).listener()?,
            // A mutation that shows in no answer has taken effect before the first one.
            changed_count: usize::from(matches!(
                mutation.kind,
                MutationKind::NoMapping | MutationKind::Discovery(_)
            )),
            fault: None,
            aborted: None,
            failed: None,
        })
    }

    const fn discovery(mutation: &Mutation) -> Discovery {
        match mutation.kind {
            MutationKind::Discovery(discovery) => discovery,
            _ => Discovery::Socket,
        }
    }

    fn start(&mut self, words: &[String], rank: u32, count: u32) -> Result<(), ConformError> {
        let mut setup =
            Self::discovery(self.mutation).setup(self.listener.as_ref(), rank, count)?;
        let (link, theirs) = (setup.link.take(), setup.theirs.take());
        self.ranks.push(RankProcess::start(words, setup)?);
        drop(theirs);
        if let Some(link) = link {
            let peer = Peer::Member { job: self.job, rank: Rank(rank) };
            self.open(peer, Some(self.ranks.len() - 1), link)?;
        }
        Ok(())
    }

    fn open(&mut self, peer: Peer, rank: Option<usize>, link: Stream) -> Result<(), ConformError> {
        let opened = self.server.open(peer, BoundedBuf::new(INBOX_MAX), Slab::new(THREADS_MAX));
        self.connections.push(ClientConnection::new(opened.map_err(io::Error::other)?, rank, link));
        Ok(())
    }

    fn serve(&mut self, until: Instant) -> Result<(), ConformError> {
        while self.ranks.iter().any(|rank| rank.ended.is_none()) && Instant::now() < until {
            self.wait()?;
            self.accept()?;
            for connection in 0..self.connections.len() {
                self.read(connection);
                self.drive_session(connection);
            }
            self.handle_events();
            for connection in &mut self.connections {
                connection.send(Instant::now());
            }
            for rank in &mut self.ranks {
                // Output that a process wrote before its end is readable when its end is noticed.
                rank.check_exit()?;
                rank.read_output();
            }
            self.kill_after_failure();
        }
        Ok(())
    }

    /// Waits until a link is readable or a piece is due.
    fn wait(&self) -> Result<(), ConformError> {
        let now = Instant::now();
        let due = self.connections.iter().filter_map(ClientConnection::due).min();
        let time = due
            .map_or(CHECK_INTERVAL, |due| due.saturating_duration_since(now).min(CHECK_INTERVAL));
        let links = self.connections.iter().filter_map(|connection| connection.link.as_ref());
        let mut watched: Vec<_> = links.map(|link| PollFd::new(link, PollFlags::IN)).collect();
        let time = Timespec::try_from(time).unwrap_or_default();
        match poll(&mut watched, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(ConformError::System(error.into())),
        }
    }

    /// Accepts connections to the port.
    fn accept(&mut self) -> Result<(), ConformError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let room = 2 * self.ranks.len();
        if let Some(link) = discovery::accept(listener)?.filter(|_| self.connections.len() < room) {
            let peer = Peer::Unidentified { job: self.job, deadline: None, challenge: None };
            self.open(peer, None, link)?;
        }
        Ok(())
    }

    fn read(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if connection.link.is_none() {
            return;
        }
        if let Some(count) = connection.read(self.mutation) {
            self.changed_count += count;
        } else if let Some(mut session) = self.server.session(connection.session) {
            // The end of the process carries the same information and more.
            let _ = session.handle_end(self.clock.now());
        }
    }

    /// Alternates output and input of one session until neither makes progress.
    fn drive_session(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let Some(mut session) = self.server.session(connection.session) else { return };
        let mut out = [0; 2 * REPLY_BYTES];
        let mut aborts = false;
        loop {
            let mut moves = false;
            while let Ok(Some(len)) = session.poll_transmit(&mut out) {
                moves = true;
                match self.mutation.action(&out[..len], connection.doubles) {
                    // Nothing is sent after the last answer.
                    _ if connection.is_done => {}
                    Action::Send { bytes, is_changed, closes } => {
                        let is_changed = connection.queue(&bytes, self.mutation) || is_changed;
                        self.changed_count += usize::from(is_changed);
                        connection.is_done = closes;
                    }
                    Action::Abort => aborts = true,
                }
            }
            match session.handle_input(self.clock.now(), &connection.unhandled) {
                Ok(len) => {
                    connection.unhandled.drain(..len);
                    moves |= len > 0;
                }
                Err(error) => {
                    let whose =
                        connection.rank.map_or("a rank".to_owned(), |at| format!("rank {at}"));
                    let received = shown(&connection.unhandled);
                    self.fault.get_or_insert(format!("{whose}: {error}, in {received}"));
                    connection.unhandled.clear();
                }
            }
            if !moves {
                connection.is_done |= session.is_finished();
                break;
            }
        }
        let known = self.server.peer(connection.session).and_then(|(_, rank)| rank);
        connection.rank = connection.rank.or(known.map(Rank::index));
        if aborts {
            self.abort();
        }
    }

    /// Answers requests that waited for other ranks, and handles the events of the server.
    fn handle_events(&mut self) {
        loop {
            while let Some(id) = self.server.next_ready() {
                if let Some(at) =
                    self.connections.iter().position(|connection| connection.session == id)
                {
                    self.drive_session(at);
                }
            }
            match self.server.poll_event() {
                Some(Event::Aborted { code, message, .. }) => {
                    let code = code
                        .map_or("without a code".to_owned(), |code| format!("with code {code}"));
                    let text = shown(message.as_bytes());
                    let gap = if text.is_empty() { "" } else { ": " };
                    self.aborted.get_or_insert(format!("abort {code}{gap}{text}"));
                    self.kill_all(RankEnd::Aborted);
                }
                Some(Event::Spawn { session, exchange }) => {
                    self.server.spawn_read(session);
                    // The session waits for exactly this answer.
                    let _ = self.server.answer_spawn(session, exchange, Err(Code::FAIL), &[]);
                }
                Some(Event::FenceStuck { .. }) => {
                    self.failed.get_or_insert_with(Instant::now);
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Aborts the job as a launcher does when a rank on another node has asked for it.
    fn abort(&mut self) {
        self.changed_count += 1;
        for rank in &self.ranks {
            rank.signal(Signal::TERM);
        }
    }

    /// Ends the job after a rank has failed, as a launcher does; the others have a moment to report why
    /// they fail.
    fn kill_after_failure(&mut self) {
        let has_failed = |rank: &RankProcess| {
            matches!(rank.ended, Some(RankEnd::Signal(_)))
                || matches!(rank.ended, Some(RankEnd::Code(1..)))
        };
        if self.failed.is_none() && self.ranks.iter().any(has_failed) {
            self.failed = Some(Instant::now());
        }
        if self.failed.is_some_and(|since| since.elapsed() > GRACE) {
            self.kill_all(RankEnd::WithJob);
        }
    }

    fn kill_all(&mut self, how: RankEnd) {
        for rank in &mut self.ranks {
            rank.kill(how);
            rank.read_output();
        }
    }

    fn into_result(self) -> RunResult {
        let of_first = self.connections.iter().find(|connection| connection.rank == Some(0));
        let tells = self.ranks.iter().any(RankProcess::printed_foreign_value);
        RunResult {
            exits: self.ranks.iter().map(|rank| rank.ended.unwrap_or(RankEnd::Late)).collect(),
            requests: of_first.map(|connection| connection.requests.clone()).unwrap_or_default(),
            changed_count: self.changed_count,
            fault: self.fault,
            complaint: self.ranks.iter().find_map(RankProcess::complaint).or(self.aborted),
            has_foreign_value: tells
                || self.connections.iter().any(|connection| connection.has_foreign_value),
            outputs: self.ranks.iter().map(RankProcess::output).collect(),
        }
    }
}

/// Interval between checks for ends of processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Time limit for the other ranks after one has failed.
const GRACE: Duration = Duration::from_secs(1);

/// Bound of the input buffer, far above any message but a large spawn.
const INBOX_MAX: usize = 256 * 1024;

/// Number of threads of a client that may call at once.
const THREADS_MAX: usize = 256;
