//! Start and end of every rank of a run, and the reports on them when the run is over: sentences for
//! users ([`text`]), a report for programs ([`json`]).

pub mod json;
pub mod text;

use crate::launch::plan::Plan;
use crate::launch::process::Ending;
use crate::server::flush::Traffic;
use crate::verdict::Phase;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

/// When what happened, as far as it has.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The moment the launcher began, by the clock on the wall.
    pub began_at: SystemTime,
    /// The same, to count from.
    pub began: Instant,
    /// All ranks of the first job were started.
    pub all_started: Option<Instant>,
    /// The first rank ended.
    pub first_end: Option<Instant>,
    /// The last one did.
    pub last_end: Option<Instant>,
}

/// One rank.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its job.
    pub plan: Rc<Plan>,
    /// Its rank in it.
    pub rank: u32,
    /// Its process.
    pub pid: i32,
    /// When it was started.
    pub started: Instant,
    /// Its end; `None` if it was not observed.
    pub end: Option<End>,
}

/// The end of a rank.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// When.
    pub at: Instant,
    /// Exit code or signal.
    pub ending: Ending,
    /// Its PMI phase at that moment.
    pub phase: Phase,
    /// The run was over then, so it had been asked to end, or was killed.
    pub was_over: bool,
    /// Its messages and bytes, both directions.
    pub traffic: Traffic,
}

impl End {
    /// True if the rank ended without an error.
    pub const fn is_good(&self) -> bool {
        matches!(
            (self.ending, self.phase),
            (Ending::Exited(0) | Ending::Unseen, Phase::Silent | Phase::Finalized)
        )
    }
}
