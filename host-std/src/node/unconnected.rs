//! Detection of ranks that run as singletons: many copies of "rank 0 of 1" instead of one job.

use super::jobs::Jobs;
use super::processes::Processes;
use super::status::RunView;
use crate::launch::environment::singletons::{self, MpiSingleton};
use crate::launch::plan::job::Plan;
use crate::launch::plan::program_environment;
use crate::report;
use crate::server::service::Service;
use crate::settings::ending::OnSingletons;
use crate::verdict::PmiPhase;
use pmi_core::ids::JobId;
use pmi_host_base::library::Libraries;
use pmi_host_base::program::Program;
use pmi_host_base::ranges::Ranks;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Watches running ranks that have sent no message, for MPI processes that cannot find the launcher.
///
/// They are frequent for a moment after a start, in which a short program begins and ends. Then the next
/// look follows after a quarter of the time since the last start, and after a multiple of the time that the
/// last one took. Programs whose files settle what they are offered connect before the first look at them,
/// which finds those that have loaded another library than the one by which they were judged.
#[derive(Debug, Default)]
pub(super) struct UnconnectedWatch {
    /// Number of processes at the last look, and the time at which it was new.
    started: (usize, Option<Instant>),
    look_at: Option<Instant>,
    found: BTreeMap<(JobId, u32), MpiSingleton>,
    /// True once all ranks of the first job were reported.
    is_reported: bool,
    on_singletons: OnSingletons,
}

impl UnconnectedWatch {
    pub(super) fn new(on_singletons: OnSingletons) -> Self {
        Self { on_singletons, ..Self::default() }
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// Notes that ranks may have been started.
    pub(super) fn note_starts(&mut self, now: Instant, processes: &Processes) {
        if self.started.0 != processes.started_count() {
            self.started = (processes.started_count(), Some(now));
            let looks = self.on_singletons == OnSingletons::Fail;
            self.look_at = looks.then(|| now + FIRST_LOOK + later(self.started.0));
        }
    }

    /// Looks at ranks that have sent no message, if it is time. Returns a report as soon as all ranks of
    /// the first job on this node are singletons.
    pub(super) fn check(
        &mut self,
        now: Instant,
        RunView { jobs, processes, service }: RunView<'_>,
    ) -> Option<String> {
        self.look_at.take_if(|at| now >= *at)?;
        let begun = processor_time();
        let runs = |who: &(JobId, u32)| {
            let mut running = processes.iter().filter(|entry| entry.process.is_some());
            let rank = running.find(|entry| (entry.job, entry.rank) == *who);
            rank.is_some_and(|entry| singletons::is_alive(entry.pid))
        };
        // A rank that outlives its MPI process does other work as well.
        self.found.retain(|who, found| {
            if singletons::is_alive(found.pid) || !runs(who) {
                return true;
            }
            now - *found.exited_at.get_or_insert(now) < OUTLIVED
        });
        let link = processes.launcher.link_number();
        let since = self.started.1.map_or(Duration::ZERO, |at| now - at);
        let settled_from = SETTLED_LOOK + later(self.started.0);
        let (mut is_any_watched, mut is_any_settled) = (false, false);
        for entry in processes.iter().filter(|entry| entry.process.is_some()) {
            let who = (entry.job, entry.rank);
            let Some(plan) = jobs.plan(entry.job).filter(|plan| plan.ranks > 1) else { continue };
            let offer = plan.offer(plan.appnum(entry.rank));
            let is_settled = !offer.may_load_pmi1;
            if (is_settled && !offer.may_link_mpi)
                || service.phase(entry.job, entry.rank) != PmiPhase::Silent
            {
                continue;
            }
            is_any_settled |= is_settled;
            if is_settled && since < settled_from {
                continue;
            }
            is_any_watched |= !is_settled;
            if !self.found.contains_key(&who) {
                let found = singletons::below(entry.pid, offer, link);
                self.found.extend(found.map(|found| (who, found)));
            }
        }
        let took = processor_time().saturating_sub(begun);
        let wait = match since < SHORT {
            true => (since / 64).max(CLOSE_LOOKS).max(took * SPARED_CLOSE),
            false => (since / 4).clamp(FIRST_LOOK, LAST_LOOK).max(took * SPARED),
        };
        // Most of these have connected before the first look at them, and there is no hurry about the others.
        let settled_wait = (settled_from.saturating_sub(since)).max(since / 4).max(took * SPARED);
        self.look_at = match (is_any_watched, is_any_settled) {
            (true, _) => Some(now + wait),
            (false, true) => Some(now + settled_wait.min(LAST_LOOK)),
            (false, false) => None,
        };
        let first = jobs.first();
        let plan = jobs.plan(first)?;
        if self.is_reported || !self.are_all(first, plan, service) {
            return None;
        }
        self.is_reported = true;
        let found = self.found.get(&(first, plan.placement.ranks.iter().next()?))?;
        Some(report::all_singletons(plan, found))
    }

    /// True if all ranks of a job on this node are singletons.
    fn are_all(&self, id: JobId, plan: &Plan, service: &Service) -> bool {
        let ranks = &plan.placement.ranks;
        // Ranks that connect by themselves have no process here.
        ranks.count() > 0 && ranks.iter().all(|rank| self.is_singleton((id, rank), service))
    }

    /// True if a rank has run as a singleton to its end.
    pub(super) fn is_singleton(&self, who: (JobId, u32), service: &Service) -> bool {
        self.found.contains_key(&who) && service.phase(who.0, who.1) == PmiPhase::Silent
    }

    /// Reports of ranks that are linked with MPI, have exited well and never connected. Each was a job of
    /// its own then, which is never intended.
    pub(super) fn reports(&self, jobs: &Jobs, service: &Service) -> Vec<String> {
        let reported = jobs.first();
        let jobs = jobs.iter().filter(|(id, _)| !(self.is_reported && *id == reported));
        jobs.flat_map(|(id, job)| of_job(id, &job.plan, service)).collect()
    }
}

/// Time by which this number of ranks connects later: many ranks take turns on the processors.
fn later(ranks: usize) -> Duration {
    let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
    LATER_FOR_EACH.saturating_mul(ranks).min(LAST_LOOK)
}

/// Processor time of this thread so far. The time on the clock is longer on a busy machine, where looks must
/// not become rarer for that.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn of_job(id: JobId, plan: &Plan, service: &Service) -> Vec<String> {
    // A singleton is correct for a job of one rank.
    if plan.ranks < 2 {
        return Vec::new();
    }
    let is_silent = |rank: &u32| {
        plan.local_rank(*rank).is_some() && service.phase(id, *rank) == PmiPhase::Silent
    };
    let mut first = 0;
    let parts = plan.parts.iter().enumerate().filter_map(|(number, part)| {
        let ranks = first..first + part.ranks;
        first = ranks.end;
        if !plan.offer(number).may_link_mpi {
            return None;
        }
        let silent: Ranks = ranks.filter(is_silent).collect();
        if silent.is_empty() {
            return None;
        }
        let Program { path, directory, .. } = &part.program;
        // A relative path is relative to the directory the program starts in.
        let path = directory.as_ref().map_or(path.clone(), |directory| directory.join(path));
        let environment = program_environment::composed(&part.program, &plan.environment);
        let libraries = Libraries::found_by(&path, &environment.search(&part.program))?;
        let (mpi, family) = (libraries.mpi()?, libraries.family()?);
        Some(report::singletons(plan, &silent, part.program.name.display(), mpi, family))
    });
    parts.collect()
}

/// Time from a start to the first look; `MPI_Init` takes longer.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Time from the last start to the first look at programs that are offered one protocol: by then most of
/// them have connected.
const SETTLED_LOOK: Duration = Duration::from_millis(250);

/// Time by which it is later for each rank.
const LATER_FOR_EACH: Duration = Duration::from_micros(250);

/// Longest time between two looks.
const LAST_LOOK: Duration = Duration::from_secs(10);

/// Ratio of the time between two looks to that of one.
const SPARED: u32 = 50;

/// Time by which a wrapper that does nothing else outlives its MPI process.
const OUTLIVED: Duration = Duration::from_millis(200);

/// Time from a start in which a short program begins and ends.
const SHORT: Duration = Duration::from_millis(700);

/// Shortest time between two looks then: short against `MPI_Init`.
const CLOSE_LOOKS: Duration = Duration::from_millis(2);

/// Ratio of the time between two of them to that of one.
const SPARED_CLOSE: u32 = 8;
