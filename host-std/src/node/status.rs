//! State of a run for its user: no progress, time limits, progress of start and end, status tables.

use super::jobs::{JobState, Jobs};
use super::processes::{ProcessEntry, Processes};
use crate::launch::plan::program_environment::Inherited;
use crate::link::node_report::{
    InitWait, JobReport, NodeReport, NodeWait, ReportRequest, RowsWanted,
};
use crate::numbers::index;
use crate::server::service::Service;
use crate::settings::Watching;
use crate::verdict;
use crate::watch::process::{Effort, Proc};
use crate::watch::stall::{Stall, Standstill};
use crate::watch::table::{Phase, Rank, Wait, WaitCondition, seconds};
use pmi_core::ids::JobId;
use pmi_host_base::ranges::Ranks;
use pmi_host_os::clock;
use pmi_host_os::processes;
use pmi_trace::Direction;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// State kept between two reports.
pub(super) struct Status {
    stall: Stall,
    proc: Proc,
    /// Processor time of each process at its last report, by process number.
    cpu: BTreeMap<u32, Duration>,
    /// Efforts of ranks before init at the last look, and the time at which they were first seen.
    efforts: Option<(Instant, Efforts)>,
}

/// What the processes of each rank have done so far.
type Efforts = BTreeMap<i32, BTreeMap<i32, Effort>>;

/// Ranks that have called init, and those that they may wait for.
struct LikelyWait {
    inside: Ranks,
    missing: Ranks,
    /// Time since the last message of those inside.
    waits_for: Duration,
}

impl From<LikelyWait> for Wait {
    fn from(LikelyWait { inside, missing, waits_for }: LikelyWait) -> Self {
        let seconds = Some(seconds(waits_for));
        Self { what: WaitCondition::Init, inside, missing, elsewhere: Vec::new(), seconds }
    }
}

/// The parts of a run that a table describes.
#[derive(Clone, Copy)]
pub(super) struct RunView<'a> {
    pub(super) jobs: &'a Jobs,
    pub(super) processes: &'a Processes,
    pub(super) service: &'a Service,
}

impl Status {
    pub(super) fn new(settings: &Watching) -> Self {
        Self {
            stall: Stall::new(settings),
            proc: Proc::default(),
            cpu: BTreeMap::new(),
            efforts: None,
        }
    }

    /// Time of the next check for a stall.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.stall.deadline()
    }

    /// Records that a message of a rank has arrived: from now on, ranks may wait.
    pub(super) fn note_message(&mut self) {
        self.stall.note_message(clock::now());
    }

    /// True if a further message of a rank changes no deadline.
    pub(super) fn expects_messages(&self) -> bool {
        self.stall.expects_messages()
    }

    /// Restarts the measurement of stalls.
    pub(super) fn excuse_stall(&mut self, now: Instant) {
        self.stall.excuse(now);
    }

    /// True if a stall has to be looked for now.
    pub(super) fn is_stall_check_due(&self, now: Instant) -> bool {
        self.stall.deadline().is_some_and(|at| now >= at)
    }

    /// Judges a standstill; `None` if no rank waits. Returns true if the run is to know of it.
    pub(super) fn check_stall(&mut self, now: Instant, found: Option<Standstill>) -> bool {
        self.stall.check(now, found).is_some()
    }

    /// Wait of ranks of this node for others that make no progress; `None` if no rank waits.
    pub(super) fn standstill(&mut self, now: Instant, run: RunView<'_>) -> Option<Standstill> {
        if let Some(since) = run.service.progress().standstill() {
            return Some(Standstill { since, idle_since: None });
        }
        let waits = run.jobs.iter().filter_map(|(id, job)| run.init_wait(id, job));
        let ago = waits.map(|wait| wait.waits_for).max()?;
        let idle_since = self.idle_since(now, run);
        Some(Standstill { since: now.checked_sub(ago)?, idle_since: Some(idle_since) })
    }

    /// Time since which ranks before init that others may wait for have been seen to do nothing.
    fn idle_since(&mut self, now: Instant, run: RunView<'_>) -> Instant {
        let waits = run.jobs.iter().filter_map(|(id, job)| Some((id, run.init_wait(id, job)?)));
        let silent = waits.flat_map(|(id, wait)| {
            wait.missing.iter().map(move |rank| (id, rank)).collect::<Vec<_>>()
        });
        let running = silent
            .filter_map(|(id, rank)| run.started(id, rank))
            .filter(|one| one.process.is_some());
        let seen = running.map(|one| {
            // A rank may be a script that has started what prepares its data.
            let family = processes::family(one.pid).take(PROCESSES_MAX);
            (one.pid, family.filter_map(|pid| Some((pid, self.proc.effort(pid)?))).collect())
        });
        let seen: Efforts = seen.collect();
        match &self.efforts {
            Some((since, before)) if *before == seen => *since,
            _ => {
                self.efforts = Some((now, seen));
                now
            }
        }
    }

    /// State of the ranks of this node.
    pub(super) fn node_report(&mut self, run: RunView<'_>, request: &ReportRequest) -> NodeReport {
        let ReportRequest { number, rows } = request;
        let (mut jobs, mut variables) = (Vec::new(), Vec::new());
        match rows {
            RowsWanted::Variables => {
                let first = run.jobs.iter().next();
                variables.extend(first.into_iter().flat_map(|(_, job)| {
                    Inherited::here(&job.plan.environment).of_node(&job.plan.environment)
                }));
            }
            _ => {
                let all = run.jobs.iter();
                jobs.extend(all.map(|(id, job)| self.job_report(run, (id, job), rows)));
            }
        }
        NodeReport { number: *number, jobs, variables }
    }

    fn job_report(
        &mut self,
        run: RunView<'_>,
        (id, job): (JobId, &JobState),
        rows: &RowsWanted,
    ) -> JobReport {
        let plan = &job.plan;
        let local = &plan.placement.ranks;
        let runs = |rank: &u32| run.runs(id, *rank);
        let (wanted, most): (Vec<u32>, u32) = match rows {
            RowsWanted::NoRank | RowsWanted::Variables => (Vec::new(), 0),
            RowsWanted::All { most } => (local.iter().collect(), *most),
            RowsWanted::Running { most } => (local.iter().filter(runs).collect(), *most),
            RowsWanted::Listed(jobs) => {
                let listed = jobs.iter().filter(|(name, _)| *name == plan.kvsname);
                let is_listed = |rank: &u32| listed.clone().any(|(_, all)| all.contains(*rank));
                (local.iter().filter(is_listed).collect(), u32::MAX)
            }
        };
        let (shown, more) = wanted.split_at(wanted.len().min(index(most)));
        let ranks = shown.iter().map(|rank| self.row(run, id, *rank)).collect();
        let progress = run.service.progress();
        let (waits_for, progress_ago) = progress.activity(id);
        let (mut waits, more_waits) = progress.waits(id);
        let now = clock::now();
        let in_init = run.init_wait(id, job).map(|wait| {
            let waits_for = wait.waits_for;
            waits.push(Wait::from(wait));
            let idle_for = now.saturating_duration_since(self.idle_since(now, run));
            InitWait { waits_for, idle_for }
        });
        JobReport {
            name: plan.kvsname.clone(),
            fences: progress.fences(id),
            messages: progress.messages(id),
            waits_for,
            in_init,
            progress_ago,
            waits: waits.into_iter().map(NodeWait::from).collect(),
            more_waits,
            ranks,
            more_ranks: u64::try_from(more.len()).unwrap_or(u64::MAX),
        }
    }

    fn row(&mut self, run: RunView<'_>, job: JobId, rank: u32) -> Rank {
        let number = run.jobs.process_of(job, rank);
        let started = number.and_then(|number| run.processes.get(number));
        let is_running = started.is_some_and(|started| started.process.is_some());
        let pid = started.map(|started| started.pid);
        let from = run.service.from(job, rank);
        let phase = match run.service.phase(job, rank) {
            _ if started.is_some() && !is_running => Phase::Ended,
            _ if started.is_none() && from.is_none() => Phase::Absent,
            verdict::PmiPhase::Silent => Phase::Silent,
            verdict::PmiPhase::Open => Phase::Open,
            verdict::PmiPhase::Finalized => Phase::Finalized,
        };
        let life = pid.filter(|_| is_running).and_then(|pid| self.proc.read(pid));
        let cpu = life.as_ref().map(|life| life.cpu);
        let before = number.zip(cpu).and_then(|(number, cpu)| self.cpu.insert(number, cpu));
        let new = cpu.zip(before).map(|(cpu, before)| cpu.saturating_sub(before));
        let host = run.jobs.plan(job).map(|plan| plan.host.clone());
        let rank_messages = run.service.progress().rank_messages(job, rank);
        let (last, ago) = rank_messages.last.unzip();
        Rank {
            rank,
            pid,
            host: match started {
                Some(_) => host,
                None => from.map(|from| from.to_string()),
            },
            phase,
            state: life.as_ref().map(|life| life.state),
            kernel_wait: life.and_then(|life| life.kernel_wait),
            cpu_seconds: cpu.map(seconds),
            cpu_seconds_new: new.map(seconds),
            messages: rank_messages.messages,
            last_message: last.map(|last| last.name()),
            last_message_is_answer: last.is_some_and(|last| last.direction == Direction::ToClient),
            last_message_seconds: ago.map(seconds),
        }
    }
}

impl<'a> RunView<'a> {
    /// Ranks of this node that have called init while others of it have not, before the first fence of the
    /// job and without a request that waits: MPI libraries may wait for these in memory that they share.
    fn init_wait(self, id: JobId, job: &JobState) -> Option<LikelyWait> {
        let progress = self.service.progress();
        if progress.fences(id) > 0 || !progress.waits(id).0.is_empty() {
            return None;
        }
        let started =
            job.plan.placement.ranks.iter().filter(|rank| self.started(id, *rank).is_some());
        let phases = Vec::from_iter(started.map(|rank| (rank, self.service.phase(id, rank))));
        let of = |wanted| {
            let ranks = phases.iter().filter(move |(_, phase)| *phase == wanted);
            ranks.map(|(rank, _)| *rank).collect::<Ranks>()
        };
        let (inside, missing) = (of(verdict::PmiPhase::Open), of(verdict::PmiPhase::Silent));
        if missing.is_empty() {
            return None;
        }
        let last = inside.iter().filter_map(|rank| progress.rank_messages(id, rank).last);
        let waits_for = last.map(|(_, ago)| ago).min()?;
        Some(LikelyWait { inside, missing, waits_for })
    }

    fn runs(self, job: JobId, rank: u32) -> bool {
        self.started(job, rank).is_some_and(|one| one.process.is_some())
    }

    fn started(self, job: JobId, rank: u32) -> Option<&'a ProcessEntry> {
        self.processes.get(self.jobs.process_of(job, rank)?)
    }
}

/// Number of processes of one rank that are looked at; a rank may be a shell with thousands of them.
const PROCESSES_MAX: usize = 64;
