//! Data that the ranks of other nodes contributed to a fence, as one block of bytes.
//!
//! ```text
//!   block    record record …
//!   record   writer key_len key value_len value              a pair
//!            writer 0 version format value_len value         committed data of a PMIx client
//! ```
//!
//! `writer`, `version` and the lengths are variable-length integers of 32 bits: seven bits a byte, the
//! lowest first, the highest bit set in all bytes but the last. `format` is one byte. Nodes concatenate what
//! they contribute, so a block needs no header, and nothing has to read it on its way.
//!
//! A block comes from another node: [`BlockReader`] checks every length and every limit.

use crate::error::{Full, Malformed};
use crate::ids::{Key, Rank};
use crate::limits::VALUE_BYTES;
use crate::storage::copy;

/// One record of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRecord<'a> {
    /// A pair of the job's key-value space.
    Pair {
        /// The rank that put it.
        writer: Rank,
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// All data that a PMIx client has committed for other nodes.
    Modex {
        /// The rank that committed it.
        writer: Rank,
        /// Number of its commits so far: of two records of a rank, the one with more commits holds.
        version: u32,
        /// Its wire format, as a number that only servers read.
        format: u8,
        /// The data.
        data: &'a [u8],
    },
}

/// Records of a block, in order. After an error it ends.
#[derive(Clone, Debug)]
pub struct BlockReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BlockRecord<'a> {
    /// Number of bytes of the record.
    pub const fn len_bytes(&self) -> usize {
        match self {
            Self::Pair { writer, key, value } => {
                let lens = varint_bytes(key.len()) + key.len() + varint_bytes(value.len());
                varint_bytes(writer.0 as usize) + lens + value.len()
            }
            Self::Modex { writer, version, data, .. } => {
                let numbers = varint_bytes(writer.0 as usize) + varint_bytes(*version as usize);
                numbers + 2 + varint_bytes(data.len()) + data.len()
            }
        }
    }

    /// Writes the record to the front of `out`, and returns its length.
    ///
    /// # Errors
    ///
    /// [`Full`] with the length; nothing was written.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, Full> {
        let needed = self.len_bytes();
        let mut out = out.get_mut(..needed).ok_or(Full { needed })?;
        let mut put = |bytes: &[u8]| {
            let (front, rest) = core::mem::take(&mut out).split_at_mut_checked(bytes.len())?;
            copy(front, bytes);
            out = rest;
            Some(())
        };
        let (writer, key, value) = match self {
            Self::Pair { writer, key, value } => (writer, Ok(*key), value),
            Self::Modex { writer, version, format, data } => {
                (writer, Err((*version, *format)), data)
            }
        };
        let (buffer, len) = varint(writer.0 as usize);
        let _ = put(buffer.get(..len).unwrap_or_default());
        match key {
            Ok(key) => {
                let (buffer, len) = varint(key.len());
                let _ = put(buffer.get(..len).unwrap_or_default());
                let _ = put(key);
            }
            Err((version, format)) => {
                let (buffer, len) = varint(version as usize);
                let _ = put(&[0]);
                let _ = put(buffer.get(..len).unwrap_or_default());
                let _ = put(&[format]);
            }
        }
        let (buffer, len) = varint(value.len());
        let _ = put(buffer.get(..len).unwrap_or_default());
        // The room for all parts was taken above.
        let _ = put(value);
        Ok(needed)
    }

    /// Reads the record at byte `at` of a block, and returns it with the offset behind it.
    ///
    /// # Errors
    ///
    /// [`Malformed`] with the offset.
    pub fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), Malformed> {
        let mut from = BlockReader { bytes, at };
        let writer = Rank(from.varint("the rank of a writer")?);
        let key_at = from.at;
        let key_len = from.varint("the length of a key")?;
        if key_len == 0 {
            let version = from.varint("the version of committed data")?;
            let format = from.bytes(1, "the format of committed data")?;
            let len = from.varint("the length of committed data")?;
            let data = from.bytes(len, "committed data")?;
            let format = format.first().copied().unwrap_or_default();
            return Ok((Self::Modex { writer, version, format, data }, from.at));
        }
        let key = from.bytes(key_len, "a key")?;
        Key::check(key).map_err(|_| Malformed::new(key_at, "a key within the limits"))?;
        let value_at = from.at;
        let len = from.varint("the length of a value")?;
        let value = from.bytes(len, "a value")?;
        if value.len() > VALUE_BYTES {
            return Err(Malformed::new(value_at, "a value within the limit"));
        }
        Ok((Self::Pair { writer, key, value }, from.at))
    }
}

impl<'a> BlockReader<'a> {
    /// Reads the records of `block`.
    pub const fn new(block: &'a [u8]) -> Self {
        Self { bytes: block, at: 0 }
    }

    /// Offset of the next record.
    pub const fn offset(&self) -> usize {
        self.at
    }

    fn varint(&mut self, expected: &'static str) -> Result<u32, Malformed> {
        let at = self.at;
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.bytes.get(self.at).ok_or(Malformed::new(at, expected))?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).map_err(|_| Malformed::new(at, expected));
            }
        }
        Err(Malformed::new(at, expected))
    }

    fn bytes(&mut self, len: u32, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.at.saturating_add(len as usize);
        let taken = self.bytes.get(self.at..end).ok_or(Malformed::new(self.at, expected))?;
        self.at = end;
        Ok(taken)
    }
}

impl<'a> Iterator for BlockReader<'a> {
    type Item = Result<BlockRecord<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let read = BlockRecord::read(self.bytes, self.at);
        self.at = read.as_ref().map_or(self.bytes.len(), |(_, end)| *end);
        Some(read.map(|(record, _)| record))
    }
}

/// The bytes of a variable-length integer, and their number. Lengths and ranks have 32 bits.
const fn varint(number: usize) -> ([u8; VARINT_BYTES], usize) {
    let (mut bytes, mut len, mut rest) = ([0; VARINT_BYTES], 0, number);
    while len < VARINT_BYTES {
        #[allow(clippy::cast_possible_truncation, reason = "seven bits")]
        let low = (rest & 0x7f) as u8;
        rest >>= 7;
        #[allow(clippy::indexing_slicing, reason = "the loop ends before the array does")]
        {
            bytes[len] = if rest > 0 { low | 0x80 } else { low };
        }
        len += 1;
        if rest == 0 {
            break;
        }
    }
    (bytes, len)
}

const fn varint_bytes(number: usize) -> usize {
    varint(number).1
}

/// Length of the longest variable-length integer.
const VARINT_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn pair<'a>(writer: u32, key: &'a [u8], value: &'a [u8]) -> BlockRecord<'a> {
        BlockRecord::Pair { writer: Rank(writer), key, value }
    }

    fn written(records: &[BlockRecord<'_>]) -> Vec<u8> {
        let mut block = vec![0; records.iter().map(BlockRecord::len_bytes).sum()];
        let mut at = 0;
        for record in records {
            assert_eq!(record.write(&mut []), Err(Full { needed: record.len_bytes() }));
            at += record.write(&mut block[at..]).unwrap();
        }
        assert_eq!(at, block.len());
        block
    }

    #[test]
    fn records_are_written_as_documented() {
        let modex = BlockRecord::Modex { writer: Rank(200), version: 9, format: 3, data: b"d" };
        let block = written(&[pair(1, b"key", b""), modex]);
        assert_eq!(block, b"\x01\x03key\x00\xc8\x01\x00\x09\x03\x01d");
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let long = [7; VALUE_BYTES];
        let records = [
            pair(0, b"k", b"v"),
            pair(u32::MAX, &[b'k'; crate::limits::KEY_BYTES], &long),
            BlockRecord::Modex {
                writer: Rank(300),
                version: u32::MAX,
                format: 255,
                data: &[1; 5000],
            },
            BlockRecord::Modex { writer: Rank(0), version: 0, format: 0, data: b"" },
        ];
        let block = written(&records);
        let read: Result<Vec<_>, _> = BlockReader::new(&block).collect();
        assert_eq!(read.unwrap(), records);
        // Cut anywhere, it is either a shorter block or malformed.
        for len in 0..block.len() {
            let whole = BlockReader::new(&block[..len]).take_while(Result::is_ok).count();
            assert!(whole < records.len());
            assert!(
                BlockReader::new(&block[..len])
                    .zip(records)
                    .all(|(one, other)| { one.is_err() || one == Ok(other) })
            );
        }
    }

    #[test]
    fn bytes_that_are_no_records_are_malformed() {
        for block in [
            &b"\xff\xff\xff\xff\xff\x01"[..],
            b"\xff\xff\xff\xff\x1f\x01k\x00",
            b"\x01\x02k",
            b"\x01\x01\n\x00",
            b"\x01\x01k\xff\xff\xff\xff\x0f",
            b"\x01\x00",
            b"\x01\x00\x01",
            b"\x01\x00\x01\x00\x05abc",
            b"\x01",
        ] {
            let mut reader = BlockReader::new(block);
            assert!(matches!(reader.next(), Some(Err(_))), "{block:?}");
            assert_eq!(reader.next(), None);
        }
        let mut long = b"\x01\x01k".to_vec();
        long.extend(varint(VALUE_BYTES + 1).0);
        long.truncate(5);
        long.extend([0; VALUE_BYTES + 1]);
        assert!(BlockReader::new(&long).next().unwrap().is_err());
    }
}
