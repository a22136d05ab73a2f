//! One run of a client under the real server.

use super::super::error::ConformError;
use super::super::verdict::shown;
use super::door::{self, Door};
use super::rank::{Ended, Rank, Talk};
use super::twist::{Deed, Twist, Way};
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank as RankId};
use pmi_core::limits::REPLY_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, JobSpec, Member, Peer, Server};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_host_base::storage::{Heap, Slab};
use pmi_std::{BoundedBuf, Clock, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Result of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// Ends of the ranks, by rank.
    pub(super) ends: Vec<Ended>,
    /// Requests of rank 0, in their order.
    pub(super) asked: Vec<String>,
    /// Number of changes.
    pub(super) changed_count: usize,
    /// Message by which a rank ended its session.
    pub(super) fault: Option<String>,
    /// First complaint of a rank that failed.
    pub(super) complaint: Option<String>,
    /// True if a rank accepted a value that no rank has put.
    pub(super) is_astray: bool,
    /// Standard output of the ranks, by rank.
    pub(super) outputs: Vec<String>,
}

struct Run {
    server: Server<Heap>,
    job: JobId,
    clock: Clock,
    twist: &'static Twist,
    ranks: Vec<Rank>,
    talks: Vec<Talk>,
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
    twist: &'static Twist,
    limit: Duration,
) -> Result<Ran, ConformError> {
    let mut run = Run::new(count, twist)?;
    let started = (0..count).try_for_each(|rank| run.start(words, rank, count));
    let until = Instant::now() + limit;
    let served = started.and_then(|()| run.serve(until));
    // No process is left behind, even after an error.
    run.end_all(Ended::Late);
    served?;
    Ok(run.told())
}

impl Run {
    fn new(count: u32, twist: &'static Twist) -> Result<Self, ConformError> {
        let members = usize::try_from(count).map_err(io::Error::other)?;
        let mut server = Server::new(Slab::new(members), Slab::new(1), Default::default());
        let name = match twist.way {
            Way::Space(name) => name(),
            _ => b"kvs_conform_0".to_vec(),
        };
        let spec = JobSpec {
            name: KvsName::new(&name).map_err(io::Error::other)?,
            spawner: None,
            universe_size: Some(count),
            has_uplink: false,
        };
        let job = server
            .add_job(spec, vec![Member::new(0, 0); members], Default::default())
            .map_err(io::Error::other)?;
        let mut mapping = [0; 64];
        let wants_mapping = !matches!(twist.way, Way::NoMapping);
        if let Ok(len) = write_mapping(std::iter::repeat_n(0, members), &mut mapping)
            && wants_mapping
        {
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
            twist,
            ranks: Vec::new(),
            talks: Vec::new(),
            listener: Self::door(twist).listener()?,
            // A mutation that shows in no answer has taken effect before the first one.
            changed_count: usize::from(matches!(twist.way, Way::NoMapping | Way::Door(_))),
            fault: None,
            aborted: None,
            failed: None,
        })
    }

    const fn door(twist: &Twist) -> Door {
        match twist.way {
            Way::Door(door) => door,
            _ => Door::Socket,
        }
    }

    fn start(&mut self, words: &[String], rank: u32, count: u32) -> Result<(), ConformError> {
        let mut entry = Self::door(self.twist).entry(self.listener.as_ref(), rank, count)?;
        let (link, theirs) = (entry.link.take(), entry.theirs.take());
        self.ranks.push(Rank::start(words, entry)?);
        drop(theirs);
        if let Some(link) = link {
            let peer = Peer::Member { job: self.job, rank: RankId(rank) };
            self.open(peer, Some(self.ranks.len() - 1), link)?;
        }
        Ok(())
    }

    fn open(&mut self, peer: Peer, rank: Option<usize>, link: Stream) -> Result<(), ConformError> {
        let opened = self.server.open(peer, BoundedBuf::new(INBOX_MAX), Slab::new(THREADS_MAX));
        self.talks.push(Talk::new(opened.map_err(io::Error::other)?, rank, link));
        Ok(())
    }

    fn serve(&mut self, until: Instant) -> Result<(), ConformError> {
        while self.ranks.iter().any(|rank| rank.ended.is_none()) && Instant::now() < until {
            self.wait()?;
            self.admit()?;
            for talk in 0..self.talks.len() {
                self.read(talk);
                self.converse(talk);
            }
            self.settle();
            for talk in &mut self.talks {
                talk.send(Instant::now());
            }
            for rank in &mut self.ranks {
                // Output that a process wrote before its end is readable when its end is noticed.
                rank.look_for_end()?;
                rank.listen();
            }
            self.end_with_the_failed();
        }
        Ok(())
    }

    /// Waits until a link is readable or a piece is due.
    fn wait(&self) -> Result<(), ConformError> {
        let now = Instant::now();
        let due = self.talks.iter().filter_map(Talk::due).min();
        let time = due.map_or(TURN, |due| due.saturating_duration_since(now).min(TURN));
        let links = self.talks.iter().filter_map(|talk| talk.link.as_ref());
        let mut watched: Vec<_> = links.map(|link| PollFd::new(link, PollFlags::IN)).collect();
        let nanos = time.subsec_nanos().into();
        let time = Timespec { tv_sec: time.as_secs().try_into().unwrap_or(0), tv_nsec: nanos };
        match poll(&mut watched, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(ConformError::System(error.into())),
        }
    }

    /// Accepts connections to the port.
    fn admit(&mut self) -> Result<(), ConformError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let room = 2 * self.ranks.len();
        if let Some(link) = door::caller(listener)?.filter(|_| self.talks.len() < room) {
            let peer = Peer::Unidentified { job: self.job, deadline: None, challenge: None };
            self.open(peer, None, link)?;
        }
        Ok(())
    }

    fn read(&mut self, at: usize) {
        let talk = &mut self.talks[at];
        if talk.link.is_none() {
            return;
        }
        if let Some(count) = talk.read(self.twist) {
            self.changed_count += count;
        } else if let Some(mut session) = self.server.session(talk.session) {
            // The end of the process carries the same information and more.
            let _ = session.handle_end(self.clock.now());
        }
    }

    /// Alternates output and input of one session until neither makes progress.
    fn converse(&mut self, at: usize) {
        let talk = &mut self.talks[at];
        let Some(mut session) = self.server.session(talk.session) else { return };
        let mut out = [0; 2 * REPLY_BYTES];
        let mut aborts = false;
        loop {
            let mut moves = false;
            while let Ok(Some(len)) = session.poll_transmit(&mut out) {
                moves = true;
                match self.twist.deed(&out[..len], talk.doubles) {
                    // Nothing is sent after the last answer.
                    _ if talk.is_done => {}
                    Deed::Send { bytes, is_changed, closes } => {
                        let is_changed = talk.queue(&bytes, self.twist) || is_changed;
                        self.changed_count += usize::from(is_changed);
                        talk.is_done = closes;
                    }
                    Deed::Abort => aborts = true,
                }
            }
            match session.handle_input(self.clock.now(), &talk.untaken) {
                Ok(len) => {
                    talk.untaken.drain(..len);
                    moves |= len > 0;
                }
                Err(error) => {
                    let whose = talk.rank.map_or("a rank".to_owned(), |at| format!("rank {at}"));
                    let heard = shown(&talk.untaken);
                    self.fault.get_or_insert(format!("{whose}: {error}, in {heard}"));
                    talk.untaken.clear();
                }
            }
            if !moves {
                talk.is_done |= session.is_finished();
                break;
            }
        }
        let known = self.server.peer(talk.session).and_then(|(_, rank)| rank);
        talk.rank = talk.rank.or(known.map(RankId::index));
        if aborts {
            self.abort();
        }
    }

    /// Answers requests that waited for other ranks, and handles the events of the server.
    fn settle(&mut self) {
        loop {
            while let Some(id) = self.server.next_ready() {
                if let Some(at) = self.talks.iter().position(|talk| talk.session == id) {
                    self.converse(at);
                }
            }
            match self.server.poll_event() {
                Some(Event::Aborted { code, message, .. }) => {
                    let code = code
                        .map_or("without a code".to_owned(), |code| format!("with code {code}"));
                    let text = shown(message.as_bytes());
                    let gap = if text.is_empty() { "" } else { ": " };
                    self.aborted.get_or_insert(format!("abort {code}{gap}{text}"));
                    self.end_all(Ended::Aborted);
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
    fn end_with_the_failed(&mut self) {
        let has_failed = |rank: &Rank| {
            matches!(rank.ended, Some(Ended::Signal(_)))
                || matches!(rank.ended, Some(Ended::Code(1..)))
        };
        if self.failed.is_none() && self.ranks.iter().any(has_failed) {
            self.failed = Some(Instant::now());
        }
        if self.failed.is_some_and(|since| since.elapsed() > GRACE) {
            self.end_all(Ended::WithJob);
        }
    }

    fn end_all(&mut self, how: Ended) {
        for rank in &mut self.ranks {
            rank.end(how);
            rank.listen();
        }
    }

    fn told(self) -> Ran {
        let of_first = self.talks.iter().find(|talk| talk.rank == Some(0));
        let tells = self.ranks.iter().any(Rank::tells_strange);
        Ran {
            ends: self.ranks.iter().map(|rank| rank.ended.unwrap_or(Ended::Late)).collect(),
            asked: of_first.map(|talk| talk.asked.clone()).unwrap_or_default(),
            changed_count: self.changed_count,
            fault: self.fault,
            complaint: self.ranks.iter().find_map(Rank::complaint).or(self.aborted),
            is_astray: tells || self.talks.iter().any(|talk| talk.is_astray),
            outputs: self.ranks.iter().map(Rank::output).collect(),
        }
    }
}

/// Interval between checks for ends of processes.
const TURN: Duration = Duration::from_millis(5);

/// Time limit for the other ranks after one has failed.
const GRACE: Duration = Duration::from_secs(1);

/// Bound of the input buffer, far above any message but a large spawn.
const INBOX_MAX: usize = 256 * 1024;

/// Number of threads of a client that may call at once.
const THREADS_MAX: usize = 256;
