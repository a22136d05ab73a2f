//! Records of a connection between node servers: content with a tag that only the other side can make.
//!
//! Wire: length of the content (`u16`, big-endian, 1 to 16,384), content, tag (16 bytes). The tag is the
//! start of the HMAC-SHA-256, with the key of the direction, of the number of the record (`u64`,
//! big-endian, from 0) and the content. So a record that was changed, left out, repeated, moved or sent
//! back has a wrong tag, and the connection ends. The content is not encrypted. In a run without protection
//! records have no tag.

use super::key::{KEY_BYTES, KeyedHash, keyed_hash};
use hmac::Mac;

/// Writer of the records of one direction.
#[derive(Clone)]
pub(super) struct RecordWriter {
    /// `None` for records without tags.
    hash: Option<KeyedHash>,
    number: u64,
}

/// Reader of the records of one direction.
pub(super) struct RecordReader {
    /// `None` for records without tags.
    hash: Option<KeyedHash>,
    number: u64,
    /// Bytes of an unfinished record.
    received: Vec<u8>,
    /// True if `received` is a record that was returned.
    is_read: bool,
}

/// A record that no side with the key has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    /// Its length is not permitted.
    #[error(
        "sent a record with a length of {len_bytes} bytes, and 1 to {CONTENT_MAX} are permitted"
    )]
    Length {
        /// The length.
        len_bytes: u16,
    },
    /// Its tag is wrong.
    #[error("sent a record that was changed on the way")]
    Tag,
}

impl RecordWriter {
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self { hash: Some(keyed_hash(key)), number: 0 }
    }

    /// Creates a writer of records without tags.
    pub(super) const fn plain() -> Self {
        Self { hash: None, number: 0 }
    }

    /// Appends records with `content` to `wire`: one, or more if it is longer than [`CONTENT_MAX`].
    pub(super) fn write(&mut self, content: &[u8], wire: &mut Vec<u8>) {
        for content in content.chunks(CONTENT_MAX) {
            let len_bytes = u16::try_from(content.len()).unwrap_or_default();
            wire.extend(len_bytes.to_be_bytes());
            wire.extend(content);
            if let Some(hash) = &self.hash {
                let tag = tagged(hash, self.number, content).finalize().into_bytes();
                wire.extend(&tag[..TAG_BYTES]);
            }
            self.number += 1;
        }
    }
}

impl RecordReader {
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self { hash: Some(keyed_hash(key)), ..Self::plain() }
    }

    /// Creates a reader of records without tags.
    pub(super) const fn plain() -> Self {
        Self { hash: None, number: 0, received: Vec::new(), is_read: false }
    }

    /// Takes bytes from the front of `bytes` up to the end of a record, and returns its content; `None` if
    /// the record goes on after them.
    ///
    /// # Errors
    ///
    /// [`RecordError`]; the connection is to be closed.
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Result<Option<&[u8]>, RecordError> {
        if std::mem::take(&mut self.is_read) {
            self.received.clear();
        }
        self.take(HEADER_BYTES, bytes);
        let Some(&[high, low]) = self.received.get(..HEADER_BYTES) else { return Ok(None) };
        let len_bytes = u16::from_be_bytes([high, low]);
        if !(1..=CONTENT_MAX).contains(&usize::from(len_bytes)) {
            return Err(RecordError::Length { len_bytes });
        }
        let end = HEADER_BYTES + usize::from(len_bytes);
        let tag_bytes = if self.hash.is_some() { TAG_BYTES } else { 0 };
        self.take(end + tag_bytes, bytes);
        let Some(tag) = self.received.get(end..end + tag_bytes) else { return Ok(None) };
        let content = &self.received[HEADER_BYTES..end];
        if let Some(hash) = &self.hash {
            let expected = tagged(hash, self.number, content);
            expected.verify_truncated_left(tag).map_err(|_| RecordError::Tag)?;
        }
        self.number += 1;
        self.is_read = true;
        Ok(Some(content))
    }

    /// Moves bytes until `received` has `len` of them.
    fn take(&mut self, len: usize, bytes: &mut &[u8]) {
        let lacking = len.saturating_sub(self.received.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(lacking);
        self.received.extend(taken);
        *bytes = rest;
    }
}

/// Hash of the number of a record and its content.
fn tagged(hash: &KeyedHash, number: u64, content: &[u8]) -> KeyedHash {
    hash.clone().chain_update(number.to_be_bytes()).chain_update(content)
}

impl std::fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordWriter").field("number", &self.number).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RecordReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordReader").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Longest content of a record, in bytes. A reader needs no more memory than one record.
pub(super) const CONTENT_MAX: usize = 16 << 10;

const HEADER_BYTES: usize = 2;

/// Length of a tag in bytes: half of the hash, as RFC 2104 permits.
const TAG_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_BYTES] = [5; KEY_BYTES];

    fn wire(contents: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut writer = RecordWriter::new(&KEY);
        let one = |content: &&[u8]| {
            let mut wire = Vec::new();
            writer.write(content, &mut wire);
            wire
        };
        contents.iter().map(one).collect()
    }

    fn read(reader: &mut RecordReader, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, RecordError> {
        let mut contents = Vec::new();
        while let Some(content) = reader.read(&mut bytes)? {
            contents.push(content.to_vec());
        }
        assert!(bytes.is_empty());
        Ok(contents)
    }

    #[test]
    fn contents_arrive_with_every_split() {
        let wire = wire(&[b"a", b"bc", &[7; 40]]).concat();
        for at in 0..=wire.len() {
            let mut reader = RecordReader::new(&KEY);
            let mut contents = read(&mut reader, &wire[..at]).unwrap();
            contents.extend(read(&mut reader, &wire[at..]).unwrap());
            assert_eq!(contents, [&b"a"[..], b"bc", &[7; 40]], "split at {at}");
        }
        let mut reader = RecordReader::new(&KEY);
        let single = wire.iter().flat_map(|byte| read(&mut reader, &[*byte]).unwrap());
        assert_eq!(single.count(), 3);
    }

    #[test]
    fn records_without_tags_arrive_with_every_split() {
        let mut wire = Vec::new();
        RecordWriter::plain().write(&[9; CONTENT_MAX + 1], &mut wire);
        RecordWriter::plain().write(b"end", &mut wire);
        assert_eq!(wire.len(), CONTENT_MAX + 1 + 3 + 3 * HEADER_BYTES);
        for at in [0, 1, 2, 3, CONTENT_MAX, wire.len() - 1] {
            let mut reader = RecordReader::plain();
            let mut contents = read(&mut reader, &wire[..at]).unwrap();
            contents.extend(read(&mut reader, &wire[at..]).unwrap());
            assert_eq!(contents, [vec![9; CONTENT_MAX], vec![9], b"end".to_vec()], "split at {at}");
        }
    }

    #[test]
    fn changed_bit_is_noticed_wherever_it_is() {
        let wire = wire(&[b"content of a record"]).concat();
        for bit in 0..8 * wire.len() {
            let mut changed = wire.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let mut reader = RecordReader::new(&KEY);
            // A length that grew is noticed with the bytes that follow.
            changed.resize(CONTENT_MAX + 64, 0);
            let mut bytes = &changed[..];
            assert!(reader.read(&mut bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn record_that_is_repeated_moved_or_left_out_is_noticed() {
        let wire = wire(&[b"one", b"two", b"six"]);
        for order in [&[0, 0][..], &[1], &[0, 2], &[0, 1, 0], &[2]] {
            let mut reader = RecordReader::new(&KEY);
            let sent: Vec<u8> = order.iter().flat_map(|at| wire[*at].clone()).collect();
            assert_eq!(read(&mut reader, &sent), Err(RecordError::Tag), "{order:?}");
        }
    }

    #[test]
    fn record_under_another_key_is_noticed() {
        let mut reader = RecordReader::new(&[6; KEY_BYTES]);
        assert_eq!(read(&mut reader, &wire(&[b"one"])[0]), Err(RecordError::Tag));
    }

    #[test]
    fn longest_content_is_one_record_and_a_longer_one_two() {
        for (len, records) in [(CONTENT_MAX - 1, 1), (CONTENT_MAX, 1), (CONTENT_MAX + 1, 2)] {
            let content = vec![3; len];
            let wire = wire(&[&content]).concat();
            let mut reader = RecordReader::new(&KEY);
            let contents = read(&mut reader, &wire).unwrap();
            assert_eq!((contents.len(), contents.concat()), (records, content));
            assert!(reader.received.capacity() <= 2 * (CONTENT_MAX + HEADER_BYTES + TAG_BYTES));
        }
    }

    #[test]
    fn length_is_checked_before_any_content() {
        for len_bytes in [0, 16_385, u16::MAX] {
            let mut reader = RecordReader::new(&KEY);
            let mut bytes = &len_bytes.to_be_bytes()[..];
            assert_eq!(reader.read(&mut bytes), Err(RecordError::Length { len_bytes }));
        }
    }
}
