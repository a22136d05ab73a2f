//! A published event: its content, its range, and the cache.

use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::storage::{EventsOf, NamespacesOf};
use super::{PmixStorage, namespace};
use crate::ids::{ProcId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::names::{Command, Status, keys, range};
use crate::wire::pmix::{Format, List, Packer, Proc, Type, WILDCARD};

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

/// Notification of clients by the owner of a [`Pmix`](super::Pmix).
#[derive(Clone, Copy, Debug)]
pub struct Notification<'a> {
    /// Event code.
    pub code: Status,
    /// The process concerned, or the server itself.
    pub source: Proc<'a>,
    /// Range of the event; see [`range`].
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

    /// True if a process is in a range.
    pub(super) fn reaches<S: Storage>(
        &self,
        range: Option<u8>,
        peer: Option<ProcId>,
        server: &Server<S>,
    ) -> bool {
        let (Some(range), Some(ProcId { job, rank })) = (range, peer) else { return false };
        let node = |ProcId { job, rank }: ProcId| Some(server.job(job)?.member(rank)?.node);
        match range {
            // Ranges for process managers only.
            range::RM | range::PROC_LOCAL => false,
            range::LOCAL => {
                self.source.is_none_or(|source| node(source) == node(ProcId { job, rank }))
            }
            range::NAMESPACE => self.source.is_some_and(|of| of.job == job),
            range::CUSTOM => {
                let name = server.job(job).map(|job| job.name().as_bytes());
                let is_it = |proc: Proc<'_>| {
                    Some(proc.nspace) == name && (proc.rank == WILDCARD || proc.rank == rank.0)
                };
                procs(&self.list(), keys::EVENT_CUSTOM_RANGE).any(is_it)
            }
            _ => true,
        }
    }

    /// Writes the notification of the event.
    pub(super) fn write(&self, to: &mut Packer<'_>) {
        to.one(Type::COMMAND).u8(Command::NOTIFY.0).one(Type::STATUS).i32(self.code);
        Proc { nspace: self.nspace.as_ref(), rank: self.rank }.write(to.one(Type::PROC));
        self.list().write(to);
        to.one(Type::DATA_RANGE).u8(self.range);
    }
}

/// Caches an event of the server itself, and returns its place.
pub(super) fn cache_notification<P: PmixStorage, S: Storage>(
    events: &mut EventsOf<P>,
    jobs: &NamespacesOf<P>,
    server: &Server<S>,
    notification: &Notification<'_>,
    write: impl Fn(&mut Packer<'_>),
) -> Option<usize> {
    let job = namespace::named(jobs, server, notification.source.nspace);
    let mut event = CachedEvent {
        code: notification.code.0,
        nspace: copy_bytes(notification.source.nspace)?,
        rank: notification.source.rank,
        source: job.map(|job| ProcId { job, rank: Rank(notification.source.rank) }),
        range: notification.range,
        later: notification.later,
        is_non_default: false,
        infos: pack(Format::PLAIN, write)?,
        count: notification.infos,
        format: Format::PLAIN,
        serial: 0,
    };
    event.is_non_default = event.list().is_set(keys::EVENT_NON_DEFAULT);
    cache_event::<P>(events, event)
}

/// Caches an event, in place of the oldest if the cache is full.
pub(super) fn cache_event<P: PmixStorage>(
    events: &mut EventsOf<P>,
    event: CachedEvent<P::Bytes>,
) -> Option<usize> {
    let serials = |events: &EventsOf<P>| {
        let kept = (0..events.end()).filter_map(|at| Some((events.get(at)?.serial, at)));
        kept.fold(
            (0, None, 0),
            |(count, oldest, latest): (usize, Option<(u64, usize)>, u64), one| {
                let oldest = oldest.map_or(one, |oldest| oldest.min(one));
                (count + 1, Some(oldest), latest.max(one.0))
            },
        )
    };
    let (count, oldest, latest) = serials(events);
    if let Some((_, at)) = oldest.filter(|_| count >= events.capacity().min(CACHED_MAX)) {
        events.remove(at);
    }
    events.insert(CachedEvent { serial: latest + 1, ..event })
}

/// Processes that an event affects, or that a registration is restricted to.
pub(super) fn affected<'a>(infos: &List<'a>) -> impl Iterator<Item = Proc<'a>> {
    procs(infos, keys::EVENT_AFFECTED_PROC).chain(procs(infos, keys::EVENT_AFFECTED_PROCS))
}

/// Processes under a key: one, or an array.
fn procs<'a>(infos: &List<'a>, key: &[u8]) -> impl Iterator<Item = Proc<'a>> + use<'a> {
    let value = infos.find(key);
    let one = value.and_then(|value| value.proc());
    let many = value.and_then(|value| value.array()).map(|array| array.procs());
    one.into_iter().chain(many.into_iter().flatten())
}

/// Upper bound of the number of cached events.
pub(super) const CACHED_MAX: usize = 512;
