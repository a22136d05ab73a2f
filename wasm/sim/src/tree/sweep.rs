//! Many seeds.

use super::mutant::TreeMutant;
use super::plan::TreePlan;
use super::world::TreeWorld;
use crate::check::Violation;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A run, and the first rule that it broke.
#[derive(Clone, Debug)]
pub struct TreeRun {
    /// Its seed.
    pub seed: u64,
    /// The rule, if any.
    pub violation: Option<Violation>,
    /// Steps of the world.
    pub steps: u64,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct TreeSummary {
    /// Number of runs.
    pub runs: u64,
    /// Steps of all.
    pub steps: u64,
    /// Runs that broke a rule, by seed.
    pub broken: Vec<TreeRun>,
}

/// Runs the plan of a seed.
pub fn run(seed: u64, mutant: Option<TreeMutant>) -> TreeRun {
    let mut world = TreeWorld::new(TreePlan::of_seed(seed), seed, mutant);
    world.run();
    let violation = world.checks().violations().first().cloned();
    TreeRun { seed, violation, steps: world.steps() }
}

/// Runs seeds `from` to `from + seeds`, on as many threads as there are processors.
pub fn sweep(from: u64, seeds: u64, mutant: Option<TreeMutant>) -> TreeSummary {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(0);
    let work = || {
        let mut summary = TreeSummary::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= seeds {
                return summary;
            }
            let run = run(from + at, mutant);
            summary.runs += 1;
            summary.steps += run.steps;
            if run.violation.is_some() {
                summary.broken.push(run);
            }
        }
    };
    let mut all = TreeSummary::default();
    let parts: Vec<TreeSummary> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A panic of a node ends the sweep, with its message.
        threads.into_iter().map(|thread| thread.join().expect("nodes do not panic")).collect()
    });
    for part in parts {
        all.runs += part.runs;
        all.steps += part.steps;
        all.broken.extend(part.broken);
    }
    all.broken.sort_by_key(|run| run.seed);
    all
}
