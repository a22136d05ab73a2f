//! The five calls of every driver.

use crate::error::{Full, PeerError};
use crate::time::Instant;

/// One end of one conversation, without the wire.
///
/// A machine consumes and produces bytes. It never reads a socket, a clock, a file, the
/// environment or a random number; its owner does, and calls these methods. The front page of this
/// crate has the run loop.
///
/// No order of calls is forbidden: a machine remembers pending responses, not their bytes, so
/// a late call loses nothing.
pub trait Machine {
    /// Notification for the owner.
    type Event<'a>
    where
        Self: 'a;

    /// Consumes a prefix of `bytes` and returns its length.
    ///
    /// Shape: the stream may be split anywhere. A short count is back-pressure: keep the
    /// rest, call the polls, and offer it again. An empty slice lets the machine continue with the
    /// input that it already holds.
    ///
    /// # Errors
    ///
    /// A [`PeerError`] is final. The machine may still have an explanation for the peer:
    /// transmit until [`poll_transmit`](Self::poll_transmit) returns `None`, then close the link.
    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError>;

    /// False if [`handle_input`](Self::handle_input) of no bytes would do nothing.
    ///
    /// Changes after: `handle_input`, `handle_timeout`, and for a server also after any call on
    /// another session of the same job.
    fn holds_input(&self) -> bool {
        true
    }

    /// Handles the time of [`poll_timeout`](Self::poll_timeout).
    ///
    /// An early or repeated call does nothing.
    ///
    /// # Errors
    ///
    /// As for [`handle_input`](Self::handle_input).
    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError>;

    /// Handles the end of the peer's stream.
    ///
    /// # Errors
    ///
    /// [`PeerError::LeftEarly`] where the protocol requires a `finalize` first.
    fn handle_end(&mut self, now: Instant) -> Result<(), PeerError>;

    /// Writes one whole message into `out` and returns its length, or `None` if nothing is pending.
    ///
    /// Changes after: `handle_input`, `handle_timeout`, and for a server also after any call on
    /// another session of the same job.
    ///
    /// # Errors
    ///
    /// [`Full`] with the required length of `out`; nothing has changed then.
    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full>;

    /// Gives the next thing the owner must know or act on.
    ///
    /// Changes after: `handle_input`, `handle_timeout`, `handle_end`.
    fn poll_event(&mut self) -> Option<Self::Event<'_>>;

    /// When to call `handle_timeout` next; `None` while nothing waits for time.
    ///
    /// Changes after: every other call.
    fn poll_timeout(&self) -> Option<Instant>;

    /// True when nothing more will be sent or taken: the owner closes the link.
    ///
    /// Changes after: `poll_transmit`, `handle_input`, `handle_end`.
    fn is_finished(&self) -> bool;
}
