//! Operations of a key-value space, independent of its memory.

use crate::error::Malformed;
use crate::ids::{ProcId, Rank};

/// Keys and values in a few keyspaces.
///
/// The owner chooses the memory: [`Arena`](super::Arena) over lent slices, or a map on a host.
/// The same tests run on every kind.
///
/// Shape: keys and values are copied in. An [`EntryId`] stays valid until its entry is removed,
/// also when the value changes; so a pending reply holds a number and is rendered later.
pub trait Kvs {
    /// Bytes of a block, as its owner holds them.
    type Block: ?Sized;

    /// Stores `value` under `key`, and returns its entry and the previous writer.
    ///
    /// # Errors
    ///
    /// [`NoRoom`]; the previous value is kept then.
    fn put(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        visibility: Visibility,
    ) -> Result<(EntryId, Option<Visibility>), NoRoom>;

    /// Finds the entry of `key`.
    fn find(&self, keyspace: Keyspace, key: &[u8]) -> Option<EntryId>;

    /// Lends an entry.
    fn entry(&self, id: EntryId) -> Option<Entry<'_>>;

    /// Changes the visibility of an entry.
    fn set_visibility(&mut self, id: EntryId, visibility: Visibility);

    /// Removes an entry.
    fn remove(&mut self, id: EntryId);

    /// Adds the pairs of other nodes to [`Keyspace::Remote`]; those of a later block replace earlier ones,
    /// and of two in one block the later one holds.
    ///
    /// Shape: records of [`BlockReader`](super::BlockReader); those that are no pairs are skipped.
    ///
    /// # Errors
    ///
    /// [`BlockError`]; no pair was added then.
    fn add_block(&mut self, block: &Self::Block) -> Result<(), BlockError>;

    /// The entry after `last`, or the first; in the same order every time on every machine. The pairs of
    /// other nodes may be a sequence of their own, which begins with [`first_remote`](Self::first_remote).
    fn next(&self, last: Option<EntryId>) -> Option<EntryId>;

    /// The first pair of another node, unless [`next`](Self::next) reaches it from the first entry.
    fn first_remote(&self) -> Option<EntryId> {
        None
    }
}

/// Kind of a key; the same key may exist in several keyspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keyspace {
    /// The job's key-value space.
    Space,
    /// Attributes that the process manager sets for the job.
    Attributes,
    /// Attributes that the ranks of one node share.
    Node(u32),
    /// Published names.
    Names,
    /// Values of a ring; two alternate, so that a fast rank does not overwrite.
    Ring(bool),
    /// Members of group fences, as listed.
    Groups,
    /// Pairs of the job's key-value space that ranks of other nodes put, as of the last fence.
    Remote,
}

/// Origin of an entry, and the ranks that see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Put by a rank, which sees it at once.
    Put {
        /// The writer.
        writer: Rank,
        /// The fence whose end makes it visible to the other ranks, counted from 1; 0 for "at once".
        fence: u32,
    },
    /// Set by the process manager, or by a job outside: all ranks see it.
    Manager,
    /// A name, published by this process: the processes of all jobs see it.
    Published(ProcId),
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId(pub u32);

/// An entry, lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its keyspace.
    pub keyspace: Keyspace,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Its origin, and the ranks that see it.
    pub visibility: Visibility,
}

/// The memory that was lent is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A block that was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// The bytes are not a block.
    Malformed(Malformed),
    /// The memory of the space is used up.
    NoRoom,
}

impl core::fmt::Display for BlockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Malformed(bad) => bad.fmt(f),
            Self::NoRoom => f.write_str("no room for the pairs of other nodes"),
        }
    }
}

impl core::error::Error for BlockError {}

impl From<Malformed> for BlockError {
    fn from(bad: Malformed) -> Self {
        Self::Malformed(bad)
    }
}

impl Visibility {
    /// Visibility of a pair that `writer` put, and that all ranks see.
    pub const fn at_once(writer: Rank) -> Self {
        Self::Put { writer, fence: 0 }
    }

    /// The rank that put the pair, or published the name.
    pub const fn writer(self) -> Option<Rank> {
        match self {
            Self::Put { writer, .. } | Self::Published(ProcId { rank: writer, .. }) => Some(writer),
            Self::Manager => None,
        }
    }

    /// True if `reader`, a rank of the job, sees the entry after `fences` completed fences; a reader
    /// outside the job (`None`) sees what all ranks see.
    pub fn is_visible(self, reader: Option<Rank>, fences: u32) -> bool {
        match self {
            Self::Put { writer, fence } => fence <= fences || reader == Some(writer),
            Self::Manager | Self::Published(_) => true,
        }
    }
}
