//! A run that hangs reports it, and shows its progress on request.

use crate::common::{Ran, host, job, mpi_program, run, shell, start};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Negotiates the version as all clients do.
const INIT: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD;";

/// `pmi-host run -n RANKS OPTIONS… sh -c SCRIPT`.
fn watched(ranks: u32, options: &[&str], script: &str) -> Command {
    let ranks = ranks.to_string();
    host(["run", "-n", &ranks].into_iter().chain(options.iter().copied()).chain(shell(script)))
}

/// The lines of the last report on lack of progress, without the one that names it.
fn report(ran: &Ran) -> Vec<&str> {
    let lines: Vec<&str> = ran.err.lines().collect();
    let starts = |line: &&str| line.contains("no progress for") && !line.contains("--stall-abort");
    // On a busy machine an earlier report may name ranks that are still on their way.
    let last = lines.iter().rposition(starts).unwrap_or_else(|| panic!("{}", ran.err));
    let rest = lines[last + 1..].iter().copied();
    rest.take_while(|line| !line.starts_with("pmi-host: ")).collect()
}

#[test]
fn hung_mpi_program_is_told_with_the_rank_that_is_waited_for() {
    let Some(hang) = mpi_program("hang") else { return };
    let hang = hang.to_str().unwrap();
    let words = ["run", "-n", "4", "--stall-report", "0.5", "--stall-abort", "2", hang];
    for (how, state, cpu) in
        [("sleep", "sleeping", "0.0"), ("stop", "stopped", "0.0"), ("spin", "running", "")]
    {
        let ran = run(&mut host(words.into_iter().chain(["2", how]))).exits_with(124);
        let lines = report(&ran);
        assert_eq!(lines[0], "  ranks 0,1,3 of 4 wait in fence 0 for rank 2", "{}", ran.err);
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!((cells[0], cells[3]), ("2", state), "{}", ran.err);
        assert!(lines[2].contains(cpu) && lines[2].contains("before init"), "{}", ran.err);
        assert_eq!(
            lines.iter().any(|line| line.contains("kill -CONT")),
            how == "stop",
            "{lines:?}"
        );
        // After half a second, if the machine is not busy after one, and at the end.
        assert!(ran.err.matches("no progress for").count() > 1, "{}", ran.err);
        assert!(ran.err.contains("no progress for 2 s (--stall-abort); the 4 ranks"));
    }
}

#[test]
fn rank_that_has_spoken_is_told_with_its_last_message() {
    let script = format!(
        "{INIT} if [ $PMI_RANK = 1 ]; then exec sleep 60; fi; echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    let options = ["--stall-report", "0.5", "--stall-abort", "0.8"];
    let ran = run(&mut watched(3, &options, &script)).exits_with(124);
    let lines = report(&ran);
    assert_eq!(lines[0], "  ranks 0,2 of 3 wait in fence 0 for rank 1");
    assert!(lines[2].contains("init done     1  got response_to_init"), "{}", ran.err);
}

#[test]
fn ranks_that_look_for_something_again_and_again_move_nothing() {
    let script = format!(
        "{INIT} if [ $PMI_RANK = 0 ]; then while :; do
           echo cmd=get kvsname=x key=never >&$PMI_FD; read answer <&$PMI_FD || exit; sleep 0.05; done; fi;
         echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    let options = ["--stall-report", "0.5", "--stall-abort", "0.8"];
    let ran = run(&mut watched(2, &options, &script)).exits_with(124);
    assert_eq!(report(&ran)[0], "  rank 1 of 2 waits in fence 0 for rank 0");
}

#[test]
fn program_that_computes_is_left_in_peace() {
    // No single wait is long, though there are no messages for longer.
    let script = format!(
        "fence() {{ echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD; }}
         {INIT} fence; sleep 1.2; fence; sleep 1.2; echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD"
    );
    let ran = run(&mut watched(3, &["--stall-report", "1"], &script));
    ran.exits_with(0).says_nothing();
}

#[test]
fn stall_report_of_zero_reports_nothing() {
    let script = format!(
        "{INIT} if [ $PMI_RANK = 1 ]; then sleep 1.5; fi; echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD
         echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD"
    );
    run(&mut watched(2, &["--stall-report", "0"], &script)).exits_with(0).says_nothing();
}

#[test]
fn get_that_waits_is_told_with_its_key() {
    let script = "echo cmd=init pmi_version=2 pmi_subversion=0 >&$PMI_FD; read answer <&$PMI_FD
         say() { printf '%6d%s' ${#1} \"$1\" >&$PMI_FD; }
         say \"cmd=fullinit;pmijobid=$PMI_JOBID;pmirank=$PMI_RANK;threaded=FALSE;\"
         if [ $PMI_RANK = 0 ]; then say 'cmd=info-getnodeattr;key=card;wait=TRUE;'; fi
         exec sleep 60";
    let options = ["--stall-report", "0.5", "--stall-abort", "0.8"];
    let ran = run(&mut watched(2, &options, script)).exits_with(124);
    let line = report(&ran)[0];
    assert_eq!(line, "  rank 0 of 2 waits until a rank on the same node puts 'card'");
}

// Coverage: R13-31
#[test]
fn spawn_of_which_a_block_is_missing_is_reported() {
    let script = format!(
        "{INIT} printf '%s\\n' mcmd=spawn execname=true totspawns=2 spawnssofar=1 endcmd >&$PMI_FD
         exec sleep 60"
    );
    let options = ["--stall-report", "0.5", "--stall-abort", "0.8"];
    let ran = run(&mut watched(1, &options, &script)).exits_with(124);
    let line = report(&ran)[0];
    assert_eq!(line, "  rank 0 of 1 waits for the answer to a message that lacks its end");
}

#[test]
fn run_that_takes_too_long_is_ended_with_a_table() {
    let script = format!("{INIT} exec sleep 60");
    let ran = run(&mut watched(3, &["--timeout", "0.7"], &script)).exits_with(124);
    assert!(
        ran.err.contains("the run has reached its time limit of 0.7 s (--timeout); the 3 ranks")
    );
    assert!(ran.err.contains("3 ranks of sh, all run; 0 fences, 3 messages"), "{}", ran.err);
    assert_eq!(ran.err.matches("init done").count(), 3, "{}", ran.err);
    run(&mut watched(2, &["--timeout", "50"], "exit 0")).exits_with(0).says_nothing();
}

#[test]
fn user_signal_asks_for_the_table() {
    let script = format!("{INIT} trap '' USR1; echo ready; read answer <&$PMI_FD");
    let running = start(&mut watched(2, &[], &script));
    running.wait_for_output("ready\nready\n");
    running.signal("USR1");
    running.wait_for_errors("last message");
    running.signal("TERM");
    let ran = running.end().exits_with(143);
    assert!(ran.err.contains("2 ranks of sh, all run; 0 fences, 2 messages"), "{}", ran.err);
    assert_eq!(ran.err.matches("init done").count(), 2, "{}", ran.err);
}

#[test]
fn first_signal_tells_who_still_runs_and_waits() {
    let script = format!(
        "{INIT} trap '' INT; echo ready; if [ $PMI_RANK = 1 ]; then while :; do sleep 0.1; done; fi
         echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD"
    );
    let running = start(&mut watched(3, &[], &script));
    running.wait_for_output("ready\nready\nready\n");
    // A rank enters the fence right after that output.
    std::thread::sleep(Duration::from_millis(300));
    running.signal("INT");
    running.wait_for_errors("these still run:");
    running.signal("INT");
    // If more than two seconds have passed on a busy machine, this was the first signal of a new series.
    std::thread::sleep(Duration::from_millis(200));
    running.signal("INT");
    let ran = running.end().exits_with(130);
    let told = "3 running ranks; a second one within 2 s kills them\n  ranks 0-2 of 3 still run\n  \
                ranks 0,2 of 3 wait in fence 0 for rank 1\n";
    assert!(ran.err.contains(told), "{}", ran.err);
}

#[test]
fn signals_that_cannot_be_passed_on_are_refused_before_the_start() {
    for list in ["SIGKILL", "SIGFPE", "SIGUSR1,SIGSEGV"] {
        let ran = run(&mut host(["run", "-n", "1", "--forward-signals", list, "echo", "started"]));
        assert_eq!(ran.exits_with(2).says(&["--forward-signals", "cannot be forwarded"]).out, "");
    }
}

#[test]
fn unread_tables_are_not_piled_up() {
    // Sixteen rows each, so a hundred of them are more than a pipe holds.
    let mut command =
        watched(16, &[], "trap 'exit 0' USR2; echo ready; while :; do sleep 0.1; done");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(
        out.by_ref().take(16).filter(|line| line.as_ref().is_ok_and(|l| l == "ready")).count(),
        16
    );
    let pid = child.id().to_string();
    let tell =
        |name| assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    for _ in 0..150 {
        tell("USR1");
        std::thread::sleep(Duration::from_millis(5));
    }
    tell("USR2");
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success());
    assert!((1..60).contains(&told.matches("last message").count()), "{}", told.len());
}

#[test]
fn ranks_that_were_alone_without_knowing_are_told_at_the_end() {
    let Some(noinit) = mpi_program("noinit") else { return };
    let noinit = noinit.to_str().unwrap();
    let ran = run(&mut host(["run", "-n", "3", noinit])).exits_with(0);
    ran.says(&[
        "ranks 0-2 of 3",
        noinit,
        "never connected",
        "MPICH",
        "rank 0 of 1",
        "pmi-host doctor",
    ]);
    // One of several programs of a job is enough.
    let ran = run(&mut host(["run", "-n", "2", "true", ":", "-n", "1", noinit])).exits_with(0);
    ran.says(&["rank 2 of 3"]);
    // No report for ranks that did initialize, for a job of one rank, and for a program without MPI.
    for words in [&["2", noinit, "init"][..], &["1", noinit], &["3", "true"]] {
        run(&mut host(["run", "-n"].iter().chain(words))).exits_with(0).says_nothing();
    }
}

#[test]
fn singletons_behind_a_program_that_removes_the_variables_fail_the_run() {
    let Some((alone, noinit)) = mpi_program("alone").zip(mpi_program("noinit")) else { return };
    let [alone, noinit] = [&alone, &noinit].map(|path| path.to_str().unwrap());
    let go = Path::new(env!("CARGO_TARGET_TMPDIR")).join("singletons-go");
    let script = format!("env -u PMI_FD {alone} {}; true", go.display());
    for (options, wrapper, code) in [
        (&[][..], &["env", "-i", alone, go.to_str().unwrap()][..], 1),
        (&["--on-singletons", "ignore"], &["env", "-i", alone, go.to_str().unwrap()], 0),
        (&[], &["sh", "-c", &script], 1),
        (&["--starter", "local:2"], &["env", "-i", alone, go.to_str().unwrap()], 1),
    ] {
        let _ = fs::remove_file(&go);
        let running = start(&mut host(["run", "-n", "2"].iter().chain(options).chain(wrapper)));
        if code == 1 {
            // The report does not wait for the end.
            running.wait_for_errors("rank 0 of 1");
            if !options.is_empty() {
                ["local1: ", "local2: "].iter().for_each(|host| running.wait_for_errors(host));
            }
        } else {
            running.wait_for_output("rank 0 of 1\nrank 0 of 1\n");
        }
        fs::write(&go, "").unwrap();
        let ran = running.end().exits_with(code);
        assert_eq!(ran.out, "rank 0 of 1\n".repeat(2));
        let ranks = if options.is_empty() { "ranks 0,1 of 2" } else { "rank 0 of 2" };
        let said = [ranks, alone, "MPICH", "PMI_FD", "--on-singletons ignore"];
        match code {
            // Each of the two hosts reports its rank.
            1 if !options.is_empty() => said.iter().for_each(|part| {
                assert!(ran.err.contains(part), "{}", ran.err);
            }),
            1 => drop(ran.says(&said)),
            _ => drop(ran.says_nothing()),
        }
    }
    // Programs that do not call MPI_Init, one rank that is its own job, and ranks of another launcher.
    let hidden = format!("env -i {noinit} && sleep 0.2");
    run(&mut job(2, ["sh", "-c", &hidden])).exits_with(0).says_nothing();
    run(&mut job(1, ["env", "-i", alone, "/"])).exits_with(0).says_nothing();
    let mixed = format!("[ $PMI_RANK = 0 ] && exec env -i {alone} /; true");
    run(&mut job(2, ["sh", "-c", &mixed])).exits_with(0).says_nothing();
}

#[test]
fn short_singletons_are_found_whatever_removes_the_variables() {
    let Some((hello, noinit)) = mpi_program("hello").zip(mpi_program("noinit")) else { return };
    let [hello, noinit] = [&hello, &noinit].map(|path| path.to_str().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("clean");
    let text =
        format!("#!/usr/bin/python3\nimport subprocess\nsubprocess.run(['{hello}'], env={{}})\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let inner = format!("env -i {hello}; true");
    for words in [&["env", "-i", hello][..], &["sh", "-c", &inner], &[script.to_str().unwrap()]] {
        // The launcher looks at processes from time to time. Where others take the processors, it misses one
        // that ends a moment after MPI_Init, and then says nothing.
        let is_found = (0..20).any(|_| {
            let ran = run(&mut job(3, words));
            assert_eq!(ran.out.matches("rank 0 of 1 on ").count(), 3, "{}", ran.out);
            if ran.code == 0 {
                ran.says_nothing();
                return false;
            }
            ran.exits_with(1).says(&["ranks 0-2 of 3 (", "PMI_FD"]);
            true
        });
        assert!(is_found, "{words:?}");
    }
    // Those of nobody's run concern no other one.
    let others = format!("while :; do env -i {hello} > /dev/null; done");
    let mut others = Command::new("sh").args(["-c", &others]).spawn().unwrap();
    for _ in 0..4 {
        run(&mut job(3, ["env", "-i", noinit])).exits_with(0).says_nothing();
    }
    others.kill().unwrap();
    others.wait().unwrap();
}

#[test]
fn ranks_before_init_are_named_where_others_wait_in_shared_memory() {
    let Some(hello) = crate::common::wheel::wheel_program("hello") else { return };
    let script = |first: &str| format!("[ $PMI_RANK = 1 ] && {first}; exec {}", hello.display());
    let options = ["--stall-report", "0.5", "--stall-abort", "2", "sh", "-c"];
    let job = |first: &str| job(3, options.into_iter().map(str::to_owned).chain([script(first)]));
    let ran = run(&mut job("exec sleep 60")).exits_with(124);
    let lines = report(&ran);
    assert_eq!(
        lines[0], "  ranks 0,2 of 3 are in init and wait in shared memory for rank 1",
        "{}",
        ran.err
    );
    let cells: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!((cells[0], cells[3]), ("1", "sleeping"), "{}", ran.err);
    assert!(lines[2].contains("before init"), "{}", ran.err);
    // A rank that computes, itself or by a process of its own, or writes, is not ended.
    for busy in [
        "timeout 6 sh -c 'while :; do :; done'",
        "for i in 1 2 3 4 5 6 7 8 9; do echo $i >&2; sleep 0.5; done",
    ] {
        let ran = run(&mut job(busy)).exits_with(0);
        assert!(
            ran.err.contains("are in init and wait in shared memory for rank 1"),
            "{}",
            ran.err
        );
    }
    // One that has ended cannot come.
    let ran = run(&mut job("exit 0")).exits_with(124);
    assert!(ran.err.contains(" has ended with code 0, before init"), "{}", ran.err);
}

#[test]
fn ranks_that_speak_pmix_are_told_as_well() {
    let Some(hang) = crate::common::openmpi_program("hang") else { return };
    let hang = hang.to_str().unwrap();
    let words =
        ["run", "-n", "3", "--stall-report", "0.5", "--stall-abort", "1", hang, "1", "stop"];
    let ran = run(&mut host(words)).exits_with(124);
    assert_eq!(report(&ran)[0], "  ranks 0,2 of 3 wait in fence 0 for rank 1");
}

#[test]
fn requests_of_waiting_pmix_clients_are_reported_with_the_missing_ranks() {
    let Some(hang) = crate::common::pmix_program("pmix_hang") else { return };
    let hang = hang.to_str().unwrap();
    let words = |ranks: &'static str, how| {
        ["run", "-n", ranks, "--stall-report", "0.5", "--stall-abort", "1", hang, how]
    };
    for (ranks, how, told) in [
        ("2", "get", "rank 0 of 2 waits for 'card' of rank 1"),
        ("4", "fence", "ranks 0,2 of 4 wait in a fence of some ranks for rank 1"),
    ] {
        let ran = run(&mut host(words(ranks, how))).exits_with(124);
        let lines = report(&ran);
        assert_eq!(lines[0], format!("  {told}"), "{}", ran.err);
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!((cells[0], cells[3]), ("1", "sleeping"), "{}", ran.err);
        let sent = lines[2].split("init done").nth(1).unwrap().split_whitespace();
        let [count, got, last @ ..] = &Vec::from_iter(sent)[..] else { panic!("{}", ran.err) };
        assert!(count.parse::<u32>().unwrap() > 0, "{}", ran.err);
        assert_eq!((*got, &last[..2]), ("got", &["pmix", "answer"][..]), "{}", ran.err);
    }
}

#[test]
fn connect_that_waits_is_told_with_the_ranks_of_the_other_job() {
    let Some(hang) = crate::common::pmix_program("pmix_hang") else { return };
    let options = ["--stall-report", "0.5", "--stall-abort", "1"];
    let words = ["run", "-n", "1"].into_iter().chain(options);
    let words = words.chain([hang.to_str().unwrap(), "connect"]);
    let ran = run(&mut host(words)).exits_with(124);
    let lines = report(&ran);
    let (first, job) = lines[0].rsplit_once(" of ").unwrap();
    assert_eq!(
        first,
        format!("  rank 0 of 1 waits in a connect with job {job} for rank 0"),
        "{}",
        ran.err
    );
    assert!(lines[1].starts_with(&format!("  in job {job}, 1 rank of ")), "{}", ran.err);
    assert!(lines[3].contains("sleeping"), "{}", ran.err);
}

#[test]
fn lookup_that_waits_is_no_standstill_and_shows_in_the_table() {
    let Some(hang) = crate::common::pmix_program("pmix_hang") else { return };
    let hang = hang.to_str().unwrap();
    let words = ["run", "-n", "2", "--stall-report", "0.3", "--timeout", "4", hang, "lookup"];
    let ran = run(&mut host(words)).exits_with(124);
    assert!(!ran.err.contains("no progress"), "{}", ran.err);
    let waits = "rank 0 of 2 waits until 'ocean' is published";
    for part in [waits, "in a lookup", "sent LOOKUPNB "] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}
