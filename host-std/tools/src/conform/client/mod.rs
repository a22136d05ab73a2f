//! Checks a client: starts it under the real server, with one mutation for each run, and compares its
//! behaviour with that of a run without a mutation.
//!
//! ```text
//! mutation      the mutations, and the expected behaviour under each
//! answers       mutations of single messages
//! message       messages taken apart and put together
//! discovery     the way by which the client finds the server
//! serve         one run; rank_process: its processes and connections
//! judge         the verdict on the behaviour of the client
//! ```

mod answers;
mod discovery;
mod judge;
mod message;
mod mutation;
mod rank_process;
mod serve;

pub(crate) use mutation::Mutation;

use super::error::ConformError;
use super::matrix::{Row, not_tried};
use super::verdict::Verdict;
use judge::{Baseline, judge};
use serve::RunResult;
use std::time::Duration;

/// Program under test.
#[derive(Debug)]
pub(crate) struct Subject {
    words: Vec<String>,
    ranks: u32,
    limit: Duration,
    baseline: Option<Baseline>,
}

impl Subject {
    /// Program with the command line `words`, to be started as `ranks` ranks.
    pub(crate) const fn new(words: Vec<String>, ranks: u32, limit: Duration) -> Self {
        Self { words, ranks, limit, baseline: None }
    }

    /// Runs the program once under the mutation; before the first run, twice without one.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub(crate) fn check(&mut self, mutation: &'static Mutation) -> Result<Row, ConformError> {
        let baseline = match self.baseline.take() {
            Some(baseline) => baseline,
            None => Baseline::of(&self.run(Mutation::PLAIN)?, &self.run(Mutation::PLAIN)?),
        };
        let baseline = self.baseline.insert(baseline).clone();
        let row =
            |finding| Row { case: mutation.name.into(), tries: mutation.tries.into(), finding };
        if !baseline.is_success() && mutation.name != Mutation::PLAIN.name {
            // A failure without a mutation would hide the effect of this one.
            return Ok(row(Verdict::Refused.on(not_tried(Mutation::PLAIN.name))));
        }
        Ok(row(judge(&self.run(mutation)?, &baseline, mutation)))
    }

    fn run(&self, mutation: &'static Mutation) -> Result<RunResult, ConformError> {
        serve::run(&self.words, self.ranks, mutation, self.limit)
    }
}
