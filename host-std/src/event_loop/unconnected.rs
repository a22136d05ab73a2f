//! Detection of ranks that run as singletons: many copies of "rank 0 of 1" instead of one job.

use super::jobs::Jobs;
use super::processes::{ProcessEntry, Processes};
use super::status::RunView;
use crate::launch::plan::Plan;
use crate::launch::singletons::{self, MpiSingleton, NamedProgram};
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
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Watches running ranks that have sent no message, for MPI processes that cannot find the launcher.
///
/// The looks become rare: the next one follows after a quarter of the time since the last start, and after
/// a multiple of the time that the last one took. A process may begin and end between two of them. So for MPI
/// programs that the command of a rank names, the system reports openings of their library and of the
/// description of a processor, which `MPI_Init` reads; a rank that exits soon after both, and never spoke,
/// was a singleton.
#[derive(Debug, Default)]
pub(super) struct UnconnectedWatch {
    /// Number of processes at the last look, and the time at which it was new.
    started: (usize, Option<Instant>),
    look_at: Option<Instant>,
    /// Openings of files, if MPI programs are named.
    openings: Option<Openings>,
    found: BTreeMap<(JobId, u32), MpiSingleton>,
    /// True once all ranks of the first job were reported.
    is_reported: bool,
    on_singletons: OnSingletons,
}

/// Watch for files that MPI programs open.
#[derive(Debug)]
struct Openings {
    source: OwnedFd,
    /// The watch of the description of a processor.
    topology: i32,
    named: Vec<NamedProgram>,
    /// True once a library was opened.
    is_loaded: bool,
    /// Time at which the description was last seen to be opened after that.
    begun_at: Option<Instant>,
}

impl Openings {
    /// Watches the libraries of `named`.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn watch(named: Vec<NamedProgram>, poller: &Poller) -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let source = inotify::init(flags)?;
        for library in BTreeSet::from_iter(named.iter().map(|named| &named.library)) {
            inotify::add_watch(&source, library, inotify::WatchFlags::OPEN)?;
        }
        let topology = inotify::add_watch(&source, PROCESSOR, inotify::WatchFlags::OPEN)?;
        poller.add(Token::LibraryOpened, &source, Interest::Read)?;
        Ok(Self { source, topology, named, is_loaded: false, begun_at: None })
    }

    /// Reads what the system reports.
    fn read(&mut self, now: Instant) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.source, &mut buffer);
        while let Ok(event) = events.next() {
            if event.wd() != self.topology {
                self.is_loaded = true;
            } else if self.is_loaded {
                self.begun_at = Some(now);
            }
        }
    }
}

impl UnconnectedWatch {
    pub(super) fn new(on_singletons: OnSingletons) -> Self {
        Self { on_singletons, ..Self::default() }
    }

    /// Watches for MPI programs that the commands of `plan` name.
    pub(super) fn watch_programs(&mut self, plan: &Plan, poller: &Poller) {
        if self.on_singletons != OnSingletons::Fail || plan.ranks < 2 {
            return;
        }
        let parts = plan.parts.iter().enumerate();
        let parts = parts.filter(|(number, _)| plan.offer(*number).may_load_pmi1);
        let named: Vec<NamedProgram> =
            parts.flat_map(|(_, part)| singletons::named_by(&part.program)).collect();
        if !named.is_empty() {
            // Where the system has no such watches left, the other looks have to do.
            self.openings = Openings::watch(named, poller).ok();
        }
    }

    /// Notes that files were opened.
    pub(super) fn note_opened(&mut self, now: Instant) {
        if let Some(openings) = &mut self.openings {
            openings.read(now);
        }
    }

    /// Notes that the process of a rank has exited, which was not reaped.
    pub(super) fn note_exit(
        &mut self,
        now: Instant,
        entry: &ProcessEntry,
        (jobs, service): (&Jobs, &Service),
    ) {
        self.note_opened(now);
        let Some(Openings { named, begun_at: Some(begun_at), .. }) = &self.openings else { return };
        let who = (entry.job, entry.rank);
        let Some(plan) = jobs.plan(entry.job).filter(|plan| plan.ranks > 1) else { return };
        let offer = plan.offer(plan.appnum(entry.rank));
        // A rank that runs for longer does other work as well, or was seen.
        let is_short = now.saturating_duration_since(*begun_at) < SHORT;
        let is_silent = service.phase(entry.job, entry.rank) == PmiPhase::Silent;
        if is_short && is_silent && offer.may_load_pmi1 && !self.found.contains_key(&who) {
            let found = singletons::of_exited(entry.pid, offer, named);
            self.found.extend(found.map(|found| (who, found)));
        }
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

    /// Looks at ranks that have sent no message, if it is time. Returns a report as soon as all ranks of
    /// the first job on this node are singletons.
    pub(super) fn check(
        &mut self,
        now: Instant,
        RunView { jobs, processes, service }: RunView<'_>,
    ) -> Option<String> {
        self.look_at.take_if(|at| now >= *at)?;
        let runs = |who: &(JobId, u32)| {
            let mut running = processes.iter().filter(|entry| entry.process.is_some());
            let rank = running.find(|entry| (entry.job, entry.rank) == *who);
            rank.is_some_and(|entry| singletons::is_alive(entry.pid))
        };
        // A rank that outlives its MPI process from one look to the next does other work as well.
        self.found.retain(|who, found| {
            let has_exited = !singletons::is_alive(found.pid) && runs(who);
            !(std::mem::replace(&mut found.has_exited, has_exited) && has_exited)
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
        let since = self.started.1.map_or(FIRST_LOOK, |at| now - at) / 4;
        let wait = since.clamp(FIRST_LOOK, LAST_LOOK).max(now.elapsed() * SPARED);
        self.look_at = is_any_watched.then(|| now + wait);
        self.report_all(jobs, service)
    }

    /// Report on the first job, once, if all of its ranks on this node are singletons.
    fn report_all(&mut self, jobs: &Jobs, service: &Service) -> Option<String> {
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
    pub(super) fn reports(&mut self, jobs: &Jobs, service: &Service) -> Vec<String> {
        let all = self.report_all(jobs, service);
        let reported = jobs.first();
        let jobs = jobs.iter().filter(|(id, _)| !(self.is_reported && *id == reported));
        all.into_iter().chain(jobs.flat_map(|(id, job)| of_job(id, &job.plan, service))).collect()
    }
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

/// Longest time from `MPI_Init` to the end of a rank that looks may miss: by then they are frequent enough.
const SHORT: Duration = Duration::from_secs(1);

/// Description of a processor, which MPI libraries read to learn the topology of the machine.
const PROCESSOR: &str = "/sys/devices/system/cpu/cpu0/topology";

/// Ratio of the time between two looks to that of one.
const SPARED: u32 = 50;
