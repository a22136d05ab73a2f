//! Spawned jobs of runs on several nodes, which are node servers on this machine here: unmodified MPI programs,
//! requested hosts, output, failures, and reads between jobs.

use crate::common::hosts::local_nodes as nodes;
use crate::common::library::{MPICH_5, OPEN_MPI_4, OPEN_MPI_5};
use crate::common::run;
use crate::common::spawner::SPAWNER;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Two ranks on each of three nodes with labels; the first one runs `script`, and all finalize.
fn client(options: &[&str], script: &str) -> Command {
    let text =
        format!("{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi; ask finalize >/dev/null");
    let labels = ["--label-format", "%g:%r@%h "];
    nodes(3, 3, &[options, &labels, &["sh", "-c", &text]].concat())
}

#[test]
fn mpi_programs_spawn_over_nodes() {
    let mut programs: Vec<(Command, &str)> = Vec::new();
    for (library, name) in
        [(MPICH_5, "MPICH 5"), (OPEN_MPI_4, "Open MPI 4"), (OPEN_MPI_5, "Open MPI 5")]
    {
        let Some(program) = (library.build)("spawn") else { continue };
        let mut command = nodes(3, 3, &[]);
        // All nodes are this machine, where files of shared memory would collide.
        command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
        library.prepare(command.arg(program));
        programs.push((command, name));
    }
    for (mut command, name) in programs {
        let ran = run(command.arg("4")).exits_with(0).says_nothing();
        let children = (0..4).map(|child| format!("child {child} of 4 has 3 parents"));
        let mut expected: Vec<String> = children.collect();
        expected.push("the children say 406".to_owned());
        assert_eq!(ran.lines(), expected, "{name}");
    }
}

#[test]
fn spawned_job_that_has_finalized_fails_alone_over_nodes() {
    // Its ranks are on two nodes; one of them is terminated with its job.
    let ask = "ask() { echo \"cmd=$*\" >&$PMI_FD; read answer <&$PMI_FD; }";
    let child = format!(
        "{ask}; ask init pmi_version=1 pmi_subversion=1; ask barrier_in; ask finalize; \
         if [ $PMI_RANK = 1 ]; then exec sleep 60; fi; sleep 1; exit 5"
    );
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("child");
    fs::write(&program, format!("#!/bin/sh\n{child}\n")).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let script = format!("spawn 2 '' 'exec {}'; sleep 3; echo goes on", program.display());
    let ran = run(&mut client(&[], &script)).exits_with(5).says(&[
        "rank 0 of 2 in the spawned job",
        "exited with code 5",
        "other jobs continue",
    ]);
    assert!(ran.out.contains("goes on\n"), "{}\n{}", ran.out, ran.err);
}

#[test]
fn mpi_job_that_has_disconnected_fails_alone_over_nodes() {
    for (library, name) in
        [(MPICH_5, "MPICH 5"), (OPEN_MPI_4, "Open MPI 4"), (OPEN_MPI_5, "Open MPI 5")]
    {
        let Some(program) = (library.build)("disconnect") else { continue };
        let mut command = nodes(2, 1, &[]);
        // All nodes are this machine, where files of shared memory would collide.
        command.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
        library.prepare(command.arg(program));
        let ran = run(command.arg("code")).exits_with(5).says(&["other jobs continue"]);
        assert_eq!(ran.out, "the parent goes on\n", "{name}: {}", ran.err);
    }
}

#[test]
fn spawned_ranks_continue_the_turns_of_the_run() {
    let child = "echo $PMI_SIZE $PMI_SPAWNED";
    let ran = run(&mut client(&[], &format!("spawn 4 '' '{child}'"))).exits_with(0).says_nothing();
    let expected = [
        "0:0@local1 cmd=spawn_result rc=0",
        "1:0@local1 4 1",
        "1:1@local2 4 1",
        "1:2@local3 4 1",
        "1:3@local1 4 1",
    ];
    assert_eq!(ran.lines(), expected);
}

/// Agents of these hosts, which are this machine; the first rank runs `script`, and all pass a fence.
fn on_hosts(hosts: &str, options: &[&str], script: &str) -> Command {
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then {script}\nfi; ask barrier_in >/dev/null; ask finalize >/dev/null"
    );
    let mut command = nodes(1, 1, &[]);
    let at = ["--starter", "local", "--hosts", hosts, "--label-format", "%g:%r@%h "];
    command.args([&at, options, &["sh", "-c", &text]].concat());
    command
}

#[test]
fn spawned_ranks_take_slots_that_are_free() {
    let options = ["-n", "2", "--rankmap", "0,1"];
    let mut command = on_hosts("a:3,b:2", &options, "spawn 4 '' 'echo here'");
    let ran = run(&mut command).exits_with(0).says_nothing();
    let expected =
        ["0:0@a cmd=spawn_result rc=0", "1:0@a here", "1:1@a here", "1:2@b here", "1:3@a here"];
    assert_eq!(ran.lines(), expected);
}

#[test]
fn hosts_without_ranks_take_spawned_ones_if_all_take_part() {
    let script = "spawn 3 '' 'echo here'; spawn 1 c 'echo again'";
    let ran = run(&mut on_hosts("a,b,c", &["-n", "1", "--all-hosts"], script));
    let ran = ran.exits_with(0).says_nothing();
    let mut expected = vec!["0:0@a cmd=spawn_result rc=0"; 2];
    expected.extend(["1:0@b here", "1:1@c here", "1:2@a here", "2:0@c again"]);
    assert_eq!(ran.lines(), expected);
    let refused = run(&mut on_hosts("a,b,c", &["-n", "1"], "spawn 1 c true")).exits_with(0);
    assert!(refused.err.contains("no host of this run"), "{}", refused.err);
}

#[test]
fn spawned_ranks_run_on_requested_hosts() {
    for (hosts, places) in [
        ("local2", ["local2", "local2", "local2"]),
        ("local3,local1", ["local3", "local1", "local3"]),
        ("local3:2, localhost", ["local3", "local3", "local1"]),
    ] {
        let script = format!("spawn 3 '{hosts}' 'echo here'");
        let ran = run(&mut client(&[], &script)).exits_with(0).says_nothing();
        let row = |(rank, host): (usize, &str)| format!("1:{rank}@{host} here");
        let rows: Vec<String> = places.into_iter().enumerate().map(row).collect();
        assert_eq!(ran.lines()[1..], rows, "{hosts}");
    }
}

#[test]
fn spawn_that_cannot_be_is_refused_and_the_spawner_goes_on() {
    let script = "spawn 2 elsewhere 'echo no'; ask barrier_in";
    let text = format!("{SPAWNER} [ $PMI_RANK = 0 ] && {{ {script}; }} || ask barrier_in");
    let words = ["sh", "-c", &format!("{text}; ask finalize >/dev/null")];
    let ran = run(&mut nodes(3, 3, &words)).exits_with(0);
    let mut expected = vec!["cmd=barrier_out rc=0"; 3];
    expected.push("cmd=spawn_result rc=3");
    assert_eq!(ran.lines(), expected);
    ran.says(&["the spawn of rank 0 of 3", "on local1) is refused", "no host of this run"]);
}

#[test]
fn program_that_does_not_start_on_other_nodes_is_undone() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-spawn-no-interpreter");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let spawn = SPAWNER.replace("execname=sh", &format!("execname={}", path.display()));
    let text = format!(
        "{spawn} if [ $PMI_RANK = 0 ]; then spawn 3 local2,local3 x; fi; ask barrier_in; ask finalize"
    );
    let ran = run(&mut nodes(3, 3, &["sh", "-c", &text])).exits_with(0);
    assert!(ran.out.contains("cmd=spawn_result rc=-1"), "{}", ran.out);
    assert_eq!(ran.out.matches("cmd=barrier_out rc=0").count(), 3, "{}", ran.out);
    ran.says(&["the spawn of rank 0 of 3", "is refused: ", "in the spawned job kvs_"]);
}

#[test]
fn spawned_rank_that_fails_ends_the_ranks_of_all_nodes() {
    let child = "[ $PMI_RANK = 1 ] && exit 5; exec sleep 100";
    let script = format!("spawn 2 local2,local3 '{child}'; exec sleep 100");
    let ran = run(&mut client(&[], &script)).exits_with(5);
    ran.says(&["rank 1 of 2 in the spawned job kvs_", "on local3) exited with code 5"]);
}

#[test]
fn spawned_ranks_spawn_in_their_turn_over_nodes() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-spawn-child.sh");
    let child = format!("{SPAWNER}\nspawn 1 local3 'echo grandchild'\nask finalize >/dev/null\n");
    fs::write(&program, child).unwrap();
    let script = format!("spawn 1 local2 'exec sh {}'", program.display());
    let ran = run(&mut client(&[], &script)).exits_with(0).says_nothing();
    let expected = [
        "0:0@local1 cmd=spawn_result rc=0",
        "1:0@local2 cmd=spawn_result rc=0",
        "2:0@local3 grandchild",
    ];
    assert_eq!(ran.lines(), expected);
}

/// A rank that speaks PMI-2: the spawner puts a value, spawns this program on `local2` and reads a value of
/// the spawned job, which reads that of the spawner.
const READS: &str = r#"
import os, sys, time
f = os.fdopen(int(os.environ['PMI_FD']), 'r+b', 0)
def ask(body):
    f.write(b'%6d' % len(body) + body.encode())
    answer = f.read(int(f.read(6)))
    return dict(pair.split('=', 1) for pair in answer.decode().split(';') if pair)
def read(job, key):
    until = time.time() + 20
    while time.time() < until:
        answer = ask(f'cmd=kvs-get;jobid={job};srcid=-1;key={key};')
        if answer['found'] == 'TRUE':
            return answer['value']
        time.sleep(0.01)
    return None
f.write(b'cmd=init pmi_version=2 pmi_subversion=0\n')
while f.read(1) != b'\n': pass
rank = int(os.environ['PMI_RANK'])
opened = ask(f'cmd=fullinit;pmirank={rank};')
spawner = opened.get('spawner-jobid')
ask(f'cmd=kvs-put;key=of-{rank};value={"child" if spawner else "parent"} {rank};')
ask('cmd=kvs-fence;')
if spawner:
    print(rank, 'reads', read(spawner, 'of-2'))
elif rank == 1:
    answer = ask('cmd=spawn;ncmds=1;preputcount=0;subcmd=python3;maxprocs=2;argc=1;'
                 f'argv0={sys.argv[0]};infokeycount=1;infokey0=host;infoval0=local2;')
    print(rank, 'reads', read(answer['jobid'], 'of-1'))
if not spawner:
    ask('cmd=kvs-fence;')
ask('cmd=finalize;')
"#;

#[test]
fn spawned_job_and_its_spawner_read_each_other_over_nodes() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-spawn-reads.py");
    fs::write(&program, READS).unwrap();
    let words = ["--pmi", "2", "python3", program.to_str().unwrap()];
    let ran = run(&mut nodes(3, 3, &words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["0 reads parent 2", "1 reads child 1", "1 reads parent 2"]);
}

/// Ranks that speak PMI-2: the first one spawns this program, and puts two pairs into the space of the spawned
/// job; two others end the connection of the jobs, and connect them again.
const CONNECTS: &str = r#"
import os, sys, time
f = os.fdopen(int(os.environ['PMI_FD']), 'r+b', 0)
def send(body):
    f.write(b'%6d' % len(body) + body.encode())
def ask(body):
    send(body)
    answer = f.read(int(f.read(6)))
    return dict(pair.split('=', 1) for pair in answer.decode().split(';') if pair)
def get(job, key):
    answer = ask(f'cmd=kvs-get;jobid={job};srcid=-1;key={key};')
    return answer.get('value') if answer['found'] == 'TRUE' else None
f.write(b'cmd=init pmi_version=2 pmi_subversion=0\n')
while f.read(1) != b'\n': pass
rank = int(os.environ['PMI_RANK'])
opened = ask(f'cmd=fullinit;pmirank={rank};')
own = ask('cmd=job-getid;')['jobid']
if 'spawner-jobid' in opened:
    while get(own, 'y') is None:
        time.sleep(0.01)
    print('child', rank, 'has', get(own, 'x'))
    ask('cmd=finalize;')
    sys.exit()
if rank == 0:
    child = ask('cmd=spawn;ncmds=1;preputcount=0;subcmd=python3;maxprocs=2;argc=1;'
                f'argv0={sys.argv[0]};infokeycount=1;infokey0=hosts;infoval0=local2,local3;')['jobid']
    send(f'cmd=kvs-putall;jobid={child};npair=2;')
    send('cmd=kvs-putall-pair;key=x;val=a b;')
    print('put', ask('cmd=kvs-putall-pair;key=y;val=2;')['rc'])
    ask(f'cmd=kvs-put;key=child;value={child};')
ask('cmd=kvs-fence;')
child = get(own, 'child')
print(rank, 'reads', get(child, 'x'))
ask('cmd=kvs-fence;')
if rank == 2:
    print('disconnect', ask(f'cmd=job-disconnect;jobid={child};')['rc'])
    print('disconnect', ask(f'cmd=job-disconnect;jobid={child};')['rc'] != '0')
ask('cmd=kvs-fence;')
print(rank, 'reads', get(child, 'x'))
ask('cmd=kvs-fence;')
if rank == 1:
    print('connect', ask(f'cmd=job-connect;jobid={child};')['rc'])
ask('cmd=kvs-fence;')
print(rank, 'reads', get(child, 'x'))
ask('cmd=finalize;')
"#;

#[test]
fn jobs_are_connected_and_receive_pairs_on_all_nodes() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nodes-spawn-connects.py");
    fs::write(&program, CONNECTS).unwrap();
    let words = ["--node-timeout", "60", "--pmi", "2", "python3", program.to_str().unwrap()];
    let ran = run(&mut nodes(3, 3, &words)).exits_with(0).says_nothing();
    let mut expected = vec!["child 0 has a b", "child 1 has a b", "connect 0"];
    expected.extend(["disconnect 0", "disconnect True", "put 0"]);
    let reads =
        (0..3).flat_map(|rank| ["a b", "a b", "None"].map(|value| format!("{rank} reads {value}")));
    let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).chain(reads).collect();
    expected.sort_unstable();
    assert_eq!(ran.lines(), expected);
}

#[test]
fn spawned_rank_outside_a_fence_is_named_in_reports_and_failures() {
    let child = |rest: &str| {
        let enter = "echo \"cmd=init pmi_version=1 pmi_subversion=1\" >&$PMI_FD; read a <&$PMI_FD; \
                     [ $PMI_RANK = 2 ] || echo cmd=barrier_in >&$PMI_FD;";
        format!("{enter} [ $PMI_RANK = 2 ] {rest}; exec sleep 60")
    };
    let script = |rest| format!("spawn 3 local2,local3,local1 '{}'; exec sleep 60", child(rest));
    let stall = ["--stall-report", "1", "--stall-abort", "2"];
    let ran = run(&mut client(&stall, &script("&& exec sleep 60"))).exits_with(124);
    assert!(ran.err.contains("ranks 0,1 of 3 in the spawned job kvs_"), "{}", ran.err);
    assert!(ran.err.contains(" wait in fence 0 for rank 2\n"), "{}", ran.err);
    let leaves = "&& { echo cmd=finalize >&$PMI_FD; read a <&$PMI_FD; exit 0; }";
    let ran = run(&mut client(&[], &script(leaves))).exits_with(1);
    ran.says(&[
        "rank 2 of 3 in the spawned job kvs_",
        "on local1) exited without taking part in the fence",
    ]);
}

#[test]
fn lost_host_takes_no_spawned_rank_in_a_run_that_continues() {
    // An agent reports the start of its ranks at the end of the turn in which it answers the first request; a loss
    // before that ends the run.
    let script =
        "if [ $PMI_RANK = 2 ]; then ask get_maxes >/dev/null; kill -KILL $PPID; exec sleep 60; fi
        if [ $PMI_RANK = 0 ]; then
            until spawn 1 local3 true | grep -q rc=-1; do :; done
            spawn 3 '' 'echo here'
        fi";
    let text = format!("{SPAWNER} {script}; ask finalize >/dev/null");
    let options = ["--on-exit-error", "ignore", "--label-format", "%g:%r@%h ", "sh", "-c", &text];
    let ran = run(&mut nodes(3, 3, &options)).exits_with(1);
    let lines = ran.lines();
    assert_eq!(lines.iter().filter(|line| line.ends_with(" here")).count(), 3, "{}", ran.out);
    assert!(!lines.iter().any(|line| line.contains("@local3")), "{}", ran.out);
    assert!(ran.err.contains("pmi-host: node local3 (rank 2 of 3) is lost"), "{}", ran.err);
    assert!(ran.err.contains(" is refused: node local3 is lost"), "{}", ran.err);
}
