//! The file format: eight bytes of magic, a version, and frames.
//!
//! Shape: [`MAGIC`], the version as two bytes, then frames. A frame is its length as four bytes and
//! as many bytes of postcard: the first holds the [`Head`], each other one [`Record`]. Numbers of
//! the frame are little-endian. `docs/trace-format.md` specifies it byte by byte.
//!
//! A reader skips bytes after the known fields of a frame, which belong to later writers, and
//! frames of an unknown kind. So the version changes only if existing fields do.

use crate::record::{Head, Record, Trace};
use postcard::ser_flavors::Flavor;
use thiserror::Error;

/// The first bytes of every trace.
pub const MAGIC: &[u8; 8] = b"PMItrace";

/// The version that is written, and the newest that is read.
pub const VERSION: u16 = 1;

/// Appends the start of a file.
pub fn write_head(head: &Head, out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    write_frame(head, out);
}

/// Appends one record.
pub fn write_record<B: AsRef<[u8]>>(record: &Record<B>, out: &mut Vec<u8>) {
    write_frame(record, out);
}

/// Writes a whole trace.
pub fn write(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(&trace.head, &mut out);
    trace.records.iter().for_each(|record| write_record(record, &mut out));
    out
}

/// Reads a file as far as it can be read, and orders its records by time: those of several nodes arrive at
/// the recorder later than its own.
///
/// # Errors
///
/// [`NotATrace`] if not even the head can be read. Later damage is part of the result.
pub fn read(bytes: &[u8]) -> Result<ReadTrace, NotATrace> {
    let mut reader = RecordReader::new(bytes)?;
    let mut records: Vec<Record> = reader.by_ref().collect();
    // Stable: records of one connection keep their order.
    records.sort_by_key(|record| record.time_ns);
    let RecordReader { head, damage, unknown_count, .. } = reader;
    Ok(ReadTrace { trace: Trace { head, records }, damage, unknown_count })
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTrace {
    /// Everything up to the damage, if there is any.
    pub trace: Trace,
    /// Reason that the file could not be read to its end.
    pub damage: Option<Damage>,
    /// Number of skipped records, which a later version has made.
    pub unknown_count: u64,
}

/// Reads records one by one.
#[derive(Clone, Debug)]
pub struct RecordReader<'a> {
    head: Head,
    rest: &'a [u8],
    /// Offset of `rest` in the file.
    at: usize,
    damage: Option<Damage>,
    unknown_count: u64,
}

/// Reason that a file cannot be read at all.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotATrace {
    /// It does not begin like a trace.
    #[error("it is not a trace: it does not begin with 'PMItrace'")]
    Magic,
    /// It was written by a later version.
    #[error(
        "it is a trace of version {found}, and this program reads up to version {VERSION}; a newer one can \
         export it as JSON lines"
    )]
    Version {
        /// The format version of the file.
        found: u16,
    },
    /// It ends before the facts about the run, or they are malformed.
    #[error("it begins as a trace, but ends before the facts about the run")]
    Head,
}

/// Reason that a file cannot be read to its end.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Damage {
    /// It ends within a frame.
    #[error("it is cut off in the record at byte {at}; all before it was read")]
    Cut {
        /// Offset of the frame.
        at: usize,
    },
    /// A frame holds no record.
    #[error("there is no record at byte {at}; all before it was read")]
    Malformed {
        /// Its offset.
        at: usize,
    },
}

impl<'a> RecordReader<'a> {
    /// Reads the head.
    ///
    /// # Errors
    ///
    /// [`NotATrace`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, NotATrace> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NotATrace::Magic)?;
        let (version, rest) = rest.split_first_chunk().ok_or(NotATrace::Head)?;
        let found = u16::from_le_bytes(*version);
        if found == 0 || found > VERSION {
            return Err(NotATrace::Version { found });
        }
        let (frame, rest) = cut(rest).ok_or(NotATrace::Head)?;
        let head = postcard::from_bytes(frame).map_err(|_| NotATrace::Head)?;
        let at = bytes.len() - rest.len();
        Ok(Self { head, rest, at, damage: None, unknown_count: 0 })
    }

    /// Reads records without the start of a file.
    pub fn of_records(bytes: &'a [u8]) -> Self {
        Self { head: Head::default(), rest: bytes, at: 0, damage: None, unknown_count: 0 }
    }

    /// Facts about the run.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The reason that there are no more records, if that is not the end of the file.
    pub const fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Number of skipped records, which a later version has made.
    pub const fn unknown_count(&self) -> u64 {
        self.unknown_count
    }
}

impl Iterator for RecordReader<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.damage.is_none() && !self.rest.is_empty() {
            let at = self.at;
            let Some((frame, rest)) = cut(self.rest) else {
                self.damage = Some(Damage::Cut { at });
                break;
            };
            self.at += self.rest.len() - rest.len();
            self.rest = rest;
            match postcard::from_bytes(frame) {
                Ok(record) => return Some(record),
                Err(_) if is_of_later_kind(frame) => self.unknown_count += 1,
                Err(_) => self.damage = Some(Damage::Malformed { at }),
            }
        }
        None
    }
}

/// True if all fields before the kind can be read, and the kind is unknown.
fn is_of_later_kind(frame: &[u8]) -> bool {
    let front = postcard::take_from_bytes::<(u64, u32, Option<u32>, Option<u32>, u32)>(frame);
    front.is_ok_and(|((.., kind), _)| kind >= KINDS)
}

/// Splits off the first frame.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

fn write_frame(content: &impl serde::Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; LENGTH_BYTES]);
    // Writing to a vector or a slice does not fail.
    let written = postcard::serialize_with_flavor(content, Append(out)).is_ok();
    let len = out.len() - start - LENGTH_BYTES;
    match u32::try_from(len) {
        Ok(len) if written => {
            out[start..start + LENGTH_BYTES].copy_from_slice(&len.to_le_bytes());
        }
        // A record that no frame can hold is omitted.
        _ => out.truncate(start),
    }
}

/// Sink of the serializer that appends to a vector.
struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

const LENGTH_BYTES: usize = 4;

/// Number of kinds of [`Content`](crate::record::Content) this version knows.
const KINDS: u32 = 10;
