//! Records of the start and end of every rank, and the effect of one rank's failure on the others.

use super::{EventLoop, JobState};
use crate::ends::json::ResultFile;
use crate::ends::{End, Row, Times, text};
use crate::exit;
use crate::launch::memory::OutOfMemory;
use crate::launch::plan::Plan;
use crate::launch::process::ProcessEnd;
use crate::report;
use crate::settings;
use crate::settings::ending::OnExitError;
use crate::stdio::{index, target};
use crate::verdict::{Failure, PmiPhase};
use pmi_core::ids::JobId;
use rustix::process::Signal;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

/// Start and end of the ranks of all jobs.
pub(super) struct Summary {
    settings: settings::Ending,
    file: Option<ResultFile>,
    memory: OutOfMemory,
    times: Times,
    /// Indexed by process number.
    rows: Vec<Row>,
    /// First failure that did not terminate the other ranks.
    tolerated: Option<Failure>,
    /// Report of the first failure.
    told: Option<String>,
    /// Deadline of ranks that still run after another rank ended well.
    overdue_at: Option<Instant>,
}

impl Summary {
    /// Starts the records, and creates the result file.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(super) fn new(settings: &settings::Ending) -> Result<Self, String> {
        let times = Times {
            began_at: SystemTime::now(),
            began: Instant::now(),
            all_started: None,
            first_end: None,
            last_end: None,
        };
        Ok(Self {
            file: settings.result.as_deref().map(ResultFile::create).transpose()?,
            settings: settings.clone(),
            memory: OutOfMemory::new(),
            times,
            rows: Vec::new(),
            tolerated: None,
            told: None,
            overdue_at: None,
        })
    }

    pub(super) fn enter_start(&mut self, plan: Rc<Plan>, rank: u32, pid: i32) {
        let started = Instant::now();
        if plan.spawner.is_none() && rank + 1 == plan.local() {
            self.times.all_started = Some(started);
        }
        self.rows.push(Row { plan, rank, pid, started, end: None });
    }

    /// Records the report of a failure; only the first one is kept.
    pub(super) fn note_told(&mut self, what: &str) {
        self.told.get_or_insert_with(|| what.to_owned());
    }

    /// Detects processes that the system killed because it had run out of memory.
    pub(super) fn cause(&mut self, ending: ProcessEnd) -> ProcessEnd {
        let is_kill = |signal| signal == Signal::KILL.as_raw();
        match ending {
            ProcessEnd::Killed { signal, .. } if is_kill(signal) && self.memory.has_struck() => {
                ProcessEnd::OutOfMemory
            }
            other => other,
        }
    }

    /// Exit code of a run whose failures terminated no other rank.
    pub(super) fn tolerated_code(&self) -> Option<u8> {
        self.tolerated.as_ref().map(Failure::exit_code)
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.overdue_at
    }
}

impl EventLoop {
    /// Records the end of a process.
    pub(super) fn enter_end(&mut self, number: u32, ending: ProcessEnd, phase: PmiPhase) {
        let at = Instant::now();
        let Some(started) = self.processes.get(index(number)) else { return };
        let traffic = self.service.traffic(started.job, started.rank);
        let end = End { at, ending, phase, was_over: self.failure.is_some(), traffic };
        let times = &mut self.ends.times;
        times.first_end.get_or_insert(at);
        times.last_end = Some(at);
        if let Some(row) = self.ends.rows.get_mut(index(number)) {
            row.end = Some(end);
        }
        if let Some(limit) = self.ends.settings.exit_timeout.filter(|_| end.is_good()) {
            self.ends.overdue_at = self.ends.overdue_at.or_else(|| at.checked_add(limit));
        }
    }

    /// Lets the other ranks continue after a failure if the user wants that and the failure allows it.
    /// Returns true if they continue.
    pub(super) fn tolerate(&mut self, job: JobId, failure: &Failure) -> bool {
        let is_wanted = self.ends.settings.on_exit_error == OnExitError::Ignore;
        let (Failure::Ended { rank, .. } | Failure::LeftEarly { rank }) = failure else {
            return false;
        };
        if !is_wanted || self.failure.is_some() {
            return false;
        }
        if let Some(JobState { plan, .. }) = self.jobs.get(&job.0) {
            let what = report::failure(failure, plan, |rank| self.pid(job, rank), 0);
            self.ends.note_told(&what);
            self.outputs.say(text::tolerated(&what, self.running_count));
        }
        self.ends.tolerated.get_or_insert_with(|| failure.clone());
        self.service.set_gone(job, *rank);
        self.tell_of_the_dead(job);
        true
    }

    /// Publishes the failed ranks of a job where MPI libraries look for them, and signals the processes
    /// that wait for such news. Only processes that catch SIGUSR1 are signalled, since it would kill
    /// others.
    fn tell_of_the_dead(&mut self, job: JobId) {
        let Some(JobState { plan, .. }) = self.jobs.get(&job.0) else { return };
        let is_dead = |row: &&Row| {
            row.plan.kvsname == plan.kvsname && row.end.is_some_and(|end| !end.is_good())
        };
        let dead: Vec<u32> = self.ends.rows.iter().filter(is_dead).map(|row| row.rank).collect();
        self.service.set_dead(job, &dead);
        for started in self.processes.iter().filter(|started| started.job == job) {
            if let Some(process) = started.process.as_ref().filter(|one| one.catches(Signal::USR1))
            {
                process.signal(Signal::USR1);
            }
        }
    }

    /// Terminates the run if ranks still run too long after the first one ended well.
    pub(super) fn check_overdue(&mut self, now: Instant) {
        if self.ends.overdue_at.is_none_or(|at| now < at) {
            return;
        }
        self.ends.overdue_at = None;
        if let Some(limit) = self.ends.settings.exit_timeout.filter(|_| self.running_count > 0) {
            self.end_by_clock(Failure::Overdue { limit }, super::watching::Which::Running);
        }
    }

    /// Prints and writes the end of every rank, the last step before the exit with `code`. Returns the
    /// exit code: a run whose result file is incomplete does not succeed.
    pub(super) fn write_summary(&mut self, code: u8) -> u8 {
        let Summary { settings, file, times, rows, told, .. } = &mut self.ends;
        if settings.print_all_codes {
            target::write_last(text::endings(rows).as_bytes());
        }
        let written = file.take().map(|file| file.write(code, told.as_deref(), times, rows));
        let Some(Err(what)) = written else { return code };
        target::write_last(exit::line(what).as_bytes());
        if code == 0 { exit::FAILED } else { code }
    }
}
