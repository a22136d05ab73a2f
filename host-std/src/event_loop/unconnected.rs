//! Detection of ranks that run as singletons: many copies of "rank 0 of 1" instead of one job.

use super::jobs::Jobs;
use super::processes::Processes;
use super::status::RunView;
use crate::launch::environment::singletons::{self, MpiSingleton};
use crate::launch::plan::job::Plan;
use crate::poller::{Interest, Poller, Token};
use crate::report;
use crate::server::service::Service;
use crate::settings::ending::OnSingletons;
use crate::verdict::PmiPhase;
use pmi_core::ids::JobId;
use pmi_host_base::library::Libraries;
use pmi_host_base::program::Program;
use pmi_host_base::ranges::Ranks;
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Watches running ranks that have sent no message, for MPI processes that cannot find the launcher.
///
/// The looks become rare: after a moment, the next one follows after a quarter of the time since the last
/// start, and after a multiple of the time that the last one took. A process may begin and end between two of
/// them. So the system reports when a process of the machine reads the description of a processor, as
/// `MPI_Init` does early, and the looks become frequent for another moment.
#[derive(Debug, Default)]
pub(super) struct UnconnectedWatch {
    /// Number of processes at the last look, and the time at which it was new.
    started: (usize, Option<Instant>),
    look_at: Option<Instant>,
    /// Reports reads of the description; `None` in a short run, without a rank that may start an MPI program,
    /// and where the system has no such reports.
    inits: Option<OwnedFd>,
    /// Last time at which a process is known to have read it.
    init_at: Option<Instant>,
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
            // Many ranks take turns on the processors, and most of them connect meanwhile.
            let ranks = u32::try_from(self.started.0).unwrap_or(u32::MAX);
            let later = LATER_FOR_EACH.saturating_mul(ranks).min(LAST_LOOK);
            self.look_at = looks.then(|| now + FIRST_LOOK + later);
        }
    }

    /// Notes that a process has read the description of a processor.
    pub(super) fn note_init(&mut self, now: Instant) {
        let Some(inits) = &self.inits else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inits, &mut buffer);
        while events.next().is_ok() {
            self.init_at = Some(now);
        }
        // Nothing is due once no rank is watched.
        self.look_at = self.look_at.map(|at| at.min(now + INIT_LOOK));
    }

    /// Looks at ranks that have sent no message, if it is time. Returns a report as soon as all ranks of
    /// the first job on this node are singletons.
    pub(super) fn check(
        &mut self,
        now: Instant,
        RunView { jobs, processes, service }: RunView<'_>,
        poller: &Poller,
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
        let mut is_any_watched = false;
        for entry in processes.iter().filter(|entry| entry.process.is_some()) {
            let who = (entry.job, entry.rank);
            let Some(plan) = jobs.plan(entry.job).filter(|plan| plan.ranks > 1) else { continue };
            let offer = plan.offer(plan.appnum(entry.rank));
            // An MPI program that the launcher itself has started has all variables.
            if !offer.may_load_pmi1 || service.phase(entry.job, entry.rank) != PmiPhase::Silent {
                continue;
            }
            is_any_watched = true;
            if !self.found.contains_key(&who) {
                let found = singletons::below(entry.pid, offer, link);
                self.found.extend(found.map(|found| (who, found)));
            }
        }
        let since = self.started.1.map_or(Duration::ZERO, |at| now - at);
        if is_any_watched && since >= REPORTED && self.inits.is_none() {
            self.inits = watch_inits(poller).ok();
        }
        let took = processor_time().saturating_sub(begun);
        let is_init = self.init_at.is_some_and(|at| now - at < INIT);
        let wait = match is_init || since < INIT {
            true => INIT_LOOK.max(took * SPARED_IN_INIT),
            false => (since / 4).clamp(FIRST_LOOK, LAST_LOOK).max(took * SPARED),
        };
        self.look_at = is_any_watched.then(|| now + wait);
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

/// Processor time of this thread so far. The time on the clock is longer on a busy machine, where looks must
/// not become rarer for that.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Asks the system to report reads of the description of a processor.
///
/// # Errors
///
/// Those of the system.
fn watch_inits(poller: &Poller) -> io::Result<OwnedFd> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let source = inotify::init(flags)?;
    inotify::add_watch(&source, PROCESSOR, inotify::WatchFlags::OPEN)?;
    poller.add(Token::MpiInit, &source, Interest::Read)?;
    Ok(source)
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
        let libraries = Libraries::of(&path)?;
        let (mpi, family) = (libraries.mpi()?, libraries.family()?);
        Some(report::singletons(plan, &silent, part.program.name.display(), mpi, family))
    });
    parts.collect()
}

/// Time from a start to the first look; `MPI_Init` takes longer.
const FIRST_LOOK: Duration = Duration::from_millis(5);

/// Time by which it is later for each rank.
const LATER_FOR_EACH: Duration = Duration::from_micros(250);

/// Longest time between two looks.
const LAST_LOOK: Duration = Duration::from_secs(10);

/// Ratio of the time between two looks to that of one.
const SPARED: u32 = 50;

/// Time by which a wrapper that does nothing else outlives its MPI process.
const OUTLIVED: Duration = Duration::from_millis(200);

/// Description of a processor, which MPI libraries read to learn the topology of the machine.
const PROCESSOR: &str = "/sys/devices/system/cpu/cpu0/topology";

/// Time from a start, or a read of the description, in which a process may call `MPI_Init` and end.
const INIT: Duration = Duration::from_millis(200);

/// Age of a run from which reads are reported. Closing the source of the reports takes up to 15 ms, since the
/// kernel waits for all processors.
const REPORTED: Duration = Duration::from_millis(100);

/// Time between two looks then: short against `MPI_Init`.
const INIT_LOOK: Duration = Duration::from_millis(2);

/// Ratio of that time to that of a look.
const SPARED_IN_INIT: u32 = 8;
