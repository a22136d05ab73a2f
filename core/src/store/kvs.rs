//! Operations of a key-value space, independent of its memory.

use crate::ids::Rank;

/// Keys and values in a few keyspaces.
///
/// The owner chooses the memory: [`Arena`](super::Arena) over lent slices, or a map on a host.
/// The same tests run on every kind.
///
/// Shape: keys and values are copied in. An [`EntryId`] stays valid until its entry is removed,
/// also when the value changes; so a pending reply holds a number and is rendered later.
pub trait Kvs {
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

    /// The entry after `last`, or the first; in the same order every time on every machine.
    fn next(&self, last: Option<EntryId>) -> Option<EntryId>;
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
}

/// Writer of an entry, and the fence after which others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// The writer.
    pub writer: Rank,
    /// The fence that makes it visible: number N stands for the end of the Nth fence, 0 for
    /// "always".
    pub fence: u32,
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
    /// Its writer, and the fence after which others see it.
    pub visibility: Visibility,
}

/// The memory that was lent is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Visibility {
    /// Visibility of entries that the process manager itself sets.
    pub const MANAGER: Self = Self { writer: Rank(u32::MAX), fence: 0 };

    /// True if `rank` sees the entry after `fences` completed fences.
    pub fn is_visible(self, rank: Rank, fences: u32) -> bool {
        self.fence <= fences || self.writer == rank
    }
}
