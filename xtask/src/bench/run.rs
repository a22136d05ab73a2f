//! Running programs: bounded in time, with their output kept, taking turns.

use super::stats::Turns;
use crate::process;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A program that ran to its end.
#[derive(Debug)]
pub(super) struct Outcome {
    /// From just before it was started until it was waited for.
    pub(super) took: Duration,
    /// The process it was.
    pub(super) pid: u32,
    /// Its output.
    pub(super) output: String,
}

/// A program and its arguments, by words.
pub(super) fn words(program: &str, arguments: &[&str]) -> Command {
    let mut command = process::command(program);
    command.args(arguments);
    command
}

/// The same command on the processors of a list (`0,1`).
pub(super) fn on_processors(list: &str, command: &Command) -> Command {
    let mut bound = process::command("taskset");
    bound.args(["-c", list]).arg(command.get_program()).args(command.get_args());
    bound
}

/// Runs `command` and keeps what it prints. After [`LIMIT`] it is ended by force.
///
/// # Errors
///
/// It cannot be started, does not end well, or not in time; with what it was.
pub(super) fn run(command: &mut Command) -> Result<Outcome, String> {
    command.stdout(Stdio::piped());
    finish(command, LIMIT)
}

/// The same for a program whose output is discarded.
pub(super) fn run_silent(command: &mut Command) -> Result<Outcome, String> {
    command.stdout(Stdio::null());
    finish(command, LIMIT)
}

fn finish(command: &mut Command, limit: Duration) -> Result<Outcome, String> {
    let name = line_of(command);
    let failed = |why: &dyn std::fmt::Display| format!("{name}: {why}");
    // A group of its own, so that ending it reaches the programs it has started.
    command.process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let pid = child.id();
    let (done, is_done) = channel::<()>();
    let guard = thread::spawn(move || guard(pid, limit, &is_done));
    let mut output = String::new();
    let read = child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut output));
    let status = child.wait().map_err(|error| failed(&error))?;
    let took = start.elapsed();
    drop(done);
    let in_time = guard.join().unwrap_or(true);
    read.map_err(|error| failed(&error))?;
    match (in_time, status.success()) {
        (true, true) => Ok(Outcome { took, pid, output }),
        (true, false) => Err(failed(&status)),
        (false, _) => Err(failed(&format_args!("not done after {} s", limit.as_secs()))),
    }
}

/// Terminates the group of `pid` unless it is done within `limit`, and returns true if it was. A
/// launcher that receives a signal first can take its ranks along, which may have left the group.
fn guard(pid: u32, limit: Duration, is_done: &Receiver<()>) -> bool {
    let mut waits = [limit, GRACE].into_iter().zip(["TERM", "KILL"]);
    let mut in_time = true;
    for (wait, signal) in waits.by_ref() {
        if is_done.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return in_time;
        }
        in_time = false;
        let kill = format!("kill -{signal} -{pid}");
        // It fails only when all processes have exited, which is the intention.
        let _ = process::command("sh").args(["-c", &kill]).stderr(Stdio::null()).status();
    }
    in_time
}

fn line_of(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let mut line = program.rsplit('/').next().unwrap_or_default().to_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        line.push(' ');
        line.push_str(argument.rsplit('/').next().unwrap_or_default());
    }
    line
}

/// A program that takes part, as what one turn of it gives.
pub(super) type Contestant<'a, T> = Box<dyn FnMut() -> Result<T, String> + 'a>;

/// A contestant whose result is read from what one run of `command` prints.
pub(super) fn contestant<T>(
    mut command: Command,
    read: impl Fn(&Outcome) -> Result<T, String> + 'static,
) -> Contestant<'static, T> {
    Box::new(move || read(&run(&mut command)?))
}

/// Lets all of `contestants` have a turn, again and again, until there are `turns_max` or `budget`
/// is spent; at least [`TURNS_MIN`] turns, however long they take. Returns the results by
/// contestant.
///
/// A turn in which one fails is reported and does not count: launchers have races that a busy
/// machine finds.
///
/// # Errors
///
/// The last failure, when there were more than [`FAILURES_MAX`].
pub(super) fn take_turns<T>(
    contestants: &mut [Contestant<'_, T>],
    turns_max: usize,
    budget: Duration,
) -> Result<Turns<T>, String> {
    let mut results: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    let (start, mut failures, mut is_warm) = (Instant::now(), 0, false);
    loop {
        let turns = results.first().map_or(turns_max, Vec::len);
        if turns >= turns_max || turns >= TURNS_MIN && start.elapsed() > budget {
            return Ok(Turns(results));
        }
        let turn: Result<Vec<T>, String> =
            contestants.iter_mut().map(|contestant| contestant()).collect();
        match turn {
            // The first turn fills caches and is not counted.
            Ok(_) if !is_warm => is_warm = true,
            Ok(turn) => results.iter_mut().zip(turn).for_each(|(all, one)| all.push(one)),
            Err(why) if failures == FAILURES_MAX => return Err(why),
            Err(why) => {
                println!("a turn is discarded: {why}");
                failures += 1;
            }
        }
    }
}

/// Reads the line `NAME count=4 median_ns=21642 mean_ns=37444`: median and mean, in microseconds.
///
/// # Errors
///
/// There is no such line.
pub(super) fn times(output: &str, name: &str) -> Result<[f64; 2], String> {
    let line = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = |name: &str| -> Option<f64> {
        let word = line?.split(' ').find_map(|word| word.strip_prefix(name))?;
        word.parse().ok().map(|nanos: f64| nanos / 1e3)
    };
    let both = number("median_ns=").zip(number("mean_ns="));
    let (median, mean) =
        both.ok_or_else(|| format!("rank 0 printed no line of {name}: {output:?}"))?;
    Ok([median, mean])
}

/// A median of fewer has no meaning.
const TURNS_MIN: usize = 5;
/// Of one row of a table. Who fails more often is broken, not unlucky.
const FAILURES_MAX: usize = 3;
/// Ten times what the longest run takes on a busy machine with two cores.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between the termination signal and the kill.
const GRACE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        words("sh", &["-c", script])
    }

    #[test]
    fn output_and_time_are_kept() {
        let outcome = run(&mut shell("echo $$; sleep 0.05")).unwrap();
        assert_eq!(outcome.output.trim(), outcome.pid.to_string());
        assert!(outcome.took >= Duration::from_millis(50));
        assert_eq!(run_silent(&mut shell("echo x")).unwrap().output, "");
    }

    #[test]
    fn failure_names_the_program() {
        let why = run(&mut shell("exit 3")).unwrap_err();
        assert!(why.starts_with("sh -c exit 3: ") && why.contains('3'), "{why}");
        assert!(run(&mut words("no-such-program-anywhere", &[])).is_err());
    }

    #[test]
    fn slow_programs_are_terminated_with_their_children() {
        let start = Instant::now();
        let mut slow = shell("sleep 600 & sleep 600");
        let why = finish(slow.stdout(Stdio::piped()), Duration::from_millis(100)).unwrap_err();
        assert!(why.contains("not done after"), "{why}");
        // Both hold the pipe, so this comes back only when both are gone.
        assert!(start.elapsed() < GRACE);
    }

    #[test]
    fn turns_alternate_and_the_first_does_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let turn = |name: char| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(order.borrow().len())
            }
        };
        let mut both: [Contestant<'_, usize>; 2] = [Box::new(turn('a')), Box::new(turn('b'))];
        let results = take_turns(&mut both, 9, Duration::ZERO).unwrap();
        assert_eq!(results.0, [[3, 5, 7, 9, 11], [4, 6, 8, 10, 12]]);
        assert_eq!(*order.borrow(), "abababababab");
    }

    #[test]
    fn turn_with_a_failure_does_not_count_and_too_many_end_it() {
        let fails_until = |last: usize| {
            let mut calls = 0;
            let mut flaky: [Contestant<'_, usize>; 1] = [Box::new(move || {
                calls += 1;
                if calls > last { Ok(calls) } else { Err(format!("failed {calls}")) }
            })];
            take_turns(&mut flaky, 2, Duration::MAX)
        };
        assert_eq!(fails_until(FAILURES_MAX).map(|turns| turns.0), Ok(vec![vec![5, 6]]));
        assert_eq!(fails_until(FAILURES_MAX + 1).err().as_deref(), Some("failed 4"));
    }

    #[test]
    fn commands_are_bound_as_a_whole() {
        let mut launcher = Command::new("launcher");
        let bound = on_processors("0,1", launcher.args(["-n", "4"]));
        let words: Vec<_> = bound.get_args().collect();
        assert_eq!(words, ["-c", "0,1", "launcher", "-n", "4"]);
    }
}
