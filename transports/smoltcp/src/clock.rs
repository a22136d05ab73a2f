//! Conversion between the clocks of smoltcp and of the machines.

use pmi_core::time::Instant;

/// Converts a time of smoltcp for the machines; negative times become zero.
pub fn core_time(time: smoltcp::time::Instant) -> Instant {
    Instant::from_micros(u64::try_from(time.total_micros()).unwrap_or(0))
}

/// Converts a time of the machines for smoltcp; saturates at its maximum.
pub fn smoltcp_time(time: Instant) -> smoltcp::time::Instant {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    smoltcp::time::Instant::from_micros(micros)
}
