//! The protocol server of one job and its connections.

use crate::launch::plan::Plan;
use crate::server::flush::{Connection, Occasion, Served};
use crate::server::ready::{Poller, Token};
use crate::server::storage::{Heap, Table};
use crate::verdict::{Failure, Phase};
use pmi_core::error::{Code, PeerError};
use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::server::{self, Event, JobSpec, Member, Peer, Server};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_std::{Bounded, Clock};
use std::io;
use std::os::unix::net::UnixStream;

/// Serves the ranks of one job.
#[derive(Debug)]
pub struct Service {
    server: Server<Heap>,
    job: JobId,
    /// By rank.
    connections: Vec<Connection>,
    news: Vec<News>,
    clock: Clock,
    /// One buffer for whichever connection is served.
    scratch: Box<[u8]>,
}

/// What the rest of the launcher must know.
#[derive(Debug)]
pub enum News {
    /// A rank did, or wants, what ends the job.
    Failed(Failure),
    /// A rank has closed its connection.
    Closed {
        /// Which rank.
        rank: u32,
    },
}

impl Service {
    /// Sets up the job of `plan`, with all its ranks on one node.
    ///
    /// Errors: those of a plan that cannot be served, which name what is wrong.
    pub fn new(plan: &Plan) -> io::Result<Self> {
        let count = usize::try_from(plan.ranks).unwrap_or(usize::MAX);
        let mut server = Server::new(Table::new(count), Table::new(1), Default::default());
        let spec = JobSpec {
            name: KvsName::new(plan.kvsname.as_bytes()).map_err(io::Error::other)?,
            spawner: None,
            universe_size: Some(plan.ranks),
            has_uplink: false,
        };
        // All ranks run the first and only program of the launch, on the first and only node.
        let job = server
            .add_job(spec, vec![Member::new(0, 0); count], Default::default())
            .map_err(io::Error::other)?;
        let mut mapping = [0; 64];
        let nodes = std::iter::repeat_n(0, count);
        if let Ok(len) = write_mapping(nodes, &mut mapping) {
            server.preset(job, PROCESS_MAPPING, &mapping[..len]).map_err(io::Error::other)?;
        }
        Ok(Self {
            server,
            job,
            connections: Vec::with_capacity(count),
            news: Vec::new(),
            clock: Clock::start(),
            scratch: vec![0; SCRATCH].into(),
        })
    }

    /// Takes over our end of the socket of `rank`. Ranks come in order.
    ///
    /// Errors: those of the system.
    pub fn add(&mut self, rank: u32, link: UnixStream, poller: &Poller) -> io::Result<()> {
        let peer = Peer::Member { job: self.job, rank: Rank(rank) };
        let session = self
            .server
            .open(peer, Bounded::new(INBOX_MAX), Table::new(THREADS_MAX))
            .map_err(io::Error::other)?;
        self.connections.push(Connection::new(session, link, Token::Link(rank), poller)?);
        Ok(())
    }

    /// Serves `rank`, whose socket has something or takes something.
    ///
    /// Errors: those of the system's readiness calls; trouble with the peer is news.
    pub fn ready(&mut self, rank: u32, poller: &Poller) -> io::Result<()> {
        self.serve(rank, poller, Occasion::Ready)
    }

    /// Takes up everything that `rank` said before it ended.
    ///
    /// Errors: as for [`ready`](Self::ready).
    pub fn drain(&mut self, rank: u32, poller: &Poller) -> io::Result<()> {
        self.serve(rank, poller, Occasion::Ended)
    }

    /// Serves everybody who is owed something or was held up by others.
    ///
    /// Errors: as for [`ready`](Self::ready).
    pub fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        while let Some(id) = self.server.next_ready() {
            if let Some((_, Some(rank))) = self.server.peer(id) {
                self.serve(rank.0, poller, Occasion::Owed)?;
            }
        }
        Ok(())
    }

    /// The next thing the rest of the launcher must know. After each, there may be somebody to
    /// [`flush`](Self::flush).
    pub fn next_news(&mut self) -> Option<News> {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Aborted { rank, code, message, .. } => {
                    let failure = Failure::Abort {
                        rank: rank.0,
                        code: code.unwrap_or(ABORT_CODE),
                        message: printable(message.as_bytes()),
                    };
                    self.news.push(News::Failed(failure));
                }
                Event::FenceStuck { .. } => self.news.extend(self.missing().map(News::Failed)),
                Event::Spawn { session, exchange } => {
                    self.server.spawn_read(session);
                    // It waits for exactly this answer, so there is nobody to tell of a refusal.
                    let _ = self.server.answer_spawn(session, exchange, Err(Code::FAIL));
                }
                // The later value holds, as with every known server.
                Event::PutTwice { .. } => {}
                // There are no callers and no other nodes.
                _ => {}
            }
        }
        if self.news.is_empty() { None } else { Some(self.news.remove(0)) }
    }

    /// Notes that `rank` will never be heard again, so that nobody waits for it.
    pub fn set_gone(&mut self, rank: u32) {
        let phase = self.phase(rank);
        let Some(connection) = self.connections.get_mut(index(rank)) else { return };
        connection.close();
        // For the server a rank that is gone is gone; for judging its end it matters how it left.
        connection.last_phase = Some(phase);
        self.server.close(connection.session);
        self.server.member_gone(self.job, Rank(rank));
    }

    /// How far `rank` has come.
    pub fn phase(&self, rank: u32) -> Phase {
        if let Some(phase) =
            self.connections.get(index(rank)).and_then(|connection| connection.last_phase)
        {
            return phase;
        }
        let member = self.server.job(self.job).and_then(|job| job.member(Rank(rank)));
        match member.map(Member::phase) {
            None | Some(server::Phase::Absent | server::Phase::Connected) => Phase::Silent,
            Some(server::Phase::Open | server::Phase::Lost) => Phase::Open,
            Some(server::Phase::Finalized) => Phase::Finalized,
        }
    }

    /// True when the connection of `rank` has ended.
    pub fn is_closed(&self, rank: u32) -> bool {
        self.connections.get(index(rank)).is_none_or(Connection::is_closed)
    }

    fn serve(&mut self, rank: u32, poller: &Poller, occasion: Occasion) -> io::Result<()> {
        let now = self.clock.now();
        let Some(connection) = self.connections.get_mut(index(rank)) else { return Ok(()) };
        let Some(mut session) = self.server.session(connection.session) else { return Ok(()) };
        let wire = (Token::Link(rank), poller);
        match connection.serve(&mut session, now, &mut self.scratch, occasion, wire)? {
            Served::Waiting => {}
            Served::Closed => self.news.push(News::Closed { rank }),
            Served::Broken(error, heard_bytes) => {
                let heard = &self.scratch[..heard_bytes.min(EXCERPT_MAX)];
                self.news.push(News::Failed(nonsense(rank, error, heard)));
            }
            // Only after a goodbye: some clients crash when the stream ends at any other moment.
            Served::Finished if self.phase(rank) == Phase::Finalized => {
                self.connections[index(rank)].close();
            }
            Served::Finished => {}
        }
        Ok(())
    }

    fn missing(&self) -> Option<Failure> {
        let job = self.server.job(self.job)?;
        // Not those whose connection has just ended: how their process ends will say more, and soon.
        let has_left = |rank: &Rank| match job.member(*rank).map(Member::phase) {
            Some(server::Phase::Finalized) => true,
            Some(server::Phase::Lost) => self
                .connections
                .get(rank.index())
                .is_some_and(|connection| connection.last_phase.is_some()),
            _ => false,
        };
        let gone_count = job.missing().filter(has_left).count();
        if gone_count == 0 {
            return None;
        }
        Some(Failure::Missing {
            gone_count,
            gone: job.missing().filter(has_left).take(NAMED_MAX).map(|rank| rank.0).collect(),
            waiting_count: usize::try_from(job.fence().inside()).unwrap_or(usize::MAX),
        })
    }
}

fn nonsense(rank: u32, error: PeerError, heard: &[u8]) -> Failure {
    let mut why = match error {
        PeerError::Malformed(_) | PeerError::MessageTooLong { .. } => {
            format!("sent something that is not PMI: {error}")
        }
        _ => format!("cannot be served: {error}"),
    };
    if !heard.is_empty() {
        why.push_str(&format!(", in '{}'", heard.escape_ascii()));
    }
    Failure::Nonsense { rank, why }
}

/// What a rank says, safe to show on a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn index(rank: u32) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}

/// The exit code of an abort that names none.
const ABORT_CODE: i32 = 1;

/// How many answers one client may wait for at once: as many as threads of it call PMI.
const THREADS_MAX: usize = 256;

/// How many missing ranks are named; more would not be read.
const NAMED_MAX: usize = 8;

/// How much of what a peer sent is shown when it was nonsense.
const EXCERPT_MAX: usize = 40;

/// Far above any message but a large spawn, and a bound on what one client can make us hold.
const INBOX_MAX: usize = 256 * 1024;

/// One half is for reading and one for writing, where the longest reply fits several times.
pub(super) const SCRATCH: usize = 16 * 1024;
const _: () = assert!(SCRATCH / 2 > 2 * pmi_core::limits::REPLY_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_says_is_made_harmless() {
        assert_eq!(printable(b" bye\x1b[2J\nbye \n"), "bye [2J bye");
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
