//! The end of a run: its first failure, and the signals that requested it.

use crate::launch::signal::Arrived;
use crate::report;
use crate::verdict::Failure;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Progress of a run towards its end.
#[derive(Debug, Default)]
pub(super) struct Termination {
    /// The first failure of all jobs; it decides the exit code.
    failure: Option<Failure>,
    /// True if the head of the run has requested the end: ends of ranks are no failures from then on.
    is_requested: bool,
    /// Last signal that requested the end, with its time.
    interrupted: Option<(Instant, Signal)>,
    /// True once no rank is left.
    pub(super) have_all_ended: bool,
    /// True if the launcher terminates without waiting any longer.
    pub(super) is_abandoned: bool,
}

/// Effect of a signal that requests the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// None: it belongs to the same act as one that was handled.
    Repeated,
    /// Another signal of the same act, which ranks receive as well.
    Forward,
    /// The run ends.
    End,
    /// The second request within a short time: all processes are killed.
    Kill,
}

impl Termination {
    /// Records the first failure.
    pub(super) fn set_failure(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    pub(super) const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Records that the head of the run has requested the end.
    pub(super) const fn set_requested(&mut self) {
        self.is_requested = true;
    }

    /// True once the run has failed, here or on another node.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some() || self.is_requested
    }

    /// Records a signal that requests the end.
    pub(super) fn interrupt(&mut self, now: Instant, arrived: Arrived) -> Interrupt {
        let last = self.interrupted.replace((now, arrived.signal));
        if let Some((at, signal)) = last.filter(|(at, _)| now - *at < ONE_ACT) {
            // The first signal of an act counts, else a repeating key would never count as a second
            // request.
            self.interrupted = Some((at, signal));
            return if signal == arrived.signal { Interrupt::Repeated } else { Interrupt::Forward };
        }
        match last.is_some_and(|(at, _)| now - at < AGAIN) {
            true => Interrupt::Kill,
            false => Interrupt::End,
        }
    }
}

/// Longest interval between two interrupts that kill, as [`report::AGAIN_SECS`] documents it.
const AGAIN: Duration = Duration::from_secs(report::AGAIN_SECS);

/// Signals within this time count as one act: `timeout` signals its child, and then the child's process
/// group. A person takes longer to press a key again.
const ONE_ACT: Duration = Duration::from_millis(100);
