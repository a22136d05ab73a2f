//! Link between a session and its peer.

use pmi_core::error::{Full, PeerError};
use pmi_core::machine::Machine;
use pmi_core::server::{Peer, SessionMut, Storage};
use pmi_core::time::Instant;
use pmi_core::wire::{Framed, binary, pmi1, pmi2};

/// One connection.
pub(super) struct Link {
    pub(super) peer: Peer,
    pub(super) id: Option<pmi_core::ids::SessionId>,
    /// Bytes that are sent and not taken yet.
    pending: Vec<u8>,
    /// True if bytes were sent since the session was served.
    pub(super) has_news: bool,
    /// Bytes of the server that are not checked yet.
    pub(super) said: Vec<u8>,
    /// First error of the session, which must stay the same.
    failed: Option<PeerError>,
}

impl Link {
    pub(super) fn new(peer: Peer) -> Self {
        let (pending, said) = (Vec::new(), Vec::new());
        Self { peer, id: None, pending, has_news: false, said, failed: None }
    }

    /// Puts bytes on the wire, if there is room for them.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        if self.pending.len() < 8 * 1024 {
            self.pending.extend(bytes);
            self.has_news = true;
        }
    }

    /// Resets the link after its session was closed.
    pub(super) fn reset(&mut self) {
        *self = Self { said: std::mem::take(&mut self.said), ..Self::new(self.peer) };
    }

    /// Moves bytes in both directions, as long as any move; returns true if any did.
    pub(super) fn serve<S: Storage>(
        &mut self,
        mut session: SessionMut<'_, S>,
        now: Instant,
    ) -> bool {
        self.has_news = false;
        let mut moved = false;
        for round in 0.. {
            assert!(round < 10_000, "a session does not come to rest");
            let taken = self.hand_in(&mut session, now);
            // Also after an error, since the explanation is due.
            let out = self.recv(&mut session);
            if !out && !taken {
                break;
            }
            moved = true;
        }
        moved
    }

    fn recv<S: Storage>(&mut self, session: &mut SessionMut<'_, S>) -> bool {
        let before = self.said.len();
        while let Some(message) = transmitted(session) {
            assert_reads_well(&message);
            self.said.extend(message);
        }
        self.said.len() > before
    }

    fn hand_in<S: Storage>(&mut self, session: &mut SessionMut<'_, S>, now: Instant) -> bool {
        if !session.holds_input() {
            assert_eq!(session.handle_input(now, b""), Ok(0), "a driver may leave out this call");
        }
        match session.handle_input(now, &self.pending) {
            Ok(taken) => {
                assert_eq!(self.failed, None, "a session that failed works again");
                assert!(taken <= self.pending.len());
                self.pending.drain(..taken);
                taken > 0
            }
            Err(error) => {
                assert_eq!(*self.failed.get_or_insert(error), error, "the first error stays");
                self.pending.clear();
                false
            }
        }
    }
}

/// Polls one message, in exactly the room that it needs.
fn transmitted<S: Storage>(session: &mut SessionMut<'_, S>) -> Option<Vec<u8>> {
    let needed = match session.poll_transmit(&mut []) {
        Ok(None) => return None,
        Ok(Some(len)) => panic!("{len} bytes in no room"),
        Err(Full { needed }) => needed,
    };
    assert!(needed <= pmi_core::limits::REPLY_BYTES, "{needed} bytes for one answer");
    // A poll with too little room changes nothing.
    assert_eq!(session.poll_transmit(&mut vec![0; needed - 1]), Err(Full { needed }));
    let mut out = vec![0; needed];
    assert_eq!(session.poll_transmit(&mut out), Ok(Some(needed)));
    Some(out)
}

/// Checks that the server's output is one message with a meaning.
fn assert_reads_well(message: &[u8]) {
    let text = String::from_utf8_lossy(message);
    let whole = Ok(Framed::Whole(message.len()));
    match message.first() {
        Some(b'c') => {
            assert_eq!(pmi1::frame_reply(message), whole, "{text}");
            assert!(pmi1::read_reply(message).is_ok(), "{text}");
        }
        Some(&binary::MAGIC) => {
            assert_eq!(binary::frame(message), whole, "{message:?}");
            assert!(binary::read_reply(message).is_ok(), "{message:?}");
        }
        _ => {
            assert_eq!(pmi2::frame(message), whole, "{text}");
            assert!(pmi2::read_reply(message).is_ok(), "{text}");
            assert!(message.ends_with(b";"), "{text}");
        }
    }
}
