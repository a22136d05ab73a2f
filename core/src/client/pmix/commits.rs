//! Values that were put and are not committed yet.

use super::KEY_BYTES_MAX;
use crate::error::Misuse;
use crate::storage::Buffer;
use crate::wire::pmix::names::{keys, scope};
use crate::wire::pmix::{Format, Kval, Packer, Type, Unpacker, Value};

/// Processes that may read a put value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Processes on the same node.
    Local,
    /// Processes on other nodes.
    Remote,
    /// All processes.
    Global,
}

/// A value to put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum<'a> {
    /// Wire: BOOL.
    Bool(bool),
    /// Wire: UINT16.
    U16(u16),
    /// Wire: INT32.
    I32(i32),
    /// Wire: UINT32.
    U32(u32),
    /// Wire: INT64.
    I64(i64),
    /// Wire: UINT64.
    U64(u64),
    /// Wire: STRING. It has no NUL.
    Text(&'a [u8]),
    /// Wire: BYTE_OBJECT.
    Bytes(&'a [u8]),
    /// A value of any other type, as a [`Packer`] of the client's format has written it.
    Packed(Type, &'a [u8]),
}

/// Scopes and KVALs as a commit sends them, one behind the other.
#[derive(Debug)]
pub(super) struct LocalPuts<B> {
    bytes: B,
    format: Format,
}

/// One put value.
#[derive(Clone, Copy)]
struct LocalPut<'a> {
    scope: u8,
    kval: Kval<'a>,
    /// The KVAL, packed.
    packed: &'a [u8],
}

impl<B: Buffer> LocalPuts<B> {
    pub(super) const fn new(bytes: B, format: Format) -> Self {
        Self { bytes, format }
    }

    pub(super) fn put(&mut self, scope: Scope, key: &[u8], value: Datum<'_>) -> Result<(), Misuse> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let limit_bytes = KEY_BYTES_MAX;
            return Err(Misuse::Length { what: "key", len_bytes: key.len(), limit_bytes });
        }
        if keys::is_reserved(key) {
            return Err(Misuse::NotRepresentable { what: "a key of the launcher's" });
        }
        if key.contains(&0) || matches!(value, Datum::Text(text) if text.contains(&0)) {
            return Err(Misuse::NotRepresentable { what: "a text with NUL" });
        }
        value.check(self.format)?;
        let key_bytes = i32::try_from(key.len() + 1).unwrap_or(i32::MAX);
        let (mut head, mut of) = ([0; SHORT_BYTES], [0; SHORT_BYTES]);
        let head = short(&mut head, self.format, |to| {
            to.u8(scope.number()).one(Type::KVAL).i32(key_bytes);
        });
        let of = short(&mut of, self.format, |to| {
            value.write_front(to.u8(0).of(value.of()));
        });
        let tail: &[u8] = if let Datum::Text(_) = value { &[0] } else { &[] };
        let pieces = [head, key, of, value.long(), tail];
        let (len_bytes, limit_bytes) = (pieces.iter().map(|p| p.len()).sum(), self.bytes.room());
        let no_room = |_| Misuse::Length { what: "value", len_bytes, limit_bytes };
        if len_bytes > limit_bytes {
            return Err(no_room(()));
        }
        for piece in pieces {
            self.bytes.extend(piece).map_err(|_| no_room(()))?;
        }
        Ok(())
    }

    /// Number of packed bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.as_slice().len()
    }

    /// Writes the scopes of a commit, of the first `until` bytes.
    pub(super) fn write(&self, until: usize, to: &mut Packer<'_>) {
        for (number, hidden) in [(scope::LOCAL, scope::REMOTE), (scope::REMOTE, scope::LOCAL)] {
            let seen = || self.last(until).filter(move |posted| posted.scope != hidden);
            if seen().next().is_some() {
                let buffer = to.format().buffer();
                to.one(Type::SCOPE).u8(number).one(Type::BUFFER).u8(buffer);
                to.nested(|to| {
                    for posted in seen() {
                        to.raw(posted.packed);
                    }
                });
            }
        }
    }

    /// Drops the first `len` bytes.
    pub(super) fn drop_sent(&mut self, len: usize) {
        self.bytes.drop_front(len);
    }

    /// Latest put value under a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<Value<'_>> {
        let posted = self.each(0, self.len()).filter(|posted| posted.kval.key == key);
        posted.last().map(|posted| posted.kval.value)
    }

    /// Entries without a later entry of the same key.
    fn last(&self, until: usize) -> impl Iterator<Item = LocalPut<'_>> {
        let mut at = 0;
        self.each(0, until).filter(move |posted| {
            at += 1 + posted.packed.len();
            self.each(at, until).all(|later| later.kval.key != posted.kval.key)
        })
    }

    fn each(&self, from: usize, until: usize) -> impl Iterator<Item = LocalPut<'_>> {
        let mut rest = self.bytes.as_slice().get(from..until).unwrap_or(b"");
        let format = self.format;
        core::iter::from_fn(move || {
            let (scope, behind) = rest.split_first()?;
            let mut from = Unpacker::new(behind, format);
            let kval = Kval::read(&mut from).ok()?;
            rest = from.rest();
            Some(LocalPut { scope: *scope, kval, packed: from.since(0) })
        })
    }
}

impl Scope {
    const fn number(self) -> u8 {
        match self {
            Self::Local => scope::LOCAL,
            Self::Remote => scope::REMOTE,
            Self::Global => scope::GLOBAL,
        }
    }
}

impl<'a> Datum<'a> {
    const fn of(self) -> Type {
        match self {
            Self::Bool(_) => Type::BOOL,
            Self::U16(_) => Type::UINT16,
            Self::I32(_) => Type::INT32,
            Self::U32(_) => Type::UINT32,
            Self::I64(_) => Type::INT64,
            Self::U64(_) => Type::UINT64,
            Self::Text(_) => Type::STRING,
            Self::Bytes(_) => Type::BYTE_OBJECT,
            Self::Packed(of, _) => of,
        }
    }

    /// Checks that the value has the type that it claims.
    fn check(self, format: Format) -> Result<(), Misuse> {
        let Self::Packed(of, bytes) = self else { return Ok(()) };
        match Unpacker::new(bytes, format).skip(of) {
            Ok(all) if all.len() == bytes.len() => Ok(()),
            _ => Err(Misuse::NotRepresentable { what: "bytes that are no value of their type" }),
        }
    }

    /// Writes the part of bounded length.
    fn write_front(self, to: &mut Packer<'_>) {
        match self {
            Self::Bool(value) => to.u8(value.into()),
            Self::U16(number) => to.u16(number),
            Self::I32(number) => to.i32(number),
            Self::U32(number) => to.u32(number),
            Self::I64(number) => to.i64(number),
            Self::U64(number) => to.u64(number),
            Self::Text(text) => {
                to.i32(i32::try_from(text.len().saturating_add(1)).unwrap_or(i32::MAX))
            }
            Self::Bytes(bytes) => to.size(bytes.len() as u64),
            Self::Packed(..) => to,
        };
    }

    /// The part of the value without a fixed bound of its length.
    const fn long(self) -> &'a [u8] {
        match self {
            Self::Text(bytes) | Self::Bytes(bytes) | Self::Packed(_, bytes) => bytes,
            _ => b"",
        }
    }
}

/// Bytes that `write` packs, which are a few numbers at most.
pub(super) fn short(
    scratch: &mut [u8; SHORT_BYTES],
    format: Format,
    write: impl FnOnce(&mut Packer<'_>),
) -> &[u8] {
    let mut to = Packer::new(scratch, format);
    write(&mut to);
    let len = to.len();
    scratch.get(..len).unwrap_or(b"")
}

/// Room for two numbers and their heads.
pub(super) const SHORT_BYTES: usize = 32;
