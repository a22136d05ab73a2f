//! Reports on jobs over several nodes, which are node servers on this machine here: lack of progress, tables
//! of ranks, status requests.

use crate::common::{Ran, host, mpi_program, run, shell, start};
use pmi_host::State;
use pmi_host::table::{NodeLink, Phase, Table, WaitCondition};
use std::process::Command;
use std::time::{Duration, Instant};

/// `pmi-host run --starter local:NODES -n RANKS WORDS…`, outside of any allocation.
fn nodes(nodes: u32, ranks: u32, words: &[&str]) -> Command {
    let (starter, ranks) = (format!("local:{nodes}"), ranks.to_string());
    let mut command = host(["run", "--starter", &starter, "-n", &ranks]);
    for variable in ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
    {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

/// Lines of the last report on lack of progress, without the one that names it.
fn report(ran: &Ran) -> Vec<&str> {
    let lines: Vec<&str> = ran.err.lines().collect();
    let starts = |line: &&str| line.contains("no progress for") && !line.contains("--stall-abort");
    // On a busy machine an earlier report may name ranks that are still on their way.
    let last = lines.iter().rposition(starts).unwrap_or_else(|| panic!("{}", ran.err));
    let rest = lines[last + 1..].iter().copied();
    rest.take_while(|line| !line.starts_with("pmi-host: ")).collect()
}

/// The rank of the first argument sleeps, all others enter a fence.
const FENCE: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
    if [ $PMI_RANK = $0 ]; then exec sleep 60; fi
    echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD; exec sleep 60";

#[test]
fn rank_that_never_enters_a_fence_is_named_with_its_node() {
    let words = ["--stall-report", "0.5", "--stall-abort", "1.5"];
    let words = [&words[..], &shell(FENCE), &["5"]].concat();
    let ran = run(&mut nodes(3, 6, &words)).exits_with(124);
    let lines = report(&ran);
    assert_eq!(lines[0], "  ranks 0-4 of 6 wait in fence 0 for rank 5", "{}", ran.err);
    assert_eq!(lines[1], "  fence 0: 2 of 3 nodes have entered; missing: local3", "{}", ran.err);
    let cells: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!((cells[0], cells[2], cells[3]), ("5", "local3", "sleeping"), "{}", ran.err);
    assert!(lines[3].contains("init done     1  got response_to_init"), "{}", ran.err);
    assert_eq!(lines.len(), 4, "{}", ran.err);
    let end = "no progress for 1.5 s (--stall-abort); the 6 ranks still running are terminated";
    assert!(ran.err.contains(end), "{}", ran.err);
}

#[test]
fn hung_program_of_mpich_is_reported_with_the_rank_that_is_waited_for() {
    let Some(hang) = mpi_program("hang") else { return };
    let hang = hang.to_str().unwrap();
    for (how, state) in [("stop", "stopped"), ("spin", "running")] {
        let words = ["--stall-report", "0.5", "--stall-abort", "2", hang, "2", how];
        let ran = run(&mut nodes(2, 4, &words)).exits_with(124);
        let lines = report(&ran);
        assert_eq!(lines[0], "  ranks 0,1,3 of 4 wait in fence 0 for rank 2", "{}", ran.err);
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!((cells[0], cells[2], cells[3]), ("2", "local1", state), "{}", ran.err);
        assert!(lines[3].contains("before init"), "{}", ran.err);
        assert!(ran.err.matches("no progress for").count() > 1, "{}", ran.err);
    }
}

#[test]
fn lookup_that_waits_is_named_by_what_it_waits_for() {
    let Some(hang) = crate::common::pmix_program("pmix_hang") else { return };
    let words = ["--stall-report", "0.3", "--timeout", "4", hang.to_str().unwrap(), "lookup"];
    let ran = run(&mut nodes(2, 2, &words)).exits_with(124);
    assert!(!ran.err.contains("no progress"), "{}", ran.err);
    for part in ["rank 0 of 2 waits until 'ocean' is published", "in a lookup", "sent LOOKUPNB "] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

#[test]
fn progress_on_another_node_ends_a_standstill() {
    // Rank 1 puts something from time to time, and enters the fence after the others have waited for long.
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
        n=0; while [ $PMI_RANK = 1 ] && [ $n -lt 12 ]; do n=$((n+1)); sleep 0.25
            echo cmd=put kvsname=$PMI_KVS key=k$n value=v >&$PMI_FD; read answer <&$PMI_FD; done
        echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD
        echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";
    let words = [&["--stall-report", "2"], &shell(script)[..]].concat();
    run(&mut nodes(2, 2, &words)).exits_with(0).says_nothing();
}

#[test]
fn stall_report_of_zero_reports_nothing() {
    let script = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD
        if [ $PMI_RANK = 1 ]; then sleep 1.5; fi; echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD
        echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";
    let words = [&["--stall-report", "0"], &shell(script)[..]].concat();
    run(&mut nodes(2, 2, &words)).exits_with(0).says_nothing();
}

#[test]
fn run_that_takes_too_long_ends_with_a_table_of_all_nodes() {
    let words = [&["--timeout", "1.5"], &shell("exec sleep 60")[..]].concat();
    let ran = run(&mut nodes(2, 4, &words)).exits_with(124);
    for part in [
        "the run has reached its time limit of 1.5 s (--timeout); the 4 ranks",
        "4 ranks of sh on 2 nodes, all run; 0 fences, 0 messages",
    ] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    assert_eq!(ran.err.matches("before init").count(), 4, "{}", ran.err);
}

#[test]
fn signal_prints_all_ranks_with_their_nodes() {
    let words = [&shell("echo up; exec sleep 60")[..]].concat();
    let running = start(&mut nodes(2, 3, &words));
    running.wait_for_output("up\nup\nup\n");
    running.signal("USR1");
    running.wait_for_errors("local2  1      all");
    running.signal("KILL");
    let errors = running.end().err;
    assert!(errors.contains("3 ranks of sh on 2 nodes, all run; "), "{errors}");
    assert!(errors.contains("local1  0,2    all"), "{errors}");
    assert_eq!(errors.matches("before init").count(), 3, "{errors}");
}

#[test]
fn status_request_gets_ranks_waits_and_nodes() {
    let runtime = tempfile::tempdir().unwrap();
    let words = [&shell(FENCE)[..], &["1"]].concat();
    let running = start(nodes(2, 4, &words).env("XDG_RUNTIME_DIR", runtime.path()));
    let since = Instant::now();
    let table = loop {
        let mut ps = host(["ps", "--json", &running.pid().to_string()]);
        let ran = run(ps.env("XDG_RUNTIME_DIR", runtime.path()));
        let mut tables: Vec<Table> = serde_json::from_str(&ran.out).unwrap_or_default();
        // The rank that is missing may not have begun, and a rank may run for a moment.
        let is_there = |table: &Table| {
            let (waits, ranks) = (&table.jobs[0].waits, &table.jobs[0].ranks);
            waits.first().is_some_and(|wait| wait.missing.count() == 1)
                && ranks.len() == 4
                && ranks
                    .iter()
                    .all(|rank| rank.phase == Phase::Open && rank.state == Some(State::Sleeping))
        };
        if let Some(table) = tables.pop().filter(is_there) {
            break table;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{} {}", ran.out, ran.err);
    };
    let mut ps = host(["ps"]);
    let text = run(ps.env("XDG_RUNTIME_DIR", runtime.path())).exits_with(0).out;
    running.signal("TERM");
    running.end();
    let job = &table.jobs[0];
    assert_eq!((job.size, job.running.count(), job.ranks.len()), (4, 4, 4));
    assert_eq!(job.waits[0].what, WaitCondition::Fence(0));
    assert!(job.waits[0].missing.to_string() == "1" && job.waits[0].inside.to_string() == "0,2,3");
    let hosts: Vec<&str> = job.ranks.iter().map(|rank| rank.host.as_deref().unwrap()).collect();
    assert_eq!(hosts, ["local1", "local2", "local1", "local2"]);
    let nodes = job.nodes.iter().map(|node| (&*node.host, node.link, node.ranks.count()));
    let connected = NodeLink::Connected;
    assert!(nodes.eq([("local1", connected, 2), ("local2", connected, 2)]));
    assert!(text.contains("fence 0: 1 of 2 nodes has entered; missing: local2"), "{text}");
}
