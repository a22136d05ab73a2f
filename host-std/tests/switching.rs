//! Options of Hydra, one by one: the rows of `docs/switching.md`, each run under this launcher and, if
//! Hydra is installed, side by side under Hydra.

use crate::common::peers::{one_of_three, theirs, tolerates_a_fault_of};
use crate::common::{Ran, host, run, run_with_input, shell};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// This launcher by the name of `mpiexec`.
fn mpiexec<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    let link = LINK.get_or_init(|| link("mpiexec"));
    let mut command = Command::new(link);
    command.args(words).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
    command.env("UCX_TLS", "self,sm");
    command
}

/// A link of this name to the launcher.
fn link(name: &str) -> PathBuf {
    let link = scratch(&format!("{}/{name}", std::process::id()));
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pmi-host"), &link).unwrap();
    link
}

/// A path for a file, in an existing directory.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("switching").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

/// Runs a command line here and under Hydra, and checks that exit codes and printed lines are the same.
#[track_caller]
fn alike(words: &[&str]) -> Ran {
    let ours = run(&mut mpiexec(words));
    let mut hydra = Command::new("mpiexec.hydra");
    hydra.args(words).env("UCX_TLS", "self,sm");
    match Command::new("mpiexec.hydra").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => {
            let is_alike = |theirs: &Ran| {
                theirs.lines() == ours.lines() && (theirs.code == 0) == (ours.code == 0)
            };
            eprintln!("{words:?} here: {ours:?}");
            one_of_three(|| theirs(&hydra, None), is_alike);
        }
        Err(error) => {
            let why =
                format!("mpiexec.hydra cannot be started ({error}); Debian's mpich brings it");
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("not compared: {why}");
        }
    }
    ours
}

/// Runs a command line that is refused with one sentence.
#[track_caller]
fn refused(words: &[&str], parts: &[&str]) {
    let ran = run(&mut mpiexec(words)).exits_with(2).says(parts);
    assert_eq!(ran.out, "", "something was started");
}

#[test]
fn as_many_ranks_start_as_were_asked_for() {
    for words in [&["-n", "3", "echo", "x"][..], &["-np", "2", "echo", "x"], &["echo", "x"]] {
        alike(words).exits_with(0).says_nothing();
    }
    // Hydra reads these as 0 and starts one rank.
    refused(&["-n", "many", "echo"], &["'-n many'", "not a number of ranks"]);
    refused(&["-n", "0", "echo"], &["'-n 0'", "at least one"]);
    // As in Hydra, two different values are an error; the same value twice is accepted.
    refused(&["-np", "2", "-n", "3", "echo"], &["'-n 3'", "'2' before"]);
    refused(&["-wdir", "/", "-wdir", "/usr", "pwd"], &["'-wdir /usr'", "'/' before"]);
    run(&mut mpiexec(["-n", "1", "-n", "1", "true", ":", "-n", "2", "true"])).exits_with(0);
}

#[test]
fn name_it_is_called_by_chooses_the_command_line() {
    for name in ["mpirun", "mpiexec.hydra"] {
        let mut command = Command::new(link(name));
        let ran = run(command.args(["-n", "2", "echo", "x"]).env("XDG_CONFIG_HOME", "/nowhere"));
        assert_eq!(ran.exits_with(0).lines(), ["x", "x"]);
    }
    let ran = run(&mut host(["mpiexec", "-np", "2", "echo", "x"])).exits_with(0);
    assert_eq!(ran.lines(), ["x", "x"]);
}

#[test]
fn several_programs_are_one_job() {
    let place = "echo $PMI_RANK of $PMI_SIZE";
    let own = "echo own $A";
    alike(&["-n", "1", "sh", "-c", place, ":", "-n", "2", "sh", "-c", place]).exits_with(0);
    alike(&["-n", "1", "-env", "A", "1", "sh", "-c", own, ":", "-n", "1", "sh", "-c", own]);
    refused(&["-n", "1", "true", ":"], &["no program after colon 1"]);
}

#[test]
fn variables_can_be_set_for_all_programs() {
    let ran = alike(&[
        "-genv", "A", "1", "-n", "1", "sh", "-c", "echo $A", ":", "-n", "1", "sh", "-c", "echo $A",
    ]);
    assert_eq!(ran.lines(), ["1", "1"]);
    alike(&[
        "-n", "1", "sh", "-c", "echo $B", ":", "-genv", "B=2", "-n", "1", "sh", "-c", "echo $B",
    ]);
    alike(&["-genv", "A", "1", "-env", "A", "2", "-n", "1", "sh", "-c", "echo $A"]);
}

#[test]
fn variables_can_be_set_for_one_program() {
    alike(&["-n", "1", "-env", "A", "x y", "sh", "-c", "echo $A"]).exits_with(0);
    let ran = run(&mut mpiexec(["-envnone", "-n", "1", "env", ":", "-envall", "-n", "1", "true"]));
    assert!(ran.exits_with(0).lines().iter().all(|line| !line.starts_with("PATH=")));
}

#[test]
fn only_variables_that_may_be_inherited_are() {
    // Hydra 4.0.2 passes the whole environment to ranks of the first node, regardless of these options.
    for words in [&["-genvlist", "KEPT,PATH", "env"][..], &["-envlist", "KEPT,PATH", "env"]] {
        let ran = run(mpiexec(words).env("KEPT", "1").env("LOST", "1")).exits_with(0);
        let lines = ran.lines();
        assert!(lines.contains(&"KEPT=1") && lines.contains(&"PMI_RANK=0"), "{lines:?}");
        assert!(!lines.contains(&"LOST=1"), "{lines:?}");
    }
    for words in [&["-genvnone", "env"][..], &["-envnone", "env"]] {
        let ran = run(mpiexec(words).env("LOST", "1")).exits_with(0);
        assert!(!ran.lines().contains(&"LOST=1"), "{}", ran.out);
    }
    let ran = run(mpiexec(["-genvall", "env"]).env("KEPT", "1")).exits_with(0);
    assert!(ran.lines().contains(&"KEPT=1"));
}

#[test]
fn programs_start_in_the_folder_that_was_said() {
    alike(&["-wdir", "/usr", "-n", "2", "pwd"]).exits_with(0);
    alike(&["-n", "1", "-wdir", "/usr", "pwd", ":", "-n", "1", "-wdir", "/", "pwd"]).exits_with(0);
    run(&mut mpiexec(["-wdir", "/no/such", "pwd"]))
        .exits_with(1)
        .says(&["/no/such", "not a directory"]);
}

#[test]
fn largest_number_of_a_set_that_fits_is_started() {
    let started = |words: &[&str]| {
        let ran = run(&mut mpiexec([words, &["echo", "x"]].concat()));
        ran.exits_with(0).says_nothing().out.lines().count()
    };
    for (ranks, set, count) in [("5", "1:5:2", 5), ("4", "1:5:2", 3), ("9", "2,4:8:2", 8)] {
        assert_eq!(started(&["-n", ranks, "-soft", set]), count, "{ranks} {set}");
    }
    let slots = ["-hosts", "localhost:5", "-nooversubscribe"];
    assert_eq!(started(&[&slots[..], &["-n", "9", "-soft", "2:8:2"]].concat()), 4);
    let first = ["-n", "2", "echo", "x", ":", "-n", "9", "-soft", "1:8"];
    assert_eq!(started(&[&slots[..], &first].concat()), 5);
    refused(&["-n", "4", "-soft", "5:9", "echo"], &["--soft 5:9", "from 1 to 4"]);
    refused(&["-n", "4", "-soft", "4:1", "echo"], &["-soft 4:1", "try '2,4:8:2'"]);
    refused(&["-soft", "1", "-soft", "2", "-n", "4", "echo"], &["-soft 2", "it was '1' before"]);
}

#[test]
fn programs_are_looked_for_where_the_standard_s_options_say() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("of-this-test");
    std::os::unix::fs::symlink("/bin/echo", &own).unwrap();
    let path = directory.path().to_str().unwrap();
    let words = ["-n", "1", "echo", "first", ":", "-path", path, "-n", "1", "of-this-test", "x"];
    assert_eq!(run(&mut mpiexec(words)).exits_with(0).lines(), ["first", "x"]);
    let arch = std::env::consts::ARCH;
    run(&mut mpiexec(["-arch", arch, "-n", "1", "echo", "x"])).exits_with(0).says_nothing();
    refused(&["-arch", "vax", "-n", "1", "echo"], &["-arch vax", "another kind of processor"]);
    refused(&["-file", "f", "-n", "1", "echo"], &["-file f", "-configfile FILE"]);
}

#[test]
fn hosts_that_cannot_be_reached_are_reported() {
    alike(&["-hosts", "localhost", "-n", "2", "echo", "x"]).exits_with(0);
    alike(&["-host", "localhost:3", "echo", "x"]).exits_with(0);
    let ours = rustix::system::uname().nodename().to_string_lossy().into_owned();
    run(&mut mpiexec(["-hosts", &ours, "echo", "x"])).exits_with(0);
    // A starter that ends at once.
    let mut other = mpiexec(["-hosts", "localhost,n5.example", "echo", "x"]);
    let ran = run(other.env("HYDRA_LAUNCHER_EXEC", "false")).exits_with(1);
    assert_eq!(ran.out, "", "something was started");
    let ran = ran.says(&["on 1 of 2 hosts"]);
    assert!(ran.err.contains("n5.example  'false' exited with 1"), "{}", ran.err);
    let starters =
        ["--starter-cmd", "ssh {host} {cmd}", "--starter-exec", "rsh", "-hosts", "n5.example"];
    let ran = run(&mut mpiexec([&starters[..], &["true"]].concat()));
    assert!(ran.code != 0 && ran.err.contains("'--starter-exec' would not change"), "{ran:?}");
    refused(&["-hosts", "localhost:x", "echo"], &["'x' is not a number of ranks"]);
}

#[test]
fn hosts_are_read_from_a_file() {
    let file = scratch("hosts");
    std::fs::write(&file, "# the only one\nlocalhost:2\n").unwrap();
    let file = file.to_str().unwrap();
    alike(&["-f", file, "echo", "x"]).exits_with(0);
    let ran = run(&mut mpiexec(["-machinefile", file, "echo", "x"])).exits_with(0);
    assert_eq!(ran.lines(), ["x", "x"]);
    for name in ["HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "PMI_HOST_HOSTFILE"] {
        let ran = run(mpiexec(["echo", "x"]).env(name, file)).exits_with(0);
        assert_eq!(ran.lines(), ["x", "x"], "{name}");
    }
    refused(&["-f", "/no/such", "echo"], &["'--hostfile /no/such'", "cannot be read"]);
    let others = scratch("others");
    std::fs::write(&others, "n5 slots=2 binding=core\n").unwrap();
    refused(&["-f", others.to_str().unwrap(), "echo"], &["line 1: 'binding=core'", "--bind-to"]);
}

#[test]
fn node_takes_all_ranks() {
    let script = "echo $PMI_RANK $MPI_LOCALRANKID $MPI_LOCALNRANKS";
    alike(&["-ppn", "1", "-n", "3", "sh", "-c", script]).exits_with(0);
    alike(&["-ppn", "3", "echo", "x"]).exits_with(0);
    refused(&["-ppn", "0", "echo"], &["'-ppn 0'", "not a number of ranks"]);
}

#[test]
fn map_of_ranks_names_hosts_by_number() {
    for map in ["0,0", "(0,1,2)", "(vector,(0,1,2))", "0"] {
        run(&mut mpiexec(["-rankmap", map, "-n", "2", "true"])).exits_with(0);
    }
    for map in ["0,1", "(0,2,1)", "(vector,(1,1,2))"] {
        refused(&["-rankmap", map, "-n", "2", "true"], &["names host 1", "1 host is number 0"]);
    }
    refused(&["-rankmap", "x", "-n", "2", "true"], &["'-rankmap x'", "not a map"]);
    let words = ["-hosts", "a,b,c", "-rankmap", "(vector,(2,1,2),0)", "-n", "3", "true"];
    assert_eq!(
        placed(&words),
        [
            "2 a",
            "0,1 c",
            "3 ranks on 2 nodes, at most 2 on each; PMI_process_mapping: (vector,(1,1,2),(0,1,1))"
        ]
    );
}

/// Ranks and host of each row of the map that `--dry-run` shows, and the line below.
#[track_caller]
fn placed(words: &[&str]) -> Vec<String> {
    let ran = run(mpiexec(["--dry-run"]).args(words)).exits_with(0);
    let rows = ran.out.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.contains("PMI_process_mapping") { line.to_owned() } else { words[..2].join(" ") }
    });
    rows.collect()
}

#[test]
fn ranks_are_placed_on_hosts_as_under_hydra_and_open_mpi() {
    let of = |words: &[&str]| placed(&[words, &["true"]].concat());
    for (words, rows) in [
        (&["-hosts", "a,b", "-n", "4"][..], ["0,2 a", "1,3 b"]),
        (&["-hosts", "a:2,b:2"], ["0,1 a", "2,3 b"]),
        (&["-hosts", "a:2,b:2", "-map-by", "node"], ["0,2 a", "1,3 b"]),
        (&["-hosts", "a,b", "-ppn", "2", "-n", "4"], ["0,1 a", "2,3 b"]),
        (&["-host", "a:9,b:9", "-perhost", "2", "-n", "4"], ["0,1 a", "2,3 b"]),
        (&["--host", "a,b", "--map-by", "ppr:2:node"], ["0,1 a", "2,3 b"]),
        (&["-H", "a,b", "--npernode", "2"], ["0,1 a", "2,3 b"]),
    ] {
        assert_eq!(of(words)[..2], rows, "{words:?}");
    }
    assert_eq!(
        of(&["-hosts", "a:2,b:2"])[2],
        "4 ranks on 2 nodes, at most 2 on each; PMI_process_mapping: (vector,(0,2,2))"
    );
    let file = scratch("slots");
    std::fs::write(&file, "n[08-09] slots=1 max_slots=2\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(of(&["-f", file, "-n", "3"])[..2], ["0,2 n08", "1 n09"]);
    refused(&["-f", file, "-n", "5", "true"], &["5 ranks are to run on 2 hosts", "max_slots"]);
    let words = ["-f", file, "--nooversubscribe", "-n", "3", "true"];
    refused(&words, &["take 2 of them, one in each slot", "--no-oversubscribe"]);
    // Programs with hosts of their own.
    let words = ["-n", "2", "-host", "a", "true", ":", "-n", "2", "-host", "b", "true"];
    assert_eq!(placed(&words)[..2], ["0,1 a", "2,3 b"]);
    let words = ["-hosts", "a,b", "-n", "1", "true", ":", "-n", "1", "true"];
    assert_eq!(placed(&words)[..2], ["0 a", "1 b"]);
}

#[test]
fn mapping_that_no_value_holds_is_reported() {
    let hosts: Vec<String> = (0..200).map(|node| format!("n{node}:{}", 1 + node % 3)).collect();
    let rows = placed(&["-hosts", &hosts.join(","), "true"]);
    let last = rows.last().unwrap();
    assert!(
        last.contains("on 200 nodes, at most 3 on each") && last.contains("1023 at most"),
        "{last}"
    );
}

#[test]
fn nodes_of_a_batch_system_are_filled() {
    let mut one = mpiexec(["echo", "x"]);
    one.env("SLURM_JOB_NUM_NODES", "1").env("SLURM_TASKS_PER_NODE", "3");
    assert_eq!(run(&mut one).exits_with(0).lines(), ["x"; 3]);
    let slurm = |words: &[&str]| {
        let mut command = mpiexec(words);
        command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NUM_NODES", "4");
        command.env("SLURM_JOB_NODELIST", "n[001-003,130]");
        command.env("SLURM_TASKS_PER_NODE", "2(x3),1").env("SLURMD_NODENAME", "n001");
        command
    };
    let ran = run(&mut slurm(&["--dry-run", "true"])).exits_with(0);
    for (row, rank) in [("n001", "0,1"), ("n002", "2,3"), ("n003", "4,5"), ("n130", "6")] {
        let is_row = |line: &&str| line.starts_with(rank) && line.contains(row);
        assert!(ran.lines().iter().any(is_row), "{row}: {}", ran.out);
    }
    let mut elsewhere = slurm(&["-launcher", "ssh", "-launcher-exec", "false", "echo", "x"]);
    let ran = run(elsewhere.env("SLURM_JOB_ID", "7")).exits_with(1);
    let ran = ran.says(&["on 3 of 4 hosts"]);
    assert!(["n002", "n003", "n130"].iter().all(|name| ran.err.contains(name)), "{}", ran.err);
    for words in [&["-hosts", "localhost", "echo", "x"][..], &["-rmk", "user", "echo", "x"]] {
        assert_eq!(run(&mut slurm(words)).exits_with(0).lines(), ["x"], "{words:?}");
    }
    let mut torn = slurm(&["true"]);
    run(torn.env("SLURM_TASKS_PER_NODE", "2(x2)"))
        .exits_with(2)
        .says(&["SLURM_JOB_NODELIST: it names 4"]);
    refused(&["-rmk", "loadleveler", "true"], &["that batch system is not supported"]);
}

/// A remote shell for hosts that are this machine: it notes its options and the host in a file.
fn remote_shell(name: &str) -> (PathBuf, PathBuf) {
    let (shell, log) = (scratch(name), scratch(&format!("{name}-log")));
    let script = format!(
        "#!/bin/sh\nseen=\nwhile case $1 in -*) true ;; *) false ;; esac; do seen=\"$seen$1 \"; shift; done\n\
         echo \"$seen$1\" >> '{}'\nshift\nexec sh -c \"$*\"\n",
        log.display()
    );
    std::fs::write(&shell, script).unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    (shell, log)
}

/// Calls in the log of a remote shell, which is removed.
fn calls(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    let mut calls: Vec<String> = text.lines().map(str::to_owned).collect();
    calls.sort_unstable();
    calls
}

#[test]
fn launcher_and_its_program_are_chosen_as_under_hydra() {
    let (shell, log) = remote_shell("my-rsh");
    let shell = shell.to_str().unwrap();
    let is_there = Command::new("mpiexec.hydra").arg("--version").output().is_ok();
    let what = ["-hosts", "a,u@b", "-n", "2", "echo", "x"];
    for (words, variables) in [
        (&["-launcher", "rsh", "-launcher-exec", shell][..], &[][..]),
        (&["-bootstrap", "rsh", "-bootstrap-exec", shell], &[]),
        (&["-launcher", "rsh"], &[("HYDRA_LAUNCHER_EXEC", shell)]),
        (&["-launcher", "rsh", "-launcher-exec", shell], &[("HYDRA_LAUNCHER", "slurm")]),
        (&["-launcher-exec", shell], &[("HYDRA_LAUNCHER", "rsh")]),
        (&[], &[("HYDRA_BOOTSTRAP", "rsh"), ("HYDRA_BOOTSTRAP_EXEC", shell)]),
        (&["-launcher", "rsh", "-launcher-exec", shell], &[("HYDRA_LAUNCHER_EXTRA_ARGS", "-v -w")]),
    ] {
        let words = [words, &what].concat();
        // Within an allocation of Slurm as well, whose own starter would be the default.
        let mut ours = mpiexec(&words);
        ours.envs(variables.iter().copied()).env("SLURM_JOB_ID", "7").env("PATH", "/usr/bin:/bin");
        assert_eq!(run(&mut ours).exits_with(0).lines(), ["x", "x"], "{words:?}");
        let extra =
            if variables.iter().any(|(_, value)| *value == "-v -w") { "-v -w " } else { "" };
        let expected = [format!("{extra}a"), format!("{extra}u@b")];
        assert_eq!(calls(&log), expected, "{words:?} {variables:?}");
        if is_there {
            let mut hydra = Command::new("mpiexec.hydra");
            hydra.args(&words).envs(variables.iter().copied());
            one_of_three(
                || theirs(&hydra, None),
                |ran| calls(&log) == expected && ran.lines() == ["x", "x"],
            );
        }
    }
    // Options that Hydra does not have, or that Intel MPI has in addition.
    for (words, variables, expected) in [
        (&["-bootstrap", "rsh", "-bootstrap-exec-args", "-v -w"][..], &[][..], "-v -w a"),
        (&["--starter", "rsh", "--starter-args", "-v"], &[], "-v a"),
        (&[], &[("I_MPI_HYDRA_BOOTSTRAP", "rsh")], "a"),
        (
            &["-bootstrap=rsh", "-branch-count", "2"],
            &[("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-q")],
            "-q a",
        ),
    ] {
        let words = [words, &["-launcher-exec", shell], &what].concat();
        let mut ours = mpiexec(&words);
        run(ours.envs(variables.iter().copied())).exits_with(0);
        assert_eq!(calls(&log)[0], expected, "{words:?}");
    }
    // All hosts are this machine.
    let words = [&["-launcher", "fork", "-launcher-exec", shell], &what[..]].concat();
    assert_eq!(alike(&words).exits_with(0).lines(), ["x", "x"]);
    assert_eq!(calls(&log), [""; 0]);
}

#[test]
fn variables_of_intel_mpi_and_open_mpi_name_hosts_and_their_ranks() {
    let file = scratch("hosts-of-others");
    std::fs::write(&file, "a slots=2\nb slots=2\n").unwrap();
    let lines = |variables: &[(&str, &str)]| {
        let mut command = mpiexec(["--dry-run", "-n", "2", "true"]);
        let ran = run(command.envs(variables.iter().copied())).exits_with(0);
        let rows = ran.out.lines().skip(1).take_while(|line| !line.contains("PMI_process_mapping"));
        Vec::from_iter(rows.map(|row| row.split_whitespace().take(2).collect::<Vec<_>>().join(" ")))
    };
    let file = file.to_str().unwrap();
    for name in [
        "OMPI_MCA_orte_default_hostfile",
        "PRTE_MCA_prte_default_hostfile",
        "I_MPI_HYDRA_HOST_FILE",
        "HYDRA_HOST_FILE",
    ] {
        assert_eq!(lines(&[(name, file)]), ["0,1 a"], "{name}");
        assert_eq!(lines(&[(name, file), ("I_MPI_PERHOST", "1")]), ["0 a", "1 b"], "{name}");
    }
    // As many ranks on each host as it has processors, in place of the slots of the file.
    let processors = std::thread::available_parallelism().unwrap().get();
    let count = (processors + 1).to_string();
    for (value, of_all) in [("all", true), ("allcores", false)] {
        let mut command = mpiexec(["--dry-run", "-f", file, "-n", &count, "true"]);
        let ran = run(command.env("I_MPI_PERHOST", value)).exits_with(0);
        let all = Vec::from_iter((0..processors).map(|rank| rank.to_string())).join(",");
        let has_all = ran.lines().iter().any(|line| line.starts_with(&format!("{all} ")));
        assert!(has_all || !of_all, "{value}: {}", ran.out);
    }
    let mut wrong = mpiexec(["true"]);
    run(wrong.env("I_MPI_PERHOST", "cores")).exits_with(2).says(&["I_MPI_PERHOST", "try '4'"]);
    let mut command = mpiexec(["--show-config", "true"]);
    let ran = run(command.env("I_MPI_HYDRA_BRANCH_COUNT", "-1")).exits_with(0);
    let line = ran.out.lines().find(|line| line.contains("tree-radix")).unwrap();
    assert!(line.contains("  4 "), "{line}");
    let mut command = mpiexec(["--show-config", "true"]);
    let ran = run(command.env("I_MPI_HYDRA_IFACE", "lo").env("I_MPI_HYDRA_BRANCH_COUNT", "8"));
    for (option, variable) in [("node-interface", "IFACE"), ("tree-radix", "BRANCH_COUNT")] {
        let line = ran.out.lines().find(|line| line.contains(option)).expect(option);
        assert!(line.contains(&format!("I_MPI_HYDRA_{variable}")), "{line}");
    }
}

#[test]
fn lines_are_labelled() {
    alike(&["-l", "-n", "2", "echo", "x"]).exits_with(0);
    alike(&["-prepend-rank", "-n", "2", "echo", "x"]).exits_with(0);
    alike(&["-n", "1", "-prepend-pattern", "%r-%g-%p-%h: ", "echo", "x"]).exits_with(0);
    alike(&["-n", "1", "-prepend-pattern", "%r %t%% ", "echo", "x"]).exits_with(0);
    refused(&["-prepend-pattern", "%x ", "echo"], &["'%x'", "%t (seconds)"]);
}

#[test]
fn ranks_write_to_files_of_their_own() {
    let (out, err) = (scratch("out"), scratch("err"));
    let pattern = |path: &Path| format!("{}.%r", path.display());
    let mut command = mpiexec(["-n", "2", "-outfile-pattern", &pattern(&out)]);
    command.args(["-errfile-pattern", &pattern(&err)]);
    let ran = run(command.args(shell("echo out $PMI_RANK; echo err $PMI_RANK >&2"))).exits_with(0);
    assert_eq!((&*ran.out, &*ran.err), ("", ""));
    for rank in 0..2 {
        let read =
            |path: &Path| std::fs::read_to_string(format!("{}.{rank}", path.display())).unwrap();
        assert_eq!((read(&out), read(&err)), (format!("out {rank}\n"), format!("err {rank}\n")));
    }
}

#[test]
fn words_are_read_from_a_file() {
    let file = scratch("words");
    std::fs::write(&file, "# two programs\n-n 1 echo a\n-n 2 -env A 1 echo b\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(alike(&["-configfile", file]).exits_with(0).lines(), ["a", "b", "b"]);
    let ran = run(&mut mpiexec(["-l", "-configfile", file])).exits_with(0);
    assert_eq!(ran.lines(), ["[0] a", "[1] b", "[2] b"]);
    refused(&["-configfile", file, "true"], &["on the command line", "one place"]);
    refused(&["-configfile", "/no/such"], &["/no/such", "cannot be read"]);
    // Words with blanks can be quoted, unlike in Hydra.
    let quoted = scratch("quoted");
    std::fs::write(&quoted, "-n 1 sh -c 'echo a  b | cat'\n").unwrap();
    let ran = run(&mut mpiexec(["-configfile", quoted.to_str().unwrap()])).exits_with(0);
    assert_eq!(ran.out, "a b\n");
}

#[test]
fn words_are_read_from_the_file_in_the_home_folder() {
    let home = scratch("home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join(".mpiexec.hydra.conf"), "-l\n").unwrap();
    let ran = run(mpiexec(["-n", "1", "echo", "x"]).env("HOME", &home)).exits_with(0);
    assert_eq!(ran.out, "[0] x\n");
    let named = scratch("named");
    std::fs::write(&named, "-genv A 7\n").unwrap();
    let mut command = mpiexec(["-n", "1", "sh", "-c", "echo $A"]);
    let ran = run(command.env("HOME", &home).env("HYDRA_CONFIG_FILE", &named)).exits_with(0);
    assert_eq!(ran.out, "7\n");
}

#[test]
fn rank_0_reads_standard_input() {
    let ran = run_with_input(&mut mpiexec(["-n", "2", "cat"]), b"a\nb\n").exits_with(0);
    assert_eq!(ran.out, "a\nb\n");
}

#[test]
fn ranks_go_on_after_a_failure_if_that_is_wanted() {
    // The second rank runs on after the first one has failed.
    let script = "if [ $PMI_RANK = 0 ]; then exit 3; fi; sleep 0.5; echo went on";
    let ran =
        run(&mut mpiexec(["-disable-auto-cleanup", "-n", "2", "sh", "-c", script])).exits_with(3);
    assert_eq!(ran.out, "went on\n");
    let ran =
        run(&mut mpiexec(["-enable-auto-cleanup", "-n", "2", "sh", "-c", script])).exits_with(3);
    assert_eq!(ran.out, "");
}

#[test]
fn exits_of_all_ranks_are_reported() {
    let script = "exit $PMI_RANK";
    let words = ["-print-all-exitcodes", "-disable-auto-cleanup", "-n", "3", "sh", "-c", script];
    let ran = run(&mut mpiexec(words));
    assert!(ran.code != 0 && ran.err.contains("code 2"), "{}", ran.err);
}

#[test]
fn time_limit_ends_the_run() {
    run(&mut mpiexec(["-timeout", "1", "-n", "2", "sleep", "60"])).exits_with(124);
    run(mpiexec(["-n", "1", "sleep", "60"]).env("MPIEXEC_TIMEOUT", "1")).exits_with(124);
    let mut wrong = mpiexec(["true"]);
    run(wrong.env("MPIEXEC_TIMEOUT", "soon")).exits_with(2).says(&["MPIEXEC_TIMEOUT", "seconds"]);
}

#[test]
fn universe_is_as_large_as_was_said() {
    let ask = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read a <&$PMI_FD; \
               echo cmd=get_universe_size >&$PMI_FD; read a <&$PMI_FD; echo ${a##*size=}; \
               echo cmd=finalize >&$PMI_FD; read a <&$PMI_FD";
    for words in [&["-usize", "7"][..], &["-usize", "INFINITE"], &["-n", "1"]] {
        alike(&[words, &shell(ask)].concat()).exits_with(0);
    }
    let words = ["-usize", "SYSTEM", "-hosts", "localhost:4", "-n", "1"];
    assert_eq!(run(mpiexec(words).args(shell(ask))).exits_with(0).out, "4\n");
    let words = ["-usize", "SYSTEM", "-n", "2"];
    assert_eq!(run(mpiexec(words).args(shell(ask))).exits_with(0).out, "2\n2\n");
    refused(&["-usize", "2", "-n", "3", "true"], &["smaller than the 3 ranks"]);
}

#[test]
fn verbose_launcher_reports_more() {
    for word in ["-verbose", "-v", "-debug"] {
        let ran = run(&mut mpiexec([word, "-n", "2", "echo", "x"])).exits_with(0);
        assert_eq!(ran.lines(), ["x", "x"]);
        assert!(ran.err.contains("0-1") && ran.err.contains("PMI_FD"), "{}", ran.err);
    }
    let mut quiet = mpiexec(["-n", "1", "true"]);
    run(quiet.env("HYDRA_DEBUG", "0")).exits_with(0).says_nothing();
    // Messages in both directions, in place of Hydra's 'got pmi command' and 'PMI response'.
    let script = "for line in 'cmd=init pmi_version=1 pmi_subversion=1' cmd=finalize; do
                  echo $line >&$PMI_FD; read answer <&$PMI_FD; done";
    let ran = run(&mut mpiexec(["-verbose", "-n", "2", "sh", "-c", script])).exits_with(0);
    for rank in 0..2 {
        let of_rank = |line: &&str| line.starts_with(&format!("pmi-host: rank {rank} "));
        let told = Vec::from_iter(ran.err.lines().filter(of_rank));
        let words = told.iter().map(|line| line.split(' ').skip(3).take(2).collect::<Vec<_>>());
        let expected = [["→", "init"], ["←", "init"], ["→", "finalize"], ["←", "finalize"]];
        assert_eq!(Vec::from_iter(words), expected, "{}", ran.err);
    }
}

#[test]
fn launcher_reports_its_version() {
    for word in ["-info", "-version", "--version"] {
        let ran = run(&mut mpiexec([word])).exits_with(0);
        for part in ["pmi-host", "PMI-2, PMIx", "'-hosts', '-f'", "ssh", "Slurm"] {
            assert!(ran.out.contains(part), "{part}: {}", ran.out);
        }
    }
    for word in ["-help", "-h", "--help"] {
        assert!(run(&mut mpiexec([word])).exits_with(0).out.contains("-genvlist"));
    }
}

#[test]
fn network_interface_is_handed_on() {
    let script = "echo $MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE";
    let ran = alike(&["-iface", "lo", "-n", "1", "sh", "-c", script]).exits_with(0);
    assert_eq!(ran.out, "lo\n");
}

#[test]
fn ranks_are_bound_as_under_hydra() {
    let tell = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    for bind_to in ["none", "core", "hwthread", "socket", "numa", "machine", "rr", "core:2"] {
        alike(&[&["-bind-to", bind_to, "-n", "2"], &tell[..]].concat()).exits_with(0);
    }
    // With more ranks than sets, Hydra leaves the rest unbound; here the sets are used again from the
    // first.
    alike(&[&["-bind-to", "user:0", "-n", "1"], &tell[..]].concat()).exits_with(0);
    let words = ["-bind-to", "core", "-map-by", "socket", "-n", "2"];
    alike(&[&words, &tell[..]].concat()).exits_with(0);
    let ran = run(mpiexec(["-n", "1"]).env("HYDRA_BINDING", "user:0").args(tell)).exits_with(0);
    assert!(ran.out.trim().ends_with("\t0"), "{}", ran.out);
    refused(&["-bind-to", "user:x", "true"], &["'-bind-to user:x'", "user:0-1,2-3"]);
}

#[test]
fn defaults_can_be_requested() {
    for words in [
        &["-launcher", "fork"][..],
        &["-bootstrap", "ssh"],
        &["-disable-x"],
        &["-rmk", "user"],
        &["-topolib", "hwloc"],
        &["-membind", "none"],
        &["-demux", "poll"],
        &["-disable-hostname-propagation"],
        &["-gpus-per-proc", "AUTO"],
        &["-gpu-subdevs-per-proc", "AUTO"],
        &["-hybrid-hosts"],
    ] {
        let ran = run(mpiexec(words).args(["-n", "1", "echo", "x"])).exits_with(0).says_nothing();
        assert_eq!(ran.out, "x\n");
    }
}

#[test]
fn unavailable_options_are_refused_with_a_remedy() {
    for (words, part) in [
        (&["-launcher", "persist"][..], "'--starter-cmd'"),
        (&["-branch-count", "1"], "try '4'"),
        (&["-branch-count", "-2"], "try '4'"),
        (&["-enable-x"], "'ssh -Y {host} -- {cmd}'"),
        (&["-rmk", "ll"], "batch system"),
        (&["-topolib", "other"], "from the system"),
        (&["-membind", "replicate:0"], "try 'bind'"),
        (&["-demux", "kqueue"], "leave it out"),
        (&["-profile"], "--trace FILE"),
        (&["-nameserver", "host"], "a host and a port"),
        (&["-enable-hostname-propagation"], "PMI_HOSTNAME"),
        (&["-localhost", "name"], "uname -n"),
        (&["-order-nodes", "UP"], "wanted order"),
        (&["-gpus-per-proc", "0"], "CUDA_VISIBLE_DEVICES"),
        (&["-gpu-subdevs-per-proc", "x"], "try '1'"),
        (&["-output-from", "0"], "-outfile-pattern"),
        (&["-bind-to", "gpu0"], "one device is not named"),
        (&["-bind-to", "nothing"], "'core'"),
        (&["-ppm", "2"], "nearest is '-ppn'"),
    ] {
        refused(&[words, &["-n", "1", "echo"]].concat(), &[words[0], part]);
    }
    // The same rule holds for a variable.
    let mut command = mpiexec(["true"]);
    run(command.env("HYDRA_RMK", "ll")).exits_with(2).says(&["HYDRA_RMK", "batch system"]);
}

#[test]
fn hosts_of_a_list_and_of_an_allocation_can_be_excluded() {
    let listed =
        ["run", "--hosts", "n[1-4].cluster:2", "--exclude-hosts", "n2,n[7-9]", "--nodes", "2"];
    let shown = run(host(listed).args(["--dry-run", "true"])).exits_with(0).out;
    for (name, is_used) in [("n1", true), ("n2", false), ("n3", true), ("n4", false)] {
        assert_eq!(shown.contains(&format!(" {name}.cluster ")), is_used, "{name}: {shown}");
    }
    // As the settings file of a site may name them.
    let mut allocated = mpiexec(["--dry-run", "true"]);
    allocated.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NUM_NODES", "3");
    allocated.env("SLURM_JOB_NODELIST", "n[1-3]").env("SLURM_TASKS_PER_NODE", "1(x3)");
    allocated.env("PMI_HOST_EXCLUDE_HOSTS", "n1,n3");
    let shown = run(&mut allocated).exits_with(0).out;
    assert!(shown.contains(" n2 ") && !shown.contains(" n1 "), "{shown}");
    run(&mut host(["run", "--hosts", "a,b", "--exclude-hosts", "a,b", "true"]))
        .exits_with(2)
        .says(&["'--exclude-hosts a,b' leaves no host", "name others"]);
    // A host that is not listed is this one.
    let mut single = host(["run", "-n", "2", "--exclude-hosts", "localhost", "echo", "x"]);
    assert_eq!(run(&mut single).exits_with(0).says_nothing().lines(), ["x", "x"]);
}

#[test]
fn this_host_can_be_left_out() {
    refused(&["-skip-launch-node", "-n", "1", "true"], &["'--no-local' leaves no host"]);
    refused(&["-skip-launch-node", "-hosts", "localhost", "true"], &["leaves no host"]);
    let ran = run(mpiexec(["-skip-launch-node", "-hosts", "localhost,other", "-n", "2"])
        .args(["--dry-run", "true"]));
    let shown = ran.exits_with(0).out;
    assert!(shown.contains("other") && !shown.contains("localhost"), "{shown}");
}

#[test]
fn our_own_options_can_be_mixed_in() {
    let ran = run(&mut mpiexec(["-n", "2", "--label-format=%r: ", "--timeout", "60", "echo", "x"]));
    assert_eq!(ran.exits_with(0).lines(), ["0: x", "1: x"]);
    let ran =
        run(&mut mpiexec(["--show-config", "-np", "2", "-genv", "A", "1", "true"])).exits_with(0);
    assert!(ran.out.contains("A=1"), "{}", ran.out);
}

/// The rows of `docs/switching.md`, cell by cell.
fn rows() -> Vec<Vec<String>> {
    let page = include_str!("../../docs/switching.md");
    let page = page.split("\n## Programs that look for a launcher").next().unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let cells =
        |row: &str| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.filter(|row| !row.starts_with("| Hydra |")).map(cells).collect()
}

#[test]
fn rows_of_the_page_have_verdicts_and_existing_tests() {
    for row in rows() {
        assert_eq!(row.len(), 7, "{row:?}");
        assert!(["same", "better", "refused"].contains(&&*row[4]), "{row:?}");
        let (file, test) = row[6].trim_matches('`').split_once("::").expect("a test of a file");
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file).with_extension("rs");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("#[test]\nfn {test}()")), "{file} has no test {test}");
    }
}

#[test]
fn single_fault_of_hydra_is_retried() {
    tolerates_a_fault_of("mpiexec.hydra", "switching::several_programs_are_one_job");
}
