//! One part of a test, a check or a soak: its heading, what it leaves behind, and its time.

use crate::{beside, processes, step_times};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// What a part took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartTime {
    pub(crate) seconds: f64,
    /// Time of processors, of all processes that it has waited for.
    pub(crate) used: Duration,
}

/// Runs a part below its heading, and terminates what it leaves behind.
pub(crate) fn run<T>(heading: impl Display, part: impl FnOnce() -> T) -> (T, PartTime) {
    println!("\n{}{heading}", beside::HEADING);
    let (start, used) = (Instant::now(), step_times::processor_time());
    let result = part();
    for killed in processes::kill_marked(|_| true) {
        println!("left behind and terminated: {killed}");
    }
    let used = step_times::processor_time().saturating_sub(used);
    (result, PartTime { seconds: start.elapsed().as_secs_f64(), used })
}
