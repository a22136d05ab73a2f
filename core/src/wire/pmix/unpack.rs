//! Reads packed values from a lent slice.

use super::format::{Family, Format};
use super::pack::FLEX_GROUPS;
use super::types::Type;
use crate::error::Malformed;

/// Packed values, read from the front.
///
/// The methods are those of [`Packer`](super::Packer). Nothing is ever copied, and no length is
/// trusted beyond the bytes at hand.
#[derive(Clone, Copy, Debug)]
pub struct Unpacker<'a> {
    bytes: &'a [u8],
    at: usize,
    format: Format,
}

impl<'a> Unpacker<'a> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'a [u8], format: Format) -> Self {
        Self { bytes, at: 0, format }
    }

    /// Format of the values.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Number of bytes that were read.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// True if all bytes were read.
    pub const fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(b"")
    }

    /// Bytes that were read since `from`.
    pub fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at).unwrap_or(b"")
    }

    /// Begins a pack operation of this type and returns the number of values that follow.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for another type, and for more values than there are bytes left.
    pub fn op(&mut self, of: Type) -> Result<u32, Malformed> {
        if self.format.is_described && self.u16()? != Type::INT32.0 {
            return Err(self.malformed("the type of a count"));
        }
        let count = self.i32()?;
        if self.format.is_described && self.u16()? != of.0 {
            return Err(self.malformed("another type of value"));
        }
        match u32::try_from(count) {
            Ok(count) if count > 0 => {
                self.check_count(u64::from(count))?;
                Ok(count)
            }
            _ => Err(self.malformed("a count of values")),
        }
    }

    /// Begins a pack operation of one value.
    ///
    /// # Errors
    ///
    /// As for [`op`](Self::op), and for more than one.
    pub fn one(&mut self, of: Type) -> Result<&mut Self, Malformed> {
        match self.op(of)? {
            1 => Ok(self),
            _ => Err(self.malformed("one value")),
        }
    }

    /// One byte.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if there is no such value, here and in the methods below.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// Sixteen bits.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        match self.format.family {
            Family::Fixed => Ok(u16::from_be_bytes(self.array()?)),
            Family::Flex => {
                let value = self.flex()?;
                u16::try_from(value).map_err(|_| self.malformed("a number of 16 bits"))
            }
        }
    }

    /// Sixteen bits with a sign.
    pub fn i16(&mut self) -> Result<i16, Malformed> {
        match self.format.family {
            Family::Fixed => Ok(i16::from_be_bytes(self.array()?)),
            Family::Flex => {
                let value = unfolded(self.flex()?);
                i16::try_from(value).map_err(|_| self.malformed("a number of 16 bits"))
            }
        }
    }

    /// Thirty-two bits.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        match self.format.family {
            Family::Fixed => Ok(u32::from_be_bytes(self.array()?)),
            Family::Flex => {
                let value = self.flex()?;
                u32::try_from(value).map_err(|_| self.malformed("a number of 32 bits"))
            }
        }
    }

    /// Thirty-two bits with a sign.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        match self.format.family {
            Family::Fixed => Ok(i32::from_be_bytes(self.array()?)),
            Family::Flex => {
                let value = unfolded(self.flex()?);
                i32::try_from(value).map_err(|_| self.malformed("a number of 32 bits"))
            }
        }
    }

    /// Sixty-four bits.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        match self.format.family {
            Family::Fixed => Ok(u64::from_be_bytes(self.array()?)),
            Family::Flex => self.flex(),
        }
    }

    /// Sixty-four bits with a sign.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        match self.format.family {
            Family::Fixed => Ok(i64::from_be_bytes(self.array()?)),
            Family::Flex => Ok(unfolded(self.flex()?)),
        }
    }

    /// An `int`.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        self.sized(Type::INT32)?;
        self.i32()
    }

    /// A `size_t`.
    pub fn size(&mut self) -> Result<u64, Malformed> {
        self.sized(Type::UINT64)?;
        self.u64()
    }

    /// A process id.
    pub fn pid(&mut self) -> Result<u32, Malformed> {
        if self.u16()? != Type::UINT32.0 {
            return Err(self.malformed("the type of a process id"));
        }
        self.u32()
    }

    /// A text without its terminator; `None` for the null pointer of C.
    pub fn text(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let len = self.i32()?;
        if len == 0 {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| self.malformed("the length of a text"))?;
        match self.take(len)?.split_last() {
            Some((0, text)) if !text.contains(&0) => Ok(Some(text)),
            _ => Err(self.malformed("the end of a text where its length says")),
        }
    }

    /// Bytes with their number.
    pub fn blob(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.size()?;
        let len = usize::try_from(len).map_err(|_| self.malformed("a number of bytes"))?;
        self.take(len)
    }

    /// The number of a type, as in front of a value.
    pub fn of(&mut self) -> Result<Type, Malformed> {
        self.u16().map(Type)
    }

    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.malformed("more bytes"))?;
        self.at += len;
        Ok(taken)
    }

    /// Checks a count against the bytes left. Every value has a byte at least, so a false count is
    /// found early.
    pub(super) fn check_count(&self, count: u64) -> Result<(), Malformed> {
        if count <= self.rest().len() as u64 {
            Ok(())
        } else {
            Err(self.malformed("as many values as were counted"))
        }
    }

    pub(super) const fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed::new(self.at, expected)
    }

    fn sized(&mut self, size: Type) -> Result<(), Malformed> {
        if self.format.family == Family::Fixed && self.u16()? != size.0 {
            return Err(self.malformed("the size of a number as all known peers have it"));
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        <[u8; N]>::try_from(taken).map_err(|_| self.malformed("more bytes"))
    }

    fn flex(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for group in 0..FLEX_GROUPS {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Ok(value | u64::from(self.u8()?) << (7 * FLEX_GROUPS))
    }
}

/// Restores a signed number that [`Packer`](super::Packer) has folded.
const fn unfolded(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
