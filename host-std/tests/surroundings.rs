//! Environment of a rank: forwarded output, input, variables, descriptors, signals.

use crate::common::{c_program, host, host_path, job, run, run_with_input, shell, start};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn lines_of_many_ranks_arrive_whole_and_complete() {
    let lines = c_program("lines");
    for (count, bytes) in [(2000, 64), (40, 9000), (2, 200_000)] {
        let ran = run(job(8, [&lines]).args([count.to_string(), bytes.to_string()])).exits_with(0);
        check_lines(&ran.out, 8, count, bytes);
    }
}

/// Checks that every line of every rank is present, whole, and in the order of its rank.
fn check_lines(out: &str, ranks: usize, count: usize, bytes: usize) {
    let mut next: BTreeMap<&str, usize> = BTreeMap::new();
    for line in out.lines() {
        assert_eq!(line.len(), bytes - 1, "{line:.80}");
        let mut parts = line.splitn(3, ':');
        let (rank, number) = (parts.next().unwrap(), parts.next().unwrap());
        let filler = parts.next().unwrap();
        assert!(filler.bytes().all(|byte| byte == filler.as_bytes()[0]), "{line:.80}");
        let seen = next.entry(rank).or_default();
        assert_eq!(number, seen.to_string(), "rank {rank}");
        *seen += 1;
    }
    assert_eq!(next.len(), ranks);
    assert!(next.values().all(|seen| *seen == count), "{next:?}");
}

#[test]
fn two_streams_stay_apart() {
    let ran = run(&mut job(4, shell("echo out $PMI_RANK; echo err $PMI_RANK >&2"))).exits_with(0);
    assert_eq!(ran.lines(), ["out 0", "out 1", "out 2", "out 3"]);
    let mut err: Vec<&str> = ran.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["err 0", "err 1", "err 2", "err 3"]);
}

#[test]
fn streams_that_lead_to_one_place_keep_their_order() {
    let host = env!("CARGO_BIN_EXE_pmi-host");
    let rank = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done";
    let line = format!("exec {host} run -n 1 sh -c '{rank}' 2>&1");
    let ran = run(Command::new("sh").args(["-c", &line])).exits_with(0);
    let expected: String = (1..=5).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(ran.out, expected);
}

#[test]
fn last_line_without_end_is_passed_on_as_it_is() {
    assert_eq!(run(&mut job(1, ["printf", "a\\nb"])).exits_with(0).out, "a\nb");
    let ran = run(&mut job(1, shell("printf before; exit 3"))).exits_with(3);
    assert_eq!(ran.out, "before");
}

#[test]
fn slow_reader_loses_nothing_and_stops_no_rank_for_good() {
    let lines = c_program("lines");
    let mut command = job(4, [&lines]);
    command.args(["3000", "500"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::with_capacity(500, child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    // By now every buffer is full: the pipes of the ranks, those of the launcher, and the pipe of this
    // test.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    check_lines(&(first + &rest), 4, 3000, 500);
}

#[test]
fn reader_that_goes_away_ends_the_job_without_a_word() {
    let host = env!("CARGO_BIN_EXE_pmi-host");
    let line = format!("{{ {host} run -n 3 yes; echo code $? >&2; }} | head -n 2");
    let ran = run(Command::new("sh").args(["-c", &line])).exits_with(0).says_nothing();
    assert_eq!(ran.out, "y\ny\n");
    assert_eq!(ran.err.trim(), "code 141");
}

#[test]
fn output_that_cannot_be_written_is_no_success() {
    let host = env!("CARGO_BIN_EXE_pmi-host");
    let line = format!("exec {host} run -n 2 echo lost > /dev/full");
    run(Command::new("sh").args(["-c", &line])).exits_with(1).says(&["cannot be written", "space"]);
}

#[test]
fn rank_0_reads_our_input_and_the_others_read_nothing() {
    let script = "text=$(cat); echo \"$PMI_RANK:$text\"";
    let ran = run_with_input(&mut job(3, shell(script)), b"for rank 0").exits_with(0);
    assert_eq!(ran.lines(), ["0:for rank 0", "1:", "2:"]);
}

#[test]
fn input_that_no_rank_reads_is_harmless() {
    let megabyte = vec![b'x'; 1 << 20];
    run_with_input(&mut job(2, ["true"]), &megabyte).exits_with(0).says_nothing();
}

#[test]
fn rank_learns_its_place_and_nothing_of_an_outer_launcher() {
    let mut command = job(2, ["env"]);
    for stale in ["PMI_PORT", "PMI_ID", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "HYDI_CONTROL_FD"]
    {
        command.env(stale, "stale");
    }
    let ran = run(command.env("PMI_RANK", "77").env("OF_THE_USER", "kept")).exits_with(0);
    for line in ["PMI_RANK=0", "PMI_RANK=1", "MPI_LOCALRANKID=0", "MPI_LOCALRANKID=1"] {
        assert_eq!(ran.out.lines().filter(|other| *other == line).count(), 1, "{line}");
    }
    for line in ["PMI_SIZE=2", "PMI_SPAWNED=0", "MPI_LOCALNRANKS=2", "OF_THE_USER=kept"] {
        assert_eq!(ran.out.lines().filter(|other| *other == line).count(), 2, "{line}");
    }
    assert!(!ran.out.contains("stale"), "{}", ran.out);
}

#[test]
fn rank_inherits_its_own_socket_and_nothing_else_of_ours() {
    let list = ["ls", "-l", "/proc/self/fd"];
    let ran = run(&mut job(8, list)).exits_with(0);
    let links = |out: &str, what: &str| out.lines().filter(|line| line.contains(what)).count();
    assert_eq!(links(&ran.out, "-> socket:"), 8, "{}", ran.out);
    // The program that starts the tests may leave descriptors open for all its children.
    let alone = run(Command::new(list[0]).args(&list[1..]).stdin(Stdio::null())).exits_with(0);
    assert_eq!(links(&ran.out, "->"), 8 * (links(&alone.out, "->") + 1), "{}", ran.out);
    let mut sockets: Vec<&str> =
        ran.out.split_whitespace().filter(|w| w.starts_with("socket:")).collect();
    sockets.sort_unstable();
    sockets.dedup();
    assert_eq!(sockets.len(), 8, "{}", ran.out);
}

#[test]
fn signal_reaches_the_ranks_and_decides_the_code() {
    let script =
        "trap 'echo asked $PMI_RANK; exit 0' INT; echo ready; while :; do sleep 0.01; done";
    let ran = signalled(job(2, shell(script)), "INT").exits_with(130);
    assert_eq!(ran.lines(), ["asked 0", "asked 1", "ready", "ready"]);
    ran.says(&["signal 2 (SIGINT)", "2 running ranks"]);
    signalled(job(2, shell("echo ready; exec sleep 60")), "TERM")
        .exits_with(143)
        .says(&["SIGTERM"]);
}

#[test]
fn second_signal_kills_who_ignores_the_first() {
    let mut command = job(2, shell("trap '' INT; echo ready; while :; do sleep 0.01; done"));
    let (running, mut out) = started(&mut command);
    wait_for(&mut out, "ready", 2);
    signal(&running, "INT");
    // The system merges two pending signals of a kind.
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&running, "INT");
    assert_eq!(running.wait_with_output().unwrap().status.code(), Some(130));
}

#[test]
fn user_signal_is_passed_on_and_ends_nothing() {
    let script = "trap 'echo seen; exit 0' USR1; echo ready; while :; do sleep 0.01; done";
    let words = ["run", "-n", "2", "--forward-signals", "SIGUSR1"].into_iter().chain(shell(script));
    let ran = signalled(host(words), "USR1").exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["ready", "ready", "seen", "seen"]);
}

/// The launcher under another name, with `words`.
fn under_name(directory: &Path, name: &str, words: &[&str]) -> Command {
    let link = directory.join(name);
    if !link.exists() {
        symlink(host_path(), &link).unwrap();
    }
    let mut command = Command::new(link);
    command.args(words).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
    command.env_remove("SLURM_JOB_ID");
    command
}

#[test]
fn user_signals_reach_ranks_under_the_names_of_other_launchers() {
    let directory = tempfile::tempdir().unwrap();
    let several = Some("--starter=local:2");
    let launchers = ["mpiexec", "mpirun", "prterun", "srun"].map(|name| (name, None));
    for (launcher, starter) in launchers.into_iter().chain([("mpirun", several)]) {
        for name in ["USR1", "USR2", "ALRM"] {
            let rank = format!(
                "trap 'echo seen; exit 0' {name}; echo ready; while :; do sleep 0.01; done"
            );
            let words: Vec<&str> =
                ["-n", "2"].into_iter().chain(starter).chain(shell(&rank)).collect();
            let ran = signalled(under_name(directory.path(), launcher, &words), name);
            let ran = ran.exits_with(0).says_nothing();
            assert_eq!(ran.lines(), ["ready", "ready", "seen", "seen"], "{launcher} {name}");
        }
    }
}

#[test]
fn signal_that_no_launcher_forwards_prints_the_table_under_every_name() {
    let directory = tempfile::tempdir().unwrap();
    for launcher in ["mpiexec", "prterun", "srun"] {
        let words = [&["-n", "2"][..], &shell("echo ready; exec sleep 60")].concat();
        let running = start(&mut under_name(directory.path(), launcher, &words));
        running.wait_for_output("ready\nready\n");
        running.signal("PWR");
        running.wait_for_errors("2 ranks of sh");
        running.signal("TERM");
        running.end().exits_with(143);
    }
}

#[test]
fn signals_of_open_mpi_are_forwarded_besides_others() {
    let directory = tempfile::tempdir().unwrap();
    let run_with = |list: &str, rank: &str| {
        let words = [&["--forward-signals", list, "-n", "2"][..], &shell(rank)].concat();
        signalled(under_name(directory.path(), "prterun", &words), "USR1").exits_with(0)
    };
    let rank = "trap 'echo seen; exit 0' USR1; echo ready; while :; do sleep 0.01; done";
    let ran = run_with("SIGWINCH", rank).says_nothing();
    assert_eq!(ran.lines(), ["ready", "ready", "seen", "seen"]);
    let ran = run_with("none", "trap 'exit 3' USR1; echo ready; sleep 0.5; exit 0");
    assert!(ran.err.contains("runs for"), "{}", ran.err);
}

#[test]
fn interrupt_of_the_launcher_reaches_the_command_that_a_script_waits_for() {
    for name in ["INT", "QUIT"] {
        for nodes in [None, Some("--starter=local:2")] {
            let rank = "ulimit -c 0; echo ready; sleep 300; echo after";
            let words = ["run", "-n", "2"].into_iter().chain(nodes).chain(shell(rank));
            let ran = signalled(host(words), name);
            assert_eq!(ran.lines(), ["ready", "ready"], "{}", ran.err);
            ran.exits_with(if name == "INT" { 130 } else { 131 });
        }
    }
}

#[test]
fn ranks_that_all_ignore_the_request_to_end_are_killed() {
    for nodes in [None, Some("--starter=local:2")] {
        let rank = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
        let words = ["run", "-n", "2"].into_iter().chain(nodes).chain(shell(rank));
        signalled(host(words), "TERM").exits_with(143);
    }
}

#[test]
fn rank_that_handles_the_request_to_end_has_the_time_that_it_takes() {
    // The other rank ignores it.
    let rank = "if [ $PMI_RANK = 0 ]; then trap '' TERM; else trap 'n=$((n+1))' TERM; fi
         n=0; echo ready; i=0; while [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; echo saved";
    let words = ["run", "-n", "2"].into_iter().chain(shell(rank));
    let ran = signalled(host(words), "TERM");
    assert_eq!(ran.lines(), ["ready", "ready", "saved", "saved"], "{}", ran.err);
    ran.exits_with(143);
}

/// Runs a job of two ranks and sends `name` to the launcher once both have printed that they are ready.
fn signalled(mut command: Command, name: &str) -> crate::common::Ran {
    let (mut running, mut out) = started(&mut command);
    let mut all = wait_for(&mut out, "ready", 2);
    signal(&running, name);
    out.read_to_string(&mut all).unwrap();
    let mut err = String::new();
    running.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let code = running.wait().unwrap().code().unwrap();
    crate::common::Ran { code, out: all, err }
}

type Out = BufReader<std::process::ChildStdout>;

fn started(command: &mut Command) -> (std::process::Child, Out) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn wait_for(out: &mut Out, what: &str, times: usize) -> String {
    let mut all = String::new();
    while all.matches(what).count() < times {
        assert_ne!(out.read_line(&mut all).unwrap(), 0, "{all}");
    }
    all
}

fn signal(child: &std::process::Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

#[test]
fn process_that_a_rank_leaves_behind_does_not_hold_the_job() {
    let ran = start(&mut job(2, shell("sleep 60 & echo done"))).end().exits_with(0);
    assert_eq!(ran.lines(), ["done", "done"]);
    ran.says(&["left behind"]);
}

/// What the last of `ranks` ranks of a program that may be any MPI program finds in its environment, with
/// these options of the launcher.
fn announced(ranks: usize, options: &[&str]) -> BTreeMap<String, String> {
    let script = format!("test $PMI_RANK != {} || env", ranks - 1);
    let mut command = host(["run", "-n", &ranks.to_string()]);
    command.args(options).args(shell(&script)).env("I_MPI_INFO_LCPU", "of an outer launcher");
    let ran = run(&mut command).exits_with(0);
    let names = ["OMPI_MCA_mpi_oversubscribe", "I_MPI_INFO_", "I_MPI_PIN_"];
    let pairs = ran.out.lines().filter_map(|line| line.split_once('='));
    let pairs = pairs.filter(|(name, _)| names.iter().any(|start| name.starts_with(start)));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn variables_of_repeated_options_are_all_set() {
    let options = ["--env", "FIRST=1", "--env", "SECOND=2"];
    let ran = run(host(["run"]).args(options).args(["-n", "1", "env"])).exits_with(0);
    let found = ran.out.lines().filter(|line| ["FIRST=1", "SECOND=2"].contains(line)).count();
    assert_eq!(found, 2, "{}", ran.out);
}

#[test]
fn oversubscription_is_announced_to_open_mpi_and_intel_mpi_when_there_is_one() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let enough = announced(processors, &[]);
    assert_eq!(enough.get("OMPI_MCA_mpi_oversubscribe").map(String::as_str), Some("0"));
    assert_eq!(enough.len(), 1, "{enough:?}");

    let shared = announced(2 * processors, &[]);
    assert_eq!(shared["OMPI_MCA_mpi_oversubscribe"], "1");
    let all: usize = shared["I_MPI_INFO_LCPU"].parse().unwrap();
    for name in ["I_MPI_INFO_CORE", "I_MPI_INFO_PACK", "I_MPI_INFO_THREAD"] {
        assert_eq!(shared[name].split(',').count(), all, "{name}={}", shared[name]);
    }
    let (ranks, pinned) = shared["I_MPI_PIN_MAPPING"].split_once(':').unwrap();
    assert_eq!(ranks, (2 * processors).to_string());
    let pinned: BTreeMap<&str, &str> =
        pinned.split(',').map(|pair| pair.split_once(' ').unwrap()).collect();
    let again = pinned[&*processors.to_string()];
    assert_eq!((pinned.len(), pinned["0"]), (2 * processors, again), "{pinned:?}");
}

#[test]
fn oversubscription_that_the_user_announces_is_announced_as_the_user_says() {
    let ranks = 1 + std::thread::available_parallelism().unwrap().get();
    let options = ["--env", "OMPI_MCA_mpi_oversubscribe=0", "--env", "I_MPI_PIN_MAPPING=1:0 0"];
    let found = announced(ranks, &options);
    let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(found, [("I_MPI_PIN_MAPPING", "1:0 0"), ("OMPI_MCA_mpi_oversubscribe", "0")]);
}
