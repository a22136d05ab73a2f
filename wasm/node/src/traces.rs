//! The simulator.

use pmi_sim::sweep::{self, Case};
use pmi_sim::{Scenario, shipped};
use wasm_bindgen::prelude::wasm_bindgen;

/// A line for every run of all scenarios with `seeds` seeds from `from` on, as `pmi-sim hashes` prints
/// them.
///
/// # Errors
///
/// A scenario that cannot be played.
#[wasm_bindgen]
pub fn hashes(from: u32, seeds: u32) -> Result<String, String> {
    let cases = Case::all().map_err(|(name, error)| format!("{name}: {error}"))?;
    lines(&cases, from.into(), seeds.into())
}

/// The line of one run of a scenario that is built in.
///
/// # Errors
///
/// An unknown scenario, or one that cannot be played.
#[wasm_bindgen]
pub fn hash(name: &str, seed: u64) -> Result<String, String> {
    let text = shipped::text(name).ok_or_else(|| format!("there is no scenario `{name}`"))?;
    let scenario: Scenario = text.parse().map_err(|error| format!("{name}: {error}"))?;
    Ok(lines(&[Case::Fixed(Box::new(scenario))], seed, 1)?.trim_end().into())
}

fn lines(cases: &[Case], from: u64, seeds: u64) -> Result<String, String> {
    sweep::hashes(cases, from, seeds).map_err(|error| error.to_string())
}
