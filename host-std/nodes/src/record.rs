//! Records of a connection between node servers: content that only the other side can read and make.
//!
//! Wire: length of the content (`u16`, big-endian, 1 to 16,384), encrypted content, tag (16 bytes). Both
//! depend on the key of the direction, which was made in the handshake, and on the number of the record. So a
//! record that was changed, left out, repeated, moved or sent back has a wrong tag, and the connection ends.
//! In a run without encryption the content is sent as it is, without a tag.

use pmi_host_noise::{NoiseChannel, TAG_BYTES};

/// Records of both directions of a connection.
#[derive(Debug)]
pub(super) struct Records {
    /// `None` without encryption.
    channel: Option<NoiseChannel>,
    /// Bytes of an unfinished record.
    received: Vec<u8>,
    /// Content of the last record that was encrypted.
    content: Vec<u8>,
    /// True if `received` is a record that was returned.
    is_read: bool,
}

/// A record that no side with the key has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
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

impl Records {
    /// Records that `channel` encrypts; without one they are sent as they are.
    pub(super) const fn new(channel: Option<NoiseChannel>) -> Self {
        Self { channel, received: Vec::new(), content: Vec::new(), is_read: false }
    }

    /// Appends records with `content` to `wire`: one, or more if it is longer than [`CONTENT_MAX`].
    pub(super) fn write(&mut self, content: &[u8], wire: &mut Vec<u8>) {
        for content in content.chunks(CONTENT_MAX) {
            let len_bytes = u16::try_from(content.len()).unwrap_or_default();
            wire.extend(len_bytes.to_be_bytes());
            match &mut self.channel {
                None => wire.extend(content),
                Some(channel) => {
                    let sealed = channel.seal(content, wire);
                    // Only the last of 2^64 records is an error.
                    debug_assert!(sealed.is_ok(), "{sealed:?}");
                }
            }
        }
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
        let content_bytes = usize::from(len_bytes);
        if !(1..=CONTENT_MAX).contains(&content_bytes) {
            return Err(RecordError::Length { len_bytes });
        }
        let tag_bytes = if self.channel.is_some() { TAG_BYTES } else { 0 };
        let end = HEADER_BYTES + content_bytes + tag_bytes;
        self.take(end, bytes);
        let Some(sealed) = self.received.get(HEADER_BYTES..end) else { return Ok(None) };
        self.is_read = true;
        let Some(channel) = &mut self.channel else { return Ok(Some(sealed)) };
        self.content.resize(content_bytes, 0);
        channel.open(sealed, &mut self.content).map_err(|_| RecordError::Tag)?;
        Ok(Some(&self.content))
    }

    /// Moves bytes until `received` has `len` of them.
    fn take(&mut self, len: usize, bytes: &mut &[u8]) {
        let lacking = len.saturating_sub(self.received.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(lacking);
        self.received.extend(taken);
        *bytes = rest;
    }
}

/// Longest content of a record, in bytes. A reader needs no more memory than one record, twice.
pub const CONTENT_MAX: usize = 16 << 10;

const HEADER_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LinkKey;
    use pmi_host_noise::{LinkSide, NoiseHandshake};
    use pmi_host_os::random;

    /// Records of the side that has connected, and of the one that has accepted.
    fn pair(has_aes: bool) -> (Records, Records) {
        let key = LinkKey::generate().unwrap();
        let [mut initiator, mut acceptor] = [LinkSide::Initiator, LinkSide::Acceptor]
            .map(|side| NoiseHandshake::new(side, has_aes, key.bytes(), b"prologue", random::fill))
            .map(Result::unwrap);
        acceptor.read(&initiator.write().unwrap()).unwrap();
        initiator.read(&acceptor.write().unwrap()).unwrap();
        let [one, other] = [initiator, acceptor]
            .map(|handshake| Records::new(Some(handshake.into_channel().unwrap())));
        (one, other)
    }

    /// The records with these contents, and a reader of them.
    fn wire(contents: &[&[u8]]) -> (Vec<Vec<u8>>, Records) {
        let (mut writer, reader) = pair(true);
        let one = |content: &&[u8]| {
            let mut wire = Vec::new();
            writer.write(content, &mut wire);
            wire
        };
        (contents.iter().map(one).collect(), reader)
    }

    fn read(reader: &mut Records, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, RecordError> {
        let mut contents = Vec::new();
        while let Some(content) = reader.read(&mut bytes)? {
            contents.push(content.to_vec());
        }
        assert!(bytes.is_empty());
        Ok(contents)
    }

    #[test]
    fn contents_arrive_with_every_split() {
        let expected = [&b"a"[..], b"bc", &[7; 40]];
        for has_aes in [false, true] {
            let len = expected.concat().len() + 3 * (HEADER_BYTES + TAG_BYTES);
            for at in 0..=len {
                let (mut writer, mut reader) = pair(has_aes);
                let mut wire = Vec::new();
                expected.iter().for_each(|content| writer.write(content, &mut wire));
                assert_eq!(wire.len(), len);
                let mut contents = read(&mut reader, &wire[..at]).unwrap();
                contents.extend(read(&mut reader, &wire[at..]).unwrap());
                assert_eq!(contents, expected, "split at {at}");
            }
        }
        let (wire, mut reader) = wire(&expected);
        let single = wire.concat();
        let single = single.iter().flat_map(|byte| read(&mut reader, &[*byte]).unwrap());
        assert_eq!(single.count(), 3);
    }

    #[test]
    fn records_without_tags_arrive_with_every_split() {
        let mut wire = Vec::new();
        Records::new(None).write(&[9; CONTENT_MAX + 1], &mut wire);
        Records::new(None).write(b"end", &mut wire);
        assert_eq!(wire.len(), CONTENT_MAX + 1 + 3 + 3 * HEADER_BYTES);
        for at in [0, 1, 2, 3, CONTENT_MAX, wire.len() - 1] {
            let mut reader = Records::new(None);
            let mut contents = read(&mut reader, &wire[..at]).unwrap();
            contents.extend(read(&mut reader, &wire[at..]).unwrap());
            assert_eq!(contents, [vec![9; CONTENT_MAX], vec![9], b"end".to_vec()], "split at {at}");
        }
    }

    #[test]
    fn content_is_encrypted_differently_each_time() {
        let secret: &[u8] = b"content that nobody else is to read";
        let (wire, _) = wire(&[secret, secret]);
        assert_ne!(wire[0], wire[1]);
        for record in wire {
            assert!(!record.windows(8).any(|piece| secret.windows(8).any(|part| part == piece)));
        }
    }

    #[test]
    fn changed_bit_is_noticed_wherever_it_is() {
        let bits = 8 * (HEADER_BYTES + b"content of a record".len() + TAG_BYTES);
        for bit in 0..bits {
            let (wire, mut reader) = wire(&[b"content of a record"]);
            let mut changed = wire.concat();
            changed[bit / 8] ^= 1 << (bit % 8);
            // A length that grew is noticed with the bytes that follow.
            changed.resize(CONTENT_MAX + 64, 0);
            let mut bytes = &changed[..];
            assert!(reader.read(&mut bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn record_that_is_repeated_moved_or_left_out_is_noticed() {
        for order in [&[0, 0][..], &[1], &[0, 2], &[0, 1, 0], &[2]] {
            let (wire, mut reader) = wire(&[b"one", b"two", b"six"]);
            let sent: Vec<u8> = order.iter().flat_map(|at| wire[*at].clone()).collect();
            assert_eq!(read(&mut reader, &sent), Err(RecordError::Tag), "{order:?}");
        }
    }

    #[test]
    fn record_that_is_sent_back_is_noticed() {
        let (mut writer, _) = pair(true);
        let mut wire = Vec::new();
        writer.write(b"one", &mut wire);
        assert_eq!(read(&mut writer, &wire), Err(RecordError::Tag));
    }

    #[test]
    fn record_of_another_connection_is_noticed() {
        let ((wire, _), (_, mut reader)) = (wire(&[b"one"]), pair(true));
        assert_eq!(read(&mut reader, &wire[0]), Err(RecordError::Tag));
    }

    #[test]
    fn longest_content_is_one_record_and_a_longer_one_two() {
        for (len, records) in [(CONTENT_MAX - 1, 1), (CONTENT_MAX, 1), (CONTENT_MAX + 1, 2)] {
            let content = vec![3; len];
            let (wire, mut reader) = wire(&[&content]);
            let contents = read(&mut reader, &wire.concat()).unwrap();
            assert_eq!((contents.len(), contents.concat()), (records, content));
            assert!(reader.received.capacity() <= 2 * (CONTENT_MAX + HEADER_BYTES + TAG_BYTES));
            assert!(reader.content.capacity() <= 2 * CONTENT_MAX);
        }
    }

    #[test]
    fn length_is_checked_before_any_content() {
        for len_bytes in [0, 16_385, u16::MAX] {
            let (_, mut reader) = pair(true);
            let mut bytes = &len_bytes.to_be_bytes()[..];
            assert_eq!(reader.read(&mut bytes), Err(RecordError::Length { len_bytes }));
        }
    }
}
