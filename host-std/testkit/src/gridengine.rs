//! Grid Engine on this machine.

use crate::is_root;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Hosts `ge1`, `ge2`, … under a master of Grid Engine, which exist while a job runs.
#[derive(Debug)]
pub struct GridEngine {
    directory: PathBuf,
    hosts: u32,
    slots: u32,
}

impl GridEngine {
    /// Hosts with that many slots each, whose files and logs are in `directory`.
    ///
    /// # Errors
    ///
    /// A sentence with the remedy: a program or a privilege is missing.
    pub fn new(directory: PathBuf, hosts: u32, slots: u32) -> Result<Self, String> {
        let are_there = PROGRAMS.iter().all(|program| Path::new(program).exists());
        match are_there && is_root() {
            true => Ok(Self { directory, hosts, slots }),
            false => Err("Grid Engine needs root, and Debian's packages gridengine-master, \
                          gridengine-exec and gridengine-client"
                .to_owned()),
        }
    }

    /// Runs the text of a shell script as a batch job on all slots. Returns what it has written.
    ///
    /// # Errors
    ///
    /// A sentence about daemons that do not start, or a job that does not end.
    pub fn run(&self, text: &str) -> Result<String, String> {
        self.run_with(text, &[])
    }

    /// Runs the text of a shell script on the host of the master, which submits jobs itself. Returns what it has
    /// written.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn submit(&self, text: &str) -> Result<String, String> {
        self.run_with(text, &[("GRID_ENGINE_SUBMITS", "1")])
    }

    fn run_with(&self, text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.directory.display());
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let job = self.directory.join("job");
        fs::write(&job, text).map_err(failed)?;
        let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("gridengine.sh"));
        script.envs(variables.iter().copied());
        script.arg(&self.directory).args([self.hosts, self.slots].map(|count| count.to_string()));
        let output = script.arg(job).stdin(Stdio::null()).output().map_err(failed)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

const PROGRAMS: [&str; 3] = ["/usr/sbin/sge_qmaster", "/usr/sbin/sge_execd", "/usr/bin/qsub"];
