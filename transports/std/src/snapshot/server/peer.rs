//! State of a connection whose client shares a snapshot.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmi_core::error::Code;

use crate::snapshot::{DESCRIPTORS_MAX, SegmentReader, peek_descriptors};

/// Handle of a connection's state; its session and its link use it in turn.
#[derive(Clone, Debug, Default)]
pub struct SnapshotPeer {
    /// True until the first bytes have arrived, for a rank that may offer a segment.
    may_offer: bool,
    state: Option<Arc<Mutex<PeerState>>>,
}

#[derive(Debug)]
struct PeerState {
    _counted: Arc<()>,
    segment: SegmentReader,
    /// Generations to send with the next bytes.
    outgoing: Vec<Arc<OwnedFd>>,
    /// Number of the last publication among them, or sent.
    queued: Option<u32>,
    /// Number of the last publication that was sent.
    sent: Option<u32>,
}

impl SnapshotPeer {
    /// A rank whose first bytes may come with a segment. That of [`default`](Self::default) may not.
    pub fn of_rank() -> Self {
        Self { may_offer: true, state: None }
    }

    /// True until the first bytes have arrived, for a rank that may offer a segment.
    pub(super) const fn may_offer(&self) -> bool {
        self.may_offer
    }

    fn state(&self) -> Option<MutexGuard<'_, PeerState>> {
        let state = self.state.as_ref()?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the segment that came with the first bytes. Anything else that came is dropped, and the client
    /// is served by messages alone. `counted` counts the peers.
    pub(super) fn accept(&mut self, socket: impl AsFd, counted: &Arc<()>) {
        let mut received = match peek_descriptors(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            received => received.map_or(Vec::new(), |received| received.descriptors),
        };
        self.may_offer = false;
        let offered = received.pop().filter(|_| received.is_empty());
        let segment = offered.and_then(|file| SegmentReader::new(file).ok());
        self.state = segment.map(|segment| {
            let (_counted, outgoing) = (Arc::clone(counted), Vec::new());
            let (queued, sent) = (None, None);
            Arc::new(Mutex::new(PeerState { _counted, segment, outgoing, queued, sent }))
        });
    }

    /// True for a client that shares a snapshot.
    pub(super) const fn is_sharing(&self) -> bool {
        self.state.is_some()
    }

    /// Copies a new batch of requests into `batch`; false if there is none.
    pub(super) fn read_batch(&self, batch: &mut Vec<u8>) -> bool {
        self.state().is_some_and(|mut state| state.segment.read(batch).unwrap_or(false))
    }

    /// Tells the client that a put of a batch was refused.
    pub(super) fn set_refused(&self, code: Code) {
        if let Some(state) = self.state() {
            // It fails only if the client has made its own segment read-only.
            let _ = state.segment.set_refused(code);
        }
    }

    /// Number of the last publication that was queued for the client.
    pub(super) fn queued(&self) -> Option<u32> {
        self.state()?.queued
    }

    /// Queues the generations that the client does not have, as `newer` selects them by the number of the
    /// last publication that was sent.
    pub(super) fn queue(&self, last: u32, newer: impl FnOnce(Option<u32>) -> Vec<Arc<OwnedFd>>) {
        if let Some(mut state) = self.state() {
            state.outgoing = newer(state.sent);
            state.queued = Some(last);
            debug_assert!(state.outgoing.len() <= DESCRIPTORS_MAX);
        }
    }

    /// Has `send` send the queued generations, if there are any; they count as sent if it succeeds.
    pub(super) fn send<T>(
        &self,
        send: impl FnOnce(&[BorrowedFd<'_>]) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let mut state = self.state()?;
        if state.outgoing.is_empty() {
            return None;
        }
        let files: Vec<_> = state.outgoing.iter().map(|file| file.as_fd()).collect();
        let sent = send(&files);
        if sent.is_ok() {
            state.outgoing.clear();
            state.sent = state.queued;
        }
        Some(sent)
    }
}
