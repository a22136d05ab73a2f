//! An open web socket, non-blocking.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

/// A web socket with its send and receive state.
pub(super) struct WebLink {
    socket: WebSocket<TcpStream>,
    /// True if sent messages wait to be written.
    pub(super) is_full: bool,
    /// True if the limit of a turn was reached: there may be more input, which causes no event.
    pub(super) is_held: bool,
    received_count: u32,
}

/// Received input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WebInput {
    Bytes(Vec<u8>),
    Text(String),
    /// Nothing for now.
    Nothing,
    /// The peer is gone, or violated the protocol.
    End,
}

impl WebLink {
    pub(super) const fn new(socket: WebSocket<TcpStream>) -> Self {
        Self { socket, is_full: false, is_held: false, received_count: 0 }
    }

    pub(super) const fn socket(&self) -> &WebSocket<TcpStream> {
        &self.socket
    }

    /// Begins a turn: flushes sent messages, and resets the limit of received ones.
    pub(super) fn begin(&mut self) {
        (self.is_held, self.received_count) = (false, 0);
        self.flush();
    }

    /// Receives the next message.
    pub(super) fn receive(&mut self) -> WebInput {
        loop {
            // A peer that sends without end, even pings, must not block the others.
            if self.received_count >= RECEIVED_MAX {
                self.is_held = true;
                return WebInput::Nothing;
            }
            self.received_count += 1;
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => return WebInput::Bytes(bytes.into()),
                Ok(Message::Text(text)) => return WebInput::Text(text.as_str().to_owned()),
                // The reply to a ping is written with the next flush, and a close ends in an error.
                Ok(_) => self.flush(),
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                    return WebInput::Nothing;
                }
                Err(_) => return WebInput::End,
            }
        }
    }

    /// Sends a message behind the earlier ones.
    ///
    /// # Errors
    ///
    /// The peer is gone.
    pub(super) fn send(&mut self, message: Message) -> io::Result<()> {
        match self.socket.send(message) {
            Ok(()) => Ok(()),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                self.is_full = true;
                Ok(())
            }
            Err(_) => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Writes sent messages.
    fn flush(&mut self) {
        // The end of the connection shows when the socket is read.
        self.is_full = matches!(
            self.socket.flush(),
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock
        );
    }

    /// Sends a close message with its reason.
    pub(super) fn close(&mut self, code: CloseCode, why: &str) {
        let frame = CloseFrame { code, reason: why.to_owned().into() };
        let _ = self.socket.close(Some(frame));
        self.flush();
    }
}

impl std::fmt::Debug for WebLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("is_full", &self.is_full).finish_non_exhaustive()
    }
}

/// Maximum number of messages received in one turn.
const RECEIVED_MAX: u32 = 256;
