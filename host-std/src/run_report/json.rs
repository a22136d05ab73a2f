//! Report on a run for programs: one JSON object.
//!
//! | field | meaning |
//! |---|---|
//! | `version` | of this format: 1; fields may be added without a new one |
//! | `exit_code` | exit code of the launcher |
//! | `failure` | cause of the failure, as reported to the user; `null` if the run succeeded |
//! | `began` | start of the run, in seconds since 1970 |
//! | `seconds` | duration of each phase, `null` if it was not reached: `starting` all ranks of the first job; `running` until the first rank terminated; `ending` until the last one had; `closing` until nothing was left to do; `total` |
//! | `jobs` | all jobs, in the order they began |
//!
//! A job has `name`, `spawner` (`null` for the first), `host` and `ranks`; a rank `rank`, `pid`, `host`,
//! `program`, `started` and `ended` (in seconds since the beginning), `exit_code` (as a shell gives it),
//! `signal` (its number and name, or `null`), `core_dumped`, `out_of_memory`, `finalized` (`null` if it
//! has not used PMI), `ended_by_launcher`, `requests` (number of messages it has sent), `bytes_in` and
//! `bytes_out` (on its PMI connection, from the view of the launcher). Unobserved values are `null`.

use super::{RankEnd, RankSummary, RunOutcome};
use crate::launch::plan::job::Plan;
use crate::launch::signal;
use crate::launch::start::process::ProcessEnd;
use crate::verdict::PmiPhase;
use pmi_host_os::clock;
use serde::Serialize;
use std::io;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The report as text.
///
/// # Errors
///
/// None at present: all fields have a form in JSON.
pub(super) fn report(outcome: &RunOutcome<'_>) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(&RunReport::new(outcome))? + "\n")
}

#[derive(Debug, Serialize)]
struct RunReport<'a> {
    version: u32,
    exit_code: u8,
    failure: Option<&'a str>,
    began: f64,
    seconds: PhaseSeconds,
    jobs: Vec<JobReport<'a>>,
}

#[derive(Debug, Serialize)]
struct PhaseSeconds {
    starting: Option<f64>,
    running: Option<f64>,
    ending: Option<f64>,
    closing: Option<f64>,
    total: f64,
}

#[derive(Debug, Serialize)]
struct JobReport<'a> {
    name: &'a str,
    spawner: Option<&'a str>,
    host: &'a str,
    ranks: Vec<RankReport>,
}

#[derive(Debug, Serialize)]
struct RankReport {
    #[serde(flatten)]
    process: RankProcess,
    started: f64,
    ended: Option<f64>,
    exit_code: Option<u8>,
    signal: Option<SignalReport>,
    core_dumped: bool,
    out_of_memory: bool,
    finalized: Option<bool>,
    ended_by_launcher: bool,
    #[serde(flatten)]
    traffic: RankTraffic,
}

#[derive(Debug, Serialize)]
struct RankProcess {
    rank: u32,
    pid: i32,
    host: String,
    program: String,
}

#[derive(Debug, Serialize)]
struct RankTraffic {
    requests: u32,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Debug, Serialize)]
struct SignalReport {
    number: i32,
    name: String,
}

impl<'a> RunReport<'a> {
    fn new(outcome: &RunOutcome<'a>) -> Self {
        let RunOutcome { exit_code, failure, times, rows } = *outcome;
        let now = clock::now();
        let mut jobs: Vec<JobReport<'a>> = Vec::new();
        for row in rows {
            let Plan { kvsname, spawner, host, .. } = &*row.plan;
            let rank = RankReport::new(row, times.began);
            match jobs.iter_mut().find(|job| job.name == kvsname) {
                Some(job) => job.ranks.push(rank),
                None => jobs.push(JobReport {
                    name: kvsname,
                    spawner: spawner.as_ref().map(|by| &*by.kvsname),
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
            seconds: PhaseSeconds {
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

impl RankReport {
    fn new(row: &RankSummary, began: Instant) -> Self {
        let RankSummary { plan, rank, pid, started, end } = row;
        let ending = end.as_ref().map(|end| end.ending);
        let traffic = end.map(|end| end.traffic).unwrap_or_default();
        let number = match ending {
            Some(ProcessEnd::Killed { signal, .. }) => Some(signal),
            Some(ProcessEnd::OutOfMemory) => Some(rustix::process::Signal::KILL.as_raw()),
            _ => None,
        };
        Self {
            process: RankProcess {
                rank: *rank,
                pid: *pid,
                host: plan.host_of(*rank).to_owned(),
                program: plan.program_name(*rank),
            },
            started: rounded(started.saturating_duration_since(began)),
            ended: end.map(|end| rounded(end.at.saturating_duration_since(began))),
            exit_code: ending
                .filter(|ending| *ending != ProcessEnd::Unseen)
                .map(ProcessEnd::exit_code),
            signal: number.map(|number| SignalReport { number, name: signal::short_name(number) }),
            core_dumped: matches!(ending, Some(ProcessEnd::Killed { dumped: true, .. })),
            out_of_memory: ending == Some(ProcessEnd::OutOfMemory),
            finalized: end.and_then(|RankEnd { phase, .. }| match phase {
                PmiPhase::Silent => None,
                PmiPhase::Open => Some(false),
                PmiPhase::Finalized => Some(true),
            }),
            ended_by_launcher: end.is_some_and(|end| end.was_over && !end.is_good()),
            traffic: RankTraffic {
                requests: traffic.requests,
                bytes_in: traffic.received_bytes,
                bytes_out: traffic.sent_bytes,
            },
        }
    }
}

/// Seconds between two moments.
fn between(from: Option<Instant>, to: Option<Instant>) -> Option<f64> {
    Some(rounded(to?.saturating_duration_since(from?)))
}

/// Precision of these moments: microseconds.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}
