//! Client calls as futures, over the `embedded-io-async` traits.
//!
//! They run on any executor, since they wait for nothing but their reader and writer.
//!
//! One set of calls serves both versions of the protocol; the version is negotiated when the
//! session is [opened](AsyncPmi::open). A call that the version does not have fails without sending
//! anything.
//!
//! [`pump`] is [`crate::pump()`] as a future, for a link that cannot wake a task.

use embedded_io_async::{Read, Write};
use pmi_core::client::{Client, Pmi1Buffer, Pmi2Buffer};
use pmi_core::machine::Machine;
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;

use crate::calls::{self, *};
use crate::session::{ABORT_WORDS, READ_BYTES, Reader, StreamSession};
use crate::{Link, Progress, PumpError, PumpState, SpawnError};

pub use crate::calls::{Codes, Opened, Opening, Prover, Ring, Spawned};

/// A session with a PMI server.
///
/// Shape: `B` holds one request until it is sent, then one reply. [`AsyncPmi`] has room for
/// every message of both versions; [`AsyncPmi1`] is for boards. `GENERATIONS` is the client's.
///
/// # Dropped calls
///
/// A future may be dropped before it completes, as by `with_timeout` or `select`, if reads and writes of the
/// stream that are dropped lose no bytes. Its request counts as made: the next call first sends the rest of
/// it and reads its reply, which is lost. So a call after a dropped [`fence`](Self::fence) waits for the end
/// of that fence. Two requests are exceptions. After a dropped [`init`](Self::init) or [`open`](Self::open)
/// the handshake cannot be repeated. After a [`spawn`](Self::spawn) or [`put_all`](Self::put_all) that was
/// dropped before its request was sent, every call but [`abort`](Self::abort) fails with
/// [`Misuse::WrongState`].
#[derive(Debug)]
pub struct AsyncStreamClient<IO, B, const GENERATIONS: u16> {
    io: IO,
    session: StreamSession<B, GENERATIONS>,
}

/// A session in PMI-1 or PMI-2, with room for every message: 2.9 KiB.
pub type AsyncPmi<IO> = AsyncStreamClient<IO, Pmi2Buffer, 2>;

/// A session in PMI-1, without the code for more: 1.8 KiB, and 0.5 KiB for the future of a call.
pub type AsyncPmi1<IO> = AsyncStreamClient<IO, Pmi1Buffer, 1>;

type CallResult<T, IO> = Result<T, CallError<<IO as embedded_io_async::ErrorType>::Error>>;

impl<IO: Read + Write> AsyncPmi<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self::with_buffer(io, Pmi2Buffer::new())
    }
}

impl<IO: Read + Write> AsyncPmi1<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self::with_buffer(io, Pmi1Buffer::new())
    }
}

impl<IO: Read + Write, B: Buffer, const GENERATIONS: u16> AsyncStreamClient<IO, B, GENERATIONS> {
    /// Takes a connected stream and an empty buffer; nothing is sent yet.
    pub const fn with_buffer(io: IO, buffer: B) -> Self {
        Self { io, session: StreamSession::new(buffer) }
    }

    crate::session::stream_driver! { [async] [await] }
    crate::client_calls! {
        [async] [await] [&mut Self] IO::Error, generations: GENERATIONS, threaded: false
    }
    calls::lent_calls! { [async] [await] [&mut Self] IO::Error }

    /// The client machine behind the calls.
    pub const fn client(&self) -> &Client<B, 1, GENERATIONS> {
        &self.session.client
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> IO {
        self.io
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
