//! The calls of a client that several threads use at once.
//!
//! PMI-2 allows several requests in flight, so that a thread that waits for a spawn or for a missing
//! value does not delay the others. In PMI-1 the same calls take turns, since its servers answer one
//! request at a time.
//!
//! ```no_run
//! # use pmi_std::{SharedPmi, connect_shared};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let member = connect_shared()?.expect("a launcher");
//! let waits = std::thread::spawn({
//!     let pmi: SharedPmi = member.pmi.clone();
//!     move || pmi.get_node(b"leader", true)
//! });
//! member.pmi.put_node(b"leader", b"10.0.0.1")?;
//! assert_eq!(waits.join().expect("no panic")?.as_deref(), Some(&b"10.0.0.1"[..]));
//! # Ok(())
//! # }
//! ```

mod connection;
mod halves;
mod owned_reply;
#[cfg(feature = "snapshot")]
mod snapshot;

use std::io;
use std::sync::Arc;

use pmi_core::client::Client;
use pmi_core::error::{Code, Misuse};
use pmi_link::SpawnError;
use pmi_link::calls::{self, *};

use self::connection::{SLOTS, SharedConnection};
use crate::BoundedBuf;
use crate::env::{Environment, Transport};
use crate::owned::{
    Membership, Neighbours, OwnedNumbers, OwnedPair, OwnedPairs, OwnedRing, OwnedSpawn, OwnedValue,
    Spawned as OwnedSpawned, owned_calls, refused_spawn,
};
use crate::stream::Stream;

/// A handle of a session; each thread has its own, and all calls may run at once.
///
/// # Errors
///
/// An error that ends the session is returned to every waiting thread, and by every later call.
#[derive(Clone, Debug)]
pub struct SharedPmi(Arc<SharedConnection>);

type CallResult<T> = Result<T, CallError<io::Error>>;

impl SharedPmi {
    /// Takes a connected stream; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The error of the system if the stream cannot be shared.
    pub fn new(stream: Stream) -> io::Result<Self> {
        Ok(Self(Arc::new(SharedConnection::new(stream)?)))
    }

    /// Takes a connected stream, and offers the server a [`snapshot`](crate::snapshot) with the first
    /// message; nothing is sent yet. A system without the memory for it, or a server that does not know
    /// of it, gives a session as that of [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As there.
    #[cfg(feature = "snapshot")]
    pub fn with_snapshot(stream: Stream) -> io::Result<Self> {
        Ok(Self(Arc::new(SharedConnection::with_snapshot(stream)?)))
    }

    pmi_link::client_calls! { [] [] [&Self] io::Error, generations: 2, threaded: true }
    owned_calls! { [&Self] }

    /// Spawns processes, which become a job of their own, and waits until they run. In PMI-2 no other thread
    /// waits with this one.
    ///
    /// Wire: one `mcmd=spawn` block for each program; in PMI-2 one message.
    /// Spec: PMI-1.1, `mcmd=spawn`; PMI-2 wire protocol, SPAWN.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Refused`] with the codes of the processes.
    pub fn spawn(
        &self,
        spawn: Spawn<'_>,
    ) -> Result<OwnedSpawned, SpawnError<Vec<Code>, io::Error>> {
        self.call(&Request::Spawn(spawn), OwnedSpawn)?.map_err(refused_spawn)
    }

    /// Copies pairs into the space of a job; see [`put_all`](pmi_link::blocking::Pmi::put_all).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn put_all(&self, job: &[u8], pairs: &[Pair<'_>]) -> CallResult<()> {
        // All announced pairs must follow, so all are checked first.
        for pair in pairs {
            self.0.state().client.message_bytes(&put_pair(*pair))?;
        }
        let ticket = self.0.send(&put_all(job, pairs))?;
        for pair in pairs {
            match self.0.send(&put_pair(*pair)) {
                // The server has refused meanwhile; its reply has the reason.
                Err(CallError::Misuse(Misuse::WrongState { .. })) => break,
                sent => drop(sent?),
            }
        }
        Ok(DoneReply.on_reply(&self.0.recv(ticket)?.lend())?)
    }

    /// Sends any request and returns what `reply` reads from the replies: the way of every call.
    ///
    /// # Errors
    ///
    /// [`CallError`] of the session, and those of `reply`.
    pub fn call<R: ReadReply>(&self, request: &Request<'_>, mut reply: R) -> CallResult<R::Output> {
        #[cfg(feature = "snapshot")]
        if let Some(result) = self.0.call_in_memory(request, &mut reply)? {
            return Ok(result?);
        }
        let ticket = self.0.send(request)?;
        loop {
            let received = self.0.recv(ticket)?;
            let result = reply.on_reply(&received.lend());
            if !received.has_more() {
                #[cfg(feature = "snapshot")]
                self.0.end_fence(request)?;
                return Ok(result?);
            }
        }
    }

    /// Has `read` read a value of the own job as of the last fence, if it is in memory shared with the
    /// server: without a message and without a copy. `None` if the server has to be asked.
    #[cfg(feature = "snapshot")]
    pub fn read_in_memory<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.0.read_in_memory(key, read)
    }

    /// Reports that this process aborts, and not its job. There is no reply: the caller should exit.
    ///
    /// Wire: `cmd=abort;isworld=FALSE;exitcode=C;msg=M;`. PMI-1 has no such request, and aborts the job.
    /// Shape: a message that is too long is cut.
    /// Spec: PMI-2 wire protocol, ABORT.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`] if the session is over.
    pub fn abort_self(&self, code: i32, message: &[u8]) -> CallResult<()> {
        let message = Text::plain(message);
        self.0.send_abort(&Request::Abort { code: Some(code), world: false, message })
    }

    fn read_client<T>(&self, read: impl FnOnce(&Client<BoundedBuf, SLOTS>) -> T) -> T {
        read(&self.0.state().client)
    }

    fn send_abort(&self, code: i32, message: &[u8]) -> CallResult<()> {
        self.0.send_abort(&abort(code, message))
    }
}
