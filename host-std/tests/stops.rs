//! Signals that stop a process group, delivered to the launcher's group while ranks are being started.

use crate::common::terminal::shell_on_terminal;
use crate::common::{host_path, job, openmpi_program, signal_group, start};
use std::thread::sleep;
use std::time::Duration;

/// The moments of a start at which a signal is tried, spread over it.
fn moments(tries: u64, last: Duration) -> impl Iterator<Item = Duration> {
    let last = u64::try_from(last.as_micros()).unwrap();
    (0..tries).map(move |number| Duration::from_micros(last * (number + 1) / tries))
}

#[test]
fn group_stopped_during_a_start_goes_on_when_it_is_continued() {
    for (moment, stop) in moments(24, Duration::from_millis(120)).zip(STOPS.iter().cycle()) {
        let running = start(&mut job(200, ["sleep", "0.2"]));
        sleep(moment);
        signal_group(running.pid(), stop).unwrap();
        sleep(Duration::from_millis(60));
        signal_group(running.pid(), "CONT").unwrap();
        // A launcher that is stuck in a system call does not end: the time limit of the test ends it.
        running.end().exits_with(0).says_nothing();
    }
}

#[test]
fn orphaned_group_ignores_stop_signals_during_a_start() {
    for (moment, stop) in moments(12, Duration::from_millis(120)).zip(STOPS.iter().cycle()) {
        let mut terminal = shell_on_terminal(&format!(
            "exec {} run --stdin none -n 200 sh -c 'echo up; exec sleep 0.2'",
            host_path()
        ));
        sleep(moment);
        terminal.signal_group(stop);
        sleep(Duration::from_millis(60));
        terminal.signal_group("CONT");
        assert_eq!(terminal.ends().0, 0);
    }
}

#[test]
fn yielding_ranks_start_while_their_group_is_stopped_and_continued() {
    let Some(program) = openmpi_program("noinit") else { return };
    for (moment, stop) in moments(12, Duration::from_millis(120)).zip(STOPS.iter().cycle()) {
        let running = start(&mut job(80, [&program]));
        sleep(moment);
        signal_group(running.pid(), stop).unwrap();
        sleep(Duration::from_millis(60));
        signal_group(running.pid(), "CONT").unwrap();
        running.end().exits_with(0);
    }
}

#[test]
fn start_stopped_by_a_key_goes_on_in_the_foreground() {
    // Once a rank runs the launcher is in the foreground, which the shell itself was before.
    let run = format!("{} run -n 200 sh -c 'echo up; exec sleep 0.2'", host_path());
    for moment in moments(14, Duration::from_millis(80)) {
        let script = format!("set -m; {run}; echo code $?; read go; fg; exit $?");
        let mut terminal = shell_on_terminal(&script);
        terminal.shows("up");
        sleep(moment);
        terminal.types(STOP_KEY);
        terminal.shows("code 1");
        terminal.types("go\n");
        let (code, shown) = terminal.ends();
        assert_eq!(code, 0, "{shown}");
    }
}

#[test]
fn start_in_the_background_stopped_for_reading_goes_on_in_the_foreground() {
    let run = format!("{} run -n 8 sh -c 'read x; echo got $x'", host_path());
    let list = tempfile::NamedTempFile::new().unwrap();
    for _ in 0..8 {
        // The shell detects that its job is stopped, and then continues it in the foreground. A pipe would
        // run the check in a subshell, which has no jobs.
        let script = format!(
            "set -m; {run} & until jobs > {0}; grep -q Stopped {0}; do sleep 0.01; done; \
             echo stopped; fg; exit $?",
            list.path().display()
        );
        let mut terminal = shell_on_terminal(&script);
        terminal.shows("stopped");
        terminal.types("word\n");
        let (code, shown) = terminal.ends();
        assert!(code == 0 && shown.contains("got word"), "{shown}");
    }
}

/// The signals that stop a process group, but the one that cannot be caught.
const STOPS: [&str; 3] = ["TSTP", "TTIN", "TTOU"];

/// The key as a terminal sends it.
const STOP_KEY: &str = "\x1a";
