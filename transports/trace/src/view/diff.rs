//! Differences between two runs.
//!
//! The messages between each rank and its server are compared, rank by rank and in words. Times,
//! connections, the order between ranks and the spelling of a message do not count, nor do names of
//! key-value spaces and of exchanges, which differ in every run. Values count only on request,
//! since most hold addresses.

use super::{Jobs, who};
use crate::describe::{Meaning, describe};
use crate::record::{Direction, Trace};
use std::collections::BTreeMap;
use std::fmt;

/// Extent of the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffOptions {
    /// Values of keys too.
    pub values: bool,
}

/// A position at which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The rank: `3`, or `1:3` if there are several jobs.
    pub who: String,
    /// The number of its message, from 1.
    pub number: usize,
    /// The message of the first trace; `None` after its last one.
    pub first: Option<Side>,
    /// The message of the second trace.
    pub second: Option<Side>,
    /// Number of further ranks that differ.
    pub others_count: usize,
}

/// A message on one side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Time of the message.
    ///
    /// Units: nanoseconds since the start of its run.
    pub time_ns: u64,
    /// The sender.
    pub direction: Direction,
    /// Its meaning.
    pub meaning: Meaning,
}

/// Finds the first relevant difference: of all ranks that differ, the earliest one.
pub fn diff(first: &Trace, second: &Trace, options: DiffOptions) -> Option<Difference> {
    let (left, right) = (talks(first, options), talks(second, options));
    let keys: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).copied().collect();
    let mut found: Vec<(u64, Difference)> = Vec::new();
    for key in keys {
        let nothing = Conversation::default();
        let (left, right) =
            (left.get(&key).unwrap_or(&nothing), right.get(&key).unwrap_or(&nothing));
        let same = left.said.iter().zip(&right.said).take_while(|(a, b)| a.1 == b.1).count();
        let side = |talk: &Conversation| talk.said.get(same).map(|(side, _)| side.clone());
        let (first, second) = (side(left), side(right));
        if first.is_none() && second.is_none() {
            continue;
        }
        let time = first.as_ref().or(second.as_ref()).map_or(0, |side| side.time_ns);
        let who = if left.who.is_empty() { right.who.clone() } else { left.who.clone() };
        found.push((time, Difference { who, number: same + 1, first, second, others_count: 0 }));
    }
    let others_count = found.len().saturating_sub(1);
    let (_, earliest) = found.into_iter().min_by_key(|(time, one)| (*time, one.number))?;
    Some(Difference { others_count, ..earliest })
}

/// Messages between one rank and its server.
#[derive(Debug, Default)]
struct Conversation {
    who: String,
    /// Each message, and the part of it that is compared.
    said: Vec<(Side, String)>,
}

/// By the position of the job among all jobs, since job numbers may differ, then by rank.
fn talks(trace: &Trace, options: DiffOptions) -> BTreeMap<(usize, Option<u32>), Conversation> {
    let jobs = Jobs::of(trace);
    let places: BTreeMap<u32, usize> = trace.jobs().map(|facts| facts.job).zip(0..).collect();
    let mut talks = BTreeMap::<_, Conversation>::new();
    for (_, record, direction, bytes) in trace.messages() {
        let job = places.get(&record.job).copied().unwrap_or(usize::MAX);
        let talk = talks.entry((job, record.rank)).or_default();
        if talk.who.is_empty() {
            talk.who = who(&jobs, record);
        }
        let meaning = describe(direction, bytes);
        let compared = compared(&jobs, &meaning, options);
        talk.said.push((Side { time_ns: record.time_ns, direction, meaning }, compared));
    }
    talks
}

/// The parts of a message that are the same in every run of a program.
fn compared(jobs: &Jobs<'_>, meaning: &Meaning, options: DiffOptions) -> String {
    let mut text = meaning.name.clone();
    for (name, value) in &meaning.fields {
        let is_value = ["value", "port", "left", "right"].contains(name);
        text.push_str(&format!(" {name}="));
        match jobs.place(value) {
            Some(job) => text.push_str(&format!("(the name of job {job})")),
            None if is_value && !options.values => text.push_str("(a value)"),
            None => text.push_str(value),
        }
    }
    text
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Option<Side>| match side {
            Some(Side { direction: Direction::ToServer, meaning, .. }) => {
                format!("→ {}", meaning.line(VALUE_MAX))
            }
            Some(Side { meaning, .. }) => format!("← {}", meaning.line(VALUE_MAX)),
            None => "nothing more".to_owned(),
        };
        let Self { who, number, .. } = self;
        writeln!(f, "rank {who} differs in message {number}")?;
        writeln!(f, "  first:  {}", side(&self.first))?;
        write!(f, "  second: {}", side(&self.second))?;
        match self.others_count {
            0 => Ok(()),
            1 => write!(f, "\n1 other rank differs, too"),
            count => write!(f, "\n{count} other ranks differ, too"),
        }
    }
}

/// Largest number of characters of a value in the output.
const VALUE_MAX: usize = 100;
