//! Starting other programs: always from the workspace root, never with our standard input.

use crate::failures::Failures;
use crate::machine;
use crate::processes::{self, MARK, Process};
use crate::slowest::TestTimes;
use crate::tally::Tally;
use std::env;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The workspace root: the directory above this crate's.
pub(crate) fn root() -> PathBuf {
    let here =
        env::var_os("CARGO_MANIFEST_DIR").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// A command that starts in the workspace root.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null()).env(MARK, processes::mark());
    command
}

/// The cargo that started us, so that all steps use one compiler.
pub(crate) fn cargo() -> Command {
    cargo_at(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A cargo. In CI, whose trees are built once, it keeps nothing for a second build of a crate: that would
/// take a third more time of the first.
pub(crate) fn cargo_at(program: impl AsRef<OsStr>) -> Command {
    let mut cargo = command(program);
    if machine::in_ci() && env::var_os(INCREMENTAL).is_none() {
        cargo.env(INCREMENTAL, "0");
    }
    cargo
}

const INCREMENTAL: &str = "CARGO_INCREMENTAL";

/// Node, which finds the packages of Debian in every build of it.
pub(crate) fn node() -> Command {
    let mut node = command("node");
    node.env("NODE_PATH", "/usr/share/nodejs");
    node
}

/// Output of a program, or the cause of its failure.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, said.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name}: output is not UTF-8"))
}

/// Runs a program in view of the user; returns true if it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    announce(command);
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("{}: {error}", command.get_program().to_string_lossy());
            false
        }
    }
}

/// Runs `cargo test` in view of the user and adds up what its test binaries report.
pub(crate) fn count_tests(command: &mut Command) -> Tally {
    announce(command);
    count(command, &mut io::stdout())
}

/// The stream on which a command reports its tests: `cargo test` on the output, `cargo nextest` on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportStream {
    Output,
    Error,
}

/// Result of some tests.
pub(crate) struct TestRun {
    pub(crate) tally: Tally,
    /// Names of failed tests.
    pub(crate) failed: Vec<String>,
}

/// Runs tests in view of the user. A run that finds no test has not failed.
pub(crate) fn run_tests(command: &mut Command, reported: ReportStream) -> TestRun {
    announce(command);
    run_selected(command, reported, &mut io::stdout())
}

fn run_selected(command: &mut Command, reported: ReportStream, out: &mut impl Write) -> TestRun {
    match stream(command, reported, out) {
        Ok((run, true)) if run.tally == Tally::default() => run,
        Ok((run, success)) => TestRun { tally: judge(run.tally, success), ..run },
        Err(error) => {
            let _ = writeln!(out, "{}: {error}", command.get_program().to_string_lossy());
            TestRun { tally: Tally::FAILED, failed: Vec::new() }
        }
    }
}

/// Adds up what a program reports, and returns its output with it: others run beside it.
pub(crate) fn count_apart(command: &mut Command) -> (Tally, Vec<u8>) {
    let mut out = Vec::new();
    let tally = count(command, &mut out);
    (tally, out)
}

fn count(command: &mut Command, out: &mut impl Write) -> Tally {
    match stream(command, ReportStream::Output, out) {
        Ok((run, success)) => judge(run.tally, success),
        Err(error) => {
            let _ = writeln!(out, "{}: {error}", command.get_program().to_string_lossy());
            Tally::FAILED
        }
    }
}

fn stream(
    command: &mut Command,
    reported: ReportStream,
    out: &mut impl Write,
) -> io::Result<(TestRun, bool)> {
    let command = match reported {
        ReportStream::Output => command.stdout(Stdio::piped()),
        ReportStream::Error => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn()?;
    let pipe: Option<Box<dyn Read + Send>> = match reported {
        ReportStream::Output => child.stdout.take().map(|pipe| Box::new(pipe) as _),
        ReportStream::Error => child.stderr.take().map(|pipe| Box::new(pipe) as _),
    };
    let mut tally = Tally::default();
    let mut watchdog = Watchdog::new(child.id());
    let mut times = TestTimes::default();
    let mut failures = Failures::default();
    // A thread reads, because a process that a test leaves behind may keep the pipe open without end.
    let (sender, lines) = mpsc::channel();
    if let Some(pipe) = pipe {
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
    }
    let mut ended = None;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                out.write_all(&line)?;
                out.flush()?;
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end();
                tally += Tally::of_result_line(text).unwrap_or_default();
                times.read(text, || watchdog.running());
                failures.read(text);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if ended.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {
                watchdog.check();
                ended = child.try_wait()?;
            }
        }
    }
    let failed = failures.publish();
    let status = ended.map_or_else(|| child.wait(), Ok)?;
    if let Some(line) = times.line() {
        writeln!(out, "{line}")?;
    }
    Ok((TestRun { tally, failed }, status.success()))
}

/// Interval of the watchdog's checks; also the time for last lines once the program has exited.
const LOOK: Duration = Duration::from_secs(2);

/// Longest time for one test program.
const TEST_TIME: Duration = Duration::from_secs(25 * 60);

/// Terminates test programs that run longer than [`TEST_TIME`], so that a hang fails one suite and names it.
/// libtest has printed the names of its slow tests by then.
struct Watchdog {
    cargo: i32,
    /// Test programs that run, with the time at which they were first seen.
    seen: Vec<(Process, Instant)>,
}

impl Watchdog {
    fn new(cargo: u32) -> Self {
        Self { cargo: i32::try_from(cargo).unwrap_or(0), seen: Vec::new() }
    }

    fn check(&mut self) {
        let running: Vec<Process> =
            processes::processes().into_iter().filter(|process| self.is_test(process)).collect();
        self.seen.retain(|(process, _)| running.iter().any(|one| one.is_same(process)));
        for process in running {
            match self.seen.iter().find(|(seen, _)| seen.is_same(&process)) {
                None => self.seen.push((process, Instant::now())),
                Some((_, since)) if since.elapsed() > TEST_TIME => {
                    println!(
                        "{} ran for more than {} min: it is terminated, with all it has started",
                        process.describe(),
                        TEST_TIME.as_secs() / 60
                    );
                    for killed in processes::kill_marked(|one| one.pid != self.cargo) {
                        println!("terminated: {killed}");
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Name of the test program that runs: that of its file without the hash that cargo adds.
    fn running(&self) -> Option<String> {
        let running = processes::processes().into_iter().find(|process| self.is_test(process))?;
        let path = processes::program(running.pid)?;
        let name = path.file_name()?.to_string_lossy();
        Some(name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned())
    }

    /// True for programs that cargo runs and that are no compilers.
    fn is_test(&self, process: &Process) -> bool {
        process.parent == self.cargo
            && process.is_alive()
            && processes::program(process.pid)
                .is_some_and(|path| path.parent().is_some_and(|parent| parent.ends_with("deps")))
    }
}

/// The word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A failure that no summary line carries (it did not compile, a test binary died) still counts, and so does
/// a run that tested nothing.
fn judge(mut tally: Tally, success: bool) -> Tally {
    if (!success && tally.failed == 0) || tally.passed + tally.failed == 0 {
        tally += Tally::FAILED;
    }
    tally
}

/// Prints the command line with its variables; the search path is long and omitted.
fn announce(command: &Command) {
    print!("$");
    for (name, value) in command.get_envs().filter(|(name, _)| *name != "PATH" && *name != MARK) {
        if let Some(value) = value {
            print!(" {}={:?}", name.to_string_lossy(), value.to_string_lossy());
        }
    }
    let program = Path::new(command.get_program());
    // A full path has no value if it is the active tool chain's own cargo.
    let shown = program.file_name().unwrap_or(program.as_os_str());
    print!(" {}", shown.to_string_lossy());
    for argument in command.get_args() {
        print!(" {}", argument.to_string_lossy());
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Tally {
        // Not to our own output: who counts these tests would add the counts below.
        count(command("sh").args(["-c", script]), &mut io::sink())
    }

    #[test]
    fn counts_of_several_test_binaries_are_added() {
        let tally = shell(
            "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'; echo noise; \
             echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured'",
        );
        assert_eq!(tally, Tally { passed: 5, failed: 0, skipped: 1 });
    }

    #[test]
    fn run_that_dies_without_a_summary_counts_as_one_failure() {
        let tally = shell("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; kill -9 $$");
        assert_eq!(tally, Tally { passed: 2, failed: 1, skipped: 0 });
    }

    #[test]
    fn reported_failure_is_not_counted_twice() {
        let tally = shell("echo 'test result: FAILED. 2 passed; 1 failed; 0 ignored'; exit 101");
        assert_eq!(tally, Tally { passed: 2, failed: 1, skipped: 0 });
    }

    #[test]
    fn run_without_any_test_is_a_failure() {
        assert_eq!(shell("true"), Tally::FAILED);
    }

    #[test]
    fn run_that_finds_no_selected_test_has_not_failed() {
        let run = |script: &str, reported| {
            let TestRun { tally, failed } =
                run_selected(command("sh").args(["-c", script]), reported, &mut io::sink());
            (tally, failed)
        };
        assert_eq!(run("true", ReportStream::Output), (Tally::default(), Vec::new()));
        assert_eq!(run("exit 1", ReportStream::Output), (Tally::FAILED, Vec::new()));
        let script = "echo '   FAIL [ 0.1s] (1/1) a b::c' >&2; \
                      echo 'Summary [ 0.1s] 1 test run: 0 passed, 1 failed' >&2; exit 100";
        let failed = vec!["b::c".to_owned()];
        assert_eq!(run(script, ReportStream::Error), (Tally::FAILED, failed));
    }

    #[test]
    fn process_left_behind_does_not_hold_up_the_count() {
        let script =
            "sleep 300 & echo $! >&2; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let mut shell = command("sh");
        shell.args(["-c", script]).stderr(Stdio::piped());
        let tally = count(&mut shell, &mut io::sink());
        assert_eq!(tally, Tally { passed: 2, failed: 0, skipped: 0 });
        let is_sleep = |process: &Process| process.name == "sleep";
        assert!(!processes::kill_marked(is_sleep).is_empty(), "the mark finds it");
    }

    #[test]
    fn program_that_is_not_there_is_a_failure() {
        assert_eq!(count(&mut command("no-such-program-anywhere"), &mut io::sink()), Tally::FAILED);
        assert!(output(&mut command("no-such-program-anywhere")).is_err());
    }

    #[test]
    fn words_reach_a_shell_as_they_are() {
        assert_eq!(quoted("a'b c"), "'a'\\''b c'");
        assert_eq!([quoted(""), quoted("--x=y")], ["''", "--x=y"]);
    }
}
