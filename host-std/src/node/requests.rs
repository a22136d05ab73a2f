//! Requests of the PMIx clients of this node, which are ranks, and what the run has it do for those of other
//! nodes.

use super::spawn::Requester;
use super::{Node, exchange, file_monitors, forwarding};
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::operation::{
    Asker, ControlMessage, OperationReply, OperationRequest, PushMessage, PushResult, StopMessage,
};
use crate::requests::clients::{Asked, ClientHost};
use crate::requests::query::ALL_NODES;
use crate::server::event::PendingSpawn;
use crate::server::pmix::control::JobControl;
use crate::server::pmix::credential::UserIdentity;
use crate::server::pmix::forwarding::InputPush;
use crate::server::pmix::host_request::PmixCalls;
use crate::server::pmix::log::LogRequest;
use crate::server::pmix::monitor::MonitorRequest;
use crate::stdio::forward::OutputPull;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::Status;
use rustix::process::getuid;
use std::os::unix::fs::MetadataExt;

/// Requests of ranks.
impl ClientHost for Node {
    fn calls(&mut self) -> PmixCalls<'_> {
        self.service.pmix_calls()
    }

    fn control(&mut self, asked: Asked, by: JobId, request: JobControl) -> Option<Status> {
        let mut requests = self.pmix_requests();
        let has_acts = !request.acts.is_empty();
        if !has_acts || !request.targets.iter().any(|target| requests.is_on_other_nodes(*target)) {
            return Some(requests.control(&request, Some(by)));
        }
        // The nodes of the targets execute it.
        let JobControl { targets, cleanup, acts: actions } = request;
        let targets = targets.into_iter().map(|(job, rank)| (job.0, rank)).collect();
        let message = ControlMessage { by: Some(by.0), targets, cleanup, actions };
        let request = OperationRequest::Control { asker: asker(asked), message };
        exchange::send_operation(self, Ok(request));
        None
    }

    fn spawn(
        &mut self,
        (session, exchange): Asked,
        (job, rank): (JobId, u32),
        request: SpawnRequest,
    ) {
        let asked = PendingSpawn { session, exchange };
        self.handle_spawn(Requester { job, rank, asked }, request);
    }

    fn query(&mut self, asked: Asked, wants_memory: bool) {
        // The processes of all ranks of a run without other hosts are here.
        if self.names_hosts() && self.calls().query_names(asked.0, ALL_NODES) {
            let request = OperationRequest::ListProcesses { asker: asker(asked), wants_memory };
            return exchange::send_operation(self, Ok(request));
        }
        let ends_at = self.ends_at;
        let mut requests = self.pmix_requests();
        let rows = requests.rows(wants_memory);
        requests.answer_query(asked, rows, ends_at);
    }

    fn log(&mut self, by: (JobId, u32), entry: &LogRequest) -> Status {
        self.pmix_requests().handle_log(by, entry)
    }

    fn monitor(&mut self, session: SessionId, by: (JobId, u32), request: MonitorRequest) -> Status {
        file_monitors::handle_request(&mut self.pmix_requests(), (session, by), request)
    }

    fn identity(&self, (job, rank): (JobId, u32)) -> Option<UserIdentity> {
        let process = self.processes.get(self.jobs.process_of(job, rank)?)?;
        let process = std::fs::metadata(format!("/proc/{}", process.pid)).ok()?;
        // Only the launcher's user is ever admitted; the group is that of the process.
        Some(UserIdentity { user: getuid().as_raw(), group: process.gid() })
    }

    fn pull(&mut self, session: SessionId, pull: OutputPull) -> Option<u64> {
        // The run has the output of the ranks of other hosts.
        let is_here = !self.names_hosts();
        is_here.then(|| forwarding::pull(&mut self.pmix_requests(), session, pull))
    }

    fn withdraw(&mut self, session: SessionId, number: u64) -> bool {
        forwarding::withdraw(&mut self.pmix_requests(), session, number)
    }

    fn push(&mut self, _: Asked, push: InputPush) -> Option<PushResult> {
        Some(forwarding::push(&mut self.pmix_requests(), &push))
    }
}

/// A client of this node, as the run names it.
fn asker((session, exchange): Asked) -> Asker {
    Asker { session: session.0, exchange: u64::try_from(exchange).unwrap_or(u64::MAX) }
}

/// Handles a message of the head about such a request; returns another one.
pub(super) fn handle_reply(node: &mut Node, reply: OperationReply) -> Option<OperationReply> {
    match reply {
        OperationReply::ListProcesses { number, wants_memory } => {
            let rows = node.pmix_requests().rows(wants_memory);
            exchange::send_operation(node, Ok(OperationRequest::Processes { number, rows }));
        }
        OperationReply::Processes { asker: Asker { session, exchange }, rows } => {
            let session = SessionId(session);
            // Another client may have its number by now, with a query that waits for its own answer.
            if node.service.pmix_calls().query_names(session, ALL_NODES) {
                let asked = (session, usize::try_from(exchange).unwrap_or(usize::MAX));
                let ends_at = node.ends_at;
                match rows {
                    Some(rows) => node.pmix_requests().answer_query(asked, rows, ends_at),
                    None => {
                        node.service.pmix_calls().refuse_query(asked, Status::OUT_OF_RESOURCE);
                    }
                }
            }
        }
        OperationReply::Control(ControlMessage { by, targets, cleanup, actions: acts }) => {
            let targets = targets.into_iter().map(|(job, rank)| (JobId(job), rank)).collect();
            let request = JobControl { targets, cleanup, acts };
            // Its requester receives the answer when all nodes have executed it.
            let _ = node.pmix_requests().control(&request, by.map(JobId));
        }
        OperationReply::Controlled { asker: Asker { session, exchange } } => {
            let exchange = usize::try_from(exchange).unwrap_or(usize::MAX);
            node.service.pmix_calls().answer((SessionId(session), exchange), Status::SUCCESS);
        }
        OperationReply::Event(message) => {
            node.service.pmix_notifier().notify_of_tool(&message);
        }
        OperationReply::Stopped(StopMessage { job, rank, breakpoint }) => {
            if node.listeners.has_pmix() {
                let stopped = (JobId(job), rank);
                node.service.pmix_notifier().notify_ready_for_debug(stopped, &breakpoint);
            }
        }
        OperationReply::Push { number, message } => {
            let PushMessage { readers, input, is_complete } = message;
            let readers = readers.into_iter().map(|(job, rank)| (JobId(job), rank)).collect();
            let push = InputPush { readers, input, is_complete };
            let result = forwarding::push(&mut node.pmix_requests(), &push);
            exchange::send_operation(node, Ok(OperationRequest::Pushed { number, result }));
        }
        other => return Some(other),
    }
    None
}
