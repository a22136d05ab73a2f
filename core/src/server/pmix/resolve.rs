//! Which processes of a job are on a node, and which nodes a job is on.

use super::block::packed;
use super::connection::{Owed, Talk};
use super::info;
use super::query::is_named;
use super::state::Reach;
use super::{JobView, Memory};
use crate::ids::{JobId, Rank};
use crate::server::Storage;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{List, Packer, Proc, Type};

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// The processes on a node; on the asker's own if none is named. Of one job, or of all.
    pub(super) fn resolve_peers(
        &self,
        talk: &Talk<P::Block, P::Pendings>,
        asker: (JobId, Rank),
        (node, nspace): (Option<&[u8]>, Option<&[u8]>),
    ) -> Owed<P::Block> {
        if nspace.is_some_and(|name| info::named(self.jobs, self.server, name).is_none()) {
            return Owed::Status(Status::NOT_FOUND);
        }
        let each = |with: &mut dyn FnMut(Proc<'_>)| match node {
            Some(node) => self.each_on(node, nspace, with),
            None => self.each_beside(asker, nspace, with),
        };
        let mut count = 0_u32;
        each(&mut |_| count = count.saturating_add(1));
        let is_known =
            node.is_none_or(|node| self.arrays(None).any(|(_, array)| is_named(&array, node)));
        if !is_known {
            return Owed::Status(Status::NOT_FOUND);
        }
        let answer = packed(talk.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::SIZE).size(u64::from(count));
            if count > 0 {
                to.op(Type::PROC, count);
                each(&mut |proc| proc.write(to));
            }
        });
        answer.map_or(Owed::Status(Status::NOMEM), Owed::Body)
    }

    /// The names of the nodes of a job, or of all jobs.
    pub(super) fn resolve_nodes(
        &self,
        talk: &Talk<P::Block, P::Pendings>,
        nspace: Option<&[u8]>,
    ) -> Owed<P::Block> {
        if nspace.is_some_and(|name| info::named(self.jobs, self.server, name).is_none()) {
            return Owed::Status(Status::NOT_FOUND);
        }
        let names = || {
            let arrays = self.arrays(nspace);
            arrays.filter_map(|(_, array)| array.find(keys::HOSTNAME)?.text())
        };
        // Jobs share nodes, and each is named once.
        let once = names().enumerate();
        let once = once.filter(|(at, name)| names().take(*at).all(|before| before != *name));
        let answer = packed(talk.format, |to: &mut Packer<'_>| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            to.one(Type::STRING).list(once.clone().map(|(_, name)| name));
        });
        answer.map_or(Owed::Status(Status::NOMEM), Owed::Body)
    }

    /// The nodes of a job, or of all jobs, as their descriptions have them.
    fn arrays<'a>(
        &'a self,
        nspace: Option<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a [u8], List<'a>)> + Clone {
        let views = (0..self.jobs.end()).filter_map(|at| self.jobs.get(at));
        let views = views.filter_map(move |view: &JobView<P::Block, P::Posts>| {
            let name = self.server.job(view.job)?.name().as_bytes();
            nspace.is_none_or(|wanted| wanted == name).then_some((name, view))
        });
        views.flat_map(|(name, view)| {
            let arrays = view.kvals().filter(|kval| kval.key == keys::NODE_ARRAY);
            arrays.filter_map(move |kval| Some((name, kval.value.array()?)))
        })
    }

    /// Everybody on the node of this name.
    fn each_on(&self, node: &[u8], nspace: Option<&[u8]>, with: &mut dyn FnMut(Proc<'_>)) {
        for (_, array) in self.arrays(nspace).filter(|(_, array)| is_named(array, node)) {
            let procs = array.find(keys::LOCAL_PROCS).and_then(|value| value.array());
            procs.iter().flat_map(|procs| procs.procs()).for_each(&mut *with);
        }
    }

    /// Everybody on the asker's node.
    fn each_beside(
        &self,
        (own, rank): (JobId, Rank),
        nspace: Option<&[u8]>,
        with: &mut dyn FnMut(Proc<'_>),
    ) {
        let node = self.server.job(own).and_then(|job| job.member(rank)).map(|member| member.node);
        let views = (0..self.jobs.end()).filter_map(|at| self.jobs.get(at));
        for job in views.filter_map(|view| self.server.job(view.job)) {
            let name = job.name().as_bytes();
            if nspace.is_some_and(|wanted| wanted != name) {
                continue;
            }
            for (rank, member) in (0..).zip(job.members()) {
                if Some(member.node) == node {
                    with(Proc { nspace: name, rank });
                }
            }
        }
    }
}
