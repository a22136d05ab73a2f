//! The session of a peer: a machine that handles the batch of the segment before a message, and publishes the
//! values of a fence before its end is reported.

use pmi_core::error::{Code, Full, Malformed, PeerError};
use pmi_core::ids::JobId;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, Server, SessionMut, Storage};
use pmi_core::time::Instant;
use pmi_core::wire::snapshot::split_message;
use pmi_core::wire::{Dialect, binary, pmi1, pmi2};

use super::Snapshots;
use super::changed_keys::TrackedKvs;
use super::peer::SnapshotPeer;

/// A session of a server, which may be wrapped.
pub trait ServerSession: Machine {
    /// Storage of the server.
    type Storage: Storage<Kvs: TrackedKvs>;

    /// The server, read-only.
    fn server(&self) -> &Server<Self::Storage>;

    /// The event of [`poll_event`](Machine::poll_event).
    fn take_event(&mut self) -> Option<Event>;
}

impl<S: Storage<Kvs: TrackedKvs>> ServerSession for SessionMut<'_, S> {
    type Storage = S;

    fn server(&self) -> &Server<S> {
        SessionMut::server(self)
    }

    fn take_event(&mut self) -> Option<Event> {
        self.poll_event()
    }
}

/// A session of the server with a snapshot. For a client without one it is the session itself.
pub struct SnapshotSession<'a, M> {
    inner: M,
    snapshots: &'a mut Snapshots,
    peer: SnapshotPeer,
    job: JobId,
    /// Takes the events of the requests of a batch: a session holds one at a time.
    on_event: &'a mut dyn FnMut(Event),
}

impl<'a, M: ServerSession> SnapshotSession<'a, M> {
    pub(super) fn new(
        inner: M,
        snapshots: &'a mut Snapshots,
        (peer, job): (SnapshotPeer, JobId),
        on_event: &'a mut dyn FnMut(Event),
    ) -> Self {
        Self { inner, snapshots, peer, job, on_event }
    }

    /// Handles the requests that the client has left in its segment, as if they had arrived before the
    /// message.
    fn handle_batch(&mut self, now: Instant) -> Result<(), PeerError> {
        let mut batch = std::mem::take(&mut self.snapshots.batch);
        let handled = match self.peer.read_batch(&mut batch) {
            true => self.handle_requests(now, &batch),
            false => Ok(()),
        };
        self.snapshots.batch = batch;
        handled
    }

    fn handle_requests(&mut self, now: Instant, batch: &[u8]) -> Result<(), PeerError> {
        let mut rest = batch;
        let malformed = |rest: &[u8]| {
            PeerError::Malformed(Malformed::new(
                batch.len() - rest.len(),
                "a request in the segment",
            ))
        };
        while !rest.is_empty() {
            let (message, more) = split_message(rest).ok_or_else(|| malformed(rest))?;
            if self.inner.handle_input(now, message)? < message.len() {
                return Err(malformed(rest));
            }
            self.discard_replies();
            while let Some(event) = self.inner.take_event() {
                (self.on_event)(event);
            }
            rest = more;
        }
        Ok(())
    }

    /// Takes the replies of a batch, of which the client needs to know only the first refusal.
    fn discard_replies(&mut self) {
        let mut reply = [0; pmi_core::limits::REPLY_BYTES];
        while let Ok(Some(len)) = self.inner.poll_transmit(&mut reply) {
            let code = code_of(reply.get(..len).unwrap_or(&reply));
            if !code.is_success() {
                self.peer.set_refused(code);
            }
        }
    }

    /// Publishes the values of fences that have ended, and queues what the client does not have.
    fn publish(&mut self) {
        if !self.peer.is_sharing() {
            return;
        }
        let Some(job) = self.inner.server().job(self.job) else { return };
        let snapshot = self.snapshots.jobs.entry(self.job.0).or_default();
        snapshot.publish(job);
        if let Some(last) = snapshot.last()
            && self.peer.queued() != Some(last)
        {
            self.peer.queue(last, |sent| snapshot.newer(sent));
        }
    }
}

impl<M: ServerSession> Machine for SnapshotSession<'_, M> {
    type Event<'b>
        = Event
    where
        Self: 'b;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        if !bytes.is_empty() {
            self.handle_batch(now)?;
        }
        self.inner.handle_input(now, bytes)
    }

    fn holds_input(&self) -> bool {
        self.inner.holds_input()
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.inner.handle_timeout(now)
    }

    fn handle_end(&mut self, now: Instant) -> Result<(), PeerError> {
        self.inner.handle_end(now)
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        self.publish();
        self.inner.poll_transmit(out)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.inner.take_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}

impl<M> std::fmt::Debug for SnapshotSession<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotSession").field("job", &self.job).finish_non_exhaustive()
    }
}

/// Code of a reply of the server itself.
fn code_of(reply: &[u8]) -> Code {
    let read = match Dialect::detect(reply) {
        Dialect::Lines => pmi1::read_reply(reply),
        Dialect::Frames(_) => pmi2::read_reply(reply),
        Dialect::Binary => binary::read_reply(reply),
    };
    read.map_or(Code::FAIL, |reply| reply.code)
}
