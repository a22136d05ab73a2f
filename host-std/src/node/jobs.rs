//! Jobs of a run, and those whose ranks are not all started.

use crate::launch::plan::job::Plan;
use crate::launch::start::launcher::PreparedProgram;
use pmi_core::ids::JobId;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// All jobs that are known: the first one, and those that come from it.
pub(super) struct Jobs {
    /// The job from which all others come.
    first: JobId,
    /// By job number.
    all: BTreeMap<u32, JobState>,
    /// Jobs with ranks that are not started yet; the first one is being started.
    starts: VecDeque<Start>,
    /// Number of spawned jobs; names of new ones continue from it.
    spawned_count: u32,
}

/// State of one job.
pub(super) struct JobState {
    pub(super) plan: Rc<Plan>,
    /// Process number of the first rank of this node; its other ranks follow.
    first_process: u32,
    pub(super) started_count: u32,
    pub(super) running_count: u32,
    /// True if the job was not started completely, or a rank terminated it: its processes are killed, which
    /// is no failure.
    is_unwanted: bool,
    /// True if two puts of one key by different ranks were reported.
    is_put_twice_reported: bool,
}

/// A job with ranks that are not started yet.
pub(super) struct Start {
    pub(super) job: JobId,
    /// Number of the job, as labels and file names have it.
    pub(super) group: u32,
    pub(super) plan: Rc<Plan>,
    /// Local rank of the next rank.
    pub(super) local_rank: u32,
    /// Executable of the previous rank, with the number of its part.
    pub(super) exec: Option<(usize, PreparedProgram)>,
}

impl Jobs {
    /// Creates the table without the first job, which is enqueued as any other.
    pub(super) fn new(first: JobId) -> Self {
        Self { first, all: BTreeMap::new(), starts: VecDeque::new(), spawned_count: 0 }
    }

    /// Adds a job whose ranks are to be started. `group` is its number in labels and file names.
    pub(super) fn enqueue(&mut self, (job, group): (JobId, u32), plan: Plan) {
        let plan = Rc::new(plan);
        let state = JobState {
            plan: Rc::clone(&plan),
            // Set when the first rank starts.
            first_process: 0,
            started_count: 0,
            running_count: 0,
            is_unwanted: false,
            is_put_twice_reported: false,
        };
        self.all.insert(job.0, state);
        self.spawned_count = self.spawned_count.max(group);
        if plan.local() > 0 {
            self.starts.push_back(Start { job, group, plan, local_rank: 0, exec: None });
        }
    }

    /// Job whose next rank is to be started; it goes back with [`resume`](Self::resume) unless that was
    /// the last one.
    pub(super) fn next_start(&mut self) -> Option<Start> {
        self.starts.pop_front()
    }

    /// Continues the start of a job before that of all others.
    pub(super) fn resume(&mut self, start: Start) {
        self.starts.push_front(start);
    }

    /// Drops the ranks of a job that are not started yet.
    pub(super) fn clear_starts_of(&mut self, job: JobId) {
        self.starts.retain(|start| start.job != job);
    }

    /// Drops all ranks that are not started yet.
    pub(super) fn clear_starts(&mut self) {
        self.starts.clear();
    }

    /// Counts a started rank, whose process has this number. Ranks start in ascending order.
    pub(super) fn note_start(&mut self, job: JobId, process: u32) {
        if let Some(job) = self.all.get_mut(&job.0) {
            if job.started_count == 0 {
                job.first_process = process;
            }
            job.started_count += 1;
            job.running_count += 1;
        }
    }

    /// Counts a rank that has exited.
    pub(super) fn note_exit(&mut self, job: JobId) {
        if let Some(job) = self.all.get_mut(&job.0) {
            job.running_count -= 1;
        }
    }

    /// Marks a job whose processes are killed on purpose: their exits are no failures.
    pub(super) fn set_unwanted(&mut self, job: JobId) {
        if let Some(job) = self.all.get_mut(&job.0) {
            job.is_unwanted = true;
        }
    }

    /// Plan of a job in which one key was put by two ranks, the first time only.
    pub(super) fn first_put_twice(&mut self, job: JobId) -> Option<&Plan> {
        let job = self.all.get_mut(&job.0)?;
        let is_reported = std::mem::replace(&mut job.is_put_twice_reported, true);
        (!is_reported).then_some(&*job.plan)
    }

    /// Forgets a spawned job that has ended.
    pub(super) fn forget(&mut self, job: JobId) {
        self.all.remove(&job.0);
    }

    /// The job from which all others come.
    pub(super) fn first(&self) -> JobId {
        self.first
    }

    /// Number of the next spawned job, in labels and file names.
    pub(super) fn next_group(&self) -> u32 {
        self.spawned_count + 1
    }

    pub(super) fn get(&self, job: JobId) -> Option<&JobState> {
        self.all.get(&job.0)
    }

    pub(super) fn plan(&self, job: JobId) -> Option<&Rc<Plan>> {
        self.get(job).map(|job| &job.plan)
    }

    /// All jobs, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &JobState)> {
        self.all.iter().map(|(id, job)| (JobId(*id), job))
    }

    /// Process number of a rank, if it was started.
    pub(super) fn process_of(&self, job: JobId, rank: u32) -> Option<u32> {
        self.get(job)?.process(rank)
    }

    /// False if the end of the processes of a job is no failure: they are killed on purpose, or daemons.
    pub(super) fn is_wanted(&self, job: JobId) -> bool {
        // The end of a daemon of a debugger is no failure.
        let is_wanted = |job: &JobState| !job.is_unwanted && !job.plan.pairs.directives.are_daemons;
        self.get(job).is_some_and(is_wanted)
    }

    /// True if there are ranks that are not started yet.
    pub(super) fn has_starts(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Number of ranks that are not started yet.
    pub(super) fn waiting_count(&self) -> u32 {
        self.starts.iter().map(Start::left).sum()
    }

    /// Number of running ranks that may be PMIx clients.
    pub(super) fn pmix_ranks(&self) -> u32 {
        let jobs = self.all.values();
        jobs.map(|job| job.plan.pmix_ranks().min(job.running_count)).sum()
    }
}

impl JobState {
    /// Process number of a rank, if it was started.
    pub(super) fn process(&self, rank: u32) -> Option<u32> {
        let local_rank = self.plan.local_rank(rank)?;
        (local_rank < self.started_count).then(|| self.first_process.checked_add(local_rank))?
    }

    /// Ranks that were started, in ascending order.
    pub(super) fn started_ranks(&self) -> impl Iterator<Item = u32> {
        (0..self.started_count).filter_map(|local_rank| self.plan.placement.ranks.at(local_rank))
    }
}

impl Start {
    /// The next rank.
    pub(super) fn rank(&self) -> u32 {
        // One exists as long as there is a start.
        self.plan.placement.ranks.at(self.local_rank).unwrap_or_default()
    }

    /// The next ranks, each with its local rank.
    pub(super) fn next_ranks(&self) -> impl Iterator<Item = (u32, u32)> {
        let local = self.local_rank..self.plan.local();
        local.filter_map(|local| Some((self.plan.placement.ranks.at(local)?, local)))
    }

    /// Number of ranks that are not started yet.
    fn left(&self) -> u32 {
        self.plan.local().saturating_sub(self.local_rank)
    }
}
