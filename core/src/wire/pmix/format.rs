//! Formats of values: two families of integers, with their types described or not.

use crate::error::Malformed;

/// Encoding of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Big endian in their natural size (`v21`, `v3`).
    Fixed,
    /// Groups of seven bits, as many as are needed (`v4` and later).
    Flex,
}

/// Format of the values of one connection, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Encoding of integers.
    pub family: Family,
    /// True if every pack operation names its type.
    pub is_described: bool,
}

/// Version of a library, as far as it determines the layout of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// `4` of `4.2.2rc2`.
    pub major: u16,
    /// `2` of `4.2.2rc2`.
    pub minor: u16,
    /// The second `2` of `4.2.2rc2`.
    pub patch: u16,
}

impl Format {
    /// Format for data that no peer determines: short, and without the types.
    pub const PLAIN: Self = Self { family: Family::Flex, is_described: false };

    /// The format that a peer announces with the name of an encoding and the type of its buffers.
    ///
    /// Wire: `v61`, `v51`, `v41`, `v4`, `v3` or `v21`; 1 for not described, 2 for described.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for any other. `at` is their offset in the message.
    pub fn announced(encoding: &[u8], buffer: u8, at: usize) -> Result<Self, Malformed> {
        let family = match encoding {
            b"v61" | b"v51" | b"v41" | b"v4" => Family::Flex,
            b"v3" | b"v21" => Family::Fixed,
            _ => return Err(Malformed::new(at, "an encoding from v21 to v61")),
        };
        match buffer {
            NOT_DESCRIBED => Ok(Self { family, is_described: false }),
            DESCRIBED => Ok(Self { family, is_described: true }),
            _ => Err(Malformed::new(at, "a type of buffer, 1 or 2")),
        }
    }

    /// Type of the buffer on the wire.
    pub const fn buffer(self) -> u8 {
        if self.is_described { DESCRIBED } else { NOT_DESCRIBED }
    }
}

impl Release {
    /// Oldest version with clients that take session data as an array, and stop at an unknown key.
    pub const V4_2: Self = Self::new(4, 2, 0);

    /// Creates a version from its parts.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Reads the digits at the front of each of the three parts.
    ///
    /// Wire: `4.2.2rc2`; a part that is missing counts as 0.
    pub fn read(text: &[u8]) -> Self {
        let mut parts = text.split(|byte| *byte == b'.').map(leading_number);
        let mut next = || parts.next().unwrap_or(0);
        Self { major: next(), minor: next(), patch: next() }
    }
}

fn leading_number(part: &[u8]) -> u16 {
    let digits = part.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u16, digit| {
        sum.saturating_mul(10).saturating_add(u16::from(digit.wrapping_sub(b'0')))
    })
}

const NOT_DESCRIBED: u8 = 1;
const DESCRIBED: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_is_read_from_the_digits_of_its_parts() {
        for (text, release) in [
            ("4.2.2rc2", Release::new(4, 2, 2)),
            ("5.0.11rc1", Release::new(5, 0, 11)),
            ("6.1.0", Release::new(6, 1, 0)),
            ("3.2", Release::new(3, 2, 0)),
            ("", Release::default()),
            ("99999999.x", Release::new(u16::MAX, 0, 0)),
        ] {
            assert_eq!(Release::read(text.as_bytes()), release, "{text}");
        }
        assert!(Release::new(4, 1, 9) < Release::V4_2 && Release::V4_2 < Release::new(5, 0, 0));
    }

    #[test]
    fn encoding_has_a_family() {
        for (name, family) in [
            ("v61", Family::Flex),
            ("v4", Family::Flex),
            ("v3", Family::Fixed),
            ("v21", Family::Fixed),
        ] {
            let format = Format::announced(name.as_bytes(), 2, 0).unwrap();
            assert_eq!((format.family, format.is_described, format.buffer()), (family, true, 2));
        }
        assert!(Format::announced(b"v12", 1, 0).is_err());
        assert!(Format::announced(b"v41", 0, 0).is_err());
    }
}
