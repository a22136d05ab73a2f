//! A job: its members, its store, its fence. It knows no bytes and no dialect.

use super::member::{Member, MemberListener, Phase};
use super::outcome::{Outcome, Wake};
use super::response::Response;
use super::roster::{self, place_of, rank_at, ranked};
use crate::command::{FenceGroup, Reason, Request, Verb};
use crate::ids::{JobId, KvsName, Rank, SessionId};
use crate::limits::JOB_LINKS;
use crate::parts::{self, PartOption};
use crate::store::{Fence, Keyspace, Kvs, NoRoom, Visibility};
use crate::time::Instant;
use core::ops::Range;

/// Requests of a job that its owner executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandUp {
    Nothing,
    /// Those about published names.
    Names,
    /// Those in which tools of the run take part: names, events and new groups.
    Shared,
    /// All that concern several nodes.
    All,
}

/// A set of processes with one key-value space and one fence.
#[derive(Debug)]
pub struct Job<K, M> {
    name: KvsName,
    spawner: parts::SpawnOption<KvsName>,
    universe_size: Option<u32>,
    /// Number of ranks on all nodes, if it is not that of the members.
    size: Option<u32>,
    hand_up: HandUp,
    members: M,
    /// True if a debugger controls it.
    pub(super) is_debugged: bool,
    /// True if clients are asked to print debug messages.
    pub(super) is_verbose: bool,
    pub(super) kvs: K,
    fence: Fence,
    /// The members inside are marked in the members.
    pub(super) ring: Fence,
    /// Jobs connected directly, at the request of either side.
    pub(super) links: heapless::Vec<JobId, JOB_LINKS>,
    /// Id that all jobs connected directly or indirectly share.
    pub(super) connected_set: Option<JobId>,
    /// Number of members that are gone; a fence with one of them outside cannot complete.
    pub(super) gone: u32,
    stuck_reported: bool,
    /// The same for the ring.
    pub(super) ring_stuck_reported: bool,
    last_progress: Option<Instant>,
    /// True after a put that no fence over several nodes carries yet.
    pub(super) has_unsent_puts: bool,
    /// True if the fence that was handed up carries puts.
    pub(super) has_contribution: bool,
    /// True after a member has gone, or has entered a group fence while another is gone.
    pub(super) may_have_stuck_group: bool,
    /// True after a member has gone, or waits for an attribute of its node.
    pub(super) may_have_stuck_attribute: bool,
}

/// Description of a new job.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Name of its key-value space, in PMI-2 its id; unique among the jobs of a server.
    pub name: KvsName,
    /// The job that spawned it.
    pub spawner: Option<KvsName>,
    /// Upper bound of the number of processes, if known.
    pub universe_size: Option<u32>,
    /// Number of ranks on all nodes; `None` if all of them are members here.
    pub size: Option<u32>,
    /// True if other nodes have members too: then a fence that is complete here is handed up, and
    /// ends with [`Server::end_fence`](super::Server::end_fence).
    pub has_uplink: bool,
}

/// The member that makes a request, and when.
#[derive(Clone, Copy)]
pub(super) struct RequestContext {
    pub(super) rank: Rank,
    pub(super) now: Instant,
}

/// The fence of a job after one more member has entered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FenceEntry {
    /// Number of the fence.
    pub(super) generation: u32,
    /// True if all members of all nodes are inside.
    pub(super) is_complete: bool,
}

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Job<K, M> {
    pub(super) fn new(spec: JobSpec, members: M, kvs: K) -> Self {
        let JobSpec { name, spawner, universe_size, size, has_uplink } = spec;
        let fence = Fence::default();
        Self {
            name,
            spawner: PartOption::keep(spawner),
            universe_size,
            size: if parts::NODES { size } else { None },
            hand_up: if has_uplink { HandUp::All } else { HandUp::Nothing },
            members,
            is_debugged: false,
            is_verbose: false,
            kvs,
            fence,
            ring: Fence::default(),
            links: heapless::Vec::new(),
            connected_set: None,
            gone: 0,
            stuck_reported: false,
            ring_stuck_reported: false,
            last_progress: None,
            has_unsent_puts: false,
            has_contribution: false,
            may_have_stuck_group: false,
            may_have_stuck_attribute: false,
        }
    }

    /// Handles a request about the job.
    pub(super) fn request(&mut self, context: RequestContext, request: &Request<'_>) -> Outcome {
        Outcome::reply(match *request {
            Request::Maxes => Response::Maxes,
            Request::AppNum => Response::AppNum,
            Request::UniverseSize => Response::UniverseSize,
            Request::KvsName => Response::KvsName,
            Request::Get { place, key, wait } => self.get(context.rank, place, key, wait),
            Request::Put { place, key, value } => return self.put(context, place, key, value),
            Request::Fence { group: FenceGroup::World, tag: None } => {
                return self.fence_all(context);
            }
            Request::Fence { group, tag } if parts::GROUPS => {
                return self.enter_group(context.rank, group, tag.unwrap_or(0));
            }
            Request::Ring { left, right } if parts::CONNECT => {
                return self.enter_ring(context, left, right);
            }
            _ => Response::refused(Reason::NotOffered { what: "this request" }),
        })
    }

    /// Stores a value of the process manager; members read it as a key of their keyspace and as a
    /// job attribute.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the store is full.
    pub(super) fn preset(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), NoRoom> {
        self.kvs.put(keyspace, key, value, Visibility::Manager).map(drop)
    }

    /// Records `session` as that of `rank`.
    pub(super) fn connect(&mut self, rank: Rank, session: SessionId) -> Option<Rank> {
        let member = self.member_mut(rank)?;
        if member.session.is_some() {
            return None;
        }
        member.session = Some(session);
        self.change(rank, |member| {
            (member.phase, member.is_disconnected) = (Phase::Connected, false)
        });
        Some(rank)
    }

    /// Advances the phase of `rank`.
    pub(super) fn advance(&mut self, rank: Rank, phase: Phase) {
        self.change(rank, |member| member.phase = phase);
    }

    /// Records that the session of `rank` has ended before `init`. Until `rank` connects again, no
    /// fence waits for it.
    pub(super) fn mark_disconnected(&mut self, rank: Rank) {
        self.change(rank, |member| member.is_disconnected = true);
    }

    /// Records that the process of `rank` has terminated.
    pub(super) fn mark_exited(&mut self, rank: Rank) {
        self.change(rank, |member| member.has_exited = true);
    }

    /// Notes that `rank` may begin anew after `finalize`, and wants fences to end without those that
    /// are gone.
    #[cfg(feature = "pmix")]
    pub(super) fn set_tolerates_failures(&mut self, rank: Rank) {
        self.change(rank, |member| member.tolerates_failures = true);
    }

    /// The same for all members.
    #[cfg(feature = "pmix")]
    pub(super) fn set_all_tolerate_failures(&mut self) {
        for member in self.members.as_mut() {
            member.tolerates_failures = true;
        }
    }

    /// Removes `rank` from the fence that it is in, whose deadline has passed.
    #[cfg(feature = "pmix")]
    pub(super) fn withdraw(&mut self, rank: Rank) {
        let generation = self.fence.generation();
        if let Some(member) = self.member_mut(rank).filter(|member| member.fences != generation) {
            member.fences = generation;
            self.fence.leave();
        }
    }

    pub(super) fn change(&mut self, rank: Rank, change: impl FnOnce(&mut Member)) {
        let Some(member) = self.member_mut(rank) else { return };
        let was_gone = member.is_gone();
        change(member);
        let is_gone = member.is_gone();
        self.gone = (self.gone + u32::from(is_gone)).saturating_sub(u32::from(was_gone));
        self.may_have_stuck_group |= parts::GROUPS && is_gone && !was_gone;
        self.may_have_stuck_attribute |= parts::ATTRIBUTES && is_gone && !was_gone;
    }

    /// Records the second connection of `rank`; the latest one counts.
    pub(super) fn listen(&mut self, rank: Rank, listener: MemberListener) {
        if let Some(member) = self.member_mut(rank) {
            member.listener = PartOption::keep(Some(listener));
        }
    }

    /// Records that a second connection was closed.
    pub(super) fn stop_listening(&mut self, session: SessionId) {
        for member in self.members.as_mut() {
            if member.listener.as_ref().is_some_and(|listener| listener.session == session) {
                member.listener = PartOption::keep(None);
            }
        }
    }

    /// The member that listens on `session`.
    pub(super) fn listener(&self, session: SessionId) -> Option<(Rank, &MemberListener)>
    where
        M: AsRef<[Member]>,
    {
        let is = |listener: &&MemberListener| listener.session == session;
        ranked(self.members.as_ref())
            .find_map(|(rank, member)| Some((rank, member.listener.as_ref().filter(is)?)))
    }

    /// Records that the session of `rank` was closed.
    pub(super) fn disconnect(&mut self, rank: Rank) {
        let Some(member) = self.member_mut(rank) else { return };
        member.session = None;
        if member.phase == Phase::Connected {
            member.phase = Phase::Absent;
        }
    }

    /// Records a message of `rank`.
    pub(super) fn record_message(&mut self, rank: Rank, verb: Verb, now: Instant) {
        if let Some(member) = self.member_mut(rank) {
            member.last_message_at = Some(now);
            member.request_count = member.request_count.saturating_add(1);
        }
        if !verb.is_read_only() {
            self.last_progress = Some(now);
        }
    }

    /// Ends the fence. Puts made so far are visible from now on.
    pub(super) fn end_fence(&mut self) {
        let ended = self.fence.generation();
        let is_partial = cfg!(feature = "pmix") && self.fence.inside() < self.local_size();
        self.fence.end();
        // A member that was outside stays outside the next fence.
        for member in self.members.as_mut().iter_mut().filter(|_| is_partial) {
            if member.fences == ended {
                member.fences = self.fence.generation();
            }
        }
        self.stuck_reported = false;
        self.has_contribution = false;
    }

    /// Makes visible what the members put that `is_member` chooses, as the end of their group's
    /// fence does.
    pub(super) fn publish_puts(&mut self, is_member: impl Fn(&Member) -> bool) {
        let mut last = self.kvs.next(None);
        while let Some(id) = last {
            last = self.kvs.next(Some(id));
            if let Some(Visibility::Put { writer, fence }) =
                self.kvs.entry(id).map(|entry| entry.visibility)
                && fence > self.fence.generation()
                && self.member(writer).is_some_and(&is_member)
            {
                self.kvs.set_visibility(id, Visibility::at_once(writer));
            }
        }
    }

    /// Once for each fence and each ring: a member that is outside and will never come, while others
    /// wait inside.
    pub(super) fn stuck(&mut self) -> Option<Rank> {
        if self.gone == 0 {
            return None;
        }
        if parts::CONNECT
            && let Some(gone) = self.stuck_ring()
        {
            return Some(gone);
        }
        if self.fence.inside() == 0 || self.stuck_reported {
            return None;
        }
        let generation = self.fence.generation();
        let members = self.members();
        let mut inside = members.iter().filter(|member| member.fences != generation);
        if cfg!(feature = "pmix") && inside.all(|member| member.tolerates_failures) {
            return None;
        }
        let is_lost = |member: &Member| member.fences == generation && member.is_gone();
        let (gone, _) = self.ranked().find(|(_, member)| is_lost(member))?;
        self.stuck_reported = true;
        Some(gone)
    }

    fn fence_all(&mut self, context: RequestContext) -> Outcome {
        match self.enter_fence(context.rank, context.now) {
            Ok(FenceEntry { generation, is_complete }) => {
                let wake = if is_complete { Wake::FenceEnded } else { Wake::None };
                Outcome::wake(Response::Fence(generation), wake)
            }
            Err(reason) => Outcome::refused(reason),
        }
    }

    /// Lets a member into the fence of the job. If other nodes have members too, a fence that is
    /// complete here is handed up.
    ///
    /// # Errors
    ///
    /// Refusal of a rank that does not exist or is already inside; nothing has changed.
    pub(super) fn enter_fence(
        &mut self,
        rank: Rank,
        now: Instant,
    ) -> Result<FenceEntry, Reason<'static>> {
        let generation = self.fence.generation();
        let all = self.local_size();
        let member = self.member_mut(rank).ok_or(Reason::NoSuch { what: "rank" })?;
        if member.fences != generation {
            return Err(Reason::OutOfOrder { expected: "the end of the fence it is in" });
        }
        member.fences = generation.wrapping_add(1);
        self.last_progress = Some(now);
        let is_complete = self.fence.enter(now, all);
        Ok(FenceEntry { generation, is_complete: is_complete && self.complete_fence() })
    }

    /// Handles the completion of a fence on this node. True if no other node has members, so that it ends;
    /// else it is handed up.
    pub(super) fn complete_fence(&mut self) -> bool {
        if self.is_over_nodes() {
            self.collect_early_puts();
        }
        if self.hand_up == HandUp::All {
            self.fence.hand_up();
        }
        self.hand_up != HandUp::All
    }

    /// Hands up what clients of the run that are no ranks take part in, from now on.
    pub(super) fn share_with_run(&mut self) {
        if self.hand_up != HandUp::All {
            self.hand_up = HandUp::Shared;
        }
    }

    /// Hands requests about published names up from now on.
    pub(super) fn hand_names_up(&mut self) {
        if self.hand_up == HandUp::Nothing {
            self.hand_up = HandUp::Names;
        }
    }

    /// The number of a fence that is complete here, once after it was handed up.
    pub(super) fn take_hand_up(&mut self) -> Option<u32> {
        self.fence.take_hand_up().then(|| self.fence.generation())
    }

    pub(super) fn member_mut(&mut self, rank: Rank) -> Option<&mut Member> {
        let place = place_of(self.members.as_ref(), rank)?;
        self.members.as_mut().get_mut(place)
    }
}

impl<K, M: AsRef<[Member]>> Job<K, M> {
    /// Name of its key-value space; in PMI-2 its id.
    pub const fn name(&self) -> &KvsName {
        &self.name
    }

    /// The job that spawned it.
    pub const fn spawner(&self) -> Option<&KvsName> {
        self.spawner.as_ref()
    }

    /// Upper bound of the number of processes; -1 if unknown.
    pub fn universe_size(&self) -> i32 {
        self.universe_size.and_then(|size| i32::try_from(size).ok()).unwrap_or(-1)
    }

    /// Number of ranks, on all nodes.
    pub fn size(&self) -> u32 {
        if parts::NODES
            && let Some(size) = self.size
        {
            size
        } else {
            self.local_size()
        }
    }

    /// The ranks, on all nodes: from 0, or from that of the first member in a job without a
    /// [size](JobSpec::size), such as that of a tool that has brought a rank.
    pub fn ranks(&self) -> Range<u32> {
        let first = match self.size {
            Some(_) => None,
            None => rank_at(self.members(), 0),
        };
        let first = first.map_or(0, |rank| rank.0);
        first..first.saturating_add(self.size())
    }

    /// Number of members, which are the ranks on this node.
    pub(super) fn local_size(&self) -> u32 {
        u32::try_from(self.members.as_ref().len()).unwrap_or(u32::MAX)
    }

    /// True if fences are handed up.
    pub(super) const fn is_over_nodes(&self) -> bool {
        parts::NODES && matches!(self.hand_up, HandUp::All)
    }

    /// True if the run has clients of its own, which events and new groups concern.
    #[cfg(feature = "pmix")]
    pub(super) const fn is_served_by_head(&self) -> bool {
        parts::NODES && matches!(self.hand_up, HandUp::All | HandUp::Shared)
    }

    /// True if requests about published names are handed up.
    pub(super) const fn hands_names_up(&self) -> bool {
        parts::NODES && !matches!(self.hand_up, HandUp::Nothing)
    }

    /// Number of the fence that carries the next put.
    pub(super) fn next_fence(&self) -> u32 {
        let is_late = self.is_over_nodes() && self.fence.is_handed_up();
        self.fence.generation().wrapping_add(1 + u32::from(is_late))
    }

    /// True if other nodes have ranks of the job.
    pub fn has_remote(&self) -> bool {
        parts::NODES && self.size.is_some_and(|size| size > self.local_size())
    }

    /// True if another node has this rank.
    pub fn is_remote(&self, rank: Rank) -> bool {
        self.has_remote() && rank.0 < self.size() && self.member(rank).is_none()
    }

    /// True if the members stand in the order of their ranks, which are those of the job.
    pub(super) fn has_valid_ranks(&self) -> bool {
        roster::is_valid(self.members(), self.ranks().end)
    }

    /// The members, which are the ranks on this node, in the order of their ranks.
    pub fn members(&self) -> &[Member] {
        self.members.as_ref()
    }

    /// The members with their ranks.
    pub fn ranked(&self) -> impl Iterator<Item = (Rank, &Member)> {
        ranked(self.members())
    }

    /// The member with this rank; `None` if it is on another node, or does not exist.
    pub fn member(&self, rank: Rank) -> Option<&Member> {
        let members = self.members();
        members.get(place_of(members, rank)?)
    }

    /// The member that connects with `id`.
    pub(super) fn find_token(&self, id: u64) -> Option<Rank> {
        let is = |(rank, member): &(Rank, &Member)| member.token.unwrap_or(u64::from(rank.0)) == id;
        self.ranked().find(is).map(|(rank, _)| rank)
    }

    /// True if the member connects with a number that only its process received.
    pub(super) fn has_token(&self, rank: Rank) -> bool {
        self.member(rank).is_some_and(|member| member.token.is_some())
    }

    /// The fence of the whole job.
    pub const fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The key-value space, read-only.
    pub const fn kvs(&self) -> &K {
        &self.kvs
    }

    /// Time of the latest request that other ranks may wait for, which is any but a read: a member
    /// that requests the same key repeatedly makes no progress.
    pub const fn last_progress(&self) -> Option<Instant> {
        self.last_progress
    }

    /// The ranks of this node that the current fence waits for.
    pub fn missing(&self) -> impl Iterator<Item = Rank> {
        let generation = self.fence.generation();
        let outside = move |member: &Member| member.fences == generation;
        self.ranked().filter(move |(_, member)| outside(member)).map(|(rank, _)| rank)
    }
}
