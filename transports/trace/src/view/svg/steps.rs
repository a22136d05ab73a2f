//! Steps of a diagram, before their positions are known.

use super::{LANES_MAX, STEPS_MAX, SvgOptions};
use crate::exchange::{Exchange, exchanges};
use crate::record::{Content, Record, Trace};
use crate::view::events::sentence;
use crate::view::{Jobs, brief};
use pmi_core::command::Verb;
use std::collections::{BTreeMap, BTreeSet};

/// A rank of a job, or a connection with an unknown rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Job and rank.
    Rank(u32, u32),
    /// Number of the connection.
    Caller(u32),
}

/// All steps, in the order in which they are drawn.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) lanes: Vec<Lane>,
    /// Number of lanes that do not fit.
    pub(super) lanes_left_out: usize,
    pub(super) steps: Vec<Step>,
    /// Number of steps that do not fit.
    pub(super) steps_left_out: usize,
}

/// One row of the diagram.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) time_ns: u64,
    pub(super) what: StepKind,
}

/// Contents of a step.
#[derive(Debug)]
pub(super) enum StepKind {
    /// Ranks with the same request, each with an immediate reply.
    Ask(Vec<Ask>),
    /// Ranks enter a fence, identified by its number.
    Enter { fence: usize, asks: Vec<Ask> },
    /// A fence ends for these lanes, with the time that the first of them had waited.
    Leave { fence: usize, lanes: Vec<usize>, waited_ns: u64 },
    /// A reply that took time.
    Answer(Ask),
    /// Another event, of a lane or of the whole run.
    Event { lane: Option<usize>, text: String, is_bad: bool },
}

/// A request of one rank.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) lane: usize,
    pub(super) verb: Verb,
    pub(super) name: String,
    /// Its fields on one line.
    pub(super) text: String,
    pub(super) is_good: bool,
    /// The reply, unless it has a step of its own.
    pub(super) answer: Option<StepReply>,
    /// True if the reply comes in a later step.
    pub(super) waits: bool,
}

/// A reply.
#[derive(Clone, Debug)]
pub(super) struct StepReply {
    pub(super) text: String,
    pub(super) latency_ns: u64,
    pub(super) is_good: bool,
}

impl Steps {
    pub(super) fn of(trace: &Trace, options: &SvgOptions) -> Self {
        Builder::new(trace, options).build()
    }
}

struct Builder<'a> {
    trace: &'a Trace,
    jobs: Jobs<'a>,
    lanes: BTreeMap<Lane, usize>,
    /// By connection: its rank, once known.
    known: BTreeMap<u32, (u32, u32)>,
    lanes_left_out: usize,
}

impl<'a> Builder<'a> {
    fn new(trace: &'a Trace, options: &SvgOptions) -> Self {
        let known =
            trace.records.iter().filter_map(|one| Some((one.session?, (one.job, one.rank?))));
        let mut builder = Self {
            trace,
            jobs: Jobs::of(trace),
            lanes: BTreeMap::new(),
            known: known.collect(),
            lanes_left_out: 0,
        };
        let all: BTreeSet<Lane> =
            trace.records.iter().filter_map(|one| builder.lane_of(one)).collect();
        let is_wanted = |lane: &Lane| match lane {
            _ if options.ranks.is_empty() => true,
            Lane::Rank(_, rank) => options.ranks.contains(rank),
            Lane::Caller(_) => false,
        };
        let wanted: Vec<Lane> = all.into_iter().filter(is_wanted).collect();
        builder.lanes_left_out = wanted.len().saturating_sub(LANES_MAX);
        builder.lanes = wanted.into_iter().take(LANES_MAX).zip(0..).collect();
        builder
    }

    fn lane_of(&self, record: &Record) -> Option<Lane> {
        let known = || record.session.and_then(|session| self.known.get(&session)).copied();
        match record.rank.map(|rank| (record.job, rank)).or_else(known) {
            Some((job, rank)) => Some(Lane::Rank(job, rank)),
            None => record.session.map(Lane::Caller),
        }
    }

    fn lane(&self, record: &Record) -> Option<usize> {
        self.lanes.get(&self.lane_of(record)?).copied()
    }

    fn build(self) -> Steps {
        let all = exchanges(self.trace);
        let mut steps: Vec<(usize, Step)> = Vec::new();
        let mut fences = Fences::default();
        for exchange in &all {
            let Some((record, mut ask)) = self.ask(exchange) else { continue };
            let step = |what| Step { time_ns: record.time_ns, what };
            if exchange.verb == Verb::Fence {
                let fence = fences.enter(ask.lane, record.job, &ask.text);
                if let (Some(at), Some(latency)) =
                    (exchange.answered, exchange.latency_ns(self.trace))
                {
                    fences.leave(fence, at, ask.lane, latency);
                }
                ask.waits = exchange.answered.is_none();
                steps.push((exchange.asked, step(StepKind::Enter { fence, asks: vec![ask] })));
                continue;
            }
            let answered = exchange.answered.and_then(|at| self.trace.records.get(at));
            let is_late =
                exchange.answered.is_some_and(|at| at - exchange.asked > self.lanes.len() * 2 + 2);
            if let (Some(at), Some(record), true) = (exchange.answered, answered, is_late) {
                let late = Step { time_ns: record.time_ns, what: StepKind::Answer(ask.clone()) };
                steps.push((at, late));
                ask.answer = None;
                ask.waits = true;
            } else if answered.is_none() {
                ask.waits = true;
            }
            steps.push((exchange.asked, step(StepKind::Ask(vec![ask]))));
        }
        for (fence, end) in fences.ends.into_iter().enumerate() {
            let Some(FenceEnd { at, lanes, waited_ns }) = end else { continue };
            let time_ns = self.trace.records.get(at).map_or(0, |record| record.time_ns);
            steps.push((at, Step { time_ns, what: StepKind::Leave { fence, lanes, waited_ns } }));
        }
        self.add_others(&all, &mut steps);
        steps.sort_by_key(|(at, _)| *at);
        let mut merged = merge(steps.into_iter().map(|(_, step)| step));
        let steps_left_out = merged.len().saturating_sub(STEPS_MAX);
        merged.truncate(STEPS_MAX);
        Steps {
            lanes: self.lanes.keys().copied().collect(),
            lanes_left_out: self.lanes_left_out,
            steps: merged,
            steps_left_out,
        }
    }

    fn ask(&self, exchange: &Exchange) -> Option<(&'a Record, Ask)> {
        let record = self.trace.records.get(exchange.asked)?;
        let meaning = brief(&self.jobs, record)?;
        let answer = exchange.answered.and_then(|at| {
            let meaning = brief(&self.jobs, self.trace.records.get(at)?)?;
            let text = fields(&meaning.line(VALUE_MAX), &meaning.name);
            let latency_ns = exchange.latency_ns(self.trace)?;
            Some(StepReply { text, latency_ns, is_good: meaning.is_good })
        });
        let ask = Ask {
            lane: self.lane(record)?,
            verb: exchange.verb,
            text: fields(&meaning.line(VALUE_MAX), &meaning.name),
            name: meaning.name,
            is_good: meaning.is_good,
            answer,
            waits: false,
        };
        Some((record, ask))
    }

    /// Messages that are neither request nor reply, and all other records.
    fn add_others(&self, all: &[Exchange], steps: &mut Vec<(usize, Step)>) {
        let used: BTreeSet<usize> =
            all.iter().flat_map(|one| [Some(one.asked), one.answered]).flatten().collect();
        for (at, record) in self.trace.records.iter().enumerate() {
            let lane = self.lane(record);
            let (text, is_bad) = match &record.what {
                _ if used.contains(&at) || (lane.is_none() && self.lane_of(record).is_some()) => {
                    continue;
                }
                Content::Message { .. } => {
                    let Some(meaning) = brief(&self.jobs, record) else { continue };
                    (meaning.line(VALUE_MAX), !meaning.is_good || meaning.name == "abort")
                }
                // The start and end of a lane are visible without text.
                Content::Connected { .. }
                | Content::Closed
                | Content::Started { .. }
                | Content::Ended { code: 0 } => {
                    continue;
                }
                other => {
                    let is_bad =
                        !matches!(other, Content::Exited { code: 0 } | Content::Spawned(_));
                    (sentence(other).unwrap_or_default(), is_bad)
                }
            };
            steps.push((
                at,
                Step { time_ns: record.time_ns, what: StepKind::Event { lane, text, is_bad } },
            ));
        }
    }
}

/// Requests that belong to the same fence: the same number of the same kind, on every lane.
#[derive(Default)]
struct Fences {
    numbers: BTreeMap<(u32, String, usize), usize>,
    entered: BTreeMap<(usize, String), usize>,
    ends: Vec<Option<FenceEnd>>,
}

/// The end of a fence.
struct FenceEnd {
    at: usize,
    lanes: Vec<usize>,
    waited_ns: u64,
}

impl Fences {
    fn enter(&mut self, lane: usize, job: u32, kind: &str) -> usize {
        let count = self.entered.entry((lane, kind.to_owned())).or_default();
        *count += 1;
        let next = self.ends.len();
        let fence = *self.numbers.entry((job, kind.to_owned(), *count)).or_insert(next);
        if fence == next {
            self.ends.push(None);
        }
        fence
    }

    fn leave(&mut self, fence: usize, at: usize, lane: usize, waited_ns: u64) {
        let Some(end) = self.ends.get_mut(fence) else { return };
        let end = end.get_or_insert(FenceEnd { at, lanes: Vec::new(), waited_ns });
        end.at = end.at.min(at);
        end.waited_ns = end.waited_ns.max(waited_ns);
        end.lanes.push(lane);
    }
}

/// Merges steps of successive ranks with the same content.
fn merge(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let mut merged: Vec<Step> = Vec::new();
    for step in steps {
        let is_merged = match (merged.last_mut().map(|last| &mut last.what), &step.what) {
            (Some(StepKind::Ask(asks)), StepKind::Ask(more)) => join(asks, more),
            (
                Some(StepKind::Enter { fence, asks }),
                StepKind::Enter { fence: same, asks: more },
            ) => fence == same && join(asks, more),
            (
                Some(StepKind::Event { lane: Some(_), text, is_bad: false }),
                StepKind::Event { text: more, .. },
            ) => {
                // Successful ends of ranks are merged into one.
                text == more
            }
            _ => false,
        };
        if !is_merged {
            merged.push(step);
        }
    }
    merged
}

fn join(asks: &mut Vec<Ask>, more: &[Ask]) -> bool {
    let [one] = more else { return false };
    let fits = asks.iter().all(|ask| {
        ask.verb == one.verb
            && ask.name == one.name
            && ask.lane != one.lane
            && ask.is_good == one.is_good
    });
    let is_settled = |ask: &Ask| ask.answer.is_some() || ask.verb == Verb::Fence;
    let fits = fits && is_settled(one) && asks.iter().all(is_settled);
    if fits {
        asks.push(one.clone());
    }
    fits
}

/// A line without its leading name.
fn fields(line: &str, name: &str) -> String {
    line.strip_prefix(name).unwrap_or(line).trim_start().to_owned()
}

/// Largest number of characters of a value in a tooltip.
const VALUE_MAX: usize = 300;
