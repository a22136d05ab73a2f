//! Components of messages: processes, infos, keys with values, and lists of them.

use super::format::Format;
use super::pack::Packer;
use super::types::Type;
use super::unpack::Unpacker;
use super::value::Value;
use crate::error::Malformed;

/// Every process of a namespace.
pub const WILDCARD: u32 = 0xffff_fffe;

/// Ranks that are no processes.
pub mod ranks {
    pub use super::WILDCARD;
    /// Any process that has the requested data.
    pub const UNDEF: u32 = 0xffff_ffff;
    /// Every process of the node.
    pub const LOCAL_NODE: u32 = 0xffff_fffd;
    /// No process.
    pub const INVALID: u32 = 0xffff_fffc;
    /// Every process of the namespace on the node.
    pub const LOCAL_PEERS: u32 = 0xffff_fffb;
}

/// A process, or several of one namespace.
///
/// Wire: STRING namespace, `u32` rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proc<'a> {
    /// The name of its job.
    pub nspace: &'a [u8],
    /// Its rank, or one of [`ranks`].
    pub rank: u32,
}

/// Description of a process.
///
/// Wire: STRING namespace, `u32` rank, STRING host, STRING program, PID, PROC_STATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcInfo<'a> {
    /// The process.
    pub of: Proc<'a>,
    /// Name of its host.
    pub host: &'a [u8],
    /// Its program.
    pub program: &'a [u8],
    /// Its process id.
    pub pid: u32,
    /// One of [`proc_state`](super::names::proc_state).
    pub state: u8,
}

/// A key with flags and a value: a directive of a request, or a piece of data.
///
/// Wire: STRING key, `u32` flags, `u16` type, value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info<'a> {
    /// Key of the info.
    pub key: &'a [u8],
    /// Bits of [`flags`](super::names::flags).
    pub flags: u32,
    /// The value.
    pub value: Value<'a>,
}

/// A key and a value.
///
/// Wire: STRING key, `u16` type, value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kval<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
}

/// Several values of one type that have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a> {
    /// Their type.
    pub of: Type,
    /// Their number.
    pub count: u32,
    /// Their bytes, one after the other.
    pub bytes: &'a [u8],
    /// Their format.
    pub format: Format,
}

/// Keys with values up to the end of a message or a buffer, one pack operation each.
#[derive(Clone, Debug)]
pub struct Kvals<'a> {
    from: Unpacker<'a>,
    is_over: bool,
}

/// Data put since the last commit, by scope.
///
/// Wire: SCOPE and BUFFER, repeated.
#[derive(Clone, Debug)]
pub struct Scopes<'a> {
    from: Unpacker<'a>,
}

impl<'a> Proc<'a> {
    /// Reads a value without a pack operation, as inside other values.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let nspace = from.text()?.unwrap_or(b"");
        Ok(Self { nspace, rank: from.u32()? })
    }

    /// Writes the value without a pack operation, as inside other values.
    pub fn write(&self, to: &mut Packer<'_>) {
        to.text(Some(self.nspace)).u32(self.rank);
    }
}

impl<'a> ProcInfo<'a> {
    /// Reads a value without a pack operation, as inside other values.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let of = Proc::read(from)?;
        let (host, program) = (from.text()?.unwrap_or(b""), from.text()?.unwrap_or(b""));
        Ok(Self { of, host, program, pid: from.pid()?, state: from.u8()? })
    }
}

impl<'a> Info<'a> {
    /// Reads a value without a pack operation, as inside other values.
    ///
    /// # Errors
    ///
    /// [`Malformed`], as for [`Unpacker::skip`].
    pub fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let key = from.text()?.unwrap_or(b"");
        Ok(Self { key, flags: from.u32()?, value: from.value()? })
    }
}

impl<'a> Kval<'a> {
    /// Reads a pack operation of one value.
    ///
    /// # Errors
    ///
    /// [`Malformed`], as for [`Unpacker::skip`].
    pub fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        from.one(Type::KVAL)?;
        let key = from.text()?.unwrap_or(b"");
        Ok(Self { key, value: from.value()? })
    }

    /// Writes a pack operation of one value, in the format of the packer.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for a value that cannot be written in another format.
    pub fn write(&self, to: &mut Packer<'_>) -> Result<(), Malformed> {
        to.one(Type::KVAL).text(Some(self.key)).of(self.value.of);
        self.value.write(to)
    }
}

impl Value<'_> {
    /// Writes the value without its type, in the format of the packer.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for a value that cannot be written in another format.
    pub fn write(&self, to: &mut Packer<'_>) -> Result<(), Malformed> {
        if self.format == to.format() {
            to.raw(self.bytes);
            return Ok(());
        }
        Unpacker::new(self.bytes, self.format).copy(self.of, to)
    }
}

impl<'a> List<'a> {
    /// Reads a counted list.
    ///
    /// Wire: SIZE, then, if it is not 0, one pack operation of all values.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(from: &mut Unpacker<'a>, of: Type) -> Result<Self, Malformed> {
        let count = from.one(Type::SIZE)?.size()?;
        let format = from.format();
        if count == 0 {
            return Ok(Self { of, count: 0, bytes: b"", format });
        }
        if u64::from(from.op(of)?) != count {
            return Err(from.malformed("as many values as were counted"));
        }
        let start = from.at();
        for _ in 0..count {
            from.skip(of)?;
        }
        let count = u32::try_from(count).map_err(|_| from.malformed("fewer values"))?;
        Ok(Self { of, count, bytes: from.since(start), format })
    }

    /// Writes a counted list, in the format of the packer.
    ///
    /// Wire: as for [`read`](Self::read).
    pub fn write(&self, to: &mut Packer<'_>) {
        to.one(Type::SIZE).size(u64::from(self.count));
        if self.count == 0 {
            return;
        }
        to.op(self.of, self.count);
        if self.format == to.format() {
            to.raw(self.bytes);
            return;
        }
        let mut from = Unpacker::new(self.bytes, self.format);
        for _ in 0..self.count {
            // Infallible: each was read as such a value.
            let _ = from.copy(self.of, to);
        }
    }

    /// True if the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The processes, if it is a list of processes.
    pub fn procs(&self) -> impl Iterator<Item = Proc<'a>> + use<'a> {
        self.each(Type::PROC, Proc::read)
    }

    /// The infos, if it is a list of infos.
    pub fn infos(&self) -> impl Iterator<Item = Info<'a>> + use<'a> {
        self.each(Type::INFO, Info::read)
    }

    /// The status codes, if it is a list of status codes.
    pub fn codes(&self) -> impl Iterator<Item = i32> + use<'a> {
        self.each(Type::STATUS, Unpacker::i32)
    }

    /// The value of the first info with this key.
    pub fn find(&self, key: &[u8]) -> Option<Value<'a>> {
        self.infos().find(|info| info.key == key).map(|info| info.value)
    }

    /// True if a directive of this name is enabled.
    pub fn is_set(&self, key: &[u8]) -> bool {
        self.find(key).is_some_and(|value| value.is_true())
    }

    /// The values in turn, read by `read`; none if they have another type.
    pub fn each<T, R>(&self, of: Type, read: R) -> impl Iterator<Item = T> + use<'a, T, R>
    where
        R: Fn(&mut Unpacker<'a>) -> Result<T, Malformed>,
    {
        let mut from = Unpacker::new(self.bytes, self.format);
        let count = if self.of == of { self.count } else { 0 };
        (0..count).map_while(move |_| read(&mut from).ok())
    }
}

impl<'a> Kvals<'a> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'a [u8], format: Format) -> Self {
        Self { from: Unpacker::new(bytes, format), is_over: false }
    }

    /// Starts at the position of another reader.
    pub const fn after(from: Unpacker<'a>) -> Self {
        Self { from, is_over: false }
    }

    /// Unread rest: after a value of an unknown type, all behind it.
    pub fn rest(&self) -> &'a [u8] {
        self.from.rest()
    }

    /// The value of this key.
    pub fn find(self, key: &[u8]) -> Option<Value<'a>> {
        self.map_while(Result::ok).find(|kval| kval.key == key).map(|kval| kval.value)
    }
}

/// Ends after the first error.
impl<'a> Iterator for Kvals<'a> {
    type Item = Result<Kval<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over || self.from.is_empty() {
            return None;
        }
        let mut ahead = self.from;
        let read = Kval::read(&mut ahead);
        match read {
            Ok(_) => self.from = ahead,
            Err(_) => self.is_over = true,
        }
        Some(read)
    }
}

impl<'a> Scopes<'a> {
    /// Starts at the position of another reader.
    pub const fn after(from: Unpacker<'a>) -> Self {
        Self { from }
    }

    fn read(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let scope = self.from.one(Type::SCOPE)?.u8()?;
        let from = self.from.one(Type::BUFFER)?;
        if from.u8()? != from.format().buffer() {
            return Err(from.malformed("a buffer of the type that was agreed on"));
        }
        Ok((scope, from.blob()?))
    }
}

/// The number of a scope and the values that were put in it. Ends after the first error.
impl<'a> Iterator for Scopes<'a> {
    type Item = Result<(u8, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.from.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.from = Unpacker::new(b"", self.from.format());
        }
        Some(read)
    }
}
