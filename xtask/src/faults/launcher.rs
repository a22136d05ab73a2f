//! The launchers: how each is started, and with which rank program.

use super::case::FaultCase;
use super::table::{Fault, FaultPhase};
use crate::processes::{self, Process};
use crate::{mpi, process, toolchain};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Kind of a launcher: decides the protocol of the ranks and the options of the command line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LauncherKind {
    Ours,
    Hydra,
    Prte,
}

/// A launcher that takes part.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Launcher {
    /// For the report: program and version.
    pub(super) label: String,
    pub(super) kind: LauncherKind,
    /// Program and options, all before the number of ranks.
    pub(super) words: Vec<String>,
    /// The rank program, built for what the launcher speaks.
    pub(super) rank: PathBuf,
    /// Number of nodes of its runs; 0 for runs without nodes.
    #[serde(default)]
    pub(super) nodes: u32,
}

impl Launcher {
    /// Ours: `program`, or the release build; with node servers on this machine if `nodes` is not 0.
    ///
    /// # Errors
    ///
    /// It cannot be built, or the rank program cannot.
    pub(super) fn ours(program: Option<&str>, nodes: u32) -> Result<Self, String> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => name(&toolchain::build_host()?),
        };
        let about = process::output(process::command(&program).arg("--version"))?;
        let mut label = about.lines().next().unwrap_or("pmi-host").trim().to_owned();
        let mut words = vec![program, "run".to_owned()];
        if nodes > 0 {
            label += &format!(" over {nodes} nodes");
            words.extend(["--starter".to_owned(), format!("local:{nodes}")]);
        }
        Ok(Self { label, kind: LauncherKind::Ours, words, rank: rank_program(None)?, nodes })
    }

    /// Another one, by the words of its command line.
    ///
    /// # Errors
    ///
    /// It cannot be started, is of no known kind, or its rank program cannot be built.
    pub(super) fn peer(line: &str) -> Result<Self, String> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let program = words.first().cloned().ok_or("--against needs a command")?;
        // A path that starts here is looked for here, wherever the launcher is started.
        let path = Path::new(&program);
        if program.contains('/') && path.is_relative() {
            words[0] = process::root().join(path).to_string_lossy().into_owned();
        }
        let mut asking = process::command(&words[0]);
        // A relocated PRRTE finds the text about its version only so.
        if let Some(prefix) = Path::new(&words[0]).parent().and_then(Path::parent) {
            asking.envs([("PRTE_PREFIX", prefix), ("PMIX_PREFIX", prefix)]);
        }
        let about = process::output(asking.arg("--version"))?;
        let (kind, version) = kind(&about)
            .ok_or_else(|| format!("{program} is neither Hydra nor PRRTE, by its --version"))?;
        let rank = match kind {
            LauncherKind::Prte => {
                words.extend(["--map-by", ":OVERSUBSCRIBE"].map(str::to_owned));
                let beside = Path::new(&words[0]).with_file_name("../lib/openmpi");
                rank_program(Some(&beside))?
            }
            LauncherKind::Ours | LauncherKind::Hydra => {
                words.extend(["-launcher", "fork"].map(str::to_owned));
                rank_program(None)?
            }
        };
        let name = if kind == LauncherKind::Prte { "prterun" } else { "Hydra" };
        Ok(Self { label: format!("{name} {version}"), kind, words, rank, nodes: 0 })
    }

    /// There is such a case with this launcher.
    pub(super) fn meets(&self, case: &FaultCase) -> bool {
        // It starts ranks by itself and has no process that could be killed instead.
        !(self.kind == LauncherKind::Prte && case.fault == Fault::GuardKill)
    }

    /// The command line of a case. Files of the case are in `directory`, and so is the socket.
    pub(super) fn command(&self, case: &FaultCase, directory: &Path) -> Command {
        let mut words = self.words.clone();
        let mut rank = vec![self.rank.to_string_lossy().into_owned(), name(&directory.join("s"))];
        if case.fault == Fault::Clean {
            rank.push("clean".into());
        }
        let missing = vec![name(&missing_program(case, directory))];
        let programs = match (case.fault, case.phase) {
            (Fault::ExecFailure, FaultPhase::Before) => vec![(1, missing), (case.ranks - 1, rank)],
            (Fault::ExecFailure, FaultPhase::Starting) => {
                vec![(case.ranks - 1, rank), (1, missing)]
            }
            _ => vec![(case.ranks, rank)],
        };
        for (at, (count, program)) in programs.into_iter().enumerate() {
            words.extend((at > 0).then(|| ":".to_owned()));
            words.extend(["-n".to_owned(), count.to_string()]);
            words.extend(program);
        }
        let mut command = match case.fault {
            // The shell has a child, and becomes the launcher.
            Fault::Inherited => shell(
                "sleep 300 < /dev/null > /dev/null 2>&1 & echo $! > \"$0\"; exec \"$@\"",
                &name(&directory.join("stranger")),
            ),
            Fault::Streams if case.phase == FaultPhase::Before && case.variant == 0 => {
                shell("exec \"$@\" <&-", "sh")
            }
            Fault::HangUp => {
                let mut command = Command::new("setsid");
                command.arg("--ctty");
                command
            }
            _ => Command::new(words.remove(0)),
        };
        command.args(words);
        surround(&mut command, self.kind, directory);
        command
    }

    /// The process that a case of [`Fault::GuardKill`] is about, once it is there: over nodes, that of one of
    /// them.
    pub(super) fn guard(&self, launcher: i32, all: &[Process]) -> Option<Process> {
        let servers = self.node_servers(launcher, all);
        let above = if self.nodes > 0 { servers.first()?.pid } else { launcher };
        let children = all.iter().filter(|process| process.parent == above);
        let own = processes::program(launcher)?;
        let is_guard = |process: &&Process| match self.kind {
            LauncherKind::Ours => processes::program(process.pid).as_ref() == Some(&own),
            LauncherKind::Hydra => process.name.starts_with("hydra_pmi_prox"),
            LauncherKind::Prte => false,
        };
        // A rank is a copy of the launcher too, for a moment; the guard is older than all of them.
        children.filter(is_guard).min_by_key(|process| (process.since, process.pid)).cloned()
    }

    /// The node servers, oldest first, as far as they are there.
    pub(super) fn node_servers(&self, launcher: i32, all: &[Process]) -> Vec<Process> {
        let is_server = |process: &&Process| {
            process.parent == launcher
                && processes::arguments(process.pid)
                    .is_some_and(|words| words.contains(&"node".to_owned()))
        };
        let mut servers: Vec<Process> =
            all.iter().filter(|_| self.nodes > 0).filter(is_server).cloned().collect();
        servers.sort_by_key(|process| (process.since, process.pid));
        servers
    }
}

/// The program of a case of [`Fault::ExecFailure`]: no file (127), or one that is no program (126).
pub(super) fn missing_program(case: &FaultCase, directory: &Path) -> PathBuf {
    directory.join(if case.variant == 126 { "no-program" } else { "missing" })
}

fn shell(script: &str, name: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, name]);
    command
}

/// The environment of a launcher, without variables of another launcher or of a batch system.
fn surround(command: &mut Command, kind: LauncherKind, directory: &Path) {
    const FOREIGN: &[&str] =
        &["PMI_", "PMIX_", "PRTE_", "SLURM_", "OMPI_", "HYDRA_", "HYDI_", "MPI_", "MPIR_"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    // Files left behind by a killed launcher are in the directory of the case, which is removed.
    command.env("TMPDIR", directory);
    if kind == LauncherKind::Prte {
        command.envs([("PRTE_ALLOW_RUN_AS_ROOT", "1"), ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    }
}

fn kind(about: &str) -> Option<(LauncherKind, String)> {
    if about.contains("HYDRA") {
        let line = about.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
        return Some((LauncherKind::Hydra, line.trim().to_owned()));
    }
    let line = about.lines().find(|line| line.contains("prterun") || line.contains("PRRTE"))?;
    Some((LauncherKind::Prte, line.split_whitespace().last()?.to_owned()))
}

/// Builds the rank program; with libpmix if a directory is given, from there or else Debian's.
fn rank_program(pmix: Option<&Path>) -> Result<PathBuf, String> {
    let source = process::root().join("xtask/src/faults/rank.c");
    let directory = toolchain::target_directory().join("faults");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let built = directory.join(if pmix.is_some() { "rank-pmix" } else { "rank" });
    // Another suite may run it: it is replaced and not written to.
    let new = directory.join(format!("rank-{}", std::process::id()));
    let mut compiler = process::command("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-o"]).arg(&new).arg(source);
    if let Some(beside) = pmix {
        let directory = match beside.join("libpmix.so.2").exists() {
            true => beside.to_path_buf(),
            false => Path::new(mpi::PMIX_HEADERS).with_file_name("lib"),
        };
        compiler.args(["-DPMIX", "-I", mpi::PMIX_HEADERS, "-L"]).arg(&directory);
        compiler.args(["-l:libpmix.so.2", "-lpthread"]);
        compiler.arg(format!("-Wl,-rpath,{}", directory.display()));
    }
    process::output(compiler.stderr(Stdio::piped()))?;
    fs::rename(&new, &built).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(built)
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::case::{Selection, list};
    use super::*;

    fn launcher(kind: LauncherKind) -> Launcher {
        let words = vec!["launcher".to_owned(), "run".to_owned()];
        Launcher { label: "L 1".into(), kind, words, rank: "rank".into(), nodes: 0 }
    }

    fn case(fault: Fault, phase: FaultPhase) -> FaultCase {
        let (faults, phases) = (vec![fault], vec![phase]);
        let all = Selection { sizes: vec![4], faults, phases, ..Selection::default() };
        list(&all).remove(0)
    }

    fn words(command: &Command) -> Vec<String> {
        let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
        [command.get_program().to_string_lossy().into_owned()]
            .into_iter()
            .chain(arguments)
            .collect()
    }

    #[test]
    fn kind_of_a_launcher_is_read_from_what_it_says_about_itself() {
        let hydra = "HYDRA build details:\n    Version:      4.0.2\n";
        assert_eq!(kind(hydra), Some((LauncherKind::Hydra, "4.0.2".into())));
        assert_eq!(kind("prterun (PRRTE) 3.0.13\n"), Some((LauncherKind::Prte, "3.0.13".into())));
        assert_eq!(kind("slurm 22.05"), None);
    }

    #[test]
    fn program_that_does_not_exist_stands_first_or_last() {
        let directory = Path::new("/f");
        let ours = launcher(LauncherKind::Ours);
        let mut first = case(Fault::ExecFailure, FaultPhase::Before);
        first.variant = 127;
        let line = words(&ours.command(&first, directory)).join(" ");
        assert_eq!(line, "launcher run -n 1 /f/missing : -n 3 rank /f/s");
        let mut last = case(Fault::ExecFailure, FaultPhase::Starting);
        last.variant = 126;
        let line = words(&ours.command(&last, directory)).join(" ");
        assert_eq!(line, "launcher run -n 3 rank /f/s : -n 1 /f/no-program");
    }

    #[test]
    fn launcher_survives_the_state_file() {
        for kind in [LauncherKind::Ours, LauncherKind::Hydra, LauncherKind::Prte] {
            let launcher = launcher(kind);
            let text = serde_json::to_string(&launcher).unwrap();
            assert_eq!(serde_json::from_str::<Launcher>(&text).unwrap(), launcher);
        }
    }

    #[test]
    fn launcher_without_guard_has_no_case_about_it() {
        let case = case(Fault::GuardKill, FaultPhase::Put);
        assert!(
            launcher(LauncherKind::Ours).meets(&case) && !launcher(LauncherKind::Prte).meets(&case)
        );
    }
}
