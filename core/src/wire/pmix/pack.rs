//! Writes packed values into a lent slice, whole or not at all.

use super::format::{Family, Format};
use super::types::Type;
use crate::error::Full;
use crate::wire::Writer;

/// Writer of packed values into a lent slice.
///
/// A message is a sequence of pack operations: a number of values, and the values. The methods named
/// after a type of the language write one value, as inside others; [`op`](Self::op) writes
/// the head of an operation.
///
/// Like the underlying [`Writer`], it still counts when there is no more room.
pub struct Packer<'a> {
    writer: Writer<'a>,
    format: Format,
}

impl<'a> Packer<'a> {
    /// Starts at the front of `out`.
    pub const fn new(out: &'a mut [u8], format: Format) -> Self {
        Self { writer: Writer::new(out), format }
    }

    /// Format of the values.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Number of bytes that were written, or would have been.
    pub const fn len(&self) -> usize {
        self.writer.len()
    }

    /// True while nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.writer.is_empty()
    }

    /// Returns the length.
    ///
    /// # Errors
    ///
    /// [`Full`] if it did not fit; the content of the lent slice is undefined then.
    pub fn finish(self) -> Result<usize, Full> {
        self.writer.finish()
    }

    /// Begins a pack operation: `count` values of this type follow. An empty operation is never
    /// written.
    pub fn op(&mut self, of: Type, count: u32) -> &mut Self {
        if self.format.is_described {
            self.u16(Type::INT32.0);
        }
        self.i32(i32::try_from(count).unwrap_or(i32::MAX));
        if self.format.is_described {
            self.u16(of.0);
        }
        self
    }

    /// Begins a pack operation of one value.
    pub fn one(&mut self, of: Type) -> &mut Self {
        self.op(of, 1)
    }

    /// Appends bytes that are packed already.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.writer.bytes(bytes);
        self
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.writer.byte(value);
        self
    }

    /// Sixteen bits.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.raw(&value.to_be_bytes()),
            Family::Flex => self.flex(u64::from(value)),
        }
    }

    /// Sixteen bits with a sign.
    pub fn i16(&mut self, value: i16) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.raw(&value.to_be_bytes()),
            Family::Flex => self.flex(folded(i64::from(value))),
        }
    }

    /// Thirty-two bits.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.raw(&value.to_be_bytes()),
            Family::Flex => self.flex(u64::from(value)),
        }
    }

    /// Thirty-two bits with a sign.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.raw(&value.to_be_bytes()),
            Family::Flex => self.flex(folded(i64::from(value))),
        }
    }

    /// Sixty-four bits.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.raw(&value.to_be_bytes()),
            Family::Flex => self.flex(value),
        }
    }

    /// Sixty-four bits with a sign.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.raw(&value.to_be_bytes()),
            Family::Flex => self.flex(folded(value)),
        }
    }

    /// An `int`.
    pub fn int(&mut self, value: i32) -> &mut Self {
        self.sized(Type::INT32).i32(value)
    }

    /// A `size_t`.
    pub fn size(&mut self, value: u64) -> &mut Self {
        self.sized(Type::UINT64).u64(value)
    }

    /// A process id.
    pub fn pid(&mut self, value: u32) -> &mut Self {
        self.u16(Type::UINT32.0).u32(value)
    }

    /// A text; `None` is the null pointer of C.
    pub fn text(&mut self, text: Option<&[u8]>) -> &mut Self {
        let Some(text) = text else { return self.i32(0) };
        self.i32(i32::try_from(text.len().saturating_add(1)).unwrap_or(i32::MAX));
        self.raw(text).u8(0)
    }

    /// A text of several parts, separated by commas.
    pub fn list<'t>(&mut self, parts: impl Iterator<Item = &'t [u8]> + Clone) -> &mut Self {
        let len = parts.clone().fold(0_usize, |len, part| len.saturating_add(part.len() + 1));
        // As many commas as parts but one, and the terminator.
        self.i32(i32::try_from(len.max(1)).unwrap_or(i32::MAX));
        for (at, part) in parts.enumerate() {
            if at > 0 {
                self.u8(b',');
            }
            self.raw(part);
        }
        self.u8(0)
    }

    /// Bytes with their number.
    pub fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.size(bytes.len() as u64).raw(bytes)
    }

    /// The output of `inside`, with its length. `inside` is called twice: to count, and to write.
    pub fn nested(&mut self, inside: impl Fn(&mut Packer<'_>)) -> &mut Self {
        let mut counted = Packer::new(&mut [], self.format);
        inside(&mut counted);
        let len = counted.len();
        self.size(len as u64);
        inside(self);
        self
    }

    /// The number of a type, as in front of a value.
    pub fn of(&mut self, of: Type) -> &mut Self {
        self.u16(of.0)
    }

    /// Writes the size of a machine-dependent number; only the fixed family has it.
    fn sized(&mut self, size: Type) -> &mut Self {
        match self.format.family {
            Family::Fixed => self.u16(size.0),
            Family::Flex => self,
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "seven bits at a time are wanted")]
    fn flex(&mut self, mut value: u64) -> &mut Self {
        for _ in 0..FLEX_GROUPS {
            if value < 0x80 {
                return self.u8(value as u8);
            }
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        // Behind eight groups one byte is left, which needs no continuation mark.
        self.u8(value as u8)
    }
}

/// Folds a signed number into an unsigned one, so that small numbers stay short.
const fn folded(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Greatest number of groups of seven bits before the last byte.
pub(super) const FLEX_GROUPS: u32 = 8;
