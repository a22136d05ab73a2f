//! Rule: no rank leaves a fence before all have entered it.

use super::{Census, Finding};
use crate::event::SimEvent;
use crate::ranks::{in_order, index};
use crate::scenario::{Group, Home, JobPlan, PMIX, RankRequest, Scenario};
use pmi_core::wire::pmix::names::Status;

/// All fences so far, by participants.
#[derive(Clone, Debug)]
pub struct Fences {
    homes: Vec<Home>,
    jobs: Vec<(String, Home)>,
    nodes: Vec<u32>,
    groups: Vec<Participants>,
    /// The fences that each rank has entered and not left, with the number of the request.
    inside: Vec<Vec<(u32, FenceId)>>,
}

/// Identity of a fence: its participants, and its number among their fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FenceId {
    participants: usize,
    round: usize,
}

/// Passage of a rank through a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    Entered(FenceId),
    Left(FenceId),
}

/// Participants of fences under one tag.
#[derive(Clone, Debug)]
struct Participants {
    home: Home,
    kind: CollectiveKind,
    /// Members of the group, for a group fence.
    members: Option<Vec<u32>>,
    tag: Option<u32>,
    /// Number of fences of this circle that each rank has entered.
    entered: Vec<usize>,
    rounds: Vec<Round>,
}

/// Kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectiveKind {
    Fence,
    /// A collective that makes no puts visible.
    Ring,
    /// PMIx: all ranks of two jobs wait for each other, and know the other job then.
    Connect,
    /// PMIx: the same, after which they no longer know the other job.
    Disconnect,
}

/// One fence.
#[derive(Clone, Debug, Default)]
struct Round {
    /// True for each rank that has entered.
    inside: Vec<bool>,
    /// Number of ranks that have entered.
    count: usize,
    left: u32,
}

impl Fences {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            homes: (0..scenario.ranks).map(|rank| scenario.home(rank)).collect(),
            jobs: if PMIX { named(scenario) } else { Vec::new() },
            nodes: (0..scenario.ranks).map(|rank| scenario.node(rank)).collect(),
            groups: Vec::new(),
            inside: (0..scenario.ranks).map(|_| Vec::new()).collect(),
        }
    }

    /// The fence that a rank has entered by this request and not left.
    pub fn entered(&self, rank: u32, number: u32) -> Option<FenceId> {
        let inside = self.inside.get(index(rank))?;
        inside.iter().find(|(asked, _)| *asked == number).map(|(_, id)| *id)
    }

    /// True if two ranks share a job and a node.
    pub(super) fn are_neighbours(&self, one: u32, other: u32) -> bool {
        let place = |rank: u32| (self.homes.get(index(rank)), self.nodes.get(index(rank)));
        place(one) == place(other)
    }

    /// The ranks that a fence waits for.
    pub fn missing(&self, id: FenceId) -> Vec<u32> {
        let participants = &self.groups[id.participants];
        let round = &participants.rounds[id.round];
        let is_missing = |rank: &u32| !round.has(*rank);
        match &participants.members {
            None => participants.home.ranks().filter(is_missing).collect(),
            Some(members) => members.iter().copied().filter(is_missing).collect(),
        }
    }

    /// The ranks inside a fence.
    pub fn inside(&self, id: FenceId) -> impl Iterator<Item = u32> {
        let round = &self.groups[id.participants].rounds[id.round];
        (0..).zip(&round.inside).filter(|(_, is_inside)| **is_inside).map(|(rank, _)| rank)
    }

    /// True if a rank has left the fence.
    pub fn is_open(&self, id: FenceId) -> bool {
        self.groups[id.participants].rounds[id.round].left > 0
    }

    pub(super) fn observe(
        &mut self,
        event: &SimEvent,
        census: &Census,
        found: &mut Vec<Finding>,
    ) -> Option<Passage> {
        match event {
            SimEvent::Asked { rank, number, ask: RankRequest::Fence { group, tag } } => {
                let id = self.enter(*rank, CollectiveKind::Fence, group, *tag)?;
                self.inside.get_mut(index(*rank))?.push((*number, id));
                Some(Passage::Entered(id))
            }
            SimEvent::Asked { rank, number, ask: RankRequest::Ring { .. } } => {
                let id = self.enter(*rank, CollectiveKind::Ring, &Group::Job, None)?;
                self.inside.get_mut(index(*rank))?.push((*number, id));
                None
            }
            SimEvent::Asked { rank, number, ask } if PMIX && census.of(*rank).uses_pmix => {
                let id = match ask {
                    RankRequest::Connect { job } => {
                        self.meet(*rank, CollectiveKind::Connect, job)?
                    }
                    RankRequest::Disconnect { job } => {
                        self.meet(*rank, CollectiveKind::Disconnect, job)?
                    }
                    _ => return None,
                };
                self.inside.get_mut(index(*rank))?.push((*number, id));
                None
            }
            SimEvent::Answered {
                rank,
                number,
                ask:
                    RankRequest::Fence { .. }
                    | RankRequest::Ring { .. }
                    | RankRequest::Connect { .. }
                    | RankRequest::Disconnect { .. },
                got,
            } => {
                let inside = self.inside.get_mut(index(*rank))?;
                let at = inside.iter().position(|(asked, _)| asked == number)?;
                let (_, id) = inside.remove(at);
                // Replies with changed bytes are not those of the server.
                if census.of(*rank).is_tainted() {
                    return None;
                }
                // PMIx: it has completed without ranks that are gone.
                let is_partial = got.code == Status::PARTIAL_SUCCESS.0;
                if !got.is_success() && !is_partial {
                    self.withdraw(*rank, id);
                    return None;
                }
                self.leave((*rank, is_partial), id, census, found);
                (self.groups[id.participants].kind == CollectiveKind::Fence)
                    .then_some(Passage::Left(id))
            }
            _ => None,
        }
    }

    /// Enters a collective of all ranks of two jobs.
    fn meet(&mut self, rank: u32, kind: CollectiveKind, job: &str) -> Option<FenceId> {
        let own = *self.homes.get(index(rank))?;
        let (_, other) = self.jobs.iter().find(|(name, _)| name == job)?;
        let (first, second) = if own.first <= other.first { (own, *other) } else { (*other, own) };
        let members = if first == second {
            None
        } else {
            Some(first.ranks().chain(second.ranks()).collect())
        };
        self.come(rank, first, kind, members, None)
    }

    fn enter(
        &mut self,
        rank: u32,
        kind: CollectiveKind,
        group: &Group,
        tag: Option<u32>,
    ) -> Option<FenceId> {
        let home = *self.homes.get(index(rank))?;
        let members = match group {
            Group::Job => None,
            Group::World => Some(home.ranks().collect()),
            Group::Node => {
                let own = self.nodes.get(index(rank));
                Some(home.ranks().filter(|rank| self.nodes.get(index(*rank)) == own).collect())
            }
            Group::Ranks(ranks, _) => {
                Some(in_order(ranks.iter().map(|rank| home.first.saturating_add(*rank))))
            }
        };
        // A group without a tag has tag 0.
        let tag = if members.is_some() { Some(tag.unwrap_or(0)) } else { tag };
        self.come(rank, home, kind, members, tag)
    }

    fn come(
        &mut self,
        rank: u32,
        home: Home,
        kind: CollectiveKind,
        members: Option<Vec<u32>>,
        tag: Option<u32>,
    ) -> Option<FenceId> {
        let same = |participants: &Participants| {
            (participants.home, participants.kind, participants.tag) == (home, kind, tag)
                && participants.members == members
        };
        let at = self.groups.iter().position(same).unwrap_or_else(|| {
            let (entered, rounds) = (vec![0; self.nodes.len()], Vec::new());
            self.groups.push(Participants { home, kind, members, tag, entered, rounds });
            self.groups.len() - 1
        });
        let participants = &mut self.groups[at];
        let count = &mut participants.entered[index(rank)];
        let round = *count;
        *count += 1;
        if participants.rounds.len() <= round {
            participants.rounds.push(Round::default());
        }
        participants.rounds[round].set(rank, true);
        Some(FenceId { participants: at, round })
    }

    /// A refused request has not entered.
    fn withdraw(&mut self, rank: u32, id: FenceId) {
        let participants = &mut self.groups[id.participants];
        participants.rounds[id.round].set(rank, false);
        let count = &mut participants.entered[index(rank)];
        *count = count.saturating_sub(1);
        // A request of another thread of the rank belongs to this round, too.
        let inside = self.inside.get_mut(index(rank)).into_iter().flatten();
        let later =
            inside.filter(|(_, one)| one.participants == id.participants && one.round > id.round);
        for (_, one) in later {
            participants.rounds[one.round].set(rank, false);
            one.round -= 1;
            participants.rounds[one.round].set(rank, true);
        }
    }

    fn leave(
        &mut self,
        (rank, is_partial): (u32, bool),
        id: FenceId,
        census: &Census,
        found: &mut Vec<Finding>,
    ) {
        self.groups[id.participants].rounds[id.round].left += 1;
        let participants = &self.groups[id.participants];
        let all = participants.members.as_ref().map_or(index(participants.home.size), Vec::len);
        if participants.rounds[id.round].count >= all {
            return;
        }
        // Only unchanged requests can be held against a rank.
        let outside = self.missing(id);
        let outside: Vec<u32> =
            outside.into_iter().filter(|rank| census.of(*rank).speaks_true()).collect();
        let is_missed = |rank: &u32| !(is_partial && census.of(*rank).may_be_gone());
        let outside: Vec<u32> = outside.into_iter().filter(is_missed).collect();
        if !outside.is_empty() {
            let round = id.round;
            let what =
                format!("rank {rank} has left fence {round}, and {outside:?} have not entered it");
            found.push(("fence", what));
        }
    }
}

/// Jobs of the ranks.
fn named(scenario: &Scenario) -> Vec<(String, Home)> {
    let home = |plan: JobPlan| (plan.name, scenario.home(plan.first));
    scenario.all_jobs().map(home).collect()
}

impl Round {
    fn has(&self, rank: u32) -> bool {
        self.inside.get(index(rank)).copied().unwrap_or_default()
    }

    fn set(&mut self, rank: u32, is_inside: bool) {
        if self.inside.len() <= index(rank) {
            self.inside.resize(index(rank) + 1, false);
        }
        let was_inside = std::mem::replace(&mut self.inside[index(rank)], is_inside);
        self.count = self.count + usize::from(is_inside) - usize::from(was_inside);
    }
}
