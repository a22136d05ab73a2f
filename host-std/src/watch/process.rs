//! What the system says about a process. It may say nothing: `/proc` can be closed to us.

use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the system tells about processes.
#[derive(Clone, Debug)]
pub struct Proc {
    root: PathBuf,
}

/// What is known of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// What it does.
    pub state: State,
    /// The function of the kernel it waits in, if it waits and the system tells.
    pub kernel_wait: Option<String>,
    /// How long all its threads have run on a processor.
    pub cpu: Duration,
}

/// What a process does, as the system sees its first thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It runs, or could if there were a processor.
    Running,
    /// It waits for something, and a signal could wake it.
    Sleeping,
    /// It waits inside the system and no signal reaches it, mostly for a disk or a file server.
    Uninterruptible,
    /// A signal has stopped it.
    Stopped,
    /// A debugger holds it.
    Traced,
    /// It has ended and was not yet waited for.
    Ended,
    /// The system says something that is not known here.
    Other,
}

impl Proc {
    /// Looks below `root`, which is `/proc` but in tests.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Looks at a process; `None` where the system does not let us, and when it is gone.
    ///
    /// Two small files are read. Neither makes us wait for the process.
    pub fn look(&self, pid: i32) -> Option<Life> {
        let process = Process::new_with_root(self.root.join(pid.to_string())).ok()?;
        let stat = process.stat().ok()?;
        let ticks = stat.utime.saturating_add(stat.stime);
        // The system writes 0 for a process that does not wait, and for one we may not look into.
        let wait = process.wchan().ok().filter(|name| !matches!(name.trim(), "" | "0"));
        Some(Life {
            state: State::of(stat.state),
            kernel_wait: wait.map(|name| name.trim().chars().take(NAME_MAX).collect()),
            cpu: Duration::from_millis(
                ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1),
            ),
        })
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

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Uninterruptible => "uninterruptible",
            Self::Stopped => "stopped",
            Self::Traced => "in a debugger",
            Self::Ended => "ended",
            Self::Other => "unknown",
        }
    }
}

/// Names of functions are shorter.
const NAME_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn we_run_and_have_used_a_processor() {
        let own = std::process::id().cast_signed();
        let life = Proc::default().look(own).unwrap();
        // Of a test's process it is the main thread that is seen, and that waits for the others.
        assert!(matches!(life.state, State::Sleeping | State::Running), "{life:?}");
    }

    #[test]
    fn a_process_that_is_hidden_or_gone_is_unknown() {
        let root = std::env::temp_dir().join(format!("pmi-host-proc-{}", std::process::id()));
        let proc = Proc::at(&root);
        assert_eq!(proc.look(7), None);
        fs::create_dir_all(root.join("7")).unwrap();
        assert_eq!(proc.look(7), None);
        fs::write(root.join("7/stat"), "no numbers").unwrap();
        assert_eq!(proc.look(7), None);
        // A name may hold what looks like an end of it.
        let stat = "7 (a) T (b) D 1 7 7 0 -1 4194304 90 0 0 0 250 50 0 0 20 0 1 0 100 1000 10 \
                    18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        fs::write(root.join("7/stat"), stat).unwrap();
        let life = Life {
            state: State::Uninterruptible,
            kernel_wait: None,
            cpu: Duration::from_secs(300) / u32::try_from(procfs::ticks_per_second()).unwrap(),
        };
        assert_eq!(proc.look(7), Some(life.clone()));
        fs::write(root.join("7/wchan"), "io_schedule").unwrap();
        let kernel_wait = Some("io_schedule".to_owned());
        assert_eq!(proc.look(7), Some(Life { kernel_wait, ..life }));
        fs::remove_dir_all(root).unwrap();
    }
}
