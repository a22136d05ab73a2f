//! A published event in the cache, and the registrations of a session with what it has received of the cache.

use super::procs::ListedProc;
use super::shared_bytes::SharedBytes;
use crate::ids::ProcId;
use crate::wire::pmix::names::{Command, Status, keys};
use crate::wire::pmix::request::EventCodes;
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

/// Event registrations of one connection, and which cached events it has already received.
#[derive(Debug)]
pub(super) struct EventRegistrations {
    pub(super) codes: heapless::Vec<EventRegistration, REGISTRATIONS_MAX>,
    /// One bit per place of the cache: set once the event was delivered or does not match.
    delivered: [u64; CACHED_MAX.div_ceil(u64::BITS as usize)],
    /// True if events are waiting for free places of the connection.
    pub(super) is_behind: bool,
}

/// One code that a connection registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventRegistration {
    /// Event code; `None` for all.
    pub(super) code: Option<i32>,
    /// Restriction to events that affect this process, or any of this job.
    pub(super) about: Option<ListedProc>,
}

impl EventRegistrations {
    pub(super) const fn new() -> Self {
        let delivered = [0; CACHED_MAX.div_ceil(u64::BITS as usize)];
        Self { codes: heapless::Vec::new(), delivered, is_behind: false }
    }

    /// Removes the registrations of these codes.
    pub(super) fn deregister(&mut self, codes: EventCodes<'_>) {
        for code in codes {
            let code = (code != DEFAULT_HANDLER).then_some(code);
            self.codes.retain(|registration| registration.code != code);
        }
    }

    pub(super) fn is_delivered(&self, at: usize) -> bool {
        let (word, bit) = place(at);
        self.delivered.get(word).is_none_or(|word| word & bit != 0)
    }

    pub(super) fn set_delivered(&mut self, at: usize, is_delivered: bool) {
        let (word, bit) = place(at);
        if let Some(word) = self.delivered.get_mut(word) {
            *word = if is_delivered { *word | bit } else { *word & !bit };
        }
    }
}

const fn place(at: usize) -> (usize, u64) {
    (at / u64::BITS as usize, 1 << (at % u64::BITS as usize))
}

/// Upper bound of the number of cached events.
pub(super) const CACHED_MAX: usize = 512;

/// The code that stands for the handler of all codes.
const DEFAULT_HANDLER: i32 = i32::MIN;

/// Upper bound of the number of registrations of one peer, counted for each process of a
/// restriction.
pub(super) const REGISTRATIONS_MAX: usize = 64;
