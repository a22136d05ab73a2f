//! Rule: a published name is found until unpublished or its job is removed, and no other name is.

use super::jobs::JobRules;
use super::{Census, Finding};
use crate::event::{Received, SimEvent};
use crate::scenario::RankRequest;
use litemap::LiteMap;

/// Published names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    names: LiteMap<Vec<u8>, Name>,
    /// Lookups without an answer, by rank and number.
    asked: LiteMap<(u32, u32), Lookup>,
    /// Number of removed jobs.
    forgotten: u32,
}

/// A service: its ports, and the state of its publication.
#[derive(Clone, Debug, Default)]
struct Name {
    ports: Vec<Port>,
    /// Rank that knows of its success.
    owner: Option<u32>,
    was_unpublished: bool,
}

/// A request to publish.
#[derive(Clone, Debug)]
struct Port {
    port: Vec<u8>,
    rank: u32,
    /// Serial number of the removal of its job, if it was removed.
    gone: Option<u32>,
}

/// State at the time of a lookup.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    is_sure: bool,
    forgotten: u32,
}

impl Names {
    pub(super) fn observe(
        &mut self,
        event: &SimEvent,
        (census, jobs): (&Census, &JobRules),
        found: &mut Vec<Finding>,
    ) {
        match event {
            SimEvent::Asked { rank, number, ask } => self.ask(*rank, *number, ask),
            SimEvent::Answered { rank, ask: RankRequest::Publish { service, .. }, got, .. }
                if got.is_success() =>
            {
                self.names.entry(service.clone()).or_default().owner = Some(*rank);
            }
            SimEvent::Answered { rank, number, ask: RankRequest::Lookup { service, .. }, got } => {
                let Some(asked) = self.asked.remove(&(*rank, *number)) else { return };
                if !census.is_wild && !census.of(*rank).is_tainted() {
                    found.extend(self.judge(*rank, service, asked, got).map(|what| ("name", what)));
                }
            }
            SimEvent::Forgotten { job } => {
                let Some(job) = jobs.named(job) else { return };
                self.forgotten += 1;
                let serial = self.forgotten;
                for (_, name) in self.names.iter_mut() {
                    name.owner = name.owner.filter(|owner| jobs.of(*owner) != job);
                    for port in name.ports.iter_mut().filter(|port| jobs.of(port.rank) == job) {
                        port.gone = port.gone.or(Some(serial));
                    }
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, rank: u32, number: u32, ask: &RankRequest) {
        match ask {
            RankRequest::Publish { service, port } => {
                let port = Port { port: port.clone(), rank, gone: None };
                self.names.entry(service.clone()).or_default().ports.push(port);
            }
            RankRequest::Unpublish { service } => {
                self.names.entry(service.clone()).or_default().was_unpublished = true;
            }
            RankRequest::Lookup { service, .. } => {
                let asked = Lookup { is_sure: self.is_sure(service), forgotten: self.forgotten };
                self.asked.insert((rank, number), asked);
            }
            _ => {}
        }
    }

    /// True if a service is certainly published.
    pub(super) fn is_sure(&self, service: &[u8]) -> bool {
        self.names.get(service).is_some_and(|name| name.owner.is_some() && !name.was_unpublished)
    }

    fn judge(&self, rank: u32, service: &[u8], asked: Lookup, got: &Received) -> Option<String> {
        let text = service.escape_ascii();
        let Some(port) = got.value() else {
            // Not if it was removed meanwhile, and published again.
            let was_sure = asked.is_sure && asked.forgotten == self.forgotten;
            let is_lost = was_sure && self.is_sure(service);
            let what = format!("rank {rank} did not find service `{text}`, which was published");
            return is_lost.then_some(what);
        };
        let ports = self.names.get(service).map_or(&[][..], |name| &name.ports);
        // A name that was removed after the request may still be the reply to it.
        let is_there = |known: &Port| known.gone.is_none_or(|gone| gone > asked.forgotten);
        let is_known = ports.iter().any(|known| known.port == port && is_there(known));
        let what = format!("rank {rank} found `{}` for service `{text}`", port.escape_ascii());
        (!is_known).then_some(what)
    }
}
