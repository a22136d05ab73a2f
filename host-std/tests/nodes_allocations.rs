//! Runs in allocations of batch systems that Debian has no packages of: their variables and files are set as
//! their documentation says, and programs act as their starters.

use crate::common::{host, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Starters, which note the hosts that they are called for, and run the command here.
const STARTERS: [(&str, &str); 3] = [
    (
        "ssh",
        "[ \"$1 $2 $3 $4\" = '-T -x -o BatchMode=yes' ] || exit 64; shift 4; note $1; shift; exec sh -c \"$*\"",
    ),
    // It connects to the node as the job, whose number it reads, and ignores options of ssh that the site filters.
    (
        "oarsh",
        "while case $1 in -*) true ;; *) false ;; esac; do shift; done; [ \"$OAR_JOB_ID\" = 7 ] || exit 64; \
         note $1; shift; exec sh -c \"$*\"",
    ),
    ("blaunch", "note $1; shift; exec \"$@\""),
];

/// Variables by which allocations and starters are found.
const VARIABLES: [&str; 14] = [
    "FLUX_URI",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "PBS_NODEFILE",
    "COBALT_NODEFILE",
    "LSB_MCPU_HOSTS",
    "LSB_DJOB_HOSTFILE",
    "PE_HOSTFILE",
    "OAR_NODEFILE",
    "OAR_NODE_FILE",
    "OAR_FILE_NODES",
    "OAR_JOB_ID",
    "HYDRA_LAUNCHER",
];

fn starters() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, script) in STARTERS {
        let path = directory.path().join(name);
        let note = "note() { echo \"${0##*/} $1\" >>\"${0%/*}/calls\"; }";
        fs::write(&path, format!("#!/bin/sh\n{note}\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

/// `mpiexec WORDS…` with these variables, and no others of a batch system.
fn allocated(starters: &Path, variables: &[(&str, &str)], words: &[&str]) -> Command {
    let mut command = host(["mpiexec"]);
    VARIABLES.iter().for_each(|name| {
        command.env_remove(name);
    });
    let path = format!("{}:{}", starters.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).envs(variables.iter().copied()).args(words);
    command
}

// Coverage: PBS-1, PBS-3, COBALT-1, LSF-1, LSF-2, OAR-1, OAR-2
#[test]
fn hosts_of_a_batch_system_are_reached_by_its_starter() {
    let directory = starters();
    let (nodes, calls) = (directory.path().join("nodes"), directory.path().join("calls"));
    fs::write(&nodes, "a.cluster\na.cluster\nb.cluster\n").unwrap();
    let nodes = nodes.to_str().unwrap();
    let oar = ("OAR_JOB_ID", "7");
    for (variables, starter) in [
        (&[("PBS_NODEFILE", nodes), ("PBS_ENVIRONMENT", "PBS_BATCH")][..], "ssh"),
        (&[("COBALT_NODEFILE", nodes)], "ssh"),
        (
            &[("LSB_MCPU_HOSTS", "a.cluster 2 b.cluster 1"), ("LSB_DJOB_HOSTFILE", "/none")],
            "blaunch",
        ),
        (&[("OAR_NODEFILE", nodes), ("OAR_FILE_NODES", nodes), oar], "oarsh"),
        (&[("OAR_NODE_FILE", nodes), oar], "oarsh"),
    ] {
        let words = ["sh", "-c", "echo $PMI_RANK of $PMI_SIZE on $PMI_HOSTNAME"];
        let ran = run(&mut allocated(directory.path(), variables, &words)).exits_with(0);
        let expected = ["0 of 3 on a.cluster", "1 of 3 on a.cluster", "2 of 3 on b.cluster"];
        assert_eq!(ran.says_nothing().lines(), expected, "{variables:?}");
        let noted = fs::read_to_string(&calls).unwrap();
        let mut noted: Vec<&str> = noted.lines().collect();
        noted.sort_unstable();
        assert_eq!(noted, [format!("{starter} a.cluster"), format!("{starter} b.cluster")]);
        fs::remove_file(&calls).unwrap();
    }
}

// Coverage: SLURM-31, SLURM-32, SLURM-33
#[test]
fn variables_of_newer_slurm_start_the_step_of_the_node_servers() {
    let directory = starters();
    // It ends if two numbers of processors contradict each other, and asks the manager of steps for the step.
    let srun = "[ -z \"$SLURM_TRES_PER_TASK$SLURM_CPUS_PER_TASK\" ] || exit 65
                [ \"$SLURM_STEPMGR\" = a ] || exit 66
                case \"$*\" in *--nodelist=a*) ;; *) exit 67 ;; esac
                case \"$*\" in *--external-launcher*) ;; *) exit 68 ;; esac
                while case $1 in -*) true ;; *) false ;; esac; do shift; done
                SLURMD_NODENAME=a exec \"$@\"";
    for (name, script) in [("srun", srun), ("squeue", "exit 1"), ("scontrol", "exit 1")] {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let job = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NUM_NODES", "1"),
        ("SLURM_JOB_NODELIST", "a"),
        ("SLURM_TASKS_PER_NODE", "2"),
        ("SLURM_JOB_CPUS_PER_NODE", "2"),
        ("SLURM_CPUS_PER_TASK", "1"),
        ("SLURM_TRES_PER_TASK", "cpu:2"),
        ("SLURM_STEPMGR", "a"),
        ("HYDRA_BOOTSTRAP", "slurm"),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"),
        ("I_MPI_HYDRA_BOOTSTRAP", "slurm"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "--external-launcher"),
        ("OMPI_MCA_plm_slurm_args", "--external-launcher"),
        ("PRTE_MCA_plm_slurm_args", "--external-launcher"),
    ];
    let program = ["sh", "-c", "echo $PMI_RANK: $SLURM_TRES_PER_TASK $SLURM_CPUS_PER_TASK"];
    let calls = directory.path().join("calls");
    for (starter, is_noted) in [(&[][..], false), (&["--starter", "ssh"], true)] {
        let words = [starter, &program].concat();
        let ran = run(&mut allocated(directory.path(), &job, &words)).exits_with(0);
        assert_eq!(ran.says_nothing().lines(), ["0: cpu:2 1", "1: cpu:2 1"]);
        assert_eq!(calls.exists(), is_noted, "ssh is called if the user has chosen it");
    }
}

// Coverage: ANY-2
#[test]
fn first_system_decides_about_hosts_and_starter() {
    let directory = starters();
    let (nodes, calls) = (directory.path().join("nodes"), directory.path().join("calls"));
    fs::write(&nodes, "a\n").unwrap();
    let nodes = nodes.to_str().unwrap();
    let all = [
        ("PBS_NODEFILE", nodes),
        ("LSB_MCPU_HOSTS", "b 1"),
        ("OAR_NODEFILE", nodes),
        ("OAR_JOB_ID", "7"),
    ];
    for (first, noted) in [(0, "ssh a\n"), (1, "blaunch b\n"), (2, "oarsh a\n")] {
        run(&mut allocated(directory.path(), &all[first..], &["true"])).exits_with(0);
        assert_eq!(fs::read_to_string(&calls).unwrap(), noted);
        fs::remove_file(&calls).unwrap();
    }
}

// Coverage: ANY-1, ANY-3, ANY-4, ANY-5
#[test]
fn description_that_cannot_be_used_is_shown_short_and_as_text() {
    let directory = starters();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // An argument or variable has up to 128 KiB.
    let long = "n".repeat(100_000);
    let long_file = file("long", &"n".repeat(1 << 20));
    let (escape, empty) = (file("escape", "a\u{1b}(0x\u{7}\n"), file("empty", ""));
    let ended = directory.path().join("ended").to_str().unwrap().to_owned();
    let one = ("SLURM_JOB_NUM_NODES", "1");
    for (variables, part) in [
        (&[("PBS_NODEFILE", &*ended)][..], "which cannot be read"),
        (&[("PBS_NODEFILE", "/dev/zero")], "it is not a regular file"),
        (&[("PBS_NODEFILE", &*empty)], "names no host"),
        (&[("PBS_NODEFILE", &*escape)], "'a\\u{1b}(0x\\u{7}' is not the name of a host"),
        (&[("PBS_NODEFILE", &*long_file)], "a name has more than 511 bytes"),
        (&[("PBS_NODEFILE", &*long)], "which cannot be read"),
        (&[("OAR_NODEFILE", &*long_file)], "OAR_NODEFILE: line 1: a name"),
        (&[("PE_HOSTFILE", &*long_file)], "there is no number behind"),
        (&[("SLURM_JOB_NUM_NODES", "\u{1b}[2J")], "\\u{1b}[2J is not a number of nodes"),
        (&[one, ("SLURM_JOB_NODELIST", "a\rb")], "'a\\rb' is not the name of a host"),
        (&[one, ("SLURM_JOB_NODELIST", &*long)], "a name has more than 511 bytes"),
        (&[one, ("SLURM_JOB_NODELIST", "a"), ("SLURM_TASKS_PER_NODE", &*long)], "is not a list"),
        (&[("LSB_MCPU_HOSTS", &*long)], "there is no number behind"),
        (&[("LSB_MCPU_HOSTS", "-oProxyCommand=x 1")], "is not the name of a host"),
    ] {
        let ran = run(&mut allocated(directory.path(), variables, &["true"])).exits_with(2);
        assert!(
            ran.err.contains(part) && ran.err.contains("--no-allocation"),
            "{part}: {}",
            ran.err
        );
        let is_obeyed = |sign: char| sign.is_control() && sign != '\n';
        assert!(!ran.err.contains(is_obeyed) && ran.err.len() < 2_000, "{:?}", ran.err);
    }
    assert!(!directory.path().join("calls").exists());
    // A variable without a value is none.
    let none = [("PBS_NODEFILE", ""), ("SLURM_JOB_NUM_NODES", ""), ("OAR_NODEFILE", "")];
    run(&mut allocated(directory.path(), &none, &["true"])).exits_with(0).says_nothing();
}
