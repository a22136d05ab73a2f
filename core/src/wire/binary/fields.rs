//! Fields of the bodies, in the format of postcard.

use crate::command::Text;
use crate::wire::Writer;

/// Bytes with their length in front, borrowed from their message.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) Text<'a>);

/// Bytes of a body that are not read yet.
pub(super) struct BodyFields<'a>(pub(super) &'a [u8]);

impl<'a> BodyFields<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A number of so many bits, seven of them in each byte, the lowest first.
    pub(super) fn number(&mut self, bits: u32) -> Option<u32> {
        let mut number = 0;
        for shift in (0..bits).step_by(7) {
            let byte = self.byte()?;
            let part = u32::from(byte & 0x7f);
            if bits - shift < 7 && part >> (bits - shift) != 0 {
                return None;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        u16::try_from(self.number(u16::BITS)?).ok()
    }

    pub(super) fn signed(&mut self) -> Option<i32> {
        let number = self.number(u32::BITS)?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn bytes(&mut self) -> Option<Bytes<'a>> {
        let len = self.number(u32::BITS)?;
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(Bytes(Text::plain(bytes)))
    }

    pub(super) fn optional(&mut self) -> Option<Option<Bytes<'a>>> {
        Some(if self.flag()? { Some(self.bytes()?) } else { None })
    }
}

pub(super) fn put_number(to: &mut Writer<'_>, mut number: u32) {
    while number >= 0x80 {
        to.byte(low_bits(number.to_le_bytes()[0]));
        number >>= 7;
    }
    to.byte(number.to_le_bytes()[0]);
}

pub(super) fn put_long(to: &mut Writer<'_>, mut number: u64) {
    while number >= 0x80 {
        to.byte(low_bits(number.to_le_bytes()[0]));
        number >>= 7;
    }
    to.byte(number.to_le_bytes()[0]);
}

/// A byte with seven bits of a number, behind which others follow.
const fn low_bits(byte: u8) -> u8 {
    byte | 0x80
}

/// A signed number as an unsigned one that is small if its amount is.
pub(super) const fn zigzag(number: i32) -> u32 {
    (number << 1 ^ number >> 31).cast_unsigned()
}

pub(super) fn put_bytes(to: &mut Writer<'_>, Bytes(text): Bytes<'_>) {
    put_number(to, u32::try_from(text.len()).unwrap_or(u32::MAX));
    to.text(text);
}

pub(super) fn put_optional(to: &mut Writer<'_>, bytes: Option<Bytes<'_>>) {
    to.byte(bytes.is_some().into());
    if let Some(bytes) = bytes {
        put_bytes(to, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn written(put: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = [0; 32];
        let mut writer = Writer::new(&mut out);
        put(&mut writer);
        writer.written().to_vec()
    }

    #[test]
    fn numbers_are_written_as_postcard_writes_them() {
        let mut room = [0; 16];
        let edges = (0..u64::BITS).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, u64::MAX >> bit]);
        for number in edges {
            let expected = postcard::to_slice(&number, &mut room).unwrap().to_vec();
            assert_eq!(written(|to| put_long(to, number)), expected);
            assert_eq!(BodyFields(&expected).long(), Some(number));
            let Ok(short) = u32::try_from(number) else { continue };
            assert_eq!(written(|to| put_number(to, short)), expected);
            assert_eq!(BodyFields(&expected).number(u32::BITS), Some(short));
            let signed = short.cast_signed();
            let expected = postcard::to_slice(&signed, &mut room).unwrap().to_vec();
            assert_eq!(written(|to| put_number(to, zigzag(signed))), expected);
            assert_eq!(BodyFields(&expected).signed(), Some(signed));
        }
    }

    #[test]
    fn numbers_are_read_and_refused_as_postcard_does() {
        let ends = [0_u8, 1, 2, 3, 4, 15, 16, 127, 128, 129, 255];
        for len in 0..=10 {
            for last in ends {
                for before in [0x80, 0x81, 0xff] {
                    let mut bytes = [before; 10][..len].to_vec();
                    bytes.push(last);
                    let long = postcard::take_from_bytes::<u64>(&bytes).ok();
                    let mut fields = BodyFields(&bytes);
                    assert_eq!(fields.long().map(|n| (n, fields.0)), long, "{bytes:?}");
                    let number = postcard::take_from_bytes::<u32>(&bytes).ok();
                    let mut fields = BodyFields(&bytes);
                    assert_eq!(fields.number(u32::BITS).map(|n| (n, fields.0)), number);
                    let short = postcard::take_from_bytes::<u16>(&bytes).ok();
                    let mut fields = BodyFields(&bytes);
                    assert_eq!(fields.short().map(|n| (n, fields.0)), short);
                }
            }
        }
    }
}
