//! Many seeds of many scenarios, and the broken rules.

use crate::mutant::MutantKind;
use crate::random;
use crate::scenario::{Scenario, ScenarioError};
use crate::shipped::SHIPPED;
use crate::trace;
use crate::world::{Options, World};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Write;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A scenario to be swept.
#[derive(Clone, Debug)]
pub enum Case {
    /// The same for every seed.
    Fixed(Box<Scenario>),
    /// A scenario generated from each seed.
    Random,
}

/// A run that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRun {
    /// The scenario.
    pub scenario: Scenario,
    /// The seed.
    pub seed: u64,
    /// The rule that was broken first.
    pub rule: String,
    /// The observation.
    pub what: String,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of runs.
    pub runs: u64,
    /// Number of steps of all runs.
    pub steps: u64,
    /// The runs that broke a rule, in the order of the cases and seeds.
    pub broken: Vec<BrokenRun>,
}

impl Case {
    /// All cases of a sweep: the scenarios that come with this crate, those that PMIx ranks can
    /// play also in PMIx, and random ones.
    ///
    /// # Errors
    ///
    /// A scenario that cannot be read, with its name.
    pub fn all() -> Result<Vec<Self>, (String, ScenarioError)> {
        let mut all = Vec::new();
        for (name, text) in SHIPPED {
            let scenario: Scenario = text.parse().map_err(|error| (String::from(*name), error))?;
            let as_pmix = scenario.in_pmix().ok().filter(|as_pmix| *as_pmix != scenario);
            all.extend([Some(scenario), as_pmix].into_iter().flatten());
        }
        let fixed = all.into_iter().map(|scenario| Self::Fixed(Box::new(scenario)));
        Ok(fixed.chain([Self::Random]).collect())
    }

    /// Name of the case.
    pub fn name(&self) -> &str {
        match self {
            Self::Fixed(scenario) => &scenario.name,
            Self::Random => "random",
        }
    }

    /// The scenario for a seed.
    pub fn scenario(&self, seed: u64) -> Scenario {
        match self {
            Self::Fixed(scenario) => (**scenario).clone(),
            Self::Random => random::scenario(seed),
        }
    }
}

/// Runs one seed; returns the first broken rule and the number of steps.
///
/// A panic counts as a broken rule where panics unwind; where they abort, it is the end.
pub fn run(scenario: &Scenario, seed: u64, mutant: Option<MutantKind>) -> (Option<BrokenRun>, u64) {
    let broken = |rule: &str, what: String| BrokenRun {
        scenario: scenario.clone(),
        seed,
        rule: rule.into(),
        what,
    };
    let options = Options { records: false, mutant, ..Options::default() };
    RUNNING.set(Some((scenario.name.clone(), seed)));
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::with(scenario, seed, options)?;
        let is_quiet = world.run(STEPS_MAX);
        Ok((is_quiet, world.steps(), world.violations().first().cloned()))
    }));
    match ran {
        Err(panic) => (Some(broken("panic", said(&*panic))), 0),
        Ok(Err(error)) => (Some(broken("scenario", ScenarioError::to_string(&error))), 0),
        Ok(Ok((_, steps, Some(violation)))) => {
            (Some(broken(violation.rule, violation.what)), steps)
        }
        Ok(Ok((false, steps, None))) => {
            (Some(broken("quiet", format!("it is not quiet after {STEPS_MAX} steps"))), steps)
        }
        Ok(Ok((true, steps, None))) => (None, steps),
    }
}

/// Runs seeds `from` to `from + seeds` of every case, on as many threads as there are processors.
pub fn sweep(cases: &[Case], from: u64, seeds: u64, mutant: Option<MutantKind>) -> Summary {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    // Pieces small enough that the threads end together, in an order that does not depend on them.
    let pieces: Vec<(usize, u64)> = (0..seeds.div_ceil(PIECE))
        .flat_map(|piece| (0..cases.len()).map(move |case| (case, from + piece * PIECE)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((case, first)) = pieces.get(at).copied() else { return done };
            let mut summary = Summary::default();
            for seed in first..(first + PIECE).min(from + seeds) {
                let (broken, steps) = run(&cases[case].scenario(seed), seed, mutant);
                summary.runs += 1;
                summary.steps += steps;
                summary.broken.extend(broken);
            }
            done.push(((case, first), summary));
        }
    };
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A thread that panicked has lost its pieces, and the sweep with it.
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("runs catch panics"))
            .collect::<Vec<_>>()
    });
    done.sort_by_key(|(piece, _)| *piece);
    let mut all = Summary::default();
    for (_, summary) in done {
        all.runs += summary.runs;
        all.steps += summary.steps;
        all.broken.extend(summary.broken);
    }
    all
}

/// A line for every run: the scenario, the seed, and the hash of the whole trace.
///
/// # Errors
///
/// A scenario that cannot be played.
pub fn hashes(cases: &[Case], from: u64, seeds: u64) -> Result<String, ScenarioError> {
    let mut lines = String::new();
    for case in cases {
        for seed in from..from + seeds {
            let mut world = World::new(&case.scenario(seed), seed)?;
            world.run(STEPS_MAX);
            let hash = trace::hash(trace::write(&world).as_bytes());
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{} {seed} {hash:016x}", case.name());
        }
    }
    Ok(lines)
}

/// The run of this thread, for a panic handler.
pub fn running() -> Option<(String, u64)> {
    RUNNING.with_borrow(Clone::clone)
}

thread_local! {
    static RUNNING: RefCell<Option<(String, u64)>> = const { RefCell::new(None) };
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").into()
}

/// Far above the longest run of any scenario here.
const STEPS_MAX: u64 = 2_000_000;

/// Seeds that one thread takes at a time.
const PIECE: u64 = 16;
