//! Client calls as futures, over the `embedded-io-async` traits.
//!
//! They run on any executor, since they wait for nothing but their reader and writer. The blocking
//! calls of [`blocking`](crate::blocking) are the same futures, driven by an executor that never
//! waits.
//!
//! One set of calls serves both versions of the protocol; the version is negotiated when the
//! session is [opened](AsyncPmi::open). A call that the version does not have fails without sending
//! anything.
//!
//! [`pump`] is [`crate::pump()`] as a future, for a link that cannot wake a task.

mod calls;
mod opening;
mod pmi2;
mod reply;

use embedded_io_async::{Read, Write};
use pmi_core::client::{BUFFER_BYTES, Client, ClientEvent, FixedBuffer, Pmi2Buffer, State};
use pmi_core::command::{Answer, Reply, Request};
use pmi_core::error::PeerError;
use pmi_core::limits::{KVSNAME_BYTES, PMI1_LINE, PMI2_FRAME};
use pmi_core::machine::Machine;
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;

pub use self::opening::{Opened, Opening, Prover};
pub use self::pmi2::Ring;
pub use self::reply::{Codes, Spawned};
use crate::{CallError, Link, Progress, PumpError, PumpState};

/// A session with a PMI server.
///
/// Shape: `B` holds one reply, and `MESSAGE_BYTES` is the size of one request, on the stack of the
/// running call. By default that is 2.8 KiB each, enough for every message of both versions;
/// [`AsyncPmi1`] is for boards. `GENERATIONS` is the client's. A future that is dropped before it
/// completes leaves its request pending: every later call but [`abort`](Self::abort) then fails
/// with [`Misuse::Busy`](pmi_core::error::Misuse::Busy).
#[derive(Debug)]
pub struct AsyncPmi<
    IO,
    B = Pmi2Buffer,
    const MESSAGE_BYTES: usize = PMI2_FRAME,
    const GENERATIONS: u16 = 2,
> {
    io: IO,
    client: Client<B, 1, GENERATIONS>,
}

/// A conversation in PMI-1, without the code for more: 1.6 KiB, and as much on the stack.
pub type AsyncPmi1<IO> = AsyncPmi<IO, FixedBuffer, PMI1_LINE, 1>;

pub(crate) type CallResult<T, IO> =
    Result<T, CallError<<IO as embedded_io_async::ErrorType>::Error>>;

/// Takes something out of an answer, once for each that comes.
type Reader<'r> = dyn FnMut(&Reply<'_>) + Send + 'r;

impl<IO: Read + Write> AsyncPmi<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self::with_buffer(io, Pmi2Buffer::new())
    }
}

impl<IO: Read + Write> AsyncPmi1<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn over(io: IO) -> Self {
        Self::with_buffer(io, FixedBuffer::new())
    }
}

impl<IO: Read + Write, B: Buffer, const MESSAGE_BYTES: usize, const GENERATIONS: u16>
    AsyncPmi<IO, B, MESSAGE_BYTES, GENERATIONS>
{
    /// Takes a connected stream and an empty buffer; nothing is sent yet.
    pub const fn with_buffer(io: IO, buffer: B) -> Self {
        Self { io, client: Client::new(buffer) }
    }

    /// The machine behind the calls, to look at.
    pub const fn client(&self) -> &Client<B, 1, GENERATIONS> {
        &self.client
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> IO {
        self.io
    }

    /// Asks one question and reads its answers.
    // All calls share this, and read by a pointer: a copy for each would cost a small board more
    // than the calls themselves.
    async fn call(&mut self, request: &Request<'_>, read: &mut Reader<'_>) -> CallResult<(), IO> {
        self.drain().await?;
        self.check_state()?;
        self.send(request).await?;
        self.recv_reply(read).await
    }

    /// Reports an error that was found in bytes after the last reply.
    const fn check_state(&self) -> CallResult<(), IO> {
        match self.client.state() {
            State::Failed(error) => Err(CallError::Peer(error)),
            _ => Ok(()),
        }
    }

    async fn send(&mut self, request: &Request<'_>) -> CallResult<(), IO> {
        let mut message = [0; MESSAGE_BYTES];
        let (_, len) = self.client.send(request, &mut message)?;
        self.write(message.get(..len).unwrap_or(b"")).await
    }

    async fn write(&mut self, bytes: &[u8]) -> CallResult<(), IO> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = self.io.write(rest).await.map_err(CallError::Io)?;
            if len == 0 {
                return Err(CallError::Peer(PeerError::LeftEarly));
            }
            rest = rest.get(len..).unwrap_or(b"");
        }
        self.io.flush().await.map_err(CallError::Io)
    }

    async fn recv_reply(&mut self, read: &mut Reader<'_>) -> CallResult<(), IO> {
        while !self.recv(read).await? {}
        Ok(())
    }

    /// Reads the rest of a reply without a pending call: a refused [`put_all`](Self::put_all) may
    /// leave some behind.
    async fn drain(&mut self) -> CallResult<(), IO> {
        while self.client.outstanding() == 0 && self.client.is_receiving() {
            self.recv(&mut |_| {}).await?;
        }
        Ok(())
    }

    /// Reads once; true if the last answer was in it.
    async fn recv(&mut self, read: &mut Reader<'_>) -> CallResult<bool, IO> {
        let mut bytes = [0; READ_BYTES];
        let len = self.io.read(&mut bytes).await.map_err(CallError::Io)?;
        if len == 0 {
            self.client.handle_end(NOW)?;
            return Err(CallError::Peer(PeerError::LeftEarly));
        }
        let mut rest = bytes.get(..len).unwrap_or(b"");
        loop {
            let taken = self.client.handle_input(NOW, rest)?;
            rest = rest.get(taken..).unwrap_or(b"");
            let Some(ClientEvent::Reply { reply, .. }) = self.client.poll_event() else {
                return Ok(false);
            };
            read(&reply);
            if !matches!(reply.answer, Answer::Count(_) | Answer::Pair(_)) {
                // No bytes may follow the last reply. If some do, the machine keeps the error and
                // the next call reports it: this one has its reply.
                let _reported_by_the_next_call = self.client.handle_input(NOW, rest);
                return Ok(true);
            }
        }
    }
}

/// Moves bytes until there is something for the owner to look at, and lets other tasks run while
/// there is none.
///
/// Shape: as for [`crate::pump()`]; `now` is asked before every turn. It comes back when bytes have
/// moved, the machine holds back, or the conversation is over.
///
/// # Errors
///
/// As for [`crate::pump()`].
pub async fn pump<I: Buffer, O: Buffer>(
    mut now: impl FnMut() -> Instant,
    machine: &mut impl Machine,
    link: &mut impl Link,
    carry: &mut PumpState<I, O>,
    scratch: &mut [u8],
) -> Result<Progress, PumpError> {
    loop {
        let progress = crate::pump(now(), machine, link, carry, scratch)?;
        if progress.has_moved() || progress.held || progress.ended || progress.finished {
            return Ok(progress);
        }
        futures_lite::future::yield_now().await;
    }
}

/// A client has no deadlines.
const NOW: Instant = Instant::ZERO;

/// Most answers fit at once; the longest takes a few turns.
const READ_BYTES: usize = 256;

const _: () = {
    // Whatever fits the client's buffer fits the line with the name of the space and the words.
    let put = BUFFER_BYTES + KVSNAME_BYTES + "cmd=put kvsname= key= value=\n".len();
    assert!(put <= PMI1_LINE);
};
