//! The end of waits, by a timer of the system.

use super::{Interest, Token, data};
use crate::clock;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read, retry_on_intr};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::{Duration, Instant};

/// A timer that ends the wait for readiness.
///
/// Deadlines are seconds away and seldom met, while waits are short and many. A wait with a limit sets up a
/// timer in the system and takes it down again, which costs 0.8 us where a virtual machine has to be
/// left for it. The alarm stays set over many waits, and is set anew only for an earlier time.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// The timer; `None` until it is first used.
    timer: Option<OwnedFd>,
    /// Time for which it is set.
    at: Option<Instant>,
}

impl Alarm {
    /// Lets the next wait of `set` end at `until` at the latest. Returns the limit of the wait itself: `None`
    /// unless that time has passed, or there is no timer.
    pub(super) fn set(
        &mut self,
        until: Option<Instant>,
        set: &OwnedFd,
    ) -> io::Result<Option<Duration>> {
        let Some(until) = until else { return Ok(None) };
        if self.at.is_some_and(|at| at <= until) && !clock::is_stopped() {
            return Ok(None);
        }
        let left = until.saturating_duration_since(clock::now());
        if left.is_zero() || clock::is_stopped() || !self.create(set)? {
            return Ok(Some(left));
        }
        if let Some(timer) = &self.timer {
            let it_value = Timespec::try_from(left).map_err(io::Error::other)?;
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            if timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_err() {
                return Ok(Some(left));
            }
            self.at = Some(until);
        }
        Ok(None)
    }

    /// Takes note that the timer has expired.
    pub(super) fn rang(&mut self) -> io::Result<()> {
        self.at = None;
        let Some(timer) = &self.timer else { return Ok(()) };
        match retry_on_intr(|| read(timer, &mut [0; size_of::<u64>()])) {
            // It was set anew meanwhile.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the timer if there is none. Returns false if the process has no descriptor left for it, or a
    /// sandbox refuses it.
    fn create(&mut self, set: &OwnedFd) -> io::Result<bool> {
        if self.timer.is_none() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = match timerfd_create(TimerfdClockId::Monotonic, flags) {
                Ok(timer) => timer,
                Err(Errno::MFILE | Errno::NFILE | Errno::PERM | Errno::NOSYS) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            epoll::add(set, &timer, data(Token::Alarm), Interest::Read.flags())?;
            self.timer = Some(timer);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Poller;
    use super::*;

    #[test]
    fn wait_ends_at_its_time_and_without_a_limit_of_its_own() {
        let mut poller = Poller::new().unwrap();
        let (mut ready, mut rang) = (Vec::new(), 0);
        for _ in 0..3 {
            let until = clock::now() + Duration::from_millis(5);
            ready.clear();
            // The end of a child of another test is a signal, which ends a wait.
            while ready.is_empty() && clock::now() < until {
                poller.wait(Some(until), &mut ready).unwrap();
            }
            // A thread that gets no processor may begin to wait behind its time.
            assert!(ready.is_empty() || ready == [Token::Alarm], "{ready:?}");
            assert!(clock::now() >= until);
            rang += ready.len();
            if ready.is_empty() {
                poller.set.wait.borrow_mut().alarm.rang().unwrap();
            }
        }
        assert!(rang > 0, "no wait has ended by the alarm");
        // A time that has passed is no reason to set it.
        let passed = clock::now();
        poller.wait(Some(passed), &mut ready).unwrap();
        assert_eq!((&ready[..], poller.set.wait.borrow().alarm.at), (&[][..], None));
    }

    #[test]
    fn alarm_is_set_for_earlier_times_alone() {
        let poller = Poller::new().unwrap();
        let mut alarm = Alarm::default();
        let soon = clock::now() + Duration::from_secs(100);
        for (until, at) in [(2, 2), (3, 2), (1, 1), (2, 1)] {
            let until = soon + Duration::from_secs(until);
            assert_eq!(alarm.set(Some(until), &poller.set.main).unwrap(), None);
            assert_eq!(alarm.at, Some(soon + Duration::from_secs(at)));
        }
        assert_eq!(alarm.set(None, &poller.set.main).unwrap(), None);
        alarm.rang().unwrap();
        assert_eq!(alarm.at, None);
    }
}
