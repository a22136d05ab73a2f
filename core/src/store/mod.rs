//! What a job remembers: keys and values, and who has arrived where.

mod arena;
mod fence;
mod kvs;

pub use arena::{Arena, ArenaCell};
pub use fence::Fence;
pub use kvs::{Entry, EntryId, Keyspace, Kvs, NoRoom, Visibility};

#[cfg(test)]
mod tests;
