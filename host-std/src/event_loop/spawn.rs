//! Start of ranks, batch by batch, job after job, and spawn requests of running ranks.
//!
//! A spawn request becomes processes in three steps: [`Spawning::handle_request`] resolves it to a plan and
//! enqueues the job, [`Spawning::start_next`] starts its ranks in later turns of the loop, and the response
//! to the requesting rank follows the last of them.

use super::io::{Io, RankPipes};
use super::jobs::{Jobs, Spawner, Start};
use super::listeners::Listeners;
use super::processes::Processes;
use super::summary::Summary;
use crate::launch::plan::debugger_daemons::place_daemons;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::launch::start::batch::BATCH_MAX;
use crate::launch::start::descriptors::FdBudget;
use crate::launch::start::launcher::{PreparedRank, StartedRank};
use crate::launch::start::process::Process;
use crate::launch::start::start_error::start_code;
use crate::poller::Poller;
use crate::report;
use crate::server::event::PendingSpawn;
use crate::server::service::Service;
use crate::stdio::StreamOwner;
use crate::stdio::forward::{OutputDelivery, OutputPull};
use crate::stdio::inputs::{InputWriter, RankInput};
use crate::stdio::pushed::PushedInputs;
use crate::trace::TraceSource;
use crate::verdict::Failure;
use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_core::ids::JobId;
use pmi_trace::Content;
use rustix::process::Signal;
use std::fmt::Display;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// The parts of a run that take part in a start.
pub(super) struct Spawning<'a> {
    pub(super) jobs: &'a mut Jobs,
    pub(super) processes: &'a mut Processes,
    pub(super) io: &'a mut Io,
    pub(super) service: &'a mut Service,
    pub(super) summary: &'a mut Summary,
    pub(super) poller: &'a mut Poller,
}

/// Result of starting a rank.
#[derive(Debug)]
pub(super) enum StartEvent {
    /// Ranks were started: responses may be due, so the loop must not wait.
    Started,
    /// A rank of the first job could not be started.
    Failed { job: JobId, failure: Failure },
    /// A rank of this spawned job could not be started, so the others are killed; the requesting rank has
    /// its response.
    Undone(JobId),
    /// All ranks of a job were started, and its daemons are to be.
    Daemons(Requester, Box<SpawnRequest>),
}

/// A rank that was started, and the writing end of its standard input.
type Started = (StartedRank, Option<InputWriter>);

/// A rank that requested to spawn, and its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    pub(super) job: JobId,
    pub(super) rank: u32,
    pub(super) asked: PendingSpawn,
    /// The requested job, if the request is for its daemons.
    pub(super) beside: Option<JobId>,
}

impl Spawning<'_> {
    /// Accepts or rejects a spawn request; the rank gets a response either way, and its job continues.
    pub(super) fn handle_request(
        &mut self,
        who: Requester,
        mut request: SpawnRequest,
        listeners: &mut Listeners,
    ) {
        // A tool has no job that others could be like, and ranks have no parent that they could connect to.
        let is_tool = self.service.is_tool(who.job);
        let like = if is_tool { self.jobs.first() } else { who.job };
        let Some(parent) = self.jobs.plan(like).map(Rc::clone) else {
            return self.service.answer_spawn(who.asked, Err(Code::FAIL), &[]);
        };
        let waiting = self.jobs.waiting_count();
        let running = u32::try_from(self.processes.running_count()).unwrap_or(u32::MAX);
        let busy = running.saturating_add(waiting);
        let room = self.processes.launcher.limit.most().saturating_sub(busy);

        let all = |nspace: &str| {
            let (_, job) = self.jobs.iter().find(|(_, job)| job.plan.kvsname == nspace)?;
            Some(vec![(0, job.plan.local())])
        };
        // All of them are on this host.
        if let Err(why) = place_daemons(&mut request, all) {
            return self.refuse(who, (Code::FAIL, &[]), why);
        }
        let directives = request.directives.clone();
        let daemons = request.daemons.is_some().then(|| request.clone());
        let preputs = request.preputs.clone();
        let deadline = request.timeout().map(|timeout| Instant::now() + timeout);
        let (parts, commands) = match request.resolve(&parent.host, room) {
            Ok(resolved) => resolved,
            Err((refusal, codes)) => return self.refuse(who, (refusal.code(), &codes), refusal),
        };
        let group = self.jobs.next_group();
        let mut plan = parent.spawned(who.rank, parts, preputs, group);
        plan.spawner = plan.spawner.filter(|_| !is_tool);
        plan.pairs.directives = directives;
        plan.placement.neighbours = busy;
        plan.endpoint = listeners.endpoint_of_spawned(&parent, plan.ranks);
        if let Err(error) =
            listeners.open_pmix(&mut plan, self.processes.launcher.guard.as_mut(), self.poller)
        {
            return self.refuse(who, (Code::FAIL, &[]), error);
        }
        // If some ranks may speak PMIx, so may any that run already.
        let pmix = plan.pmix_ranks() + if listeners.has_pmix_ranks() { busy } else { 0 };
        let budget = FdBudget { ranks: busy + plan.ranks, pmix };
        if let Err(error) = self.processes.launcher.limit.raise_for(budget) {
            return self.refuse(who, (Code::NOMEM, &[]), error);
        }
        if let Err(error) = self.io.outputs.prepare(group, plan.local()) {
            return self.refuse(who, (Code::FAIL, &[]), error);
        }
        match self.service.add_job(&plan) {
            Ok(id) => {
                let Requester { job, rank, asked, beside } = who;
                self.poller.allow_spinning(plan.leaves_room_to_spin());
                let guard = self.processes.launcher.guard.as_mut();
                listeners.tools.add_job(plan.kvsname.clone(), guard);
                let forwards = plan.pairs.directives.forwards;
                if is_tool && forwards != [false; 2] {
                    // The library of a tool writes output of request 0 to its own streams.
                    let (sources, delivery) = (vec![(id, None)], OutputDelivery::default());
                    let pull = OutputPull { sources, streams: forwards, reference: 0, delivery };
                    self.io.forwarder.add(asked.session, pull, Instant::now());
                }
                let daemons = daemons.and_then(|mut of| of.take_daemons_of(&plan.kvsname));
                let spawner = Spawner { job, rank, asked, commands, deadline, daemons, beside };
                self.jobs.enqueue((id, group), plan, Some(spawner));
            }
            Err(error) => self.refuse(who, (Code::FAIL, &[]), error),
        }
    }

    /// Starts the next ranks of a job, if there are any.
    ///
    /// # Errors
    ///
    /// Errors of the system that concern the launcher; those of a rank are events.
    pub(super) fn start_next(&mut self, has_pmix: bool) -> io::Result<Option<StartEvent>> {
        let Some(mut start) = self.jobs.next_start() else { return Ok(None) };
        let started = match self.start_ranks(&mut start) {
            Ok(started) => started,
            Err(error) => return Ok(Some(self.undo(start, &error))),
        };
        for rank in started {
            match rank {
                Ok(rank) => self.add_rank(&start, rank)?,
                Err(error) => return Ok(Some(self.undo(start, &error))),
            }
            start.local_rank += 1;
        }
        Ok(Some(self.finish_batch(start, has_pmix)))
    }

    /// Starts a batch: the next ranks that execute the same program.
    fn start_ranks(&mut self, start: &mut Start) -> io::Result<Vec<io::Result<Started>>> {
        let deadline = start.spawner.as_ref().and_then(|spawner| spawner.deadline);
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, LATE));
        }
        let number = start.plan.appnum(start.rank());
        if start.exec.as_ref().is_none_or(|(of, _)| *of != number) {
            start.exec = Some((number, self.processes.launcher.prepare(&start.plan, number)?));
        }
        let same = start.next_ranks().take_while(|(rank, _)| start.plan.appnum(*rank) == number);
        let (mut batch, mut inputs) = (Vec::new(), Vec::new());
        for (rank, local_rank) in same.take(BATCH_MAX) {
            match self.prepare_rank(start, rank, local_rank) {
                Ok((prepared, input)) => {
                    batch.push(prepared);
                    inputs.push(input);
                }
                // Starting a batch frees descriptors of the launcher.
                Err(_) if !batch.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        let Some((_, exec)) = &start.exec else { return Err(io::ErrorKind::NotFound.into()) };
        let started = self.processes.launcher.start(exec, batch)?.into_iter();
        Ok(started.zip(inputs).map(|(rank, input)| Ok((rank?, input))).collect())
    }

    fn prepare_rank(
        &mut self,
        start: &Start,
        rank: u32,
        local_rank: u32,
    ) -> io::Result<(PreparedRank, Option<InputWriter>)> {
        let owner = StreamOwner { group: start.group, rank };
        let reads_pushed = start.plan.pairs.directives.stdin.is_some_and(|of| of.has(rank));
        let RankInput { streams, pipe } = match reads_pushed {
            true => PushedInputs::open()?,
            false => self.io.inputs.open(owner)?,
        };
        Ok((self.processes.launcher.prepare_rank(&start.plan, rank, local_rank, streams)?, pipe))
    }

    fn add_rank(&mut self, start: &Start, (started, input): Started) -> io::Result<()> {
        let StartedRank { process, link, output, errors } = started;
        let (job, rank) = (start.job, start.rank());
        let pid = process.pid();
        let number = self.add_process((job, rank), process)?;
        let owner = StreamOwner { group: start.group, rank };
        self.io.add_rank((number, owner), RankPipes { input, output, errors }, self.poller)?;
        self.service.set_segments_max(self.processes.launcher.limit.segments());
        if start.plan.has_port() && start.plan.offer(start.plan.appnum(rank)).pmi {
            // The socket pair is closed: the rank does not know its end.
            self.service.expect_at_port((job, rank), pid);
            return Ok(());
        }
        self.service.add_member((job, rank), (link.into(), None), self.poller)
    }

    /// Registers a process as a rank, and returns its number.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn add_process(
        &mut self,
        (job, rank): (JobId, u32),
        process: Process,
    ) -> io::Result<u32> {
        let pid = process.pid();
        let number = self.processes.add((job, rank), process, self.poller)?;
        self.jobs.note_start(job, number);
        if let Some(plan) = self.jobs.plan(job) {
            self.summary.enter_start(Rc::clone(plan), rank, pid);
            let is_last = plan.local_rank(rank).is_some_and(|at| at + 1 == plan.local());
            if plan.spawner.is_none() && is_last {
                self.summary.note_all_started();
            }
            if plan.offer(plan.appnum(rank)).may_load_pmi1 {
                self.service.set_unknown_client(job, rank, pid);
            }
            let started = Content::Started { pid: pid.unsigned_abs(), host: plan.host.clone() };
            self.service.tracer.event(TraceSource::rank(job.0, rank), started);
        }
        Ok(number)
    }

    /// Proceeds to the next ranks of a job, or, after the last one, to its daemons or the answer to its
    /// spawner.
    fn finish_batch(&mut self, start: Start, has_pmix: bool) -> StartEvent {
        if start.local_rank < start.plan.local() {
            self.jobs.resume(start);
        } else if let Some(spawner) = start.spawner {
            let Spawner { job, rank, asked, commands, daemons, beside, .. } = spawner;
            if daemons.is_none() {
                let made = beside.unwrap_or(start.job);
                self.service.answer_spawn(asked, Ok(made), &commands.done());
            }
            if has_pmix {
                self.service.pmix_notifier().notify_job_start(start.job);
            }
            if let Some(stopped) = start.plan.pairs.directives.stop_on_exec {
                let mut notifier = self.service.pmix_notifier();
                notifier.notify_ready_for_debug((start.job, stopped.number()), "exec");
            }
            if let Some(daemons) = daemons {
                let beside = Some(start.job);
                let who = Requester { job, rank, asked, beside };
                return StartEvent::Daemons(who, Box::new(daemons));
            }
        }
        StartEvent::Started
    }

    /// Handles a rank that could not be started: the first job fails, a spawned one is undone.
    fn undo(&mut self, start: Start, error: &io::Error) -> StartEvent {
        let rank = start.rank();
        let Start { job, group, spawner, plan, .. } = start;
        let failure = Failure::Start { rank, code: start_code(error), why: error.to_string() };
        let Some(spawner) = spawner else { return StartEvent::Failed { job, failure } };
        self.io.outputs.expect_no_more(Some(group));
        self.kill(job);
        let why = report::failure(&failure, &plan, |_| None, 0);
        let Spawner { job: of, rank: by, asked, commands, beside, .. } = spawner;
        let codes = commands.refused(commands.of_rank(rank), Code::FAIL);
        let who = Requester { job: of, rank: by, asked, beside };
        self.refuse(who, (Code::FAIL, &codes), why);
        StartEvent::Undone(job)
    }

    /// Kills the ranks of a spawned job, which is no failure.
    fn kill(&mut self, job: JobId) {
        self.jobs.set_unwanted(job);
        if let Some(job) = self.jobs.get(job) {
            let numbers = job.started_ranks().filter_map(|rank| job.process(rank));
            for process in numbers.filter_map(|number| self.processes.running(number)) {
                process.signal(Signal::KILL);
            }
        }
    }

    /// Reports to the user, and answers to the requesting rank, why nothing was spawned.
    fn refuse(&mut self, who: Requester, (code, codes): (Code, &[CodeRun]), why: impl Display) {
        let Requester { job, rank, asked, beside } = who;
        // A job does not run without the daemons that were requested with it.
        beside.into_iter().for_each(|job| self.kill(job));
        if let Some(plan) = self.jobs.plan(job) {
            let process = self.jobs.process_of(job, rank);
            let pid = process.and_then(|number| self.processes.get(number)).map(|one| one.pid);
            self.io.report(report::not_spawned(plan, (rank, pid), why));
        }
        self.service.answer_spawn(asked, Err(code), codes);
    }
}

/// Cause of a start that took too long.
pub(super) const LATE: &str = "the time of the hint 'timeout' is over";
