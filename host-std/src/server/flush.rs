//! One connection: bytes between a rank's socket and its session, in both directions, never waiting.

use crate::server::ready::{Interest, Poller, Token};
use crate::verdict::Phase;
use pmi_core::error::PeerError;
use pmi_core::ids::SessionId;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// Our end of a rank's socket, and what could not be moved on yet.
#[derive(Debug)]
pub struct Connection {
    /// Its session in the server.
    pub session: SessionId,
    /// How far its rank had come when it was given up.
    pub last_phase: Option<Phase>,
    stream: Option<UnixStream>,
    /// What the peer has not taken. While there is some, nothing more is read: a peer that asks and
    /// does not listen costs one message.
    unsent: Vec<u8>,
    /// What the session has not taken.
    untaken: Vec<u8>,
    watched_for: Option<Interest>,
    /// The peer did what ends a session; what else it says is thrown away.
    is_broken: bool,
}

/// What came of serving a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Served {
    /// All there was to do for now.
    Waiting,
    /// The peer has closed its end.
    Ended,
    /// The peer did this, shortly after these bytes.
    Broken(PeerError, String),
}

impl Connection {
    /// Takes over `stream`, which must not block, and watches it.
    ///
    /// Errors: those of the system.
    pub fn new(
        session: SessionId,
        stream: UnixStream,
        token: Token,
        poller: &Poller,
    ) -> io::Result<Self> {
        poller.add(token, &stream, Interest::Read)?;
        Ok(Self {
            session,
            last_phase: None,
            stream: Some(stream),
            unsent: Vec::new(),
            untaken: Vec::new(),
            watched_for: Some(Interest::Read),
            is_broken: false,
        })
    }

    /// True when our end is closed.
    pub fn is_closed(&self) -> bool {
        self.stream.is_none()
    }

    /// Closes our end. The poller forgets it by itself.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Reads what there is, hands it to `session` and sends what that answers. With `to_the_end`, reads
    /// on until there is nothing more.
    pub fn receive(
        &mut self,
        session: &mut impl Machine,
        now: Instant,
        scratch: &mut [u8],
        to_the_end: bool,
    ) -> Served {
        self.send(session, scratch);
        while self.unsent.is_empty() && self.untaken.is_empty() || to_the_end {
            let Some(stream) = &mut self.stream else { return Served::Waiting };
            let count = match stream.read(scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Served::Waiting,
                // Reset: as good as closed.
                Err(_) => 0,
            };
            if count == 0 {
                self.close();
                return Served::Ended;
            }
            if let Err(error) = self.feed(session, now, &scratch[..count]) {
                let excerpt = scratch[..count.min(EXCERPT)].escape_ascii().to_string();
                self.send(session, scratch);
                return Served::Broken(error, excerpt);
            }
            self.send(session, scratch);
            // A short read has emptied the socket; asking again would cost a call for every message.
            if count < scratch.len() && !to_the_end {
                break;
            }
        }
        Served::Waiting
    }

    /// Sends what `session` owes, and lets it take up what it held back until now.
    pub fn resume(
        &mut self,
        session: &mut impl Machine,
        now: Instant,
        scratch: &mut [u8],
    ) -> Served {
        self.send(session, scratch);
        let untaken = std::mem::take(&mut self.untaken);
        // Also with nothing in hand: the session may hold messages itself.
        let served = self.feed(session, now, &untaken);
        self.send(session, scratch);
        match served {
            Ok(()) => Served::Waiting,
            Err(error) => Served::Broken(error, String::new()),
        }
    }

    /// Watches for what can happen next.
    ///
    /// Errors: those of the system.
    pub fn watch(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let wanted = match (self.unsent.is_empty(), self.untaken.is_empty()) {
            (false, _) => Some(Interest::Write),
            (true, true) => Some(Interest::Read),
            // The session has to go on first, which is not for the peer to say.
            (true, false) => None,
        };
        match (self.watched_for, wanted) {
            (was, is) if was == is => return Ok(()),
            (Some(_), Some(interest)) => poller.change(token, stream, interest)?,
            (None, Some(interest)) => poller.add(token, stream, interest)?,
            (_, None) => poller.remove(token, stream)?,
        }
        self.watched_for = wanted;
        Ok(())
    }

    /// True when everything that was owed is on its way.
    pub fn has_sent_all(&self) -> bool {
        self.unsent.is_empty()
    }

    fn feed(
        &mut self,
        session: &mut impl Machine,
        now: Instant,
        bytes: &[u8],
    ) -> Result<(), PeerError> {
        if self.is_broken {
            return Ok(());
        }
        let taken = session.handle_input(now, bytes).inspect_err(|_| self.is_broken = true)?;
        self.untaken.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Renders and sends until nothing is owed or the peer takes no more.
    fn send(&mut self, session: &mut impl Machine, scratch: &mut [u8]) {
        loop {
            if !self.unsent.is_empty() {
                let unsent = std::mem::take(&mut self.unsent);
                let count = self.write(&unsent);
                self.unsent.extend_from_slice(&unsent[count..]);
                if !self.unsent.is_empty() {
                    return;
                }
            }
            let mut len = 0;
            // Full means that what is rendered so far must go first; the buffer holds any one message.
            while let Ok(Some(count)) = session.poll_transmit(&mut scratch[len..]) {
                len += count;
            }
            if len == 0 {
                return;
            }
            let count = self.write(&scratch[..len]);
            self.unsent.extend_from_slice(&scratch[count..len]);
        }
    }

    /// How many bytes are done with: sent, or past sending because the peer has gone.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let Some(stream) = &mut self.stream else { return bytes.len() };
        let mut done = 0;
        while done < bytes.len() {
            match stream.write(&bytes[done..]) {
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return done,
                // What the peer still said can be read; its end comes after that.
                Err(_) => return bytes.len(),
            }
        }
        done
    }
}

/// How much of what a peer sent is shown when it was nonsense.
const EXCERPT: usize = 40;
