//! `cargo xtask instructions`: instructions that the server executes for one operation, against the figures
//! of `docs/performance.md`.
//!
//! `pmi-host run --listen` runs under callgrind, which counts instructions of the process itself and not
//! seconds, so that a run on a busy machine has the same result. One rank connects over loopback and sends
//! one request at a time, each of which costs the server one turn of its event loop. An operation costs the
//! difference between a run with many of them and a run with none.

use crate::args;
use crate::{page, process, processes, toolchain};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// One row of the table.
struct CountedOperation {
    protocol: CountedProtocol,
    name: &'static str,
    value_bytes: usize,
    kind: OperationKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CountedProtocol {
    Pmi1,
    Pmi2,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Put,
    Get,
    Fence,
}

const OPERATIONS: &[CountedOperation] = &[
    CountedOperation {
        protocol: CountedProtocol::Pmi1,
        name: "put, 64 bytes",
        value_bytes: 64,
        kind: OperationKind::Put,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi1,
        name: "put, 1023 bytes",
        value_bytes: 1023,
        kind: OperationKind::Put,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi1,
        name: "get, 64 bytes",
        value_bytes: 64,
        kind: OperationKind::Get,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi1,
        name: "get, 1023 bytes",
        value_bytes: 1023,
        kind: OperationKind::Get,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi1,
        name: "fence of one rank",
        value_bytes: 64,
        kind: OperationKind::Fence,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi2,
        name: "put, 1023 bytes",
        value_bytes: 1023,
        kind: OperationKind::Put,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi2,
        name: "get, 1023 bytes",
        value_bytes: 1023,
        kind: OperationKind::Get,
    },
    CountedOperation {
        protocol: CountedProtocol::Pmi2,
        name: "fence of one rank",
        value_bytes: 64,
        kind: OperationKind::Fence,
    },
];

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let [write] = args::flags(arguments, "cargo xtask instructions [--write]", ["write"])?;
    let counts = measure()?;
    if write {
        page::write(PAGE, MARKS, &render(&counts))?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(crate::report("instructions", &compare(&counts)?))
}

/// The step of the tests: counts that differ from the table by more than the tolerance, a line each.
///
/// # Errors
///
/// The counts cannot be measured, or the table cannot be read.
pub(crate) fn check() -> Result<Vec<String>, String> {
    compare(&measure()?)
}

/// Counts of all operations, in the order of the table.
fn measure() -> Result<Vec<u64>, String> {
    let directory = toolchain::target_directory().join("instructions");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut idle = Vec::new();
    for protocol in [CountedProtocol::Pmi1, CountedProtocol::Pmi2] {
        idle.push((protocol, collect(&directory, protocol, 0, |_| Ok(()))?));
    }
    let mut counts = Vec::new();
    for operation in OPERATIONS {
        let base = idle.iter().find(|(protocol, _)| *protocol == operation.protocol);
        let base = base.map_or(0, |(_, count)| *count);
        let all = collect(&directory, operation.protocol, operation.value_bytes, |rank| {
            (0..COUNT).try_for_each(|number| rank.perform(operation.kind, number))
        })?;
        let count = all.saturating_sub(base) / u64::from(COUNT);
        println!("{} {}: {count}", operation.protocol.name(), operation.name);
        counts.push(count);
    }
    Ok(counts)
}

/// Instructions of a server during a job of one rank, which puts one value and does `work`.
fn collect(
    directory: &Path,
    protocol: CountedProtocol,
    value_bytes: usize,
    work: impl FnOnce(&mut CountedRank) -> Result<(), String>,
) -> Result<u64, String> {
    let server = CountedServer::start(directory)?;
    let mut rank = CountedRank::connect(&server.address, protocol, value_bytes)?;
    rank.perform(OperationKind::Put, 0)?;
    work(&mut rank)?;
    rank.finalize()?;
    server.finish()
}

/// Number of a processor that this process may use.
fn one_processor() -> Result<String, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split(['-', ',']).next().map(str::to_owned));
    first.ok_or_else(|| "the system does not list the processors".to_owned())
}

/// `pmi-host` under callgrind.
struct CountedServer {
    child: Child,
    log: PathBuf,
    address: String,
}

impl CountedServer {
    fn start(directory: &Path) -> Result<Self, String> {
        let program = toolchain::target_directory().join("release/pmi-host");
        if !program.exists() {
            return Err(format!(
                "there is no {}; build it by `cargo build --release -p pmi-host`",
                program.display()
            ));
        }
        let log = |id: &str| directory.join(format!("log.{id}"));
        let mut child = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(format!("--log-file={}", log("%p").display()))
            .arg(program)
            .args(["run", "--listen", "127.0.0.1:0", "--expect", "1"])
            // On one processor the server does not look for the next message before it sleeps: how often
            // it would look depends on the load of the machine.
            .args(["--cpu-set", &one_processor()?])
            .env("GLIBC_TUNABLES", SAME_COPIES)
            .env(processes::MARK, processes::mark())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("valgrind: {error}"))?;
        let log = log(&child.id().to_string());
        let stderr = child.stderr.take().ok_or("no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let announced = lines.find_map(|line| {
            let (_, rest) = line.as_ref().ok()?.split_once("PMI_PORT=")?;
            rest.split(';').next().map(str::to_owned)
        });
        let address = announced.ok_or("the server announces no port")?;
        // A reader has to remain, or the last lines of the server would be its end.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, log, address })
    }

    /// Waits for the end of the server, whose one rank has finalized, and returns its count.
    fn finish(mut self) -> Result<u64, String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the server ended with {status}"));
        }
        let log = fs::read_to_string(&self.log)
            .map_err(|error| format!("{}: {error}", self.log.display()))?;
        let _ = fs::remove_file(&self.log);
        let count = log.lines().find_map(|line| line.split_once("Collected : "));
        let count = count.and_then(|(_, count)| count.trim().parse().ok());
        count.ok_or_else(|| format!("callgrind printed no count:\n{log}"))
    }
}

impl Drop for CountedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A rank, which has the bytes of PMI from this file and waits for each answer.
struct CountedRank {
    stream: BufReader<TcpStream>,
    protocol: CountedProtocol,
    /// Name of the space of the job, for PMI-1.
    space: String,
    value: String,
}

impl CountedRank {
    fn connect(
        address: &str,
        protocol: CountedProtocol,
        value_bytes: usize,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        let value = "v".repeat(value_bytes.max(1));
        let space = String::new();
        let mut rank = Self { stream: BufReader::new(stream), protocol, space, value };
        rank.line("cmd=initack pmiid=0\n")?;
        for _ in ["size", "rank", "debug"] {
            rank.read_line()?;
        }
        match protocol {
            CountedProtocol::Pmi1 => {
                rank.line("cmd=init pmi_version=1 pmi_subversion=1\n")?;
                let answer = rank.line("cmd=get_my_kvsname\n")?;
                let (_, name) = answer.split_once("kvsname=").ok_or("no name of the space")?;
                rank.space = name.trim().to_owned();
            }
            CountedProtocol::Pmi2 => {
                rank.line("cmd=init pmi_version=2 pmi_subversion=0\n")?;
                rank.frame("cmd=fullinit;pmijobid=;pmirank=0;threaded=FALSE;")?;
            }
        }
        Ok(rank)
    }

    fn perform(&mut self, kind: OperationKind, number: u32) -> Result<(), String> {
        let value = std::mem::take(&mut self.value);
        let key = match kind {
            OperationKind::Get => 0,
            OperationKind::Put | OperationKind::Fence => number,
        };
        match (self.protocol, kind) {
            (CountedProtocol::Pmi1, OperationKind::Put) => {
                let space = &self.space;
                self.line(&format!("cmd=put kvsname={space} key=key-{key:06} value={value}\n"))?;
            }
            (CountedProtocol::Pmi1, OperationKind::Get) => {
                self.line(&format!("cmd=get kvsname={} key=key-{key:06}\n", self.space))?;
            }
            (CountedProtocol::Pmi1, OperationKind::Fence) => {
                self.line("cmd=barrier_in\n")?;
            }
            (CountedProtocol::Pmi2, OperationKind::Put) => {
                self.frame(&format!("cmd=kvs-put;key=key-{key:06};value={value};"))?;
            }
            (CountedProtocol::Pmi2, OperationKind::Get) => {
                self.frame(&format!("cmd=kvs-get;key=key-{key:06};"))?;
            }
            (CountedProtocol::Pmi2, OperationKind::Fence) => self.frame("cmd=kvs-fence;")?,
        }
        self.value = value;
        Ok(())
    }

    fn finalize(mut self) -> Result<(), String> {
        match self.protocol {
            CountedProtocol::Pmi1 => self.line("cmd=finalize\n").map(drop),
            CountedProtocol::Pmi2 => self.frame("cmd=finalize;"),
        }
    }

    /// Sends a line of PMI-1 and returns the answer.
    fn line(&mut self, line: &str) -> Result<String, String> {
        self.stream.get_mut().write_all(line.as_bytes()).map_err(text)?;
        let answer = self.read_line()?;
        accept(line, &answer)?;
        Ok(answer)
    }

    fn read_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(text)?;
        Ok(line)
    }

    /// Sends a command of PMI-2 and waits for the answer.
    fn frame(&mut self, command: &str) -> Result<(), String> {
        let frame = format!("{:<6}{command}", command.len());
        self.stream.get_mut().write_all(frame.as_bytes()).map_err(text)?;
        let mut len = [0; 6];
        self.stream.read_exact(&mut len).map_err(text)?;
        let len = str::from_utf8(&len).ok().and_then(|len| len.trim().parse().ok());
        let mut answer = vec![0; len.ok_or("an answer without a length")?];
        self.stream.read_exact(&mut answer).map_err(text)?;
        accept(command, &String::from_utf8_lossy(&answer))
    }
}

/// An answer that refuses the request would be counted as if it were the operation.
fn accept(request: &str, answer: &str) -> Result<(), String> {
    match answer.contains("rc=0")
        || answer.starts_with("cmd=barrier_out")
        || answer.starts_with("cmd=finalize_ack")
    {
        true => Ok(()),
        false => {
            Err(format!("{:?} is answered with {answer:?}", request.get(..60).unwrap_or(request)))
        }
    }
}

fn text(error: std::io::Error) -> String {
    format!("the connection to the server: {error}")
}

impl CountedProtocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Pmi1 => "PMI-1",
            Self::Pmi2 => "PMI-2",
        }
    }
}

fn render(counts: &[u64]) -> String {
    let rows: Vec<_> = OPERATIONS
        .iter()
        .zip(counts)
        .map(|(operation, count)| {
            vec![operation.protocol.name().to_owned(), operation.name.to_owned(), count.to_string()]
        })
        .collect();
    page::table(&["protocol", "operation", "instructions"], [":--", "--:"], &rows)
}

/// Counts outside the tolerance, a line each.
fn compare(counts: &[u64]) -> Result<Vec<String>, String> {
    let document = fs::read_to_string(process::root().join(PAGE))
        .map_err(|error| format!("{PAGE}: {error}"))?;
    let rows = recorded(&document);
    let mut findings = Vec::new();
    for (operation, &count) in OPERATIONS.iter().zip(counts) {
        let name = format!("{} {}", operation.protocol.name(), operation.name);
        match rows.iter().find(|(row, _)| *row == name) {
            None => findings.push(format!("{PAGE} has no count for {name}")),
            Some((_, was)) if count.abs_diff(*was) * 100 > was * TOLERANCE_PERCENT => findings
                .push(format!(
                    "{name}: {count} instructions, {was} in {PAGE}; if the change is \
                 intended, `cargo xtask instructions --write` records it"
                )),
            Some(_) => {}
        }
    }
    Ok(findings)
}

/// Operations of the document with their counts.
fn recorded(document: &str) -> Vec<(String, u64)> {
    let [start, end] = MARKS;
    let table = document.split_once(start).and_then(|(_, rest)| rest.split_once(end));
    let rows = table.map_or("", |(table, _)| table).lines();
    rows.filter_map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [protocol, operation, count] = cells[..] else { return None };
        Some((format!("{protocol} {operation}"), count.parse().ok()?))
    })
    .collect()
}

const PAGE: &str = "docs/performance.md";
const MARKS: [&str; 2] = ["<!-- instructions -->", "<!-- end instructions -->"];

/// Has glibc copy memory in the same way on every processor of x86-64. Otherwise it chooses by the model,
/// and callgrind counts each byte that `rep movsb` copies as one instruction.
const SAME_COPIES: &str =
    "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM";

/// Operations of a run.
const COUNT: u32 = 1000;

/// Largest difference from the recorded count.
const TOLERANCE_PERCENT: u64 = 3;

/// Bound on the wait for one answer; under callgrind a turn of the server takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outside_the_tolerance_are_found() {
        let counts = vec![1000; OPERATIONS.len()];
        let page = format!("{}\n{}\n{}", MARKS[0], render(&counts), MARKS[1]);
        let rows = recorded(&page);
        assert_eq!(rows.len(), OPERATIONS.len());
        assert_eq!(rows[1], ("PMI-1 put, 1023 bytes".to_owned(), 1000));
    }
}
