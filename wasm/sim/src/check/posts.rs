//! Rule: data that PMIx ranks commit is seen within its scope only, and by all of that after a
//! fence.
//!
//! Each rank carries a clock with the number of earlier commits of every rank, as with puts of PMI.

use super::clocks::Clocks;
use super::fences::Passage;
use super::{Census, Finding};
use crate::event::{Received, SimEvent};
use crate::ranks::index;
use crate::scenario::{Home, RankRequest, Scenario};
use litemap::LiteMap;
use pmi_core::client::pmix::Scope;

/// Puts, commits and gets.
#[derive(Clone, Debug)]
pub(super) struct Posts {
    homes: Vec<Home>,
    nodes: Vec<u32>,
    /// Puts of each rank, in order.
    posts: Vec<Vec<Post>>,
    /// Number of commits that a rank has requested, and of those answered.
    commits: Vec<(u32, u32)>,
    clocks: Clocks,
    /// Clock of a get at its request, by rank and number.
    asked: LiteMap<(u32, u32), Vec<u32>>,
}

/// One value that was put.
#[derive(Clone, Debug)]
struct Post {
    scope: Scope,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Number of the commit of its rank that publishes it, from 1.
    commit: u32,
}

impl Posts {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let ranks = 0..scenario.ranks;
        let count = usize::try_from(scenario.ranks).unwrap_or(0);
        Self {
            homes: ranks.clone().map(|rank| scenario.home(rank)).collect(),
            nodes: ranks.map(|rank| scenario.node(rank)).collect(),
            posts: vec![Vec::new(); count],
            commits: vec![(0, 0); count],
            clocks: Clocks::new(scenario.ranks),
            asked: LiteMap::new(),
        }
    }

    pub(super) fn observe(
        &mut self,
        event: &SimEvent,
        passage: Option<Passage>,
        census: &Census,
        found: &mut Vec<Finding>,
    ) {
        match event {
            SimEvent::Asked { rank, number, ask } => {
                self.ask(*rank, *number, ask);
                self.clocks.pass(*rank, passage);
            }
            SimEvent::Answered { rank, number, ask, got } => {
                self.clocks.pass(*rank, passage);
                self.answer((*rank, *number), ask, got, census, found);
            }
            _ => {}
        }
    }

    fn ask(&mut self, rank: u32, number: u32, ask: &RankRequest) {
        match ask {
            RankRequest::PutFor { scope, key, value } => {
                let (scope, key, value) = (*scope, key.clone(), value.clone());
                let commit = self.commits[index(rank)].0 + 1;
                self.posts[index(rank)].push(Post { scope, key, value, commit });
            }
            RankRequest::Commit => self.commits[index(rank)].0 += 1,
            RankRequest::GetOf { .. } => {
                self.asked.insert((rank, number), self.clocks.of(rank).clone());
            }
            _ => {}
        }
    }

    fn answer(
        &mut self,
        (rank, number): (u32, u32),
        ask: &RankRequest,
        got: &Received,
        census: &Census,
        found: &mut Vec<Finding>,
    ) {
        match ask {
            RankRequest::Commit if got.is_success() && !census.of(rank).is_tainted() => {
                let done = &mut self.commits[index(rank)].1;
                *done += 1;
                *self.clocks.own(rank) = *done;
            }
            RankRequest::GetOf { rank: of, key, .. } => {
                let Some(clock) = self.asked.remove(&(rank, number)) else { return };
                // Bytes that were changed in transit may have any content.
                if !census.is_wild && !census.of(rank).is_tainted() {
                    found.extend(self.judge((rank, *of), key, &clock, got));
                }
            }
            _ => {}
        }
    }

    /// Judges a value of one rank of the job, or, without a rank, of any that has put the key.
    fn judge(
        &self,
        (rank, of): (u32, Option<u32>),
        key: &[u8],
        before: &[u32],
        got: &Received,
    ) -> Option<Finding> {
        let text = key.escape_ascii();
        let home = self.homes[index(rank)];
        let owners = || match of {
            Some(own) => home.first.saturating_add(own)..home.first.saturating_add(own + 1),
            None => home.ranks(),
        };
        let whose = of.map_or("some rank".into(), |own| format!("rank {}", home.first + own));
        let visible =
            |of: u32| self.posts_of(of, key).filter(move |post| self.may_see(rank, of, post.scope));
        let is_sure = |of: u32, post: &Post| post.commit <= before[index(of)];
        let Some(value) = got.value() else {
            let sure = |of: u32| visible(of).find(|post| is_sure(of, post)).map(|post| (of, post));
            let (by, lost) = owners().find_map(sure)?;
            let value = lost.value.escape_ascii();
            let what = format!(
                "rank {rank} did not find `{text}` of {whose}, which rank {by} had committed before as \
                 `{value}`"
            );
            return Some(("value", what));
        };
        // A value that is certainly overwritten cannot be the reply; any of the later ones may be.
        let is_fine = |of: u32| {
            let last = visible(of).filter(|post| is_sure(of, post)).last().map(|post| post.commit);
            let is_over = |post: &Post| last.is_some_and(|last| post.commit < last);
            visible(of).any(|post| post.value == value && !is_over(post))
        };
        if owners().any(is_fine) {
            return None;
        }
        let leaks = owners().any(|of| self.posts_of(of, key).any(|post| post.value == value));
        let is_hidden = owners().all(|of| visible(of).next().is_none());
        let value = value.escape_ascii();
        let what = format!("rank {rank} found `{value}` under `{text}` of {whose}");
        Some(match leaks && is_hidden {
            true => ("scope", format!("{what}, which is outside its scope")),
            false => ("value", format!("{what}, which no rank can have committed")),
        })
    }

    /// Puts of a rank under a key, with a commit after them.
    fn posts_of(&self, of: u32, key: &[u8]) -> impl Iterator<Item = &Post> {
        let commits = self.commits.get(index(of)).map_or(0, |(asked, _)| *asked);
        let own = self.posts.get(index(of)).map_or(&[][..], |posts| posts);
        own.iter().filter(move |post| post.key == key && post.commit <= commits)
    }

    /// True if a value that `of` puts with this scope is visible to `rank`.
    fn may_see(&self, rank: u32, of: u32, scope: Scope) -> bool {
        let is_local = self.nodes.get(index(rank)) == self.nodes.get(index(of));
        match scope {
            Scope::Local => is_local,
            Scope::Remote => !is_local,
            Scope::Global => true,
        }
    }
}
