//! The fences of a run, found in its messages.

use super::{Lane, Moment, Story};
use crate::json::Json;
use pmi_core::command::{FenceGroup, Request};
use pmi_core::wire::pmi1;
use std::collections::VecDeque;

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
    /// Finds the fences. A rank enters the first fence with its participants in which it is not yet.
    pub(super) fn find_fences(&mut self) {
        // For each lane, the visits that have not ended: the fence, the index of the visit, and the
        // part of the answer that identifies the request if it has no tag.
        let mut open: Vec<VecDeque<(usize, usize, Option<u32>)>> =
            vec![VecDeque::new(); self.lanes.len()];
        // For each fence its job, and the lanes inside.
        let mut entered: Vec<(u32, Vec<bool>)> = Vec::new();
        for message in &self.messages {
            let (lane, tag_shared) = (message.lane, message.summary.tag);
            let is_awaited = |(.., tag): &(usize, usize, Option<u32>)| *tag == tag_shared;
            let answered = open[lane].iter().position(is_awaited);
            let is_named = message.summary.is_fence;
            if !is_named && (message.is_up || tag_shared.is_none() || answered.is_none()) {
                continue;
            }
            if message.is_up {
                let (group, tag) = participants(&message.bytes, &self.lanes, lane);
                let job = self.lanes[lane].job;
                let fences = self.fences.iter().zip(&entered).enumerate().rev();
                let own = fences.filter(|(_, (fence, (other, _)))| {
                    (&fence.group, fence.tag, *other) == (&group, tag, job)
                });
                // The earlier ones were entered in their order.
                let at = own.take_while(|(_, (_, (_, lanes)))| !lanes[lane]).last();
                let at = at.map(|(at, _)| at).unwrap_or_else(|| {
                    let members = members(&group, &self.lanes, lane);
                    self.fences.push(Fence { group, tag, members, inside: Vec::new() });
                    entered.push((job, vec![false; self.lanes.len()]));
                    self.fences.len() - 1
                });
                entered[at].1[lane] = true;
                let visits = &mut self.fences[at].inside;
                open[lane].push_back((at, visits.len(), tag_shared));
                let visit = Visit { lane, asked: message.sent, ..Visit::default() };
                visits.push(Visit { came: message.arrival(), ..visit });
            } else if let Some((fence, visit, _)) = answered.and_then(|at| open[lane].remove(at)) {
                let visit = &mut self.fences[fence].inside[visit];
                (visit.freed, visit.left) = (Some(message.sent), message.arrival());
            }
        }
    }
}

impl Fence {
    pub(super) fn write(&self, json: &mut Json) {
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

/// Participants of a fence, and its tag.
fn participants(message: &[u8], lanes: &[Lane], lane: usize) -> (String, Option<u32>) {
    let job = ("job".into(), None);
    let Ok(Some(Request::Fence { group, tag })) = pmi1::read_request(message) else { return job };
    match group {
        FenceGroup::World if tag.is_none() => job,
        FenceGroup::World => ("world".into(), tag),
        FenceGroup::Node => (format!("node {}", lanes[lane].group), tag),
        FenceGroup::Ranks(list) => (String::from_utf8_lossy(list).into_owned(), tag),
    }
}

/// Number of participants.
fn members(group: &str, lanes: &[Lane], lane: usize) -> usize {
    let own = lanes.iter().filter(|other| other.job == lanes[lane].job);
    match group {
        "job" | "world" => own.count(),
        group if group.starts_with("node ") => {
            own.filter(|other| other.group == lanes[lane].group).count()
        }
        ranks => ranks.split(',').count(),
    }
}
