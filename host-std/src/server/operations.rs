//! Operations of ranks on several nodes: parts of this node, and results.

use super::service::Service;
use crate::operation::{
    ForwardedMessage, Operation, OperationKind, OperationPart, OperationReply, OperationRequest,
};
use pmi_core::ids::{JobId, ProcId, Rank, SessionId};
use pmi_core::server::pmix::{CollectiveEnd, CollectiveKind, ForwardedRequest};
use pmi_host_base::ranges::Ranks;
use std::collections::BTreeSet;

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
        CollectiveKind::Construct | CollectiveKind::Bootstrap => OperationKind::Construct,
        CollectiveKind::Destruct => OperationKind::Destruct,
    };
    let members = by_job(server.collective_procs(number));
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

/// The request of a session that all nodes handle; the session goes on.
pub(super) fn take_forwarded(service: &mut Service, id: SessionId) -> Option<OperationRequest> {
    let request = service.server.pmix_ref().forwarded(id).map(|request| {
        let ForwardedRequest { peer: ProcId { job, rank }, format, body } = request;
        ForwardedMessage { job: job.0, rank: rank.0, format, body: body.to_vec() }
    });
    service.server.pmix().request_read(id);
    request.map(OperationRequest::Forwarded)
}

/// Handles a message of the head.
///
/// # Errors
///
/// The reason, as a part of a sentence; ranks wait for the result.
pub(crate) fn handle_reply(service: &mut Service, reply: &OperationReply) -> Result<(), String> {
    let mut server = service.server.pmix();
    let handled = match reply {
        OperationReply::Ended { number, serial, is_partial, data } => {
            let end = CollectiveEnd { serial: *serial, is_partial: *is_partial, data };
            server.end_remote_collective(*number, &end)
        }
        OperationReply::Forwarded(ForwardedMessage { job, rank, format, body }) => {
            let peer = ProcId { job: JobId(*job), rank: Rank(*rank) };
            // The node of the rank has handled it already.
            if service.server.job(peer.job).is_some_and(|job| job.member(peer.rank).is_some()) {
                return Ok(());
            }
            service.server.pmix().handle_forwarded(ForwardedRequest { peer, format: *format, body })
        }
    };
    handled.map_err(|error| super::nodes::explain(&error))
}
