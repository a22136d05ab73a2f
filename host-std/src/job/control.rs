//! What ranks want done with processes of theirs.

use super::Run;
use crate::server::pmix::control::{Act, Control};
use crate::stdio::index;
use pmi_core::ids::JobId;
use pmi_core::wire::pmix::names::Status;
use rustix::process::Signal;
use std::time::{Duration, Instant};

impl Run {
    /// Does what a rank of `own` wants done.
    pub(super) fn take_control(&mut self, own: JobId, wanted: Control) -> Status {
        let Control { targets, cleanup, acts } = wanted;
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

    fn act_on(&mut self, (job, rank): (JobId, Option<u32>), own: JobId, act: Act) {
        let Some(about) = self.jobs.get_mut(&job.0) else { return };
        if matches!(act, Act::Terminate | Act::Kill) && rank.is_none() && job != own {
            // Whoever ends a job that it has spawned wants that, so it is no failure of anything.
            about.is_unwanted = true;
        }
        let started = about.started_count;
        let ranks = rank.map_or(0..started, |rank| rank..rank.saturating_add(1));
        let until = Instant::now() + GRACE;
        let first = about.first_process;
        for number in ranks.filter(|rank| *rank < started).map(|rank| first + rank) {
            let Some(process) = &self.processes[index(number)].process else { continue };
            match act {
                Act::Signal(signal) => process.signal(signal),
                Act::Kill => process.signal(Signal::KILL),
                Act::Terminate => {
                    process.signal(Signal::TERM);
                    // Who is stopped can take it only when it goes on.
                    process.signal(Signal::CONT);
                    self.condemned.push_back((until, number));
                }
            }
        }
    }

    /// Ends processes that were asked to end and have not.
    pub(super) fn look_at_condemned(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.condemned.front()
            && at <= now
        {
            self.condemned.pop_front();
            if let Some(process) = &self.processes[index(number)].process {
                process.signal(Signal::KILL);
            }
        }
    }
}

/// As long as ranks get when the run ends.
const GRACE: Duration = Duration::from_secs(3);

/// Far more than ranks ask for, and little enough to keep.
const CLEANUPS_MAX: usize = 1 << 16;
