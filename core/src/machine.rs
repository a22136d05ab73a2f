//! The five calls that everybody who can move bytes makes, and nothing else.

use crate::error::{Full, PeerError};
use crate::time::Instant;

/// One end of one conversation, without the wire.
///
/// A machine takes bytes and gives bytes. It never reads a socket, a clock, a file, the
/// environment or a random number; whoever owns it does, and calls these methods. The run loop
/// that does so correctly is written out once, on the page of this crate.
///
/// No order of calls is forbidden: a machine remembers what it owes, not the bytes of it, so
/// nothing is lost when the owner comes back late.
pub trait Machine {
    /// What the machine wants its owner to know or to do.
    type Event<'a>
    where
        Self: 'a;

    /// Takes a prefix of `bytes` and says how many it took.
    ///
    /// Shape: any split of the stream is fine. Taking less than all is back-pressure: keep the
    /// rest, call the polls, and offer it again. An empty slice lets the machine go on with what
    /// it already holds.
    /// Errors: a [`PeerError`] is final. The machine may still owe the peer an explanation:
    /// transmit until [`poll_transmit`](Self::poll_transmit) says `None`, then close the link.
    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError>;

    /// Says that the time given by [`poll_timeout`](Self::poll_timeout) has come.
    ///
    /// Calling it early or twice does nothing.
    /// Errors: as for [`handle_input`](Self::handle_input).
    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError>;

    /// Says that the peer sends no more.
    ///
    /// Errors: [`PeerError::LeftEarly`] where the protocol has the peer say goodbye first.
    fn handle_end(&mut self, now: Instant) -> Result<(), PeerError>;

    /// Writes one whole message into `out` and says its length, or `None` if nothing is owed.
    ///
    /// Errors: [`Full`] says how long `out` must be; nothing has changed then.
    /// Changes after: `handle_input`, `handle_timeout`, and for a server also after any call on
    /// another session of the same job.
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
