//! What a job remembers: keys and values, and who has arrived where.

mod arena;
mod fence;
mod kvs;

pub use arena::{Arena, Place};
pub use fence::Fence;
pub use kvs::{Entry, EntryId, Kvs, NoRoom, Shelf, Stamp};

#[cfg(test)]
mod tests;
