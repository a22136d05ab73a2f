//! A run as the page draws it: messages with their transit times, fences, and events.

use crate::fields::{PMIX, pmix};
use crate::json::Json;
use pmi_core::wire::{Framed, pmi2};
use std::collections::VecDeque;

mod columns;
mod fences;
#[cfg(feature = "tree")]
mod tree;
#[cfg(any(feature = "played", feature = "pmix"))]
mod world;

use columns::{DIALECTS, MessageSummary};
pub(crate) use fences::Fence;

/// Messages and events of a run, simulated or recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    /// A lane for each rank: its name, and the node or job it belongs to.
    pub(crate) lanes: Vec<Lane>,
    /// Messages, in the order in which they were sent.
    pub(crate) messages: Vec<Message>,
    /// Other events, in order.
    pub(crate) events: Vec<StoryEvent>,
    /// Fences, in the order in which they began.
    pub(crate) fences: Vec<Fence>,
}

/// The lane of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Its name in one word, `2` or `1:2`.
    pub(crate) name: String,
    /// Its job.
    pub(crate) job: u32,
    /// Number of the group of connected jobs.
    pub(crate) group: u32,
    /// The version of PMI it requests, if known in advance.
    pub(crate) dialect: String,
}

/// A moment: the time, and the number of the step of the world or of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Nanoseconds since the start.
    pub(crate) ns: u64,
    /// Number of the step.
    pub(crate) step: u64,
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Lane of the message.
    pub(crate) lane: usize,
    /// The lane at its other end; `None` for that of the server, which is the only one but in trees.
    #[cfg(feature = "tree")]
    pub(crate) peer: Option<usize>,
    /// True from the rank to the server.
    pub(crate) is_up: bool,
    /// Time of sending.
    pub(crate) sent: Moment,
    /// All of its bytes.
    pub(crate) bytes: Vec<u8>,
    /// True if no client made it.
    pub(crate) is_raw: bool,
    /// Arrival times, with the number of bytes that had arrived.
    pub(crate) parts: Vec<(Moment, usize)>,
    /// Its name and outcome; known when the story is [finished](Story::finish).
    pub(crate) summary: MessageSummary,
}

/// An event other than a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoryEvent {
    /// Time of the event.
    pub(crate) at: Moment,
    /// Lane of the event; `None` for that of the server.
    pub(crate) lane: Option<usize>,
    /// Kind of the event, in one word.
    pub(crate) kind: &'static str,
    /// Description.
    pub(crate) text: String,
}

impl Story {
    /// Appends sent bytes to the lane of a rank: to its last message, if that is incomplete.
    pub(crate) fn say(
        &mut self,
        lane: usize,
        is_up: bool,
        sent: Moment,
        bytes: &[u8],
        is_raw: bool,
        pipes: &mut Pipes,
    ) {
        let pipe = pipes.of(lane, is_up);
        if let Some((index, last)) = pipe.last.and_then(|at| Some((at, self.messages.get_mut(at)?)))
            && !(is_raw || last.is_raw || is_whole(&last.bytes))
        {
            last.bytes.extend_from_slice(bytes);
            // Its former part may have arrived already.
            if pipe.flying.back() != Some(&index) {
                pipe.flying.push_back(index);
            }
            return;
        }
        pipe.last = Some(self.messages.len());
        pipe.flying.push_back(self.messages.len());
        let bytes = bytes.to_vec();
        self.messages.push(Message { lane, is_up, sent, bytes, is_raw, ..Message::default() });
    }

    /// Records the arrival of `len` bytes, the oldest first.
    pub(crate) fn recv(
        &mut self,
        lane: usize,
        is_up: bool,
        at: Moment,
        mut len: usize,
        pipes: &mut Pipes,
    ) {
        let flying = &mut pipes.of(lane, is_up).flying;
        while len > 0 {
            let Some(message) = flying.front().and_then(|at| self.messages.get_mut(*at)) else {
                return;
            };
            let had = message.parts.last().map_or(0, |(_, had)| *had);
            let taken = len.min(message.bytes.len() - had);
            message.parts.push((at, had + taken));
            len -= taken;
            if had + taken < message.bytes.len() {
                return;
            }
            flying.pop_front();
        }
    }

    /// Completes a story whose messages are all known: names them, and finds the fences.
    pub(crate) fn finish(&mut self) {
        self.summarize();
        self.find_fences();
    }

    /// The story as JSON for the page, without its messages, which are [columns](Self::numbers).
    pub(crate) fn write(&self, json: &mut Json) {
        json.list("lanes", &self.lanes, |json, lane| {
            json.object(|json| {
                json.text("name", &lane.name);
                json.plain("group", lane.group);
                json.text("dialect", &lane.dialect);
            });
        });
        json.list("names", self.names(), |json, name| json.word(name));
        json.list("dialects", DIALECTS, |json, dialect| json.word(dialect));
        json.list("events", &self.events, |json, event| {
            json.object(|json| {
                event.at.write(json, "at");
                json.maybe("lane", event.lane);
                json.text("kind", event.kind);
                json.text("text", &event.text);
            });
        });
        json.list("fences", &self.fences, |json, fence| {
            json.object(|json| fence.write(json));
        });
    }
}

impl Message {
    /// Time at which all bytes had arrived.
    fn arrival(&self) -> Option<Moment> {
        let (at, had) = self.parts.last()?;
        (*had == self.bytes.len()).then_some(*at)
    }
}

impl Moment {
    fn write(self, json: &mut Json, name: &str) {
        json.list(name, [self.ns, self.step], |json, number| json.value(number));
    }
}

/// Bytes in transit, for each lane and direction.
#[derive(Debug)]
pub(crate) struct Pipes(Vec<[PipeStory; 2]>);

#[derive(Clone, Debug, Default)]
pub(crate) struct PipeStory {
    /// The message that was sent last.
    last: Option<usize>,
    /// Messages of which not all bytes have arrived.
    flying: VecDeque<usize>,
}

impl Pipes {
    /// Creates the state for a number of lanes.
    pub(crate) fn new(lanes: usize) -> Self {
        Self(vec![<[PipeStory; 2]>::default(); lanes])
    }

    fn of(&mut self, lane: usize, is_up: bool) -> &mut PipeStory {
        &mut self.0[lane][usize::from(is_up)]
    }
}

/// True if a message has its end.
fn is_whole(bytes: &[u8]) -> bool {
    if PMIX && let Some(is_whole) = pmix::is_whole(bytes) {
        return is_whole;
    }
    match pmi2::frame(bytes) {
        Ok(framed) => framed != Framed::Partial,
        Err(_) => bytes.ends_with(b"\n"),
    }
}
