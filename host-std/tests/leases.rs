//! Several runs at once on one host: the processors that each has.

use crate::common::{Ran, Running, host, host_path, run, start};
use pmi_host_hardware::described::machines;
use pmi_host_hardware::hwloc::HwlocVersion;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A directory of sockets for the runs of one test.
struct Runs {
    directory: TempDir,
}

impl Runs {
    /// `None`, with a note, on a machine with one processor.
    fn new() -> Option<Self> {
        if available_parallelism().is_ok_and(|processors| processors.get() < 2) {
            eprintln!("skipped: this machine has one processor");
            return None;
        }
        Some(Self { directory: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("pmi-host/leases")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = host(words);
        command.env("XDG_RUNTIME_DIR", self.directory.path()).env_remove("PMI_HOST_OVERLAP");
        command
    }

    /// A rank that prints its processors, and waits until there is a file of this name.
    fn ranks(&self, options: &[&str], until: &str) -> Command {
        let script =
            format!("{TELL}; while [ ! -e '{}' ]; do sleep 0.01; done", self.path(until).display());
        self.command(&[&["run"], options, &["sh", "-c", &script]].concat())
    }

    /// Starts ranks that wait for a file of this name, once they have printed their processors.
    fn start(&self, options: &[&str], until: &str) -> Running {
        let running = start(&mut self.ranks(options, until));
        running.wait_for_output("\n");
        running
    }

    /// The processors of a rank that is bound to a core beside these runs.
    fn next(&self, options: &[&str]) -> Ran {
        let words = [&["run", "-n", "1", "--bind-to", "core"], options, &["sh", "-c", TELL]];
        run(&mut self.command(&words.concat())).exits_with(0)
    }

    fn touch(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }
}

fn comes(is_so: impl Fn() -> bool) -> bool {
    let since = Instant::now();
    while !is_so() && since.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(10));
    }
    is_so()
}

const TELL: &str = "grep Cpus_allowed_list: /proc/self/status | cut -f 2";

const ONE_CORE: [&str; 4] = ["-n", "1", "--bind-to", "core"];

#[test]
fn runs_that_start_together_are_bound_to_disjoint_processors() {
    let Some(runs) = Runs::new() else { return };
    for number in 0..10 {
        let name = format!("end{number}");
        let both = [0, 1].map(|_| start(&mut runs.ranks(&ONE_CORE, &name)));
        both.iter().for_each(|running| running.wait_for_output("\n"));
        runs.touch(&name);
        let [one, other] = both.map(|running| running.end().exits_with(0).says_nothing().out);
        assert_ne!(one, other, "{number}");
    }
    assert!(comes(|| !runs.path("pmi-host").exists()), "nothing is left");
}

#[test]
fn run_without_room_shares_processors_and_names_who_has_them() {
    let Some(runs) = Runs::new() else { return };
    let all = available_parallelism().unwrap().to_string();
    let first = runs.start(&["-n", &all, "--bind-to", "hwthread"], "end");
    let pid = format!("process {} of 'sh'", first.pid());
    runs.next(&[]).says(&["share processor", &pid, "'--overlap'"]);
    // So does a run whose user has chosen processors that are taken.
    let words = ["run", "-n", "1", "--bind-to", "user:0", "true"];
    run(&mut runs.command(&words)).exits_with(0).says(&["share processor 0 with", &pid]);
    runs.touch("end");
    first.end().exits_with(0).says_nothing();
    runs.next(&[]).says_nothing();
}

#[test]
fn runs_have_different_gpus_and_one_without_enough_is_refused() {
    let Some(runs) = Runs::new() else { return };
    let (_, machine) = machines().find(|(name, _)| *name == "eight-t4").unwrap();
    let file = runs.path("node.xml");
    fs::write(&file, machine.hwloc(HwlocVersion::V2)).unwrap();
    let script = format!(
        "echo $CUDA_VISIBLE_DEVICES; while [ ! -e '{}' ]; do sleep 0.01; done",
        runs.path("end").display()
    );
    let job = |ranks: &str, options: &[&str], script: &str| {
        let words = ["run", "-n", ranks, "--gpus-per-rank", "1", "--topology"];
        let mut command = runs.command(&words);
        command.arg(&file).args(options).args(["sh", "-c", script]);
        command.env_remove("CUDA_VISIBLE_DEVICES");
        command
    };
    let first = start(&mut job("5", &[], &script));
    assert!(comes(|| first.output().lines().count() == 5));
    let second = start(&mut job("3", &[], &script));
    assert!(comes(|| second.output().lines().count() == 3));
    let both = first.output() + &second.output();
    assert_eq!(both.lines().collect::<BTreeSet<_>>().len(), 8, "{both}");
    let [one, other] = [&first, &second].map(|run| format!("process {} of 'sh'", run.pid()));
    let refused = run(&mut job("1", &[], "echo started")).exits_with(2);
    assert_eq!(refused.out, "");
    refused.says(&["has 8 GPUs for ranks", &one, &other, "have 8,", "have 1;", "'--overlap'"]);
    let hosts = ["--starter", "local", "--hosts", "h1"];
    let refused = run(&mut job("1", &hosts, "echo started")).exits_with(2);
    assert!(refused.err.contains("host h1 has 8 GPUs for ranks"), "{}", refused.err);
    // Besides the description, of another machine, nothing is told.
    let ends_well = |ran: Ran| {
        ran.exits_with(0).says(&["so it is not this host"]);
    };
    ends_well(run(&mut job("1", &["--overlap"], "true")));
    runs.touch("end");
    for running in [first, second] {
        ends_well(running.end());
    }
}

#[test]
fn overlapping_run_avoids_no_other_and_is_avoided_by_none() {
    let Some(runs) = Runs::new() else { return };
    let alone = runs.next(&[]).out;
    let first = runs.start(&ONE_CORE, "end");
    let overlapping = runs.start(&[&["--overlap"], &ONE_CORE[..]].concat(), "end");
    assert_eq!(overlapping.output(), alone);
    let next = runs.next(&[]).says_nothing();
    assert_ne!(next.out, alone);
    let srun = runs.path("srun");
    symlink(host_path(), &srun).unwrap();
    let mut srun = Command::new(srun);
    srun.args(["--overlap", "-n", "1", "--cpu-bind=cores", "sh", "-c", TELL]);
    srun.env("XDG_CONFIG_HOME", "/nowhere").env("XDG_RUNTIME_DIR", runs.directory.path());
    assert_eq!(run(&mut srun).exits_with(0).says_nothing().out, alone);
    runs.touch("end");
    for running in [first, overlapping] {
        running.end().exits_with(0).says_nothing();
    }
}

#[test]
fn lease_of_a_killed_launcher_ends_with_it() {
    let Some(runs) = Runs::new() else { return };
    let alone = runs.next(&[]).out;
    let first = runs.start(&ONE_CORE, "end");
    assert_ne!(runs.next(&[]).out, alone);
    first.signal("KILL");
    first.end().exits_with(137);
    // Its guard is a copy of it for a moment.
    assert!(comes(|| runs.next(&[]).out == alone));
    assert!(!runs.file().exists());
}

#[test]
fn runs_in_different_pid_name_spaces_avoid_each_other() {
    let Some(runs) = Runs::new() else { return };
    let can = Command::new("unshare").args(["-mpf", "--mount-proc", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no name space of processes can be made here");
        return;
    }
    let ranks = runs.ranks(&ONE_CORE, "end");
    let mut inside = Command::new("unshare");
    inside.args(["-mpf", "--mount-proc"]).arg(ranks.get_program()).args(ranks.get_args());
    for (name, value) in ranks.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    let inside = start(&mut inside);
    inside.wait_for_output("\n");
    let next = runs.next(&[]).says_nothing();
    assert_ne!(next.out, inside.output());
    runs.touch("end");
    let ended = inside.end().exits_with(0).out;
    assert!(comes(|| runs.next(&[]).out == ended));
}

#[test]
fn node_servers_and_default_bindings_of_other_launchers_avoid_other_runs() {
    let Some(runs) = Runs::new() else { return };
    let alone = runs.next(&[]).out;
    let first = runs.start(&ONE_CORE, "end");
    let of_node = runs.next(&["--starter", "local", "--hosts", "h1"]).says_nothing();
    assert_ne!(of_node.out, alone);
    let mut mpiexec = runs.command(&["mpiexec", "-n", "1", "sh", "-c", TELL]);
    let by_default = run(mpiexec.env("PMI_HOST_PERSONALITY", "ompi")).exits_with(0);
    assert_eq!(by_default.says_nothing().out, of_node.out);
    // What nobody has asked for is not reported.
    let second = runs.start(&ONE_CORE, "end");
    let mut mpiexec = runs.command(&["mpiexec", "-n", "2", "sh", "-c", TELL]);
    let by_default = run(mpiexec.env("PMI_HOST_PERSONALITY", "ompi")).exits_with(0);
    assert_eq!(by_default.says_nothing().lines().len(), 2);
    runs.next(&["--starter", "local", "--hosts", "h1"]).says(&["share processor"]);
    runs.touch("end");
    for running in [first, second] {
        running.end().exits_with(0);
    }
}

#[test]
fn run_that_binds_no_ranks_opens_no_list_of_runs() {
    let Some(runs) = Runs::new() else { return };
    let list = format!("ls '{}'", runs.path("pmi-host").display());
    let listed = |options: &[&str]| {
        let words = [&["run", "-n", "1"], options, &["sh", "-c", &format!("{list}; true")]];
        run(&mut runs.command(&words.concat())).exits_with(0).out
    };
    assert!(listed(&["--bind-to", "core"]).contains("leases"));
    assert!(listed(&["--cpu-set", "0"]).contains("leases"));
    for options in [&[][..], &["--bind-to", "none"], &["--bind-to", "core", "--overlap"]] {
        assert!(!listed(options).contains("leases"), "{options:?}");
    }
}

#[test]
fn damaged_list_of_runs_is_replaced_with_one_note() {
    let Some(runs) = Runs::new() else { return };
    fs::DirBuilder::new().mode(0o700).create(runs.path("pmi-host")).unwrap();
    fs::write(runs.file(), "damaged").unwrap();
    runs.next(&[]).says(&["damaged", "begins anew"]);
    runs.next(&[]).says_nothing();
}

#[test]
fn full_or_read_only_directory_gives_no_lease_and_one_note() {
    let Some(runs) = Runs::new() else { return };
    let can = Command::new("unshare").args(["-m", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no name space of mounts can be made here");
        return;
    }
    let place = runs.directory.path();
    let script = |prepared: &str, options: &str| {
        let script = format!(
            "mount -t tmpfs -o size=16k,mode=700 tmpfs {0} && mkdir -m 700 {0}/pmi-host && cd {0} && {prepared} && \
             exec {1} run -n 1 --no-control {options} sh -c '{TELL}'",
            place.display(),
            host_path(),
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).env("XDG_RUNTIME_DIR", place);
        command.env("XDG_CONFIG_HOME", "/nowhere").env_remove("PMI_HOST_OVERLAP");
        run(&mut command).exits_with(0)
    };
    let full = "{ cat /dev/zero > fill 2> /dev/null; true; }";
    let read_only = "mount -o remount,ro .";
    for (prepared, cause) in [(full, "No space left"), (read_only, "Read-only file system")] {
        script(prepared, "--bind-to core").says(&["list of runs", cause, "XDG_RUNTIME_DIR"]);
        for options in ["", "--bind-to core --overlap"] {
            let ran = script(prepared, options);
            assert!(!ran.err.contains("list of runs"), "{}", ran.err);
        }
    }
}

#[test]
fn list_of_runs_that_another_process_keeps_locked_is_left_alone() {
    let Some(runs) = Runs::new() else { return };
    let first = runs.start(&ONE_CORE, "end");
    let mut flock = Command::new("flock");
    flock.arg("--no-fork").arg(runs.file()).args(["sh", "-c", "echo locked; exec sleep 60"]);
    let locked = start(&mut flock);
    locked.wait_for_output("locked");
    let holder = format!("process {} has kept", locked.pid());
    let since = Instant::now();
    runs.next(&[]).says(&[&holder, "locked for more than a second"]);
    assert!(since.elapsed() < Duration::from_secs(30));
    runs.touch("end");
    // The end of a run waits for nobody.
    first.end().exits_with(0).says_nothing();
    locked.signal("KILL");
    locked.end();
}
