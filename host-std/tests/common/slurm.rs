//! Slurm on this machine, for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A controller and a node of Slurm, until it goes out of scope.
pub struct Slurm {
    directory: PathBuf,
    /// Task plugin, which sets up the processes of a rank.
    tasks: &'static str,
}

impl Slurm {
    /// True if Slurm can be started: as root, with Debian's packages.
    pub fn is_there() -> bool {
        let says = |words: [&str; 2], part: &str| {
            let output = Command::new(words[0]).arg(words[1]).stdin(Stdio::null()).output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(part))
        };
        says(["/usr/sbin/slurmctld", "-V"], "22.05") && says(["id", "-u"], "0\n")
    }

    /// Starts Slurm in a directory of that name.
    pub fn start(name: &str) -> Self {
        Self::start_with(name, "task/none")
    }

    /// The same, with ranks that can be bound to processors.
    pub fn start_binding(name: &str) -> Self {
        Self::start_with(name, "task/affinity")
    }

    fn start_with(name: &str, tasks: &'static str) -> Self {
        let directory = format!("slurm-of-{name}");
        let slurm =
            Self { directory: Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory), tasks };
        assert!(slurm.script("start"), "see the logs in {}", slurm.directory.display());
        slurm
    }

    fn script(&self, word: &str) -> bool {
        // Two work trees may be tested at once on one machine.
        let port = 20_000 + std::process::id() % 6_000;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slurm.sh");
        let mut script = Command::new(script);
        script.env("SLURM_TEST_PORT", port.to_string()).env("SLURM_TEST_TASKS", self.tasks);
        script.arg(word).arg(&self.directory);
        script.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Value of `SLURM_CONF` for its clients.
    pub fn conf(&self) -> PathBuf {
        self.directory.join("slurm.conf")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // A test that fails must not leave daemons behind; what is left is found by the next start.
        self.script("stop");
    }
}
