//! One run of a client under the real server.

use super::super::error::ConformError;
use super::super::verdict::shown;
use super::message::take_request;
use super::twist::Twist;
use crate::launch::env;
use crate::server::storage::{Heap, Table};
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank as RankId, SessionId};
use pmi_core::limits::REPLY_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, JobSpec, Member, Peer, Server};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_std::{Bounded, Clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What came of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// By rank.
    pub(super) ends: Vec<Ended>,
    /// What rank 0 asked, in its order.
    pub(super) asked: Vec<String>,
    /// How many messages were changed.
    pub(super) changed_count: usize,
    /// What a rank sent that ended its session.
    pub(super) fault: Option<String>,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Code(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// By us, because it asked for the end of the job or another rank did.
    Aborted,
    /// By us, because time was up.
    Late,
}

struct Run {
    server: Server<Heap>,
    job: JobId,
    clock: Clock,
    twist: Twist,
    ranks: Vec<Rank>,
    changed_count: usize,
    fault: Option<String>,
}

struct Rank {
    child: Child,
    session: SessionId,
    link: Option<UnixStream>,
    /// What the session has not taken.
    untaken: Vec<u8>,
    /// A copy of what is said, to take requests from.
    heard: Vec<u8>,
    asked: Vec<String>,
    /// Everything was said; the link is closed when it is sent.
    is_done: bool,
    /// Pieces of answers, and when each may go.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    ended: Option<Ended>,
}

/// Starts the program of `words` as `count` ranks and serves them until they end or `limit` is over.
///
/// Errors: it cannot be started, or the system refuses something.
pub(super) fn run(
    words: &[String],
    count: u32,
    twist: Twist,
    limit: Duration,
) -> Result<Ran, ConformError> {
    let mut run = Run::new(count, twist)?;
    let started = (0..count).try_for_each(|rank| run.start(words, rank, count));
    let until = Instant::now() + limit;
    let served = started.and_then(|()| run.serve(until));
    // Whatever happened, nobody is left behind.
    run.end_all(Ended::Late);
    served?;
    let Run { ranks, changed_count, fault, .. } = run;
    let ends = ranks.iter().map(|rank| rank.ended.unwrap_or(Ended::Late)).collect();
    let asked = ranks.into_iter().next().map(|rank| rank.asked).unwrap_or_default();
    Ok(Ran { ends, asked, changed_count, fault })
}

impl Run {
    fn new(count: u32, twist: Twist) -> Result<Self, ConformError> {
        let members = usize::try_from(count).map_err(io::Error::other)?;
        let mut server = Server::new(Table::new(members), Table::new(1), Default::default());
        let spec = JobSpec {
            name: KvsName::new(b"kvs_conform_0").map_err(io::Error::other)?,
            spawner: None,
            universe_size: Some(count),
            has_uplink: false,
        };
        let job = server
            .add_job(spec, vec![Member::new(0, 0); members], Default::default())
            .map_err(io::Error::other)?;
        let mut mapping = [0; 64];
        if let Ok(len) = write_mapping(std::iter::repeat_n(0, members), &mut mapping) {
            server.preset(job, PROCESS_MAPPING, &mapping[..len]).map_err(io::Error::other)?;
        }
        let (clock, ranks) = (Clock::start(), Vec::new());
        Ok(Self { server, job, clock, twist, ranks, changed_count: 0, fault: None })
    }

    fn start(&mut self, words: &[String], rank: u32, count: u32) -> Result<(), ConformError> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // This one end outlives the start of the program; nothing else is started meanwhile.
        rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).map_err(io::Error::from)?;
        let fd = theirs.as_raw_fd().unsigned_abs();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (name, args) = words.split_first().ok_or(ConformError::NoPlace("program"))?;
        let child = Command::new(name)
            .args(args)
            .env_clear()
            .envs(env::inherited(std::env::vars_os()))
            .envs(env::of_job(count, fd, &host))
            .envs(env::of_rank(rank, rank))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| ConformError::Start { name: name.clone(), error })?;
        let peer = Peer::Member { job: self.job, rank: RankId(rank) };
        let session = self
            .server
            .open(peer, Bounded::new(INBOX_MAX), Table::new(THREADS_MAX))
            .map_err(io::Error::other)?;
        self.ranks.push(Rank {
            child,
            session,
            link: Some(ours),
            untaken: Vec::new(),
            heard: Vec::new(),
            asked: Vec::new(),
            is_done: false,
            pieces: VecDeque::new(),
            ended: None,
        });
        Ok(())
    }

    fn serve(&mut self, until: Instant) -> Result<(), ConformError> {
        while self.ranks.iter().any(|rank| rank.ended.is_none()) && Instant::now() < until {
            self.wait()?;
            for rank in 0..self.ranks.len() {
                self.read(rank);
                self.converse(rank);
            }
            self.settle();
            for rank in &mut self.ranks {
                rank.send(Instant::now());
                rank.look_for_end()?;
            }
        }
        Ok(())
    }

    /// Waits until somebody says something or a piece may go.
    fn wait(&self) -> Result<(), ConformError> {
        let now = Instant::now();
        let due =
            self.ranks.iter().filter_map(|rank| rank.pieces.front()).map(|(when, _)| *when).min();
        let time = due.map_or(TURN, |due| due.saturating_duration_since(now).min(TURN));
        let links = self.ranks.iter().filter_map(|rank| rank.link.as_ref());
        let mut watched: Vec<_> = links.map(|link| PollFd::new(link, PollFlags::IN)).collect();
        let nanos = time.subsec_nanos().into();
        let time = Timespec { tv_sec: time.as_secs().try_into().unwrap_or(0), tv_nsec: nanos };
        match poll(&mut watched, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(ConformError::System(error.into())),
        }
    }

    fn read(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        let Some(link) = &mut rank.link else { return };
        let mut piece = [0; 4096];
        loop {
            match link.read(&mut piece) {
                Ok(len) if len > 0 => {
                    let bytes = &mut piece[..len];
                    rank.heard.extend_from_slice(bytes);
                    self.changed_count += usize::from(self.twist.request(bytes));
                    rank.untaken.extend_from_slice(bytes);
                    while let Some(word) = take_request(&mut rank.heard) {
                        rank.asked.push(word);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    rank.link = None;
                    if let Some(mut session) = self.server.session(rank.session) {
                        // How the process ends says the same and more.
                        let _ = session.handle_end(self.clock.now());
                    }
                    return;
                }
            }
        }
    }

    /// Lets one session answer and listen in turn until neither goes on.
    fn converse(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        let Some(mut session) = self.server.session(rank.session) else { return };
        let mut out = [0; 2 * REPLY_BYTES];
        loop {
            let mut moves = false;
            while let Ok(Some(len)) = session.poll_transmit(&mut out) {
                let (bytes, is_changed) = self.twist.answer(&out[..len]);
                self.changed_count += usize::from(is_changed);
                rank.queue(&bytes, self.twist);
                moves = true;
            }
            match session.handle_input(self.clock.now(), &rank.untaken) {
                Ok(len) => {
                    rank.untaken.drain(..len);
                    moves |= len > 0;
                }
                Err(error) => {
                    let heard = shown(&rank.untaken);
                    self.fault.get_or_insert(format!("rank {at}: {error}, in {heard}"));
                    rank.untaken.clear();
                }
            }
            if !moves {
                rank.is_done = session.is_finished();
                return;
            }
        }
    }

    /// Answers those who were held up by others, and does what the server wants done.
    fn settle(&mut self) {
        loop {
            while let Some(id) = self.server.next_ready() {
                if let Some(at) = self.ranks.iter().position(|rank| rank.session == id) {
                    self.converse(at);
                }
            }
            match self.server.poll_event() {
                Some(Event::Aborted { .. }) => self.end_all(Ended::Aborted),
                Some(Event::Spawn { session, exchange }) => {
                    self.server.spawn_read(session);
                    // It waits for exactly this answer.
                    let _ = self.server.answer_spawn(session, exchange, Err(Code::FAIL), &[]);
                }
                // A fence that cannot end is a run that does not, which is seen by the time.
                Some(_) => {}
                None => return,
            }
        }
    }

    fn end_all(&mut self, how: Ended) {
        for rank in self.ranks.iter_mut().filter(|rank| rank.ended.is_none()) {
            rank.ended = Some(how);
            if let Some(group) = i32::try_from(rank.child.id()).ok().and_then(Pid::from_raw) {
                // It may be gone by now.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = rank.child.wait();
        }
    }
}

impl Rank {
    fn queue(&mut self, bytes: &[u8], twist: Twist) {
        let (size, pause) = twist.pace();
        let mut when = self.pieces.back().map_or_else(Instant::now, |(when, _)| *when);
        for piece in bytes.chunks(size.min(bytes.len()).max(1)) {
            when += pause;
            self.pieces.push_back((when, piece.to_vec()));
        }
    }

    /// Writes the pieces that may go, as far as the link takes them.
    fn send(&mut self, now: Instant) {
        let Some(link) = &mut self.link else { return };
        while let Some((when, piece)) = self.pieces.front_mut() {
            if *when > now {
                return;
            }
            match link.write(piece) {
                Ok(len) if len == piece.len() => drop(self.pieces.pop_front()),
                Ok(len) => drop(piece.drain(..len)),
                // Not now, or nobody is there: the next reading tells.
                Err(_) => return,
            }
        }
        if self.is_done {
            self.link = None;
        }
    }

    fn look_for_end(&mut self) -> Result<(), ConformError> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            let signal = status.signal().map(Ended::Signal);
            self.ended = signal.or(Some(Ended::Code(status.code().unwrap_or(-1))));
        }
        Ok(())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Aborted => f.write_str("abort"),
            Self::Late => f.write_str("no end"),
        }
    }
}

/// How often ends of processes are looked for.
const TURN: Duration = Duration::from_millis(5);

/// Far above any message but a large spawn.
const INBOX_MAX: usize = 256 * 1024;

/// As many as threads of a client call at once.
const THREADS_MAX: usize = 256;
