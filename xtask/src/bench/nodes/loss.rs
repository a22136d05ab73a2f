//! Times from the loss of a node to the message about it, and to the end of all ranks.

use super::bench_hosts::{BenchHosts, SshLauncher};
use super::{NodeRow, seconds};
use crate::bench::Comparison;
use crate::bench::stats::median;
use pmi_host_testkit::ssh::SshHosts;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Loss of a node.
#[derive(Clone, Copy)]
enum NodeFault {
    /// Its wire is cut, without a word to either end.
    Cut,
    /// Its agent is killed, so that the kernel closes the connections.
    Reset,
}

/// Adds the rows of this comparison.
///
/// # Errors
///
/// The launcher does not report the loss, or leaves ranks behind.
pub(super) fn measure(bench: &BenchHosts<'_>, table: &mut Comparison) -> Result<(), String> {
    for (name, fault, turns, limits) in [
        ("cut wire", NodeFault::Cut, 3, [6.0, 7.0]),
        ("killed agent", NodeFault::Reset, 5, [0.2, 1.2]),
    ] {
        let took: Result<Vec<_>, String> = (0..turns).map(|_| lose(bench, fault)).collect();
        let took = took?;
        for (at, (event, limit)) in
            ["message", "end of all ranks"].into_iter().zip(limits).enumerate()
        {
            let found = median(took.iter().map(|both| both[at])).unwrap_or(f64::NAN);
            let figure = format!("{name}: time to {event}");
            let beside = "";
            let row = NodeRow { figure: &figure, hosts: HOSTS, ranks: RANKS, beside, limit: None };
            let target = table.judge(&format!("{figure}, in seconds"), found, limit);
            row.write(table, [seconds(found), target], None, turns);
        }
    }
    Ok(())
}

/// Seconds until the message, and until the end of all ranks.
fn lose(bench: &BenchHosts<'_>, fault: NodeFault) -> Result<[f64; 2], String> {
    let hosts = &bench.hosts;
    let mut run =
        SleepingJob::start(bench.launcher(SshLauncher::PmiHost, HOSTS, RANKS), RANKS, &["true"])?;
    match fault {
        NodeFault::Cut => hosts.cut(LOST),
        NodeFault::Reset => kill_agent(hosts, LOST)?,
    }
    let since = Instant::now();
    run.wait_for_error("is lost")?;
    let message = since.elapsed().as_secs_f64();
    while sleepers() > 0 {
        if since.elapsed() > LIMIT {
            return Err("ranks are left after the loss of a node".to_owned());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let end = since.elapsed().as_secs_f64();
    if matches!(fault, NodeFault::Cut) {
        hosts.mend(LOST);
    }
    run.end();
    Ok([message, end])
}

fn kill_agent(hosts: &SshHosts, host: u32) -> Result<(), String> {
    let is_agent = |pid: &&u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"node") && !words.starts_with(b"sh")
    };
    let pids = hosts.pids(host);
    // Its guard has the same words, and was copied from it.
    let agent = pids.iter().filter(is_agent).min().ok_or("the host has no agent")?;
    let killed = Command::new("kill").args(["-9", &agent.to_string()]).status();
    killed.map(drop).map_err(|error| error.to_string())
}

/// Ranks that sleep, on any host.
fn sleepers() -> usize {
    let is_one = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.starts_with(b"sleep\0") && words.ends_with(format!("\0{SLEEP}\0").as_bytes())
    };
    fs::read_dir("/proc").map_or(0, |all| all.flatten().filter(is_one).count())
}

/// A job whose ranks sleep once they have executed a command.
pub(super) struct SleepingJob {
    launcher: Child,
    errors: Receiver<String>,
}

impl SleepingJob {
    /// Starts the job and waits until its `ranks` ranks have executed `words`.
    ///
    /// # Errors
    ///
    /// They have not in time.
    pub(super) fn start(mut launcher: Command, ranks: u32, words: &[&str]) -> Result<Self, String> {
        let script = format!("\"$@\" >/dev/null || exit 1; echo asleep; exec sleep {SLEEP}");
        launcher.args(["sh", "-c", &script, "sh"]).args(words);
        launcher.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut launcher = launcher.spawn().map_err(|error| error.to_string())?;
        let output = lines(launcher.stdout.take());
        let errors = lines(launcher.stderr.take());
        let mut job = Self { launcher, errors };
        for rank in 0..ranks {
            if output.recv_timeout(LIMIT).is_err() {
                job.end();
                let errors: Vec<String> = job.errors.try_iter().collect();
                return Err(format!("{rank} of {ranks} ranks sleep: {}", errors.join("; ")));
            }
        }
        Ok(job)
    }

    fn wait_for_error(&mut self, text: &str) -> Result<(), String> {
        loop {
            match self.errors.recv_timeout(LIMIT) {
                Ok(line) if line.contains(text) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(format!("the launcher never reports that a node {text:?}")),
            }
        }
    }

    /// Ends the job.
    pub(super) fn end(&mut self) {
        let pid = self.launcher.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        let _ = self.launcher.wait();
    }
}

fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// Duration that no other program sleeps, in seconds.
const SLEEP: &str = "86399";

const HOSTS: u32 = 8;
const RANKS: u32 = 16;
/// The host that is lost.
const LOST: u32 = 2;
/// Far more than any of this takes.
const LIMIT: Duration = Duration::from_secs(30);
