//! Bytes on the heap, up to a bound.

use pmi_core::error::Full;
use pmi_core::storage::Buffer;

/// A [`Buffer`] that takes no memory while it is empty.
///
/// Thousands of sessions each hold half a message now and then, and nothing nearly always.
#[derive(Clone, Debug, Default)]
pub struct Bounded {
    bytes: Vec<u8>,
    limit_bytes: usize,
}

impl Bounded {
    /// Makes an empty buffer that never holds more than `limit_bytes`.
    pub const fn new(limit_bytes: usize) -> Self {
        Self { bytes: Vec::new(), limit_bytes }
    }
}

impl Buffer for Bounded {
    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn room(&self) -> usize {
        self.limit_bytes - self.bytes.len()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.room() {
            return Err(Full { needed: self.bytes.len().saturating_add(bytes.len()) });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn drop_front(&mut self, len: usize) {
        self.bytes.drain(..len.min(self.bytes.len()));
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

/// Small pieces come often and are not worth asking for memory again.
const KEPT_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_all_or_nothing_up_to_its_bound() {
        let mut bytes = Bounded::new(4);
        bytes.extend(b"abc").unwrap();
        assert_eq!(bytes.extend(b"de"), Err(Full { needed: 5 }));
        assert_eq!((bytes.as_slice(), bytes.room()), (&b"abc"[..], 1));
        bytes.extend(b"d").unwrap();
        bytes.drop_front(3);
        assert_eq!((bytes.as_slice(), bytes.room()), (&b"d"[..], 3));
        bytes.drop_front(usize::MAX);
        assert_eq!((bytes.as_slice(), bytes.room()), (&b""[..], 4));
    }

    #[test]
    fn it_gives_its_memory_back_when_it_is_empty() {
        let mut bytes = Bounded::new(1 << 20);
        assert_eq!(bytes.bytes.capacity(), 0);
        bytes.extend(&[0; 4096]).unwrap();
        bytes.drop_front(4096);
        assert_eq!(bytes.bytes.capacity(), 0);
    }
}
