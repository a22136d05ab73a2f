//! PMIx clients: authentication, and requests that only the launcher can serve.

use super::jobs::{JobState, Jobs};
use super::process_rows::Observed;
use super::processes::Processes;
use crate::io::Io;
use crate::launch::cleanup::control_action::ControlAction;
use crate::numbers::index;
use crate::operation::ProcessRow;
use crate::report;
use crate::requests::log::write_log;
use crate::requests::query::{QuerySnapshot, ServerFacts};
use crate::server::pmix::control::JobControl;
use crate::server::pmix::log::LogRequest;
use crate::server::service::Service;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::Status;
use pmi_host_os::admission::{Identity, peer};
use pmi_host_os::descriptors::{CALLERS_MAX, MORE_PER_RANK};
use pmi_host_os::poller::Poller;
use std::rc::Rc;
use std::time::Instant;

/// The parts of a run that PMIx clients may ask about.
pub(super) struct PmixRequests<'a> {
    pub(super) jobs: &'a mut Jobs,
    pub(super) processes: &'a mut Processes,
    pub(super) io: &'a mut Io,
    pub(super) service: &'a mut Service,
    pub(super) poller: &'a Poller,
    /// Address of the server, if it listens for PMIx clients.
    pub(super) uri: Option<String>,
}

impl PmixRequests<'_> {
    /// Maximum number of connections that have not proved which rank they are, besides those of all ranks
    /// that run.
    pub(super) fn unauthenticated_max(&self) -> usize {
        let more = self.more_connections(self.service.pmix_links());
        self.processes.running_count() + UNAUTHENTICATED_MAX.min(more)
    }

    /// Authenticates a connection that claims to be a rank: its socket must be that of the rank.
    pub(super) fn authenticate(&mut self, session: SessionId, (job, rank): (JobId, u32)) {
        let Some((from, socket)) = self.service.pmix_caller(session) else { return };
        let process = self.jobs.process_of(job, rank);
        let running = process.and_then(|number| self.processes.running(number));
        let identity = running.map(|process| {
            let others = self.processes.others(process.pid());
            peer::rank_identity(process.pid(), socket, &others)
        });
        let refusal = match identity {
            // The kernel names the user, who could trace the rank.
            Some(Identity::Admitted | Identity::Unknown(_)) => None,
            Some(Identity::Refused(why)) => Some(why),
            None => Some(ENDED.to_owned()),
        };
        let is_it = refusal.is_none();
        let (status, why) = match refusal {
            None if self.service.pmix_count(job, rank) >= CONNECTIONS_MAX => {
                let why = format!(
                    "is one too many for rank {rank}, which may have {CONNECTIONS_MAX} connections"
                );
                (Status::OUT_OF_RESOURCE, why)
            }
            // The first connection of each rank has a reserved place.
            None if self.service.pmix_count(job, rank) > 0
                && self.more_connections(self.service.pmix_links() - 1) == 0 =>
            {
                let why = format!(
                    "is one more for rank {rank}, and the open files that are left are for other ranks \
                     (raise the launcher's limit: 'ulimit -n')"
                );
                (Status::OUT_OF_RESOURCE, why)
            }
            None => return self.service.admit_pmix(session, self.jobs.plan(job).map(Rc::as_ref)),
            Some(why) => {
                (Status::NO_PERMISSIONS, format!("claims to be rank {rank}, and is not: {why}"))
            }
        };
        self.service.refuse_pmix(session, status);
        // A rank that was killed right after it had connected does not hold its socket any more.
        if is_it || !self.processes.are_terminating() {
            self.io.report_rejected(from, Some(socket), &why);
        }
    }

    /// Number of connections that may be added to `links` existing ones without taking open files that a
    /// rank needs.
    pub(super) fn more_connections(&self, links: usize) -> usize {
        let spare = usize::try_from(self.processes.launcher.limit.spare()).unwrap_or(usize::MAX);
        spare.saturating_add(index(self.jobs.pmix_ranks())).saturating_sub(links)
    }

    /// Executes job control of a rank of `own`, or of a tool, as far as it concerns ranks of this node.
    pub(super) fn control(&mut self, request: &JobControl, own: Option<JobId>) -> Status {
        let JobControl { targets, cleanup, acts } = request;
        if let Some(cleanup) = cleanup
            && !self.processes.add_cleanups(targets, cleanup)
        {
            return Status::OUT_OF_RESOURCE;
        }
        for act in acts {
            for (job, rank) in targets {
                self.act_on((*job, *rank), own, *act);
            }
        }
        Status::SUCCESS
    }

    /// True if the rank, or one of the whole job, is on another node, which alone reaches it.
    pub(super) fn is_on_other_nodes(&self, (job, rank): (JobId, Option<u32>)) -> bool {
        let Some(plan) = self.jobs.plan(job) else { return false };
        match rank {
            Some(rank) => rank < plan.ranks && plan.served().local_rank(rank).is_none(),
            None => plan.has_other_nodes(),
        }
    }

    fn act_on(
        &mut self,
        (id, rank): (JobId, Option<u32>),
        own: Option<JobId>,
        action: ControlAction,
    ) {
        let is_end = matches!(action, ControlAction::Terminate | ControlAction::Kill);
        if is_end && rank.is_none() && Some(id) != own && id != self.jobs.first() {
            // A rank that terminates a job it has spawned does so on purpose; it is no failure. The first
            // job, which a tool may terminate, is the one whose result the user waits for.
            self.jobs.set_unwanted(id);
        }
        let Some(job) = self.jobs.get(id) else { return };
        match rank {
            Some(rank) => self.processes.act_on(job.process(rank).into_iter(), action),
            None => {
                let all = job.started_ranks().filter_map(|rank| job.process(rank));
                self.processes.act_on(all, action);
            }
        }
    }

    /// State of the processes of this launcher.
    pub(super) fn rows(&self, wants_memory: bool) -> Vec<ProcessRow> {
        let PmixRequests { processes, service, .. } = self;
        Observed { processes, service }.rows(wants_memory)
    }

    /// Answers a query with the state of these processes.
    pub(super) fn answer_query(
        &mut self,
        asked: (SessionId, usize),
        rows: Vec<ProcessRow>,
        ends_at: Option<Instant>,
    ) {
        self.describe_to_tools();
        let jobs = self.jobs.iter().map(|(id, job)| (id, id.0, Rc::clone(&job.plan)));
        let known = QuerySnapshot::new(jobs, rows, ServerFacts { uri: self.uri.clone(), ends_at });
        self.service.pmix_calls().answer_query(asked, |question, to| known.answer(question, to));
    }

    /// Appends a log entry of a rank to the output it has written itself, and one of a tool, which writes
    /// none here, to that of the launcher.
    pub(super) fn handle_log(&mut self, (job, rank): (JobId, u32), entry: &LogRequest) -> Status {
        let process = self.jobs.process_of(job, rank);
        if process.is_none() && !self.service.is_tool(job) {
            return Status::NOT_SUPPORTED;
        }
        let entry_of = process.and_then(|number| self.processes.get(number));
        let pid = entry_of.map_or(0, |one| one.pid);
        let outputs = &mut self.io.outputs;
        write_log(entry, pid, |stream, text| match process {
            Some(process) => outputs.log(stream, process, text),
            None => outputs.log_of_tool(stream, text),
        })
    }

    /// Reports a monitored rank or tool that missed its heartbeat.
    pub(super) fn handle_silent(
        &mut self,
        (job, rank): (JobId, u32),
        code: Status,
        after: pmi_core::time::Duration,
    ) {
        let who = match self.jobs.plan(job) {
            Some(plan) => {
                let process = self.jobs.process_of(job, rank);
                let pid = process.and_then(|number| self.processes.get(number)).map(|one| one.pid);
                report::local_rank(plan, rank, pid)
            }
            None => match self.service.pmix_calls().job_name(job) {
                Some(name) => format!("tool {name}"),
                None => return,
            },
        };
        let secs = after.as_micros() / 1_000_000;
        self.io.report(report::without_heartbeat(&who, secs, code));
        self.service.pmix_notifier().notify_silent(job, rank, code);
    }
}

impl PmixRequests<'_> {
    /// Rejects a tool: the run serves those.
    pub(crate) fn refuse_tool(&mut self, session: SessionId) {
        let Some((from, socket)) = self.service.pmix_caller(session) else { return };
        self.service.refuse_pmix(session, Status::NOT_SUPPORTED);
        self.io.report_rejected(from, Some(socket), FOR_RANKS);
    }

    /// Lets tools know the jobs whose ranks use other protocols.
    pub(crate) fn describe_to_tools(&mut self) {
        let jobs = self.jobs.iter();
        let jobs: Vec<(JobId, &JobState)> = jobs.collect();
        for (job, state) in jobs {
            self.service.describe_to_tools(job, &state.plan);
        }
    }
}

const ENDED: &str = "that rank does not run";

const FOR_RANKS: &str = "is a tool, and connects to the server of the ranks of this host; tools find that of \
    the launcher by its rendezvous files, or by the address that '--report-uri' writes";

/// Maximum number of unauthenticated connections, besides those of all ranks.
const UNAUTHENTICATED_MAX: usize = CALLERS_MAX as usize;

/// Maximum number of connections per rank. Each may have much in transit.
const CONNECTIONS_MAX: usize = 1 + MORE_PER_RANK as usize;
