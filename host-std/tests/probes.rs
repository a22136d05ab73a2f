//! Probes: command lines with which public programs find out which launcher is there, and their rules for the
//! answer. Facts of their sources, in our words.

use crate::common::{Ran, host, run};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One question of a program.
struct Probe {
    /// The program.
    tool: &'static str,
    /// Its command; the first word is the name of a launcher.
    command: &'static str,
    rule: Rule,
    /// What it concludes with the links alone, and with PMI_HOST_PERSONALITY as `mpich`, `ompi` and `intel`.
    expected: [&'static str; 4],
}

/// What a program makes of an answer.
enum Rule {
    /// The first of these words that standard output has anywhere.
    Output(&'static [(&'static str, &'static str)]),
    /// The same for standard output and error.
    Streams(&'static [(&'static str, &'static str)]),
    /// The first line of standard output with one of these words, in lower case, and the first number of three
    /// parts in the whole.
    Line(&'static [(&'static str, &'static str)]),
    /// The text behind `Version:`, else the first line, up to a blank in front of a bracket.
    Version,
    /// The three numbers behind `slurm `.
    Slurm,
    /// Code 0.
    Success,
}

/// Values of PMI_HOST_PERSONALITY; `None` for the links alone.
const PERSONALITIES: [Option<&str>; 4] = [None, Some("mpich"), Some("ompi"), Some("intel")];

const SAME: [&str; 4] = ["works"; 4];

const HOROVOD: Rule = Rule::Streams(&[
    ("Open MPI", "OpenMPI"),
    ("OpenRTE", "OpenMPI"),
    ("IBM Spectrum MPI", "SpectrumMPI"),
    ("MPICH", "MPICH"),
    ("Intel(R) MPI", "IntelMPI"),
]);

const RADICAL: Rule = Rule::Line(&[
    ("intel(r) mpi library for linux", "HYDRA"),
    ("hydra build details:", "HYDRA"),
    ("mvapich2", "HYDRA"),
    ("(open mpi)", "OMPI"),
    ("version:", "OMPI"),
]);

const LIKWID: Rule = Rule::Output(&[
    ("Intel", "intelmpi"),
    ("OpenRTE", "openmpi"),
    ("MPICH", "mvapich2"),
    ("MVAPICH2", "mvapich2"),
    ("srun", "slurm"),
]);

/// Probes that ask for a version.
const VERSIONS: &[Probe] = &[
    Probe {
        tool: "Horovod",
        command: "mpirun --version",
        rule: HOROVOD,
        expected: ["OpenMPI", "MPICH", "OpenMPI", "IntelMPI"],
    },
    Probe {
        tool: "RADICAL-Pilot",
        command: "mpirun -V",
        rule: RADICAL,
        expected: ["OMPI 4.1.4", "HYDRA 4.0.2", "OMPI 4.1.4", "HYDRA"],
    },
    Probe {
        tool: "RADICAL-Pilot",
        command: "mpiexec -info",
        rule: RADICAL,
        expected: ["HYDRA 4.0.2", "HYDRA 4.0.2", "OMPI 4.1.4", "HYDRA"],
    },
    Probe {
        tool: "GASNet",
        command: "mpiexec -info",
        rule: Rule::Line(&[("openrte", "openrte"), ("mvapich", "mvapich"), ("hydra", "hydra")]),
        expected: ["hydra 4.0.2", "hydra 4.0.2", "none 4.1.4", "none"],
    },
    Probe {
        tool: "ESPResSo",
        command: "mpiexec --version",
        rule: Rule::Output(&[("(Open MPI)", "oversubscribe"), ("(OpenRTE)", "oversubscribe")]),
        expected: ["none", "none", "oversubscribe", "none"],
    },
    Probe {
        tool: "recipes of conda-forge",
        command: "mpiexec --version",
        rule: Rule::Streams(&[("Open MPI", "openmpi"), ("MPICH", "mpich")]),
        expected: ["mpich", "mpich", "openmpi", "none"],
    },
    Probe {
        tool: "benchmarks of OpenMC",
        command: "mpirun --version",
        rule: Rule::Version,
        expected: [
            "mpirun (Open MPI) 4.1.4",
            "4.0.2",
            "mpirun (Open MPI) 4.1.4",
            "Intel(R) MPI Library for Linux* OS, Version 2021.13",
        ],
    },
    Probe { tool: "Ray", command: "mpirun --version", rule: Rule::Success, expected: SAME },
    Probe {
        tool: "ReFrame",
        command: "srun --version",
        rule: Rule::Slurm,
        expected: ["22.5.8"; 4],
    },
    Probe {
        tool: "Cray CTI",
        command: "srun --version",
        rule: Rule::Slurm,
        expected: ["22.5.8"; 4],
    },
    Probe { tool: "libEnsemble", command: "srun --version", rule: Rule::Success, expected: SAME },
    Probe { tool: "libEnsemble", command: "aprun --version", rule: Rule::Success, expected: SAME },
    Probe { tool: "libEnsemble", command: "jsrun --version", rule: Rule::Success, expected: SAME },
];

/// Probes that read help and errors.
const TEXTS: &[Probe] = &[
    Probe {
        tool: "likwid",
        command: "mpiexec.hydra --help",
        rule: LIKWID,
        expected: ["mvapich2", "mvapich2", "mvapich2", "intelmpi"],
    },
    Probe {
        tool: "likwid",
        command: "mpiexec --help",
        rule: LIKWID,
        expected: ["mvapich2", "mvapich2", "openmpi", "intelmpi"],
    },
    Probe {
        tool: "likwid",
        command: "mpirun --help",
        rule: LIKWID,
        expected: ["openmpi", "mvapich2", "openmpi", "intelmpi"],
    },
    Probe { tool: "likwid", command: "srun --help", rule: LIKWID, expected: ["slurm"; 4] },
    Probe {
        tool: "libEnsemble",
        command: "mpiexec",
        rule: Rule::Streams(&[("Microsoft", "msmpi")]),
        expected: ["none"; 4],
    },
    Probe {
        tool: "libEnsemble",
        command: "mpirun -npernode",
        rule: Rule::Streams(&[("unrecognized argument npernode", "mpich"), ("", "openmpi")]),
        expected: ["openmpi"; 4],
    },
];

/// Command lines by which programs start ranks, without a question before.
const STARTS: &[Probe] = &[
    start("CMake (FindMPI)", "mpiexec -n 2 true"),
    start("CMake (FindMPI)", "mpiexec.hydra -n 2 true"),
    start("CMake (FindMPI)", "srun -n 2 true"),
    start("MPI.jl", "mpiexec -n 2 true"),
    start("mpi4py", "mpiexec -n 2 true"),
    start("Snakemake", "mpiexec -n 2 true"),
    start("Charm++ (++mpiexec)", "mpiexec -n 2 true"),
    start("Nextflow", "mpirun --pernode true"),
    start("dask-mpi", "mpirun -np 4 true"),
    start("ReFrame", "mpirun -np 2 true"),
    start("ReFrame", "aprun -n 2 -N 2 -d 1 -j 0 true"),
    start("Parsl", "mpiexec -n 2 -ppn 2 -hosts localhost true"),
    start("Parsl", "aprun -n 2 -N 2 -node-list localhost true"),
    start("Parsl", "srun --ntasks 2 --ntasks-per-node 2 --nodelist localhost --nodes 1 true"),
    start(
        "DeepSpeed (MPICH)",
        "mpirun -n 2 -ppn 2 -genv A=1 -genv MASTER_PORT 29500 -hosts localhost true",
    ),
    start(
        "DeepSpeed (Open MPI)",
        "mpirun --allow-run-as-root -np 2 -mca btl tcp,self -x PATH --bind-to none --mca btl_tcp_if_include lo true",
    ),
    start("DeepSpeed (jsrun)", "jsrun -n 2 -c 1 -g 0 -a 1 -E A=1 true"),
    start("likwid", "srun --nodes 1 --ntasks 2 --ntasks-per-node=2 --cpu_bind=none true"),
];

const fn start(tool: &'static str, command: &'static str) -> Probe {
    Probe { tool, command, rule: Rule::Success, expected: SAME }
}

impl Rule {
    fn conclusion(&self, ran: &Ran) -> String {
        let any = |text: &str, known: &[(&str, &str)]| {
            let found = known.iter().find(|(words, _)| text.contains(words));
            found.map_or("none", |(_, name)| name).to_owned()
        };
        match self {
            Self::Output(known) => any(&ran.out, known),
            Self::Streams(known) => any(&format!("{}{}", ran.out, ran.err), known),
            Self::Line(known) => {
                let text = ran.out.to_lowercase();
                let named = text.lines().map(|line| any(line, known)).find(|name| name != "none");
                let is_version = |word: &&str| {
                    let mut parts = word.split('.');
                    parts.clone().count() == 3 && parts.all(|part| part.parse::<u32>().is_ok())
                };
                let words = [
                    Some(named.as_deref().unwrap_or("none")),
                    text.split_whitespace().find(is_version),
                ];
                words.into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
            Self::Version => {
                let behind = ran.out.lines().find_map(|line| line.split_once("Version:"));
                let text = behind.map(|(_, version)| version).or(ran.out.lines().next());
                let text = text.unwrap_or_default().trim();
                text.split_once(" (pmi-host").map_or(text, |(version, _)| version).to_owned()
            }
            Self::Slurm => {
                let version = ran.out.strip_prefix("slurm ").unwrap_or_default();
                let numbers = version.split(|letter: char| !letter.is_ascii_digit()).take(3);
                let numbers = numbers.map(|number| number.parse::<u32>().unwrap().to_string());
                numbers.collect::<Vec<_>>().join(".")
            }
            Self::Success => if ran.code == 0 { "works" } else { "missing" }.to_owned(),
        }
    }
}

/// The launcher by the name of `command[0]`.
fn called(command: &[&str], personality: Option<&str>) -> Ran {
    let mut called = Command::new(link(command[0]));
    called.args(&command[1..]).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
    if let Some(personality) = personality {
        called.env("PMI_HOST_PERSONALITY", personality);
    }
    run(&mut called)
}

/// A link of this name to the launcher.
fn link(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probes");
    let link = directory.join(std::process::id().to_string()).join(name);
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    // Tests of this process share it.
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pmi-host"), &link);
    link
}

#[track_caller]
fn are_understood(probes: &[Probe]) {
    let mut wrong = Vec::new();
    for Probe { tool, command, rule, expected } in probes {
        for (personality, expected) in PERSONALITIES.into_iter().zip(expected) {
            let words: Vec<&str> = command.split(' ').collect();
            let ran = called(&words, personality);
            let found = rule.conclusion(&ran);
            if found != *expected {
                wrong.push(format!(
                    "{tool}: {command} as {personality:?}: {found}, not {expected}; {ran:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// Coverage: PROBE-1, PROBE-2, PROBE-3, PROBE-4, PROBE-5, PROBE-6, PROBE-7, PROBE-8, PROBE-9, PROBE-10
#[test]
fn versions_are_understood_by_programs_that_look_for_a_launcher() {
    are_understood(VERSIONS);
}

// Coverage: PROBE-11, PROBE-12, PROBE-13
#[test]
fn help_and_errors_are_understood_by_programs_that_look_for_a_launcher() {
    are_understood(TEXTS);
}

// Coverage: PROBE-14, PROBE-15, PROBE-16, PROBE-17, PROBE-18, PROBE-19, PROBE-20, PROBE-21, PROBE-22, PROBE-23, PROBE-24
#[test]
fn programs_that_ask_nothing_start_their_ranks() {
    are_understood(STARTS);
}

#[test]
fn known_names_act_as_their_launchers() {
    for (name, version, variable) in [
        ("mpiexec", "HYDRA", "PMI_RANK"),
        ("mpirun", "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK"),
        ("mpiexec.hydra", "HYDRA", "PMI_RANK"),
        ("mpirun.mpich", "HYDRA", "PMI_RANK"),
        ("mpirun.openmpi", "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK"),
        ("prterun", "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK"),
        ("prun", "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK"),
        ("oshrun", "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK"),
        ("srun", "slurm ", "SLURM_PROCID"),
        ("aprun", "aprun (pmi-host", "PALS_RANKID"),
        ("jsrun", "jsrun ", "OMPI_COMM_WORLD_RANK"),
    ] {
        let shown = called(&[name, "--version"], None).exits_with(0).out;
        assert!(shown.starts_with(version) && shown.contains("pmi-host"), "{name}: {shown}");
        assert!(called(&[name, "--help"], None).exits_with(0).out.contains("options of"), "{name}");
        let script = format!("echo ${variable}");
        let ran = called(&[name, "-n", "2", "sh", "-c", &script], None).exits_with(0);
        assert_eq!(ran.lines(), ["0", "1"], "{name}");
    }
    // Options of other launchers are none of theirs.
    for (name, option) in [("aprun", "-genvall"), ("jsrun", "--tag-output")] {
        let help = called(&[name, "--help"], None).exits_with(0).out;
        assert!(!help.contains("options of Hydra"), "{name}: {help}");
        called(&[name, option, "true"], None)
            .exits_with(2)
            .says(&[option, &format!("{name} --help")]);
    }
    called(&["jsrun", "-n", "2", "-a", "2", "true"], None)
        .exits_with(2)
        .says(&["'-a 2'", "with '-n'"]);
}

// Coverage: PROBE-25
#[test]
fn unknown_name_is_that_of_the_launcher_itself() {
    for name in ["ompi_info", "mpichversion", "my-launcher"] {
        assert!(called(&[name], None).exits_with(0).out.contains("pmi-host run"), "{name}");
        let shown = called(&[name, "--version"], None).exits_with(0).out;
        assert!(shown.starts_with("pmi-host "), "{name}: {shown}");
        called(&[name, "-n", "2", "./a"], None).exits_with(2).says(&["pmi-host run -n 2 ./a"]);
    }
}

#[test]
fn variable_decides_about_names_that_launchers_share() {
    for (words, personality, start) in [
        (&["mpirun", "--version"][..], "hydra", "HYDRA"),
        (&["mpirun", "--personality", "ompi", "--version"], "hydra", "mpirun (Open MPI)"),
        (&["prterun", "--version"], "hydra", "mpirun (Open MPI)"),
        (&["mpiexec.hydra", "--version"], "ompi", "HYDRA"),
        (&["mpiexec.hydra", "--version"], "intel", "Intel(R) MPI Library"),
        (&["mpiexec", "--version"], "pals", "mpiexec version "),
        (&["srun", "--version"], "ompi", "slurm "),
    ] {
        let shown = called(words, Some(personality)).exits_with(0).out;
        assert!(shown.starts_with(start), "{words:?} as {personality}: {shown}");
    }
    let ran = called(&["mpirun", "--version"], Some("lam")).exits_with(2);
    ran.says(&["PMI_HOST_PERSONALITY", "there are 'hydra', 'intel', 'ompi' and 'pals'"]);
}

#[test]
fn ranks_find_the_variables_of_pals() {
    let script = "echo $PALS_RANKID $PALS_LOCAL_RANKID $PALS_LOCAL_SIZE $PALS_NODEID $PALS_DEPTH; [ $PALS_APID ]";
    let words =
        ["run", "-n", "2", "--env-for", "pals", "--bind-to", "hwthread", "sh", "-c", script];
    let mut command = host(words);
    // An outer job of PALS has left its own.
    command.stdin(Stdio::null()).env("PALS_RANKID", "7").env("PALS_SPOOL_DIR", "/nowhere");
    assert_eq!(run(&mut command).exits_with(0).lines(), ["0 0 2 0 1", "1 1 2 0 1"]);
    let words = ["run", "-n", "1", "--env-for", "pals", "--env", "PALS_APID=x", "sh", "-c"];
    let mut command = host([&words[..], &["echo $PALS_APID ${PALS_SPOOL_DIR-none}"]].concat());
    let ran = run(command.stdin(Stdio::null()).env("PALS_SPOOL_DIR", "/nowhere"));
    assert_eq!(ran.exits_with(0).out, "x none\n");
}
