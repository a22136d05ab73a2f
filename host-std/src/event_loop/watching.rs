//! Reports on a running job: no progress, time limits and status tables.

use super::asking::Asking;
use super::start::Start;
use super::{EventLoop, JobState, ProcessEntry};
use crate::ranges::Ranks;
use crate::report;
use crate::settings::Settings;
use crate::stdio::index;
use crate::verdict::{self, Failure};
use crate::watch::process::Proc;
use crate::watch::progress::{Progress, ProgressTask};
use crate::watch::stall::{Stall, StallAction};
use crate::watch::table::{self, Phase, Rank, Table, seconds};
use crate::watch::text::{self, Rows};
use pmi_core::ids::JobId;
use pmi_trace::Direction;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// State kept between two reports.
pub(super) struct Watch {
    pub(super) stall: Stall,
    proc: Proc,
    began: Instant,
    /// Time limit of the run: deadline and duration.
    limit: Option<(Instant, Duration)>,
    /// Time to report ranks that still run although a signal was forwarded.
    remind_at: Option<Instant>,
    /// Processor time of each process at its last report, by process number.
    cpu: BTreeMap<u32, Duration>,
    /// Number of tables printed since the reader last had taken all output.
    unread_count: usize,
    pub(super) asking: Asking,
    /// Progress display, only if output goes to a person at a terminal.
    progress: Option<Progress>,
}

/// Ranks that a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Ranks that others wait for.
    Missing,
    /// Ranks whose processes run.
    Running,
}

impl Watch {
    /// End of the run's time limit.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.limit.map(|(at, _)| at)
    }

    pub(super) fn new(settings: &Settings, has_person: bool) -> Self {
        let began = Instant::now();
        let limit = settings.ending.timeout;
        Self {
            stall: Stall::new(&settings.watching),
            proc: Proc::default(),
            began,
            limit: limit.and_then(|limit| Some((began.checked_add(limit)?, limit))),
            remind_at: None,
            cpu: BTreeMap::new(),
            unread_count: 0,
            asking: Asking::new(&settings.watching, began),
            progress: (settings.watching.progress && has_person).then(Progress::default),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let limit = self.limit.map(|(at, _)| at);
        let asking = self.asking.deadline();
        let progress = self.progress.as_ref().and_then(Progress::deadline);
        let own = [self.stall.deadline(), limit, self.remind_at];
        own.into_iter().chain([asking, progress]).flatten().min()
    }
}

impl EventLoop {
    /// Handles the deadlines of reports on a running job.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls.
    pub(super) fn check_watch(&mut self, now: Instant) -> io::Result<()> {
        self.check_status_clients(now)?;
        if self.watch.stall.deadline().is_some_and(|at| now >= at) {
            self.check_progress(now);
        }
        if let Some((at, limit)) = self.watch.limit
            && now >= at
        {
            self.watch.limit = None;
            self.end_by_clock(Failure::TimedOut { limit }, Which::Running);
        }
        if self.watch.remind_at.is_some_and(|at| now >= at) {
            self.watch.remind_at = None;
            if self.running_count > 0 {
                let table = self.table(Which::Running);
                self.tell(&format!(
                    "{}{}",
                    report::STILL_RUNNING,
                    text::jobs(&table.jobs, Rows::Few)
                ));
            }
        }
        self.show_progress(now);
        Ok(())
    }

    /// Shows the progress of a long start or a long shutdown.
    fn show_progress(&mut self, now: Instant) {
        let Some(progress) = &mut self.watch.progress else { return };
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let task = match self.failure {
            None => {
                let left = self.starts.iter().map(Start::left).sum();
                (left > 0).then(|| (ProgressTask::Start, count(self.processes.len()), left))
            }
            Some(_) => {
                (self.running_count > 0).then(|| (ProgressTask::End, 0, count(self.running_count)))
            }
        };
        if let Some(line) = progress.look(now, task) {
            self.outputs.set_status(line.as_deref());
        }
    }

    /// Schedules a report of ranks that still run: the user who has requested the end wants to know the cause
    /// of a delay.
    pub(super) fn remind_later(&mut self, now: Instant) {
        self.watch.remind_at = Some(now + REMINDER);
    }

    /// Reports the state of all ranks.
    pub(super) fn say_table(&mut self) {
        let table = self.table(Which::All);
        self.tell(&text::table(&table, Rows::Few));
    }

    /// Running ranks and their waits, as further lines of the report of an interrupt.
    pub(super) fn who_runs(&self) -> String {
        let mut lines = String::new();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.running_count > 0) {
            let job = self.job_row(JobId(*id), job);
            lines.push_str(&text::who_runs(&job));
        }
        lines
    }

    fn check_progress(&mut self, now: Instant) {
        // Ranks that are not connected are covered by the attendance report, and waiting for ranks that are
        // being started is no lack of progress.
        if self.starts_more() || self.awaits_absent() {
            self.watch.stall.forgive(now);
        }
        let since = match self.failure {
            None => self.service.standstill(),
            Some(_) => None,
        };
        match self.watch.stall.look(now, since) {
            None => {}
            Some(StallAction::Report { lasts }) => {
                let table = self.table(Which::Missing);
                self.tell(&text::standstill(&table, seconds(lasts)));
            }
            Some(StallAction::Abort { lasts }) => {
                self.end_by_clock(Failure::Stalled { limit: lasts }, Which::Missing);
            }
        }
    }

    /// Terminates the run for a reason outside its ranks, and reports the state.
    pub(super) fn end_by_clock(&mut self, failure: Failure, which: Which) {
        if self.failure.is_some() {
            return;
        }
        let table = self.table(which);
        self.fail(self.first, failure);
        self.tell(&text::table(&table, Rows::Few));
    }

    /// Prints a table, unless the reader has not taken several earlier ones.
    fn tell(&mut self, what: &str) {
        if self.outputs.is_flushed() {
            self.watch.unread_count = 0;
        }
        if self.watch.unread_count < UNREAD_MAX {
            self.watch.unread_count += 1;
            self.outputs.say(what);
        }
    }

    /// State of the run.
    pub(super) fn table(&mut self, which: Which) -> Table {
        let ids = Vec::from_iter(self.jobs.keys().copied());
        let mut jobs = Vec::new();
        for id in ids.into_iter().map(JobId) {
            let Some(job) = self.jobs.get(&id.0) else { continue };
            let has_ended = job.running_count == 0 && job.started_count == job.plan.local();
            if has_ended && id != self.first {
                continue;
            }
            jobs.push((id, self.job_row(id, job)));
        }
        for at in 0..jobs.len() {
            let Some((id, row)) = jobs.get(at) else { continue };
            let missing = jobs.iter().flat_map(|(_, waiting)| row.missing_in(waiting));
            let missing: Vec<Ranks> = missing.cloned().collect();
            let ranks = (0..row.size).filter(|rank| match which {
                Which::All => true,
                Which::Missing => missing.iter().any(|missing| missing.contains(*rank)),
                Which::Running => row.running.contains(*rank),
            });
            let (id, ranks) = (*id, Vec::from_iter(ranks));
            let ranks = ranks.into_iter().map(|rank| self.row(id, rank)).collect();
            if let Some((_, row)) = jobs.get_mut(at) {
                row.ranks = ranks;
            }
        }
        let jobs = jobs.into_iter().map(|(_, row)| row).collect();
        Table {
            version: table::VERSION,
            pid: std::process::id(),
            host: self
                .jobs
                .get(&self.first.0)
                .map_or_else(String::new, |job| job.plan.host.clone()),
            seconds: seconds(self.watch.began.elapsed()),
            jobs,
        }
    }

    /// Row of a job, without its ranks.
    fn job_row(&self, id: JobId, job: &JobState) -> table::Job {
        let plan = &job.plan;
        let (waits, more_waits) = self.service.waits(id);
        let runs = |rank: &u32| self.started(id, *rank).is_some_and(|one| one.process.is_some());
        table::Job {
            name: plan.kvsname.clone(),
            spawner: plan.spawner.clone(),
            program: plan.program_names(),
            size: plan.ranks,
            running: (0..plan.ranks).filter(runs).collect(),
            fences: self.service.fences(id),
            messages: self.service.messages(id),
            waits,
            more_waits,
            ranks: Vec::new(),
        }
    }

    fn row(&mut self, job: JobId, rank: u32) -> Rank {
        let number = self.process_of(job, rank);
        let started = number.map(|number| &self.processes[index(number)]);
        let is_running = started.is_some_and(|started| started.process.is_some());
        let pid = started.map(|started| started.pid);
        let from = self.service.from(job, rank);
        let phase = match self.service.phase(job, rank) {
            _ if started.is_some() && !is_running => Phase::Ended,
            _ if started.is_none() && from.is_none() => Phase::Absent,
            verdict::PmiPhase::Silent => Phase::Silent,
            verdict::PmiPhase::Open => Phase::Open,
            verdict::PmiPhase::Finalized => Phase::Finalized,
        };
        let life = pid.filter(|_| is_running).and_then(|pid| self.watch.proc.look(pid));
        let cpu = life.as_ref().map(|life| life.cpu);
        let before = number.zip(cpu).and_then(|(number, cpu)| self.watch.cpu.insert(number, cpu));
        let new = cpu.zip(before).map(|(cpu, before)| cpu.saturating_sub(before));
        let host = self.jobs.get(&job.0).map(|job| job.plan.host.clone());
        let spoken = self.service.spoken(job, rank);
        let (last, ago) = spoken.last.unzip();
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
            messages: spoken.messages,
            last_message: last.map(|last| last.name()),
            last_message_is_answer: last.is_some_and(|last| last.direction == Direction::ToClient),
            last_message_seconds: ago.map(seconds),
        }
    }

    fn started(&self, job: JobId, rank: u32) -> Option<&ProcessEntry> {
        self.process_of(job, rank).map(|number| &self.processes[index(number)])
    }
}

/// Delay of the reminder, long enough for ranks that terminate on request.
const REMINDER: Duration = Duration::from_secs(1);

/// Maximum number of unread tables; more would add nothing.
const UNREAD_MAX: usize = 4;
