//! Start of ranks, batch by batch, job after job.

use super::jobs::{Jobs, Start};
use super::processes::Processes;
use crate::io::{Io, RankPipes};
use crate::launch::start::batch::BATCH_MAX;
use crate::launch::start::launcher::{PreparedProgram, PreparedRank, StartedRank};
use crate::launch::start::process::Process;
use crate::launch::start::start_error::start_code;
use crate::server::event::PendingSpawn;
use crate::server::service::Service;
use crate::stdio::StreamOwner;
use crate::stdio::inputs::{InputWriter, RankInput};
use crate::stdio::pushed::PushedInputs;
use crate::trace::TraceSource;
use crate::verdict::Failure;
use pmi_core::ids::JobId;
use pmi_host_os::poller::Poller;
use pmi_host_os::refusal;
use pmi_trace::Content;
use std::io;

/// The parts of a run that take part in a start.
pub(super) struct Spawning<'a> {
    pub(super) jobs: &'a mut Jobs,
    pub(super) processes: &'a mut Processes,
    pub(super) io: &'a mut Io,
    pub(super) service: &'a mut Service,
    pub(super) poller: &'a mut Poller,
}

/// Result of starting a rank.
#[derive(Debug)]
pub(super) enum StartEvent {
    /// Ranks were started: responses may be due, so the loop must not wait.
    Started,
    /// A rank of this job could not be started.
    Failed { job: JobId, failure: Failure },
}

/// A rank that was started, and the writing end of its standard input.
type Started = (StartedRank, Option<InputWriter>);

/// A rank that requested to spawn, and its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    pub(super) job: JobId,
    pub(super) rank: u32,
    pub(super) asked: PendingSpawn,
}

impl Spawning<'_> {
    /// Starts the next ranks of a job, if there are any.
    ///
    /// # Errors
    ///
    /// Errors of the system that concern the launcher; those of a rank are events.
    pub(super) fn start_next(&mut self) -> io::Result<Option<StartEvent>> {
        let Some(mut start) = self.jobs.next_start() else { return Ok(None) };
        let started = match self.start_ranks(&mut start) {
            Ok(started) => started,
            Err(error) => return Ok(Some(Self::undo(&start, &error))),
        };
        for rank in started {
            match rank {
                Ok(rank) => self.add_rank(&start, rank)?,
                Err(error) => return Ok(Some(Self::undo(&start, &error))),
            }
            start.local_rank += 1;
        }
        if start.local_rank < start.plan.local() {
            self.jobs.resume(start);
        }
        Ok(Some(StartEvent::Started))
    }

    /// Starts a batch: the next ranks that execute the same program.
    fn start_ranks(&mut self, start: &mut Start) -> io::Result<Vec<io::Result<Started>>> {
        let number = start.plan.appnum(start.rank());
        let program = match start.exec.take().filter(|(of, _)| *of == number) {
            Some((_, program)) => program,
            None => self.processes.launcher.prepare(&start.plan, number)?,
        };
        let same = start.next_ranks().take_while(|(rank, _)| start.plan.appnum(*rank) == number);
        let (mut batch, mut inputs) = (Vec::new(), Vec::new());
        for (rank, local_rank) in same.take(BATCH_MAX) {
            match self.prepare_rank(start, &program, rank, local_rank) {
                Ok((prepared, input)) => {
                    batch.push(prepared);
                    inputs.push(input);
                }
                // Starting a batch frees descriptors of the launcher.
                Err(_) if !batch.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        let started = self.processes.launcher.start(&program, batch)?.into_iter();
        start.exec = Some((number, program));
        Ok(started.zip(inputs).map(|(rank, input)| Ok((rank?, input))).collect())
    }

    fn prepare_rank(
        &mut self,
        start: &Start,
        program: &PreparedProgram,
        rank: u32,
        local_rank: u32,
    ) -> io::Result<(PreparedRank, Option<InputWriter>)> {
        let owner = StreamOwner { group: start.group, rank };
        let reads_pushed = start.plan.pairs.directives.stdin.is_some_and(|of| of.has(rank));
        let RankInput { streams, pipe } = match reads_pushed {
            true => PushedInputs::open()?,
            false => self.io.inputs.open(owner)?,
        };
        let launcher = &self.processes.launcher;
        Ok((launcher.prepare_rank(&start.plan, program, rank, local_rank, streams)?, pipe))
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
    pub(super) fn add_process(
        &mut self,
        (job, rank): (JobId, u32),
        process: Process,
    ) -> io::Result<u32> {
        let pid = process.pid();
        let number = self.processes.add((job, rank), process, self.poller)?;
        self.jobs.note_start(job, number);
        if let Some(plan) = self.jobs.plan(job) {
            if plan.offer(plan.appnum(rank)).may_load_pmi1 {
                self.service.set_unknown_client(job, rank, pid);
            }
            let started = Content::Started { pid: pid.unsigned_abs(), host: plan.host.clone() };
            self.service.tracer.event(TraceSource::rank(job.0, rank), started);
        }
        Ok(number)
    }

    /// Handles a rank that could not be started.
    fn undo(start: &Start, error: &io::Error) -> StartEvent {
        let (job, rank) = (start.job, start.rank());
        let failure = Failure::Start { rank, code: start_code(error), why: refusal::words(error) };
        StartEvent::Failed { job, failure }
    }
}
