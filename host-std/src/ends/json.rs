//! How a run went, for programs: one JSON object in a file (`--result`).
//!
//! | field | what |
//! |---|---|
//! | `version` | of this format: 1; fields may be added without a new one |
//! | `exit_code` | what the launcher exits with |
//! | `failure` | why the run failed, as it was told; `null` if it did not |
//! | `began` | when, in seconds since 1970 |
//! | `seconds` | how long each phase took, `null` if it did not come to it: `starting` all ranks of the first job; `running` until the first rank ended; `ending` until the last one had; `closing` until nothing was left to do; `total` |
//! | `jobs` | all jobs, in the order they began |
//!
//! A job has `name`, `spawner` (`null` for the first), `host` and `ranks`; a rank `rank`, `pid`, `program`,
//! `started` and `ended` (in seconds since the beginning), `exit_code` (as a shell gives it), `signal` (its
//! number and name, or `null`), `core_dumped`, `out_of_memory`, `finalized` (`null` if it has not spoken
//! PMI), `ended_by_launcher`, `requests` (how many messages it has sent), `bytes_in` and `bytes_out` (on its
//! PMI connection, as the launcher sees it). What was not seen is `null`.

use super::{End, Row, Times};
use crate::launch::plan::Plan;
use crate::launch::process::Ending;
use crate::launch::signal;
use crate::verdict::Phase;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Where the report goes.
#[derive(Debug)]
pub struct ResultFile {
    name: PathBuf,
    file: File,
}

impl ResultFile {
    /// Makes the file, before anything is started.
    ///
    /// Errors: a sentence for people.
    pub fn create(name: &Path) -> Result<Self, String> {
        let shown = name.display();
        let file = File::create(name).map_err(|error| {
            format!(
                "the report cannot be written to '{shown}' ({error}); name another file (--result)"
            )
        })?;
        Ok(Self { name: name.to_owned(), file })
    }

    /// Writes the report.
    ///
    /// Errors: a sentence for people.
    pub fn write(
        self,
        exit_code: u8,
        failure: Option<&str>,
        times: &Times,
        rows: &[Row],
    ) -> Result<(), String> {
        let report = Report::new(exit_code, failure, times, rows);
        let mut to = BufWriter::new(self.file);
        let written = serde_json::to_writer_pretty(&mut to, &report).map_err(Into::into);
        written.and_then(|()| to.write_all(b"\n")).and_then(|()| to.flush()).map_err(|error| {
            format!("the report in '{}' is not whole ({error})", self.name.display())
        })
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    exit_code: u8,
    failure: Option<&'a str>,
    began: f64,
    seconds: Phases,
    jobs: Vec<Job<'a>>,
}

#[derive(Debug, Serialize)]
struct Phases {
    starting: Option<f64>,
    running: Option<f64>,
    ending: Option<f64>,
    closing: Option<f64>,
    total: f64,
}

#[derive(Debug, Serialize)]
struct Job<'a> {
    name: &'a str,
    spawner: Option<&'a str>,
    host: &'a str,
    ranks: Vec<Rank>,
}

#[derive(Debug, Serialize)]
struct Rank {
    rank: u32,
    pid: i32,
    program: String,
    started: f64,
    ended: Option<f64>,
    exit_code: Option<u8>,
    signal: Option<Signal>,
    core_dumped: bool,
    out_of_memory: bool,
    finalized: Option<bool>,
    ended_by_launcher: bool,
    requests: u32,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Debug, Serialize)]
struct Signal {
    number: i32,
    name: String,
}

impl<'a> Report<'a> {
    fn new(exit_code: u8, failure: Option<&'a str>, times: &Times, rows: &'a [Row]) -> Self {
        let now = Instant::now();
        let mut jobs: Vec<Job<'a>> = Vec::new();
        for row in rows {
            let Plan { kvsname, spawner, host, .. } = &*row.plan;
            let rank = Rank::new(row, times.began);
            match jobs.iter_mut().find(|job| job.name == kvsname) {
                Some(job) => job.ranks.push(rank),
                None => jobs.push(Job {
                    name: kvsname,
                    spawner: spawner.as_deref(),
                    host,
                    ranks: vec![rank],
                }),
            }
        }
        Self {
            version: 1,
            exit_code,
            failure,
            began: times.began_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            seconds: Phases {
                starting: between(Some(times.began), times.all_started),
                running: between(times.all_started, times.first_end),
                ending: between(times.first_end, times.last_end),
                closing: between(times.last_end, Some(now)),
                total: rounded(now.saturating_duration_since(times.began)),
            },
            jobs,
        }
    }
}

impl Rank {
    fn new(row: &Row, began: Instant) -> Self {
        let Row { plan, rank, pid, started, end } = row;
        let ending = end.as_ref().map(|end| end.ending);
        let traffic = end.map(|end| end.traffic).unwrap_or_default();
        let number = match ending {
            Some(Ending::Killed { signal, .. }) => Some(signal),
            Some(Ending::OutOfMemory) => Some(rustix::process::Signal::KILL.as_raw()),
            _ => None,
        };
        Self {
            rank: *rank,
            pid: *pid,
            program: plan.program_name(*rank),
            started: rounded(started.saturating_duration_since(began)),
            ended: end.map(|end| rounded(end.at.saturating_duration_since(began))),
            exit_code: ending.filter(|ending| *ending != Ending::Unseen).map(Ending::exit_code),
            signal: number.map(|number| Signal { number, name: signal::short_name(number) }),
            core_dumped: matches!(ending, Some(Ending::Killed { dumped: true, .. })),
            out_of_memory: ending == Some(Ending::OutOfMemory),
            finalized: end.and_then(|End { phase, .. }| match phase {
                Phase::Silent => None,
                Phase::Open => Some(false),
                Phase::Finalized => Some(true),
            }),
            ended_by_launcher: end.is_some_and(|end| end.was_over && !end.is_good()),
            requests: traffic.requests,
            bytes_in: traffic.received_bytes,
            bytes_out: traffic.said_bytes,
        }
    }
}

/// How long it was from one moment to another.
fn between(from: Option<Instant>, to: Option<Instant>) -> Option<f64> {
    Some(rounded(to?.saturating_duration_since(from?)))
}

/// Microseconds are as much as these moments mean.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}
