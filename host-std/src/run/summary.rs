//! Records of the start and end of every rank.

use crate::launch::plan::job::Plan;
use crate::numbers::index;
use crate::run_report::file::ResultFile;
use crate::run_report::{RankEnd, RankSummary, RunOutcome, RunTimes, text};
use crate::settings;
use crate::verdict::Failure;
use pmi_host_base::exit;
use pmi_host_os::clock;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// Start and end of the ranks of all jobs.
pub(super) struct Summary {
    settings: settings::Ending,
    file: Option<ResultFile>,
    times: RunTimes,
    /// Indexed by process number.
    rows: Vec<RankSummary>,
    /// First failure that did not terminate the other ranks.
    tolerated: Option<Failure>,
    /// Report of the first failure.
    report: Option<String>,
    /// Deadline of ranks that still run after another rank ended well.
    overdue_at: Option<Instant>,
}

impl Summary {
    /// Starts the records, and creates the result file.
    pub(super) fn new(settings: &settings::Ending) -> Result<Self, String> {
        let times = RunTimes {
            began_at: SystemTime::now(),
            began: clock::now(),
            all_started: None,
            first_end: None,
            last_end: None,
        };
        Ok(Self {
            file: settings.result.as_deref().map(ResultFile::create).transpose()?,
            settings: settings.clone(),
            times,
            rows: Vec::new(),
            tolerated: None,
            report: None,
            overdue_at: None,
        })
    }

    pub(super) fn enter_start(&mut self, plan: Rc<Plan>, rank: u32, pid: i32) {
        let started = clock::now();
        self.rows.push(RankSummary { plan, rank, pid, started, end: None });
    }

    /// Records that all ranks of the first job were started.
    pub(super) fn note_all_started(&mut self) {
        self.times.all_started = Some(clock::now());
    }

    /// Records the report of a failure; only the first one is kept.
    pub(super) fn record_report(&mut self, what: &str) {
        self.report.get_or_insert_with(|| what.to_owned());
    }

    /// Exit code of a run whose failures terminated no other rank.
    pub(super) fn tolerated_code(&self) -> Option<u8> {
        self.tolerated.as_ref().map(Failure::exit_code)
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.overdue_at
    }

    /// True if each of several ranks has called `MPI_Init` without this launcher.
    pub(super) fn are_all_singletons(&self) -> bool {
        let is_one = |row: &RankSummary| row.end.is_some_and(|end| end.is_singleton);
        self.rows.len() > 1 && self.rows.iter().all(is_one)
    }

    /// Records the end of a process.
    pub(super) fn note_end(&mut self, number: u32, end: RankEnd) {
        let times = &mut self.times;
        times.first_end.get_or_insert(end.at);
        times.last_end = Some(end.at);
        if let Some(row) = self.rows.get_mut(index(number)) {
            row.end = Some(end);
        }
        if let Some(limit) = self.settings.exit_timeout.filter(|_| end.is_good()) {
            self.overdue_at = self.overdue_at.or_else(|| end.at.checked_add(limit));
        }
    }

    /// True if the user wants ranks to continue after failures of others.
    pub(super) fn continues_after_failures(&self) -> bool {
        self.settings.on_exit_error.continues()
    }

    /// Records a failure after which the other ranks continue, with its report.
    pub(super) fn note_tolerated(&mut self, failure: &Failure) {
        self.tolerated.get_or_insert_with(|| failure.clone());
    }

    /// Limit that the ranks exceed which still run after another one ended well, if `is_any_running`.
    /// `None` before the deadline.
    pub(super) fn check_overdue(&mut self, now: Instant, is_any_running: bool) -> Option<Duration> {
        self.overdue_at.take_if(|at| now >= *at)?;
        self.settings.exit_timeout.filter(|_| is_any_running)
    }

    /// Writes the end of every rank, the last step before the exit with `code`; `last` gets the lines for the
    /// user. Returns the exit code: a run whose result file is incomplete does not succeed.
    pub(super) fn write(&mut self, code: u8, last: &mut String) -> u8 {
        let Self { settings, file, times, rows, report, .. } = self;
        // Ranks of several nodes have started in any order.
        rows.sort_by_key(|row| row.rank);
        let failure = report.as_deref();
        let outcome = RunOutcome { exit_code: code, failure, times, rows };
        if settings.print_all_codes {
            last.push_str(&text::endings(&outcome));
        }
        if settings.has_summary {
            last.push_str(&text::summary(&outcome));
        }
        let written = file.take().map(|file| file.write(&outcome));
        let Some(Err(what)) = written else { return code };
        last.push_str(&exit::line(what));
        if code == 0 { exit::FAILED } else { code }
    }
}
