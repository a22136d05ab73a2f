//! The launchers: how each is started, and with which rank program.

use super::case::{FaultCase, Selection};
use super::hosts;
use super::table::{Fault, FaultPhase};
use crate::processes::{self, Process};
use crate::{mpi, process, toolchain};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::PermissionsExt;
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
    /// Each node is a host in name spaces of its own.
    #[serde(default)]
    pub(super) has_hosts: bool,
    /// The rank program for PMIx, if it can be built.
    #[serde(default)]
    pub(super) pmix_rank: Option<PathBuf>,
}

impl Launcher {
    /// Ours: `program`, or the release build; over the nodes or hosts of the selection.
    ///
    /// # Errors
    ///
    /// It cannot be built, or the rank program cannot.
    pub(super) fn ours(program: Option<&str>, selection: &Selection) -> Result<Self, String> {
        let (nodes, has_hosts) = (selection.nodes, selection.has_hosts);
        let program = match program {
            Some(program) => program.to_owned(),
            None => name(&toolchain::build_host()?),
        };
        let about = process::output(process::command(&program).arg("--version"))?;
        let mut label = about.lines().next().unwrap_or("pmi-host").trim().to_owned();
        let mut words = vec![program, "run".to_owned()];
        if has_hosts {
            label += &format!(" over {nodes} hosts");
            let hosts: Vec<String> = (1..=nodes).map(|host| format!("n{host}")).collect();
            words.extend(["--hosts".to_owned(), hosts.join(",")]);
        } else if nodes > 0 {
            label += &format!(" over {nodes} nodes");
            words.extend(["--starter".to_owned(), format!("local:{nodes}")]);
        }
        let pmix_rank = rank_program(Some(Path::new(""))).ok();
        let kind = LauncherKind::Ours;
        Ok(Self { label, kind, words, rank: rank_program(None)?, nodes, has_hosts, pmix_rank })
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
        let label = format!("{name} {version}");
        Ok(Self { label, kind, words, rank, nodes: 0, has_hosts: false, pmix_rank: None })
    }

    /// True if its processes have places of their own for files, which needs root.
    pub(super) fn has_places(&self) -> bool {
        self.kind == LauncherKind::Ours && rustix::process::geteuid().is_root()
    }

    /// The launcher with programs in `directory`, if its processes see no others.
    ///
    /// # Errors
    ///
    /// They cannot be copied.
    pub(super) fn within(&self, directory: &Path) -> Result<Self, String> {
        let mut moved = self.clone();
        if !self.has_places() {
            return Ok(moved);
        }
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        // Another user starts them, too.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let copy = |from: &Path| -> Result<PathBuf, String> {
            let to = directory.join(from.file_name().unwrap_or_default());
            fs::copy(from, &to).map_err(failed)?;
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(failed)?;
            Ok(to)
        };
        moved.words[0] = name(&copy(Path::new(&self.words[0]))?);
        moved.rank = copy(&self.rank)?;
        moved.pmix_rank = self.pmix_rank.as_deref().map(copy).transpose()?;
        Ok(moved)
    }

    /// There is such a case with this launcher.
    pub(super) fn meets(&self, case: &FaultCase) -> bool {
        let is_ours = self.kind == LauncherKind::Ours;
        match case.fault {
            // It starts ranks by itself and has no process that could be killed instead.
            Fault::GuardKill => self.kind != LauncherKind::Prte,
            Fault::UnreadableProc => is_ours && self.pmix_rank.is_some(),
            fault => is_ours || !fault.is_of_ours(),
        }
    }

    /// Options of the command line for a case.
    fn options(&self, case: &FaultCase, directory: &Path) -> Vec<String> {
        let mut options = Vec::new();
        if self.has_hosts {
            let starter = match case.fault {
                Fault::KeyEcho if case.form & 1 == 0 => hosts::ECHO_OUT,
                Fault::KeyEcho => hosts::ECHO_ERR,
                Fault::Stage => hosts::SLOW,
                _ => hosts::ENTER,
            };
            let starter = name(&directory.join(starter));
            options.extend(["--starter-cmd".to_owned(), format!("{starter} {{host}} {{cmd}}")]);
        }
        match case.fault {
            Fault::Pause if self.nodes > 0 => {
                options.extend(["--node-timeout".to_owned(), NODE_TIMEOUT_S.to_string()]);
            }
            Fault::Stage => options.push("--stage-launcher".into()),
            Fault::KeyEcho => options.extend(["--result".into(), name(&result_file(directory))]),
            Fault::UnreadableProc => options.extend(["--pmi".into(), "x".into()]),
            _ => {}
        }
        options
    }

    /// The rank program of a case, and what stands behind it.
    fn rank_words(&self, case: &FaultCase, directory: &Path) -> Vec<String> {
        let socket = name(&directory.join("s"));
        match (case.fault, &self.pmix_rank) {
            (Fault::Clean, _) => vec![name(&self.rank), socket, "clean".into()],
            (Fault::UnreadableProc, Some(_)) if self.has_other_user(case) => {
                vec![name(&unreadable_rank(directory)), socket]
            }
            (Fault::UnreadableProc, Some(rank)) => vec![name(rank), socket, "hidden".into()],
            _ => vec![name(&self.rank), socket],
        }
    }

    /// True for a case whose launcher runs as another user, who may not read the rank program.
    pub(super) fn has_other_user(&self, case: &FaultCase) -> bool {
        case.fault == Fault::UnreadableProc && self.has_places() && case.form & 1 == 0
    }

    /// The command line of a case. Files of the case are in `directory`, and so is the socket.
    pub(super) fn command(&self, case: &FaultCase, directory: &Path) -> Command {
        let mut words = self.words.clone();
        words.extend(self.options(case, directory));
        let rank = self.rank_words(case, directory);
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
            Fault::UnreadableProc if self.has_other_user(case) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
                command
            }
            _ => Command::new(words.remove(0)),
        };
        command.args(words);
        surround(&mut command, self.kind);
        // Files left behind by a killed launcher are in the directory of the case, which is removed.
        match self.has_places() {
            true => command.env("TMPDIR", "/tmp").env_remove("XDG_RUNTIME_DIR"),
            false => command.env("TMPDIR", hosts::place(directory, 0).join("tmp")),
        };
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

    /// The node servers, oldest first, as far as they are there. One on a host may have a starter as its
    /// parent.
    pub(super) fn node_servers(&self, launcher: i32, all: &[Process]) -> Vec<Process> {
        let name = Path::new(&self.words[0]).file_name().unwrap_or_default().to_string_lossy();
        let is_node = |process: &&Process| {
            process.name == name
                && processes::arguments(process.pid)
                    .is_some_and(|words| words.contains(&"node".to_owned()))
        };
        let nodes: Vec<&Process> = all.iter().filter(|_| self.nodes > 0).filter(is_node).collect();
        // A guard and a rank are copies of their node server for a moment.
        let is_server = |process: &&&Process| {
            let is_copy = nodes.iter().any(|other| other.pid == process.parent);
            !is_copy && processes::is_below(all, process.pid, launcher)
        };
        let mut servers: Vec<Process> =
            nodes.iter().filter(is_server).map(|process| (*process).clone()).collect();
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

/// The rank program that only root may read, in a case about it.
pub(super) fn unreadable_rank(directory: &Path) -> PathBuf {
    directory.join("rank-711")
}

/// The summary of a run (`--result`).
pub(super) fn result_file(directory: &Path) -> PathBuf {
    directory.join("result.json")
}

/// Time for which a node may be silent (`--node-timeout`) in a case about longer pauses.
pub(super) const NODE_TIMEOUT_S: u64 = 2;

/// The environment of a launcher, without variables of another launcher or of a batch system.
fn surround(command: &mut Command, kind: LauncherKind) {
    const FOREIGN: &[&str] =
        &["PMI_", "PMIX_", "PRTE_", "SLURM_", "OMPI_", "HYDRA_", "HYDI_", "MPI_", "MPIR_"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
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
        let (label, rank, pmix_rank) = ("L 1".into(), "rank".into(), Some("rank-pmix".into()));
        Launcher { label, kind, words, rank, nodes: 0, has_hosts: false, pmix_rank }
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
    fn options_of_a_case_stand_in_front_of_the_ranks() {
        let directory = Path::new("/f");
        let mut ours = launcher(LauncherKind::Ours);
        (ours.nodes, ours.has_hosts) = (2, true);
        let line = |case: FaultCase| words(&ours.command(&case, directory)).join(" ");
        let start = "launcher run --starter-cmd /f/enter {host} {cmd}";
        let pause = case(Fault::Pause, FaultPhase::Put);
        assert_eq!(line(pause), format!("{start} --node-timeout 2 -n 4 rank /f/s"));
        let exit = case(Fault::Exit, FaultPhase::Put);
        assert_eq!(line(exit), format!("{start} -n 4 rank /f/s"));
        assert!(!launcher(LauncherKind::Hydra).meets(&case(Fault::Pause, FaultPhase::Put)));
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
