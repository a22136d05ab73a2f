//! The calls of one thread, with owned results.

use std::io;

use pmi_core::client::Client;
use pmi_core::error::{Code, Full};
use pmi_link::calls::{self, *};
use pmi_link::{SpawnError, blocking};

use crate::BoundedBuf;
use crate::env::{Environment, Transport};
use crate::owned::{
    Membership, Neighbours, OwnedNumbers, OwnedPair, OwnedPairs, OwnedRing, OwnedValue,
    Spawned as OwnedSpawned, owned_calls,
};
use crate::stream::Stream;

/// A session with a PMI server, in which every call waits for its reply and returns owned values.
#[derive(Debug)]
pub struct Pmi(blocking::StreamClient<Stream, BoundedBuf, 2>);

type CallResult<T> = Result<T, CallError<io::Error>>;

impl Pmi {
    /// Takes a connected stream; nothing is sent yet.
    pub fn new(stream: Stream) -> Self {
        Self(blocking::StreamClient::with_buffer(stream, BoundedBuf::new(REPLY_BYTES)))
    }

    pmi_link::client_calls! { [] [] [&mut Self] io::Error, generations: 2, threaded: false }
    owned_calls! { [&mut Self] }

    /// Spawns processes, which become a job of their own, and waits until they run.
    ///
    /// Wire: one `mcmd=spawn` block for each program; in PMI-2 one message.
    /// Spec: PMI-1.1, `mcmd=spawn`; PMI-2 wire protocol, SPAWN.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Refused`] with the codes of the processes.
    pub fn spawn(
        &mut self,
        spawn: Spawn<'_>,
    ) -> Result<OwnedSpawned, SpawnError<Vec<Code>, io::Error>> {
        let mut scratch = vec![0; REPLY_BYTES];
        loop {
            let spawned = self.0.spawn(spawn, &mut scratch);
            match spawned.map(OwnedSpawned::new).map_err(|error| error.map_codes(owned_codes)) {
                // Nothing was sent: a spawn has no bound.
                Err(SpawnError::Call(CallError::Full(Full { needed })))
                    if needed > scratch.len() =>
                {
                    scratch.resize(needed, 0);
                }
                spawned => return spawned,
            }
        }
    }

    /// Copies pairs into the space of a job; see [`blocking::Pmi::put_all`].
    ///
    /// # Errors
    ///
    /// As for [`blocking::Pmi::put_all`].
    pub fn put_all(&mut self, job: &[u8], pairs: &[Pair<'_>]) -> CallResult<()> {
        self.0.put_all(job, pairs)
    }

    /// Sends any request and returns what `reply` reads from the replies: the way of every call.
    ///
    /// # Errors
    ///
    /// [`CallError`] of the session, and those of `reply`.
    pub fn call<R: ReadReply>(&mut self, request: &Request<'_>, reply: R) -> CallResult<R::Output> {
        self.0.call(request, reply)
    }

    /// The client machine behind the calls.
    pub const fn client(&self) -> &Client<BoundedBuf> {
        self.0.client()
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> Stream {
        self.0.into_inner()
    }

    fn read_client<T>(&self, read: impl FnOnce(&Client<BoundedBuf>) -> T) -> T {
        read(self.client())
    }

    fn send_abort(&mut self, code: i32, message: &[u8]) -> CallResult<()> {
        self.0.abort(code, message)
    }
}

/// Codes that outlive the buffer of the reply.
fn owned_codes(codes: Codes<'_>) -> Vec<Code> {
    codes.iter().collect()
}

/// Upper bound of a reply, as in known clients.
pub(crate) const REPLY_BYTES: usize = 1 << 16;
