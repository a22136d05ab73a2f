//! Hosts that spawn requests add to a run: node servers on this machine here.

use crate::common::hosts::{local_nodes as nodes, ssh_hosts};
use crate::common::library::{MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::spawner::SPAWNER;
use crate::common::{host, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Two ranks on two nodes with labels; the first one runs `script`, and both pass a fence and finalize.
fn client(options: &[&str], script: &str) -> Command {
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi; ask barrier_in; ask finalize >/dev/null"
    );
    let labels = ["--label-format", "%g:%r@%h "];
    nodes(2, 2, &[&labels[..], options, &["sh", "-c", &text]].concat())
}

/// A child that passes a fence with the others.
const FENCED: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read a <&$PMI_FD; \
    echo cmd=barrier_in >&$PMI_FD; read a <&$PMI_FD; echo $PMI_RANK of $PMI_SIZE $a; \
    echo cmd=finalize >&$PMI_FD; read a <&$PMI_FD";

#[test]
fn added_hosts_take_spawned_ranks_and_remain_in_the_run() {
    let script = format!(
        "spawn_by 3 add-host local3:2,local4 '{FENCED}'
        spawn_by 1 host local4 'echo again'
        spawn_by 2 add-host local4,local5 'echo more'
        spawn_by 1 add-host local1 'echo here'"
    );
    let ran = run(&mut client(&[], &script)).exits_with(0).says_nothing();
    let mut expected = vec!["0:0@local1 cmd=spawn_result rc=0"; 4];
    expected.extend(["0:0@local1 cmd=barrier_out rc=0", "0:1@local2 cmd=barrier_out rc=0"]);
    expected.extend([
        "1:0@local3 0 of 3 cmd=barrier_out rc=0",
        "1:1@local3 1 of 3 cmd=barrier_out rc=0",
        "1:2@local4 2 of 3 cmd=barrier_out rc=0",
        "2:0@local4 again",
        "3:0@local4 more",
        "3:1@local5 more",
        "4:0@local1 here",
    ]);
    expected.sort_unstable();
    assert_eq!(ran.lines(), expected);
}

#[test]
fn mpi_programs_spawn_on_added_hosts() {
    for (library, name, key) in [
        (MPICH_5, "MPICH 5", "add-host"),
        (OPEN_MPI_4, "Open MPI 4", "add-host"),
        (OPEN_MPI_5, "Open MPI 5", "add-host"),
        (OPEN_MPI_5, "Open MPI 5", "PMIX_ADD_HOST"),
    ] {
        let Some(program) = (library.build)("spawn") else { continue };
        let mut command = nodes(2, 2, &["--label-format", "%g@%h "]);
        // All nodes are this machine, where files of shared memory would collide.
        command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
        library.prepare(command.arg(program));
        let ran = run(command.args(["4", key, "local3:2,local4:2"]));
        let ran = ran.exits_with(0).says_nothing();
        let children = [(0, 3), (1, 3), (2, 4), (3, 4)];
        let child = |(child, host)| format!("1@local{host} child {child} of 4 has 2 parents");
        let mut expected: Vec<String> = children.map(child).to_vec();
        expected.insert(0, "0@local1 the children say 406".to_owned());
        assert_eq!(ran.lines(), expected, "{name}");
    }
}

/// A run on `a` and `b` by a starter that does not reach the host `bad`; the first rank runs `script`.
fn by_template(script: &str) -> Command {
    let reach = "sh -c 'test {host} != bad || { echo no route; exit 7; }; exec {cmd}'";
    let mut command = host(["run", "--starter-cmd", reach, "--hosts", "a,b"]);
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi; ask barrier_in; ask finalize >/dev/null"
    );
    command.args(["--label-format", "%g:%r@%h ", "sh", "-c", &text]);
    command
}

#[test]
fn host_that_does_not_start_refuses_the_spawn_and_the_run_goes_on() {
    let script = "spawn_by 2 add-host c,bad 'echo no'
        spawn_by 1 add-host c 'echo yes'";
    let ran = run(&mut by_template(script)).exits_with(0);
    let expected = [
        "0:0@a cmd=barrier_out rc=0",
        "0:0@a cmd=spawn_result rc=-1",
        "0:0@a cmd=spawn_result rc=0",
        "0:1@b cmd=barrier_out rc=0",
        "1:0@c yes",
    ];
    assert_eq!(ran.lines(), expected);
    for part in ["host 'bad' cannot be added to the run: 'sh' exited with 7", "\n  no route\n"] {
        assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
    }
    ran.says(&["the spawn of rank 0 of 2", "on a) is refused: "]);
}

#[test]
fn run_on_one_host_adds_hosts_if_it_has_a_head() {
    let text = format!("{SPAWNER} spawn_by 1 add-host other 'echo here'; ask finalize >/dev/null");
    let words = ["sh", "-c", &text];
    let ran = run(host(["run", "-n", "1"]).args(words)).exits_with(0);
    assert_eq!(ran.lines(), ["cmd=spawn_result rc=3"]);
    ran.says(&["'other' cannot be added to a run on one host", "'--all-hosts'"]);
    let with_head = ["run", "-n", "1", "--all-hosts", "--starter", "local", "--hosts", "localhost"];
    let ran = run(host(with_head).args(["--label-format", "%h "]).args(words)).exits_with(0);
    let ran = ran.says_nothing();
    let lines = ran.lines();
    assert_eq!(lines.len(), 2, "{}", ran.out);
    assert!(ran.out.contains("other here\n") && ran.out.contains("rc=0"), "{}", ran.out);
}

/// A child that kills its agent, once the start of the child is reported.
const LOSES_NODE: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read a <&$PMI_FD; \
    echo cmd=get_maxes >&$PMI_FD; read a <&$PMI_FD; kill -KILL $PPID; exec sleep 60";

#[test]
fn failure_on_an_added_host_ends_the_run() {
    let script = "spawn_by 1 add-host local3 'exit 5'; exec sleep 60";
    let ran = run(&mut client(&[], script)).exits_with(5);
    ran.says(&["rank 0 of 1 in the spawned job kvs_", "on local3) exited with code 5"]);
    let script = format!("spawn_by 1 add-host local3 '{LOSES_NODE}'; exec sleep 60");
    let ran = run(&mut client(&[], &script)).exits_with(1);
    assert!(ran.err.contains("node local3 ") && ran.err.contains(" is lost"), "{}", ran.err);
}

#[test]
fn added_host_that_is_lost_takes_no_further_rank_in_a_run_that_continues() {
    let script = format!(
        "spawn_by 1 add-host local3 '{LOSES_NODE}'
        until spawn_by 1 host local3 true | grep -q rc=-1; do :; done
        spawn_by 1 add-host local4 'echo after'"
    );
    let ran = run(&mut client(&["--on-exit-error", "ignore"], &script)).exits_with(1);
    assert!(ran.out.contains("@local4 after\n"), "{}", ran.out);
    assert_eq!(ran.out.matches("cmd=barrier_out rc=0").count(), 2, "{}", ran.out);
    assert!(ran.err.contains(" is refused: node local3 is lost"), "{}", ran.err);
}

#[test]
fn host_that_was_lost_is_added_again_as_another_node() {
    let lost = |host: &str| {
        format!("until spawn_by 1 host {host} true | grep -q rc=-1; do sleep 0.02; done")
    };
    // Two hosts of the start and one that was added; the last rank loses its node by itself, once its start
    // is reported.
    let script = format!(
        "spawn_by 1 add-host local4 '{LOSES_NODE}'; {0}; {1}
        spawn_by 4 add-host local3,local4:2,local5 '{FENCED}'
        spawn_by 1 host local3 'echo once more'; touch done",
        lost("local4"),
        lost("local3"),
    );
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi
        if [ $PMI_RANK = 2 ]; then ask get_maxes >/dev/null; kill -KILL $PPID; exec sleep 60; fi
        ask barrier_in; ask finalize >/dev/null"
    );
    // With two nodes below each, that of `local5` is below a lost one.
    for radix in ["4", "2"] {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-growth-again");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let options = ["--tree-radix", radix, "--label-format", "%g:%r@%h "];
        // Other shells have no descriptors of two digits.
        let words = ["--on-exit-error", "ignore", "bash", "-c", &text];
        let mut command = nodes(3, 3, &[&options[..], &words].concat());
        let ran = run(command.current_dir(&directory)).exits_with(1);
        assert!(directory.join("done").exists(), "{} {}", ran.out, ran.err);
        let has = |text: &str| ran.out.lines().filter(|line| line.ends_with(text)).count();
        for (text, count) in [
            ("0:0@local1 cmd=barrier_out rc=0", 1),
            ("0:1@local2 cmd=barrier_out rc=0", 1),
            ("@local3 0 of 4 cmd=barrier_out rc=0", 1),
            ("@local4 1 of 4 cmd=barrier_out rc=0", 1),
            ("@local4 2 of 4 cmd=barrier_out rc=0", 1),
            ("@local5 3 of 4 cmd=barrier_out rc=0", 1),
            ("@local3 once more", 1),
        ] {
            assert_eq!(has(text), count, "{text:?} in {} {}", ran.out, ran.err);
        }
    }
}

#[test]
fn added_host_that_cannot_enter_the_directory_refuses_the_spawn() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-growth-gone");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let script = "rmdir \"$PWD\"; spawn_by 1 add-host local3 'echo no'";
    let ran = run(client(&[], script).current_dir(&directory)).exits_with(0);
    assert_eq!(ran.out.matches("cmd=barrier_out rc=0").count(), 2, "{}", ran.out);
    assert!(ran.out.contains("cmd=spawn_result rc=-1"), "{}", ran.out);
    ran.says(&[
        "is refused: ",
        "host local3, which was added, cannot serve it",
        "create it on every host",
    ]);
}

/// Ranks that speak PMI-2: the first one puts a value anew in each of three fences, and spawns this program on an
/// added host between them, which reads what the fences have carried before and after.
const READS: &str = r#"
import os, sys, time
f = os.fdopen(int(os.environ['PMI_FD']), 'r+b', 0)
def ask(body):
    f.write(b'%6d' % len(body) + body.encode())
    answer = f.read(int(f.read(6)))
    return dict(pair.split('=', 1) for pair in answer.decode().split(';') if pair)
def read(job, key):
    answer = ask(f'cmd=kvs-get;jobid={job};srcid=-1;key={key};')
    return answer['value'] if answer['found'] == 'TRUE' else None
f.write(b'cmd=init pmi_version=2 pmi_subversion=0\n')
while f.read(1) != b'\n': pass
rank = int(os.environ['PMI_RANK'])
opened = ask(f'cmd=fullinit;pmirank={rank};')
spawner = opened.get('spawner-jobid')
if spawner:
    print('child reads', read(spawner, 'of-0'), read(spawner, 'of-1'), read(spawner, 'turn'))
    ask('cmd=kvs-put;key=ready;value=yes;')
    ask('cmd=kvs-fence;')
    while read(spawner, 'turn') != '3':
        time.sleep(0.01)
    print('child reads', read(spawner, 'turn'))
    ask('cmd=finalize;')
    sys.exit()
ask(f'cmd=kvs-put;key=of-{rank};value=card {rank};')
for turn in range(1, 4):
    if turn == 3 and rank == 0:
        child = ask('cmd=spawn;ncmds=1;preputcount=0;subcmd=python3;maxprocs=1;argc=1;'
                    f'argv0={sys.argv[0]};infokeycount=1;infokey0=add-host;infoval0=local3;')['jobid']
        while read(child, 'ready') is None:
            time.sleep(0.01)
    if rank == 0:
        ask(f'cmd=kvs-put;key=turn;value={turn};')
    ask('cmd=kvs-fence;')
ask('cmd=finalize;')
"#;

#[test]
fn spawned_ranks_read_what_fences_have_carried_before_their_host_was_added() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-growth-reads.py");
    fs::write(&program, READS).unwrap();
    let words = ["--pmi", "2", "python3", program.to_str().unwrap()];
    let ran = run(&mut nodes(2, 2, &words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["child reads 3", "child reads card 0 card 1 2"]);
}

#[test]
fn hosts_that_ssh_reaches_are_added_below_each_other() {
    let Some(hosts) = ssh_hosts("growth", 8) else { return };
    // Nodes 7 and 8 are below node 1, a host of the start.
    let script = format!("spawn_by 6 add-host 'n3,n4,n5,n6,n7,n8' '{FENCED}'");
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi; ask barrier_in; ask finalize >/dev/null"
    );
    let options = ["--hosts", "n1,n2", "--tree-radix", "6", "--label-format", "%g:%r@%h "];
    let words = [&["run"], &options[..], &["sh", "-c", &text]].concat();
    let ran = run(&mut hosts.head(&words)).exits_with(0).says_nothing();
    let child = |rank: u32| format!("1:{rank}@n{} {rank} of 6 cmd=barrier_out rc=0", rank + 3);
    let mut expected: Vec<String> = (0..6).map(child).collect();
    let of_parents = [
        "0:0@n1 cmd=barrier_out rc=0",
        "0:0@n1 cmd=spawn_result rc=0",
        "0:1@n2 cmd=barrier_out rc=0",
    ];
    expected.extend(of_parents.map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(ran.lines(), expected);
}
