//! Serialization of bytes as one piece, for fields with `#[serde(with = "byte_vec")]`.
//!
//! Wire: in postcard the same as a sequence of bytes, whose elements are written one by one otherwise.

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::ser::Serializer;
use std::fmt;

/// Serializes the bytes.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Reads bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(BytesVisitor)
}

/// The same for bytes that may be absent.
pub mod optional {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Serialize, Serializer};

    struct Borrowed<'a>(&'a [u8]);

    struct Owned(Vec<u8>);

    impl Serialize for Borrowed<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            super::serialize(self.0, serializer)
        }
    }

    impl<'de> Deserialize<'de> for Owned {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            super::deserialize(deserializer).map(Self)
        }
    }

    /// Serializes the bytes, if there are any.
    pub fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Borrowed).serialize(serializer)
    }

    /// Reads bytes that may be absent.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Owned>::deserialize(deserializer)?.map(|owned| owned.0))
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = items.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Fields {
        #[serde(with = "super")]
        whole: Vec<u8>,
        #[serde(with = "super::optional")]
        maybe: Option<Vec<u8>>,
    }

    #[test]
    fn bytes_are_written_as_a_sequence_is() {
        for maybe in [None, Some(vec![7; 300])] {
            let fields = Fields { whole: vec![0, 255], maybe };
            let written = postcard::to_stdvec(&fields).unwrap();
            assert_eq!(written, postcard::to_stdvec(&(&fields.whole, &fields.maybe)).unwrap());
            assert_eq!(postcard::from_bytes::<Fields>(&written).unwrap(), fields);
            let cut = &written[..written.len() - 1];
            assert!(postcard::from_bytes::<Fields>(cut).is_err());
        }
    }
}
