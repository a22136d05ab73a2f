//! Resolving nodes: the processes of a job on a node, and the nodes of a job.

use super::context::PmixView;
use super::query::is_named;
use super::session::PmixResponse;
use super::shared_bytes::pack;
use super::tables::{PmixSessionStateOf, PmixStorage};
use crate::ids::ProcId;
use crate::server::Storage;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{List, Packer, Proc, Type};

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixView<'a, P, S> {
    /// The processes on a node, by default that of the requester; of one job, or of all.
    pub(super) fn resolve_peers(
        self,
        state: &PmixSessionStateOf<P>,
        requester: ProcId,
        node: Option<&[u8]>,
        nspace: Option<&[u8]>,
    ) -> PmixResponse<P::Bytes> {
        if nspace.is_some_and(|name| self.named(name).is_none()) {
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
        let answer = pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::SIZE).size(u64::from(count));
            if count > 0 {
                to.op(Type::PROC, count);
                each(&mut |proc| proc.write(to));
            }
        });
        PmixResponse::body(answer)
    }

    /// The names of the nodes of a job, or of all jobs.
    pub(super) fn resolve_nodes(
        self,
        state: &PmixSessionStateOf<P>,
        nspace: Option<&[u8]>,
    ) -> PmixResponse<P::Bytes> {
        if nspace.is_some_and(|name| self.named(name).is_none()) {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        let names = || {
            let arrays = self.arrays(nspace);
            arrays.filter_map(|(_, array)| array.find(keys::HOSTNAME)?.text())
        };
        // Jobs share nodes, and each is named once.
        let once = names().enumerate();
        let once = once.filter(|(at, name)| names().take(*at).all(|before| before != *name));
        let answer = pack(state.protocol.format, |to: &mut Packer<'_>| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            to.one(Type::STRING).list(once.clone().map(|(_, name)| name));
        });
        PmixResponse::body(answer)
    }

    /// The nodes of a job, or of all jobs, as their descriptions have them.
    fn arrays(self, nspace: Option<&[u8]>) -> impl Iterator<Item = (&'a [u8], List<'a>)> + Clone {
        let namespaces = self.namespaces().filter_map(move |namespace| {
            let name = self.job(namespace.job)?.name().as_bytes();
            nspace.is_none_or(|target| target == name).then_some((name, namespace))
        });
        namespaces.flat_map(|(name, namespace)| {
            let arrays = namespace.kvals().filter(|kval| kval.key == keys::NODE_ARRAY);
            arrays.filter_map(move |kval| Some((name, kval.value.array()?)))
        })
    }

    /// Calls `with` for each process on the node of this name.
    fn each_on(self, node: &[u8], nspace: Option<&[u8]>, with: &mut dyn FnMut(Proc<'_>)) {
        for (_, array) in self.arrays(nspace).filter(|(_, array)| is_named(array, node)) {
            let procs = array.find(keys::LOCAL_PROCS).and_then(|value| value.array());
            procs.iter().flat_map(|procs| procs.procs()).for_each(&mut *with);
        }
    }

    /// Calls `with` for each process on the node of the requester.
    fn each_beside(self, requester: ProcId, nspace: Option<&[u8]>, with: &mut dyn FnMut(Proc<'_>)) {
        let node = self.node(requester);
        for job in self.namespaces().filter_map(|namespace| self.job(namespace.job)) {
            let name = job.name().as_bytes();
            if nspace.is_some_and(|target| target != name) {
                continue;
            }
            for (rank, member) in job.ranked() {
                if Some(member.node) == node {
                    with(Proc { nspace: name, rank: rank.0 });
                }
            }
        }
    }
}
