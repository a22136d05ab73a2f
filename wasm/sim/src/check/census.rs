//! Facts about each rank, from observed events.

use super::Finding;
use crate::event::{SimEvent, Turn};
use crate::net::LinkFault;
use crate::scenario::{Dialect, Direction, FaultKind, RankRequest, Scenario};

/// All ranks.
#[derive(Clone, Debug)]
pub struct Census {
    ranks: Vec<RankFacts>,
    /// True if bytes that no client made reached the server, so the writer of a value is uncertain.
    pub(super) is_wild: bool,
}

/// Facts about a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankFacts {
    /// True if its process has started.
    pub has_started: bool,
    /// True if its process has exited.
    pub has_ended: bool,
    /// True if the host has killed it.
    pub by_host: bool,
    /// True if it is stopped, makes no steps, or does not read.
    pub is_idle: bool,
    /// True if it has closed its end of the link.
    pub has_left: bool,
    /// True if the link broke.
    pub is_reset: bool,
    /// True if it has sent bytes that its client did not make.
    pub is_rude: bool,
    /// True if bytes from it were changed in transit.
    pub is_flipped_up: bool,
    /// True if bytes to it were changed in transit.
    pub is_flipped_down: bool,
    /// True if its client detected an error of the peer.
    pub has_broken: bool,
    /// True if it connects by TCP.
    pub connects_by_itself: bool,
    /// True if it speaks PMIx.
    pub uses_pmix: bool,
    /// True if it has announced requests from several threads.
    pub has_threads: bool,
    /// True if it has connected and identified itself.
    pub has_joined: bool,
    /// True if it has received the answer to `init`.
    pub is_open: bool,
    /// True if it has requested to finalize.
    pub has_finalized: bool,
    /// True if it has received the answer to finalize.
    pub is_finished: bool,
    /// True if it has requested an abort.
    pub has_aborted: bool,
}

impl Census {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let facts = |rank| {
            let plan = scenario.plan(rank);
            let uses_pmix = plan.dialect == Dialect::Pmix;
            RankFacts {
                connects_by_itself: plan.connects_by_itself,
                uses_pmix,
                ..RankFacts::default()
            }
        };
        Self { ranks: (0..scenario.ranks).map(facts).collect(), is_wild: false }
    }

    /// Facts about `rank`.
    pub fn of(&self, rank: u32) -> RankFacts {
        usize::try_from(rank).ok().and_then(|at| self.ranks.get(at)).copied().unwrap_or_default()
    }

    /// All ranks in order.
    pub fn all(&self) -> impl Iterator<Item = (u32, RankFacts)> {
        (0..).zip(self.ranks.iter().copied())
    }

    /// Number of ranks.
    pub const fn len(&self) -> usize {
        self.ranks.len()
    }

    /// True for a job without ranks, which does not exist.
    pub const fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    pub(super) fn observe(&mut self, event: &SimEvent, found: &mut Vec<Finding>) {
        if matches!(event, SimEvent::KillAll) {
            self.ranks.iter_mut().filter(|facts| !facts.has_ended).for_each(|f| f.by_host = true);
        }
        let Some(facts) = event
            .rank()
            .and_then(|rank| usize::try_from(rank).ok())
            .and_then(|at| self.ranks.get_mut(at))
        else {
            return;
        };
        match event {
            SimEvent::Started { .. } => facts.has_started = true,
            SimEvent::Asked { ask: RankRequest::FullInit { threaded: true, .. }, .. } => {
                facts.has_threads = true;
            }
            SimEvent::Asked { ask: RankRequest::Finalize, .. } => facts.has_finalized = true,
            SimEvent::Asked { ask: RankRequest::Abort { .. }, .. } => facts.has_aborted = true,
            SimEvent::Answered { ask, got, .. } if got.is_success() => match ask {
                // A PMI-2 client on a new connection identifies itself only after the version is
                // negotiated.
                RankRequest::Init(version) => {
                    facts.is_open = version.major < 2 || !facts.connects_by_itself
                }
                RankRequest::FullInit { .. } | RankRequest::JoinPmix => facts.is_open = true,
                RankRequest::Finalize => facts.is_finished = true,
                _ => {}
            },
            SimEvent::Sent { is_raw: true, .. } => {
                facts.is_rude = true;
                self.is_wild = true;
            }
            SimEvent::Joined { .. } => facts.has_joined = true,
            SimEvent::Left { .. } => facts.has_left = true,
            SimEvent::Process { turn, .. } => match turn {
                Turn::Exited(_) | Turn::Killed => facts.has_ended = true,
                Turn::Stopped | Turn::Hung | Turn::Deaf => facts.is_idle = true,
                Turn::Continued | Turn::ReadsAgain => facts.is_idle = false,
            },
            SimEvent::Fault { what: FaultKind::Reset, .. }
            | SimEvent::LinkFault { what: LinkFault::Reset, .. } => facts.is_reset = true,
            SimEvent::Fault { what: FaultKind::Send(_), .. } => facts.is_rude = true,
            SimEvent::LinkFault { what: LinkFault::Flipped(Direction::Up), .. } => {
                facts.is_flipped_up = true;
                self.is_wild = true;
            }
            SimEvent::LinkFault { what: LinkFault::Flipped(Direction::Down), .. } => {
                facts.is_flipped_down = true
            }
            SimEvent::Broke { rank, error } => {
                facts.has_broken = true;
                // A connection that is slow to identify itself may be rejected.
                let is_known = !facts.connects_by_itself || facts.has_joined;
                // With changed bytes, another peer may have taken its place.
                let may_be_taken = facts.connects_by_itself && self.is_wild;
                if !facts.is_tainted() && !facts.is_reset && is_known && !may_be_taken {
                    let what =
                        format!("rank {rank} violated no rule, and its client reports: {error}");
                    found.push(("harmed", what));
                }
            }
            _ => {}
        }
    }
}

impl RankFacts {
    /// True if bytes of its session were changed in transit or injected.
    pub const fn is_tainted(&self) -> bool {
        self.is_rude || self.is_flipped_up || self.is_flipped_down
    }

    /// True if its messages reach the server unchanged.
    pub const fn speaks_true(&self) -> bool {
        !(self.is_rude || self.is_flipped_up)
    }

    /// True if it will send nothing more, as far as its peers can know: a process that has not
    /// identified itself may connect again while it lives, and a rank of PMIx that has finalized
    /// may initialize again.
    pub const fn is_done(&self) -> bool {
        let is_known = !self.connects_by_itself || self.has_joined;
        let may_return = self.uses_pmix && self.has_finalized;
        let has_hung_up = (self.has_left || self.is_reset) && !may_return;
        // A finalize that was changed in transit does not count.
        let has_said_goodbye = self.has_finalized && !self.is_flipped_up && !may_return;
        self.has_ended || has_said_goodbye || self.has_broken || is_known && has_hung_up
    }

    /// True if the server may consider it exited: because it has aborted, or since a finalize of
    /// PMIx may be lost on a link that breaks.
    pub const fn may_be_gone(&self) -> bool {
        let may_be_lost = self.has_finalized && (self.has_left || self.is_reset);
        self.is_done() || self.has_aborted || may_be_lost
    }

    /// True if it may have sent another rank's identity.
    pub const fn is_in_disguise(&self) -> bool {
        self.connects_by_itself && !self.speaks_true()
    }

    /// True if it has failed as far as the server can know: it was initialized and did not
    /// finalize.
    pub const fn has_failed(&self) -> bool {
        self.is_open
            && !self.is_in_disguise()
            && !self.has_finalized
            && !self.by_host
            && (self.has_ended || self.has_left || self.is_reset)
    }

    /// True if a report of its failure is correct.
    pub const fn is_blamable(&self) -> bool {
        self.is_tainted()
            || self.is_reset
            || self.has_left
            || self.has_broken
            || self.has_aborted
            || (self.has_ended && !self.is_finished)
    }
}
