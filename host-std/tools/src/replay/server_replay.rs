//! The recorded server, played against a program.
//!
//! Each rank must send the requests of its rank in the record, in the same order; values may differ, and
//! a get returns the value of this run instead of the recorded one. A fence ends when every rank has sent
//! all requests that the record has before its end. The first deviation ends the replay.

mod program_rank;

use super::ReplayReport;
use super::initial_state::{InitialState, request};
use super::record::{RANKS_MAX, RecordedMessage, RecordedRank, name, scripts};
use crate::child;
use pmi_core::command::Verb;
use pmi_host_base::env;
use pmi_host_base::exit::{FAILED, line};
use pmi_host_base::host_name;
use pmi_trace::{Direction, Trace, message};
use program_rank::{Deviation, ProgramRank};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Starts one process of the program for each rank of the first job of the record, and plays its server.
///
/// # Errors
///
/// The program cannot be started, or the system refuses something.
pub(super) fn replay(
    trace: &Trace,
    program: &OsStr,
    args: &[OsString],
    timeout: Duration,
) -> Result<ReplayReport, String> {
    let all = scripts(trace);
    let Some(job) = all.keys().map(|(job, _)| *job).min() else {
        return Err(
            "the record has no ranks that speak PMI-1 or PMI-2, so there is no server to replay"
                .into(),
        );
    };
    if trace.jobs().any(|facts| facts.spawner.is_some()) {
        let what = line("spawned jobs are not replayed; ranks that wait for them keep waiting");
        let _ = io::stderr().write_all(what.as_bytes());
    }
    let scripts: BTreeMap<RecordedRank, Vec<RecordedMessage<'_>>> = { all.iter() }
        .filter(|((of, _), _)| *of == job)
        .map(|(who, lines)| (*who, lines.clone()))
        .collect();
    let initial = InitialState::of(job, &all);
    let interrupted = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).unwrap_or(0);
        signal_hook::flag::register_usize(signal, Arc::clone(&interrupted), number)
            .map_err(|error| format!("signals cannot be watched ({error})"))?;
    }
    let mut replay = ServerReplay { trace, ranks: Vec::new(), puts: BTreeMap::new(), interrupted };
    let size = trace.job(job).map_or(0, |facts| facts.ranks);
    let size = size.max(u32::try_from(scripts.len()).unwrap_or(u32::MAX));
    if size > RANKS_MAX {
        return Err(format!(
            "the record has a job of {size} ranks, which is more than any launcher starts"
        ));
    }
    let locals = initial.nodes(size);
    for (who, lines) in scripts {
        let local = locals.iter().take(usize::try_from(who.1).unwrap_or(usize::MAX));
        let node = locals.get(usize::try_from(who.1).unwrap_or(usize::MAX));
        let local = local.filter(|one| Some(*one) == node).count();
        let started = start(program, args, (who.1, u32::try_from(local).unwrap_or(0)), size);
        match started {
            Ok((child, link)) => replay.ranks.push(ProgramRank::new(who, lines, child, link)),
            Err(error) => {
                replay.kill_all();
                let program = program.display();
                return Err(format!("'{program}' cannot be started ({error}); check the path"));
            }
        }
    }
    let outcome = replay.run(timeout);
    replay.kill_all();
    outcome
}

/// All ranks, and the values that they have put.
struct ServerReplay<'a> {
    trace: &'a Trace,
    ranks: Vec<ProgramRank<'a>>,
    /// Values that were put in this run.
    puts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Signal that interrupts the replay; 0 if there was none.
    interrupted: Arc<AtomicUsize>,
}

impl ServerReplay<'_> {
    fn run(&mut self, timeout: Duration) -> Result<ReplayReport, String> {
        let mut moved_at = Instant::now();
        while self.ranks.iter().any(|rank| rank.ended.is_none()) {
            self.wait().map_err(|error| format!("the replay cannot continue: {error}"))?;
            let mut moved = false;
            let signal = self.interrupted.load(Ordering::Relaxed);
            if signal != 0 {
                let code = u8::try_from(128 + signal).unwrap_or(FAILED);
                return Ok(ReplayReport {
                    text: "interrupted; all ranks are terminated\n".into(),
                    code,
                });
            }
            for at in 0..self.ranks.len() {
                let received = self.ranks[at].recv(&mut self.puts);
                match received {
                    Ok(any) => moved |= any,
                    Err(deviation) => return Ok(self.report_deviation(at, &deviation)),
                }
            }
            loop {
                let horizon =
                    self.ranks.iter().map(ProgramRank::next_request).min().unwrap_or(usize::MAX);
                let mut sent = false;
                for rank in &mut self.ranks {
                    sent |= rank.send(horizon, &self.puts);
                }
                if !sent {
                    break;
                }
                moved = true;
                // A rank that was answered may have sent its next request before: it is taken up at once.
                for at in 0..self.ranks.len() {
                    if let Err(deviation) = self.ranks[at].check_requests(&mut self.puts) {
                        return Ok(self.report_deviation(at, &deviation));
                    }
                }
            }
            for at in 0..self.ranks.len() {
                match self.ranks[at].check_exit() {
                    Ok(any) => moved |= any,
                    Err(deviation) => return Ok(self.report_deviation(at, &deviation)),
                }
            }
            if moved {
                moved_at = Instant::now();
            } else if moved_at.elapsed() > timeout {
                return Ok(self.report_no_progress(timeout));
            }
        }
        let ranks = self.ranks.len();
        let bad = self.ranks.iter().find(|rank| rank.ended != Some(0));
        let code = bad.map_or(0, |rank| rank.ended.unwrap_or(i32::from(FAILED)));
        let asked: usize = self.ranks.iter().map(|rank| rank.request_count).sum();
        let mut text = format!("{asked} requests of {ranks} ranks: all as recorded\n");
        if let Some(bad) = bad {
            text.push_str(&format!("{} exited with {code}\n", name(self.trace, bad.who)));
        }
        Ok(ReplayReport { text, code: u8::try_from(code).unwrap_or(FAILED) })
    }

    fn report_deviation(&self, at: usize, deviation: &Deviation) -> ReplayReport {
        let who = name(self.trace, self.ranks[at].who);
        ReplayReport { text: format!("{who} {deviation}\n"), code: FAILED }
    }

    /// Reports the awaited action of each rank, after none has made progress.
    fn report_no_progress(&self, timeout: Duration) -> ReplayReport {
        let mut text = format!("no progress for {} s\n", timeout.as_secs());
        for rank in self.ranks.iter().filter(|rank| rank.ended.is_none()) {
            let who = name(self.trace, rank.who);
            text.push_str(&format!("{who} {}\n", rank.awaited()));
        }
        ReplayReport { text, code: FAILED }
    }

    /// Waits until a link is readable, or for a moment, since ends of processes are polled for.
    fn wait(&self) -> io::Result<()> {
        let links = self.ranks.iter().filter_map(|rank| rank.link.as_ref());
        let mut watched: Vec<_> = links.map(|link| PollFd::new(link, PollFlags::IN)).collect();
        match poll(&mut watched, Some(&CHECK_INTERVAL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn kill_all(&mut self) {
        self.ranks.iter_mut().for_each(ProgramRank::kill);
    }
}

/// Starts one rank, in a process group of its own, so that its children are killed with it.
fn start(
    program: &OsStr,
    args: &[OsString],
    (rank, local): (u32, u32),
    size: u32,
) -> io::Result<(std::process::Child, UnixStream)> {
    let (ours, theirs) = child::socket_pair()?;
    let fd = theirs.as_raw_fd().unsigned_abs();
    let host = host_name::own();
    let mut command = child::command(program);
    command.args(args).envs(env::of_job([size; 2], fd, &host, false));
    let child = command.envs(env::of_rank(rank, local)).spawn()?;
    Ok((child, ours))
}

/// True if an answer ends an operation that other ranks take part in.
fn is_collective(line: &RecordedMessage<'_>) -> bool {
    let verb = message::verb(Direction::ToClient, line.bytes);
    matches!(verb, Verb::Fence | Verb::Ring)
}

/// Key and value of a message that puts one.
fn put_by(line: &RecordedMessage<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    match request(line)? {
        pmi_core::command::Request::Put { key, value, .. } => {
            Some((key.bytes().collect(), value.bytes().collect()))
        }
        _ => None,
    }
}

const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
