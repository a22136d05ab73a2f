//! A run as the page draws it: messages with their transit times, fences, and events.

use crate::fields::connection::PmixConversation;
use crate::fields::{Fields, PMIX, pmix};
use crate::json::Json;
use pmi_core::command::{FenceGroup, Request};
use pmi_core::wire::{Framed, pmi1, pmi2};
use std::collections::VecDeque;

#[cfg(any(feature = "played", feature = "pmix"))]
mod world;

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

/// One fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Participants: `job`, `world`, `node`, or ranks.
    pub(crate) group: String,
    /// Its tag, if it has one.
    pub(crate) tag: Option<u32>,
    /// Number of participants; 0 if it is unknown.
    pub(crate) members: usize,
    /// Ranks that entered, with the times of their request and of its arrival.
    pub(crate) inside: Vec<Visit>,
}

/// A rank in a fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visit {
    /// Lane of the rank.
    pub(crate) lane: usize,
    /// Time of its request.
    pub(crate) asked: Moment,
    /// Time at which the server had read the request.
    pub(crate) came: Option<Moment>,
    /// Time at which the server released it.
    pub(crate) freed: Option<Moment>,
    /// Arrival of the reply.
    pub(crate) left: Option<Moment>,
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
        self.messages.push(Message { lane, is_up, sent, bytes, is_raw, parts: Vec::new() });
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

    /// Finds the fences in the messages.
    pub(crate) fn find_fences(&mut self) {
        // For each lane, the visits that have not ended: the fence, the index of the visit, and the
        // part of the answer that identifies the request if it has no tag.
        let mut open: Vec<VecDeque<(usize, usize, Option<u32>)>> =
            vec![VecDeque::new(); self.lanes.len()];
        for message in &self.messages {
            let fields = Fields::of(&message.bytes, message.is_up);
            let tag_shared = fields.tag(&message.bytes);
            let is_named = fields.display_name(&message.bytes, message.is_up) == Some("barrier_in");
            let is_awaited = |(.., tag): &(usize, usize, Option<u32>)| *tag == tag_shared;
            let answered = open[message.lane].iter().position(is_awaited);
            if !is_named && (message.is_up || tag_shared.is_none() || answered.is_none()) {
                continue;
            }
            if message.is_up {
                let (group, tag, members) = participants(&message.bytes, &self.lanes, message.lane);
                let job = self.lanes[message.lane].job;
                let lanes = &self.lanes;
                let is_same = |fence: &Fence| {
                    (&fence.group, fence.tag) == (&group, tag)
                        && fence.inside.iter().all(|visit| lanes[visit.lane].job == job)
                        && fence.inside.iter().all(|visit| visit.lane != message.lane)
                };
                let at = self.fences.iter().position(is_same).unwrap_or_else(|| {
                    self.fences.push(Fence { group, tag, members, inside: Vec::new() });
                    self.fences.len() - 1
                });
                let visits = &mut self.fences[at].inside;
                open[message.lane].push_back((at, visits.len(), tag_shared));
                let visit = Visit { lane: message.lane, asked: message.sent, ..Visit::default() };
                visits.push(Visit { came: message.arrival(), ..visit });
            } else if let Some((fence, visit, _)) =
                answered.and_then(|at| open[message.lane].remove(at))
            {
                let visit = &mut self.fences[fence].inside[visit];
                (visit.freed, visit.left) = (Some(message.sent), message.arrival());
            }
        }
    }

    /// The story as JSON for the page.
    pub(crate) fn write(&self, json: &mut Json) {
        json.list("lanes", &self.lanes, |json, lane| {
            json.object(|json| {
                json.text("name", &lane.name);
                json.plain("group", lane.group);
                json.text("dialect", &lane.dialect);
            });
        });
        let mut connections = vec![PmixConversation::default(); self.lanes.len()];
        json.list("messages", &self.messages, |json, message| {
            let connection = &mut connections[message.lane];
            json.object(|json| message.write(json, connection));
        });
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

    fn write(&self, json: &mut Json, connection: &mut PmixConversation) {
        json.plain("lane", self.lane);
        json.plain("up", self.is_up);
        self.sent.write(json, "sent");
        json.bytes("bytes", &self.bytes);
        json.plain("raw", self.is_raw);
        json.list("parts", &self.parts, |json, (at, had)| {
            json.object(|json| {
                at.write(json, "at");
                json.plain("had", had);
            });
        });
        let mut fields = Fields::of(&self.bytes, self.is_up);
        json.text("dialect", fields.dialect);
        let described = connection.describe(&mut fields, &self.bytes, self.is_up);
        let display_name = described.or_else(|| fields.display_name(&self.bytes, self.is_up));
        json.text("name", display_name.unwrap_or_default());
        json.list("fields", &fields.fields, |json, field| {
            json.object(|json| {
                json.text("name", &field.name);
                json.plain("start", field.start);
                json.plain("value", field.value);
                json.plain("end", field.end);
                if let Some(text) = &field.text {
                    json.text("text", text);
                }
            });
        });
    }
}

impl Fence {
    fn write(&self, json: &mut Json) {
        json.text("group", &self.group);
        json.maybe("tag", self.tag);
        json.plain("members", self.members);
        json.list("inside", &self.inside, |json, visit| {
            json.object(|json| {
                json.plain("lane", visit.lane);
                visit.asked.write(json, "asked");
                let moments = [("came", visit.came), ("freed", visit.freed), ("left", visit.left)];
                for (name, moment) in moments {
                    if let Some(moment) = moment {
                        moment.write(json, name);
                    }
                }
            });
        });
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

/// Participants of a fence, its tag, and their number.
fn participants(message: &[u8], lanes: &[Lane], lane: usize) -> (String, Option<u32>, usize) {
    let own = lanes.iter().filter(|other| other.job == lanes[lane].job);
    let size = own.clone().count();
    let job = ("job".into(), None, size);
    let Ok(Some(Request::Fence { group, tag })) = pmi1::read_request(message) else { return job };
    match group {
        FenceGroup::World if tag.is_none() => job,
        FenceGroup::World => ("world".into(), tag, size),
        FenceGroup::Node => {
            let node = lanes[lane].group;
            let members = own.filter(|other| other.group == node).count();
            (format!("node {node}"), tag, members)
        }
        FenceGroup::Ranks(list) => {
            let text = String::from_utf8_lossy(list).into_owned();
            let members = list.split(|byte| *byte == b',').count();
            (text, tag, members)
        }
    }
}
