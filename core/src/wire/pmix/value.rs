//! One value of any type: skipping, copying into another encoding, access to its parts.

use super::format::Format;
use super::pack::Packer;
use super::parts::{List, Proc};
use super::types::{Counter, Field, Type};
use super::unpack::Unpacker;
use super::{names, regex};
use crate::error::Malformed;

/// Greatest depth of nested arrays. No known message goes beyond four.
pub const DEPTH_MAX: u32 = 16;

/// A value with its type, still packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// Type of the value.
    pub of: Type,
    /// Bytes of the value, without the number of the type.
    pub bytes: &'a [u8],
    /// Format of the bytes.
    pub format: Format,
}

impl<'a> Unpacker<'a> {
    /// Skips a value of this type and lends its bytes.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is no such value, if arrays are nested too deep, and for an unknown type,
    /// since the end of its values cannot be determined.
    pub fn skip(&mut self, of: Type) -> Result<&'a [u8], Malformed> {
        let from = self.at();
        walk(self, of, None, 0)?;
        Ok(self.since(from))
    }

    /// Reads a value of this type and writes it into `to`, in the format of `to`.
    ///
    /// # Errors
    ///
    /// As for [`skip`](Self::skip).
    pub fn copy(&mut self, of: Type, to: &mut Packer<'_>) -> Result<(), Malformed> {
        walk(self, of, Some(to), 0)
    }

    /// Reads the number of a type and a value of it.
    ///
    /// # Errors
    ///
    /// As for [`skip`](Self::skip).
    pub fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let of = self.of()?;
        Ok(Value { of, bytes: self.skip(of)?, format: self.format() })
    }
}

impl<'a> Value<'a> {
    /// The value as a number of any type.
    pub fn number(&self) -> Option<i64> {
        let mut from = self.unpacker();
        let number = match self.of {
            Type::BOOL | Type::BYTE | Type::UINT8 | Type::PERSIST | Type::SCOPE => {
                from.u8().ok()?.into()
            }
            Type::DATA_RANGE | Type::PROC_STATE | Type::JOB_STATE => from.u8().ok()?.into(),
            Type::INT8 => i64::from(from.u8().ok()?.cast_signed()),
            Type::INT16 => from.i16().ok()?.into(),
            Type::UINT16 | Type::IOF_CHANNEL => from.u16().ok()?.into(),
            Type::INT32 | Type::STATUS => from.i32().ok()?.into(),
            Type::UINT32 | Type::PROC_RANK | Type::INFO_DIRECTIVES => from.u32().ok()?.into(),
            Type::INT => from.int().ok()?.into(),
            Type::UINT => from.int().ok()?.cast_unsigned().into(),
            Type::INT64 => from.i64().ok()?,
            Type::UINT64 | Type::TIME => i64::try_from(from.u64().ok()?).ok()?,
            Type::SIZE => i64::try_from(from.size().ok()?).ok()?,
            Type::PID => from.pid().ok()?.into(),
            _ => return None,
        };
        Some(number)
    }

    /// True if a directive is enabled. A directive without a value is enabled.
    pub fn is_true(&self) -> bool {
        match self.of {
            Type::UNDEF => true,
            Type::STRING => self.text().is_some_and(names::means_true),
            _ => self.number().is_some_and(|number| number != 0),
        }
    }

    /// The value as a text; `None` for the null pointer of C too.
    pub fn text(&self) -> Option<&'a [u8]> {
        match self.of {
            Type::STRING | Type::PROC_NSPACE => self.unpacker().text().ok()?,
            _ => None,
        }
    }

    /// The value as bytes.
    pub fn blob(&self) -> Option<&'a [u8]> {
        match self.of {
            Type::BYTE_OBJECT | Type::COMPRESSED_BYTE_OBJECT | Type::COMPRESSED_STRING => {
                self.unpacker().blob().ok()
            }
            _ => None,
        }
    }

    /// The value as a process.
    pub fn proc(&self) -> Option<Proc<'a>> {
        match self.of {
            Type::PROC => Proc::read(&mut self.unpacker()).ok(),
            _ => None,
        }
    }

    /// The value as a variable of the environment: its name and its value.
    pub fn variable(&self) -> Option<(&'a [u8], &'a [u8])> {
        if self.of != Type::ENVAR {
            return None;
        }
        let mut from = self.unpacker();
        let name = from.text().ok()??;
        Some((name, from.text().ok()?.unwrap_or(b"")))
    }

    /// The values of an array, which may be empty.
    pub fn array(&self) -> Option<List<'a>> {
        if self.of != Type::DATA_ARRAY {
            return None;
        }
        let mut from = self.unpacker();
        let of = from.of().ok()?;
        let count = u32::try_from(from.size().ok()?).ok()?;
        Some(List { of, count, bytes: from.rest(), format: self.format })
    }

    fn unpacker(&self) -> Unpacker<'a> {
        Unpacker::new(self.bytes, self.format)
    }
}

fn walk(
    from: &mut Unpacker<'_>,
    of: Type,
    to: Option<&mut Packer<'_>>,
    depth: u32,
) -> Result<(), Malformed> {
    match of.shape() {
        Some(fields) => row(from, fields, to, depth),
        None => Err(from.malformed("a type that is known")),
    }
}

/// Reads one row of fields, and writes it if there is a packer.
fn row(
    from: &mut Unpacker<'_>,
    fields: &[Field],
    mut to: Option<&mut Packer<'_>>,
    depth: u32,
) -> Result<(), Malformed> {
    for field in fields {
        let to = to.as_deref_mut();
        match field {
            Field::Byte => pass(from.u8()?, to, Packer::u8),
            Field::I16 => pass(from.i16()?, to, Packer::i16),
            Field::U16 => pass(from.u16()?, to, Packer::u16),
            Field::I32 => pass(from.i32()?, to, Packer::i32),
            Field::U32 => pass(from.u32()?, to, Packer::u32),
            Field::I64 => pass(from.i64()?, to, Packer::i64),
            Field::U64 => pass(from.u64()?, to, Packer::u64),
            Field::Int => pass(from.int()?, to, Packer::int),
            Field::Size => pass(from.size()?, to, Packer::size),
            Field::Pid => pass(from.pid()?, to, Packer::pid),
            Field::Text => {
                let text = from.text()?;
                if let Some(to) = to {
                    to.text(text);
                }
            }
            Field::Blob => {
                let bytes = from.blob()?;
                if let Some(to) = to {
                    to.blob(bytes);
                }
            }
            Field::Regex => {
                let len = regex::len(from.rest());
                let len = len.ok_or_else(|| from.malformed("a list of nodes or processes"))?;
                let bytes = from.take(len)?;
                if let Some(to) = to {
                    to.raw(bytes);
                }
            }
            Field::Typed => typed(from, to, depth)?,
            Field::Array => array(from, to, depth)?,
            Field::Many(counter, fields) => many(from, *counter, fields, to, depth)?,
        }
    }
    Ok(())
}

fn pass<'p, T>(
    value: T,
    to: Option<&mut Packer<'p>>,
    write: for<'a> fn(&'a mut Packer<'p>, T) -> &'a mut Packer<'p>,
) {
    if let Some(to) = to {
        write(to, value);
    }
}

fn typed(
    from: &mut Unpacker<'_>,
    mut to: Option<&mut Packer<'_>>,
    depth: u32,
) -> Result<(), Malformed> {
    let depth = deeper(from, depth)?;
    let of = from.of()?;
    if let Some(to) = to.as_deref_mut() {
        to.of(of);
    }
    walk(from, of, to, depth)
}

fn array(
    from: &mut Unpacker<'_>,
    mut to: Option<&mut Packer<'_>>,
    depth: u32,
) -> Result<(), Malformed> {
    let depth = deeper(from, depth)?;
    let (of, count) = (from.of()?, from.size()?);
    from.check_count(count)?;
    if of == Type::UNDEF && count > 0 {
        // Such values have no bytes that could confirm the count.
        return Err(from.malformed("values of some type"));
    }
    if let Some(to) = to.as_deref_mut() {
        to.of(of).size(count);
    }
    for _ in 0..count {
        walk(from, of, to.as_deref_mut(), depth)?;
    }
    Ok(())
}

fn many(
    from: &mut Unpacker<'_>,
    counter: Counter,
    fields: &[Field],
    mut to: Option<&mut Packer<'_>>,
    depth: u32,
) -> Result<(), Malformed> {
    let negative = |_| Malformed::new(0, "a number of values that is not negative");
    let count = match counter {
        Counter::I32 => u64::try_from(from.i32()?).map_err(negative)?,
        Counter::Int => u64::try_from(from.int()?).map_err(negative)?,
        Counter::Size => from.size()?,
    };
    from.check_count(count)?;
    if let Some(to) = to.as_deref_mut() {
        // The count was read as such a number.
        let small = i32::try_from(count).unwrap_or(i32::MAX);
        match counter {
            Counter::I32 => to.i32(small),
            Counter::Int => to.int(small),
            Counter::Size => to.size(count),
        };
    }
    for _ in 0..count {
        row(from, fields, to.as_deref_mut(), depth)?;
    }
    Ok(())
}

fn deeper(from: &Unpacker<'_>, depth: u32) -> Result<u32, Malformed> {
    if depth < 2 * DEPTH_MAX {
        // A value in an array counts as two levels: the value's type and the array's.
        Ok(depth + 1)
    } else {
        Err(from.malformed("arrays that do not lie in each other so deep"))
    }
}
