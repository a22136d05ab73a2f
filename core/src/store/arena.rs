//! A key-value space in two lent slices: no heap, no limit but their size.

use super::block::{BlockReader, BlockRecord};
use super::kvs::{BlockError, Entry, EntryId, Keyspace, Kvs, NoRoom, Visibility};
use crate::ids::Rank;
use crate::storage::{copy, move_down};

/// A key-value space over lent memory: `places` for entries and `bytes` for keys and values.
///
/// Shape: `places` is a hash table with open addressing, so an entry never moves and its number
/// is its place. `bytes` is a log of records `place · length · key · value`; a value that grows
/// moves to the end of the log, and when the end is reached the dead records are squeezed out.
/// Works over `[T; N]`, `&'static mut [T]` and anything else that lends a slice.
#[derive(Debug)]
pub struct Arena<P, B> {
    places: P,
    bytes: B,
    /// End of the log.
    tail: usize,
    /// Bytes of dead records before it.
    dead: usize,
}

/// A place for one entry.
#[derive(Clone, Copy, Debug)]
pub struct ArenaCell {
    state: CellState,
    hash: u32,
    keyspace: Keyspace,
    visibility: Visibility,
    /// Offset of its record.
    offset: usize,
    key_len: usize,
    value_len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellState {
    Free,
    /// Was used: a search goes on past it.
    Left,
    Used,
}

impl ArenaCell {
    /// A place that is not in use, to build tables of.
    pub const FREE: Self = Self {
        state: CellState::Free,
        hash: 0,
        keyspace: Keyspace::Space,
        // All zeros, so that a table of them takes no room in an image.
        visibility: Visibility::at_once(Rank(0)),
        offset: 0,
        key_len: 0,
        value_len: 0,
    };
}

impl<P, B> Arena<P, B>
where
    P: AsRef<[ArenaCell]> + AsMut<[ArenaCell]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    /// Makes an empty space over `places`, which must be [`ArenaCell::FREE`], and `bytes`.
    pub const fn new(places: P, bytes: B) -> Self {
        Self { places, bytes, tail: 0, dead: 0 }
    }

    /// Bytes in use for keys, values and their headers.
    pub const fn used_bytes(&self) -> usize {
        self.tail - self.dead
    }

    /// Size of a record with this key and value.
    pub const fn record_bytes(key_len: usize, value_len: usize) -> usize {
        HEADER + key_len + value_len
    }

    fn place(&self, index: usize) -> Option<&ArenaCell> {
        self.places.as_ref().get(index).filter(|place| place.state == CellState::Used)
    }

    /// Key and value of an entry.
    fn pair(&self, place: &ArenaCell) -> Option<(&[u8], &[u8])> {
        let start = place.offset + HEADER;
        let end = start + place.key_len + place.value_len;
        self.bytes.as_ref().get(start..end)?.split_at_checked(place.key_len)
    }

    /// The place of `key` and true, or else the first one that could take it: none of the table if
    /// there is none.
    #[inline(never)]
    fn search(&self, keyspace: Keyspace, key: &[u8], hash: u32) -> (usize, bool) {
        let places = self.places.as_ref();
        let mut index = (hash as usize).checked_rem(places.len()).unwrap_or(0);
        let mut free = places.len();
        for _ in places {
            let Some(place) = places.get(index) else { break };
            if place.state != CellState::Used {
                if free == places.len() {
                    free = index;
                }
                if place.state == CellState::Free {
                    break;
                }
            } else if place.hash == hash
                && place.keyspace == keyspace
                && self.pair(place).is_some_and(|(own, _)| own == key)
            {
                return (index, true);
            }
            index += 1;
            if index == places.len() {
                index = 0;
            }
        }
        (free, false)
    }

    /// Length of key and value that the record at `offset` has room for.
    fn room_at(&self, offset: usize) -> usize {
        self.header(offset).map_or(0, |(_, len)| len)
    }

    fn header(&self, offset: usize) -> Option<(u32, usize)> {
        let bytes = self.bytes.as_ref().get(offset..offset + HEADER)?;
        let (place, len) = bytes.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len.first_chunk()?);
        Some((u32::from_le_bytes(*place), len as usize))
    }

    fn kill(&mut self, offset: usize) {
        self.dead += HEADER + self.room_at(offset);
        if let Some(place) = self.bytes.as_mut().get_mut(offset..offset + 4) {
            copy(place, &DEAD.to_le_bytes());
        }
    }

    /// Moves living records over dead ones.
    fn squeeze(&mut self) {
        let (mut from, mut to) = (0, 0);
        while let Some((place, len)) = self.header(from).filter(|_| from < self.tail) {
            let end = from + HEADER + len;
            if place != DEAD {
                move_down(self.bytes.as_mut(), from, to, end - from);
                if let Some(place) = self.places.as_mut().get_mut(place as usize) {
                    place.offset = to;
                }
                to += HEADER + len;
            }
            from = end;
        }
        self.tail = to;
        self.dead = 0;
    }

    /// Appends a record; the caller has made sure that it fits.
    fn append(&mut self, place: u32, key: &[u8], value: &[u8]) -> Option<usize> {
        let offset = self.tail;
        let len = u32::try_from(key.len() + value.len()).ok()?;
        let record = self.bytes.as_mut().get_mut(offset..offset + HEADER + len as usize)?;
        let (head, body) = record.split_at_mut_checked(HEADER)?;
        copy(head.get_mut(..4)?, &place.to_le_bytes());
        copy(head.get_mut(4..)?, &len.to_le_bytes());
        copy(body.get_mut(..key.len())?, key);
        copy(body.get_mut(key.len()..)?, value);
        self.tail = offset + record.len();
        Some(offset)
    }
}

impl<P, B> Kvs for Arena<P, B>
where
    P: AsRef<[ArenaCell]> + AsMut<[ArenaCell]>,
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    type Block = [u8];

    fn put(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        visibility: Visibility,
    ) -> Result<(EntryId, Option<Visibility>), NoRoom> {
        let hash = hash(keyspace, key);
        let (index, is_found) = self.search(keyspace, key, hash);
        let place = *self.places.as_ref().get(index).ok_or(NoRoom)?;
        let number = u32::try_from(index).map_err(|_| NoRoom)?;
        let old_bytes = if is_found { HEADER + self.room_at(place.offset) } else { 0 };
        let needed = Self::record_bytes(key.len(), value.len());
        let offset = if old_bytes >= needed {
            let start = place.offset + HEADER + key.len();
            copy(self.bytes.as_mut().get_mut(start..).ok_or(NoRoom)?, value);
            place.offset
        } else {
            // Nothing is given up before it is sure that the new record fits.
            let len = self.bytes.as_ref().len();
            if self.used_bytes() - old_bytes + needed > len {
                return Err(NoRoom);
            }
            if is_found {
                self.kill(place.offset);
            }
            if self.tail + needed > len {
                self.squeeze();
            }
            self.append(number, key, value).ok_or(NoRoom)?
        };
        let (state, key_len, value_len) = (CellState::Used, key.len(), value.len());
        *self.places.as_mut().get_mut(index).ok_or(NoRoom)? =
            ArenaCell { state, hash, keyspace, visibility, offset, key_len, value_len };
        Ok((EntryId(number), is_found.then_some(place.visibility)))
    }

    fn find(&self, keyspace: Keyspace, key: &[u8]) -> Option<EntryId> {
        let (index, is_found) = self.search(keyspace, key, hash(keyspace, key));
        if is_found { Some(EntryId(u32::try_from(index).ok()?)) } else { None }
    }

    fn entry(&self, id: EntryId) -> Option<Entry<'_>> {
        let place = self.place(id.0 as usize)?;
        let (key, value) = self.pair(place)?;
        Some(Entry { keyspace: place.keyspace, key, value, visibility: place.visibility })
    }

    fn set_visibility(&mut self, id: EntryId, visibility: Visibility) {
        if let Some(place) = self.places.as_mut().get_mut(id.0 as usize) {
            place.visibility = visibility;
        }
    }

    fn remove(&mut self, id: EntryId) {
        let Some(offset) = self.place(id.0 as usize).map(|place| place.offset) else { return };
        self.kill(offset);
        if let Some(place) = self.places.as_mut().get_mut(id.0 as usize) {
            place.state = CellState::Left;
        }
    }

    fn add_block(&mut self, block: &[u8]) -> Result<(), BlockError> {
        // All or nothing, so pairs that replace others have to find room beside them.
        let (mut cells, mut needed) = (0_usize, 0_usize);
        for record in BlockReader::new(block) {
            if let BlockRecord::Pair { key, value, .. } = record? {
                cells += 1;
                needed = needed.saturating_add(Self::record_bytes(key.len(), value.len()));
            }
        }
        let used = self.places.as_ref().iter().filter(|cell| cell.state == CellState::Used).count();
        if used + cells > self.places.as_ref().len()
            || self.used_bytes().saturating_add(needed) > self.bytes.as_ref().len()
        {
            return Err(BlockError::NoRoom);
        }
        for record in BlockReader::new(block).map_while(Result::ok) {
            if let BlockRecord::Pair { writer, key, value } = record {
                let added = self.put(Keyspace::Remote, key, value, Visibility::at_once(writer));
                added.map_err(|NoRoom| BlockError::NoRoom)?;
            }
        }
        Ok(())
    }

    fn next(&self, last: Option<EntryId>) -> Option<EntryId> {
        let mut at = match last {
            None => 0,
            Some(id) => {
                let offset = self.place(id.0 as usize)?.offset;
                offset + HEADER + self.room_at(offset)
            }
        };
        while at < self.tail {
            let (place, len) = self.header(at)?;
            if place != DEAD {
                return Some(EntryId(place));
            }
            at += HEADER + len;
        }
        None
    }
}

fn hash(keyspace: Keyspace, key: &[u8]) -> u32 {
    let keyspace = match keyspace {
        Keyspace::Space => 0,
        Keyspace::Attributes => 1,
        Keyspace::Names => 2,
        Keyspace::Ring(turn) => 3 + u32::from(turn),
        Keyspace::Groups => 5,
        Keyspace::Remote => 6,
        Keyspace::Node(node) => node.wrapping_add(7),
    };
    // FNV-1a: short keys, no table, the same on every machine.
    let start = 0x811c_9dc5 ^ keyspace;
    key.iter().fold(start, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Place and length in front of a record, 32 bits each.
const HEADER: usize = 8;

/// Offset of an unreferenced record.
const DEAD: u32 = u32::MAX;
