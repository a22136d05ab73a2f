//! The calls of a client, defined once for every driver.
//!
//! A call is a request and a [`ReadReply`]: the conversion of its reply into a result. A driver is a type
//! that sends the one and feeds the other, each in its own way of waiting; it has one method for that,
//! `call`. The table [`client_calls!`](crate::client_calls) writes every call as a method on top.
//!
//! | driver | waits | results |
//! |---|---|---|
//! | [`blocking::Pmi`](crate::blocking::Pmi) | in the stream | in slices that the caller lends |
//! | [`task::AsyncPmi`](crate::task::AsyncPmi) | as a future | in slices that the caller lends |
//! | `pmi_std::Pmi` | in the stream | owned |
//! | `pmi_std::SharedPmi` | for its reply among those of other threads | owned |
//!
//! # How to write a driver
//!
//! Implement these methods, of which all but `call` may be private; then invoke the table in an `impl`
//! block, with this module and everything in it imported. `async`, `.await`, the receiver and the error of
//! the transport are parameters:
//!
//! ```text
//! impl Driver {
//!     async fn call<R: ReadReply>(
//!         &mut self,
//!         request: &Request<'_>,
//!         reply: R,
//!     ) -> Result<R::Output, CallError<E>>;
//!     async fn send_abort(&mut self, code: i32, message: &[u8]) -> Result<(), CallError<E>>;
//!     fn read_client<T>(&self, read: impl FnOnce(&Client<…>) -> T) -> T;
//!
//!     pmi_link::client_calls! { [async] [await] [&mut Self] E, generations: 2, threaded: false }
//! }
//! ```

mod lent;
mod opening;
mod reply;
mod table;

pub use pmi_core::client::{AuthProgress, Prover, State};
pub use pmi_core::command::{
    FenceGroup, Identity, Maxes, Pair, Place, Reply, Request, Spawn, Text, Version,
};
pub use pmi_core::error::{Full, Misuse, PeerError};
pub use pmi_core::ids::KvsName;
pub use pmi_core::parts;

pub(crate) use self::lent::lent_calls;
pub use self::opening::{JoinReply, Opened, Opening};
pub use self::reply::{
    AnyReply, Codes, CopyReply, DoneReply, MaxesReply, NameReply, NumberReply, NumbersReply,
    PairsReply, ReplyError, ReplyResult, Ring, RingReply, Spawned, ValueReply,
};
pub(crate) use self::reply::{SPAWNED_BYTES, SpawnCodes, lend_spawned};
pub use crate::CallError;

/// Converts the replies to one request into the result of a call.
///
/// All requests but one have one reply. [`Request::GetAll`] has several, and the result of the last one
/// counts.
pub trait ReadReply: Send {
    /// Result of the call.
    type Output: Send;

    /// Reads one reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`] if the reply is a refusal, or does not have what the call returns.
    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Self::Output>;
}

/// Request for the value of `key` in `place`.
pub const fn get<'a>(place: Place<'a>, key: &'a [u8], wait: bool) -> Request<'a> {
    Request::Get { place, key: Text::plain(key), wait }
}

/// Request that stores a value under `key` in `place`.
pub const fn put<'a>(place: Place<'a>, key: &'a [u8], value: &'a [u8]) -> Request<'a> {
    Request::Put { place, key: Text::plain(key), value: Text::plain(value) }
}

/// Request for one pair of those that [`Request::PutAll`] has announced.
pub const fn put_pair(Pair { key, value }: Pair<'_>) -> Request<'_> {
    Request::PutPair { key, value }
}

/// Request that announces `pairs`, each of which follows by [`put_pair`].
pub fn put_all<'a>(job: &'a [u8], pairs: &[Pair<'_>]) -> Request<'a> {
    let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
    Request::PutAll { job: Text::plain(job), pairs: count }
}

/// Place of the attributes that the process manager sets for the job: in PMI-1 the key-value space of the
/// job.
pub const fn attributes(has_frames: bool) -> Place<'static> {
    if has_frames { Place::Attributes } else { Place::Job(None) }
}

/// Request that aborts the whole job.
pub const fn abort(code: i32, message: &[u8]) -> Request<'_> {
    Request::Abort { code: Some(code), world: true, message: Text::plain(message) }
}
