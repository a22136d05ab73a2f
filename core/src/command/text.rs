//! Bytes of a message as they stand on the wire, which may not be the bytes they mean.

use crate::error::Full;
use crate::parts;

/// A field of a message, borrowed from the bytes it came in.
///
/// PMI-2 may write `;` twice where one is meant. Such a field is kept as it stands and read
/// through, so that decoding needs no memory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text<'a> {
    raw: &'a [u8],
    doubled: bool,
}

impl<'a> Text<'a> {
    /// No bytes.
    pub const EMPTY: Self = Self::plain(b"");

    /// Bytes that mean themselves.
    pub const fn plain(raw: &'a [u8]) -> Self {
        Self { raw, doubled: false }
    }

    /// Bytes in which `;;` means `;`.
    pub fn doubled(raw: &'a [u8]) -> Self {
        // Without one there is nothing to read through, and the field can be lent as it is.
        Self { raw, doubled: parts::PMI2 && raw.contains(&b';') }
    }

    /// True if the text needs decoding; never in a build without PMI-2.
    const fn is_doubled(self) -> bool {
        parts::PMI2 && self.doubled
    }

    /// The bytes that are meant, one by one.
    pub fn bytes(self) -> impl Iterator<Item = u8> + Clone + 'a {
        let mut skip = false;
        self.raw.iter().copied().filter(move |&byte| {
            let second = self.is_doubled() && byte == b';' && skip;
            skip = byte == b';' && !second;
            !second
        })
    }

    /// The bytes as they stand on the wire. A `;` is among them if the text means one.
    pub(crate) const fn as_raw(self) -> &'a [u8] {
        self.raw
    }

    /// Length of the decoded text in bytes.
    pub fn len(self) -> usize {
        if self.is_doubled() { self.bytes().count() } else { self.raw.len() }
    }

    /// True when there are none.
    pub const fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// The bytes that are meant, if they stand on the wire just so.
    pub const fn as_plain(self) -> Option<&'a [u8]> {
        if self.is_doubled() { None } else { Some(self.raw) }
    }

    /// Reads the text as a decimal number from 0.
    pub fn number(self) -> Option<u32> {
        u32::try_from(self.signed()?).ok()
    }

    /// Reads the text as a decimal number, with a sign in front if it has one.
    pub fn signed(self) -> Option<i64> {
        // Ten digits hold every 32-bit number; more cannot be meant, and would overflow some day.
        let (minus, digits) = match self.raw.split_first() {
            Some((b'-', digits)) => (true, digits),
            Some((b'+', digits)) => (false, digits),
            _ => (false, self.raw),
        };
        if digits.is_empty() || digits.len() > 10 {
            return None;
        }
        let mut value = 0;
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + i64::from(digit);
        }
        Some(if minus { -value } else { value })
    }

    /// Returns the decoded bytes, using `scratch` only if they differ from those on the wire.
    ///
    /// # Errors
    ///
    /// [`Full`] if `scratch` is needed and too small.
    pub fn resolve<'s>(self, scratch: &'s mut [u8]) -> Result<&'s [u8], Full>
    where
        'a: 's,
    {
        if let Some(plain) = self.as_plain() {
            return Ok(plain);
        }
        let needed = self.len();
        let out = scratch.get_mut(..needed).ok_or(Full { needed })?;
        out.iter_mut().zip(self.bytes()).for_each(|(to, byte)| *to = byte);
        Ok(out)
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(raw: &'a [u8]) -> Self {
        Self::plain(raw)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Text<'a> {
    fn from(raw: &'a [u8; N]) -> Self {
        Self::plain(raw)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::plain(text.as_bytes())
    }
}

/// Two texts are equal when they mean the same bytes.
impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.as_plain(), other.as_plain()) {
            (Some(own), Some(other)) => own == other,
            _ => self.bytes().eq(other.bytes()),
        }
    }
}

impl Eq for Text<'_> {}

impl PartialEq<[u8]> for Text<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        *self == Text::plain(other)
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Text<'_> {
    fn eq(&self, other: &[u8; N]) -> bool {
        *self == other[..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_semicolon_means_one() {
        for (raw, meant) in [
            (&b"a;;b"[..], &b"a;b"[..]),
            (b";;;;", b";;"),
            (b"ab", b"ab"),
            (b"", b""),
            (b";;", b";"),
        ] {
            let text = Text::doubled(raw);
            assert_eq!(text, *meant);
            assert_eq!(text.len(), meant.len());
            assert_eq!(text.resolve(&mut [0; 8]).unwrap(), meant);
        }
        assert_eq!(Text::plain(b"a;;b"), *b"a;;b");
    }

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+7", Some(7)),
            ("4294967295", Some(4_294_967_295)),
            ("", None),
            ("-", None),
            ("12x", None),
            (" 1", None),
            ("99999999999", None),
        ] {
            assert_eq!(Text::from(text).signed(), value, "{text:?}");
        }
        assert_eq!(Text::from("4294967296").number(), None);
        assert_eq!(Text::from("-1").number(), None);
    }

    #[test]
    fn room_is_needed_only_to_undouble() {
        assert_eq!(Text::doubled(b"abc").resolve(&mut []), Ok(&b"abc"[..]));
        assert_eq!(Text::doubled(b"a;;c").resolve(&mut [0; 2]), Err(Full { needed: 3 }));
    }
}
