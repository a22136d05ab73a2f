//! Bytes of the store `ds21` as libpmix 4.2 reads it (docs/pmix-store.md). All numbers are in the order of
//! the machine, and of 64 bits unless stated.

use crate::launch::plan::pmix_store::ENTRY_BYTES;
use pmi_core::wire::pmix::{Format, Kval, Packer, Type};

/// Offset of the first record in a data segment; 0 would be no offset.
pub(super) const DATA_START: u64 = 8;

/// Offset of the number of jobs in the initial segment.
pub(super) const JOBS_AT: u64 = 0;

/// Length of the longest name of a job, without its terminator.
const NAME_MAX: usize = 255;

/// Offset of the first job in the initial segment, behind the number of jobs and a mark of a full segment.
const JOB_AT: usize = 16;

/// Offset of the number of meta segments in a job; that of data segments follows.
const SEGMENTS_AT: usize = JOB_AT + 272;

/// Length of the head of a record: its length with marks, and the sum of its key.
const RECORD_HEAD: usize = 16;

/// Marks in the last byte of the length of a record: a link to another record, and a record to skip.
pub(super) const LINK: u8 = 0x80;
pub(super) const SKIPPED: u8 = 0x40;

/// Offset of this byte in a record.
pub(super) const MARK_AT: u64 = 7;

/// Offset of the target in a link, behind its head and an empty key.
pub(super) const TARGET_AT: u64 = RECORD_HEAD as u64 + 1;

/// Length of a link.
const LINK_BYTES: usize = RECORD_HEAD + 1 + 8;

/// Offset of the number of records in an entry.
const COUNT_AT: u64 = 16;

/// Length of a mutex of a reader, with padding to a cache line.
const MUTEX_BYTES: usize = 64;

/// Offset of the kind in a mutex of glibc, and the kind of one that processes share. In a mutex of musl the
/// bytes are not used.
const MUTEX_KIND_AT: usize = 16;
const MUTEX_SHARED: u8 = 128;

/// The initial segment of one job that has one meta segment and one data segment; `None` for a name that is
/// too long.
pub(super) fn initial_segment(nspace: &[u8]) -> Option<Vec<u8>> {
    if nspace.len() > NAME_MAX {
        return None;
    }
    let mut bytes = vec![0; SEGMENTS_AT + 16];
    put(&mut bytes, 0, &1_u64.to_ne_bytes());
    put(&mut bytes, JOB_AT, nspace);
    put(&mut bytes, SEGMENTS_AT, &1_u64.to_ne_bytes());
    put(&mut bytes, SEGMENTS_AT + 8, &1_u64.to_ne_bytes());
    Some(bytes)
}

/// The segment of locks: a head, a number for each reader that takes a pair of mutexes, and the pairs. A
/// writer would take all of them; this one takes none.
pub(super) fn lock_segment(readers: u32) -> Vec<u8> {
    let count = usize::try_from(readers).unwrap_or(0);
    let mutexes_at = (32 + 4 * count).next_multiple_of(MUTEX_BYTES);
    let len = (mutexes_at + 2 * count * MUTEX_BYTES).next_multiple_of(4096);
    let mut bytes = vec![0; len];
    put(&mut bytes, 0, &number(len).to_ne_bytes());
    put(&mut bytes, 8, &readers.to_ne_bytes());
    put(&mut bytes, 16, &number(MUTEX_BYTES).to_ne_bytes());
    put(&mut bytes, 24, &number(mutexes_at).to_ne_bytes());
    for mutex in 0..2 * count {
        put(&mut bytes, mutexes_at + mutex * MUTEX_BYTES + MUTEX_KIND_AT, &[MUTEX_SHARED]);
    }
    bytes
}

/// Offset of the entry of a rank in the meta segment; `None` for the values of the job, which come first.
pub(super) fn entry_at(rank: Option<u32>) -> u64 {
    8 + ENTRY_BYTES * rank.map_or(0, |rank| u64::from(rank) + 1)
}

/// Offset of the number of records in the entry of a rank.
pub(super) fn count_at(rank: Option<u32>) -> u64 {
    entry_at(rank) + COUNT_AT
}

/// Entry of a rank: its number, the offset of its first record, and the number of its records.
pub(super) fn entry(rank: Option<u32>, first: u64, count: u64) -> Vec<u8> {
    // The number is that of any rank, in 32 bits.
    let rank = rank.map_or(u64::from(u32::MAX), u64::from);
    [rank, first, count].iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Appends the record of a value; false if the value cannot be written in [`Format::PLAIN`].
pub(super) fn push_record(kval: &Kval<'_>, to: &mut Vec<u8>) -> bool {
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    if write_value(kval, &mut counted).is_err() {
        return false;
    }
    let value_bytes = counted.len();
    let len = RECORD_HEAD + kval.key.len() + 1 + value_bytes;
    let at = to.len();
    to.extend(number(len).to_ne_bytes());
    to.extend(sum(kval.key).to_ne_bytes());
    to.extend(kval.key);
    to.push(0);
    let value_at = to.len();
    to.resize(at + len, 0);
    // It was counted, so it fits.
    let _ = write_value(kval, &mut Packer::new(&mut to[value_at..], Format::PLAIN));
    true
}

/// Appends the end of a chain: a record that readers skip until it is made a link.
pub(super) fn push_end(to: &mut Vec<u8>) {
    let at = to.len();
    to.extend(number(LINK_BYTES).to_ne_bytes());
    to.resize(at + LINK_BYTES, 0);
    to[at + 7] = SKIPPED;
}

/// True if a record under this key can be found: readers take a key up to its terminator, and one without
/// bytes is that of a link.
pub(super) fn is_key(key: &[u8]) -> bool {
    !key.is_empty() && !key.contains(&0)
}

fn write_value(kval: &Kval<'_>, to: &mut Packer<'_>) -> Result<(), pmi_core::error::Malformed> {
    to.one(Type::VALUE).of(kval.value.of);
    kval.value.write(to)
}

/// Sum of the bytes of a key, by which readers compare it first. They take each byte as a number with a sign.
fn sum(key: &[u8]) -> u64 {
    key.iter().fold(0_u64, |sum, byte| sum.wrapping_add_signed(i64::from(byte.cast_signed())))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

fn number(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
