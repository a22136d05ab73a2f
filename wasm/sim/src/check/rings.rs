//! Rule: a ring gives each rank the values of its neighbours, and nothing else.

use super::{Census, Finding};
use crate::event::{ReplyBody, SimEvent};
use crate::ranks::index;
use crate::scenario::{Home, RankRequest, Scenario};

/// All rings so far.
#[derive(Clone, Debug)]
pub(super) struct Rings {
    homes: Vec<Home>,
    /// Values of each rank, ring by ring.
    passed: Vec<Vec<Passed>>,
}

/// Values of a rank for its neighbours.
#[derive(Clone, Debug)]
struct Passed {
    number: u32,
    left: Vec<u8>,
    right: Vec<u8>,
}

impl Rings {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let ranks = 0..scenario.ranks;
        Self {
            homes: ranks.clone().map(|rank| scenario.home(rank)).collect(),
            passed: ranks.map(|_| Vec::new()).collect(),
        }
    }

    pub(super) fn observe(&mut self, event: &SimEvent, census: &Census, found: &mut Vec<Finding>) {
        match event {
            SimEvent::Asked { rank, number, ask: RankRequest::Ring { left, right } } => {
                if let Some(passed) = self.passed.get_mut(index(*rank)) {
                    let (left, right) = (left.clone(), right.clone());
                    passed.push(Passed { number: *number, left, right });
                }
            }
            SimEvent::Answered { rank, number, ask: RankRequest::Ring { .. }, got } => {
                if !got.is_success() {
                    // A refused request is in no ring.
                    let passed = self.passed.get_mut(index(*rank));
                    passed.into_iter().for_each(|own| own.retain(|one| one.number != *number));
                } else if !census.is_wild && !census.of(*rank).is_tainted() {
                    let what = self.wrong(*rank, *number, &got.said);
                    found.extend(what.map(|what| ("ring", what)));
                }
            }
            _ => {}
        }
    }

    fn wrong(&self, rank: u32, number: u32, said: &ReplyBody) -> Option<String> {
        let home = *self.homes.get(index(rank))?;
        let own = self.passed.get(index(rank))?;
        let round = own.iter().position(|one| one.number == number)?;
        let before = home.first + (home.own(rank) + home.size - 1) % home.size;
        let behind = home.first + (home.own(rank) + 1) % home.size;
        let of = |rank: u32| self.passed.get(index(rank)).and_then(|passed| passed.get(round));
        // Leaving a ring before all have entered is the subject of another rule.
        let (before, behind) = (of(before)?, of(behind)?);
        let ReplyBody::Ring { place, left, right } = said else {
            return Some(format!(
                "rank {rank} left a ring and received no values of its neighbours"
            ));
        };
        let is_right = *place == home.own(rank) && (left, right) == (&before.right, &behind.left);
        (!is_right).then(|| {
            format!(
                "rank {rank} left a ring as number {place} with `{}` from the left and `{}` from \
                 the right, which are not the values of its neighbours",
                left.escape_ascii(),
                right.escape_ascii()
            )
        })
    }
}
