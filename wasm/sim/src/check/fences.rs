//! Nobody leaves a fence before all have entered it.

use super::{Census, Found};
use crate::note::Note;
use crate::scenario::{Ask, Group, Scenario};
use std::collections::{BTreeMap, BTreeSet};

/// All fences so far, by who takes part.
#[derive(Clone, Debug)]
pub struct Fences {
    size: u32,
    nodes: Vec<u32>,
    groups: Vec<Circle>,
    /// The fence that a question entered: by rank and number of the question.
    inside: BTreeMap<(u32, u32), FenceId>,
}

/// Which fence: of which circle, and the how manieth of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FenceId {
    circle: usize,
    round: usize,
}

/// What a rank did to a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    Entered(FenceId),
    Left(FenceId),
}

/// Those who fence together under one tag.
#[derive(Clone, Debug)]
struct Circle {
    /// `None`: everybody, in the form without a group.
    members: Option<Vec<u32>>,
    tag: Option<u32>,
    /// How many fences of this circle each rank has entered.
    entered: BTreeMap<u32, usize>,
    rounds: Vec<Round>,
}

/// One fence.
#[derive(Clone, Debug, Default)]
struct Round {
    inside: BTreeSet<u32>,
    left: u32,
}

impl Fences {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            size: scenario.ranks,
            nodes: (0..scenario.ranks).map(|rank| scenario.node(rank)).collect(),
            groups: Vec::new(),
            inside: BTreeMap::new(),
        }
    }

    /// The fence that the question of a rank has entered and not left.
    pub fn entered(&self, rank: u32, number: u32) -> Option<FenceId> {
        self.inside.get(&(rank, number)).copied()
    }

    /// The ranks that a fence waits for.
    pub fn missing(&self, id: FenceId) -> Vec<u32> {
        let circle = &self.groups[id.circle];
        let inside = &circle.rounds[id.round].inside;
        let is_missing = |rank: &u32| !inside.contains(rank);
        match &circle.members {
            None => (0..self.size).filter(is_missing).collect(),
            Some(members) => members.iter().copied().filter(is_missing).collect(),
        }
    }

    /// Whether somebody has left a fence already.
    pub fn is_open(&self, id: FenceId) -> bool {
        self.groups[id.circle].rounds[id.round].left > 0
    }

    pub(super) fn observe(
        &mut self,
        note: &Note,
        census: &Census,
        found: &mut Vec<Found>,
    ) -> Option<Passage> {
        match note {
            Note::Asked { rank, number, ask: Ask::Fence { group, tag } } => {
                let id = self.enter(*rank, group, *tag);
                self.inside.insert((*rank, *number), id);
                Some(Passage::Entered(id))
            }
            Note::Answered { rank, number, ask: Ask::Fence { .. }, got } => {
                let id = self.inside.remove(&(*rank, *number))?;
                // What a rank hears in flipped bytes is not what the server said.
                if census.of(*rank).is_tainted() {
                    return None;
                }
                if !got.is_success() {
                    self.withdraw(*rank, id);
                    return None;
                }
                self.leave(*rank, id, census, found);
                Some(Passage::Left(id))
            }
            _ => None,
        }
    }

    fn enter(&mut self, rank: u32, group: &Group, tag: Option<u32>) -> FenceId {
        let members = match group {
            Group::Job => None,
            Group::World => Some((0..self.size).collect()),
            Group::Node => {
                let own = self.nodes.get(usize::try_from(rank).unwrap_or(usize::MAX));
                let ranks = (0..).zip(&self.nodes).filter(|(_, node)| Some(*node) == own);
                Some(ranks.map(|(rank, _)| rank).collect())
            }
            Group::Ranks(ranks, _) => {
                let mut ranks = ranks.clone();
                ranks.sort_unstable();
                Some(ranks)
            }
        };
        // A group without a tag has tag 0.
        let tag = if members.is_some() { Some(tag.unwrap_or(0)) } else { tag };
        let same = |circle: &Circle| circle.members == members && circle.tag == tag;
        let at = self.groups.iter().position(same).unwrap_or_else(|| {
            let (entered, rounds) = (BTreeMap::new(), Vec::new());
            self.groups.push(Circle { members, tag, entered, rounds });
            self.groups.len() - 1
        });
        let circle = &mut self.groups[at];
        let count = circle.entered.entry(rank).or_default();
        let round = *count;
        *count += 1;
        if circle.rounds.len() <= round {
            circle.rounds.push(Round::default());
        }
        circle.rounds[round].inside.insert(rank);
        FenceId { circle: at, round }
    }

    /// A refused question has not entered.
    fn withdraw(&mut self, rank: u32, id: FenceId) {
        let circle = &mut self.groups[id.circle];
        circle.rounds[id.round].inside.remove(&rank);
        if let Some(count) = circle.entered.get_mut(&rank) {
            *count = count.saturating_sub(1);
        }
    }

    fn leave(&mut self, rank: u32, id: FenceId, census: &Census, found: &mut Vec<Found>) {
        self.groups[id.circle].rounds[id.round].left += 1;
        let circle = &self.groups[id.circle];
        let all = circle.members.as_ref().map_or(census.len(), Vec::len);
        if circle.rounds[id.round].inside.len() >= all {
            return;
        }
        // Only what speaks for itself can be held to what it said.
        let outside = self.missing(id);
        let outside: Vec<u32> =
            outside.into_iter().filter(|rank| census.of(*rank).speaks_true()).collect();
        if !outside.is_empty() {
            let round = id.round;
            found.push((
                "fence",
                format!("rank {rank} has left fence {round}, and {outside:?} have not entered it"),
            ));
        }
    }
}
