//! Delivery of output after the last rank of a failed run has exited.
//!
//! A run that went well waits for its reader as any program does that writes to a pipe. One that has failed,
//! timed out or been interrupted must terminate: it waits while its readers take something, and drops what
//! they leave.

use super::EventLoop;
use crate::report;
use std::time::{Duration, Instant};

/// Deadlines for output that waits for its readers.
pub(super) struct Delivery {
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
    fn new(now: Instant, written_bytes: u64) -> Self {
        let (stalled_at, stop_at) = (now + READER_TIMEOUT, now + DELIVERY_TIMEOUT);
        Self { written_bytes, has_read: false, stalled_at, stop_at }
    }

    /// Time of the next check.
    pub(super) fn deadline(&self) -> Instant {
        self.stalled_at.min(self.stop_at)
    }
}

impl EventLoop {
    /// Terminates the run if it has failed, no process is left, and readers of its output take nothing.
    pub(super) fn check_delivery(&mut self, now: Instant) {
        let is_over = self.failure.is_some()
            && self.running_count == 0
            && self.sweep_at.is_none()
            && !self.outputs.is_done();
        if !is_over {
            self.delivery = None;
            return;
        }
        let written_bytes = self.outputs.written_bytes();
        let delivery = self.delivery.get_or_insert_with(|| Delivery::new(now, written_bytes));
        if delivery.written_bytes != written_bytes {
            delivery.written_bytes = written_bytes;
            delivery.has_read = true;
            delivery.stalled_at = now + READER_TIMEOUT;
        }
        if now < delivery.deadline() {
            return;
        }
        let said = match now < delivery.stop_at {
            true => report::output_unread(READER_TIMEOUT.as_secs(), false),
            false => report::output_unread(DELIVERY_TIMEOUT.as_secs(), delivery.has_read),
        };
        self.outputs.discard();
        self.outputs.say(said);
        // The report is written at the end of this turn if standard error takes it; nothing waits for that.
        self.is_abandoned = true;
    }
}

/// Longest wait without progress of a reader: long enough for a busy machine, short enough not to look
/// like a hang.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for delivery of everything that ranks had written before they exited.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
