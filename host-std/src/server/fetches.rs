//! Direct modex over nodes: committed data of single ranks, fetched from their nodes through the head.

use super::event::ServerEvent;
use super::nodes::{block, explain};
use super::service::Service;
use crate::operation::{FetchAnswer, FetchMessage, OperationRequest};
use pmi_core::ids::{JobId, ProcId, Rank, SessionId};
use pmi_core::server::pmix::{ModexAnswer, ModexRequest};
use pmi_core::store::BlockRecord;
use std::collections::BTreeSet;

/// Requests for data of ranks on other nodes, and those of other nodes.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// Requests of this node without an answer. Ranks that want the same send one.
    sent: BTreeSet<FetchMessage>,
    /// Requests of other nodes for data that is not committed, with the numbers of these nodes.
    waiting: Vec<(u32, FetchMessage)>,
    /// Numbers of nodes, and jobs: all data of this node was sent there.
    prefetched: BTreeSet<(u32, u32)>,
}

/// The request for the data that a get waits for, and the session goes on; `None` if it was sent already, or
/// if too many have no answer: then the get waits for a fence.
pub(super) fn take_request(service: &mut Service, id: SessionId) -> Option<OperationRequest> {
    let request = service.server.pmix_ref().modex_request(id).map(FetchMessage::from);
    service.server.pmix().request_read(id);
    let sent = &mut service.pmix.fetches.sent;
    let request = request.filter(|request| sent.len() < SENT_MAX && !sent.contains(request))?;
    sent.insert(request.clone());
    Some(OperationRequest::Fetch(request))
}

/// Handles the request of another node. Returns the answer, if the data is there or will never be.
pub(crate) fn handle_request(
    service: &mut Service,
    node: u32,
    request: FetchMessage,
) -> Option<OperationRequest> {
    let data = match look_up(service, &request) {
        Some(data) => data.map(|record| with_prefetched(service, node, &request, record)),
        None if service.pmix.fetches.waiting.len() < WAITING_MAX => {
            service.pmix.fetches.waiting.push((node, request));
            return None;
        }
        None => None,
    };
    Some(OperationRequest::Fetched(FetchAnswer { nodes: vec![node], request, data }))
}

/// Appends the committed data of the other ranks of the job on this node to the first answer to a node: a
/// process that reads the data of one of them often reads that of all.
fn with_prefetched(
    service: &mut Service,
    node: u32,
    request: &FetchMessage,
    mut answer: Vec<u8>,
) -> Vec<u8> {
    if service.pmix.fetches.prefetched.insert((node, request.job)) {
        let mut room = PREFETCHED_BYTES.saturating_sub(answer.len());
        let mut pmix = service.server.pmix();
        let others = pmix.committed_by_all(JobId(request.job)).filter(|record| match record {
            BlockRecord::Modex { writer, .. } => writer.0 != request.rank,
            BlockRecord::Pair { .. } => false,
        });
        answer.extend(block(others.take_while(|record| {
            let left = room.checked_sub(record.len_bytes());
            room = left.unwrap_or(0);
            left.is_some()
        })));
    }
    answer
}

/// Answers the waiting requests of other nodes for data of a rank, which has committed more or is gone.
pub(super) fn answer_waiting(service: &mut Service, job: JobId, rank: Rank) {
    let is_its = |request: &FetchMessage| (request.job, request.rank) == (job.0, rank.0);
    let (mut asked, others) = std::mem::take(&mut service.pmix.fetches.waiting)
        .into_iter()
        .partition::<Vec<_>, _>(|(_, request)| is_its(request));
    service.pmix.fetches.waiting = others;
    // Nodes with the same request get the same data.
    asked.sort_by(|(_, one), (_, other)| one.cmp(other));
    for equal in asked.chunk_by(|(_, one), (_, other)| one == other) {
        let Some((_, request)) = equal.first() else { continue };
        match look_up(service, request) {
            Some(data) => {
                let nodes = equal.iter().map(|(node, _)| *node).collect();
                let answer = FetchAnswer { nodes, request: request.clone(), data };
                let request = OperationRequest::Fetched(answer);
                service.launcher_events.push_back(ServerEvent::Operation(Ok(request)));
            }
            None => service.pmix.fetches.waiting.extend_from_slice(equal),
        }
    }
}

/// The record of the requested data, `Some(None)` if it will never be there, `None` if it may come. Data
/// that is too large for a message comes with a fence (`FenceRule::keeps`).
fn look_up(service: &mut Service, request: &FetchMessage) -> Option<Option<Vec<u8>>> {
    match service.server.pmix().committed(request.into()) {
        ModexAnswer::Found(record) if record.len_bytes() > RECORD_BYTES => None,
        ModexAnswer::Found(record) => Some(Some(block(std::iter::once(record)))),
        ModexAnswer::NotFound => Some(None),
        ModexAnswer::Wait => None,
    }
}

/// Handles the answer of another node.
///
/// # Errors
///
/// The reason for which it cannot be added, as a part of a sentence.
pub(super) fn handle_answer(
    service: &mut Service,
    request: &FetchMessage,
    data: Option<&[u8]>,
) -> Result<(), String> {
    service.pmix.fetches.sent.remove(request);
    let ModexRequest { proc, key } = request.into();
    let mut server = service.server.pmix();
    match data {
        Some(data) => server.add_fetched(proc.job, data).map_err(|error| explain(&error)),
        None => {
            server.fail_fetches(proc, |of| of == key);
            Ok(())
        }
    }
}

/// Fails the requests for data of a rank on another node, which has failed.
pub(crate) fn fail(service: &mut Service, job: JobId, rank: u32) {
    let is_its = |request: &FetchMessage| (request.job, request.rank) == (job.0, rank);
    if service.pmix.fetches.sent.iter().any(is_its) {
        service.pmix.fetches.sent.retain(|request| !is_its(request));
        service.server.pmix().fail_fetches(ProcId { job, rank: Rank(rank) }, |_| true);
    }
}

impl From<ModexRequest<'_>> for FetchMessage {
    fn from(request: ModexRequest<'_>) -> Self {
        let ModexRequest { proc, key } = request;
        Self { job: proc.job.0, rank: proc.rank.0, key: key.map(<[u8]>::to_vec) }
    }
}

impl<'a> From<&'a FetchMessage> for ModexRequest<'a> {
    fn from(message: &'a FetchMessage) -> Self {
        let proc = ProcId { job: JobId(message.job), rank: Rank(message.rank) };
        Self { proc, key: message.key.as_deref() }
    }
}

/// Bytes of an answer with data that was not requested, at most. They take about as long as a request.
const PREFETCHED_BYTES: usize = 64 << 10;

/// Bytes of a record that is fetched, at most. A message of the tree has up to 16 MiB.
pub(super) const RECORD_BYTES: usize = 15 << 20;

/// Requests of a node without an answer, at most.
const SENT_MAX: usize = 1 << 14;

/// Requests of other nodes that wait at one node, at most; further ones find nothing.
const WAITING_MAX: usize = 1 << 16;
