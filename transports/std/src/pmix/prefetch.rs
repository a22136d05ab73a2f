//! Data that is requested before a get asks for it.
//!
//! The hints of a program say which processes it will read. Their data is requested without a wait, some
//! processes at a time, and is stored as that of gets is. Nothing is reported: a get of a process whose data
//! is under way takes it when it arrives, and requests what is missing.

use std::collections::{BTreeSet, VecDeque};

use pmi_core::client::pmix::{DataRealm, PmixRequest, PmixTicket};
use pmi_core::error::Misuse;
use pmi_core::wire::pmix::Proc;
use pmi_core::wire::pmix::names::keys;

use super::calls::Within;
use super::connection::{PmixConnection, ProcKey};
use super::error::CallError;

/// Processes whose data is requested ahead.
#[derive(Debug, Default)]
pub(super) struct Prefetches {
    /// Those whose request was not sent; true for processes of this node.
    queued: VecDeque<(ProcKey, bool)>,
    /// Those whose reply is awaited.
    inflight: Vec<(PmixTicket, ProcKey)>,
}

impl Prefetches {
    /// Forgets what a request of the caller makes useless: values change with a fence.
    pub(super) fn on_start(&mut self, request: &PmixRequest<'_>) {
        match request {
            PmixRequest::Fence { .. } => self.queued.clear(),
            // The machine drops all other requests.
            PmixRequest::Abort { .. } => *self = Self::default(),
            _ => {}
        }
    }

    /// Removes a request that is answered; false if it is none of these.
    pub(super) fn take(&mut self, ticket: PmixTicket) -> bool {
        let place = self.inflight.iter().position(|(of, _)| *of == ticket);
        place.map(|place| self.inflight.swap_remove(place)).is_some()
    }

    /// Sends no further request. True while replies are awaited.
    pub(super) fn end(&mut self) -> bool {
        self.queued.clear();
        !self.inflight.is_empty()
    }

    /// Hands the request for the data of a process over to a get, which then takes its reply.
    fn join(&mut self, of: &ProcKey) -> Option<PmixTicket> {
        let place = self.inflight.iter().position(|(_, other)| other == of)?;
        Some(self.inflight.swap_remove(place).0)
    }
}

impl PmixConnection {
    /// Queues requests for the data of the processes that share a realm with `of`, and sends the first ones.
    pub(super) fn prefetch(&mut self, of: &ProcKey, realm: DataRealm) -> Result<(), CallError> {
        self.check_open()?;
        let (nspace, rank) = of;
        let (job, own) = (self.client.job_info(), self.client.identity().rank);
        // Only the own job is described.
        let realm = if nspace.is_empty() { realm } else { DataRealm::Process };
        let near: BTreeSet<u32> = match nspace.is_empty() {
            true => job.ranks_in(DataRealm::Node, own).collect(),
            false => BTreeSet::new(),
        };
        let ranks: BTreeSet<u32> = job.ranks_in(realm, *rank).collect();
        // The process of the hint itself is read next.
        let ranks = [*rank].into_iter().chain(ranks.into_iter().filter(|other| other != rank));
        let queued = ranks.map(|rank| ((nspace.clone(), rank), near.contains(&rank)));
        self.prefetches.queued.extend(queued);
        self.request_ahead().map_err(|error| self.fail(error))
    }

    /// Has a get of a key that a process may have committed take the reply to the request for its data, if
    /// that is in flight.
    pub(super) fn join_prefetch(
        &mut self,
        of: &ProcKey,
        key: &[u8],
        within: Within,
    ) -> Option<PmixTicket> {
        let is_known =
            within == Within::Immediate || keys::is_reserved(key) || self.cached(of, key).is_some();
        if is_known { None } else { self.prefetches.join(of) }
    }

    /// Sends requests of the queue as long as there is room for them.
    pub(super) fn request_ahead(&mut self) -> Result<(), CallError> {
        while self.prefetches.inflight.len() < INFLIGHT_MAX {
            let Some((of, is_near)) = self.prefetches.queued.pop_front() else { break };
            if self.is_received(&of) || self.prefetches.inflight.iter().any(|(_, one)| *one == of) {
                continue;
            }
            let get = PmixRequest::Get {
                of: Proc { nspace: &of.0, rank: of.1 },
                key: None,
                // The server of this node has all that processes of it have committed; it may have to fetch
                // the data of others.
                immediate: is_near,
                timeout_s: (!is_near).then_some(TIMEOUT_S),
            };
            match self.client.start(&get) {
                Ok(ticket) => self.prefetches.inflight.push((ticket, of)),
                Err(Misuse::Busy) => {
                    self.prefetches.queued.push_front((of, is_near));
                    break;
                }
                Err(misuse) => {
                    self.prefetches.queued.clear();
                    return Err(misuse.into());
                }
            }
            self.transmit()?;
        }
        Ok(())
    }
}

/// Requests ahead that are in flight at once; the other half of the places is for calls.
const INFLIGHT_MAX: usize = 32;

/// Time for the fetch of data of another node; a process that commits nothing within it has no data yet.
const TIMEOUT_S: u32 = 1;
