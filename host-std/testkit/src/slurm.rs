//! Slurm on this machine.

use crate::{is_root, output_of};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A controller and nodes of Slurm, until it goes out of scope.
#[derive(Debug)]
pub struct Slurm {
    directory: PathBuf,
    /// Task plugin, which sets up the processes of a rank.
    tasks: &'static str,
    nodes: u32,
    policy: SlurmPolicy,
    /// First one of a decade.
    port: u32,
}

/// What Slurm does with jobs, and what its nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlurmPolicy {
    /// Jobs share processors, and run until they end.
    Shared,
    /// Jobs of partition `high` end those of partition `low`, which have half a minute for that.
    Preempting,
    /// Jobs of partition `high` suspend those of partition `low`, of which two that share processors have turns
    /// of 5 s.
    Gang,
    /// Each node has four GPUs, and memory that jobs may request.
    Gpus,
    /// As sites configure it: a prolog of tasks sets `PROLOG`, replaces `BOTH` and unsets `GONE`; cgroups confine
    /// steps to processors of the job, of which each node has two; X11 is forwarded. Names of nodes differ.
    Site,
}

impl SlurmPolicy {
    /// Word of `slurm.sh`.
    const fn word(self) -> &'static str {
        match self {
            Self::Shared => "",
            Self::Preempting => "preempt",
            Self::Gang => "gang",
            Self::Gpus => "gpus",
            Self::Site => "site",
        }
    }
}

impl Slurm {
    /// Starts Slurm with one node, and with its files in `directory`.
    ///
    /// # Errors
    ///
    /// A sentence with the remedy: a program or a privilege is missing, or the daemons do not start.
    pub fn start(directory: PathBuf) -> Result<Self, String> {
        Self::start_with(directory, ("task/none", 1), SlurmPolicy::Shared)
    }

    /// The same, with ranks that can be bound to processors.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_binding(directory: PathBuf) -> Result<Self, String> {
        Self::start_with(directory, ("task/affinity", 1), SlurmPolicy::Shared)
    }

    /// The same with nodes `slurm1`, `slurm2`, …, up to eight, each with a daemon of its own.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_nodes(
        directory: PathBuf,
        nodes: u32,
        policy: SlurmPolicy,
    ) -> Result<Self, String> {
        Self::start_with(directory, ("task/none", nodes), policy)
    }

    fn start_with(
        directory: PathBuf,
        (tasks, nodes): (&'static str, u32),
        policy: SlurmPolicy,
    ) -> Result<Self, String> {
        let version = output_of("/usr/sbin/slurmctld", &["-V"]).unwrap_or_default();
        if !version.contains("22.05") || !is_root() {
            return Err(
                "Slurm needs root, and Debian's packages slurm-wlm 22.05 and munge".to_owned()
            );
        }
        if policy == SlurmPolicy::Site && !Path::new("/sys/fs/cgroup/cpuset").exists() {
            return Err("confined steps need the first version of cgroups".to_owned());
        }
        // Several work trees, and several tests of one, may be tested at once on one machine.
        let number =
            process::id().wrapping_mul(5).wrapping_add(STARTED.fetch_add(1, Ordering::Relaxed));
        let slurm = Self { directory, tasks, nodes, policy, port: 20_000 + number % 600 * 10 };
        match slurm.script("start") {
            true => Ok(slurm),
            false => {
                Err(format!("Slurm does not start; see the logs in {}", slurm.directory.display()))
            }
        }
    }

    /// Lets a program prepare each node before the first step of a job, and says that to the daemons.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn add_prolog(&self, program: &Path) -> io::Result<()> {
        let mut conf = OpenOptions::new().append(true).open(self.conf())?;
        writeln!(conf, "Prolog={}", program.display())?;
        let mut scontrol = Command::new("scontrol");
        scontrol.arg("reconfigure").env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        scontrol.status().map(drop)
    }

    fn script(&self, word: &str) -> bool {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("slurm.sh");
        let mut script = Command::new(script);
        script.env("SLURM_TEST_PORT", self.port.to_string()).env("SLURM_TEST_TASKS", self.tasks);
        script.env("SLURM_TEST_NODES", self.nodes.to_string());
        script.env("SLURM_TEST_POLICY", self.policy.word());
        script.arg(word).arg(&self.directory);
        script.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Value of `SLURM_CONF` for its clients.
    pub fn conf(&self) -> PathBuf {
        self.directory.join("slurm.conf")
    }
}

/// Number of those that this process has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

impl Drop for Slurm {
    fn drop(&mut self) {
        // A test that fails must not leave daemons behind; what is left is found by the next start.
        self.script("stop");
    }
}
