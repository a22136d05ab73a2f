//! Values of a job in memory that its ranks share with their server.
//!
//! A rank and its server on one node agree on it when the session opens: the rank sends the descriptor of its
//! *segment* with the first bytes of its first message, and the server answers with that of a *generation*. A
//! server that does not know of it reads the same bytes as always, and the descriptor is dropped by the
//! system.
//!
//! | memory | written by | contents |
//! |---|---|---|
//! | [segment](SegmentWriter) | the rank | the requests of its puts, which the server reads before the next message |
//! | [generation](pmi_core::wire::snapshot) | the server | the pairs that became visible since the last publication; sealed, so that nothing changes any more |
//!
//! The descriptors of new generations come with the reply to a fence. A generation replaces those that it
//! includes: a server merges small ones, so that their number grows with the logarithm of the data.
//!
//! A lookup reads the generations from the newest to the oldest, without a system call. A key that is in
//! none of them is asked for by a message. The page `docs/snapshot.md` has the protocol as a whole.

mod builder;
mod descriptors;
mod sealed;
mod segment;
pub mod server;

pub use crate::inherit::memory::SealedMemory;
pub use builder::GenerationBuilder;
pub use descriptors::{
    DESCRIPTORS_MAX, ReceivedDescriptors, peek_descriptors, recv_with, send_with,
};
pub use sealed::publish;
pub use segment::{SEGMENT_BYTES, SegmentReader, SegmentWriter};
