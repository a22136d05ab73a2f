//! A published event: its content, its range, and the cache.

use super::shared_bytes::SharedBytes;
use crate::ids::ProcId;
use crate::wire::pmix::names::{Command, Status, keys};
use crate::wire::pmix::{Format, List, Packer, Proc, Type};

/// A published event, cached for processes that register later.
#[derive(Clone, Debug)]
pub struct CachedEvent<B> {
    pub(super) code: i32,
    /// The namespace of the source, which may be gone before the event is.
    pub(super) nspace: B,
    pub(super) rank: u32,
    /// The source, if it is a process.
    pub(super) source: Option<ProcId>,
    pub(super) range: u8,
    /// Range for processes that register later; `None` disables caching for them.
    pub(super) later: Option<u8>,
    /// True if handlers of all codes do not receive it.
    pub(super) is_non_default: bool,
    /// Infos of the event, as packed by its source.
    pub(super) infos: B,
    pub(super) count: u32,
    pub(super) format: Format,
    /// Serial number, by which the oldest event is found.
    pub(super) serial: u64,
}

/// Notification of clients by the owner of a [`Server`](crate::server::Server).
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    /// Event code.
    pub code: Status,
    /// The process concerned, or the server itself.
    pub source: Proc<'a>,
    /// Range of the event; see [`names::range`](crate::wire::pmix::names::range).
    pub range: u8,
    /// Range for processes that register later; `None` disables caching for them.
    pub later: Option<u8>,
    /// Number of infos.
    pub infos: u32,
}

impl<B: SharedBytes> CachedEvent<B> {
    pub(super) fn list(&self) -> List<'_> {
        let (count, bytes) = (self.count, self.infos.as_ref());
        List { of: Type::INFO, count, bytes, format: self.format }
    }

    /// Writes the notification of the event.
    pub(super) fn write(&self, to: &mut Packer<'_>) {
        to.one(Type::COMMAND).u8(Command::NOTIFY.0).one(Type::STATUS).i32(self.code);
        Proc { nspace: self.nspace.as_ref(), rank: self.rank }.write(to.one(Type::PROC));
        self.list().write(to);
        to.one(Type::DATA_RANGE).u8(self.range);
    }
}

/// Processes that an event affects, or that a registration is restricted to.
pub(super) fn affected<'a>(infos: &List<'a>) -> impl Iterator<Item = Proc<'a>> {
    procs(infos, keys::EVENT_AFFECTED_PROC).chain(procs(infos, keys::EVENT_AFFECTED_PROCS))
}

/// Processes under a key: one, or an array.
pub(super) fn procs<'a>(infos: &List<'a>, key: &[u8]) -> impl Iterator<Item = Proc<'a>> + use<'a> {
    let value = infos.find(key);
    let one = value.and_then(|value| value.proc());
    let many = value.and_then(|value| value.array()).map(|array| array.procs());
    one.into_iter().chain(many.into_iter().flatten())
}

/// Upper bound of the number of cached events.
pub(super) const CACHED_MAX: usize = 512;
