//! Events that the launcher itself publishes to PMIx clients: exits of processes, start and end of
//! spawned jobs, lost nodes.

use crate::launch::plan::job::server_nspace;
use crate::launch::start::process::ProcessEnd;
use crate::operation::EventMessage;
use crate::server::pmix::heap::PmixHeap;
use crate::verdict::PmiPhase;
use pmi_core::ids::JobId;
use pmi_core::server::Server;
use pmi_core::server::pmix::Notification;
use pmi_core::wire::pmix::names::{Status, keys, range};
use pmi_core::wire::pmix::{Packer, Proc, Type};
use pmi_host_base::storage::Heap;

/// Sender of the launcher's events.
pub(crate) struct PmixNotifier<'a> {
    pub(in crate::server) server: &'a mut Server<Heap<PmixHeap>>,
}

impl PmixNotifier<'_> {
    /// Publishes the exit of a process that had reached `phase`.
    pub(crate) fn notify_exit(
        &mut self,
        job: JobId,
        rank: u32,
        ending: ProcessEnd,
        phase: PmiPhase,
    ) {
        let Some(name) = self.server.job(job).map(|job| job.name().clone()) else { return };
        let source = Proc { nspace: name.as_bytes(), rank };
        let (code, exit_code) = match (ending, phase) {
            // The exit status is unknown.
            (ProcessEnd::Unseen, _) => return,
            (ProcessEnd::Killed { .. } | ProcessEnd::OutOfMemory, _) => {
                (Status::PROC_ABORTED_BY_SIG, None)
            }
            (ProcessEnd::Exited(code), PmiPhase::Open) => (Status::PROC_TERM_WO_SYNC, Some(code)),
            (ProcessEnd::Exited(0), _) => (Status::PROC_TERMINATED, Some(0)),
            (ProcessEnd::Exited(code), _) => (Status::EXIT_NONZERO_TERM, Some(code)),
        };
        let infos = 3 + u32::from(exit_code.is_some());
        // Only the own namespace receives it later: it does not concern libraries of a job that begins
        // later.
        let (range, later) = (range::SESSION, Some(range::NAMESPACE));
        let notification = Notification { code, source, range, later, infos };
        self.server.pmix().notify_clients(&notification, |to| {
            special(to);
            source.write(info(keys::EVENT_AFFECTED_PROC, Type::PROC, to));
            info(keys::PROC_TERM_STATUS, Type::STATUS, to).i32(code.0);
            if let Some(exit_code) = exit_code {
                info(keys::EXIT_CODE, Type::INT, to).int(exit_code.into());
            }
        });
    }

    /// Publishes that all processes of a job run.
    pub(crate) fn notify_job_start(&mut self, job: JobId) {
        for code in [Status::JOB_START, Status::LAUNCH_COMPLETE] {
            self.notify_of_job(job, code);
        }
    }

    /// Publishes the end of a job.
    pub(crate) fn notify_job_end(&mut self, job: JobId) {
        self.notify_of_job(job, Status::JOB_END);
    }

    /// Publishes a missed heartbeat, with the status code that the rank has chosen.
    pub(crate) fn notify_silent(&mut self, job: JobId, rank: u32, code: Status) {
        let Some(name) = self.server.job(job).map(|job| job.name().clone()) else { return };
        let source = Proc { nspace: name.as_bytes(), rank };
        let (range, later) = (range::SESSION, Some(range::NAMESPACE));
        let notification = Notification { code, source, range, later, infos: 2 };
        self.server.pmix().notify_clients(&notification, |to| {
            special(to);
            source.write(info(keys::EVENT_AFFECTED_PROC, Type::PROC, to));
        });
    }

    /// Publishes that a process waits for a debugger, or all of a job, and where, unless that is unknown.
    pub(crate) fn notify_ready_for_debug(&mut self, (job, rank): (JobId, u32), breakpoint: &str) {
        let Some(name) = self.server.job(job).map(|job| job.name().clone()) else { return };
        let source = Proc { nspace: name.as_bytes(), rank };
        let (code, range) = (Status::READY_FOR_DEBUG, range::SESSION);
        let infos = 3 + u32::from(!breakpoint.is_empty());
        let notification = Notification { code, source, range, later: Some(range), infos };
        self.server.pmix().notify_clients(&notification, |to| {
            special(to);
            source.write(info(keys::EVENT_AFFECTED_PROC, Type::PROC, to));
            info(keys::NSPACE, Type::STRING, to).text(Some(name.as_bytes()));
            if !breakpoint.is_empty() {
                info(keys::BREAKPOINT, Type::STRING, to).text(Some(breakpoint.as_bytes()));
            }
        });
    }

    /// Publishes the loss of a node, with the name of its host and its number among the hosts.
    pub(crate) fn notify_node_down(&mut self, (host, node): (&str, u32)) {
        let server = server_nspace(std::process::id());
        let source = Proc { nspace: server.as_bytes(), rank: 0 };
        let (code, range) = (Status::NODE_DOWN, range::SESSION);
        let notification = Notification { code, source, range, later: Some(range), infos: 3 };
        self.server.pmix().notify_clients(&notification, |to| {
            special(to);
            info(keys::HOSTNAME, Type::STRING, to).text(Some(host.as_bytes()));
            info(keys::NODEID, Type::UINT32, to).u32(node);
        });
    }

    /// Publishes an event of a tool, which is a client of the head.
    pub(crate) fn notify_of_tool(&mut self, event: &EventMessage) {
        let EventMessage { nspace, code, range, is_cached, count, infos } = event;
        let notification = Notification {
            code: Status(*code),
            source: Proc { nspace, rank: 0 },
            range: *range,
            later: is_cached.then_some(*range),
            infos: *count,
        };
        self.server.pmix().notify_clients(&notification, |to| {
            to.raw(infos);
        });
    }

    fn notify_of_job(&mut self, job: JobId, code: Status) {
        let Some(name) = self.server.job(job).map(|job| job.name().clone()) else { return };
        let server = server_nspace(std::process::id());
        let source = Proc { nspace: server.as_bytes(), rank: 0 };
        let range = range::SESSION;
        let notification = Notification { code, source, range, later: Some(range), infos: 2 };
        self.server.pmix().notify_clients(&notification, |to| {
            special(to);
            info(keys::NSPACE, Type::STRING, to).text(Some(name.as_bytes()));
        });
    }
}

/// Marks an event for handlers of its code only. Default handlers mostly treat events as fatal: those of
/// MPI libraries end the job.
fn special(to: &mut Packer<'_>) {
    info(keys::EVENT_NON_DEFAULT, Type::BOOL, to).u8(1);
}

/// Writes the key, flags and type that precede the value of an info.
fn info<'a, 'b>(key: &[u8], of: Type, to: &'a mut Packer<'b>) -> &'a mut Packer<'b> {
    to.text(Some(key)).u32(0).of(of)
}
