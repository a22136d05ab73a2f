//! Values that a client sends.

use super::queued_request::check_text;
use crate::error::Misuse;
use crate::wire::pmix::{Format, Packer, Proc, Type, Unpacker};

/// A value to put, to publish, or of an [`Attribute`](super::Attribute).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Datum<'a> {
    /// Wire: BOOL.
    Bool(bool),
    /// Wire: UINT16.
    U16(u16),
    /// Wire: INT, as numbers of seconds and of signals are.
    Int(i32),
    /// Wire: INT32.
    I32(i32),
    /// Wire: UINT32.
    U32(u32),
    /// Wire: INT64.
    I64(i64),
    /// Wire: UINT64.
    U64(u64),
    /// Wire: SIZE.
    Size(u64),
    /// Wire: PROC_RANK.
    Rank(u32),
    /// Wire: PID.
    Pid(u32),
    /// Wire: PROC. An empty namespace is written as it is.
    Proc(Proc<'a>),
    /// Wire: STRING. It has no NUL.
    Text(&'a [u8]),
    /// Wire: BYTE_OBJECT.
    Bytes(&'a [u8]),
    /// A value of any other type, as a [`Packer`] of the client's format has written it.
    Packed(Type, &'a [u8]),
}

impl Datum<'_> {
    /// Type of the value.
    pub(super) const fn of(self) -> Type {
        match self {
            Self::Bool(_) => Type::BOOL,
            Self::U16(_) => Type::UINT16,
            Self::Int(_) => Type::INT,
            Self::I32(_) => Type::INT32,
            Self::U32(_) => Type::UINT32,
            Self::I64(_) => Type::INT64,
            Self::U64(_) => Type::UINT64,
            Self::Size(_) => Type::SIZE,
            Self::Rank(_) => Type::PROC_RANK,
            Self::Pid(_) => Type::PID,
            Self::Proc(_) => Type::PROC,
            Self::Text(_) => Type::STRING,
            Self::Bytes(_) => Type::BYTE_OBJECT,
            Self::Packed(of, _) => of,
        }
    }

    /// Checks that the value has the type that it claims.
    pub(super) fn check(self, format: Format) -> Result<(), Misuse> {
        match self {
            Self::Text(text) | Self::Proc(Proc { nspace: text, .. }) => check_text(text),
            Self::Packed(of, bytes) => match Unpacker::new(bytes, format).skip(of) {
                Ok(all) if all.len() == bytes.len() => Ok(()),
                _ => {
                    Err(Misuse::NotRepresentable { what: "bytes that are no value of their type" })
                }
            },
            _ => Ok(()),
        }
    }

    /// Writes the value without its type.
    pub(super) fn write(self, to: &mut Packer<'_>) {
        match self {
            Self::Bool(value) => to.u8(value.into()),
            Self::U16(number) => to.u16(number),
            Self::Int(number) => to.int(number),
            Self::I32(number) => to.i32(number),
            Self::U32(number) | Self::Rank(number) => to.u32(number),
            Self::I64(number) => to.i64(number),
            Self::U64(number) => to.u64(number),
            Self::Size(number) => to.size(number),
            Self::Pid(number) => to.pid(number),
            Self::Proc(Proc { nspace, rank }) => to.text(Some(nspace)).u32(rank),
            Self::Text(text) => to.text(Some(text)),
            Self::Bytes(bytes) => to.blob(bytes),
            Self::Packed(_, bytes) => to.raw(bytes),
        };
    }
}
