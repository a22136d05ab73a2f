//! Keys that interrupt the launcher while all keys go to a rank with a terminal.

use pmi_host_os::clock;
use rustix::process::{Signal, getpid, kill_process};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Times of the last Ctrl-C.
#[derive(Debug, Default)]
pub(crate) struct InterruptKeys(VecDeque<Instant>);

impl InterruptKeys {
    /// Looks for the third Ctrl-C within a second, which interrupts the launcher.
    pub(crate) fn check(&mut self, typed: &[u8]) {
        let now = clock::now();
        self.0.extend(typed.iter().filter(|byte| **byte == CTRL_C).map(|_| now));
        self.0.retain(|at| now - *at < Duration::from_secs(1));
        if self.0.len() >= INTERRUPTS {
            self.0.clear();
            // The same as Ctrl-C on any other terminal; signalling the own process cannot fail.
            let _ = kill_process(getpid(), Signal::INT);
        }
    }
}

/// Code of the key on every terminal.
const CTRL_C: u8 = 3;

/// Number within a second that interrupts the launcher: not typed by chance, but tried in need.
const INTERRUPTS: usize = 3;
