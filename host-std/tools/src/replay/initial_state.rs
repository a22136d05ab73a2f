//! Initial state of a recorded server, as far as its answers show it.

use super::record::{RecordedMessage, RecordedRank};
use pmi_core::command::{Answer, Place, Reply, Request, Verb};
use pmi_core::wire::mapping::{PROCESS_MAPPING, read_mapping};
use pmi_core::wire::{Dialect, pmi1, pmi2};
use pmi_trace::{Direction, message};
use std::collections::{BTreeMap, BTreeSet};

/// Initial state of the server of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InitialState {
    /// Attributes, from the answers to requests for them.
    pub(super) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys that a rank has read and no rank has put.
    pub(super) space: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Size of the universe.
    pub(super) universe: Option<u32>,
    /// Application numbers, by rank.
    pub(super) appnums: BTreeMap<u32, i32>,
    /// Ranks that were answered with a newer version of PMI-1 than they had requested.
    pub(super) newer: BTreeSet<u32>,
}

impl InitialState {
    /// Derives the state from the messages of `job`.
    pub(super) fn of(job: u32, scripts: &BTreeMap<RecordedRank, Vec<RecordedMessage<'_>>>) -> Self {
        let mut initial = Self::default();
        let mut put = BTreeSet::new();
        let own = || scripts.iter().filter(move |((of, _), _)| *of == job);
        for line in own().flat_map(|(_, lines)| lines) {
            if let Some(Request::Put { key, .. }) = request(line) {
                put.insert(key.bytes().collect::<Vec<u8>>());
            }
        }
        for ((_, rank), lines) in own() {
            // In frames several requests may be open; the `thrid` of the client tags each.
            let mut asked: Vec<(&[u8], Request<'_>)> = Vec::new();
            for line in lines {
                if let Some(request) = request(line) {
                    asked.push((message::tag(line.bytes), request));
                } else if line.direction == Direction::ToClient {
                    let verb = message::verb(line.direction, line.bytes);
                    let tag = message::tag(line.bytes);
                    let fits = |(name, request): &(&[u8], Request<'_>)| {
                        *name == tag && request.verb() == verb
                    };
                    let at = asked.iter().position(fits);
                    if let Some((_, request)) = at.map(|at| asked.remove(at)) {
                        initial.add_answer(*rank, &request, line, &put);
                    }
                }
            }
        }
        initial
    }

    fn add_answer(
        &mut self,
        rank: u32,
        request: &Request<'_>,
        line: &RecordedMessage<'_>,
        put: &BTreeSet<Vec<u8>>,
    ) {
        let Some(reply) = read_reply(line.bytes) else { return };
        match (request, reply.answer) {
            (Request::Get { place, key, .. }, Answer::Value(value)) => {
                let (key, value): (Vec<u8>, Vec<u8>) =
                    (key.bytes().collect(), value.bytes().collect());
                let is_attribute = *place == Place::Attributes || key == PROCESS_MAPPING;
                if is_attribute {
                    self.attributes.insert(key, value);
                } else if *place != Place::Node && !put.contains(&key) {
                    self.space.insert(key, value);
                }
            }
            (Request::UniverseSize, Answer::Number(size)) => {
                self.universe = u32::try_from(size).ok()
            }
            (Request::Init { version: asked }, Answer::Version(agreed))
                if agreed.major == asked.major && agreed > *asked =>
            {
                self.newer.insert(rank);
            }
            (Request::AppNum, Answer::Number(number)) => {
                self.appnums.insert(rank, number);
            }
            (Request::FullInit { .. } | Request::InitAck { .. }, Answer::Identity(identity)) => {
                self.appnums.insert(rank, identity.appnum);
            }
            _ => {}
        }
    }

    /// Node label of each rank.
    pub(super) fn nodes(&self, ranks: u32) -> Vec<u32> {
        let mapping =
            self.attributes.get(PROCESS_MAPPING).and_then(|text| read_mapping(text, ranks));
        let nodes: Vec<u32> = mapping.into_iter().flatten().collect();
        if nodes.is_empty() { vec![0; usize::try_from(ranks).unwrap_or(0)] } else { nodes }
    }
}

/// The reply in a message of the server, unless it is malformed.
pub(super) fn read_reply(bytes: &[u8]) -> Option<Reply<'_>> {
    let reply = match message::is_frame(bytes) {
        true => pmi2::read_reply(bytes),
        false => pmi1::read_reply(bytes),
    };
    reply.ok()
}

/// Request in a message of a client.
pub(super) fn request<'a>(line: &RecordedMessage<'a>) -> Option<Request<'a>> {
    if line.direction == Direction::ToClient {
        return None;
    }
    let given = Dialect::detect(line.bytes).read_request(line.bytes).ok()?;
    given.request.filter(|request| request.verb() != Verb::Unknown)
}
