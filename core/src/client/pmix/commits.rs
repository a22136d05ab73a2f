//! Values that were put and are not committed yet.

use super::KEY_BYTES_MAX;
use super::datum::Datum;
use super::queued_request::{append_packed, check_text};
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
        check_text(key)?;
        value.check(self.format)?;
        append_packed(&mut self.bytes, self.format, "value", |to| {
            to.u8(scope.number()).one(Type::KVAL).text(Some(key)).of(value.of());
            value.write(to);
        })
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
