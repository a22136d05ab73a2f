//! Operations of ranks on several nodes: parts of this node, and results.

use super::nodes::block;
use super::service::Service;
use super::{changes, fetches, others};
use crate::operation::{
    Asker, EventMessage, ForwardedMessage, NameAnswerMessage, NameMessage, Operation,
    OperationKind, OperationPart, OperationReply, OperationRequest,
};
use pmi_core::command::{Request, Text};
use pmi_core::error::Malformed;
use pmi_core::ids::{JobId, ProcId, Rank, SessionId};
use pmi_core::server::NameAnswer;
use pmi_core::server::pmix::{CollectiveEnd, CollectiveKind, ForwardedRequest};
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Format, Packer, Request as PmixRequest};
use pmi_host_base::ranges::Ranks;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Part of this node in a collective of PMIx clients.
///
/// # Errors
///
/// The reason, as a part of a sentence.
pub(super) fn collective_part(
    service: &Service,
    number: u32,
) -> Result<OperationRequest, &'static str> {
    let server = service.server.pmix_ref();
    let part = server.collective_part(number).ok_or("there is no memory for its data")?;
    let kind = match part.kind {
        CollectiveKind::Fence => OperationKind::Fence,
        CollectiveKind::Connect => OperationKind::Connect,
        CollectiveKind::Disconnect => OperationKind::Disconnect,
        CollectiveKind::Construct => OperationKind::Construct,
        CollectiveKind::Bootstrap => OperationKind::Bootstrap,
        CollectiveKind::Destruct => OperationKind::Destruct,
    };
    let members = match kind {
        // Its leaders name them, in the data.
        OperationKind::Bootstrap => Vec::new(),
        _ => by_job(server.collective_procs(number)),
    };
    let operation = Operation { kind, name: part.name.map(<[u8]>::to_vec), members };
    let data = part.data.as_ref().to_vec();
    Ok(OperationRequest::Part(OperationPart {
        number,
        operation,
        is_partial: part.is_partial,
        data,
    }))
}

fn by_job(procs: impl Iterator<Item = ProcId>) -> Vec<(u32, Ranks)> {
    let all: BTreeSet<(u32, u32)> = procs.map(|proc| (proc.job.0, proc.rank.0)).collect();
    let mut jobs: Vec<(u32, Ranks)> = Vec::new();
    for (job, rank) in all {
        match jobs.last_mut().filter(|(last, _)| *last == job) {
            Some((_, ranks)) => ranks.push(rank),
            None => jobs.push((job, [rank].into_iter().collect())),
        }
    }
    jobs
}

/// Part of this node in a fence of a group.
pub(super) fn group_part(
    service: &Service,
    id: JobId,
    (number, tag): (u32, u32),
) -> OperationRequest {
    let ranks = service.server.group_ranks(id, number);
    let members = by_job(ranks.map(|rank| ProcId { job: id, rank: Rank(rank) }));
    let data = block(service.server.group_puts(id, number));
    let operation = Operation { kind: OperationKind::GroupFence(tag), name: None, members };
    OperationRequest::Part(OperationPart { number, operation, is_partial: false, data })
}

/// Part of this node in a ring.
pub(super) fn ring_part(service: &Service, id: JobId, number: u32) -> OperationRequest {
    let size = service.server.job(id).map_or(0, |job| job.size());
    let members = vec![(id.0, (0..size).collect())];
    let data = block(service.server.ring_values(id));
    let operation = Operation { kind: OperationKind::Ring, name: None, members };
    OperationRequest::Part(OperationPart { number, operation, is_partial: false, data })
}

/// The request of a session that all nodes handle; the session goes on.
pub(super) fn take_forwarded(service: &mut Service, id: SessionId) -> Option<OperationRequest> {
    let server = service.server.pmix_ref();
    let request = match server.peer(id).is_some_and(|peer| service.is_tool(peer.job)) {
        true => event_of_tool(service, id).map(OperationRequest::Event),
        false => server.forwarded(id).map(|request| OperationRequest::Forwarded(request.into())),
    };
    service.server.pmix().request_read(id);
    request
}

/// The event that a tool has published.
fn event_of_tool(service: &Service, id: SessionId) -> Option<EventMessage> {
    let Some(PmixRequest::Notify { code, range, infos }) = service.server.pmix_ref().request(id)
    else {
        return None;
    };
    let peer = service.server.pmix_ref().peer(id)?;
    // Nodes do not know the wire format of the tool.
    let write = |to: &mut Packer<'_>| {
        for info in infos.infos() {
            to.text(Some(info.key)).u32(info.flags);
            info.value.write(to.of(info.value.of))?;
        }
        Ok::<(), Malformed>(())
    };
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    write(&mut counted).ok()?;
    let mut packed = vec![0; counted.len()];
    write(&mut Packer::new(&mut packed, Format::PLAIN)).ok()?;
    Some(EventMessage {
        nspace: service.server.job(peer.job)?.name().as_bytes().to_vec(),
        code,
        range,
        is_cached: !infos.is_set(keys::EVENT_DO_NOT_CACHE),
        count: infos.count,
        infos: packed,
    })
}

impl From<ForwardedRequest<'_>> for ForwardedMessage {
    fn from(request: ForwardedRequest<'_>) -> Self {
        let ForwardedRequest { peer: ProcId { job, rank }, format, body } = request;
        Self { job: job.0, rank: rank.0, format, body: body.to_vec() }
    }
}

/// The request of a client of PMI-1 or PMI-2 about a published name.
pub(super) fn name_request(
    service: &Service,
    id: SessionId,
    exchange: usize,
) -> Option<OperationRequest> {
    let (job, rank) = service.server.peer(id)?;
    let bytes = |text: Text<'_>| text.bytes().collect();
    let request = match service.server.name_request(id)? {
        Request::Publish { service, port } => {
            let by = (job.0, rank?.0);
            NameMessage::Publish { by, service: bytes(service), port: bytes(port) }
        }
        Request::Unpublish { service } => NameMessage::Unpublish { service: bytes(service) },
        Request::Lookup { service } => NameMessage::Lookup { service: bytes(service) },
        _ => return None,
    };
    Some(OperationRequest::Name { asker: asker(id, exchange), request })
}

/// The request of a PMIx client about published data; `None` if it is about something else, and waits for
/// another answer.
pub(super) fn take_pmix_name(
    service: &mut Service,
    id: SessionId,
    exchange: usize,
) -> Option<OperationRequest> {
    let server = service.server.pmix_ref();
    match server.request(id)? {
        PmixRequest::Publish { .. } | PmixRequest::Unpublish(_) | PmixRequest::Lookup(_) => {}
        _ => return None,
    }
    let request = NameMessage::Pmix(server.forwarded(id)?.into());
    service.server.pmix().request_read(id);
    Some(OperationRequest::Name { asker: asker(id, exchange), request })
}

fn asker(id: SessionId, exchange: usize) -> Asker {
    Asker { session: id.0, exchange: u64::try_from(exchange).unwrap_or(u64::MAX) }
}

/// Answers the request of a session about a published name.
pub(crate) fn answer_name(service: &mut Service, asker: Asker, answer: &NameAnswerMessage) {
    let id = SessionId(asker.session);
    let exchange = usize::try_from(asker.exchange).unwrap_or(usize::MAX);
    let answer = match answer {
        NameAnswerMessage::Done => NameAnswer::Done,
        NameAnswerMessage::Port(port) => NameAnswer::Port(port),
        NameAnswerMessage::Exists => NameAnswer::Exists,
        NameAnswerMessage::Unknown => NameAnswer::Unknown,
        NameAnswerMessage::NoRoom => NameAnswer::NoRoom,
        NameAnswerMessage::Status(status) => {
            service.pmix_calls().answer((id, exchange), Status(*status));
            return;
        }
        NameAnswerMessage::Pmix(body) => {
            // The client may be gone, or may have waited too long; then the answer is dropped.
            let _ = service.server.pmix().answer_with(id, exchange, body);
            return;
        }
    };
    // As above.
    let _ = service.server.answer_name(id, exchange, answer);
}

/// Handles a message of the head.
///
/// # Errors
///
/// The reason, as a part of a sentence; ranks wait for the result.
pub(crate) fn handle_reply(service: &mut Service, reply: &OperationReply) -> Result<(), String> {
    let handled = match reply {
        OperationReply::Ended { kind: OperationKind::GroupFence(_), job, number, data, .. } => {
            service.server.end_group(JobId(*job), *number, &Rc::from(data.as_slice()))
        }
        OperationReply::Ended { kind: OperationKind::Ring, job, data, .. } => {
            service.server.end_ring(JobId(*job), data)
        }
        OperationReply::Ended { number, serial, is_partial, data, .. } => {
            let end = CollectiveEnd { serial: *serial, is_partial: *is_partial, data };
            service.server.pmix().end_remote_collective(*number, &end)
        }
        OperationReply::Connected(message) => others::end_connected(service, message),
        OperationReply::NotConnected(number, status) => {
            service.server.pmix().fail_remote_collective(*number, Status(*status));
            return Ok(());
        }
        OperationReply::OtherEnded(nspace) => {
            service.server.pmix().remove_foreign_job(nspace);
            return Ok(());
        }
        OperationReply::Forwarded(ForwardedMessage { job, rank, format, body }) => {
            let peer = ProcId { job: JobId(*job), rank: Rank(*rank) };
            // The node of the rank has handled it already.
            if service.server.job(peer.job).is_some_and(|job| job.member(peer.rank).is_some()) {
                return Ok(());
            }
            service.server.pmix().handle_forwarded(ForwardedRequest { peer, format: *format, body })
        }
        OperationReply::Name { asker, answer } => {
            answer_name(service, *asker, answer);
            return Ok(());
        }
        OperationReply::Fetched { request, data } => {
            return fetches::handle_answer(service, request, data.as_deref());
        }
        OperationReply::Changed { asker, result } => {
            changes::answer(service, *asker, (*result).into());
            return Ok(());
        }
        // The node executes them.
        OperationReply::Fetch { .. }
        | OperationReply::Change { .. }
        | OperationReply::ListProcesses { .. }
        | OperationReply::Processes { .. }
        | OperationReply::Control(_)
        | OperationReply::Controlled { .. }
        | OperationReply::Event(_)
        | OperationReply::Stopped(_)
        | OperationReply::Push { .. } => return Ok(()),
    };
    handled.map_err(|error| super::nodes::explain(&error))
}
