//! State of a process from `/proc`, as far as the launcher may read it.

use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A `/proc` file system.
#[derive(Clone, Debug)]
pub(crate) struct Proc {
    root: PathBuf,
}

/// State of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// State of its first thread.
    pub(crate) state: State,
    /// Kernel function that it waits in, if it waits and the kernel reports it.
    pub(crate) kernel_wait: Option<String>,
    /// Processor time of all its threads.
    pub(crate) cpu: Duration,
}

/// Work of a process so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Processor time of all its threads and of its children that have ended, in clock ticks.
    ticks: u64,
    /// Bytes that it has written; `None` if access is denied.
    written_bytes: Option<u64>,
}

/// State of a process, that is, of its first thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Running or runnable.
    Running,
    /// Waiting; a signal could wake it.
    Sleeping,
    /// Waiting in the kernel, out of reach of signals, mostly for a disk or a file server.
    Uninterruptible,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by a debugger.
    Traced,
    /// Stopped by the freezer of its control group.
    Frozen,
    /// Terminated and not yet reaped.
    Ended,
    /// Another state letter of the kernel.
    Other,
}

impl Proc {
    /// Uses `root`, which is `/proc` except in tests.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The directory with one entry for each process.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the state of a process; `None` if access is denied or the process is gone.
    ///
    /// Reads two small files. Neither read waits for the process.
    pub(crate) fn read(&self, pid: i32) -> Option<Life> {
        let process = Process::new_with_root(self.root.join(pid.to_string())).ok()?;
        let stat = process.stat().ok()?;
        let ticks = stat.utime.saturating_add(stat.stime);
        // The kernel writes 0 for a process that does not wait, and for one that may not be inspected.
        let wait = process.wchan().ok().filter(|name| !matches!(name.trim(), "" | "0"));
        let kernel_wait = wait.map(|name| name.trim().chars().take(NAME_MAX).collect::<String>());
        let is_frozen = kernel_wait.as_deref().is_some_and(|wait| FREEZERS.contains(&wait));
        Some(Life {
            state: match State::of(stat.state) {
                State::Sleeping | State::Uninterruptible if is_frozen => State::Frozen,
                state => state,
            },
            kernel_wait,
            cpu: Duration::from_millis(
                ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1),
            ),
        })
    }

    /// Reads the work of a process; `None` if access is denied or the process is gone.
    pub(crate) fn effort(&self, pid: i32) -> Option<Effort> {
        let process = Process::new_with_root(self.root.join(pid.to_string())).ok()?;
        let stat = process.stat().ok()?;
        let of_children = [stat.cutime, stat.cstime].map(i64::unsigned_abs);
        let ticks = [stat.utime, stat.stime].into_iter().chain(of_children).sum();
        Some(Effort { ticks, written_bytes: process.io().ok().map(|io| io.wchar) })
    }
}

impl Default for Proc {
    fn default() -> Self {
        Self::at(Path::new("/proc"))
    }
}

impl State {
    fn of(letter: char) -> Self {
        match letter {
            'R' => Self::Running,
            'S' | 'I' => Self::Sleeping,
            'D' => Self::Uninterruptible,
            'T' => Self::Stopped,
            't' => Self::Traced,
            'Z' | 'X' | 'x' => Self::Ended,
            _ => Self::Other,
        }
    }

    /// Name of the state for users.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Traced => "in a debugger",
            Self::Frozen => "frozen",
            Self::Ended => "ended",
            Self::Other => "unknown",
        }
    }
}

/// Functions of the kernel in which processes of a frozen control group wait, by versions of the kernel.
const FREEZERS: [&str; 3] = ["do_freezer_trap", "get_signal", "__refrigerator"];

/// Names of functions are shorter.
const NAME_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn we_run_and_have_used_a_processor() {
        let own = std::process::id().cast_signed();
        let life = Proc::default().read(own).unwrap();
        // In a test process the main thread is seen, which waits for the others.
        assert!(matches!(life.state, State::Sleeping | State::Running), "{life:?}");
    }

    #[test]
    fn effort_changes_with_what_is_written() {
        let own = std::process::id().cast_signed();
        let before = Proc::default().effort(own).unwrap();
        fs::write("/dev/null", "a line").unwrap();
        assert_ne!(Proc::default().effort(own).unwrap(), before);
        assert_eq!(Proc::at(Path::new("/no/such")).effort(own), None);
    }

    #[test]
    fn process_that_is_hidden_or_gone_is_unknown() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let proc = Proc::at(root);
        assert_eq!(proc.read(7), None);
        fs::create_dir(root.join("7")).unwrap();
        assert_eq!(proc.read(7), None);
        fs::write(root.join("7/stat"), "no numbers").unwrap();
        assert_eq!(proc.read(7), None);
        // The name may contain a closing parenthesis.
        let stat = "7 (a) T (b) D 1 7 7 0 -1 4194304 90 0 0 0 250 50 0 0 20 0 1 0 100 1000 10 \
                    18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        fs::write(root.join("7/stat"), stat).unwrap();
        let life = Life {
            state: State::Uninterruptible,
            kernel_wait: None,
            cpu: Duration::from_secs(300) / u32::try_from(procfs::ticks_per_second()).unwrap(),
        };
        assert_eq!(proc.read(7), Some(life.clone()));
        fs::write(root.join("7/wchan"), "io_schedule").unwrap();
        let kernel_wait = Some("io_schedule".to_owned());
        assert_eq!(proc.read(7), Some(Life { kernel_wait, ..life }));
        fs::write(root.join("7/wchan"), "__refrigerator").unwrap();
        let kernel_wait = Some("__refrigerator".to_owned());
        assert_eq!(proc.read(7), Some(Life { state: State::Frozen, kernel_wait, ..life }));
    }
}
