//! How every rank of a run began and ended, and what is told of it when the run is over: sentences for
//! people ([`text`]), a report for programs ([`json`]).

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
    /// How it ended; none if it was not seen to.
    pub end: Option<End>,
}

/// The end of a rank.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// When.
    pub at: Instant,
    /// How.
    pub ending: Ending,
    /// How far it had come with PMI.
    pub phase: Phase,
    /// The run was over then, so it had been asked to end, or was killed.
    pub was_over: bool,
    /// What it had said and heard.
    pub traffic: Traffic,
}

impl End {
    /// Whether nothing was wrong with it.
    pub const fn is_good(&self) -> bool {
        matches!(
            (self.ending, self.phase),
            (Ending::Exited(0) | Ending::Unseen, Phase::Silent | Phase::Finalized)
        )
    }
}
