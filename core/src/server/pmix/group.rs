//! A group of processes.

use super::collective::{pack_procs, unpack_procs};
use super::shared_bytes::SharedBytes;
use crate::ids::ProcId;

/// A named group of processes.
#[derive(Clone, Debug)]
pub struct ProcessGroup<B> {
    pub(super) name: B,
    /// Members, packed by [`pack_procs`].
    pub(super) members: B,
    /// True if members are notified when one of them exits.
    pub(super) is_watched: bool,
    /// The process whose invitation is open; `None` for a complete group.
    pub(super) inviter: Option<ProcId>,
}

impl<B: SharedBytes> ProcessGroup<B> {
    pub(super) const fn is_complete(&self) -> bool {
        self.inviter.is_none()
    }

    pub(super) fn has(&self, member: ProcId) -> bool {
        self.members().any(|other| other == member)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = ProcId> {
        unpack_procs(self.members.as_ref()).map(|member| member.one())
    }

    /// Members without those that `is_out`.
    pub(super) fn without(&self, is_out: impl Fn(ProcId) -> bool) -> Option<B> {
        pack_procs(|| {
            let members = unpack_procs(self.members.as_ref());
            members.filter(|member| !is_out(member.one()))
        })
    }
}
