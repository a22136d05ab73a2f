//! Links that speak for a server, driven by the run loop of the core.

use std::future::poll_fn;
use std::task::Poll;

use pmi_core::error::Misuse;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::limits::{MESSAGE_BYTES, REPLY_BYTES};
use pmi_core::server::{Event, Exchange, Job, JobSpec, Member, Peer, Server, Session, Storage};
use pmi_core::storage::Slots;
use pmi_core::store::{Arena, Place};
use pmi_core::time::Duration;
use pmi_link::heap::{Bounded, Table};
use pmi_link::{Carry, PumpError, pump};

use crate::{Awaited, Clock, js};

/// What the server of a [`Desk`] is made of.
#[derive(Debug)]
pub struct Heap;

/// Keys and values, in memory that is asked for at once.
type Space = Arena<Vec<Place>, Vec<u8>>;

impl Storage for Heap {
    type Inbox = Bounded;
    type Exchanges = Table<Exchange>;
    type Sessions = Table<Session<Bounded, Table<Exchange>>>;
    type Kvs = Space;
    type Members = Vec<Member>;
    type Jobs = Table<Job<Space, Vec<Member>>>;
}

/// A server, and a link to each of those it speaks with.
///
/// The owner turns it whenever something has [changed](Self::changed), and acts on what it is told.
#[derive(Debug)]
pub struct Desk<L> {
    server: Server<Heap>,
    lines: Table<Line<L>>,
    clock: Clock,
    scratch: Vec<u8>,
}

/// What a desk tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// What the server wants done.
    Event(Event),
    /// A conversation is over, and its link was closed. A rank that had begun and did not finalize is
    /// lost; the owner ends the others, or tells the server when
    /// [its process has ended](Server::member_gone).
    Over {
        /// The job.
        job: JobId,
        /// Who it was, as far as that was said.
        rank: Option<Rank>,
        /// What went wrong, if anything did.
        error: Option<PumpError>,
    },
}

#[derive(Debug)]
struct Line<L> {
    session: SessionId,
    link: L,
    carry: Carry<Bounded>,
}

impl<L: Awaited> Desk<L> {
    /// Makes one without jobs and links.
    pub fn new() -> Self {
        let (sessions, jobs) = (Table::new(SESSIONS_MAX), Table::new(JOBS_MAX));
        Self {
            server: Server::new(sessions, jobs, space(NAMES_BYTES)),
            lines: Table::new(SESSIONS_MAX),
            clock: Clock::start(),
            scratch: vec![0; 2 * REPLY_BYTES.max(MESSAGE_BYTES)],
        }
    }

    /// Adds a job with room for so many bytes of keys and values.
    ///
    /// # Errors
    ///
    /// As for [`Server::add_job`].
    pub fn add_job(
        &mut self,
        spec: JobSpec,
        members: Vec<Member>,
        space_bytes: usize,
    ) -> Result<JobId, Misuse> {
        self.server.add_job(spec, members, space(space_bytes))
    }

    /// Speaks with `peer` over `link` from now on.
    ///
    /// # Errors
    ///
    /// As for [`Server::open`]; the link is closed then.
    pub fn add(&mut self, peer: Peer, link: L) -> Result<SessionId, Misuse> {
        let inbox = Bounded::new(INBOX_BYTES);
        let session = self.server.open(peer, inbox, Table::new(EXCHANGES_MAX))?;
        let carry = Carry::new(Bounded::new(self.scratch.len()), Bounded::new(self.scratch.len()));
        // There is a line for every session.
        let _ = self.lines.insert(Line { session, link, carry });
        Ok(session)
    }

    /// The server, to look at and to answer what it wants done.
    pub const fn server(&mut self) -> &mut Server<Heap> {
        &mut self.server
    }

    /// Whether nobody is spoken with any more, or yet.
    pub fn is_quiet(&self) -> bool {
        self.lines.end() == 0
    }

    /// Goes on with everybody as far as possible without waiting.
    pub fn turn(&mut self, mut told: impl FnMut(&mut Server<Heap>, Notice)) {
        self.server.handle_timeout(self.clock.now());
        for at in 0..self.lines.end() {
            self.serve(at, &mut told);
        }
        loop {
            let mut has_moved = false;
            while let Some(session) = self.server.next_ready() {
                has_moved = true;
                let is_its =
                    |at: &usize| self.lines.get(*at).is_some_and(|line| line.session == session);
                if let Some(at) = (0..self.lines.end()).find(is_its) {
                    self.serve(at, &mut told);
                }
            }
            while let Some(event) = self.server.poll_event() {
                has_moved = true;
                told(&mut self.server, Notice::Event(event));
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Waits until there is something to [turn](Self::turn) for.
    pub async fn changed(&mut self) {
        poll_fn(|context| {
            let mut changed = Poll::Pending;
            if let Some(later) = self.server.poll_timeout() {
                let (wait, waker) = (later.since(self.clock.now()), context.waker().clone());
                if wait == Duration::ZERO {
                    return Poll::Ready(());
                }
                let milliseconds = u32::try_from(wait.as_micros().div_ceil(1000));
                js::later(milliseconds.unwrap_or(u32::MAX), || waker.wake());
            }
            for at in 0..self.lines.end() {
                let line = self.lines.get_mut(at);
                if line.is_some_and(|line| line.link.poll_changed(context).is_ready()) {
                    changed = Poll::Ready(());
                }
            }
            changed
        })
        .await;
    }

    fn serve(&mut self, at: usize, told: &mut impl FnMut(&mut Server<Heap>, Notice)) {
        let Some(Line { session: id, link, carry }) = self.lines.get_mut(at) else { return };
        let id = *id;
        let now = self.clock.now();
        let error = loop {
            let Some(mut session) = self.server.session(id) else { return };
            match pump(now, &mut session, link, carry, &mut self.scratch) {
                Ok(progress) if progress.again => {}
                Ok(progress) if progress.finished => break None,
                Ok(_) => return,
                Err(error) => break Some(error),
            }
        };
        let Some((job, rank)) = self.server.peer(id) else { return };
        drop(self.lines.remove(at));
        if let Some(event) = self.server.close(id) {
            told(&mut self.server, Notice::Event(event));
        }
        told(&mut self.server, Notice::Over { job, rank, error });
    }
}

impl<L: Awaited> Default for Desk<L> {
    fn default() -> Self {
        Self::new()
    }
}

fn space(bytes: usize) -> Space {
    let places = bytes / BYTES_A_KEY;
    Arena::new(vec![Place::FREE; places], vec![0; bytes])
}

/// Rather a key too many than one too few.
const BYTES_A_KEY: usize = 32;

/// For all names that ranks publish.
const NAMES_BYTES: usize = 64 * 1024;

/// A page has no more workers than that.
const SESSIONS_MAX: usize = 4096;
const JOBS_MAX: usize = 4096;

/// How many answers one client may wait for at once.
const EXCHANGES_MAX: usize = 64;

/// What one client can make us hold: a spawn is the longest message.
const INBOX_BYTES: usize = 64 * 1024;
