//! Shutdown of a job by force: signal, kill, and at last giving up.

use std::time::{Duration, Instant};

/// Stage of the shutdown of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// No shutdown requested.
    #[default]
    Up,
    /// `SIGTERM` was sent; remaining processes are killed at this moment.
    Terminating {
        /// The moment.
        kill_at: Instant,
    },
    /// `SIGKILL` was sent. A process that is stuck in the kernel does not terminate even then, and is
    /// waited for only until this moment.
    Killed {
        /// The moment.
        give_up_at: Instant,
    },
    /// No process is waited for any more.
    Left,
}

/// Action due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownStep {
    /// Send `SIGTERM` to every running process.
    Terminate,
    /// Send `SIGKILL` to every running process.
    Kill,
    /// Stop waiting.
    GiveUp,
}

impl Shutdown {
    /// Starts the shutdown; no effect if it has started.
    #[must_use]
    pub(crate) fn terminate(&mut self, now: Instant) -> Option<ShutdownStep> {
        if *self != Self::Up {
            return None;
        }
        *self = Self::Terminating { kill_at: now + GRACE };
        Some(ShutdownStep::Terminate)
    }

    /// Proceeds to killing; no effect if that was done.
    #[must_use]
    pub(crate) fn kill(&mut self, now: Instant) -> Option<ShutdownStep> {
        if matches!(self, Self::Killed { .. } | Self::Left) {
            return None;
        }
        *self = Self::Killed { give_up_at: now + GRACE };
        Some(ShutdownStep::Kill)
    }

    /// The next step, if it is due.
    #[must_use]
    pub(crate) fn tick(&mut self, now: Instant) -> Option<ShutdownStep> {
        match *self {
            Self::Terminating { kill_at } if now >= kill_at => self.kill(now),
            Self::Killed { give_up_at } if now >= give_up_at => {
                *self = Self::Left;
                Some(ShutdownStep::GiveUp)
            }
            _ => None,
        }
    }

    /// True once a shutdown was requested.
    pub(crate) fn has_begun(&self) -> bool {
        *self != Self::Up
    }

    /// True after the grace period.
    pub(crate) fn is_killing(&self) -> bool {
        matches!(self, Self::Killed { .. } | Self::Left)
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match *self {
            Self::Terminating { kill_at } => Some(kill_at),
            Self::Killed { give_up_at } => Some(give_up_at),
            Self::Up | Self::Left => None,
        }
    }
}

/// Grace period of a rank after `SIGTERM`: enough to write a last file, short enough that the launcher
/// does not seem to hang.
const GRACE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;

    #[test]
    fn steps_come_once_and_in_order() {
        let (mut shutdown, start) = (Shutdown::default(), clock::now());
        assert_eq!((shutdown.tick(start), shutdown.deadline()), (None, None));
        assert_eq!(shutdown.terminate(start), Some(ShutdownStep::Terminate));
        assert_eq!((shutdown.terminate(start), shutdown.tick(start)), (None, None));
        assert_eq!(shutdown.deadline(), Some(start + GRACE));
        assert_eq!(shutdown.tick(start + GRACE), Some(ShutdownStep::Kill));
        assert_eq!((shutdown.kill(start + GRACE), shutdown.terminate(start + GRACE)), (None, None));
        assert_eq!(shutdown.tick(start + 2 * GRACE), Some(ShutdownStep::GiveUp));
        assert_eq!((shutdown.tick(start + 9 * GRACE), shutdown.deadline()), (None, None));
    }

    #[test]
    fn killing_skips_the_asking() {
        let (mut shutdown, start) = (Shutdown::default(), clock::now());
        assert_eq!(shutdown.kill(start), Some(ShutdownStep::Kill));
        assert_eq!(shutdown.terminate(start), None);
    }
}
