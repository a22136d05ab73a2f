//! Reduces a scenario that breaks a rule to a smaller one that breaks it too.

use crate::mutant::MutantKind;
use crate::rng::{Percent, Span};
use crate::scenario::{GroupPhrase, HostPlan, Scenario, Script, Step, Traits, Who};
use crate::sweep::{BrokenRun, run};

/// Result of shrinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// Smallest scenario found, with its seed.
    pub broken: BrokenRun,
    /// Number of smaller scenarios tried.
    pub tried: u64,
}

/// Removes parts of `broken` while the same rule still breaks.
///
/// Every candidate is tried with the seed and a few others, since a smaller scenario draws other
/// numbers.
pub fn shrink(broken: &BrokenRun, mutant: Option<MutantKind>) -> Shrunk {
    let mut best = broken.clone();
    best.scenario = by_rank(&best.scenario);
    if let Some(found) = breaks(&best.scenario, &best, mutant) {
        best = found;
    } else {
        best = broken.clone();
    }
    let mut tried = 0;
    loop {
        let found = candidates(&best.scenario).find_map(|candidate| {
            tried += 1;
            breaks(&candidate, &best, mutant)
        });
        match found {
            Some(smaller) if tried < TRIES_MAX => best = smaller,
            _ => break,
        }
    }
    best.scenario.seed = Some(best.seed);
    if !best.scenario.name.ends_with("-small") {
        best.scenario.name.push_str("-small");
    }
    Shrunk { broken: best, tried }
}

fn breaks(scenario: &Scenario, like: &BrokenRun, mutant: Option<MutantKind>) -> Option<BrokenRun> {
    let seeds = [like.seed].into_iter().chain(0..SEEDS);
    let mut runs = seeds.filter_map(|seed| run(scenario, seed, mutant).0);
    runs.find(|broken| broken.rule == like.rule)
}

/// The same scenario with a script for each rank.
fn by_rank(scenario: &Scenario) -> Scenario {
    let script =
        |rank| Script { who: Who::These(vec![rank]), steps: scenario.steps(rank).to_vec() };
    Scenario { scripts: (0..scenario.ranks).map(script).collect(), ..scenario.clone() }
}

/// Smaller scenarios, the smallest first.
fn candidates(scenario: &Scenario) -> impl Iterator<Item = Scenario> {
    let mut list = Vec::new();
    let mut offer = |smaller: Scenario| {
        if smaller != *scenario {
            list.push(smaller);
        }
    };
    for rank in (0..scenario.ranks).rev().filter(|_| scenario.ranks > 1) {
        offer(without_rank(scenario, rank));
    }
    for at in 0..scenario.faults.len() {
        let mut smaller = scenario.clone();
        smaller.faults.remove(at);
        offer(smaller);
    }
    for at in 0..scenario.scripts.len() {
        let steps = &scenario.scripts[at].steps;
        for (from, to) in halves(steps.len()) {
            let mut smaller = scenario.clone();
            smaller.scripts[at].steps.drain(from..to);
            offer(smaller);
        }
        for (step, inner) in steps.iter().enumerate() {
            if let Step::Repeat { steps, .. } | Step::Each { steps, .. } = inner {
                let mut smaller = scenario.clone();
                smaller.scripts[at].steps.splice(step..=step, steps.clone());
                offer(smaller);
            }
        }
    }
    offer(Scenario { nodes: 1, ..scenario.clone() });
    offer(Scenario { host: HostPlan::default(), ..scenario.clone() });
    offer(Scenario { all: Traits::default(), ..scenario.clone() });
    offer(Scenario { expects: Vec::new(), about: Vec::new(), ..scenario.clone() });
    for plain in plainer(&scenario.all) {
        offer(Scenario { all: plain, ..scenario.clone() });
    }
    for (rank, traits) in &scenario.only {
        let mut smaller = scenario.clone();
        smaller.only.remove(rank);
        offer(smaller);
        for plain in plainer(traits) {
            let mut smaller = scenario.clone();
            smaller.only.insert(*rank, plain);
            offer(smaller);
        }
    }
    for (at, fault) in scenario.faults.iter().enumerate() {
        let mut smaller = scenario.clone();
        smaller.faults[at].chance = Percent(100);
        offer(smaller.clone());
        smaller.faults[at].at = Span::just(fault.at.from);
        offer(smaller);
    }
    list.into_iter()
}

/// Removable parts of a list of `len`: halves, quarters, and so on to single ones.
fn halves(len: usize) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut size = len;
    while size > 0 {
        parts.extend((0..len).step_by(size).map(|from| (from, (from + size).min(len))));
        size /= 2;
    }
    parts
}

/// The same with one trait less.
fn plainer(traits: &Traits) -> [Traits; 11] {
    let traits = *traits;
    [
        Traits { dialect: None, ..traits },
        Traits { connects_by_itself: None, ..traits },
        Traits { start: None, ..traits },
        Traits { pace: None, ..traits },
        Traits { latency: None, ..traits },
        Traits { split: None, ..traits },
        Traits { join: None, ..traits },
        Traits { room: None, ..traits },
        Traits { stall: None, ..traits },
        Traits { flip: None, ..traits },
        Traits { reset: None, ..traits },
    ]
}

/// The same without one rank; higher ranks move down.
fn without_rank(scenario: &Scenario, gone: u32) -> Scenario {
    let moved = |rank: u32| if rank > gone { rank - 1 } else { rank };
    let kept = |who: &Who| match who {
        Who::These(ranks) => {
            let ranks: Vec<u32> =
                ranks.iter().filter(|rank| **rank != gone).map(|rank| moved(*rank)).collect();
            if ranks.is_empty() { Who::NoRank } else { Who::These(ranks) }
        }
        other => other.clone(),
    };
    let mut smaller = scenario.clone();
    smaller.ranks -= 1;
    smaller.nodes = smaller.nodes.min(smaller.ranks);
    for job in &mut smaller.jobs {
        let is_own = (job.first..job.first + job.size).contains(&gone);
        job.size -= u32::from(is_own);
        job.first -= u32::from(gone < job.first);
    }
    smaller.jobs.retain(|job| job.size > 0);
    smaller.only = scenario
        .only
        .iter()
        .filter(|(rank, _)| **rank != gone)
        .map(|(rank, traits)| (moved(*rank), *traits))
        .collect();
    smaller.scripts.iter_mut().for_each(|script| script.who = kept(&script.who));
    smaller.scripts.retain(|script| script.who != Who::NoRank);
    smaller.faults.retain(|fault| fault.rank != Some(gone));
    smaller.faults.iter_mut().for_each(|fault| fault.rank = fault.rank.map(moved));
    // A list of ranks in a fence may name the last one, which no longer exists.
    let last = smaller.ranks;
    for script in &mut smaller.scripts {
        script.steps.retain(|step| !names_rank(step, last));
    }
    smaller.expects.clear();
    smaller
}

fn names_rank(step: &Step, rank: u32) -> bool {
    match step {
        Step::Fence { group: GroupPhrase::Ranks(list), .. } => {
            let number = rank.to_string();
            list.0.split(|b| *b == b',').any(|named| named == number.as_bytes())
        }
        Step::Also(step) => names_rank(step, rank),
        _ => false,
    }
}

/// Seeds that are tried besides the one that is known to break.
const SEEDS: u64 = 12;

/// Upper bound of the tries; an ordinary scenario needs far fewer.
const TRIES_MAX: u64 = 20_000;
