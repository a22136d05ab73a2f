//! Events: registrations, the cache, and deliveries.
//!
//! The latest events are cached for connections that register later. A connection without free
//! places also receives its events from the cache, as soon as places become free. Connections that
//! read slowly, or never, are thereby bounded by the size of the cache and by the number of
//! notifications pending at once; events that have dropped out of the cache by then are lost.

use super::cached_event::{
    CACHED_MAX, CachedEvent, Notification, affected, cache_event, cache_notification,
};
use super::connection::{ConnPhase, ConnState, Connection, PendingRequest, PmixResponse};
use super::namespace;
use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::state::PmixContext;
use super::storage::ConnStateOf;
use super::{ConnectionId, Pmix, PmixStorage, ready_link};
use crate::ids::{JobId, ProcId};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::header::TAG_EVENT;
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::request::EventCodes;
use crate::wire::pmix::{Format, List, Packer, WILDCARD};

/// Event registrations of one connection, and which cached events it has already received.
#[derive(Debug)]
pub(super) struct EventRegistrations {
    codes: heapless::Vec<EventRegistration, REGISTRATIONS_MAX>,
    /// One bit per place of the cache: set once the event was delivered or does not match.
    delivered: [u64; CACHED_MAX.div_ceil(u64::BITS as usize)],
    /// True if events are waiting for free places of the connection.
    pub(super) is_behind: bool,
}

/// One code that a connection registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventRegistration {
    /// Event code; `None` for all.
    code: Option<i32>,
    /// Restriction to events that affect this process, or any of this job.
    about: Option<(JobId, u32)>,
}

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// Registers these codes; all codes, if there are none.
    pub(super) fn register(
        &mut self,
        state: &mut ConnStateOf<P>,
        codes: &List<'_>,
        infos: &List<'_>,
    ) -> Status {
        let mut fresh: heapless::Vec<EventRegistration, REGISTRATIONS_MAX> = heapless::Vec::new();
        let all = codes.is_empty().then_some(None);
        for code in all.into_iter().chain(codes.codes().map(Some)) {
            let mut abouts = affected(infos).map(|proc| {
                // A job that does not exist gets an id above those of all jobs.
                let job = namespace::named(self.jobs, self.server, proc.nspace);
                Some((job.unwrap_or(JobId(u32::MAX)), proc.rank))
            });
            let first = abouts.next().unwrap_or(None);
            for about in core::iter::once(first).chain(abouts) {
                let registration = EventRegistration { code, about };
                let is_known = state.registrations.codes.contains(&registration)
                    || fresh.contains(&registration);
                let room = REGISTRATIONS_MAX - state.registrations.codes.len();
                if !is_known && (fresh.len() >= room || fresh.push(registration).is_err()) {
                    return Status::OUT_OF_RESOURCE;
                }
            }
        }
        // An event outside the former registrations is not delivered later, unless its cached range
        // allows it.
        for at in 0..self.events.end() {
            let Some(event) = self.events.get(at) else { continue };
            let is_late = !state.is_subscribed_to(event, self.server);
            if is_late && !event.reaches(event.later, state.peer, self.server) {
                state.registrations.set_delivered(at, true);
            }
        }
        // There is room for all of them.
        let _ = state.registrations.codes.extend_from_slice(&fresh);
        Status::SUCCESS
    }

    /// Caches an event of a client, and returns its place.
    pub(super) fn notify(
        &mut self,
        format: Format,
        ProcId { job, rank }: ProcId,
        (code, range): (i32, u8),
        infos: &List<'_>,
    ) -> Result<usize, Status> {
        let has_targets = infos.find(keys::EVENT_CUSTOM_RANGE).is_some();
        if (range == range::CUSTOM) != has_targets {
            return Err(Status::BAD_PARAM);
        }
        if infos.bytes.len() > EVENT_BYTES_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let name = self.server.job(job).map(|job| job.name().clone()).ok_or(Status::NOT_FOUND)?;
        let kept = copy_bytes(name.as_bytes()).zip(copy_bytes(infos.bytes));
        let (nspace, bytes) = kept.ok_or(Status::NOMEM)?;
        let event = CachedEvent {
            code,
            nspace,
            rank: rank.0,
            source: Some(ProcId { job, rank }),
            range,
            later: (!infos.is_set(keys::EVENT_DO_NOT_CACHE)).then_some(range),
            is_non_default: infos.is_set(keys::EVENT_NON_DEFAULT),
            infos: bytes,
            count: infos.count,
            format,
            serial: 0,
        };
        cache_event::<P>(self.events, event).ok_or(Status::OUT_OF_RESOURCE)
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Notifies clients of an event of the owner. `write` packs the infos, each as it stands inside
    /// other values.
    pub fn notify_clients<S: Storage>(
        &mut self,
        notification: &Notification<'_>,
        server: &Server<S>,
        write: impl Fn(&mut Packer<'_>),
    ) {
        if let Some(at) =
            cache_notification::<P, S>(&mut self.events, &self.jobs, server, notification, write)
        {
            self.deliver(at, None, server);
        }
    }

    /// Delivers a new event to the registered connections in its range, except its source.
    pub(super) fn deliver<S: Storage>(
        &mut self,
        at: usize,
        from: Option<ConnectionId>,
        server: &Server<S>,
    ) {
        let Some(event) = self.events.get(at) else { return };
        let mut constructed = heapless::Vec::new();
        let mut is_waited_for = false;
        for number in 0..self.connections.end() {
            let Some(Connection { state, .. }) = self.connections.get_mut(number) else { continue };
            let id = u32::try_from(number).unwrap_or(u32::MAX);
            let is_own = from.is_some_and(|from| from.0 == id);
            let is_for_it = !is_own && state.is_subscribed_to(event, server);
            state.registrations.set_delivered(at, is_own || (event.later.is_none() && !is_for_it));
            if !is_for_it {
                continue;
            }
            if state.registrations.is_behind || !state.deliver_event(at, event, &mut constructed) {
                state.registrations.is_behind = true;
                is_waited_for = true;
            } else {
                self.ready.push(&mut self.connections, id, ready_link::<P>);
            }
        }
        if event.later.is_none() && !is_waited_for {
            self.events.remove(at);
        }
    }

    /// Delivers cached events to a connection as far as it has free places.
    pub(super) fn deliver_cached<S: Storage>(&mut self, id: ConnectionId, server: &Server<S>) {
        let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) else {
            return;
        };
        let mut is_told_any = false;
        state.registrations.is_behind = loop {
            let kept = (0..self.events.end()).filter_map(|at| Some((at, self.events.get(at)?)));
            let mut untold = kept.filter(|(at, event)| {
                !state.registrations.is_delivered(*at) && state.is_subscribed_to(event, server)
            });
            let first = untold.next();
            let next = untold.fold(first, |oldest, other| {
                oldest.map(|oldest| if other.1.serial < oldest.1.serial { other } else { oldest })
            });
            match next {
                None => break false,
                Some((at, event)) if state.deliver_event(at, event, &mut heapless::Vec::new()) => {
                    is_told_any = true;
                }
                Some(_) => break true,
            }
        };
        if is_told_any {
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Removes the events of processes of a job, and the registrations restricted to it.
    pub(super) fn remove_events(&mut self, job: JobId) {
        for at in 0..self.events.end() {
            let is_its = |event: &CachedEvent<_>| event.source.is_some_and(|of| of.job == job);
            if self.events.get(at).is_some_and(is_its) {
                self.events.remove(at);
            }
        }
        for number in 0..self.connections.end() {
            if let Some(Connection { state, .. }) = self.connections.get_mut(number) {
                let is_about = |registration: &EventRegistration| {
                    registration.about.is_some_and(|(of, _)| of == job)
                };
                state.registrations.codes.retain(|registration| !is_about(registration));
            }
        }
    }
}

impl<B: SharedBytes, X: Slots<PendingRequest<B>>> ConnState<B, X> {
    /// True if the event matches a registration and its range includes the connection.
    fn is_subscribed_to<S: Storage>(&self, event: &CachedEvent<B>, server: &Server<S>) -> bool {
        self.phase == ConnPhase::Open
            && self
                .registrations
                .codes
                .iter()
                .any(|registration| registration.matches(event, server))
            && event.reaches(Some(event.range), self.peer, server)
    }

    /// Delivers the event `at` a place if a place of the connection is free. Messages `made` for
    /// other connections are shared.
    fn deliver_event(
        &mut self,
        at: usize,
        event: &CachedEvent<B>,
        constructed: &mut heapless::Vec<(Format, B), FORMATS>,
    ) -> bool {
        let response = self.pending_requests().count();
        let notification =
            self.pending_requests().filter(|(_, pending)| pending.tag == TAG_EVENT).count();
        // A place is left for the answer to a request.
        if notification >= DELIVERED_AT_ONCE || response + 1 >= self.pending.capacity() {
            return false;
        }
        self.registrations.set_delivered(at, true);
        let known = constructed.iter().find(|(format, _)| *format == self.format);
        let body = match known {
            Some((_, body)) => Some(body.clone()),
            None => pack(self.format, |to| event.write(to)),
        };
        // Without memory for it the event is not delivered.
        if let Some(body) = body {
            let _ = constructed.push((self.format, body.clone()));
            self.push_response(TAG_EVENT, PmixResponse::Body(body));
        }
        true
    }
}

impl EventRegistrations {
    pub(super) const fn new() -> Self {
        let effect = [0; CACHED_MAX.div_ceil(u64::BITS as usize)];
        Self { codes: heapless::Vec::new(), delivered: effect, is_behind: false }
    }

    /// Removes the registrations of these codes.
    pub(super) fn deregister(&mut self, codes: EventCodes<'_>) {
        for code in codes {
            let code = (code != DEFAULT_HANDLER).then_some(code);
            self.codes.retain(|registration| registration.code != code);
        }
    }

    fn is_delivered(&self, at: usize) -> bool {
        let (word, bit) = place(at);
        self.delivered.get(word).is_none_or(|word| word & bit != 0)
    }

    fn set_delivered(&mut self, at: usize, is_told: bool) {
        let (word, bit) = place(at);
        if let Some(word) = self.delivered.get_mut(word) {
            *word = if is_told { *word | bit } else { *word & !bit };
        }
    }
}

impl EventRegistration {
    fn matches<B: SharedBytes, S: Storage>(
        &self,
        event: &CachedEvent<B>,
        server: &Server<S>,
    ) -> bool {
        let is_code = match self.code {
            Some(code) => code == event.code,
            None => !event.is_non_default,
        };
        let is_about = |(job, rank): (JobId, u32)| {
            let list = event.list();
            let mut procs = affected(&list).peekable();
            // Without affected processes the clients filter by themselves.
            procs.peek().is_none()
                || procs.any(|proc| {
                    let name = server.job(job).map(|job| job.name().as_bytes());
                    let is_all = [rank, proc.rank].contains(&WILDCARD);
                    name == Some(proc.nspace) && (is_all || rank == proc.rank)
                })
        };
        is_code && self.about.is_none_or(is_about)
    }
}

const fn place(at: usize) -> (usize, u64) {
    (at / u64::BITS as usize, 1 << (at % u64::BITS as usize))
}

/// The code that stands for the handler of all codes.
const DEFAULT_HANDLER: i32 = i32::MIN;

/// Upper bound of the number of registrations of one peer, counted for each process of a
/// restriction.
const REGISTRATIONS_MAX: usize = 64;

/// Upper bound of the infos of one event. All known events are far shorter.
const EVENT_BYTES_MAX: usize = 64 << 10;

/// Upper bound of pending events of one connection; the others wait in the cache.
const DELIVERED_AT_ONCE: usize = 8;

/// Two families, described or not.
const FORMATS: usize = 4;
