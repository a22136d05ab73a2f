//! The state that threads share: one machine, one stream, and the received replies.
//!
//! No thread is reserved for reading. A thread that waits for a reply while no other reads, reads
//! for all: it stores each reply for its thread, and stops once its own has arrived. Another
//! waiting thread then continues.

use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pmi_core::client::{Client, ClientEvent, Ticket};
use pmi_core::command::Request;
use pmi_core::error::{Full, Misuse, PeerError};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::WriteError;
use pmi_link::CallError;
use pmi_link::heap::BoundedBuf;

use super::halves::{self, ReadHalf, WriteHalf};
use super::owned_reply::OwnedReply;
#[cfg(feature = "snapshot")]
use super::snapshot::ClientSnapshot;
use crate::pmi::REPLY_BYTES;
#[cfg(feature = "snapshot")]
use crate::snapshot::recv_with;
use crate::stream::{Stream, retry_interrupted};

type CallResult<T> = Result<T, CallError<io::Error>>;

#[derive(Debug)]
pub(super) struct SharedConnection {
    state: Mutex<ConnectionState>,
    /// A reply was stored, or the reading thread has stopped.
    changed: Condvar,
    /// The two directions are locked separately, so that a message that waits for room does not
    /// prevent the reading that makes room.
    reader: Mutex<ReadHalf>,
    writer: Mutex<WriteHalf>,
    /// True if descriptors may come with replies.
    #[cfg(feature = "snapshot")]
    has_snapshot: bool,
}

#[derive(Debug)]
pub(super) struct ConnectionState {
    pub(super) client: Client<BoundedBuf, SLOTS>,
    is_reading: bool,
    /// Number of threads that wait while another one reads. With none, there is no
    /// system call to wake them.
    waiting: usize,
    /// Replies that their threads have not taken yet.
    replies: Vec<(Ticket, OwnedReply)>,
    fault: Option<SharedError>,
    #[cfg(feature = "snapshot")]
    pub(super) snapshot: Option<ClientSnapshot>,
}

/// Reason why no more replies will arrive; returned to every thread.
#[derive(Clone, Copy, Debug)]
enum SharedError {
    Peer(PeerError),
    System(io::ErrorKind, Option<i32>),
    /// One thread has ended the session.
    Over,
}

impl SharedConnection {
    pub(super) fn new(stream: Stream) -> io::Result<Self> {
        let (reader, writer) = halves::split(stream)?;
        let client = Client::new(BoundedBuf::new(REPLY_BYTES));
        let state = ConnectionState {
            client,
            is_reading: false,
            waiting: 0,
            replies: Vec::new(),
            fault: None,
            #[cfg(feature = "snapshot")]
            snapshot: None,
        };
        Ok(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            reader: Mutex::new(reader),
            writer: Mutex::new(writer),
            #[cfg(feature = "snapshot")]
            has_snapshot: false,
        })
    }

    /// The same, with an offer of a snapshot if there is memory for it.
    #[cfg(feature = "snapshot")]
    pub(super) fn with_snapshot(stream: Stream) -> io::Result<Self> {
        let is_unix = matches!(stream, Stream::Unix(_));
        let mut connection = Self::new(stream)?;
        let state = connection.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.snapshot = if is_unix { ClientSnapshot::create().ok() } else { None };
        connection.has_snapshot = state.snapshot.is_some();
        Ok(connection)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }

    /// Sends one message as soon as a slot is free. A spawn has no bound.
    pub(super) fn send(&self, request: &Request<'_>) -> CallResult<Ticket> {
        let mut message = vec![0; MESSAGE_BYTES];
        let mut start = |client: &mut Client<BoundedBuf, SLOTS>| loop {
            match client.send(request, &mut message) {
                Err(WriteError::Full(Full { needed })) => message.resize(needed, 0),
                Err(WriteError::Misuse(misuse)) => return Err(misuse),
                Ok(sent) => return Ok(sent),
            }
        };
        loop {
            // Held from the start of the exchange until its message is written: a server that returns no
            // names answers in the order of the messages, which must be that of the exchanges.
            let mut writer = lock(&self.writer);
            let mut state = self.state();
            state.check()?;
            match start(&mut state.client) {
                Err(Misuse::Busy) => {
                    drop(writer);
                    drop(self.read_or_wait(state));
                }
                Err(misuse) => return Err(CallError::Misuse(misuse)),
                Ok((ticket, len)) => {
                    let message = message.get(..len).unwrap_or(b"");
                    #[cfg(feature = "snapshot")]
                    let offer = state.snapshot.as_mut().and_then(|own| own.before_message(request));
                    drop(state);
                    #[cfg(feature = "snapshot")]
                    let written = match offer {
                        Some(offer) => super::snapshot::send_offer(&mut writer, message, &offer),
                        None => writer.write_all(message),
                    };
                    #[cfg(not(feature = "snapshot"))]
                    let written = writer.write_all(message);
                    drop(writer);
                    return written.map(|()| ticket).map_err(|error| self.on_write_error(error));
                }
            }
        }
    }

    /// Sends the last message, which has no reply.
    pub(super) fn send_abort(&self, request: &Request<'_>) -> CallResult<()> {
        let sent = self.send(request);
        self.state().fault.get_or_insert(SharedError::Over);
        self.changed.notify_all();
        sent.map(drop)
    }

    /// Waits for the next answer to the request of `ticket`.
    pub(super) fn recv(&self, ticket: Ticket) -> CallResult<OwnedReply> {
        let mut state = self.state();
        loop {
            if let Some(at) = state.replies.iter().position(|(to, _)| *to == ticket) {
                return Ok(state.replies.remove(at).1);
            }
            state.check()?;
            state = self.read_or_wait(state);
        }
    }

    /// Reads once for all threads, or waits until the reading thread has.
    fn read_or_wait<'t>(
        &'t self,
        mut state: MutexGuard<'t, ConnectionState>,
    ) -> MutexGuard<'t, ConnectionState> {
        if state.is_reading {
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            return state;
        }
        state.is_reading = true;
        drop(state);
        let mut bytes = [0; READ_BYTES];
        #[cfg(feature = "snapshot")]
        if self.has_snapshot {
            let received = {
                let reader = lock(&self.reader);
                retry_interrupted(|| recv_with(&*reader, &mut bytes))
            };
            let mut state = self.state();
            let read = received.map(|received| {
                if let Some(snapshot) = &mut state.snapshot {
                    snapshot.add(&received.descriptors, received.is_truncated);
                }
                received.len
            });
            return self.end_read(state, read.map(|len| bytes.get(..len).unwrap_or(&bytes)));
        }
        let read = {
            let mut reader = lock(&self.reader);
            retry_interrupted(|| reader.read(&mut bytes))
        };
        self.end_read(self.state(), read.map(|len| bytes.get(..len).unwrap_or(&bytes)))
    }

    fn end_read<'t>(
        &'t self,
        mut state: MutexGuard<'t, ConnectionState>,
        read: io::Result<&[u8]>,
    ) -> MutexGuard<'t, ConnectionState> {
        state.is_reading = false;
        state.on_read(read);
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        state
    }

    /// Ends the session for all threads.
    fn on_write_error(&self, error: io::Error) -> CallError<io::Error> {
        self.state().fault.get_or_insert(SharedError::from(&error));
        self.changed.notify_all();
        CallError::Io(error)
    }
}

impl ConnectionState {
    /// Fails once no more replies will arrive.
    pub(super) fn check(&self) -> CallResult<()> {
        self.fault.map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Handles the bytes read, and stores the answers for their threads.
    fn on_read(&mut self, read: io::Result<&[u8]>) {
        let mut rest = match read {
            Ok([]) => {
                let ended = self.client.handle_end(Instant::ZERO);
                let fault = ended.map_or_else(SharedError::Peer, |()| SharedError::Over);
                self.fault.get_or_insert(fault);
                return;
            }
            Ok(bytes) => bytes,
            Err(error) => {
                self.fault.get_or_insert(SharedError::from(&error));
                return;
            }
        };
        while !rest.is_empty() {
            match self.client.handle_input(Instant::ZERO, rest) {
                Ok(taken) => rest = rest.get(taken..).unwrap_or(b""),
                Err(error) => {
                    self.fault.get_or_insert(SharedError::Peer(error));
                    return;
                }
            }
            if let Some(ClientEvent::Reply { ticket, reply }) = self.client.poll_event() {
                self.replies.push((ticket, OwnedReply::new(&reply)));
            }
        }
    }
}

impl From<&io::Error> for SharedError {
    fn from(error: &io::Error) -> Self {
        Self::System(error.kind(), error.raw_os_error())
    }
}

impl From<SharedError> for CallError<io::Error> {
    fn from(fault: SharedError) -> Self {
        match fault {
            SharedError::Peer(error) => Self::Peer(error),
            SharedError::System(_, Some(code)) => Self::Io(io::Error::from_raw_os_error(code)),
            SharedError::System(kind, None) => Self::Io(kind.into()),
            SharedError::Over => Self::Misuse(Misuse::WrongState { needed: "the session is open" }),
        }
    }
}

/// A thread that has panicked has left nothing half done: the machine takes whole steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of requests that may be in flight; more threads take turns.
pub(super) const SLOTS: usize = 16;

/// Enough for most messages; a longer one reports its length.
const MESSAGE_BYTES: usize = 256;

const READ_BYTES: usize = 4096;
