//! Are there MPI and PMI libraries to start real programs with? Debian's MPICH, whose own launcher is the
//! yardstick for ours; Debian's Open MPI; Slurm's client libraries; and Python, by which the tests get the
//! MPICH that can spawn, and mpi4py for both MPIs.
//!
//! Only the set-up asks; the programs in `host-std/tests/programs` are built by the tests that run them.

use crate::process;
use std::process::Command;

/// Debian packages that bring everything below; `mpiexec.hydra` is part of `mpich`. (Debian's package called
/// `hydra` is another program altogether.)
pub(crate) const PACKAGES: &[&str] = &[
    "mpich",
    "libmpich-dev",
    // The other half of the world, and the library that it speaks PMIx with.
    "openmpi-bin",
    "libopenmpi-dev",
    "libpmix-dev",
    // Its tools.
    "libpmix-bin",
    // Python with the same two libraries.
    "python3-mpi4py",
    "python3-pmix",
    "libpmi2-0",
    "libpmi2-0-dev",
    // Another launcher, whose daemons the tests start on loopback.
    "munge",
    "slurm-wlm",
    "xauth",
    "libpmi0",
    "libpmi0-dev",
    // Checks of the C libraries.
    "pkg-config",
    "valgrind",
    "python3-venv",
    // The debugger that reads the calls of ranks, and the terminals in which it controls them.
    "gdb",
    "tmux",
    // Reads what the launcher writes of hardware.
    "hwloc-nox",
    // Containers around launcher and ranks.
    "bubblewrap",
    "charliecloud",
];

/// The sentence about a missing MPI, with its remedy.
pub(crate) fn with_remedy(why: String) -> String {
    format!("{why}; on Debian: apt-get install {}", PACKAGES.join(" "))
}

/// The compiler wrapper, by the name that Debian's alternatives cannot point at another MPI.
const COMPILER: &str = "mpicc.mpich";
const LAUNCHER: &str = "mpiexec.hydra";
const OPEN_MPI_COMPILER: &str = "mpicc.openmpi";

/// Directory of the headers in Debian's package `libpmix-dev`.
pub(crate) const PMIX_HEADERS: &str = "/usr/lib/x86_64-linux-gnu/pmix2/include";

/// A C program of nothing but what is included.
const EMPTY: &str = "/dev/null";

/// Describes the installed MPICH, or its defect. It preprocesses the one header that all programs
/// include, which needs wrapper, header and C compiler together.
pub(crate) fn find() -> Result<String, String> {
    probe(LAUNCHER, &["--version"])?;
    let header = probe(COMPILER, &["-E", "-include", "mpi.h", "-dM", "-x", "c", EMPTY])?;
    let version = version(&header).ok_or("its mpi.h is not MPICH's")?;
    let include = format!("-I{PMIX_HEADERS}");
    for (compiler, header) in
        [(OPEN_MPI_COMPILER, "mpi.h"), ("cc", "pmix.h"), ("cc", "slurm/pmi2.h")]
    {
        probe(compiler, &["-E", "-include", header, &include, "-x", "c", EMPTY])?;
    }
    probe("/usr/sbin/slurmctld", &["-V"])?;
    for checker in ["pkg-config", "valgrind"] {
        probe(checker, &["--version"])?;
    }
    probe("python3", &["-c", "import ensurepip, venv"])?;
    probe("gdb", &["--version"])?;
    probe("tmux", &["-V"])?;
    probe("lstopo-no-graphics", &["--version"])?;
    probe("bwrap", &["--version"])?;
    // It says nothing without that variable.
    probe("env", &["USER=root", "ch-run", "--version"])?;
    // By its path: there may be another one that does not see Debian's modules.
    probe("/usr/bin/python3", &["-c", "import mpi4py, pmix"])?;
    Ok(format!(
        "MPICH {version} ({COMPILER}, {LAUNCHER}), Open MPI, Slurm and its libpmi2, Python's venv"
    ))
}

/// The version in a list of `#define NAME VALUE` lines.
fn version(defines: &str) -> Option<&str> {
    let line = defines.lines().find_map(|line| line.strip_prefix("#define MPICH_VERSION "))?;
    Some(line.trim_matches('"'))
}

/// Output of a program. A compiler's complaint may be a page; its first line names the missing piece.
fn probe(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = process::output(Command::new(program).args(arguments));
    output.map_err(|why| why.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_header_of_mpich_only() {
        assert_eq!(version("#define A 1\n#define MPICH_VERSION \"4.0.2\"\n"), Some("4.0.2"));
        assert_eq!(version("#define OMPI_MAJOR_VERSION 4\n"), None);
    }
}
