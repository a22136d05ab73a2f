//! Client calls as futures, over the `embedded-io-async` traits.
//!
//! They run on any executor, since they wait for nothing but their reader and writer. The blocking
//! calls of [`blocking`](crate::blocking) are these, driven by one that never waits.
//!
//! [`pump`] is [`crate::pump()`] as a future, for a link that has no way to wake anybody.

use embedded_io_async::{Read, Write};
use pmi_core::client::{BUFFER_BYTES, Client, Event, FixedBuffer, State};
use pmi_core::command::{
    Answer, Group, Identity, Maxes, Place, Reply, Request, Spawn, Text, Version,
};
use pmi_core::error::{Full, PeerError};
use pmi_core::ids::KvsName;
use pmi_core::limits::{KVSNAME_BYTES, PMI1_LINE};
use pmi_core::machine::Machine;
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;

use crate::{CallError, Carry, Link, Progress, PumpError};

/// A conversation with a PMI server.
///
/// Shape: 1.6 KiB, and as much again on the stack of the call that runs.
/// A future that is dropped before it is done leaves its question open: every later call but
/// [`abort`](Self::abort) then fails with [`Misuse::Busy`](pmi_core::error::Misuse::Busy).
#[derive(Debug)]
pub struct Pmi<IO> {
    io: IO,
    client: Client<FixedBuffer>,
}

type Answered<T, IO> = Result<T, CallError<<IO as embedded_io_async::ErrorType>::Error>>;

impl<IO: Read + Write> Pmi<IO> {
    /// Takes a connected stream; nothing is sent yet.
    pub const fn new(io: IO) -> Self {
        Self { io, client: Client::fixed() }
    }

    /// Says who dialled in and hears who that is; only over TCP, and before everything else.
    ///
    /// Wire: `cmd=initack pmiid=N\n`, answered by four lines.
    /// Errors: [`CallError::Peer`] if nobody with this identity is expected.
    pub async fn greet(&mut self, id: u64) -> Answered<Identity<'static>, IO> {
        self.ask(&Request::InitAck { id }, |_| Ok(())).await?;
        self.client.identity().ok_or(CallError::Peer(PeerError::LeftEarly))
    }

    /// Opens the conversation, and gives the version that both ends speak.
    ///
    /// Wire: `cmd=init pmi_version=1 pmi_subversion=1\n`.
    /// Errors: [`CallError::Peer`] if there is none or the server refuses.
    pub async fn init(&mut self, version: Version) -> Answered<Version, IO> {
        self.ask(&Request::Init { version }, |_| Ok(())).await?;
        Ok(self.client.version().unwrap_or(version))
    }

    /// Asks for the longest name, key and value, and keeps to them from now on.
    ///
    /// Wire: `cmd=get_maxes\n`.
    /// Units: bytes, each counting a C terminator.
    pub async fn maxes(&mut self) -> Answered<Maxes, IO> {
        self.ask(&Request::Maxes, |reply| match reply.answer {
            Answer::Maxes(maxes) => Ok(maxes),
            _ => Err(refused(reply)),
        })
        .await
    }

    /// Asks which program of the launch this is; `None` if the server does not know.
    ///
    /// Wire: `cmd=get_appnum\n`.
    pub async fn appnum(&mut self) -> Answered<Option<u32>, IO> {
        self.ask(&Request::AppNum, number).await
    }

    /// Asks how many processes there can be; `None` if there is no bound.
    ///
    /// Wire: `cmd=get_universe_size\n`.
    pub async fn universe_size(&mut self) -> Answered<Option<u32>, IO> {
        self.ask(&Request::UniverseSize, number).await
    }

    /// Asks for the name of the job's space; needed once before [`put`](Self::put) and
    /// [`get`](Self::get).
    ///
    /// Wire: `cmd=get_my_kvsname\n`.
    pub async fn kvsname(&mut self) -> Answered<&KvsName, IO> {
        let name = |reply: &Reply<'_>| match reply.answer {
            Answer::Name(_) => Ok(()),
            _ => Err(refused(reply)),
        };
        self.ask(&Request::KvsName, name).await?;
        self.client.kvsname().ok_or(CallError::Peer(PeerError::LeftEarly))
    }

    /// Stores `value` under `key`; others see it after the next [`fence`](Self::fence).
    ///
    /// Wire: `cmd=put kvsname=N key=K value=V\n`.
    /// Shape: no blanks or line ends in either; at most 63 and 1023 bytes unless
    /// [`maxes`](Self::maxes) said otherwise.
    /// Errors: [`CallError::Misuse`] for what does not fit, [`CallError::Refused`] by the server.
    pub async fn put(&mut self, key: &[u8], value: &[u8]) -> Answered<(), IO> {
        let (key, value) = (Text::plain(key), Text::plain(value));
        self.ask(&Request::Put { place: Place::Job(None), key, value }, done).await
    }

    /// Reads the value of `key` into `out` and gives its length; `None` if there is no such key.
    ///
    /// Wire: `cmd=get kvsname=N key=K\n`. It never waits for somebody to put the key.
    /// Errors: [`CallError::Full`] if `out` is too small.
    pub async fn get(&mut self, key: &[u8], out: &mut [u8]) -> Answered<Option<usize>, IO> {
        let key = Text::plain(key);
        let request = Request::Get { place: Place::Job(None), key, wait: false };
        self.ask(&request, |reply| value(reply, out)).await
    }

    /// Waits until every rank of the job is here; then all see what was put before.
    ///
    /// Wire: `cmd=barrier_in\n`.
    pub async fn fence(&mut self) -> Answered<(), IO> {
        self.ask(&Request::Fence { group: Group::World, tag: None }, done).await
    }

    /// Waits until every rank of `group` is here, with the same `tag`.
    ///
    /// Wire: `cmd=barrier_in group=G:T\n`.
    /// Errors: [`CallError::Misuse`] before PMI-1.2.
    /// Spec: PMI-1.2, `barrier_in`.
    pub async fn fence_group(&mut self, group: Group<'_>, tag: u32) -> Answered<(), IO> {
        self.ask(&Request::Fence { group, tag: Some(tag) }, done).await
    }

    /// Makes `port` known under the name of a service.
    ///
    /// Wire: `cmd=publish_name service=S port=P\n`.
    /// Errors: [`CallError::Refused`] if the name is taken.
    pub async fn publish(&mut self, service: &[u8], port: &[u8]) -> Answered<(), IO> {
        let (service, port) = (Text::plain(service), Text::plain(port));
        self.ask(&Request::Publish { service, port }, done).await
    }

    /// Reads the port of a service into `out` and gives its length; `None` if there is no such
    /// service, or the server keeps none.
    ///
    /// Wire: `cmd=lookup_name service=S\n`.
    /// Errors: [`CallError::Full`] if `out` is too small.
    pub async fn lookup(&mut self, service: &[u8], out: &mut [u8]) -> Answered<Option<usize>, IO> {
        let request = Request::Lookup { service: Text::plain(service) };
        self.ask(&request, |reply| value(reply, out)).await
    }

    /// Takes a published name back.
    ///
    /// Wire: `cmd=unpublish_name service=S\n`.
    /// Errors: [`CallError::Refused`] if it was not published.
    pub async fn unpublish(&mut self, service: &[u8]) -> Answered<(), IO> {
        self.ask(&Request::Unpublish { service: Text::plain(service) }, done).await
    }

    /// Asks for new processes, which become a job of their own.
    ///
    /// Wire: one `mcmd=spawn` block for each program.
    /// Shape: `scratch` is lent for the request, which has no bound.
    /// Errors: [`CallError::Full`] says how long `scratch` must be; nothing was sent then.
    pub async fn spawn(&mut self, spawn: Spawn<'_>, scratch: &mut [u8]) -> Answered<(), IO> {
        self.still_good()?;
        let (_, len) = self.client.start_spawn(spawn, scratch)?;
        self.write(scratch.get(..len).unwrap_or(b"")).await?;
        self.answer(done).await
    }

    /// Ends the whole job with `code`. There is no answer: the caller should exit.
    ///
    /// Wire: `cmd=abort exitcode=C message=M\n`.
    /// Errors: [`CallError::Misuse`] if the conversation is over.
    pub async fn abort(&mut self, code: i32, message: &[u8]) -> Answered<(), IO> {
        let message = Text::plain(message);
        self.client.start(&Request::Abort { code: Some(code), world: true, message })?;
        self.transmit().await
    }

    /// Says goodbye; nothing can be asked afterwards.
    ///
    /// Wire: `cmd=finalize\n`.
    pub async fn finalize(&mut self) -> Answered<(), IO> {
        self.ask(&Request::Finalize, done).await
    }

    /// The machine behind the calls, to look at.
    pub const fn client(&self) -> &Client<FixedBuffer> {
        &self.client
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> IO {
        self.io
    }

    /// Asks one question and reads its answer.
    async fn ask<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(&Reply<'_>) -> Answered<T, IO>,
    ) -> Answered<T, IO> {
        self.still_good()?;
        self.client.start(request)?;
        self.transmit().await?;
        self.answer(read).await
    }

    /// A fault that came behind the last answer is told now.
    const fn still_good(&self) -> Answered<(), IO> {
        match self.client.state() {
            State::Failed(error) => Err(CallError::Peer(error)),
            _ => Ok(()),
        }
    }

    async fn transmit(&mut self) -> Answered<(), IO> {
        let mut line = [0; PMI1_LINE];
        while let Some(len) = self.client.poll_transmit(&mut line)? {
            self.write(line.get(..len).unwrap_or(b"")).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Answered<(), IO> {
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

    async fn answer<T>(
        &mut self,
        read: impl FnOnce(&Reply<'_>) -> Answered<T, IO>,
    ) -> Answered<T, IO> {
        let mut bytes = [0; READ_BYTES];
        loop {
            let len = self.io.read(&mut bytes).await.map_err(CallError::Io)?;
            if len == 0 {
                self.client.handle_end(NOW)?;
                return Err(CallError::Peer(PeerError::LeftEarly));
            }
            let came = bytes.get(..len).unwrap_or(b"");
            let taken = self.client.handle_input(NOW, came)?;
            let Some(Event::Reply { reply, .. }) = self.client.poll_event() else { continue };
            let answered = read(&reply);
            // Nothing may come behind an answer. If it does, the machine remembers the fault, and
            // the next call tells it: this one has its answer.
            let behind = came.get(taken..).unwrap_or(b"");
            let _told_by_the_next_call = self.client.handle_input(NOW, behind);
            return answered;
        }
    }
}

/// Moves bytes until there is something for the owner to look at, and lets other tasks run while
/// there is none.
///
/// Shape: as for [`crate::pump()`]; `now` is asked before every turn. It comes back when bytes have
/// moved, the machine holds back, or the conversation is over.
/// Errors: as for [`crate::pump()`].
pub async fn pump<I: Buffer, O: Buffer>(
    mut now: impl FnMut() -> Instant,
    machine: &mut impl Machine,
    link: &mut impl Link,
    carry: &mut Carry<I, O>,
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

fn done<E>(reply: &Reply<'_>) -> Result<(), CallError<E>> {
    if reply.code.is_success() { Ok(()) } else { Err(refused(reply)) }
}

/// A number of the server's; negative ones stand for "unknown".
fn number<E>(reply: &Reply<'_>) -> Result<Option<u32>, CallError<E>> {
    match reply.answer {
        Answer::Number(number) => Ok(u32::try_from(number).ok()),
        _ => Err(refused(reply)),
    }
}

fn value<E>(reply: &Reply<'_>, out: &mut [u8]) -> Result<Option<usize>, CallError<E>> {
    let (Answer::Value(text), true) = (reply.answer, reply.code.is_success()) else {
        return Ok(None);
    };
    let needed = text.len();
    let out = out.get_mut(..needed).ok_or(Full { needed })?;
    out.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    Ok(Some(needed))
}

fn refused<E>(reply: &Reply<'_>) -> CallError<E> {
    let Reply { to: verb, code, .. } = *reply;
    CallError::Refused { verb, code }
}

/// A client waits for no point in time, so none has to be told.
const NOW: Instant = Instant::ZERO;

/// Most answers fit at once; the longest takes a few turns.
const READ_BYTES: usize = 256;

const _: () = {
    // Whatever fits the client's buffer fits the line with the name of the space and the words.
    let put = BUFFER_BYTES + KVSNAME_BYTES + "cmd=put kvsname= key= value=\n".len();
    assert!(put <= PMI1_LINE);
};
