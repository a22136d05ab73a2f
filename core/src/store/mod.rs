//! State of a job: keys and values, and the progress of its fences.

mod arena;
mod block;
mod fence;
mod kvs;

pub use arena::{Arena, ArenaCell};
pub use block::{BlockReader, BlockRecord};
pub use fence::Fence;
pub use kvs::{BlockError, Entry, EntryId, Keyspace, Kvs, NoRoom, Visibility};

#[cfg(test)]
mod tests;
