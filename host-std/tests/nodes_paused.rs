//! Processes of a run over several nodes that are stopped for longer than `--node-timeout`: by a batch system
//! that suspends a job, for example.

use crate::common::hosts::{local_nodes, ssh_hosts};
use crate::common::{Running, shell, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::thread::sleep;
use std::time::Duration;

/// Longer than the time without a sign of life after which a node is lost.
const PAUSE: Duration = Duration::from_secs(8);

/// A rank that reports the process of its node server, and goes on when a file is there.
const RANK: &str = "echo agent $PPID; until [ -e \"$GO\" ]; do sleep 0.1; done; echo done";

fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// Starts a rank on each of two nodes, and returns the node servers when both ranks run.
fn two_nodes(go: &std::path::Path, options: &[&str]) -> (Running, Vec<u32>) {
    let running = start(local_nodes(2, 2, options).args(shell(RANK)).env("GO", go));
    let agents = loop {
        let out = running.output();
        let pids = out.lines().filter_map(|line| line.strip_prefix("agent ")?.parse().ok());
        let mut pids: Vec<u32> = pids.collect();
        pids.sort_unstable();
        if pids.len() == 2 {
            break pids;
        }
        running.wait_for_output("agent ");
        sleep(Duration::from_millis(20));
    };
    (running, agents)
}

#[test]
fn stopped_node_server_is_reported_as_paused_and_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let (running, agents) = two_nodes(&go, &[]);
    send(agents[1], Signal::SIGSTOP);
    running.wait_for_errors(" paused since ");
    sleep(PAUSE);
    // The table asks all nodes for the state of their ranks.
    running.signal("USR1");
    running.wait_for_errors("the state of rank");
    send(agents[1], Signal::SIGCONT);
    running.wait_for_errors(" continues after ");
    std::fs::write(&go, "").unwrap();
    let ran = running.end();
    assert_eq!(ran.out.matches("done").count(), 2, "{ran:?}");
    let ran = ran.exits_with(0);
    assert!(ran.err.contains("its host answers, and its node server does not"), "{}", ran.err);
    assert!(ran.err.contains("is paused since "), "{}", ran.err);
}

#[test]
fn node_that_is_paused_for_longer_than_its_limit_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let limits = ["--pause-timeout", "3", "--node-timeout", "1"];
    for options in [&[][..], &["--on-exit-error", "ignore"]] {
        let go = directory.path().join(options.len().to_string());
        let (running, agents) = two_nodes(&go, &[&limits, options].concat());
        send(agents[1], Signal::SIGSTOP);
        running.wait_for_errors(" paused since ");
        running.wait_for_errors("it is paused for longer than '--pause-timeout' allows");
        send(agents[1], Signal::SIGCONT);
        std::fs::write(&go, "").unwrap();
        let ran = running.end();
        assert_eq!(ran.out.matches("done").count(), options.len() / 2, "{ran:?}");
        assert_ne!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn head_that_is_stopped_loses_no_node() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let (running, _) = two_nodes(&go, &[]);
    send(running.pid(), Signal::SIGSTOP);
    sleep(PAUSE);
    send(running.pid(), Signal::SIGCONT);
    sleep(Duration::from_secs(2));
    std::fs::write(&go, "").unwrap();
    let ran = running.end();
    assert_eq!(ran.out.matches("done").count(), 2, "{ran:?}");
    ran.exits_with(0).says_nothing();
}

#[test]
fn job_that_is_stopped_as_a_whole_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let (running, agents) = two_nodes(&go, &[]);
    let all = || agents.iter().copied().chain([running.pid()]);
    all().for_each(|pid| send(pid, Signal::SIGSTOP));
    sleep(PAUSE);
    // Batch systems continue the hosts one after the other.
    for pid in all() {
        send(pid, Signal::SIGCONT);
        sleep(Duration::from_millis(200));
    }
    sleep(Duration::from_secs(2));
    std::fs::write(&go, "").unwrap();
    let ran = running.end();
    assert_eq!(ran.out.matches("done").count(), 2, "{ran:?}");
    ran.exits_with(0);
}

#[test]
fn node_between_others_that_is_stopped_keeps_those_below_it() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    // Node 1 is the parent of nodes 3 and 4.
    let rank = format!("[ $PMI_RANK != 0 ] || echo first $PPID; {RANK}");
    let words = [&["--tree-radix", "2"][..], &shell(&rank)].concat();
    let running = start(local_nodes(6, 6, &words).env("GO", &go));
    running.wait_for_output("first ");
    while running.output().matches("agent ").count() < 6 {
        sleep(Duration::from_millis(20));
    }
    let out = running.output();
    let first = out.lines().find_map(|line| line.strip_prefix("first ")?.parse().ok()).unwrap();
    send(first, Signal::SIGSTOP);
    running.wait_for_errors(" paused since ");
    sleep(PAUSE);
    send(first, Signal::SIGCONT);
    running.wait_for_errors(" continues after ");
    std::fs::write(&go, "").unwrap();
    let ran = running.end();
    assert_eq!(ran.out.matches("done").count(), 6, "{ran:?}");
    ran.exits_with(0);
}

/// The node server of a host.
fn node_server(hosts: &pmi_host_testkit::ssh::SshHosts, host: u32) -> u32 {
    let is_server = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some("node")
    };
    hosts.pids(host).into_iter().find(is_server).expect("the node server of the host runs")
}

#[test]
fn other_host_is_paused_while_it_answers_and_lost_when_its_wire_is_cut() {
    let Some(hosts) = ssh_hosts("paused", 2) else { return };
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let rank = "echo agent; until [ -e \"$GO\" ]; do sleep 0.1; done; echo done";
    let words = ["run", "--hosts", "n1,n2", "-n", "2", "sh", "-c", rank];
    let begin = || {
        let running = start(hosts.head(&words).env("GO", &go));
        while running.output().matches("agent").count() < 2 {
            sleep(Duration::from_millis(20));
        }
        running
    };
    let running = begin();
    let server = node_server(&hosts, 2);
    send(server, Signal::SIGSTOP);
    running.wait_for_errors("n2 is paused since ");
    sleep(PAUSE);
    send(server, Signal::SIGCONT);
    running.wait_for_errors("n2 continues after ");
    std::fs::write(&go, "").unwrap();
    let ran = running.end().exits_with(0);
    assert_eq!(ran.out.matches("done").count(), 2, "{ran:?}");
    std::fs::remove_file(&go).unwrap();
    let running = begin();
    let server = node_server(&hosts, 2);
    send(server, Signal::SIGSTOP);
    running.wait_for_errors("n2 is paused since ");
    hosts.cut(2);
    let ran = running.end();
    hosts.mend(2);
    send(server, Signal::SIGCONT);
    let ran = ran.exits_with(1);
    assert!(ran.err.contains("n2 (rank 1 of 2) is lost: it does not answer"), "{}", ran.err);
}

#[test]
fn host_that_stops_answering_is_lost_without_a_pause() {
    let Some(hosts) = ssh_hosts("unplugged", 2) else { return };
    let rank = "echo agent; exec sleep 60";
    let running = start(&mut hosts.head(&["run", "--hosts", "n1,n2", "-n", "2", "sh", "-c", rank]));
    while running.output().matches("agent").count() < 2 {
        sleep(Duration::from_millis(20));
    }
    hosts.cut(2);
    let ran = running.end();
    hosts.mend(2);
    let ran = ran.exits_with(1);
    assert!(ran.err.contains("n2 (rank 1 of 2) is lost: it does not answer"), "{}", ran.err);
    assert!(!ran.err.contains("paused"), "{}", ran.err);
}

#[test]
fn host_that_is_cut_off_for_a_while_is_kept_within_a_batch_system() {
    let Some(hosts) = ssh_hosts("watched", 2) else { return };
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let rank = "echo agent; until [ -e \"$GO\" ]; do sleep 0.1; done; echo done";
    let mut head = hosts.head(&["run", "--hosts", "n1,n2", "-n", "2", "sh", "-c", rank]);
    let running = start(head.env("GO", &go).env("PBS_NODEFILE", "/nowhere"));
    while running.output().matches("agent").count() < 2 {
        sleep(Duration::from_millis(20));
    }
    hosts.cut(2);
    running.wait_for_errors("node n2 (rank 1 of 2) does not answer, nor does its host, since ");
    sleep(PAUSE);
    hosts.mend(2);
    running.wait_for_errors("node n2 continues after ");
    std::fs::write(&go, "").unwrap();
    let ran = running.end().exits_with(0);
    assert_eq!(ran.out.matches("done").count(), 2, "{ran:?}");
    assert!(ran.err.contains("; after 30 s it is lost"), "{}", ran.err);
    assert!(!ran.err.contains("paused"), "{}", ran.err);
}

#[test]
fn run_that_is_told_to_end_waits_for_no_node_that_is_stopped() {
    let rank = "echo agent $PPID; [ $PMI_RANK = 0 ] && exit 0; exec sleep 60";
    let running = start(&mut local_nodes(2, 2, &shell(rank)));
    let agent = loop {
        let out = running.output();
        let pids = out.lines().filter_map(|line| line.strip_prefix("agent ")?.parse::<u32>().ok());
        if let [first, second] = pids.collect::<Vec<_>>()[..] {
            // The rank that has exited is gone; the other one has the node server as its parent.
            let has_rank = |agent: &&u32| {
                let path = format!("/proc/{agent}/task/{agent}/children");
                let children = std::fs::read_to_string(path).unwrap_or_default();
                children.split(' ').any(|child| {
                    std::fs::read(format!("/proc/{child}/cmdline"))
                        .is_ok_and(|line| line.starts_with(b"sleep\x0060"))
                })
            };
            if let Some(agent) = [first, second].iter().find(has_rank) {
                break *agent;
            }
        }
        sleep(Duration::from_millis(20));
    };
    send(agent, Signal::SIGSTOP);
    running.signal("TERM");
    // No rank follows the signal: that of the stopped node does not get it.
    running.wait_for_errors(" paused since ");
    running.end().exits_with(143);
}

#[test]
fn ranks_of_a_stopped_node_server_end_with_the_run() {
    let Some(hosts) = ssh_hosts("stopped-end", 2) else { return };
    let nap = format!("sleep {}.77", 700_000 + std::process::id());
    let rank = format!("echo agent; exec {nap}");
    let mut command = hosts.head(&["run", "--hosts", "n1,n2", "-n", "2", "sh", "-c", &rank]);
    let running = start(&mut command);
    while running.output().matches("agent").count() < 2 {
        sleep(Duration::from_millis(20));
    }
    // Guards begin to watch after a moment.
    sleep(Duration::from_secs(1));
    send(node_server(&hosts, 2), Signal::SIGSTOP);
    running.signal("TERM");
    running.end().exits_with(143);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let is_left = || hosts.processes(2).iter().any(|line| line.contains(&nap));
    while is_left() {
        assert!(std::time::Instant::now() < until, "{:?}", hosts.processes(2));
        sleep(Duration::from_millis(50));
    }
}
