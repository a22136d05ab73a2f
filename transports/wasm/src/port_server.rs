//! Links of a server, driven by the run loop of the core.

use std::future::poll_fn;
use std::task::Poll;

use pmi_core::error::Misuse;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::limits::{MESSAGE_BYTES, REPLY_BYTES};
use pmi_core::server::{Event, JobSpec, Member, Peer, Server, Storage};
use pmi_core::storage::Slots;
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::Duration;
use pmi_link::heap::{BoundedBuf, Slab};
use pmi_link::{PumpError, PumpState, pump};

use crate::{AsyncLink, Clock, js};

/// Storage of the server of a [`PortServer`].
#[derive(Debug)]
pub struct HeapStorage;

/// Key-value store, allocated at once.
type HeapKvs = Arena<Vec<ArenaCell>, Vec<u8>>;

impl Storage for HeapStorage {
    type Inbox = BoundedBuf;
    type Pending<T: 'static> = Slab<T>;
    type Sessions<T: 'static> = Slab<T>;
    type Kvs = HeapKvs;
    type Members = Vec<Member>;
    type Jobs<T: 'static> = Slab<T>;
    type Pmix = ();
}

/// A server, with the links to its peers.
///
/// The owner [polls](Self::poll) it after every [change](Self::changed), and handles its events.
#[derive(Debug)]
pub struct PortServer<L> {
    server: Server<HeapStorage>,
    connections: Slab<PortConn<L>>,
    clock: Clock,
    scratch: Vec<u8>,
}

/// Events of a port server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortServerEvent {
    /// An event of the protocol server.
    Event(Event),
    /// A session is over, and its link was closed. A rank that was initialized and did not finalize
    /// is lost; the owner terminates the others, or reports to the server that [its process has
    /// ended](Server::member_gone).
    Closed {
        /// The job.
        job: JobId,
        /// The rank, if it is known.
        rank: Option<Rank>,
        /// The error that ended it, if there was one.
        error: Option<PumpError>,
    },
}

#[derive(Debug)]
struct PortConn<L> {
    session: SessionId,
    link: L,
    pump_state: PumpState<BoundedBuf>,
}

impl<L: AsyncLink> PortServer<L> {
    /// Creates a port server without jobs and links.
    pub fn new() -> Self {
        let (sessions, jobs) = (Slab::new(SESSIONS_MAX), Slab::new(JOBS_MAX));
        Self {
            server: Server::new(sessions, jobs, kvs(NAMES_BYTES)),
            connections: Slab::new(SESSIONS_MAX),
            clock: Clock::start(),
            scratch: vec![0; 2 * REPLY_BYTES.max(MESSAGE_BYTES)],
        }
    }

    /// Adds a job with a bound for the bytes of its keys and values.
    ///
    /// # Errors
    ///
    /// As for [`Server::add_job`].
    pub fn add_job(
        &mut self,
        spec: JobSpec,
        members: Vec<Member>,
        kvs_bytes: usize,
    ) -> Result<JobId, Misuse> {
        self.server.add_job(spec, members, kvs(kvs_bytes))
    }

    /// Opens a session with `peer` over `link`.
    ///
    /// # Errors
    ///
    /// As for [`Server::open`]; the link is closed then.
    pub fn add(&mut self, peer: Peer, link: L) -> Result<SessionId, Misuse> {
        let inbox = BoundedBuf::new(INBOX_BYTES);
        let session = self.server.open(peer, inbox, Slab::new(PENDING_MAX))?;
        let pump_state = PumpState::new(
            BoundedBuf::new(self.scratch.len()),
            BoundedBuf::new(self.scratch.len()),
        );
        // There is a connection for every session.
        let _ = self.connections.insert(PortConn { session, link, pump_state });
        Ok(session)
    }

    /// The server, to inspect it and to answer its requests.
    pub const fn server(&mut self) -> &mut Server<HeapStorage> {
        &mut self.server
    }

    /// True if no session is open.
    pub fn is_idle(&self) -> bool {
        self.connections.end() == 0
    }

    /// Drives all sessions as far as possible without waiting.
    pub fn poll(&mut self, mut on_event: impl FnMut(&mut Server<HeapStorage>, PortServerEvent)) {
        self.server.handle_timeout(self.clock.now());
        for at in 0..self.connections.end() {
            self.poll_connection(at, &mut on_event);
        }
        loop {
            let mut has_moved = false;
            while let Some(session) = self.server.next_ready() {
                has_moved = true;
                let is_its = |at: &usize| {
                    self.connections
                        .get(*at)
                        .is_some_and(|connection| connection.session == session)
                };
                if let Some(at) = (0..self.connections.end()).find(is_its) {
                    self.poll_connection(at, &mut on_event);
                }
            }
            while let Some(event) = self.server.poll_event() {
                has_moved = true;
                on_event(&mut self.server, PortServerEvent::Event(event));
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Waits until [`poll`](Self::poll) has something to do.
    pub async fn changed(&mut self) {
        poll_fn(|context| {
            let mut changed = Poll::Pending;
            if let Some(later) = self.server.poll_timeout() {
                let (wait, waker) = (later.since(self.clock.now()), context.waker().clone());
                if wait == Duration::ZERO {
                    return Poll::Ready(());
                }
                let milliseconds = u32::try_from(wait.as_micros().div_ceil(1000));
                js::call_later(milliseconds.unwrap_or(u32::MAX), || waker.wake());
            }
            for at in 0..self.connections.end() {
                let connection = self.connections.get_mut(at);
                if connection
                    .is_some_and(|connection| connection.link.poll_changed(context).is_ready())
                {
                    changed = Poll::Ready(());
                }
            }
            changed
        })
        .await;
    }

    fn poll_connection(
        &mut self,
        at: usize,
        on_event: &mut impl FnMut(&mut Server<HeapStorage>, PortServerEvent),
    ) {
        let Some(PortConn { session: id, link, pump_state }) = self.connections.get_mut(at) else {
            return;
        };
        let id = *id;
        let now = self.clock.now();
        let error = loop {
            let Some(mut session) = self.server.session(id) else { return };
            match pump(now, &mut session, link, pump_state, &mut self.scratch) {
                Ok(progress) if progress.again => {}
                Ok(progress) if progress.finished => break None,
                Ok(_) => return,
                Err(error) => break Some(error),
            }
        };
        let Some((job, rank)) = self.server.peer(id) else { return };
        drop(self.connections.remove(at));
        if let Some(event) = self.server.close(id) {
            on_event(&mut self.server, PortServerEvent::Event(event));
        }
        on_event(&mut self.server, PortServerEvent::Closed { job, rank, error });
    }
}

impl<L: AsyncLink> Default for PortServer<L> {
    fn default() -> Self {
        Self::new()
    }
}

fn kvs(bytes: usize) -> HeapKvs {
    let places = bytes / BYTES_A_KEY;
    Arena::new(vec![ArenaCell::FREE; places], vec![0; bytes])
}

/// Rather a key too many than one too few.
const BYTES_A_KEY: usize = 32;

/// For all names that ranks publish.
const NAMES_BYTES: usize = 64 * 1024;

/// A page has no more workers than that.
const SESSIONS_MAX: usize = 4096;
const JOBS_MAX: usize = 4096;

/// Upper bound of the pending answers of one client.
const PENDING_MAX: usize = 64;

/// Bound of the input that is kept for one client: a spawn is the longest message.
const INBOX_BYTES: usize = 64 * 1024;
