//! Data of fences over several nodes: the contribution of this node, and those of the others.
//!
//! A pair that was put here is *sent* when the fence that carries it has ended. From then on the latest block
//! of the other nodes decides, which has the pairs of this node as well; all nodes so agree on the value of a
//! key that several of them have put. A pair that is not sent yet precedes those of the blocks, where it is
//! visible at all.

use super::job::Job;
use super::member::Member;
use super::storage::Storage;
use super::{NO_JOB, Server};
use crate::error::Misuse;
use crate::ids::{JobId, Rank};
use crate::parts;
use crate::store::{BlockError, BlockRecord, Entry, EntryId, Keyspace, Kvs, Visibility};

impl<S: Storage> Server<S> {
    /// The contribution of this node to a fence that was handed up: the pairs that its ranks have put since
    /// the fence before, in the order of the puts. The records are written one after the other into a block
    /// ([`BlockRecord::write`]), which goes to all nodes.
    ///
    /// Changes after: [`end_fence`](Self::end_fence).
    pub fn fence_puts(&self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        self.job(job).into_iter().flat_map(Job::fence_puts)
    }

    /// Pairs of a job that fences over nodes have carried here, for a node that was not there.
    ///
    /// Changes after: [`end_fence`](Self::end_fence), [`add_pairs`](Self::add_pairs).
    pub fn carried_pairs(&self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        self.job(job).into_iter().flat_map(Job::carried_pairs)
    }

    /// Adds the contributions of all nodes to a fence that was handed up, before
    /// [`end_fence`](Self::end_fence). Those of this node may be among them.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; nothing was added.
    pub fn add_remote(
        &mut self,
        job: JobId,
        block: &<S::Kvs as Kvs>::Block,
    ) -> Result<(), RemoteError> {
        let job = self.shared.job_mut(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        if !parts::NODES || !job.fence().is_handed_up() {
            let needed = "the fence was handed up";
            return Err(RemoteError::Misuse(Misuse::WrongState { needed }));
        }
        job.kvs.add_block(block).map_err(RemoteError::Block)
    }

    /// Lets fences of a whole job on several nodes end without members that are gone; by default they are
    /// reported as [`Event::FenceStuck`](super::Event::FenceStuck).
    #[cfg(feature = "pmix")]
    pub fn tolerate_failures(&mut self, job: JobId) {
        if let Some(job) = self.shared.job_mut(job) {
            job.set_all_tolerate_failures();
        }
    }

    /// Hands up the fence of a job with this number if no member of this node will enter it, because all of
    /// them are gone: ranks of other nodes wait in it. True if it is handed up.
    ///
    /// Changes after: [`member_gone`](Self::member_gone), [`end_fence`](Self::end_fence).
    #[cfg(feature = "pmix")]
    pub fn hand_up_empty_fence(&mut self, job: JobId, generation: u32) -> bool {
        let job = self.shared.job_mut(job);
        job.is_some_and(|job| job.hand_up_empty(generation))
    }
}

#[cfg(feature = "pmix")]
impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Job<K, M> {
    /// Hands up the current fence if it waits only for members that are gone, and all of those inside
    /// tolerate that.
    pub(super) fn check_gone_in_fence(&mut self) {
        let generation = self.fence().generation();
        if self.gone == 0 || !self.is_over_nodes() || self.fence().is_handed_up() {
            return;
        }
        let mut members = self.members().iter();
        let ends = members.all(|member| match member.fences == generation {
            true => member.is_gone(),
            false => member.tolerates_failures,
        });
        if ends && self.fence().inside() > 0 {
            self.complete_fence();
        }
    }

    fn hand_up_empty(&mut self, generation: u32) -> bool {
        let fence = self.fence();
        if !self.is_over_nodes() || fence.is_handed_up() || fence.generation() != generation {
            return false;
        }
        let is_empty = self.members().iter().all(|member| {
            member.fences == generation && member.tolerates_failures && member.is_gone()
        });
        if is_empty {
            self.complete_fence();
        }
        is_empty
    }
}

/// Why the contributions of other nodes were not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteError {
    /// There is no such job, or its fence was not handed up.
    Misuse(Misuse),
    /// The block is malformed, or there is no room for it.
    Block(BlockError),
}

impl core::fmt::Display for RemoteError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Block(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RemoteError {}

impl<K: Kvs, M: AsRef<[Member]>> Job<K, M> {
    /// See [`Server::carried_pairs`].
    fn carried_pairs(&self) -> impl Iterator<Item = BlockRecord<'_>> {
        let all = |first| core::iter::successors(first, |last| self.kvs.next(Some(*last)));
        all(self.kvs.next(None)).chain(all(self.kvs.first_remote())).filter_map(|id| {
            let Entry { keyspace, key, value, visibility } = self.kvs.entry(id)?;
            match visibility {
                Visibility::Put { writer, .. } if keyspace == Keyspace::Remote => {
                    Some(BlockRecord::Pair { writer, key, value })
                }
                _ => None,
            }
        })
    }

    /// See [`Server::fence_puts`].
    fn fence_puts(&self) -> impl Iterator<Item = BlockRecord<'_>> {
        let fence = self.fence().generation().wrapping_add(1);
        let first = if self.has_contribution { self.kvs.next(None) } else { None };
        let ids = core::iter::successors(first, |last| self.kvs.next(Some(*last)));
        ids.filter_map(move |id| {
            let Entry { keyspace, key, value, visibility } = self.kvs.entry(id)?;
            match visibility {
                Visibility::Put { writer, fence: own }
                    if own == fence && keyspace == Keyspace::Space =>
                {
                    Some(BlockRecord::Pair { writer, key, value })
                }
                _ => None,
            }
        })
    }

    /// Adds to the fence that is handed up what was visible before its time: values in place of those that
    /// others saw, and those of fences of groups.
    pub(super) fn collect_early_puts(&mut self) {
        let has_new = core::mem::take(&mut self.has_unsent_puts);
        self.has_contribution |= has_new;
        let fence = self.fence().generation().wrapping_add(1);
        let mut next = if has_new { self.kvs.next(None) } else { None };
        while let Some(id) = next {
            next = self.kvs.next(Some(id));
            let Some(Entry { keyspace, visibility, .. }) = self.kvs.entry(id) else { continue };
            if keyspace == Keyspace::Space
                && let Visibility::Put { writer, fence: 0 } = visibility
            {
                self.kvs.set_visibility(id, Visibility::Put { writer, fence });
            }
        }
    }

    /// True for a pair that a rank of this node has put, and that all nodes have.
    pub(super) fn is_sent(&self, visibility: Visibility) -> bool {
        match visibility {
            Visibility::Put { fence: 0, .. } => false,
            Visibility::Put { fence, .. } => self.fence().has_ended(fence.wrapping_sub(1)),
            Visibility::Manager | Visibility::Published(_) => false,
        }
    }

    /// True if the fence that is handed up, or a later one, carries what was recorded with this number; 0
    /// stands for nothing.
    #[cfg(feature = "pmix")]
    pub(super) const fn is_due(&self, fence: u32) -> bool {
        fence != 0 && !self.fence().has_ended(fence.wrapping_sub(1))
    }

    /// Finds the entry that `reader` would read after `fences` fences.
    pub(super) fn look_up_over_nodes(
        &self,
        reader: Option<Rank>,
        key: &[u8],
        fences: u32,
    ) -> Option<EntryId> {
        let own = self.kvs.find(Keyspace::Space, key);
        let own = own.and_then(|id| Some((id, self.kvs.entry(id)?.visibility)));
        let own = own.filter(|(_, visibility)| visibility.is_visible(reader, fences));
        let is_later = |visibility: Visibility| {
            matches!(visibility, Visibility::Put { .. }) && !self.is_sent(visibility)
        };
        match own {
            Some((id, visibility)) if is_later(visibility) => Some(id),
            _ => self.kvs.find(Keyspace::Remote, key).or(own.map(|(id, _)| id)),
        }
    }

    /// The pair after `last` that `reader` sees after `fences` fences.
    pub(super) fn next_over_nodes(
        &self,
        last: Option<EntryId>,
        reader: Option<Rank>,
        fences: u32,
    ) -> Option<EntryId> {
        let is_remote =
            |id| self.kvs.entry(id).is_some_and(|entry| entry.keyspace == Keyspace::Remote);
        let mut is_beyond = last.is_some_and(is_remote);
        let mut at = self.kvs.next(last);
        loop {
            let Some(id) = at else {
                if is_beyond {
                    return None;
                }
                is_beyond = true;
                at = self.kvs.first_remote();
                continue;
            };
            let Entry { keyspace, key, .. } = self.kvs.entry(id)?;
            let is_pair = matches!(keyspace, Keyspace::Space | Keyspace::Remote);
            if is_pair && self.look_up_over_nodes(reader, key, fences) == Some(id) {
                return Some(id);
            }
            at = self.kvs.next(at);
        }
    }
}
