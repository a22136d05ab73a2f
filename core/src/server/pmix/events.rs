//! Events: registrations, the cache, and deliveries.
//!
//! The latest events are cached for sessions that register later. A session without free
//! places also receives its events from the cache, as soon as places become free. Sessions that
//! read slowly, or never, are thereby bounded by the size of the cache and by the number of
//! notifications pending at once; events that have dropped out of the cache by then are lost.

use super::context::PmixServer;
use super::event_cache::{
    CACHED_MAX, CachedEvent, EventRegistration, Notification, REGISTRATIONS_MAX, affected, procs,
};
use super::procs::ListedProc;
use super::session::{PendingRequest, PmixPeerState, PmixResponse};
use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::tables::{BytesOf, PmixSessionStateOf, PmixShared, PmixStorage};
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::Storage;
use crate::server::session::{SessionPhase, SessionState};
use crate::server::session_table::READY;
use crate::server::shared::Shared;
use crate::storage::Slots;
use crate::wire::pmix::header::TAG_EVENT;
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::{Format, List, Packer, Proc};

impl<S: Storage> Shared<S> {
    /// Registers these codes; all codes, if there are none.
    pub(super) fn register(
        &self,
        state: &mut PmixSessionStateOf<S::Pmix>,
        codes: &List<'_>,
        infos: &List<'_>,
    ) -> Status {
        let mut fresh: heapless::Vec<EventRegistration, REGISTRATIONS_MAX> = heapless::Vec::new();
        let all = codes.is_empty().then_some(None);
        // Without a list, events of all processes; a job that does not exist has none.
        let any = affected(infos).next().is_none().then_some(None);
        for code in all.into_iter().chain(codes.codes().map(Some)) {
            let known = affected(infos).filter_map(|proc| {
                Some(ListedProc { job: self.named(proc.nspace)?, rank: proc.rank })
            });
            for about in any.into_iter().chain(known.map(Some)) {
                let registration = EventRegistration { code, about };
                let is_known = state.protocol.registrations.codes.contains(&registration)
                    || fresh.contains(&registration);
                let room = REGISTRATIONS_MAX - state.protocol.registrations.codes.len();
                if !is_known && (fresh.len() >= room || fresh.push(registration).is_err()) {
                    return Status::OUT_OF_RESOURCE;
                }
            }
        }
        // An event outside the former registrations is not delivered later, unless its cached range
        // allows it.
        for at in 0..self.pmix.events.end() {
            let Some(event) = self.pmix.events.get(at) else { continue };
            let is_late = !self.is_subscribed(state, event);
            if is_late && !self.reaches(event, event.later, state.protocol.peer) {
                state.protocol.registrations.set_delivered(at, true);
            }
        }
        // There is room for all of them.
        let added = state.protocol.registrations.codes.extend_from_slice(&fresh);
        debug_assert!(added.is_ok());
        Status::SUCCESS
    }

    /// Caches an event of a client, and returns its place.
    pub(super) fn notify(
        &mut self,
        format: Format,
        source: ProcId,
        code: i32,
        range: u8,
        infos: &List<'_>,
    ) -> Result<usize, Status> {
        let has_targets = infos.find(keys::EVENT_CUSTOM_RANGE).is_some();
        if (range == range::CUSTOM) != has_targets {
            return Err(Status::BAD_PARAM);
        }
        if infos.bytes.len() > EVENT_BYTES_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        self.handle_group_event(source, code, infos)?;
        let job = self.job(source.job).ok_or(Status::NOT_FOUND)?;
        let kept = copy_bytes(job.name().as_bytes()).zip(copy_bytes(infos.bytes));
        let (nspace, bytes) = kept.ok_or(Status::NOMEM)?;
        let event = CachedEvent {
            code,
            nspace,
            rank: source.rank.0,
            source: Some(source),
            range,
            later: (!infos.is_set(keys::EVENT_DO_NOT_CACHE)).then_some(range),
            is_non_default: infos.is_set(keys::EVENT_NON_DEFAULT),
            infos: bytes,
            count: infos.count,
            format,
            serial: 0,
        };
        self.pmix.cache(event).ok_or(Status::OUT_OF_RESOURCE)
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Notifies clients of an event of the owner. `write` packs the infos, each as it stands inside
    /// other values.
    pub fn notify_clients(
        &mut self,
        notification: &Notification<'_>,
        write: impl Fn(&mut Packer<'_>),
    ) {
        let event = self.shared.cached(notification, write);
        if let Some(at) = event.and_then(|event| self.shared.pmix.cache(event)) {
            self.deliver(at, None);
        }
    }

    /// Delivers a new event to the registered sessions in its range, except its source.
    pub(super) fn deliver(&mut self, at: usize, from: Option<SessionId>) {
        let shared = &*self.shared;
        let Some(event) = shared.pmix.events.get(at) else { return };
        let mut constructed = heapless::Vec::new();
        let mut is_waited_for = false;
        for id in self.sessions.pmix_ids() {
            let Some(state) = self.sessions.state_mut(id) else { continue };
            let is_own = from == Some(id);
            let is_for_it = !is_own && shared.is_subscribed(state, event);
            state
                .protocol
                .registrations
                .set_delivered(at, is_own || (event.later.is_none() && !is_for_it));
            if !is_for_it {
                continue;
            }
            if state.protocol.registrations.is_behind
                || !state.deliver_event(at, event, &mut constructed)
            {
                state.protocol.registrations.is_behind = true;
                is_waited_for = true;
            } else {
                self.sessions.push(READY, id);
            }
        }
        if event.later.is_none() && !is_waited_for {
            self.shared.pmix.events.remove(at);
        }
    }

    /// Delivers cached events to a session as far as it has free places.
    pub(super) fn deliver_cached(&mut self, id: SessionId) {
        let shared = &*self.shared;
        let events = &shared.pmix.events;
        let Some(state) = self.sessions.state_mut(id) else { return };
        let mut has_delivered = false;
        state.protocol.registrations.is_behind = loop {
            let kept = (0..events.end()).filter_map(|at| Some((at, events.get(at)?)));
            let left = kept.filter(|(at, event)| {
                !state.protocol.registrations.is_delivered(*at)
                    && shared.is_subscribed(state, event)
            });
            match left.min_by_key(|(_, event)| event.serial) {
                None => break false,
                Some((at, event)) if state.deliver_event(at, event, &mut heapless::Vec::new()) => {
                    has_delivered = true;
                }
                Some(_) => break true,
            }
        };
        if has_delivered {
            self.sessions.push(READY, id);
        }
    }

    /// Removes the events of processes of a job, and the registrations restricted to it.
    pub(super) fn remove_events(&mut self, job: JobId) {
        let events = &mut self.shared.pmix.events;
        for at in 0..events.end() {
            let is_its = |event: &CachedEvent<_>| event.source.is_some_and(|of| of.job == job);
            if events.get(at).is_some_and(is_its) {
                events.remove(at);
            }
        }
        for id in self.sessions.pmix_ids() {
            if let Some(state) = self.sessions.state_mut(id) {
                let is_about = |about: ListedProc| about.job == job;
                state.protocol.registrations.codes.retain(|one| !one.about.is_some_and(is_about));
            }
        }
    }
}

impl<P: PmixStorage> PmixShared<P> {
    /// Caches an event, in place of the oldest if the cache is full, and returns its place.
    pub(super) fn cache(&mut self, event: CachedEvent<P::Bytes>) -> Option<usize> {
        let events = &mut self.events;
        let serials = || (0..events.end()).filter_map(|at| Some((events.get(at)?.serial, at)));
        let (count, latest) = (serials().count(), serials().map(|(serial, _)| serial).max());
        let oldest = serials().min().filter(|_| count >= events.capacity().min(CACHED_MAX));
        if let Some((_, at)) = oldest {
            events.remove(at);
        }
        events.insert(CachedEvent { serial: latest.unwrap_or(0) + 1, ..event })
    }
}

impl<S: Storage> Shared<S> {
    /// The event of a notification by the server; `None` without memory for it.
    pub(super) fn cached(
        &self,
        notification: &Notification<'_>,
        write: impl Fn(&mut Packer<'_>),
    ) -> Option<CachedEvent<BytesOf<S>>> {
        let Proc { nspace, rank } = notification.source;
        let source = self.named(nspace).map(|job| ProcId { job, rank: Rank(rank) });
        let mut event = CachedEvent {
            code: notification.code.0,
            nspace: copy_bytes(nspace)?,
            rank,
            source,
            range: notification.range,
            later: notification.later,
            is_non_default: false,
            infos: pack(Format::PLAIN, write)?,
            count: notification.infos,
            format: Format::PLAIN,
            serial: 0,
        };
        event.is_non_default = event.list().is_set(keys::EVENT_NON_DEFAULT);
        Some(event)
    }

    /// True if the range of an event includes processes on other nodes.
    pub(super) fn is_for_other_nodes(&self, source: ProcId, range: u8, infos: &List<'_>) -> bool {
        match range {
            range::RM | range::PROC_LOCAL | range::LOCAL => false,
            range::CUSTOM => procs(infos, keys::EVENT_CUSTOM_RANGE)
                .filter_map(|proc| self.listed_proc(proc))
                .any(|listed| self.has_remote(listed)),
            range::NAMESPACE => self.is_served_by_head(source.job),
            _ => self.is_served_by_head(source.job) || self.is_of_head(source),
        }
    }

    /// True for a tool of the head of a run on several nodes: its job is no part of the run.
    fn is_of_head(&self, source: ProcId) -> bool {
        let is_tool = self.pmix.namespace(source.job).is_some_and(|namespace| namespace.is_tool);
        is_tool && self.ids().any(|job| self.is_served_by_head(job))
    }

    /// True if an event matches a registration of a session, and its range includes this.
    fn is_subscribed(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        event: &CachedEvent<BytesOf<S>>,
    ) -> bool {
        state.lifecycle.phase == SessionPhase::Open
            && state
                .protocol
                .registrations
                .codes
                .iter()
                .any(|registration| self.matches(registration, state.protocol.peer, event))
            && self.reaches(event, Some(event.range), state.protocol.peer)
    }

    fn matches(
        &self,
        registration: &EventRegistration,
        peer: Option<ProcId>,
        event: &CachedEvent<BytesOf<S>>,
    ) -> bool {
        let is_code = match registration.code {
            Some(code) => code == event.code,
            None => !event.is_non_default,
        };
        let is_about = |about: ListedProc| {
            let list = event.list();
            let mut procs = affected(&list).peekable();
            // Without affected processes the clients filter by themselves.
            procs.peek().is_none()
                || self.job(about.job).is_some_and(|job| {
                    let about = Proc { nspace: job.name().as_bytes(), rank: about.rank };
                    procs.any(|proc| self.have_common([(about, peer), (proc, event.source)]))
                })
        };
        is_code && registration.about.is_none_or(is_about)
    }

    /// True if a process is in a range of an event.
    fn reaches(
        &self,
        event: &CachedEvent<BytesOf<S>>,
        range: Option<u8>,
        peer: Option<ProcId>,
    ) -> bool {
        let (Some(range), Some(peer)) = (range, peer) else { return false };
        match range {
            // Ranges for process managers only.
            range::RM | range::PROC_LOCAL => false,
            range::LOCAL => event.source.is_none_or(|source| self.node(source) == self.node(peer)),
            range::NAMESPACE => event.source.is_some_and(|of| of.job == peer.job),
            range::CUSTOM => procs(&event.list(), keys::EVENT_CUSTOM_RANGE)
                .any(|proc| self.stands_for(proc, event.source, peer)),
            _ => true,
        }
    }
}

impl<B: SharedBytes, X: Slots<PendingRequest<B>>> SessionState<X, PmixPeerState<B>> {
    /// Delivers the event at this place of the cache if the session has a free one. Bodies packed for
    /// other sessions are shared.
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
        self.protocol.registrations.set_delivered(at, true);
        let known = constructed.iter().find(|(format, _)| *format == self.protocol.format);
        let body = match known {
            Some((_, body)) => Some(body.clone()),
            None => pack(self.protocol.format, |to| event.write(to)),
        };
        // Without memory for it the event is not delivered.
        if let Some(body) = body {
            let _ = constructed.push((self.protocol.format, body.clone()));
            self.push_response(TAG_EVENT, PmixResponse::Body(body));
        }
        true
    }
}

/// Upper bound of the infos of one event. All known events are far shorter.
const EVENT_BYTES_MAX: usize = 64 << 10;

/// Upper bound of pending events of one session; the others wait in the cache.
const DELIVERED_AT_ONCE: usize = 8;

/// Two families, described or not.
const FORMATS: usize = 4;
