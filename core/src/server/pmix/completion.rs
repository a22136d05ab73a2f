//! Completion of collectives, when all participants have joined or are gone.

use super::collective_uplink::CollectiveEnd;
use super::context::PmixView;
use super::foreign::{ForeignProcs, ForeignRanks};
use super::server::{PmixServer, PmixServerRef};
use super::session::PmixResponse;
use super::shared_bytes::pack;
use super::tables::{
    CollectiveKind, CollectiveUplink, OpenCollective, PmixSessionStateOf, PmixStorage,
};
use crate::ids::{JobId, ProcId};
use crate::server::member::Member;
use crate::server::{Storage, connected_jobs};
use crate::storage::Slots;
use crate::wire::pmix::Type;
use crate::wire::pmix::names::Status;

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Completes a collective if all participants have joined or are gone.
    pub(super) fn check_collective(&mut self, at: usize) {
        let Some(open) = self.context.pmix.collectives.get(at) else { return };
        if open.kind == CollectiveKind::Bootstrap {
            return self.check_bootstrap(at);
        }
        if !matches!(open.uplink, CollectiveUplink::None | CollectiveUplink::Open) {
            return;
        }
        let here = self.as_ref();
        let mut missing = open.local_count.saturating_sub(open.inside);
        let mut gone = 0;
        if missing > 0 {
            gone = here.gone_from(open, at);
            missing = missing.saturating_sub(gone);
        }
        if missing > 0 {
            return;
        }
        if here.has_multiple_sessions(at) {
            let local = here.members(open).filter(|member| here.view.is_local(*member));
            let absent = local.filter(|member| !here.is_in(at, *member)).count();
            gone = here.gone_from(open, at);
            if u32::try_from(absent).unwrap_or(u32::MAX) > gone {
                return;
            }
        }
        if open.uplink == CollectiveUplink::Open {
            return self.hand_up_collective(at, gone > 0);
        }
        let status = if gone > 0 { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end_collective(at, status);
    }

    /// Checks all collectives, because a process is gone.
    pub(super) fn check_collectives(&mut self) {
        for at in 0..self.context.pmix.collectives.end() {
            self.check_collective(at);
        }
    }

    /// Aborts the collectives with participants of a removed job, whose number may be reused.
    pub(super) fn abort_collectives_of(&mut self, job: JobId) {
        for at in 0..self.context.pmix.collectives.end() {
            let open = self.context.pmix.collectives.get(at);
            if open.is_some_and(|open| open.listed().any(|of| of.job == job)) {
                self.end_collective(at, Status::NOT_FOUND);
            }
        }
    }

    /// Answers the participants that have joined, and removes the collective.
    pub(super) fn end_collective(&mut self, at: usize, status: Status) {
        self.finish_collective(at, status, None);
    }

    /// The same, with the result of the nodes if others have taken part.
    pub(super) fn finish_collective(
        &mut self,
        at: usize,
        status: Status,
        result: Option<&CollectiveEnd<'_>>,
    ) {
        let Some(ended) = self.context.pmix.collectives.remove(at) else { return };
        let constructed = match ended.kind {
            CollectiveKind::Construct | CollectiveKind::Bootstrap => {
                Some(self.make_group(at, &ended, status, result))
            }
            _ => None,
        };
        if ended.kind == CollectiveKind::Destruct && status != Status::TIMEOUT {
            self.context.remove_group(&ended);
        }
        for id in self.sessions.pmix_ids() {
            let Some(state) = self.sessions.state(id) else { continue };
            let Some(place) = state.in_collective(at) else { continue };
            let view = self.context.view();
            let response = match (ended.kind, state.protocol.peer, &constructed) {
                (CollectiveKind::Connect, Some(peer), _) if status == Status::SUCCESS => {
                    view.connect_response(&ended, peer.job, state)
                }
                (_, _, Some(Ok(constructed))) => view.construct_response(constructed, state),
                (_, _, Some(Err(status))) => PmixResponse::Status(*status),
                _ => PmixResponse::Status(status),
            };
            self.sessions.resolve(id, place, response);
        }
        if status == Status::SUCCESS {
            self.note_connection(&ended);
        }
        if let Some(others) = ended.others() {
            let kind = if status == Status::SUCCESS { ended.kind } else { CollectiveKind::Fence };
            self.count_connects(kind, others);
        }
        if result.is_none() {
            self.withdraw_collective(&ended);
        }
    }

    /// Connects the jobs of a connect with each other, and ends the connections of those of a disconnect in
    /// which all processes of one of two jobs have taken part.
    fn note_connection(&mut self, ended: &OpenCollective<P::Bytes>) {
        let is_connect = ended.kind == CollectiveKind::Connect;
        if !is_connect && ended.kind != CollectiveKind::Disconnect {
            return;
        }
        let count = u32::try_from(self.context.common.jobs.end()).unwrap_or(u32::MAX);
        let takes_part = |job: &JobId| ended.listed().any(|listed| listed.job == *job);
        for one in (0..count).map(JobId).filter(takes_part) {
            for other in (one.0.saturating_add(1)..count).map(JobId).filter(takes_part) {
                if is_connect {
                    // A job without room stays unconnected; its processes know each other all the same.
                    connected_jobs::connect(&mut self.context.common.jobs, one, other);
                } else if self.is_whole(ended, one) || self.is_whole(ended, other) {
                    connected_jobs::disconnect(&mut self.context.common.jobs, one, other);
                }
            }
        }
    }

    /// True if all processes of a job take part.
    fn is_whole(&self, ended: &OpenCollective<P::Bytes>, job: JobId) -> bool {
        let view = self.as_ref().view;
        let members = ended.listed().filter(|listed| listed.job == job);
        members.flat_map(|listed| view.expand(listed)).count()
            >= view.job(job).map_or(0, |job| job.size()) as usize
    }

    /// Removes a participant that has joined.
    pub(super) fn leave_collective(&mut self, at: usize) {
        let collectives = &mut self.context.pmix.collectives;
        let Some(open) = collectives.get_mut(at) else { return };
        open.inside = open.inside.saturating_sub(1);
        if open.inside == 0 {
            collectives.remove(at);
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// The response to a process of job `own`: descriptions of the jobs that it is connected with.
    fn connect_response(
        self,
        ended: &OpenCollective<P::Bytes>,
        own: JobId,
        state: &PmixSessionStateOf<P>,
    ) -> PmixResponse<P::Bytes> {
        PmixResponse::body(pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            for (at, listed) in ended.listed().enumerate() {
                let job = listed.job;
                let is_new = ended.listed().take(at).all(|before| before.job != job);
                let namespace = self.pmix.namespace(job).zip(self.job(job));
                if let Some((namespace, job)) = namespace.filter(|_| is_new && listed.job != own) {
                    to.one(Type::BYTE_OBJECT).nested(|to| {
                        namespace.write_description(
                            job.name().as_bytes(),
                            state.protocol.release,
                            to,
                        );
                    });
                }
            }
            let others = ForeignProcs::new(ended.others().unwrap_or_default());
            for ForeignRanks { nspace, .. } in others.map_while(Result::ok) {
                if let Some((namespace, _)) = self.foreign(nspace) {
                    to.one(Type::BYTE_OBJECT).nested(|to| {
                        namespace.write_description(nspace, state.protocol.release, to);
                    });
                }
            }
        }))
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The participants one by one.
    pub(super) fn members(
        self,
        open: &'a OpenCollective<P::Bytes>,
    ) -> impl Iterator<Item = ProcId> + use<'a, P, S> {
        open.listed().flat_map(move |listed| self.view.expand(listed))
    }

    /// The number of participants that are gone without having joined.
    fn gone_from(self, open: &'a OpenCollective<P::Bytes>, at: usize) -> u32 {
        // Checked at each join, when nearly always no process is gone.
        let has_gone = |job: JobId| self.view.job(job).is_some_and(|job| job.gone > 0);
        if !open.listed().any(|listed| has_gone(listed.job)) {
            return 0;
        }
        let is_gone = |member: &ProcId| self.view.member(*member).is_some_and(Member::is_gone);
        let gone = self.members(open).filter(is_gone);
        let count = gone.filter(|member| !self.is_in(at, *member)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// True if a rank with several sessions has joined, which may be counted more than once.
    fn has_multiple_sessions(self, at: usize) -> bool {
        let inside = self.sessions.states().filter(|state| state.in_collective(at).is_some());
        inside
            .filter_map(|state| self.view.pmix.rank_data(state.protocol.peer?))
            .any(|data| data.sessions > 1)
    }

    /// True if a process has joined.
    pub(super) fn is_in(self, at: usize, member: ProcId) -> bool {
        self.of_peer(member).any(|(_, state)| state.in_collective(at).is_some())
    }
}
