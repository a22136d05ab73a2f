//! Collectives with participants on other nodes: the part of this node, and the result of all of them.
//!
//! A collective whose participants of this node have joined, or are gone, is handed up. The owner gathers
//! the parts of all nodes that have participants: parts with the same kind, group and participants belong
//! together. The part of a bootstrap, which has no list, is handed up anew with each participant; the owner
//! ends it when all processes that leaders name have joined ([`GroupParticipant`](super::GroupParticipant)).
//! The result has the data of all parts, one after the other:
//!
//! | kind | data of a part |
//! |---|---|
//! | fence, connect, disconnect | for each job, its number, the length, and [`BlockRecord::Modex`] of the participants |
//! | construct, bootstrap | for each participant, its name, flags, the infos that it contributes, and the processes that it names as a leader |
//! | destruct | none |

use super::group_participant::check_participants;
use super::rank_data::record_of;
use super::server::{PmixServer, PmixServerRef};
use super::shared_bytes::{SharedBytes, copy_bytes};
use super::tables::{
    CollectiveKind, CollectiveUplink, HandedUp, OpenCollective, PmixShared, PmixStorage,
};
use crate::error::Malformed;
use crate::ids::{JobId, ProcId};
use crate::server::{Event, RemoteError, Storage};
use crate::storage::Slots;
use crate::store::{BlockError, BlockRecord};
use crate::wire::pmix::names::Status;

/// Part of this node in a collective that was handed up.
#[derive(Clone, Debug)]
pub struct CollectivePart<'a, B> {
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// The group that it is about; of a fence, a connect or a disconnect, its processes of other runs
    /// ([`ForeignProcs`](super::ForeignProcs)).
    pub name: Option<&'a [u8]>,
    /// True if participants of this node are gone without having joined.
    pub is_partial: bool,
    /// Data for the other nodes.
    pub data: B,
}

/// Result of a collective of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveEnd<'a> {
    /// Context id of a constructed group, which no other group of the jobs has.
    pub serial: u32,
    /// True if participants of any node are gone without having joined.
    pub is_partial: bool,
    /// Data of the parts of all nodes, that of this node among them.
    pub data: &'a [u8],
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The part of this node in a collective that was handed up; `None` if it has ended since, or without
    /// memory for its data.
    pub fn collective_part(self, number: u32) -> Option<CollectivePart<'a, P::Bytes>> {
        let (at, open) = self.find_handed_up(number)?;
        let data = match open.kind {
            CollectiveKind::Fence | CollectiveKind::Connect | CollectiveKind::Disconnect => {
                self.fence_data(open)
            }
            CollectiveKind::Construct | CollectiveKind::Bootstrap => self.construct_data(at),
            CollectiveKind::Destruct => copy_bytes(b""),
        };
        let is_partial = open.handed_up()?.is_partial;
        let name = open.name.as_ref().map(AsRef::as_ref);
        Some(CollectivePart { kind: open.kind, name, is_partial, data: data? })
    }

    /// Participants of a collective that was handed up, as they were listed. A process may be listed by
    /// itself and with its job.
    pub fn collective_procs(self, number: u32) -> impl Iterator<Item = ProcId> + use<'a, P, S> {
        let found = self.find_handed_up(number);
        found.into_iter().flat_map(move |(_, open)| self.members(open))
    }

    fn find_handed_up(self, number: u32) -> Option<(usize, &'a OpenCollective<P::Bytes>)> {
        let collectives = &self.view.pmix.collectives;
        let mut all = (0..collectives.end()).filter_map(|at| Some((at, collectives.get(at)?)));
        all.find(|(_, open)| open.handed_up().is_some_and(|part| part.number == number))
    }

    /// Data that participants of this node have committed, and that the others have not received.
    fn fence_data(self, open: &OpenCollective<P::Bytes>) -> Option<P::Bytes> {
        let is_first = |at: usize, job: JobId| open.listed().take(at).all(|of| of.job != job);
        let jobs = || open.listed().enumerate().filter(|(at, of)| is_first(*at, of.job));
        let len = |job| self.records(open, job).map(|record| record.len_bytes()).sum::<usize>();
        let all = jobs().map(|(_, of)| HEAD_BYTES + len(of.job)).sum();
        P::Bytes::make(all, |bytes| {
            let mut rest = bytes;
            let mut write = |part: &dyn Fn(&mut [u8]), len: usize| {
                if let Some((to, behind)) = core::mem::take(&mut rest).split_at_mut_checked(len) {
                    part(to);
                    rest = behind;
                }
            };
            for (_, of) in jobs() {
                let len = u32::try_from(len(of.job)).unwrap_or(u32::MAX);
                let head = u64::from(of.job.0) << 32 | u64::from(len);
                write(&|to| to.copy_from_slice(&head.to_be_bytes()), HEAD_BYTES);
                for record in self.records(open, of.job) {
                    // The room is as long as the record.
                    let fill = |to: &mut [u8]| {
                        let _ = record.write(to);
                    };
                    write(&fill, record.len_bytes());
                }
            }
        })
    }

    fn records(
        self,
        open: &'a OpenCollective<P::Bytes>,
        job: JobId,
    ) -> impl Iterator<Item = BlockRecord<'a>> {
        let of = self.view.job(job);
        let local = self.members(open).filter(move |proc| proc.job == job);
        local.filter_map(move |proc| {
            let data = self.view.pmix.rank_data(proc)?;
            let is_due = || of.is_some_and(|of| of.is_due(data.fence));
            // No fence has carried anything to other runs.
            let blob = data.remote.as_ref().filter(|_| open.others().is_some() || is_due());
            Some(record_of(proc.rank, data.version, blob?))
        })
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Ends a collective that was handed up. Nothing happens if it has ended here, because all of its
    /// participants have gone or have timed out.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Block`] for malformed data, or without room for it; the collective has not ended then.
    pub fn end_remote_collective(
        &mut self,
        number: u32,
        end: &CollectiveEnd<'_>,
    ) -> Result<(), RemoteError> {
        let Some((at, open)) = self.as_ref().find_handed_up(number) else { return Ok(()) };
        match open.kind {
            CollectiveKind::Fence | CollectiveKind::Connect | CollectiveKind::Disconnect => {
                self.add_fence_data(end.data)?;
            }
            CollectiveKind::Construct | CollectiveKind::Bootstrap => {
                check_participants(end.data).map_err(malformed)?;
            }
            CollectiveKind::Destruct => {}
        }
        let status = if end.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.finish_collective(at, status, Some(end));
        Ok(())
    }

    /// Ends a collective with other runs, which was handed up, with this status: they take no part.
    pub fn fail_remote_collective(&mut self, number: u32, status: Status) {
        let found = self.as_ref().find_handed_up(number);
        if let Some((at, _)) = found.filter(|(_, open)| open.others().is_some()) {
            let end = CollectiveEnd { serial: 0, is_partial: true, data: &[] };
            self.finish_collective(at, status, Some(&end));
        }
    }

    fn add_fence_data(&mut self, data: &[u8]) -> Result<(), RemoteError> {
        for block in collective_blocks(data) {
            let (job, block) = block.map_err(malformed)?;
            self.add_modex(job, block)?;
        }
        Ok(())
    }

    /// Marks a collective whose part on this node is complete, or has changed: it keeps its number then.
    pub(super) fn hand_up_collective(&mut self, at: usize, is_partial: bool) {
        let shared = &mut *self.context.pmix;
        let former = shared.collectives.get(at).and_then(OpenCollective::handed_up);
        let number = match former {
            Some(part) => part.number,
            None => {
                shared.handed_up = shared.handed_up.wrapping_add(1);
                shared.handed_up
            }
        };
        shared.mark_elsewhere(at);
        if let Some(open) = shared.collectives.get_mut(at) {
            let part = HandedUp { number, is_partial };
            open.uplink = CollectiveUplink::Due(part);
            shared.has_collective_event = true;
        }
    }

    /// Reports that a collective has ended here without its result.
    pub(super) fn withdraw_collective(&mut self, ended: &OpenCollective<P::Bytes>) {
        let Some(part) = ended.handed_up() else { return };
        let withdrawn = OpenCollective {
            uplink: CollectiveUplink::Withdrawn(part),
            inside: 0,
            ..ended.clone()
        };
        self.context.pmix.collectives.insert(withdrawn);
        self.context.pmix.has_collective_event = true;
    }

    /// The next collective that the owner has to hand up or to withdraw.
    pub(in crate::server) fn take_collective_event(&mut self) -> Option<Event> {
        let shared = &mut *self.context.pmix;
        if !shared.has_collective_event {
            return None;
        }
        for at in 0..shared.collectives.end() {
            let Some(open) = shared.collectives.get_mut(at) else { continue };
            match open.uplink {
                CollectiveUplink::Due(part) => {
                    open.uplink = CollectiveUplink::Sent(part);
                    return Some(Event::CollectiveHandedUp { number: part.number });
                }
                CollectiveUplink::Withdrawn(HandedUp { number, .. }) => {
                    shared.collectives.remove(at);
                    return Some(Event::CollectiveWithdrawn { number });
                }
                _ => {}
            }
        }
        shared.has_collective_event = false;
        None
    }
}

/// Committed data in the parts of a fence, a connect or a disconnect: records by job, of which each part has
/// its own.
pub fn collective_blocks(data: &[u8]) -> impl Iterator<Item = Result<(JobId, &[u8]), Malformed>> {
    let mut rest = data;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = data.len().saturating_sub(rest.len());
        let cut = (|| {
            let (head, behind) = rest.split_first_chunk::<HEAD_BYTES>()?;
            let head = u64::from_be_bytes(*head);
            let len = usize::try_from(head & u64::from(u32::MAX)).ok()?;
            let (block, behind) = behind.split_at_checked(len)?;
            Some((JobId((head >> 32) as u32), block, behind))
        })();
        rest = cut.map_or(&[][..], |(_, _, behind)| behind);
        let block = cut.map(|(job, block, _)| (job, block));
        Some(block.ok_or(Malformed::new(at, "the data of a job")))
    })
}

const fn malformed(error: Malformed) -> RemoteError {
    RemoteError::Block(BlockError::Malformed(error))
}

impl<P: PmixStorage> PmixShared<P> {
    /// Notes that the part of this node in a collective has committed data.
    fn mark_elsewhere(&mut self, at: usize) {
        for listed in 0.. {
            let of = self.collectives.get(at).and_then(|open| open.listed().nth(listed));
            let Some(of) = of else { return };
            let Some(namespace) = self.namespace_mut(of.job) else { continue };
            namespace.mark_elsewhere();
        }
    }
}

/// Number of a job and length of its data.
const HEAD_BYTES: usize = 8;
