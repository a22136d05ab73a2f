//! A run as text: all inputs that repeat it, and its events line by line.

use crate::scenario::{Scenario, ScenarioError};
use crate::world::{Injected, Options, World};
use std::fmt::Write;

/// A parsed trace: the inputs of the run, and its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The scenario.
    pub scenario: Scenario,
    /// The seed.
    pub seed: u64,
    /// Injections of the run.
    pub injections: Vec<Injected>,
    /// Number of steps.
    pub steps: u64,
    /// Events, one line each.
    pub lines: Vec<String>,
}

/// First difference between a run and a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line of the events, from 1.
    pub line: usize,
    /// The line of the trace; `None` after its end.
    pub recorded: Option<String>,
    /// The line of the run; `None` after its end.
    pub happened: Option<String>,
}

/// Error of an invalid trace.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceError {
    /// It does not begin as a trace does.
    #[error("a trace begins with `{HEAD}` and a seed")]
    NotATrace,
    /// Its scenario cannot be read.
    #[error("the scenario of the trace: {0}")]
    Scenario(ScenarioError),
}

/// Writes the trace of a world, as far as it has come.
pub fn write(world: &World) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{HEAD}\nseed {}", world.seed());
    for line in world.scenario().to_string().lines() {
        let _ = writeln!(text, "| {line}");
    }
    for injected in world.injections() {
        let _ = writeln!(text, "+ {injected}");
    }
    for entry in world.entries() {
        let _ = writeln!(text, "{entry}");
    }
    let _ = writeln!(text, "end {} steps, hash {:016x}", world.steps(), hash(text.as_bytes()));
    text
}

/// Reads a trace.
///
/// # Errors
///
/// [`TraceError`].
pub fn read(text: &str) -> Result<Trace, TraceError> {
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err(TraceError::NotATrace);
    }
    let seed = lines.next().and_then(|line| line.strip_prefix("seed ")?.parse().ok());
    let seed = seed.ok_or(TraceError::NotATrace)?;
    let (mut scenario, mut injections, mut events) = (String::new(), Vec::new(), Vec::new());
    // A trace without an end is truncated.
    let mut steps = u64::MAX;
    for line in lines {
        if let Some(line) = line.strip_prefix("| ").or(line.strip_prefix('|')) {
            scenario.extend([line, "\n"]);
        } else if let Some(line) = line.strip_prefix("+ ") {
            injections.push(line.parse().map_err(TraceError::Scenario)?);
        } else if let Some(end) = line.strip_prefix("end ") {
            let number = end.split(' ').next().and_then(|number| number.parse().ok());
            steps = number.ok_or(TraceError::NotATrace)?;
            break;
        } else {
            events.push(line.to_owned());
        }
    }
    let scenario = scenario.parse().map_err(TraceError::Scenario)?;
    Ok(Trace { scenario, seed, injections, steps, lines: events })
}

/// Repeats the run of a trace and returns the first difference, if there is one.
///
/// # Errors
///
/// A scenario that cannot be played.
pub fn replay(trace: &Trace) -> Result<Option<Difference>, ScenarioError> {
    let Trace { scenario, seed, injections, steps, lines } = trace;
    let mut world = World::again(scenario, *seed, Options::default(), injections, *steps)?;
    // Detecting that the world is quiet is no step.
    if lines.len() > world.entries().len() {
        world.step();
    }
    let mut happened = world.entries().iter().map(ToString::to_string);
    let mut recorded = lines.iter().cloned();
    let mut line = 0;
    loop {
        line += 1;
        match (recorded.next(), happened.next()) {
            (None, None) => return Ok(None),
            (recorded, happened) if recorded == happened => {}
            (recorded, happened) => return Ok(Some(Difference { line, recorded, happened })),
        }
    }
}

/// FNV-1a over 64 bits: short, and the same on every machine.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing more".into());
        write!(
            f,
            "event {} differs\n  recorded: {}\n  happened: {}",
            self.line,
            text(&self.recorded),
            text(&self.happened)
        )
    }
}

const HEAD: &str = "pmi-sim trace 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FaultKind;
    use crate::world::Injection;

    const TEXT: &str =
        "ranks 2\nscript all\n open\n put k-$r \"v#$r\"\n fence\n get k-$next\n finalize\nend";

    #[test]
    fn trace_runs_again_bit_for_bit_and_shows_where_it_does_not() {
        let mut world = World::new(&TEXT.parse().unwrap(), 9).unwrap();
        assert!(world.run(u64::MAX));
        let text = write(&world);
        let trace = read(&text).unwrap();
        assert_eq!(replay(&trace).unwrap(), None);
        let mut other = trace.clone();
        other.lines[5].push('x');
        assert_eq!(replay(&other).unwrap().unwrap().line, 6);
        other.lines = trace.lines[..3].to_vec();
        let difference = replay(&other).unwrap().unwrap();
        assert_eq!((difference.line, difference.recorded), (4, None));
        assert!(text.lines().last().unwrap().starts_with("end "));
    }

    #[test]
    fn injections_are_part_of_a_trace() {
        let mut world = World::new(&TEXT.parse().unwrap(), 9).unwrap();
        world.run(20);
        world.inject(Injection::order(0, "put by-hand 1").unwrap());
        world.run(10);
        // In the middle, then to the end, then after it.
        assert_eq!(replay(&read(&write(&world)).unwrap()).unwrap(), None);
        assert!(world.run(u64::MAX));
        world.inject(Injection::Fault { rank: 1, what: FaultKind::Kill });
        assert!(world.run(u64::MAX));
        let text = write(&world);
        assert!(text.contains("\n+ 20 order 0 put by-hand 1\n"), "{text}");
        let trace = read(&text).unwrap();
        assert_eq!(replay(&trace).unwrap(), None);
        let without = Trace { injections: Vec::new(), ..trace };
        assert!(replay(&without).unwrap().is_some());
    }

    #[test]
    fn invalid_traces_are_rejected() {
        assert_eq!(read("hello"), Err(TraceError::NotATrace));
        assert_eq!(read("pmi-sim trace 1\nseed x"), Err(TraceError::NotATrace));
        let bad = read("pmi-sim trace 1\nseed 1\n| jump\n");
        assert!(matches!(bad, Err(TraceError::Scenario(error)) if error.line == 1));
    }
}
