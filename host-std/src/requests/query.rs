//! Answers to PMIx queries that only the launcher knows: processes, their memory, states of jobs.
//!
//! They are written from rows, one for each process that was started. On one node the launcher makes them
//! itself; on several nodes each node makes those of its own, and the head gathers them for each query.

use crate::launch::plan::directives;
use crate::launch::plan::job::Plan;
use crate::launch::plan::pmix_spawn;
use crate::operation::ProcessRow;
use pmi_core::ids::JobId;
use pmi_core::server::pmix::QueryItem;
use pmi_core::wire::pmix::names::{Status, job_state, keys, proc_state};
use pmi_core::wire::pmix::{Packer, Proc, Type, WILDCARD};
use pmi_host_os::clock;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

/// Snapshot for one query. It is gathered once, as an answer is packed more than once.
pub(crate) struct QuerySnapshot {
    jobs: BTreeMap<JobId, QueriedJob>,
    /// Memory of the launcher.
    memory_bytes: u64,
    seconds_left: Option<u32>,
    /// Address of the server.
    uri: Option<String>,
}

/// Job of a query.
pub(crate) struct QueriedJob {
    plan: Rc<Plan>,
    /// Processes that were started, by rank.
    rows: BTreeMap<u32, ProcessRow>,
}

/// Facts about the server that answers a query.
pub(crate) struct ServerFacts {
    /// Address of the server, if it listens for PMIx clients.
    pub(crate) uri: Option<String>,
    /// End of the run's time limit.
    pub(crate) ends_at: Option<Instant>,
}

impl QuerySnapshot {
    /// Creates the snapshot of these jobs of the server, each with its number in the run and its plan, with
    /// their processes in `rows`.
    pub(crate) fn new(
        jobs: impl Iterator<Item = (JobId, u32, Rc<Plan>)>,
        rows: Vec<ProcessRow>,
        ServerFacts { uri, ends_at }: ServerFacts,
    ) -> Self {
        let mut all: BTreeMap<u32, BTreeMap<u32, ProcessRow>> = BTreeMap::new();
        for row in rows {
            all.entry(row.job).or_default().insert(row.rank, row);
        }
        let jobs = jobs.map(|(id, number, plan)| {
            (id, QueriedJob { plan, rows: all.remove(&number).unwrap_or_default() })
        });
        let left = ends_at.map(|at| at.saturating_duration_since(clock::now()));
        Self {
            jobs: jobs.collect(),
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
    pub(crate) fn answer(
        &self,
        question: &QueryItem<'_>,
        to: &mut Packer<'_>,
    ) -> Result<(), Status> {
        match question.key {
            keys::QUERY_SPAWN_SUPPORT => {
                let keys = pmix_spawn::KEYS.iter().chain(directives::KEYS);
                to.of(Type::STRING).list(keys.copied());
                return Ok(());
            }
            keys::QUERY_DEBUG_SUPPORT => {
                to.of(Type::STRING).list(DEBUG_SUPPORT.iter().copied());
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
            key if key != keys::QUERY_LOCAL_PROC_TABLE && !ALL_NODES.contains(&key) => {
                return Err(Status::NOT_SUPPORTED);
            }
            _ => {}
        }
        let job = self.jobs.get(&question.job).ok_or(Status::NOT_FOUND)?;
        let process = || job.rows.get(&question.rank).ok_or(Status::NOT_FOUND);
        match question.key {
            keys::QUERY_PROC_TABLE => job.write_table(job.rows.values(), to),
            keys::QUERY_LOCAL_PROC_TABLE => {
                let host = &job.plan.host;
                let is_here = |row: &&ProcessRow| job.plan.host_of(row.rank) == host;
                job.write_table(job.rows.values().filter(is_here), to);
            }
            keys::QUERY_JOB_STATUS => {
                to.of(Type::JOB_STATE).u8(job.state());
            }
            keys::PROC_PID => {
                to.of(Type::PID).pid(process()?.pid.cast_unsigned());
            }
            keys::PROC_STATE => {
                to.of(Type::PROC_STATE).u8(process()?.state);
            }
            keys::EXIT_CODE => {
                to.of(Type::INT).int(process()?.exit_code.ok_or(Status::NOT_FOUND)?.into());
            }
            keys::QUERY_MEMORY_USAGE => self.memory(job, question.rank, to)?,
            _ => return Err(Status::NOT_SUPPORTED),
        }
        Ok(())
    }

    /// Memory of the launcher, and the average memory of the processes of a job, or of one process.
    fn memory(&self, job: &QueriedJob, rank: u32, to: &mut Packer<'_>) -> Result<(), Status> {
        let rows = job.rows.values().filter(|row| [WILDCARD, row.rank].contains(&rank));
        let all = rows.filter_map(|row| row.memory_bytes);
        let (sum, count) =
            all.fold((0_u64, 0), |(sum, count), bytes| (sum.saturating_add(bytes), count + 1));
        let average = sum.checked_div(count).ok_or(Status::NOT_FOUND)?;
        to.of(Type::DATA_ARRAY).of(Type::INFO).size(3);
        to.text(Some(keys::HOSTNAME)).u32(0).of(Type::STRING).text(Some(job.plan.host.as_bytes()));
        for (key, bytes) in
            [(keys::DAEMON_MEMORY, self.memory_bytes), (keys::CLIENT_AVERAGE_MEMORY, average)]
        {
            // Without floating point the last digit is still right.
            let megabytes = format!("{}.{:06}", bytes / MEGA, bytes % MEGA);
            to.text(Some(key)).u32(0).of(Type::FLOAT).text(Some(megabytes.as_bytes()));
        }
        Ok(())
    }
}

impl QueriedJob {
    /// Writes a table of these processes of the job.
    fn write_table<'r>(
        &self,
        rows: impl Iterator<Item = &'r ProcessRow> + Clone,
        to: &mut Packer<'_>,
    ) {
        let count = u64::try_from(rows.clone().count()).unwrap_or(u64::MAX);
        to.of(Type::DATA_ARRAY).of(Type::PROC_INFO).size(count);
        let nspace = self.plan.kvsname.as_bytes();
        for ProcessRow { rank, pid, state, .. } in rows {
            let (host, program) = (self.plan.host_of(*rank), self.plan.program_name(*rank));
            Proc { nspace, rank: *rank }.write(to);
            to.text(Some(host.as_bytes())).text(Some(program.as_bytes()));
            to.pid(pid.cast_unsigned()).u8(*state);
        }
    }

    fn state(&self) -> u8 {
        let started = self.plan.started();
        let count = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let all = |is: &dyn Fn(&ProcessRow) -> bool| self.rows.values().all(is);
        // The end that a rank has requested is no failure.
        let has_failed = |row: &ProcessRow| {
            row.state >= proc_state::ERROR && row.state != proc_state::KILLED_BY_CMD
        };
        if count < started {
            job_state::LAUNCH_UNDERWAY
        } else if started > 0 && all(&|row| row.state >= proc_state::TERMINATED) {
            match self.rows.values().any(has_failed) {
                true => job_state::TERMINATED_WITH_ERROR,
                false => job_state::TERMINATED,
            }
        } else if all(&|row| row.state == proc_state::CONNECTED) {
            job_state::CONNECTED
        } else {
            job_state::RUNNING
        }
    }
}

/// Resident memory of a process.
pub(crate) fn memory_bytes(pid: i32) -> Option<u64> {
    let pages = procfs::process::Process::new(pid).ok()?.statm().ok()?.resident;
    Some(pages.saturating_mul(procfs::page_size()))
}

/// Keys whose answers need the state of the processes of all nodes.
pub(crate) const ALL_NODES: &[&[u8]] = &[
    keys::QUERY_PROC_TABLE,
    keys::QUERY_JOB_STATUS,
    keys::PROC_PID,
    keys::PROC_STATE,
    keys::EXIT_CODE,
    keys::QUERY_MEMORY_USAGE,
];

/// Number of bytes of a megabyte in PMIx keys.
const MEGA: u64 = 1_000_000;

/// Attributes by which a debugger stops ranks and has daemons started.
const DEBUG_SUPPORT: &[&[u8]] = &[
    keys::DEBUG_STOP_IN_INIT,
    keys::DEBUG_STOP_IN_APP,
    keys::DEBUG_STOP_ON_EXEC,
    keys::DEBUG_TARGET,
    keys::DEBUG_DAEMONS_PER_NODE,
    keys::DEBUG_DAEMONS_PER_PROC,
];
