//! Delivery of output after the last rank of a failed run has exited.
//!
//! A run that went well waits for its reader as any program does that writes to a pipe. One that has failed,
//! timed out or been interrupted must terminate: it waits while its readers take something, and drops what
//! they leave.

use crate::report;
use std::time::{Duration, Instant};

/// Deadlines for output that waits for its readers.
pub(crate) struct Delivery {
    /// Number of bytes that readers had taken at the last check.
    written_bytes: u64,
    /// True if readers have taken anything since the wait began.
    has_read: bool,
    /// Time to stop unless readers take more.
    stalled_at: Instant,
    /// Time to stop in any case.
    stop_at: Instant,
}

impl Delivery {
    /// Starts the wait; readers have taken `written_bytes` so far.
    pub(crate) fn new(now: Instant, written_bytes: u64) -> Self {
        let (stalled_at, stop_at) = (now + READER_TIMEOUT, now + DELIVERY_TIMEOUT);
        Self { written_bytes, has_read: false, stalled_at, stop_at }
    }

    /// Time of the next check.
    pub(crate) fn deadline(&self) -> Instant {
        self.stalled_at.min(self.stop_at)
    }

    /// Checks whether readers take output. Returns the report for the user if the wait is over.
    pub(crate) fn check(&mut self, now: Instant, written_bytes: u64) -> Option<String> {
        if self.written_bytes != written_bytes {
            self.written_bytes = written_bytes;
            self.has_read = true;
            self.stalled_at = now + READER_TIMEOUT;
        }
        if now < self.deadline() {
            return None;
        }
        Some(match now < self.stop_at {
            true => report::output_unread(READER_TIMEOUT.as_secs(), false),
            false => report::output_unread(DELIVERY_TIMEOUT.as_secs(), self.has_read),
        })
    }
}

/// Longest wait without progress of a reader: long enough for a busy machine, short enough not to look
/// like a hang.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for delivery of everything that ranks had written before they exited.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
