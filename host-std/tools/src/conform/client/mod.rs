//! Checks a client: starts it under the real server, with one mutation for each run, and compares its
//! behaviour with that of a run without a mutation.
//!
//! ```text
//! twist    the mutations, and the expected behaviour under each
//! answers  mutations of single messages
//! message  messages taken apart and put together
//! door     the way by which the client finds the server
//! serve    one run; rank: its processes and connections
//! judge    the verdict on the behaviour of the client
//! ```

mod answers;
mod door;
mod judge;
mod message;
mod rank;
mod serve;
mod twist;

pub(crate) use twist::Twist;

use super::error::ConformError;
use super::matrix::{Row, not_tried};
use super::verdict::Verdict;
use judge::{Usual, judge};
use serve::Ran;
use std::time::Duration;

/// Program under test.
#[derive(Debug)]
pub(crate) struct Subject {
    words: Vec<String>,
    ranks: u32,
    limit: Duration,
    usual: Option<Usual>,
}

impl Subject {
    /// Program with the command line `words`, to be started as `ranks` ranks.
    pub(crate) const fn new(words: Vec<String>, ranks: u32, limit: Duration) -> Self {
        Self { words, ranks, limit, usual: None }
    }

    /// Runs the program once under the mutation; before the first run, twice without one.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub(crate) fn check(&mut self, twist: &'static Twist) -> Result<Row, ConformError> {
        let usual = match self.usual.take() {
            Some(usual) => usual,
            None => Usual::of(&self.run(Twist::PLAIN)?, &self.run(Twist::PLAIN)?),
        };
        let usual = self.usual.insert(usual).clone();
        let row = |finding| Row { case: twist.name.into(), tries: twist.tries.into(), finding };
        if !usual.is_well() && twist.name != Twist::PLAIN.name {
            // A failure without a mutation would hide the effect of this one.
            return Ok(row(Verdict::Refused.on(not_tried(Twist::PLAIN.name))));
        }
        Ok(row(judge(&self.run(twist)?, &usual, twist)))
    }

    fn run(&self, twist: &'static Twist) -> Result<Ran, ConformError> {
        serve::run(&self.words, self.ranks, twist, self.limit)
    }
}
