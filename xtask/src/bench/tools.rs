//! Contestants of a comparison, built and found, and the facts of the machine.

use crate::dist::has_loader;
use crate::{mpi, process, wheel};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The programs that take part.
pub(super) struct Tools {
    /// Our launcher.
    pub(super) host: String,
    /// One rank that speaks PMI by hand; the same program under both launchers.
    pub(super) client: String,
    /// Spawns and waits, nothing else.
    pub(super) floor: String,
    /// Root, relays and ranks of the least fence on several hosts.
    pub(super) relay: String,
    /// Serves PMI-1 without a key-value space; the floor of put, get and fence.
    canned: String,
    /// True if other processes spin meanwhile.
    is_busy: bool,
    /// Hydra of the newest MPICH.
    pub(super) hydra5: PathBuf,
    intel: PathBuf,
    hydra_version: String,
}

/// Launchers that serve PMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchLauncher {
    /// Ours.
    PmiHost,
    /// Of MPICH 5, from the Python package index: the main peer.
    Hydra5,
    /// Of MPICH 4, from Debian.
    Hydra4,
    /// Of Intel MPI, from the Python package index.
    Intel,
}

impl BenchLauncher {
    /// The name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PmiHost => "pmi-host",
            Self::Hydra5 => "Hydra 5",
            Self::Hydra4 => "Hydra 4",
            Self::Intel => "Intel",
        }
    }
}

impl Tools {
    /// Builds ours as users get them, and looks for Hydra.
    ///
    /// # Errors
    ///
    /// With what to install.
    pub(super) fn prepare(is_busy: bool) -> Result<Self, String> {
        let hydra_version = hydra_version().map_err(mpi::with_remedy)?;
        let mut cargo = process::cargo();
        cargo.args(["build", "--release", "--package", "pmi-host", "--package", "put-fence-get"]);
        cargo.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
        let messages = process::output(&mut cargo)?;
        let find = |name: &str| {
            executable(&messages, name).ok_or_else(|| format!("the build made no {name}"))
        };
        let host = find("pmi-host")?;
        let directory = directory_beside(&host)?;
        let canned = directory.join("canned-server");
        process::output(process::command("cc").args(["-O2", CANNED_SERVER, "-o"]).arg(&canned))?;
        Ok(Self {
            host,
            client: find("put-fence-get")?,
            floor: find("spawn-and-wait")?,
            relay: find("relay-fence")?,
            canned: canned.to_string_lossy().into_owned(),
            is_busy,
            hydra5: install(&directory, HYDRA, MPICH)?,
            intel: install(&directory, HYDRA, INTEL_MPI)?,
            hydra_version,
        })
    }

    /// Directory of what the comparisons build and install, beside `release/pmi-host`.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub(super) fn directory(&self) -> Result<PathBuf, String> {
        directory_beside(&self.host)
    }

    /// The server that only answers, with `ranks` ranks; the program follows.
    ///
    /// On a busy machine each rank leads a session, as under the launchers: where the kernel divides time by
    /// session, ranks that share one with the server leave it more time for each message, and get less of the
    /// machine.
    pub(super) fn canned_server(&self, ranks: u32, value_bytes: &str) -> Command {
        let mut command = process::command(&self.canned);
        command.args([&ranks.to_string(), value_bytes]);
        if self.is_busy {
            command.arg("setsid");
        }
        command
    }

    /// Our launcher with `ranks` ranks; the program follows.
    pub(super) fn host(&self, ranks: u32) -> Command {
        let mut command = self.host_with_options(ranks);
        command.arg("--");
        command
    }

    /// The same; further options and the program follow.
    pub(super) fn host_with_options(&self, ranks: u32) -> Command {
        let mut command = process::command(&self.host);
        command.args(["run", "-n", &ranks.to_string()]);
        command
    }

    /// A launcher with `ranks` ranks on this machine; the program follows.
    pub(super) fn launcher(&self, launcher: BenchLauncher, ranks: u32) -> Command {
        let program = match launcher {
            BenchLauncher::PmiHost => return self.host(ranks),
            BenchLauncher::Hydra5 => &self.hydra5,
            BenchLauncher::Hydra4 => Path::new(HYDRA),
            BenchLauncher::Intel => &self.intel,
        };
        let mut command = process::command(program);
        // By fork: a batch system's or a remote shell's way to this same machine is not what is compared.
        command.args(["-launcher", "fork", "-n", &ranks.to_string()]);
        command
    }

    /// Conditions of the figures.
    pub(super) fn facts(&self) -> Vec<String> {
        let cores = thread::available_parallelism().map_or(0, usize::from);
        let first_line = |program: &mut Command| {
            process::output(program).ok().and_then(|text| Some(text.lines().next()?.to_owned()))
        };
        let host = first_line(process::command(&self.host).arg("--version"));
        let libc = first_line(process::command("getconf").arg("GNU_LIBC_VERSION"));
        let compiler = first_line(process::command("rustc").arg("--version"));
        let is_static = has_loader(Path::new(&self.host)).is_ok_and(|found| !found);
        vec![
            format!("{cores} cores, {}", kernel()),
            format!(
                "{}, linked {}with {} and its allocator",
                host.as_deref().unwrap_or("pmi-host"),
                if is_static { "statically " } else { "" },
                libc.as_deref().unwrap_or("the C library of the machine")
            ),
            format!(
                "Hydra 5: {}; Hydra 4: {}; Intel: {}",
                MPICH[0], self.hydra_version, INTEL_MPI[0]
            ),
            compiler.unwrap_or_else(|| "rustc, version unknown".into()),
        ]
    }
}

/// See [`Tools::directory`].
fn directory_beside(host: &str) -> Result<PathBuf, String> {
    let built = Path::new(host).ancestors().nth(2).ok_or("the build is nowhere")?;
    let directory = built.join("bench");
    let made = fs::create_dir_all(&directory);
    made.map(|()| directory).map_err(|error| format!("{}: {error}", built.display()))
}

/// See [`wheel::install`]. The wheels are beside `directory`, where the tests install the same ones.
pub(super) fn install(directory: &Path, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    wheel::install(&directory.with_file_name("tmp"), name, packages)
}

/// Builds a program of MPI with the headers and libraries of the wheel that contains `launcher`.
///
/// # Errors
///
/// With the compiler's message.
pub(super) fn compile(launcher: &Path, source: &str, program: &Path) -> Result<(), String> {
    // The compilers of some wheels contain the paths of the machine that they were built on.
    let venv = launcher.ancestors().nth(2).unwrap_or(Path::new("/"));
    let [include, libraries] = ["include", "lib"].map(|name| venv.join(name));
    let mut compiler = process::command("cc");
    compiler.args(["-O2", source, "-o"]).arg(program).arg("-I").arg(&include).arg("-L");
    let path = format!("-Wl,-rpath,{}", libraries.display());
    process::output(compiler.arg(&libraries).args([&path, "-lmpi"])).map(drop)
}

fn hydra_version() -> Result<String, String> {
    let about = process::output(Command::new(HYDRA).arg("--version"))?;
    version(&about).ok_or_else(|| format!("{HYDRA} does not print its version"))
}

fn version(about: &str) -> Option<String> {
    let line = about.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
    Some(line.trim().to_owned())
}

/// Name and number of the kernel, without what a distribution or a provider adds.
fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let number = release.trim().split('-').next().unwrap_or_default();
    format!("Linux {number}")
}

/// The file that cargo reports for the binary target `name`.
fn executable(messages: &str, name: &str) -> Option<String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| {
        message["reason"] == "compiler-artifact" && message["target"]["name"] == name
    });
    built.find_map(|message| message["executable"].as_str().map(str::to_owned))
}

pub(super) const HYDRA: &str = "mpiexec.hydra";
/// Wheels of the newest MPICH and of Intel MPI.
pub(super) const MPICH: &[&str] = &["mpich==5.0.2"];
pub(super) const INTEL_MPI: &[&str] = &["impi-rt==2021.19.0", "impi-devel==2021.19.0"];
const CANNED_SERVER: &str = "examples/put-fence-get/canned-server.c";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_output_of_hydra() {
        let about = "HYDRA build details:\n    Version:      4.0.2\n    CC:  gcc\n";
        assert_eq!(version(about).as_deref(), Some("4.0.2"));
        assert_eq!(version("usage: hydra"), None);
    }

    #[test]
    fn executables_are_read_from_the_output_of_cargo() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}"#,
            "\nnoise\n",
            r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":"/t/a"}"#,
        );
        assert_eq!(executable(messages, "a").as_deref(), Some("/t/a"));
        assert_eq!(executable(messages, "b"), None);
    }
}
