//! The same microseconds under two names.

use pmi_core::time::Instant;

/// A point in time of smoltcp's, for the machines; what lies before its zero is zero.
pub fn core_time(time: smoltcp::time::Instant) -> Instant {
    Instant::from_micros(u64::try_from(time.total_micros()).unwrap_or(0))
}

/// A point in time of the machines', for smoltcp; stops at the end of its time.
pub fn smoltcp_time(time: Instant) -> smoltcp::time::Instant {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    smoltcp::time::Instant::from_micros(micros)
}
