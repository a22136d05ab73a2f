//! A client with one call at a time, over a link that waits for nothing.

use pmi_core::client::{Client, ClientEvent, Pmi1Buffer};
use pmi_core::command::{Answer, Reply, Request};
use pmi_core::error::Misuse;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::WriteError;

/// A connection that moves bytes at once or not at all.
pub trait ByteLink {
    /// Reads into `bytes`.
    fn read(&mut self, bytes: &mut [u8]) -> Moved;

    /// Writes from `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Moved;
}

/// Result of moving bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many bytes were moved, at least one.
    Bytes(usize),
    /// None can be moved now.
    NotNow,
    /// The connection is over.
    Closed,
}

/// Result of a call; the numbers are those of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It is answered.
    Success = 0,
    /// The answer is not there yet.
    Pending = 1,
    /// The link is closed, or has failed.
    Link = -1,
    /// The server has sent something that is no PMI.
    Protocol = -2,
    /// The call does not fit the state, or an argument is invalid.
    Misuse = -3,
    /// The request or the value is too long.
    Room = -4,
    /// The server refuses the request.
    Refused = -5,
    /// There is no such key.
    NoKey = -6,
}

/// What follows when the answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The call has its result.
    Result,
    /// The name of the space is requested.
    KvsName,
    /// There is no answer: the call has its result when the request is sent.
    Sent,
}

/// A client with its pending call.
#[derive(Debug)]
pub struct Session {
    client: Client<Pmi1Buffer, 1, 1>,
    next: Option<Next>,
    is_over: Option<Status>,
    len_bytes: usize,
    code: i32,
}

impl Session {
    /// Makes a client in its initial state.
    pub const fn new() -> Self {
        let client = Client::new(Pmi1Buffer::new());
        Self { client, next: None, is_over: None, len_bytes: 0, code: 0 }
    }

    /// Rank and size that the server has assigned; zeros before.
    pub fn identity(&self) -> (u32, u32) {
        self.client.identity().map_or((0, 0), |own| (own.rank, own.size))
    }

    /// Length of the value of the last answered get.
    ///
    /// Units: bytes.
    pub const fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Code of the server in its last refusal.
    pub const fn code(&self) -> i32 {
        self.code
    }

    /// Starts a call, which [`poll`](Self::poll) continues. [`Status::Pending`] if that was possible.
    ///
    /// Shape: any request of PMI-1 but those with several messages. After [`Request::Init`] the name of the
    /// space is requested as a part of the same call.
    pub fn start(&mut self, request: &Request<'_>) -> Status {
        if let Some(status) = self.is_over {
            return status;
        }
        if self.next.is_some() {
            return Status::Misuse;
        }
        self.send(request)
    }

    #[inline(never)]
    fn send(&mut self, request: &Request<'_>) -> Status {
        match self.client.send_in_place(request) {
            Ok(_) => {
                self.next = Some(match request {
                    Request::Init { .. } => Next::KvsName,
                    Request::Abort { .. } => Next::Sent,
                    _ => Next::Result,
                });
                Status::Pending
            }
            Err(WriteError::Full(_) | WriteError::Misuse(Misuse::Length { .. })) => Status::Room,
            Err(_) => Status::Misuse,
        }
    }

    /// Moves bytes for the pending call, and copies the value of a get into `value`.
    ///
    /// Changes after: bytes arrive, or the link takes more.
    pub fn poll(&mut self, link: &mut impl ByteLink, value: &mut [u8]) -> Status {
        loop {
            let Some(next) = self.next else { return self.is_over.unwrap_or(Status::Misuse) };
            let mut status = self.exchange(link, next, value);
            if status == Status::Success && next == Next::KvsName {
                status = self.send(&Request::KvsName);
                if status == Status::Pending {
                    continue;
                }
            }
            if status != Status::Pending {
                self.next = None;
            }
            if matches!(status, Status::Link | Status::Protocol) {
                self.is_over = Some(status);
            }
            return status;
        }
    }

    /// Sends the request and receives its answer, as far as the link permits.
    fn exchange(&mut self, link: &mut impl ByteLink, next: Next, value: &mut [u8]) -> Status {
        while let Some(rest) = self.client.outgoing() {
            if rest.is_empty() {
                self.client.end_outgoing();
                break;
            }
            match link.write(rest) {
                Moved::Bytes(len) => self.client.advance_outgoing(len),
                Moved::NotNow => return Status::Pending,
                Moved::Closed => return Status::Link,
            }
        }
        if next == Next::Sent {
            return Status::Success;
        }
        loop {
            // One byte at a time: nothing behind the answer is read, and the answer needs no second buffer.
            let mut byte = [0];
            match link.read(&mut byte) {
                Moved::Bytes(_) => match self.receive(byte, value) {
                    Status::Pending => {}
                    status => return status,
                },
                Moved::NotNow => return Status::Pending,
                Moved::Closed => return Status::Link,
            }
        }
    }

    fn receive(&mut self, byte: [u8; 1], value: &mut [u8]) -> Status {
        if self.client.handle_input(Instant::ZERO, &byte).is_err() {
            return Status::Protocol;
        }
        let Some(ClientEvent::Reply { reply, .. }) = self.client.poll_event() else {
            return Status::Pending;
        };
        let (status, len_bytes) = read_reply(&reply, value);
        self.code = reply.code.0;
        if let Some(len_bytes) = len_bytes {
            self.len_bytes = len_bytes;
        }
        status
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

/// Status and length of an answer, whose value is copied into `value`.
fn read_reply(reply: &Reply<'_>, value: &mut [u8]) -> (Status, Option<usize>) {
    match reply.answer {
        Answer::Missing => (Status::NoKey, None),
        Answer::Refused(_) | Answer::Message(_) => (Status::Refused, None),
        _ if reply.code.0 != 0 => (Status::Refused, None),
        Answer::Value(text) => {
            // A line has every byte as it is.
            let bytes = text.as_plain().unwrap_or(b"");
            let Some(room) = value.get_mut(..bytes.len()) else {
                return (Status::Room, Some(bytes.len()));
            };
            room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            (Status::Success, Some(bytes.len()))
        }
        _ => (Status::Success, None),
    }
}
