//! Serialization of message bytes: raw in a binary format, legible in a text format.
//!
//! Text stays text. Bytes that are not UTF-8 become an object `{"hex": "…"}`, so that nothing is
//! lost.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

pub(crate) fn serialize<B, S>(bytes: &B, serializer: S) -> Result<S::Ok, S::Error>
where
    B: AsRef<[u8]>,
    S: Serializer,
{
    let bytes = bytes.as_ref();
    if !serializer.is_human_readable() {
        return serializer.serialize_bytes(bytes);
    }
    match str::from_utf8(bytes) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => Hex { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
            .serialize(serializer),
    }
}

pub(crate) fn deserialize<'de, B, D>(deserializer: D) -> Result<B, D::Error>
where
    B: From<Vec<u8>>,
    D: Deserializer<'de>,
{
    if !deserializer.is_human_readable() {
        return deserializer.deserialize_byte_buf(Raw).map(B::from);
    }
    match Legible::deserialize(deserializer)? {
        Legible::Text(text) => Ok(text.into_bytes().into()),
        Legible::Bytes(Hex { hex }) => match of_hex(&hex) {
            Some(bytes) => Ok(bytes.into()),
            None => Err(D::Error::custom("hex takes two digits for each byte")),
        },
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Legible {
    Text(String),
    Bytes(Hex),
}

#[derive(Serialize, Deserialize)]
struct Hex {
    hex: String,
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

struct Raw;

impl Visitor<'_> for Raw {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_in_pairs_or_not_at_all() {
        assert_eq!(of_hex("00fF7a"), Some(vec![0, 0xff, 0x7a]));
        assert_eq!(of_hex(""), Some(vec![]));
        for wrong in ["0", "0g", "é0", "0x"] {
            assert_eq!(of_hex(wrong), None, "{wrong}");
        }
    }
}
