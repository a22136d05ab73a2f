//! Fences of a job on several nodes: the contribution of this node, and those of all of them.

use super::fetches::RECORD_BYTES;
use super::service::Service;
use crate::launch::start::process::ProcessEnd;
use crate::settings::job::FenceData;
use crate::verdict::PmiPhase;
use pmi_core::ids::{JobId, Rank};
use pmi_core::server::{Member, RemoteError};
use pmi_core::store::{BlockError, BlockReader, BlockRecord, Fence};
use std::rc::Rc;

/// Choice of the committed data that goes to all nodes with a fence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FenceRule {
    pub(crate) data: FenceData,
    /// Number of nodes of the run.
    pub(crate) nodes: usize,
}

impl FenceRule {
    /// True if the committed data of this node stays, where gets of other nodes fetch it.
    fn keeps(self, service: &Service, id: JobId) -> bool {
        let pmix = service.server.pmix_ref();
        let is_kept = match self.data {
            FenceData::Push => false,
            FenceData::Pull => true,
            FenceData::Auto => {
                let bytes: usize = pmix.fence_modex(id).map(|record| record.len_bytes()).sum();
                // The other nodes have about as much.
                bytes.saturating_mul(self.nodes) > PUSHED_BYTES && !pmix.collects_fence_data(id)
            }
        };
        // No get fetches a longer record.
        is_kept && pmix.fence_modex(id).all(|record| record.len_bytes() <= RECORD_BYTES)
    }
}

/// Contribution of this node to the fence of a job that was handed up: the number of its ranks, and a block
/// of the pairs that they have put since the last fence, and of the data that PMIx clients have committed, as
/// far as the rule does not keep it here.
pub(crate) fn fence_contribution(
    service: &mut Service,
    id: JobId,
    rule: FenceRule,
) -> (u32, Vec<u8>) {
    if rule.keeps(service, id) {
        service.server.pmix().keep_fence_modex(id);
    }
    let server = &service.server;
    let block = block(server.fence_puts(id).chain(server.pmix_ref().fence_modex(id)));
    // Members that are gone are missing in the sum of all nodes.
    let members = service.server.job(id).map_or(0, |job| job.fence().inside());
    (members, block)
}

/// Writes records one after the other.
pub(super) fn block<'a>(records: impl Iterator<Item = BlockRecord<'a>>) -> Vec<u8> {
    let mut block = Vec::new();
    for record in records {
        let start = block.len();
        block.resize(start + record.len_bytes(), 0);
        // The room is as long as the record.
        let written = record.write(&mut block[start..]);
        debug_assert!(written.is_ok());
    }
    block
}

/// Data of a job that fences have carried to this node, and that its ranks have committed, for a node that
/// joins the run: blocks of up to `most` bytes, or one record.
pub(crate) fn earlier_data(service: &mut Service, id: JobId, most: usize) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut add = |record: &BlockRecord<'_>| {
        let record = block(std::iter::once(*record));
        match pieces.last_mut().filter(|last| last.len() + record.len() <= most) {
            Some(last) => last.extend(record),
            None => pieces.push(record),
        }
    };
    service.server.carried_pairs(id).for_each(|record| add(&record));
    let pmix = service.server.pmix_ref();
    let mut others = BlockReader::new(pmix.carried_modex(id));
    // What this node has added is valid.
    while let Some(Ok(record)) = others.next() {
        add(&record);
    }
    service.server.pmix().committed_by_all(id).for_each(|record| add(&record));
    pieces
}

/// Adds such data of another node.
///
/// # Errors
///
/// The reason for which it cannot be added, as a part of a sentence.
pub(crate) fn add_earlier(service: &mut Service, id: JobId, data: Vec<u8>) -> Result<(), String> {
    let block: Rc<[u8]> = data.into();
    let server = &mut service.server;
    let added = server.add_pairs(id, &block).and_then(|()| server.pmix().add_fetched(id, &block));
    added.map_err(|error| explain(&error))
}

/// Ends the fence of a job with the contributions of all nodes.
///
/// # Errors
///
/// The reason, as a part of a sentence; the fence has not ended then.
pub(crate) fn end_fence(
    service: &mut Service,
    id: JobId,
    (data, members): (&Rc<[u8]>, u64),
) -> Result<(), String> {
    let server = &mut service.server;
    if server.job(id).is_some_and(|job| members < u64::from(job.size())) {
        server.pmix().set_partial_fence(id);
    }
    let added = server.add_remote(id, data).and_then(|()| server.pmix().add_remote(id, data));
    added.map_err(|error| explain(&error))?;
    service.server.end_fence(id).map_err(|error| error.to_string())
}

/// The reason for which data of other nodes was not added, as a part of a sentence.
pub(super) fn explain(error: &RemoteError) -> String {
    match error {
        RemoteError::Block(BlockError::NoRoom) => {
            "all spaces of the run together hold as many pairs and bytes as they may (--kvs-pairs, \
             --kvs-bytes)"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// Lets the fences of a job end without ranks that are gone.
pub(crate) fn tolerate_failures(service: &mut Service, id: JobId) {
    service.server.tolerate_failures(id);
}

/// Contributes to the fence of a job with this number, in which ranks of other nodes wait, if no rank of this
/// node is left.
pub(crate) fn join_without_ranks(service: &mut Service, id: JobId, number: u32) {
    service.server.hand_up_empty_fence(id, number);
}

/// Contributes to the next fence of a job that has no rank on this node.
pub(crate) fn join_next_without_members(service: &mut Service, id: JobId) {
    let job = service.server.job(id).filter(|job| job.members().is_empty());
    if let Some(number) = job.map(|job| job.fence().generation()) {
        service.server.hand_up_empty_fence(id, number);
    }
}

/// Publishes the ends of ranks of other nodes, which have failed.
pub(crate) fn publish_failures(
    service: &mut Service,
    id: JobId,
    failed: &[(u32, ProcessEnd, PmiPhase)],
) {
    let is_remote = |service: &Service, rank| {
        service.server.job(id).is_some_and(|job| job.is_remote(Rank(rank)))
    };
    for (rank, end, phase) in failed {
        if is_remote(service, *rank) {
            service.pmix_notifier().notify_exit(id, *rank, *end, *phase);
        }
    }
}

/// Number of fences of a job that a rank of this node has entered.
pub(crate) fn fence_count(service: &Service, id: JobId, rank: u32) -> u32 {
    let member = service.server.job(id).and_then(|job| job.member(Rank(rank)));
    member.map_or(0, Member::fence_count)
}

/// Number of ranks of this node that wait in the fence of a job with this number.
pub(crate) fn waiting_count(service: &Service, id: JobId, number: u32) -> usize {
    let fence = service.server.job(id).map(|job| job.fence());
    let inside = fence.filter(|fence| fence.generation() == number).map_or(0, Fence::inside);
    usize::try_from(inside).unwrap_or(usize::MAX)
}

/// Committed data of all nodes that goes with a fence in any case.
const PUSHED_BYTES: usize = 1 << 20;
