//! Resolving nodes: the processes of a job on a node, and the nodes of a job.

use super::connection::PmixResponse;
use super::namespace;
use super::query::is_named;
use super::shared_bytes::pack;
use super::state::PmixContext;
use super::storage::{ConnStateOf, RanksOf};
use super::{Namespace, PmixStorage};
use crate::ids::ProcId;
use crate::server::Storage;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{List, Packer, Proc, Type};

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// The processes on a node, by default that of the requester; of one job, or of all.
    pub(super) fn resolve_peers(
        &self,
        state: &ConnStateOf<P>,
        requester: ProcId,
        (node, nspace): (Option<&[u8]>, Option<&[u8]>),
    ) -> PmixResponse<P::Bytes> {
        if nspace.is_some_and(|name| namespace::named(self.jobs, self.server, name).is_none()) {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let each = |with: &mut dyn FnMut(Proc<'_>)| match node {
            Some(node) => self.each_on(node, nspace, with),
            None => self.each_beside(requester, nspace, with),
        };
        let mut count = 0_u32;
        each(&mut |_| count = count.saturating_add(1));
        let is_known =
            node.is_none_or(|node| self.arrays(None).any(|(_, array)| is_named(&array, node)));
        if !is_known {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let answer = pack(state.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::SIZE).size(u64::from(count));
            if count > 0 {
                to.op(Type::PROC, count);
                each(&mut |proc| proc.write(to));
            }
        });
        answer.map_or(PmixResponse::Status(Status::NOMEM), PmixResponse::Body)
    }

    /// The names of the nodes of a job, or of all jobs.
    pub(super) fn resolve_nodes(
        &self,
        state: &ConnStateOf<P>,
        nspace: Option<&[u8]>,
    ) -> PmixResponse<P::Bytes> {
        if nspace.is_some_and(|name| namespace::named(self.jobs, self.server, name).is_none()) {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let names = || {
            let arrays = self.arrays(nspace);
            arrays.filter_map(|(_, array)| array.find(keys::HOSTNAME)?.text())
        };
        // Jobs share nodes, and each is named once.
        let once = names().enumerate();
        let once = once.filter(|(at, name)| names().take(*at).all(|before| before != *name));
        let answer = pack(state.format, |to: &mut Packer<'_>| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            to.one(Type::STRING).list(once.clone().map(|(_, name)| name));
        });
        answer.map_or(PmixResponse::Status(Status::NOMEM), PmixResponse::Body)
    }

    /// The nodes of a job, or of all jobs, as their descriptions have them.
    fn arrays<'a>(
        &'a self,
        nspace: Option<&'a [u8]>,
    ) -> impl Iterator<Item = (&'a [u8], List<'a>)> + Clone {
        let views = (0..self.jobs.end()).filter_map(|at| self.jobs.get(at));
        let views = views.filter_map(move |namespace: &Namespace<P::Bytes, RanksOf<P>>| {
            let name = self.server.job(namespace.job)?.name().as_bytes();
            nspace.is_none_or(|target| target == name).then_some((name, namespace))
        });
        views.flat_map(|(name, namespace)| {
            let arrays = namespace.kvals().filter(|kval| kval.key == keys::NODE_ARRAY);
            arrays.filter_map(move |kval| Some((name, kval.value.array()?)))
        })
    }

    /// Calls `with` for each process on the node of this name.
    fn each_on(&self, node: &[u8], nspace: Option<&[u8]>, with: &mut dyn FnMut(Proc<'_>)) {
        for (_, array) in self.arrays(nspace).filter(|(_, array)| is_named(array, node)) {
            let procs = array.find(keys::LOCAL_PROCS).and_then(|value| value.array());
            procs.iter().flat_map(|procs| procs.procs()).for_each(&mut *with);
        }
    }

    /// Calls `with` for each process on the node of the requester.
    fn each_beside(
        &self,
        ProcId { job: own, rank }: ProcId,
        nspace: Option<&[u8]>,
        with: &mut dyn FnMut(Proc<'_>),
    ) {
        let node = self.server.job(own).and_then(|job| job.member(rank)).map(|member| member.node);
        let views = (0..self.jobs.end()).filter_map(|at| self.jobs.get(at));
        for job in views.filter_map(|namespace| self.server.job(namespace.job)) {
            let name = job.name().as_bytes();
            if nspace.is_some_and(|target| target != name) {
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
