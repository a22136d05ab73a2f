//! Second connection of a process, on which the server sends notices.
//!
//! | state | sent | reply | notice | end of stream |
//! |---|---|---|---|---|
//! | Fresh | → Opening | – | – | → Failed |
//! | Opening | – | → Open, or Failed | → Failed | → Failed |
//! | Open | – | → Failed | event | → Ended |
//! | Ended, Failed | – | not read | not read | stays |
//!
//! A listener sends one request, which identifies its process; everything else is unsolicited. So it
//! has neither tickets nor a queue: one message at a time is held until its owner has polled it.

use super::dialect::ClientDialect;
use super::inflight::reported;
use super::state::agree;
use crate::command::{Answer, Notice, Reply, Request, Text, Verb, Version};
use crate::error::{Full, Misuse, PeerError};
use crate::ids::Word;
use crate::limits::WORD_BYTES;
use crate::machine::Machine;
use crate::storage::Buffer;
use crate::time::Instant;
use crate::wire::{Framed, WriteError, pmi1};

/// Size of a buffer that holds every message a server sends on a second connection.
pub const LISTENER_BYTES: usize = 256;

/// The client's end of a second connection (`init_oob`).
///
/// ```
/// use pmi_core::client::{Listener, ListenerEvent};
/// use pmi_core::command::{Notice, Version};
/// use pmi_core::machine::Machine;
/// use pmi_core::time::Instant;
/// # use pmi_core::client::LISTENER_BYTES;
///
/// let buffer = pmi_core::storage::ArrayBuffer::<LISTENER_BYTES>::new();
/// let mut listener = Listener::new(buffer, 1, Some("SIGUSR1"), Version::V1_1)?;
/// let mut line = [0; 128];
/// let len = listener.poll_transmit(&mut line)?.expect("the opening");
/// assert_eq!(&line[..len], b"cmd=init_oob signal=SIGUSR1 pmi_version=1 pmi_subversion=1 pmiid=1\n");
///
/// let now = Instant::ZERO;
/// listener.handle_input(now, b"cmd=response_to_init_oob rc=0 pmi_version=1 pmi_subversion=1\n")?;
/// assert_eq!(listener.poll_event(), Some(ListenerEvent::Opened(Version::V1_1)));
/// listener.handle_input(now, b"cmd=checkpoint\n")?;
/// assert_eq!(listener.poll_event(), Some(ListenerEvent::Notice(Notice::Checkpoint)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listener<B> {
    buffer: B,
    id: u64,
    signal: Option<Word>,
    state: ListenerState,
    event: Option<ListenerEvent>,
}

/// Event of a second connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ListenerEvent {
    /// The server has identified the process and will use this version.
    Opened(Version),
    /// An unsolicited message of the server.
    Notice(Notice),
}

/// State of the second connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerState {
    Fresh { asks: Version },
    Opening { asked: Version },
    Open { version: Version },
    Ended,
    Failed(PeerError),
}

impl<B: Buffer> Listener<B> {
    /// Creates a listener that has sent nothing yet.
    ///
    /// Shape: `buffer` is empty; [`LISTENER_BYTES`] are enough. `id` is the identity under which the
    /// process connects (`PMI_ID`). `signal` is the name of a signal that shall follow every notice,
    /// for a process that does not watch the connection itself. PMI-1 has notices in lines, PMI-2 in
    /// frames.
    ///
    /// # Errors
    ///
    /// [`Misuse::NotRepresentable`] for a version or a signal that the opening cannot express,
    /// [`Misuse::Length`] for a signal that is longer than a word.
    pub fn new(buffer: B, id: u64, signal: Option<&str>, asks: Version) -> Result<Self, Misuse> {
        if !matches!(asks, Version::V1_1 | Version::V1_2 | Version::V2_0) {
            return Err(Misuse::NotRepresentable { what: "an unsupported version" });
        }
        let signal = signal.map(word).transpose()?;
        let listener =
            Self { buffer, id, signal, state: ListenerState::Fresh { asks }, event: None };
        match listener.write(asks, &mut []) {
            Err(WriteError::Misuse(misuse)) => Err(misuse),
            _ => Ok(listener),
        }
    }

    /// Agreed version, once the server has answered.
    pub const fn version(&self) -> Option<Version> {
        match self.state {
            ListenerState::Open { version } => Some(version),
            _ => None,
        }
    }

    fn write(&self, version: Version, out: &mut [u8]) -> Result<usize, WriteError> {
        let signal = self.signal.as_ref().map(|signal| Text::plain(signal.as_bytes()));
        let request = Request::OutOfBand { id: Some(self.id), signal, version };
        pmi1::write_request(&request, b"", out)
    }

    /// Takes input until a message is whole.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut rest = bytes;
        while self.event.is_none() && !rest.is_empty() {
            let dialect = ClientDialect::of(self.version());
            let (taken, after) = rest.split_at(dialect.stride(self.buffer.as_slice(), rest));
            if self.buffer.extend(taken).is_err() {
                let limit_bytes = self.buffer.as_slice().len() + self.buffer.room();
                return Err(PeerError::MessageTooLong { limit_bytes });
            }
            rest = after;
            if let Framed::Whole(_) = dialect.frame(self.buffer.as_slice())? {
                let reply = dialect.read(self.buffer.as_slice())?;
                let (state, event) = self.state.on_reply(&reply)?;
                (self.state, self.event) = (state, Some(event));
                self.buffer.clear();
            }
        }
        Ok(bytes.len() - rest.len())
    }

    fn fail(&mut self, error: PeerError) -> PeerError {
        self.buffer.clear();
        self.state = ListenerState::Failed(error);
        error
    }
}

/// Checks the name of a signal for use on the wire.
fn word(signal: &str) -> Result<Word, Misuse> {
    let (len_bytes, limit_bytes) = (signal.len(), WORD_BYTES);
    if len_bytes == 0 || len_bytes > limit_bytes {
        return Err(Misuse::Length { what: "signal", len_bytes, limit_bytes });
    }
    let word = Word::new(signal.as_bytes());
    if word.as_bytes() != signal.as_bytes() {
        return Err(Misuse::NotRepresentable {
            what: "a signal with anything but letters and digits",
        });
    }
    Ok(word)
}

impl ListenerState {
    fn on_reply(self, reply: &Reply<'_>) -> Result<(Self, ListenerEvent), PeerError> {
        let out_of_order =
            |expected| Err(PeerError::OutOfOrder { got: reported(reply.to), expected });
        match (self, reply.to, reply.answer) {
            (Self::Opening { asked }, Verb::OutOfBand, _) => {
                let version = agree(asked, reply)?;
                Ok((Self::Open { version }, ListenerEvent::Opened(version)))
            }
            // A server that does not support the command may choose any name for its reply.
            (Self::Opening { .. }, Verb::Unknown, _) if !reply.code.is_success() => {
                Err(PeerError::Refused(reply.code))
            }
            (Self::Open { .. }, _, Answer::Notice(notice)) => {
                Ok((self, ListenerEvent::Notice(notice)))
            }
            (Self::Opening { .. }, ..) => out_of_order("response_to_init_oob"),
            (Self::Open { .. }, ..) => out_of_order("checkpoint or abort"),
            _ => out_of_order("nothing before init_oob"),
        }
    }
}

impl<B: Buffer> Machine for Listener<B> {
    type Event<'a>
        = ListenerEvent
    where
        Self: 'a;

    fn handle_input(&mut self, _now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        match self.state {
            ListenerState::Failed(error) => Err(error),
            ListenerState::Ended => Ok(bytes.len()),
            _ => self.feed(bytes).map_err(|error| self.fail(error)),
        }
    }

    fn handle_timeout(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.state {
            ListenerState::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.state {
            ListenerState::Failed(error) => Err(error),
            ListenerState::Fresh { .. } | ListenerState::Opening { .. } => {
                Err(self.fail(PeerError::LeftEarly))
            }
            ListenerState::Open { .. } | ListenerState::Ended => {
                self.state = ListenerState::Ended;
                Ok(())
            }
        }
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let ListenerState::Fresh { asks } = self.state else { return Ok(None) };
        let len = match self.write(asks, out) {
            Ok(len) => Some(len),
            Err(WriteError::Full(full)) => return Err(full),
            // Unreachable, since `new` has checked that the message can be written; nothing can be sent
            // then.
            Err(WriteError::Misuse(_)) => None,
        };
        self.state = ListenerState::Opening { asked: asks };
        Ok(len)
    }

    fn poll_event(&mut self) -> Option<ListenerEvent> {
        self.event.take()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        matches!(self.state, ListenerState::Ended | ListenerState::Failed(_))
            && self.event.is_none()
    }
}
