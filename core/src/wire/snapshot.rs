//! Values of a job in memory that its processes share with their server: a generation, and the batch of a
//! segment.
//!
//! A generation has a header, a table of slots, and the records of its pairs.
//!
//! ```text
//!  0  "PMIsnap1"
//!  8  length of the whole in bytes        20  number of pairs
//! 12  number of the first publication     24  number of slots, a power of two
//! 16  number of the last publication      28  0
//! 32  slots of 8 bytes: hash of the key, offset of the record; offset 0 for a free slot
//!     records: length of the key, length of the value, key, value
//! ```
//!
//! Numbers have 4 bytes, little-endian. A key whose hash is `h` is in the first slot from `h` modulo the
//! number of slots on, in the order of the slots and around the end, that is not taken by another key; a
//! free slot ends the search. The hash is FNV-1a. Every number is checked against the length of the
//! whole: bytes that are no generation give wrong or no pairs, and nothing outside of them is read.
//!
//! A batch is a sequence of messages, each behind its length in 4 bytes. Spec: `docs/snapshot.md`.

use crate::error::{Full, Malformed};

/// A generation, read from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Generation<B> {
    bytes: B,
    first: u32,
    last: u32,
    slots: u32,
}

impl<B: AsRef<[u8]>> Generation<B> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are no generation.
    pub fn new(bytes: B) -> Result<Self, Malformed> {
        let all = bytes.as_ref();
        if !all.starts_with(&MAGIC) {
            return Err(Malformed::new(0, "PMIsnap1"));
        }
        let number = |at| number_at(all, at).ok_or(Malformed::new(all.len(), "a header"));
        let [len, first, last, slots] = [number(8)?, number(12)?, number(16)?, number(24)?];
        if usize::try_from(len) != Ok(all.len()) {
            return Err(Malformed::new(8, "the length of the whole"));
        }
        if first > last {
            return Err(Malformed::new(12, "a first publication before the last"));
        }
        if !slots.is_power_of_two() || records_at(slots).is_none_or(|end| end > all.len()) {
            return Err(Malformed::new(24, "a power of two of slots"));
        }
        Ok(Self { bytes, first, last, slots })
    }

    /// Number of the first publication whose pairs it has: it replaces all generations from that number on.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Number of the last publication whose pairs it has.
    pub const fn last(&self) -> u32 {
        self.last
    }

    /// The value of `key`; `None` if it is not in this generation.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let hash = hash_of(key);
        for slot in probes(hash, self.slots) {
            let (of, offset) = self.slot(slot)?;
            if offset == 0 {
                return None;
            }
            if of == hash
                && let Some((found, value)) = self.record(offset)
                && found == key
            {
                return Some(value);
            }
        }
        None
    }

    /// All pairs, in the order of the slots.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let slots = (0..self.slots).filter_map(|slot| self.slot(slot));
        slots.filter(|(_, offset)| *offset != 0).filter_map(|(_, offset)| self.record(offset))
    }

    fn slot(&self, slot: u32) -> Option<(u32, u32)> {
        let (bytes, at) = (self.bytes.as_ref(), records_at(slot)?);
        Some((number_at(bytes, at)?, number_at(bytes, at.checked_add(4)?)?))
    }

    fn record(&self, offset: u32) -> Option<(&[u8], &[u8])> {
        let (all, at) = (self.bytes.as_ref(), usize::try_from(offset).ok()?);
        let len = |at| usize::try_from(number_at(all, at)?).ok();
        let (key_len, value_len) = (len(at)?, len(at.checked_add(4)?)?);
        let texts = all.get(at.checked_add(RECORD_HEAD_BYTES)?..)?;
        let (key, rest) = texts.split_at_checked(key_len)?;
        Some((key, rest.get(..value_len)?))
    }
}

/// Writes the generation of the publications from `first` to `last`, and returns its length. No key may be in
/// `pairs` twice.
///
/// # Errors
///
/// [`Full`] with the room needed, which is [`usize::MAX`] for more than the format can express; the content
/// of
/// `out` is undefined then.
pub fn write_generation<'p>(
    pairs: impl Iterator<Item = (&'p [u8], &'p [u8])> + Clone,
    [first, last]: [u32; 2],
    out: &mut [u8],
) -> Result<usize, Full> {
    let needed = pairs.clone().try_fold((0u32, 0usize), |(count, len), (key, value)| {
        let record = RECORD_HEAD_BYTES.checked_add(key.len())?.checked_add(value.len())?;
        Some((count.checked_add(1)?, len.checked_add(record)?))
    });
    const TOO_LONG: Full = Full { needed: usize::MAX };
    let (count, records_bytes) = needed.ok_or(TOO_LONG)?;
    // At most half of the slots are taken, so a search is short.
    let slots = count.checked_mul(2).and_then(|slots| slots.max(1).checked_next_power_of_two());
    let slots = slots.ok_or(TOO_LONG)?;
    let start = records_at(slots).ok_or(TOO_LONG)?;
    let needed = start.checked_add(records_bytes).ok_or(TOO_LONG)?;
    let len = u32::try_from(needed).map_err(|_| TOO_LONG)?;
    let out = out.get_mut(..needed).ok_or(Full { needed })?;
    let header = out.get_mut(..start).unwrap_or(&mut []);
    header.fill(0);
    let magic = header.iter_mut().zip(MAGIC);
    magic.for_each(|(place, byte)| *place = byte);
    for (at, number) in [(8, len), (12, first), (16, last), (20, count), (24, slots)] {
        set_number(out, at, number);
    }
    let mut at = start;
    for (key, value) in pairs {
        let (hash, offset) = (hash_of(key), u32::try_from(at).map_err(|_| TOO_LONG)?);
        let mut free = probes(hash, slots).filter_map(records_at);
        let free = free.find(|slot| number_at(out, slot.saturating_add(4)) == Some(0));
        let slot = free.ok_or(TOO_LONG)?;
        set_number(out, slot, hash);
        set_number(out, slot.saturating_add(4), offset);
        for text in [key, value] {
            set_number(out, at, u32::try_from(text.len()).map_err(|_| TOO_LONG)?);
            at = at.saturating_add(4);
        }
        for text in [key, value] {
            let end = at.saturating_add(text.len());
            copy(out.get_mut(at..end).unwrap_or(&mut []), text);
            at = end;
        }
    }
    Ok(needed)
}

/// The first message of a batch and the rest; `None` if the bytes do not begin with one.
pub fn split_message(batch: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::try_from(number_at(batch, 0)?).ok()?;
    batch.get(4..)?.split_at_checked(len).filter(|(message, _)| !message.is_empty())
}

/// The hash of a key: FNV-1a of 32 bits.
pub fn hash_of(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The number at an offset; `None` if the bytes end before.
pub fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

fn set_number(bytes: &mut [u8], at: usize, number: u32) {
    let place = bytes.get_mut(at..).unwrap_or(&mut []);
    copy(place, &number.to_le_bytes());
}

/// Copies `from` to the front of `to`, as far as both go.
fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// Slots that a key with this hash may have, in the order of the search.
fn probes(hash: u32, slots: u32) -> impl Iterator<Item = u32> {
    (0..slots).map(move |step| hash.wrapping_add(step) & slots.wrapping_sub(1))
}

/// Offset behind this number of slots.
fn records_at(slots: u32) -> Option<usize> {
    usize::try_from(slots).ok()?.checked_mul(SLOT_BYTES)?.checked_add(HEADER_BYTES)
}

const MAGIC: [u8; 8] = *b"PMIsnap1";
const HEADER_BYTES: usize = 32;
const SLOT_BYTES: usize = 8;
const RECORD_HEAD_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::vec::Vec;

    fn built(pairs: &[(&str, &str)]) -> Vec<u8> {
        let pairs = pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        let needed = write_generation(pairs.clone(), [3, 7], &mut []).unwrap_err().needed;
        let mut out = std::vec![0xaa; needed];
        assert_eq!(write_generation(pairs, [3, 7], &mut out), Ok(needed));
        out
    }

    #[test]
    fn pairs_are_found_by_their_keys_and_no_others() {
        let generation = Generation::new(built(&[("", "empty"), ("l", ""), ("k", "2")])).unwrap();
        assert_eq!((generation.first(), generation.last()), (3, 7));
        assert_eq!(generation.get(b"k"), Some(&b"2"[..]));
        assert_eq!(generation.get(b""), Some(&b"empty"[..]));
        assert_eq!(generation.get(b"l"), Some(&b""[..]));
        assert_eq!(generation.get(b"m"), None);
        assert_eq!(generation.pairs().count(), 3);
        let empty = Generation::new(built(&[])).unwrap();
        assert_eq!((empty.get(b"k"), empty.pairs().count()), (None, 0));
    }

    #[test]
    fn thousands_of_pairs_are_found() {
        let keys: Vec<_> = (0..5000).map(|n| format!("key-{n}")).collect();
        let pairs: Vec<_> = keys.iter().map(|key| (key.as_str(), &key[4..])).collect();
        let generation = Generation::new(built(&pairs)).unwrap();
        for (key, value) in pairs {
            assert_eq!(generation.get(key.as_bytes()), Some(value.as_bytes()), "{key}");
        }
        assert_eq!(generation.pairs().count(), 5000);
    }

    #[test]
    fn bytes_that_are_cut_or_changed_give_no_bytes_from_outside() {
        let whole = built(&[("key", "value"), ("other", "thing")]);
        for len in 0..whole.len() {
            assert!(Generation::new(&whole[..len]).is_err(), "{len}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let Ok(generation) = Generation::new(&changed[..]) else { continue };
                let found = generation.pairs().map(|(key, value)| key.len() + value.len());
                assert!(found.max().unwrap_or(0) <= whole.len());
                assert!(generation.get(b"missing").is_none());
            }
        }
    }

    #[test]
    fn table_without_a_free_slot_ends_a_search() {
        let mut full = built(&[("a", "1")]);
        let slots = number_at(&full, 24).unwrap();
        for slot in 0..slots {
            set_number(&mut full, records_at(slot).unwrap() + 4, u32::MAX);
        }
        let full = Generation::new(full).unwrap();
        assert_eq!((full.get(b"a"), full.pairs().count()), (None, 0));
    }

    #[test]
    fn batch_is_split_up_to_a_length_that_is_wrong() {
        let batch = b"\x03\0\0\0one\x03\0\0\0two";
        let (one, rest) = split_message(batch).unwrap();
        let (two, rest) = split_message(rest).unwrap();
        assert_eq!((one, two, rest), (&b"one"[..], &b"two"[..], &b""[..]));
        for wrong in [&b"\x03\0\0\0on"[..], b"\0\0\0\0one", b"\xff\xff\xff\xffone", b"\x01\0", b""]
        {
            assert_eq!(split_message(wrong), None, "{wrong:?}");
        }
    }
}
