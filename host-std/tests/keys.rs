//! The launcher at a terminal: keys that are signals, job control, and input.

use crate::common::terminal::shell_on_terminal;
use crate::common::{c_program, host_path};

#[test]
fn key_reaches_each_rank_once_and_its_children() {
    let signals = c_program("signals");
    let signals = signals.to_str().unwrap();
    // A waiting shell does not act on the key itself.
    let below = format!("sh -c \"trap : INT; {signals}; exit\"");
    for program in [signals, &below] {
        let mut terminal = shell_on_terminal(&format!("exec {} run -n 3 {program}", host_path()));
        terminal.shows_times("ready", 3);
        terminal.types(INTERRUPT);
        let (code, shown) = terminal.ends();
        for rank in 0..3 {
            assert!(shown.contains(&format!("rank {rank} got 1\r\n")), "{shown}");
        }
        assert!(shown.contains("forwarded to the 3 running ranks"), "{shown}");
        assert!(shown.contains("  ranks 0-2 of 3 still run"), "{shown}");
        assert_eq!(code, 130, "{shown}");
    }
}

#[test]
fn key_pressed_twice_kills() {
    let ranks = "sh -c \"trap '' INT; echo ready; while :; do sleep 0.1; done\"";
    let mut terminal = shell_on_terminal(&format!("exec {} run -n 2 {ranks}", host_path()));
    terminal.shows_times("ready", 2);
    terminal.types(INTERRUPT);
    terminal.shows_times("still run:", 1);
    terminal.types(INTERRUPT);
    // If more than two seconds have passed on a busy machine, this was the first key of a new series.
    std::thread::sleep(std::time::Duration::from_millis(300));
    terminal.types(INTERRUPT);
    assert_eq!(terminal.ends().0, 130);
}

#[test]
fn run_can_be_stopped_and_go_on_as_any_job_of_a_shell() {
    // A shell that waits for a child to begin cannot be stopped, so these have no children.
    let ranks = "sh -c 'echo pid $$ is ready; until [ -e $0 ]; do :; done'";
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("flag");
    let run = format!("{} run -n 2 {ranks} {}", host_path(), flag.display());
    let mut terminal =
        shell_on_terminal(&format!("set -m; {run}; echo all is quiet; read go; fg; exit $?"));
    terminal.shows_times("is ready", 2);
    let shown = terminal.seen();
    let pids = shown.lines().filter_map(|line| line.strip_prefix("pid ")?.split(' ').next());
    let pids: Vec<String> = pids.map(str::to_owned).collect();
    terminal.types(STOP);
    terminal.shows_times("all is quiet", 1);
    for pid in &pids {
        terminal.waits(|_| state(pid) == Some('T'), "stopped process");
    }
    terminal.types("go\n");
    for pid in &pids {
        terminal.waits(|_| state(pid).is_some_and(|state| state != 'T'), "running process");
    }
    std::fs::write(flag, "").unwrap();
    let (code, shown) = terminal.ends();
    assert_eq!((pids.len(), code), (2, 0), "{shown}");
}

#[test]
fn launcher_under_a_launcher_is_stopped_with_its_ranks() {
    let ranks = "sh -c 'echo pid $$ is ready; until [ -e $0 ]; do :; done'";
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("flag");
    let own = host_path();
    let run = format!("{own} run -n 1 {own} run --stdin none -n 2 {ranks} {}", flag.display());
    let mut terminal =
        shell_on_terminal(&format!("set -m; {run}; echo all is quiet; read go; fg; exit $?"));
    terminal.shows_times("is ready", 2);
    let shown = terminal.seen();
    let pids = shown.lines().filter_map(|line| line.strip_prefix("pid ")?.split(' ').next());
    let pids: Vec<String> = pids.map(str::to_owned).collect();
    terminal.types(STOP);
    terminal.shows_times("all is quiet", 1);
    for pid in &pids {
        terminal.waits(|_| state(pid) == Some('T'), "stopped process");
    }
    terminal.types("go\n");
    for pid in &pids {
        terminal.waits(|_| state(pid).is_some_and(|state| state != 'T'), "running process");
    }
    std::fs::write(flag, "").unwrap();
    let (code, shown) = terminal.ends();
    assert_eq!((pids.len(), code), (2, 0), "{shown}");
}

#[test]
fn rank_with_a_handler_prepares_before_it_is_stopped() {
    let ranks = "sh -c \"trap 'echo prepared' TSTP; trap 'echo back; exit' CONT; echo ready; while :; do :; done\"";
    let run = format!("{} run --stdin none -n 2 {ranks}", host_path());
    let mut terminal =
        shell_on_terminal(&format!("set -m; {run}; echo all is quiet; read go; fg; exit $?"));
    terminal.shows_times("ready", 2);
    terminal.types(STOP);
    terminal.shows_times("all is quiet", 1);
    terminal.types("go\n");
    terminal.shows_times("back", 2);
    let (code, shown) = terminal.ends();
    assert_eq!((shown.matches("\nprepared\r").count(), code), (2, 0), "{shown}");
}

#[test]
fn ranks_lead_sessions_but_the_reader_of_the_terminal() {
    let ranks = "sh -c 'read pid name state parent group session rest < /proc/$$/stat; \
                 [ $session = $$ ] && [ $group = $$ ] && echo rank $PMI_RANK leads; exit 0'";
    for (option, leaders) in [("", "12"), ("--stdin none", "012"), ("--pty 0", "012"), ("-l", "12")]
    {
        let (code, shown) =
            shell_on_terminal(&format!("exec {} run {option} -n 3 {ranks}", host_path())).ends();
        assert_eq!(code, 0, "{shown}");
        for rank in ["0", "1", "2"] {
            let leads = shown.contains(&format!("rank {rank} leads"));
            assert_eq!(leads, leaders.contains(rank), "{option}: {shown}");
        }
    }
}

#[test]
fn password_is_read_by_the_reader_of_the_terminal_and_stops_no_other() {
    let program = c_program("password");
    let run = format!("exec {} run -n 3 {}", host_path(), program.display());
    let mut terminal = shell_on_terminal(&run);
    terminal.shows_times("password: ", 3);
    terminal.types("secret\n");
    let (code, shown) = terminal.ends();
    assert_eq!(code, 0, "{shown}");
    for said in ["rank 0 got 'secret'", "rank 1 got ''", "rank 2 got ''"] {
        assert!(shown.contains(said), "{shown}");
    }
    // The terminal did not echo the input.
    assert_eq!(shown.matches("secret").count(), 1, "{shown}");
}

#[test]
fn terminal_that_hangs_up_reaches_each_rank() {
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("flag");
    let ranks = format!(
        "sh -c \"trap 'echo x >> {}; exit 0' HUP; echo ready; while :; do sleep 0.05; done\"",
        flag.display()
    );
    // The shell leads the session, and the terminal goes with it.
    let mut terminal = shell_on_terminal(&format!("{} run -n 3 {ranks}; exit", host_path()));
    terminal.shows_times("ready", 3);
    terminal.signal("KILL");
    let told = || std::fs::read_to_string(&flag).map_or(0, |text| text.lines().count());
    terminal.waits(|_| told() == 3, "three hang-ups");
    assert_eq!(terminal.ends().0, 137);
}

#[test]
fn rank_0_reads_what_is_typed() {
    let ranks = "sh -c 'echo ready; read line; echo rank $PMI_RANK read $line'";
    let mut terminal = shell_on_terminal(&format!("exec {} run -n 2 {ranks}", host_path()));
    terminal.shows_times("ready", 2);
    terminal.types("some words\n");
    let (code, shown) = terminal.ends();
    assert!(
        shown.contains("rank 0 read some words\r\n") && shown.contains("rank 1 read\r\n"),
        "{shown}"
    );
    assert_eq!(code, 0);
}

#[test]
fn long_shutdown_is_shown_on_a_terminal_only() {
    let ranks = "sh -c \"trap '' TERM; [ \\$PMI_RANK = 0 ] && sleep 0.5 && exit 3; while :; do sleep 0.1; done\"";
    let line = "waiting for ranks to end [";
    for (option, is_shown) in [("", true), ("--no-progress", false)] {
        let mut terminal =
            shell_on_terminal(&format!("exec {} run {option} -n 4 {ranks}", host_path()));
        let (code, shown) = terminal.ends();
        assert_eq!((code, shown.contains(line)), (3, is_shown), "{shown:?}");
        // The line is removed at the end.
        let last = shown.rsplit("\r\x1b[K").next().unwrap();
        assert!(!last.contains(line), "{shown:?}");
    }
    let script = format!("{} run -n 4 {ranks} 2>&1 | cat", host_path());
    let (_, shown) = shell_on_terminal(&script).ends();
    assert!(shown.contains("exited with code 3") && !shown.contains(line), "{shown:?}");
}

/// State of a process as the system shows it, one letter.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// The keys as a terminal sends them.
const INTERRUPT: &str = "\x03";
const STOP: &str = "\x1a";
