//! Job control: signals, termination and cleanup that ranks request for processes.

use super::EventLoop;
use crate::server::pmix::control::{ControlAction, JobControl};
use crate::stdio::index;
use pmi_core::ids::JobId;
use pmi_core::wire::pmix::names::Status;
use rustix::process::Signal;
use std::time::{Duration, Instant};

impl EventLoop {
    /// Executes a job control request of a rank of `own`.
    pub(super) fn handle_job_control(&mut self, own: JobId, wanted: JobControl) -> Status {
        let JobControl { targets, cleanup, acts } = wanted;
        if let Some(cleanup) = cleanup {
            if self.cleanups.len() + targets.len() > CLEANUPS_MAX {
                return Status::OUT_OF_RESOURCE;
            }
            let each = targets.iter().map(|(job, rank)| (*job, *rank, cleanup.clone()));
            self.cleanups.extend(each);
        }
        for act in acts {
            for (job, rank) in &targets {
                self.act_on((*job, *rank), own, act);
            }
        }
        Status::SUCCESS
    }

    fn act_on(&mut self, (job, rank): (JobId, Option<u32>), own: JobId, act: ControlAction) {
        let Some(about) = self.jobs.get_mut(&job.0) else { return };
        if matches!(act, ControlAction::Terminate | ControlAction::Kill)
            && rank.is_none()
            && job != own
        {
            // A rank that terminates a job it has spawned does so on purpose; it is no failure.
            about.is_unwanted = true;
        }
        let started = about.started_count;
        let ranks = rank.map_or(0..started, |rank| rank..rank.saturating_add(1));
        let until = Instant::now() + GRACE;
        let first = about.first_process;
        for number in ranks.filter(|rank| *rank < started).map(|rank| first + rank) {
            let Some(process) = &self.processes[index(number)].process else { continue };
            match act {
                ControlAction::Signal(signal) => process.signal(signal),
                ControlAction::Kill => process.signal(Signal::KILL),
                ControlAction::Terminate => {
                    process.signal(Signal::TERM);
                    // A stopped process handles SIGTERM only after SIGCONT.
                    process.signal(Signal::CONT);
                    self.kill_deadlines.push_back((until, number));
                }
            }
        }
    }

    /// Kills processes that were asked to terminate and still run at their deadline.
    pub(super) fn check_kill_deadlines(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.kill_deadlines.front()
            && at <= now
        {
            self.kill_deadlines.pop_front();
            if let Some(process) = &self.processes[index(number)].process {
                process.signal(Signal::KILL);
            }
        }
    }
}

/// Grace period between SIGTERM and SIGKILL, the same as in the shutdown of a run.
const GRACE: Duration = Duration::from_secs(3);

/// Maximum number of registered cleanups: far more than ranks ask for, and little enough to keep.
const CLEANUPS_MAX: usize = 1 << 16;
