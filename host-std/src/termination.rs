//! The end of a run: its first failure, and the signals that requested it.

use crate::launch::signal::Arrived;
use crate::report;
use crate::verdict::Failure;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Progress of a run towards its end.
#[derive(Debug, Default)]
pub(crate) struct Termination {
    /// The first failure of all jobs; it decides the exit code.
    failure: Option<Failure>,
    /// True if the head of the run has requested the end: ends of ranks are no failures from then on.
    is_requested: bool,
    /// Last signal that requested the end, with its time.
    interrupted: Option<(Instant, Signal)>,
    /// Last one that the head of the run has handed on.
    handed_on: Option<(Instant, Signal)>,
    /// True once no rank is left.
    pub(crate) have_all_ended: bool,
    /// True once processes that ranks have left behind were told to end.
    pub(crate) has_swept: bool,
    /// True if the launcher terminates without waiting any longer.
    pub(crate) is_abandoned: bool,
}

/// Effect of a signal that requests the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
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
    pub(crate) fn set_failure(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    pub(crate) const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Records that the head of the run has requested the end.
    pub(crate) const fn set_requested(&mut self) {
        self.is_requested = true;
    }

    /// True once the run has failed, here or on another node.
    pub(crate) const fn has_failed(&self) -> bool {
        self.failure.is_some() || self.is_requested
    }

    /// Records a signal that requests the end and comes from the head of the run; false if this process has
    /// received it as well, from a batch system that signals the processes of all nodes.
    pub(crate) fn hand_on(&mut self, now: Instant, signal: Signal) -> bool {
        let is_same = |(at, other): &(Instant, Signal)| *other == signal && now - *at < AGAIN;
        let is_known = self.interrupted.as_ref().or(self.handed_on.as_ref()).is_some_and(is_same);
        self.handed_on = Some((now, signal));
        !is_known
    }

    /// Records a signal that requests the end.
    pub(crate) fn interrupt(&mut self, now: Instant, arrived: Arrived) -> Interrupt {
        let is_same =
            |(at, signal): &(Instant, Signal)| *signal == arrived.signal && now - *at < AGAIN;
        if self.interrupted.is_none() && self.handed_on.as_ref().is_some_and(is_same) {
            self.interrupted = Some((now, arrived.signal));
            return Interrupt::Repeated;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;

    #[test]
    fn signal_that_head_and_batch_system_send_is_one() {
        let arrived = |signal| Arrived { signal, is_for_group: false };
        let (now, second) = (clock::now(), Duration::from_secs(1));
        let mut own_first = Termination::default();
        assert_eq!(own_first.interrupt(now, arrived(Signal::TERM)), Interrupt::End);
        assert!(!own_first.hand_on(now + second, Signal::TERM));
        assert!(own_first.hand_on(now + second, Signal::INT), "another one");
        assert!(own_first.hand_on(now + 9 * second, Signal::TERM), "a later one");
        let mut head_first = Termination::default();
        assert!(head_first.hand_on(now, Signal::TERM));
        assert_eq!(head_first.interrupt(now + second, arrived(Signal::TERM)), Interrupt::Repeated);
        // A second signal to this process is one.
        assert_eq!(
            head_first.interrupt(now + second + second / 2, arrived(Signal::TERM)),
            Interrupt::Kill
        );
    }
}
