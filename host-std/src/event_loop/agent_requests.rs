//! Requests of PMIx clients on one node of a run that other nodes take part in: queries for processes, job
//! control, and events and input of tools, which connect to the head.

use super::query::ALL_NODES;
use super::{EventLoop, agent, forwarding};
use crate::operation::{
    Asker, ControlMessage, OperationReply, OperationRequest, PushMessage, StopMessage,
};
use crate::server::pmix::control::JobControl;
use crate::server::pmix::forwarding::InputPush;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::{Status, keys};

/// Requests the state of the processes of all nodes if a query of a client needs it. Returns false if it does
/// not, and if this is no agent.
pub(super) fn forward_query(run: &mut EventLoop, (session, exchange): (SessionId, usize)) -> bool {
    let calls = run.service.pmix_calls();
    if run.uplink.is_none() || !calls.query_names(session, ALL_NODES) {
        return false;
    }
    let wants_memory = calls.query_names(session, &[keys::QUERY_MEMORY_USAGE]);
    let exchange = u64::try_from(exchange).unwrap_or(u64::MAX);
    let asker = Asker { session: session.0, exchange };
    let request = OperationRequest::ListProcesses { asker, wants_memory };
    agent::send_operation(run, Ok(request));
    true
}

/// Requests job control of ranks on other nodes.
pub(super) fn forward_control(
    run: &mut EventLoop,
    (session, exchange): (SessionId, usize),
    message: ControlMessage,
) {
    let exchange = u64::try_from(exchange).unwrap_or(u64::MAX);
    let asker = Asker { session: session.0, exchange };
    agent::send_operation(run, Ok(OperationRequest::Control { asker, message }));
}

/// Handles a message of the head about such a request; returns another one.
pub(super) fn handle_reply(run: &mut EventLoop, reply: OperationReply) -> Option<OperationReply> {
    match reply {
        OperationReply::ListProcesses { number, wants_memory } => {
            let rows = run.pmix_requests().rows(wants_memory);
            agent::send_operation(run, Ok(OperationRequest::Processes { number, rows }));
        }
        OperationReply::Processes { asker: Asker { session, exchange }, rows } => {
            let session = SessionId(session);
            // Another client may have its number by now, with a query that waits for its own answer.
            if run.service.pmix_calls().query_names(session, ALL_NODES) {
                let asked = (session, usize::try_from(exchange).unwrap_or(usize::MAX));
                let ends_at = run.status.ends_at();
                match rows {
                    Some(rows) => run.pmix_requests().answer_query(asked, rows, ends_at),
                    None => {
                        run.service.pmix_calls().refuse_query(asked, Status::OUT_OF_RESOURCE);
                    }
                }
            }
        }
        OperationReply::Control(ControlMessage { by, targets, cleanup, actions: acts }) => {
            let targets = targets.into_iter().map(|(job, rank)| (JobId(job), rank)).collect();
            let request = JobControl { targets, cleanup, acts };
            // Its requester receives the answer when all nodes have executed it.
            let _ = run.pmix_requests().control(&request, by.map(JobId));
        }
        OperationReply::Controlled { asker: Asker { session, exchange } } => {
            let exchange = usize::try_from(exchange).unwrap_or(usize::MAX);
            run.service.pmix_calls().answer((SessionId(session), exchange), Status::SUCCESS);
        }
        OperationReply::Event(message) => {
            run.service.pmix_notifier().notify_of_tool(&message);
        }
        OperationReply::Stopped(StopMessage { job, rank, breakpoint }) => {
            if run.listeners.has_pmix() {
                let stopped = (JobId(job), rank);
                run.service.pmix_notifier().notify_ready_for_debug(stopped, &breakpoint);
            }
        }
        OperationReply::Push { number, message } => {
            let PushMessage { readers, input, is_complete } = message;
            let readers = readers.into_iter().map(|(job, rank)| (JobId(job), rank)).collect();
            let push = InputPush { readers, input, is_complete };
            let result = forwarding::push(&mut run.pmix_requests(), &push);
            agent::send_operation(run, Ok(OperationRequest::Pushed { number, result }));
        }
        other => return Some(other),
    }
    None
}
