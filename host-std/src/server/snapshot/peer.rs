//! State of a connection whose client shares a snapshot.

use pmi_core::error::Code;
use pmi_std::snapshot::{DESCRIPTORS_MAX, SegmentReader, peek_descriptors};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Handle of a connection's state; its session and its link use it in turn.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct SnapshotPeer {
    /// True until the first bytes have arrived, for a rank that this launcher has started.
    pub(in crate::server) may_offer: bool,
    state: Option<Rc<RefCell<PeerState>>>,
}

#[derive(Debug)]
struct PeerState {
    _counted: Rc<()>,
    segment: SegmentReader,
    /// Generations to send with the next bytes.
    outgoing: Vec<Rc<OwnedFd>>,
    /// Number of the last publication among them, or sent.
    queued: Option<u32>,
    /// Number of the last publication that was sent.
    sent: Option<u32>,
}

impl SnapshotPeer {
    /// Takes the segment that came with the first bytes. Anything else that came is dropped, and the client
    /// is
    /// served by messages alone. `counted` counts the peers.
    pub(in crate::server) fn accept(&mut self, socket: impl AsFd, counted: &Rc<()>) {
        let mut received = match peek_descriptors(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            received => received.map_or(Vec::new(), |received| received.descriptors),
        };
        self.may_offer = false;
        let offered = received.pop().filter(|_| received.is_empty());
        let segment = offered.and_then(|file| SegmentReader::new(file).ok());
        self.state = segment.map(|segment| {
            let (_counted, outgoing) = (Rc::clone(counted), Vec::new());
            let (queued, sent) = (None, None);
            Rc::new(RefCell::new(PeerState { _counted, segment, outgoing, queued, sent }))
        });
    }

    /// True for a client that shares a snapshot.
    pub(super) const fn is_sharing(&self) -> bool {
        self.state.is_some()
    }

    /// Copies a new batch of requests into `batch`; false if there is none.
    pub(super) fn read_batch(&self, batch: &mut Vec<u8>) -> bool {
        let Some(state) = &self.state else { return false };
        state.borrow_mut().segment.read(batch).unwrap_or(false)
    }

    /// Tells the client that a put of a batch was refused.
    pub(super) fn set_refused(&self, code: Code) {
        if let Some(state) = &self.state {
            // It fails only if the client has made its own segment read-only.
            let _ = state.borrow().segment.set_refused(code);
        }
    }

    /// Number of the last publication that was queued for the client.
    pub(super) fn queued(&self) -> Option<u32> {
        self.state.as_ref().and_then(|state| state.borrow().queued)
    }

    /// Queues the generations that the client does not have, as `newer` selects them by the number of the
    /// last
    /// publication that was sent.
    pub(super) fn queue(&self, last: u32, newer: impl FnOnce(Option<u32>) -> Vec<Rc<OwnedFd>>) {
        if let Some(state) = &self.state {
            let state = &mut *state.borrow_mut();
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
        let state = &mut *self.state.as_ref()?.borrow_mut();
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
