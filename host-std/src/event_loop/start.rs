//! Start of ranks, one at a time, job after job, and spawn requests of running ranks.

use super::{EventLoop, JobState, ProcessEntry};
use crate::launch::codes::Commands;
use crate::launch::descriptors::FdBudget;
use crate::launch::plan::Plan;
use crate::launch::process::{self, Exec, Process, start_code};
use crate::launch::spawn_request::SpawnRequest;
use crate::poller::{Interest, Token};
use crate::report;
use crate::server::event::Asked;
use crate::stdio::{StreamOwner, index};
use crate::stream::Stream;
use crate::trace::Who;
use crate::verdict::Failure;
use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_core::ids::JobId;
use pmi_trace::What;
use rustix::process::Signal;
use std::fmt::Display;
use std::io;
use std::rc::Rc;

/// A job with ranks that are not started yet.
pub(super) struct Start {
    job: JobId,
    /// Number of the job, as labels and file names have it.
    group: u32,
    plan: Rc<Plan>,
    /// The next rank.
    rank: u32,
    /// Executable of the previous rank, with the number of its part.
    exec: Option<(usize, Exec)>,
    /// Rank that waits for the start; `None` for the first job.
    spawner: Option<Spawner>,
}

/// A rank that waits for the job it has requested.
pub(super) struct Spawner {
    job: JobId,
    rank: u32,
    asked: Asked,
    /// Requested commands, and the codes returned for them.
    commands: Commands,
}

impl Start {
    /// Number of ranks that are not started yet.
    pub(super) fn left(&self) -> u64 {
        u64::from(self.plan.local().saturating_sub(self.rank))
    }
}

impl EventLoop {
    /// Adds a job whose ranks are to be started.
    pub(super) fn enqueue(
        &mut self,
        (id, group): (JobId, u32),
        plan: Plan,
        spawner: Option<Spawner>,
    ) {
        let plan = Rc::new(plan);
        let job = JobState {
            plan: Rc::clone(&plan),
            // Set when the first rank starts.
            first_process: 0,
            started_count: 0,
            running_count: 0,
            is_unwanted: false,
            put_twice_said: false,
        };
        self.jobs.insert(id.0, job);
        if plan.local() == 0 {
            return;
        }
        self.starts.push_back(Start { job: id, group, plan, rank: 0, exec: None, spawner });
    }

    /// Starts the next rank, if there is one. Returns true if it did: responses may be due then, so the
    /// loop must not wait.
    pub(super) fn start_next(&mut self) -> io::Result<bool> {
        if self.failure.is_some() {
            self.starts.clear();
        }
        let Some(mut start) = self.starts.pop_front() else {
            self.launcher.rest()?;
            return Ok(false);
        };
        match self.start_rank(&mut start) {
            Ok(started) => {
                self.add(&start, started)?;
                start.rank += 1;
                if start.rank < start.plan.local() {
                    self.starts.push_front(start);
                } else if let Some(Spawner { asked, commands, .. }) = start.spawner {
                    self.service.answer_spawn(asked, Ok(start.job), &commands.done());
                    if self.pmix.is_some() {
                        self.service.tell_job_start(start.job);
                    }
                }
            }
            Err(error) => self.handle_start_failure(start, &error),
        }
        if self.starts.is_empty() {
            self.launcher.rest()?;
        }
        Ok(true)
    }

    /// Accepts or rejects a spawn request; the rank gets a response either way, and its job continues.
    pub(super) fn handle_spawn(
        &mut self,
        (job, rank): (JobId, u32),
        request: SpawnRequest,
        asked: Asked,
    ) {
        let Some(JobState { plan, .. }) = self.jobs.get(&job.0).filter(|_| self.failure.is_none())
        else {
            return self.service.answer_spawn(asked, Err(Code::FAIL), &[]);
        };
        let plan = Rc::clone(plan);
        let waiting: u32 = self.starts.iter().map(|start| start.plan.local() - start.rank).sum();
        let busy = u32::try_from(self.running_count).unwrap_or(u32::MAX).saturating_add(waiting);
        let room = self.launcher.limit.most().saturating_sub(busy);

        let SpawnRequest { preputs, .. } = &request;
        let preputs = preputs.clone();
        let who = (job, rank, asked);
        let (parts, commands) = match request.resolve(&plan.host, room) {
            Ok(resolved) => resolved,
            Err((refusal, codes)) => return self.refuse(who, (refusal.code(), &codes), refusal),
        };
        let count = self.spawned_count + 1;
        let parent = plan;
        let mut plan = parent.spawned(parts, preputs, (std::process::id(), count));
        plan.spawner_rank = rank;
        plan.neighbours = busy;
        plan.dial = match (&mut self.dial_in, &parent.dial) {
            (Some(dial_in), Some(dial)) => Some(dial_in.dial_again(dial, plan.ranks)),
            _ => None,
        };
        if let Err(error) = Self::open_for(&mut self.pmix, &mut plan, &self.poller) {
            return self.refuse(who, (Code::FAIL, &[]), error);
        }
        // If some ranks may speak PMIx, so may any that run already.
        let pmix = plan.pmix_ranks() + self.pmix.as_ref().map_or(0, |_| busy);
        let budget = FdBudget { ranks: busy + plan.ranks, pmix };
        if let Err(error) = self.launcher.limit.raise_for(budget) {
            return self.refuse(who, (Code::NOMEM, &[]), error);
        }
        if let Err(error) = self.outputs.prepare(count, plan.local()) {
            return self.refuse(who, (Code::FAIL, &[]), error);
        }
        match self.service.add_job(&plan) {
            Ok(id) => {
                self.spawned_count = count;
                let spawner = Spawner { job, rank, asked, commands };
                self.enqueue((id, count), plan, Some(spawner));
            }
            Err(error) => self.refuse(who, (Code::FAIL, &[]), error),
        }
    }

    fn start_rank(&mut self, start: &mut Start) -> io::Result<process::StartedRank> {
        let number = start.plan.appnum(start.rank);
        if start.exec.as_ref().is_none_or(|(of, _)| *of != number) {
            let exec = self.launcher.prepare(&start.plan, number)?;
            start.exec = Some((number, exec));
        }
        match &mut start.exec {
            Some((_, exec)) => {
                let streams =
                    self.inputs.open(StreamOwner { group: start.group, rank: start.rank })?;
                self.launcher.start(&start.plan, exec, (start.rank, start.rank), streams)
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn add(&mut self, start: &Start, started: process::StartedRank) -> io::Result<()> {
        let process::StartedRank { process, link, output, errors } = started;
        let (job, rank) = (start.job, start.rank);
        let number = self.watch((job, rank), process, &start.plan.host)?;
        self.inputs.add(number, &self.poller)?;
        let place = (number, StreamOwner { group: start.group, rank });
        if let Some(output) = output {
            self.outputs.add(place, Stream::Out, output, &self.poller)?;
        } else if let Some(master) = self.inputs.begin(number, &self.poller)? {
            self.outputs.add_terminal(place, master, &self.poller)?;
            self.outputs.set_raw(self.inputs.raw_for());
        }
        if let Some(errors) = errors {
            self.outputs.add(place, Stream::Err, errors, &self.poller)?;
        }
        self.service.add_member((job, rank), link.into(), &self.poller)
    }

    /// Registers a process as a rank, and returns its number.
    pub(super) fn watch(
        &mut self,
        (id, rank): (JobId, u32),
        process: Process,
        host: &str,
    ) -> io::Result<u32> {
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        if let Some(job) = self.jobs.get_mut(&id.0) {
            if rank == 0 {
                job.first_process = number;
            }
            job.started_count += 1;
            job.running_count += 1;
        }
        self.poller.add(Token::Exit(number), process.handle(), Interest::Read)?;
        let pid = process.pid();
        if let Some(guard) = self.launcher.guard.as_ref().filter(|_| process.is_ours()) {
            guard.report_start(pid);
        }
        if let Some(job) = self.jobs.get(&id.0) {
            self.ends.enter_start(Rc::clone(&job.plan), rank, pid);
        }
        self.processes.push(ProcessEntry { job: id, rank, pid, process: Some(process) });
        let (pid, host) = (pid.unsigned_abs(), host.to_owned());
        self.service.tracer.event(Who::rank(id.0, rank), What::Started { pid, host });
        self.running_count += 1;
        Ok(number)
    }

    /// Handles a rank that could not be started: the first job fails, a spawned one is undone.
    fn handle_start_failure(&mut self, start: Start, error: &io::Error) {
        let Start { job: id, group, rank, spawner, .. } = start;
        let failure = Failure::Start { rank, code: start_code(error), why: error.to_string() };
        let (Some(spawner), Some(job)) = (spawner, self.jobs.get_mut(&id.0)) else {
            return self.fail(id, failure);
        };
        job.is_unwanted = true;
        self.outputs.expect_nobody_else(Some(group));
        let (first, count) = (index(job.first_process), index(job.started_count));
        for started in self.processes.iter().skip(first).take(count) {
            if let Some(process) = &started.process {
                process.signal(Signal::KILL);
            }
        }
        let why = report::failure(&failure, &job.plan, |_| None, 0);
        let codes = spawner.commands.refused(spawner.commands.of_rank(rank), Code::FAIL);
        self.refuse((spawner.job, spawner.rank, spawner.asked), (Code::FAIL, &codes), why);
        self.check_job_ended(id);
        self.check_all_ended();
    }

    /// Reports to the user, and answers to the requesting rank, why nothing was spawned.
    fn refuse(
        &mut self,
        (job, rank, asked): (JobId, u32, Asked),
        (code, codes): (Code, &[CodeRun]),
        why: impl Display,
    ) {
        if let Some(JobState { plan, .. }) = self.jobs.get(&job.0) {
            let pid = self.pid(job, rank);
            self.outputs.say(report::not_spawned(plan, (rank, pid), why));
        }
        self.service.answer_spawn(asked, Err(code), codes);
    }
}
