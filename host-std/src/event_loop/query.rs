//! Answers to PMIx queries that only the launcher knows: processes, their memory, states of jobs.

use super::jobs::{JobState, Jobs};
use super::processes::{ProcessEntry, Processes};
use super::summary::Summary;
use crate::launch::process::ProcessEnd;
use crate::launch::{apps, directives};
use crate::numbers::index;
use crate::run_report::RankEnd;
use crate::server::service::Service;
use crate::verdict::PmiPhase;
use pmi_core::server::pmix::QueryItem;
use pmi_core::wire::pmix::names::{Status, job_state, keys, proc_state};
use pmi_core::wire::pmix::{Packer, Proc, Type, WILDCARD};
use std::time::Instant;

/// Snapshot for one query. It is gathered once, as an answer is packed more than once.
pub(super) struct QuerySnapshot<'a> {
    jobs: &'a Jobs,
    /// All started processes, in that order.
    processes: Vec<Seen>,
    /// Memory of the launcher.
    memory_bytes: u64,
    seconds_left: Option<u32>,
    /// Address of the server.
    uri: Option<String>,
}

/// Parts of a run that a query asks about.
pub(super) struct Observed<'a> {
    pub(super) processes: &'a Processes,
    pub(super) service: &'a Service,
    pub(super) summary: &'a Summary,
    /// Address of the server, if it listens for PMIx clients.
    pub(super) uri: Option<String>,
}

/// State of a process at the time of the query.
struct Seen {
    pid: i32,
    state: u8,
    /// Its exit code, or 128 and the signal; `None` while it runs, or if its exit cannot be seen.
    exit_code: Option<u8>,
    /// `None` if it has exited.
    memory_bytes: Option<u64>,
}

impl<'a> QuerySnapshot<'a> {
    /// Gathers the state of all jobs and processes, with their memory if a query asks for it.
    pub(super) fn new(
        jobs: &'a Jobs,
        observed: Observed<'_>,
        ends_at: Option<Instant>,
        wants_memory: bool,
    ) -> Self {
        let Observed { processes, service, summary, uri } = observed;
        let seen = |(number, one): (usize, &ProcessEntry)| {
            let end = summary.end(number).map(|end| end_of(one, end));
            let memory = one.process.as_ref().filter(|_| wants_memory);
            Seen {
                pid: one.pid,
                state: end.map_or_else(|| running(service.phase(one.job, one.rank)), |end| end.0),
                exit_code: end.and_then(|end| end.1),
                memory_bytes: memory.and_then(|_| memory_bytes(one.pid)),
            }
        };
        let left = ends_at.map(|at| at.saturating_duration_since(Instant::now()));
        Self {
            jobs,
            processes: processes.iter().enumerate().map(seen).collect(),
            memory_bytes: memory_bytes(i32::try_from(std::process::id()).unwrap_or(0)).unwrap_or(0),
            uri,
            seconds_left: left.map(|left| u32::try_from(left.as_secs()).unwrap_or(u32::MAX)),
        }
    }

    /// Writes the type of a value and the value.
    ///
    /// # Errors
    ///
    /// The status of a query that has no answer.
    pub(super) fn answer(
        &self,
        question: &QueryItem<'_>,
        to: &mut Packer<'_>,
    ) -> Result<(), Status> {
        match question.key {
            keys::QUERY_SPAWN_SUPPORT => {
                let keys = apps::KEYS.iter().chain(directives::KEYS);
                to.of(Type::STRING).list(keys.copied());
                return Ok(());
            }
            keys::TIME_REMAINING => {
                to.of(Type::UINT32).u32(self.seconds_left.ok_or(Status::NOT_FOUND)?);
                return Ok(());
            }
            keys::SERVER_URI => {
                let uri = self.uri.as_ref().ok_or(Status::NOT_FOUND)?;
                to.of(Type::STRING).text(Some(uri.as_bytes()));
                return Ok(());
            }
            // Keys of the host's attributes, of queues and the like.
            key if !JOB_KEYS.contains(&key) => return Err(Status::NOT_SUPPORTED),
            _ => {}
        }
        let job = self.jobs.get(question.job).ok_or(Status::NOT_FOUND)?;
        match question.key {
            // The agent of a node does not know the processes of other nodes.
            keys::QUERY_PROC_TABLE | keys::QUERY_JOB_STATUS if job.plan.has_other_nodes() => {
                return Err(Status::NOT_SUPPORTED);
            }
            // Otherwise all processes that this launcher starts are on this node.
            keys::QUERY_PROC_TABLE | keys::QUERY_LOCAL_PROC_TABLE => self.table(job, to),
            keys::QUERY_JOB_STATUS => {
                to.of(Type::JOB_STATE).u8(self.state(job));
            }
            keys::PROC_PID => {
                let process = self.process(job, question.rank).ok_or(Status::NOT_FOUND)?;
                to.of(Type::PID).pid(process.pid.cast_unsigned());
            }
            keys::PROC_STATE => {
                let process = self.process(job, question.rank).ok_or(Status::NOT_FOUND)?;
                to.of(Type::PROC_STATE).u8(process.state);
            }
            keys::EXIT_CODE => {
                let process = self.process(job, question.rank).ok_or(Status::NOT_FOUND)?;
                to.of(Type::INT).int(process.exit_code.ok_or(Status::NOT_FOUND)?.into());
            }
            keys::QUERY_MEMORY_USAGE => self.memory(job, question.rank, to)?,
            _ => return Err(Status::NOT_SUPPORTED),
        }
        Ok(())
    }

    /// Table of the processes of a job that this launcher started.
    fn table(&self, job: &JobState, to: &mut Packer<'_>) {
        to.of(Type::DATA_ARRAY).of(Type::PROC_INFO).size(u64::from(job.started_count));
        let (nspace, host) = (job.plan.kvsname.as_bytes(), job.plan.host.as_bytes());
        for rank in job.started_ranks() {
            let (pid, state) = match self.process(job, rank) {
                Some(process) => (process.pid.cast_unsigned(), process.state),
                None => (0, proc_state::UNDEF),
            };
            let program = job.plan.program_name(rank);
            Proc { nspace, rank }.write(to);
            to.text(Some(host)).text(Some(program.as_bytes())).pid(pid).u8(state);
        }
    }

    fn state(&self, job: &JobState) -> u8 {
        let processes = || job.started_ranks().filter_map(|rank| self.process(job, rank));
        match job {
            _ if job.started_count < job.plan.local() => job_state::LAUNCH_UNDERWAY,
            _ if job.running_count == 0 && job.plan.local() > 0 => {
                // The end that a rank has requested is none of these.
                let has_failed = |process: &Seen| {
                    process.state >= proc_state::ERROR && process.state != proc_state::KILLED_BY_CMD
                };
                match processes().any(has_failed) {
                    true => job_state::TERMINATED_WITH_ERROR,
                    false => job_state::TERMINATED,
                }
            }
            _ if processes().all(|process| process.state == proc_state::CONNECTED) => {
                job_state::CONNECTED
            }
            _ => job_state::RUNNING,
        }
    }

    /// Memory of the launcher, and the average memory of the processes of a job, or of one process.
    fn memory(&self, job: &JobState, rank: u32, to: &mut Packer<'_>) -> Result<(), Status> {
        let ranks = job.started_ranks().filter(|one| [WILDCARD, *one].contains(&rank));
        let processes = ranks.filter_map(|rank| self.process(job, rank)?.memory_bytes);
        let (sum, count) = processes.fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1));
        if count == 0 {
            return Err(Status::NOT_FOUND);
        }
        to.of(Type::DATA_ARRAY).of(Type::INFO).size(3);
        to.text(Some(keys::HOSTNAME)).u32(0).of(Type::STRING).text(Some(job.plan.host.as_bytes()));
        for (key, bytes) in
            [(keys::DAEMON_MEMORY, self.memory_bytes), (keys::CLIENT_AVERAGE_MEMORY, sum / count)]
        {
            // Without floating point the last digit is still right.
            let megabytes = format!("{}.{:06}", bytes / MEGA, bytes % MEGA);
            to.text(Some(key)).u32(0).of(Type::FLOAT).text(Some(megabytes.as_bytes()));
        }
        Ok(())
    }

    fn process(&self, job: &JobState, rank: u32) -> Option<&Seen> {
        self.processes.get(index(job.process(rank)?))
    }
}

/// State of a process that runs.
const fn running(phase: PmiPhase) -> u8 {
    match phase {
        PmiPhase::Open => proc_state::CONNECTED,
        PmiPhase::Silent | PmiPhase::Finalized => proc_state::RUNNING,
    }
}

/// State and exit code of a process that has ended.
fn end_of(process: &ProcessEntry, end: RankEnd) -> (u8, Option<u8>) {
    let RankEnd { ending, phase, .. } = end;
    let state = match ending {
        ProcessEnd::Unseen => return (proc_state::TERMINATED, None),
        _ if process.has_aborted => proc_state::CALLED_ABORT,
        ProcessEnd::Killed { .. } | ProcessEnd::OutOfMemory if process.is_ending => {
            proc_state::KILLED_BY_CMD
        }
        ProcessEnd::Killed { .. } | ProcessEnd::OutOfMemory => proc_state::ABORTED_BY_SIG,
        ProcessEnd::Exited(_) if phase == PmiPhase::Open => proc_state::TERM_WO_SYNC,
        ProcessEnd::Exited(0) => proc_state::TERMINATED,
        ProcessEnd::Exited(_) => proc_state::TERM_NON_ZERO,
    };
    (state, Some(ending.exit_code()))
}

/// Resident memory of a process.
fn memory_bytes(pid: i32) -> Option<u64> {
    let pages = procfs::process::Process::new(pid).ok()?.statm().ok()?.resident;
    Some(pages.saturating_mul(procfs::page_size()))
}

/// Keys that have an answer for each job.
const JOB_KEYS: &[&[u8]] = &[
    keys::QUERY_PROC_TABLE,
    keys::QUERY_LOCAL_PROC_TABLE,
    keys::QUERY_JOB_STATUS,
    keys::PROC_PID,
    keys::PROC_STATE,
    keys::EXIT_CODE,
    keys::QUERY_MEMORY_USAGE,
];

/// Number of bytes of a megabyte in PMIx keys.
const MEGA: u64 = 1_000_000;
