//! Requests about published names that others have sent, nodes to the head or launchers to a name server, and
//! those lookups of PMIx clients among them that wait for a publication.

use super::pmix::heap::PmixHeap;
use crate::operation::NameAnswerMessage;
use pmi_core::ids::ProcId;
use pmi_core::server::pmix::{ForwardedRequest, NamesReply};
use pmi_core::server::{NameAnswer, NameRequest, Server};
use pmi_core::wire::pmix::Request;
use pmi_host_base::storage::Heap;
use pmi_host_os::clock;
use std::time::{Duration, Instant};

/// Server that holds the names.
pub(crate) type NamesHolder = Server<Heap<PmixHeap>>;

/// Lookups that wait. `O` identifies a request at its origin, which receives the answer.
#[derive(Debug)]
pub(crate) struct NameLookups<O> {
    waiting: Vec<WaitingLookup<O>>,
}

/// A lookup of a PMIx client that waits for a publication.
#[derive(Debug)]
struct WaitingLookup<O> {
    origin: O,
    request: ClientRequest,
    deadline: Option<Instant>,
}

/// A request of a PMIx client about published data.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    /// The process.
    pub(crate) peer: ProcId,
    /// Number of its node; those of `PMIX_RANGE_LOCAL` have it in common.
    pub(crate) node: u32,
    /// Number of its wire format.
    pub(crate) format: u8,
    /// Body of its message.
    pub(crate) body: Vec<u8>,
}

impl ClientRequest {
    fn execute(&self, server: &mut NamesHolder) -> NamesReply<impl AsRef<[u8]> + use<>> {
        server.pmix().serve_names(self.forwarded(), self.node)
    }

    /// True if a lookup may have waited for it.
    fn is_publication(&self) -> bool {
        matches!(self.forwarded().read(), Ok(Request::Publish { .. }))
    }

    fn forwarded(&self) -> ForwardedRequest<'_> {
        let Self { peer, format, body, .. } = self;
        ForwardedRequest { peer: *peer, format: *format, body }
    }
}

impl<O> Default for NameLookups<O> {
    fn default() -> Self {
        Self { waiting: Vec::new() }
    }
}

impl<O> NameLookups<O> {
    /// Executes a request of a PMIx client. Adds its answer to `answers`, unless it waits, and those that are
    /// due by it.
    pub(crate) fn serve(
        &mut self,
        server: &mut NamesHolder,
        (origin, request): (O, ClientRequest),
        answers: &mut Vec<(O, NameAnswerMessage)>,
    ) {
        let is_publication = request.is_publication();
        self.serve_one(server, WaitingLookup { origin, request, deadline: None }, answers);
        if is_publication {
            self.answer(server, answers);
        }
    }

    /// Answers waiting lookups as far as names are published for them, in the order of their arrival. Those
    /// whose time is over are left to [`take_expired`](Self::take_expired).
    pub(crate) fn answer(
        &mut self,
        server: &mut NamesHolder,
        answers: &mut Vec<(O, NameAnswerMessage)>,
    ) {
        let now = clock::now();
        for lookup in std::mem::take(&mut self.waiting) {
            match lookup.is_over(now) {
                true => self.waiting.push(lookup),
                false => self.serve_one(server, lookup, answers),
            }
        }
    }

    fn serve_one(
        &mut self,
        server: &mut NamesHolder,
        lookup: WaitingLookup<O>,
        answers: &mut Vec<(O, NameAnswerMessage)>,
    ) {
        match lookup.request.execute(server) {
            NamesReply::Answer(body) => {
                let body = body.map(|body| body.as_ref().to_vec()).unwrap_or_default();
                answers.push((lookup.origin, NameAnswerMessage::Pmix(body)));
            }
            NamesReply::Wait { seconds } => {
                let limit = seconds.map(Duration::from_secs);
                let until = limit.and_then(|limit| clock::now().checked_add(limit));
                let deadline = lookup.deadline.or(until);
                self.waiting.push(WaitingLookup { deadline, ..lookup });
            }
        }
    }

    /// Number of lookups that wait.
    pub(crate) const fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Time at which the first lookup has waited long enough.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|lookup| lookup.deadline).min()
    }

    /// Removes the lookups that have waited long enough.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<O> {
        self.extract(|lookup| lookup.is_over(now))
    }

    /// Removes the lookups of processes that have ended.
    pub(crate) fn take_of(&mut self, has_ended: impl Fn(ProcId) -> bool) -> Vec<O> {
        self.extract(|lookup| has_ended(lookup.request.peer))
    }

    fn extract(&mut self, is_meant: impl Fn(&WaitingLookup<O>) -> bool) -> Vec<O> {
        self.waiting.extract_if(.., |lookup| is_meant(lookup)).map(|lookup| lookup.origin).collect()
    }
}

impl<O> WaitingLookup<O> {
    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// Executes a request of a client of PMI-1 or PMI-2.
pub(crate) fn serve_pmi(
    server: &mut NamesHolder,
    by: ProcId,
    request: NameRequest<'_>,
) -> NameAnswerMessage {
    match server.serve_name(by, request) {
        NameAnswer::Done => NameAnswerMessage::Done,
        NameAnswer::Port(port) => NameAnswerMessage::Port(port.to_vec()),
        NameAnswer::Exists => NameAnswerMessage::Exists,
        NameAnswer::Unknown => NameAnswerMessage::Unknown,
        NameAnswer::NoRoom => NameAnswerMessage::NoRoom,
    }
}
