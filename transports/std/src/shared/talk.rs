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

use super::heard::Heard;
use crate::stream::{Stream, again};

type Said<T> = Result<T, CallError<io::Error>>;

#[derive(Debug)]
pub(super) struct Wire {
    talk: Mutex<Talk>,
    /// A reply was stored, or the reading thread has stopped.
    changed: Condvar,
    /// The two directions are locked separately, so that a message that waits for room does not
    /// prevent the reading that makes room.
    reader: Mutex<Stream>,
    writer: Mutex<Stream>,
}

#[derive(Debug)]
pub(super) struct Talk {
    pub(super) client: Client<BoundedBuf, SLOTS>,
    is_reading: bool,
    /// Replies that their threads have not taken yet.
    heard: Vec<(Ticket, Heard)>,
    fault: Option<Fault>,
}

/// Reason why no more replies will arrive; returned to every thread.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Peer(PeerError),
    System(io::ErrorKind, Option<i32>),
    /// One thread has ended the conversation.
    Over,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> io::Result<Self> {
        let copy = match &stream {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            // Its two directions share one state, so one thread cannot read while another writes.
            #[cfg(feature = "tls")]
            Stream::Tls(_) | Stream::Served(_) => {
                let what = "threads cannot share a connection under TLS";
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
        };
        let client = Client::new(BoundedBuf::new(ANSWER_BYTES));
        let talk = Talk { client, is_reading: false, heard: Vec::new(), fault: None };
        let (reader, writer) = (Mutex::new(copy), Mutex::new(stream));
        Ok(Self { talk: Mutex::new(talk), changed: Condvar::new(), reader, writer })
    }

    pub(super) fn talk(&self) -> MutexGuard<'_, Talk> {
        lock(&self.talk)
    }

    /// Sends one message as soon as a slot is free. A spawn has no bound.
    pub(super) fn say(&self, request: &Request<'_>) -> Said<Ticket> {
        let mut message = vec![0; MESSAGE_BYTES];
        let (ticket, len) = self.begin(|client| {
            loop {
                match client.send(request, &mut message) {
                    Err(WriteError::Full(Full { needed })) => message.resize(needed, 0),
                    Err(WriteError::Misuse(misuse)) => return Err(misuse),
                    Ok(said) => return Ok(said),
                }
            }
        })?;
        self.write(message.get(..len).unwrap_or(b""))?;
        Ok(ticket)
    }

    /// Sends the last message, which has no reply.
    pub(super) fn say_abort(&self, request: &Request<'_>) -> Said<()> {
        let said = self.say(request);
        self.talk().fault.get_or_insert(Fault::Over);
        self.changed.notify_all();
        said.map(drop)
    }

    /// Waits for the next answer to the question of `ticket`.
    pub(super) fn hear(&self, ticket: Ticket) -> Said<Heard> {
        let mut talk = self.talk();
        loop {
            if let Some(at) = talk.heard.iter().position(|(to, _)| *to == ticket) {
                return Ok(talk.heard.remove(at).1);
            }
            talk.check()?;
            talk = self.turn(talk);
        }
    }

    /// Starts an exchange as soon as the machine has a place for it.
    fn begin<T>(
        &self,
        mut start: impl FnMut(&mut Client<BoundedBuf, SLOTS>) -> Result<T, Misuse>,
    ) -> Said<T> {
        let mut talk = self.talk();
        loop {
            talk.check()?;
            match start(&mut talk.client) {
                Err(Misuse::Busy) => talk = self.turn(talk),
                started => return started.map_err(CallError::Misuse),
            }
        }
    }

    /// Reads once for all threads, or waits until the reading thread has.
    fn turn<'t>(&'t self, mut talk: MutexGuard<'t, Talk>) -> MutexGuard<'t, Talk> {
        if talk.is_reading {
            return self.changed.wait(talk).unwrap_or_else(PoisonError::into_inner);
        }
        talk.is_reading = true;
        drop(talk);
        let mut bytes = [0; READ_BYTES];
        let read = {
            let mut reader = lock(&self.reader);
            again(|| reader.read(&mut bytes))
        };
        let mut talk = self.talk();
        talk.is_reading = false;
        talk.take(read.map(|len| bytes.get(..len).unwrap_or(&bytes)));
        self.changed.notify_all();
        talk
    }

    fn write(&self, message: &[u8]) -> Said<()> {
        let written = lock(&self.writer).write_all(message);
        written.map_err(|error| {
            self.talk().fault.get_or_insert(Fault::from(&error));
            self.changed.notify_all();
            CallError::Io(error)
        })
    }
}

impl Talk {
    fn check(&self) -> Said<()> {
        self.fault.map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Takes up what was read, and puts the answers where they are looked for.
    fn take(&mut self, read: io::Result<&[u8]>) {
        let mut rest = match read {
            Ok([]) => {
                let ended = self.client.handle_end(Instant::ZERO);
                let fault = ended.map_or_else(Fault::Peer, |()| Fault::Over);
                self.fault.get_or_insert(fault);
                return;
            }
            Ok(bytes) => bytes,
            Err(error) => {
                self.fault.get_or_insert(Fault::from(&error));
                return;
            }
        };
        while !rest.is_empty() {
            match self.client.handle_input(Instant::ZERO, rest) {
                Ok(taken) => rest = rest.get(taken..).unwrap_or(b""),
                Err(error) => {
                    self.fault.get_or_insert(Fault::Peer(error));
                    return;
                }
            }
            if let Some(ClientEvent::Reply { ticket, reply }) = self.client.poll_event() {
                self.heard.push((ticket, Heard::new(&reply)));
            }
        }
    }
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        Self::System(error.kind(), error.raw_os_error())
    }
}

impl From<Fault> for CallError<io::Error> {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Peer(error) => Self::Peer(error),
            Fault::System(_, Some(code)) => Self::Io(io::Error::from_raw_os_error(code)),
            Fault::System(kind, None) => Self::Io(kind.into()),
            Fault::Over => {
                Self::Misuse(Misuse::WrongState { needed: "the conversation is not over" })
            }
        }
    }
}

/// A thread that has panicked has left nothing half done: the machine takes whole steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of requests that may be in flight; more threads take turns.
const SLOTS: usize = 16;

/// The longest answer: known clients bound it so, too.
const ANSWER_BYTES: usize = 1 << 16;

/// Enough for most messages; a longer one reports its length.
const MESSAGE_BYTES: usize = 256;

const READ_BYTES: usize = 4096;
