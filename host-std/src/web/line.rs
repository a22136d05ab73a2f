//! One open web socket that never waits.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

/// A web socket, and whether something waits to be written.
pub(super) struct Line {
    socket: WebSocket<TcpStream>,
    /// What was said has not all gone out.
    pub(super) is_full: bool,
    /// Much was heard in this turn, and there may be more of which no event will tell.
    pub(super) is_held: bool,
    heard_count: u32,
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Bytes(Vec<u8>),
    Text(String),
    /// Nothing for now.
    Nothing,
    /// The other end is gone, or broke the protocol.
    End,
}

impl Line {
    pub(super) const fn new(socket: WebSocket<TcpStream>) -> Self {
        Self { socket, is_full: false, is_held: false, heard_count: 0 }
    }

    pub(super) const fn socket(&self) -> &WebSocket<TcpStream> {
        &self.socket
    }

    /// Begins a turn: what was said goes out, and there is patience for some messages again.
    pub(super) fn begin(&mut self) {
        (self.is_held, self.heard_count) = (false, 0);
        self.flush();
    }

    /// The next message.
    pub(super) fn hear(&mut self) -> Heard {
        loop {
            // Whoever sends without end, be it pings, does not keep all others waiting.
            if self.heard_count >= HEARD_MAX {
                self.is_held = true;
                return Heard::Nothing;
            }
            self.heard_count += 1;
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => return Heard::Bytes(bytes.into()),
                Ok(Message::Text(text)) => return Heard::Text(text.as_str().to_owned()),
                // The answer to a ping is written with the next flush, and a close ends in an error.
                Ok(_) => self.flush(),
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    return Heard::Nothing;
                }
                Err(_) => return Heard::End,
            }
        }
    }

    /// Says something, after what was said before has gone out.
    ///
    /// # Errors
    ///
    /// The other end is gone.
    pub(super) fn say(&mut self, message: Message) -> io::Result<()> {
        match self.socket.send(message) {
            Ok(()) => Ok(()),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                self.is_full = true;
                Ok(())
            }
            Err(_) => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Lets go out what was said.
    fn flush(&mut self) {
        // An end shows when the socket is read.
        self.is_full = matches!(
            self.socket.flush(),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock
        );
    }

    /// Says goodbye, and why.
    pub(super) fn close(&mut self, code: CloseCode, why: &str) {
        let frame = CloseFrame { code, reason: why.to_owned().into() };
        let _ = self.socket.close(Some(frame));
        self.flush();
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("is_full", &self.is_full).finish_non_exhaustive()
    }
}

/// How much is heard in one turn.
const HEARD_MAX: u32 = 256;
