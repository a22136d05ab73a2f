//! What a key-value space must be able to do, whatever it is made of.

use crate::ids::Rank;

/// Keys and values on a few shelves.
///
/// The owner chooses the memory: [`Arena`](super::Arena) over lent slices, or a map on a host.
/// The same tests run on every kind.
///
/// Shape: keys and values are copied in. An [`EntryId`] stays good until its entry is removed,
/// also when the value changes; so a reply can be owed as a number and rendered later.
pub trait Kvs {
    /// Stores `value` under `key`, and tells where, and who had stored there before.
    ///
    /// Errors: [`NoRoom`], and what was there before is still there.
    fn put(
        &mut self,
        shelf: Keyspace,
        key: &[u8],
        value: &[u8],
        stamp: Visibility,
    ) -> Result<(EntryId, Option<Visibility>), NoRoom>;

    /// Finds the entry of `key`.
    fn find(&self, shelf: Keyspace, key: &[u8]) -> Option<EntryId>;

    /// Lends an entry.
    fn entry(&self, id: EntryId) -> Option<Entry<'_>>;

    /// Changes the stamp of an entry.
    fn set_visibility(&mut self, id: EntryId, stamp: Visibility);

    /// Forgets an entry.
    fn remove(&mut self, id: EntryId);

    /// The entry after `last`, or the first; in the same order every time on every machine.
    fn next(&self, last: Option<EntryId>) -> Option<EntryId>;
}

/// What kind of thing a key names; the same key may stand on several shelves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keyspace {
    /// The job's key-value space.
    Space,
    /// What the process manager says about the job.
    Attributes,
    /// What the ranks of one node share.
    Node(u32),
    /// Published names.
    Names,
    /// What a ring passes on; two take turns, so that a fast rank does not overwrite.
    Ring(bool),
    /// Which ranks the fences of groups are of, as they were listed.
    Groups,
}

/// Who stored an entry, and from when on others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// Who stored it.
    pub writer: Rank,
    /// The fence that makes it visible: number N stands for the end of the Nth fence, 0 for
    /// "always".
    pub fence: u32,
}

/// Which entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId(pub u32);

/// An entry, lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where it stands.
    pub keyspace: Keyspace,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Who stored it and from when on it is seen.
    pub visibility: Visibility,
}

/// The memory that was lent is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Visibility {
    /// The stamp of what the process manager says itself.
    pub const MANAGER: Self = Self { writer: Rank(u32::MAX), fence: 0 };

    /// Whether `rank` sees the entry after `fences` fences have ended.
    pub fn is_visible(self, rank: Rank, fences: u32) -> bool {
        self.fence <= fences || self.writer == rank
    }
}
