//! State of a run for its user: no progress, time limits, progress of start and end, status tables.

use super::jobs::{JobState, Jobs};
use super::processes::{ProcessEntry, Processes};
use crate::launch::plan::program_environment::Inherited;
use crate::link::node_report::{
    InitRanks, JobReport, NodeReport, NodeWait, ReportRequest, RowsWanted,
};
use crate::numbers::index;
use crate::rank_sets;
use crate::server::service::Service;
use crate::settings::Watching;
use crate::verdict;
use crate::watch::activity::{PROCESSES_MAX, SharedMemory};
use crate::watch::process::{Effort, Proc};
use crate::watch::stall::{Stall, Standstill};
use crate::watch::table::{Phase, Rank, RankActivity, seconds};
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
        let waits = Vec::from_iter(self.init_ranks(run).filter(|(_, ranks)| ranks.is_wait()));
        let ago = waits.iter().map(|(_, ranks)| ranks.waits_for).max()?;
        let idle_since = self.idle_since(now, run, &waits);
        Some(Standstill { since: now.checked_sub(ago)?, idle_since: Some(idle_since) })
    }

    /// Time since which ranks before init that others wait for have been seen to do nothing.
    fn idle_since(
        &mut self,
        now: Instant,
        run: RunView<'_>,
        waits: &[(JobId, InitRanks)],
    ) -> Instant {
        let before =
            waits.iter().flat_map(|(id, ranks)| ranks.before.iter().map(|rank| (*id, rank)));
        let running = before
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

    /// Ranks of all jobs that may wait in init without an operation.
    fn init_ranks<'a>(
        &'a self,
        run: RunView<'a>,
    ) -> impl Iterator<Item = (JobId, InitRanks)> + use<'a> {
        run.jobs.iter().filter_map(move |(id, job)| Some((id, self.init_ranks_of(run, id, job)?)))
    }

    /// Ranks of this node before the first fence of a job: those that have called init, share memory and are
    /// in no operation may wait for those that have not; MPI libraries do so.
    fn init_ranks_of(&self, run: RunView<'_>, id: JobId, job: &JobState) -> Option<InitRanks> {
        let progress = run.service.progress();
        if progress.fences(id) > 0 {
            return None;
        }
        let of_phase = |wanted| {
            let started = job.plan.placement.ranks.iter();
            let started = started.filter(|rank| run.started(id, *rank).is_some());
            started.filter(|rank| run.service.phase(id, *rank) == wanted).collect::<Ranks>()
        };
        let before = of_phase(verdict::PmiPhase::Silent);
        let waits = progress.waits(id).0;
        let waiting = rank_sets::union(waits.iter().map(|wait| &wait.inside));
        let open = of_phase(verdict::PmiPhase::Open);
        let open = rank_sets::without(&open, &waiting);
        let last = open.iter().filter_map(|rank| progress.rank_messages(id, rank).last);
        let waits_for = last.map(|(_, ago)| ago).min().unwrap_or_default();
        // Without a rank before init nobody waits in memory alone.
        let memory = match before.is_empty() {
            true => SharedMemory::Some,
            false => self.shared_memory(run, id, &open),
        };
        let is_memory_hidden = memory == SharedMemory::Hidden;
        let inside = if memory == SharedMemory::None { Ranks::default() } else { open };
        let idle_for = Duration::ZERO;
        let found = InitRanks { inside, before, is_memory_hidden, waits_for, idle_for };
        (!found.inside.is_empty() || !found.before.is_empty()).then_some(found)
    }

    /// Memory that ranks of a job share, by the first few of them.
    fn shared_memory(&self, run: RunView<'_>, job: JobId, ranks: &Ranks) -> SharedMemory {
        let mut found = SharedMemory::None;
        let running = ranks.iter().filter(|rank| run.runs(job, *rank)).take(EXAMINED_MAX);
        for one in running.filter_map(|rank| run.started(job, rank)) {
            match self.proc.shared_memory(one.pid) {
                SharedMemory::Some => return SharedMemory::Some,
                SharedMemory::Hidden => found = SharedMemory::Hidden,
                SharedMemory::None => {}
            }
        }
        found
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
        let progress = run.service.progress();
        let (waits_for, progress_ago) = progress.activity(id);
        let (waits, more_waits) = progress.waits(id);
        let in_init = self.init_ranks_of(run, id, job).map(|mut ranks| {
            if ranks.is_wait() {
                let now = clock::now();
                let all = Vec::from_iter(self.init_ranks(run).filter(|(_, ranks)| ranks.is_wait()));
                ranks.idle_for = now.saturating_duration_since(self.idle_since(now, run, &all));
            }
            ranks
        });
        let waiting = rank_sets::union(
            waits.iter().map(|wait| &wait.inside).chain(in_init.iter().map(|ranks| &ranks.inside)),
        );
        // Those for whom nobody waits are not examined.
        let is_suspected = matches!(rows, RowsWanted::Listed(_)) || !waiting.is_empty();
        let row = |rank: &u32| {
            let examines = is_suspected && !waiting.contains(*rank);
            self.row(run, id, *rank, examines)
        };
        let ranks = shown.iter().map(row).collect();
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

    fn row(&mut self, run: RunView<'_>, job: JobId, rank: u32, examines: bool) -> Rank {
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
        let examined = started.filter(|_| examines);
        let activity = examined.map(|started| self.activity(run, started));
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
            activity,
        }
    }

    /// What a rank does, or how it has ended.
    fn activity(&self, run: RunView<'_>, started: &ProcessEntry) -> RankActivity {
        if started.process.is_none() {
            let exit_code = started.end.map(|end| end.ending.exit_code());
            return RankActivity { exit_code, ..RankActivity::default() };
        }
        let mut activity = self.proc.activity(started.pid);
        if let Some(holder) = &mut activity.holder {
            let of_job = |one: &&ProcessEntry| one.pid == holder.pid && one.job == started.job;
            holder.rank = run.processes.iter().find(of_job).map(|one| one.rank);
        }
        activity
    }
}

impl<'a> RunView<'a> {
    fn runs(self, job: JobId, rank: u32) -> bool {
        self.started(job, rank).is_some_and(|one| one.process.is_some())
    }

    fn started(self, job: JobId, rank: u32) -> Option<&'a ProcessEntry> {
        self.processes.get(self.jobs.process_of(job, rank)?)
    }
}

/// Number of ranks whose memory is looked at: a library shares memory among all ranks of a host.
const EXAMINED_MAX: usize = 8;
