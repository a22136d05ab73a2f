//! The rules and their checkers.
//!
//! The checkers are independent of the code under test: they see the requests and replies of ranks, the
//! bytes that enter and leave the server, and its reports, and keep models of their own. They read no
//! state of the machines.
//!
//! | rule | meaning |
//! |---|---|
//! | `fence` | no rank leaves a fence before all have entered it |
//! | `value` | a get sees every put that lies before it, by fences and by order; no overwritten value |
//! | `ring` | a ring gives each rank the values of its neighbours |
//! | `scope` | a PMIx value with the scope of a node, or of other nodes, is found there only |
//! | `name` | a published name is found until it is unpublished or its job is removed, and no other name is |
//! | `apart` | a job reads in another's key-value space only while they are connected |
//! | `connect` | jobs that PMIx connects have each other's job-level information |
//! | `spawn` | a job starts when it was spawned, and the requester receives the true result |
//! | `reply` | no reply without a request, and in lock-step in the order of the requests |
//! | `bound` | the server's memory for one rank is bounded, whatever the rank sends |
//! | `waits` | in a quiet world, no rank waits for one that is done, unless that was reported |
//! | `named` | a failed rank is reported, by its name |
//! | `blamed` | no other rank is |
//! | `harmed` | an error of one rank does not break another's session |
//! | `wanted` | a reply is the one that the script requires |
//! | `expected` | the end is the one that the scenario expects |
//! | `full-is-honest` | the reported size of a buffer is enough |

mod census;
mod clocks;
mod expects;
mod fences;
mod jobs;
mod names;
mod posts;
mod quiet;
mod replies;
mod reports;
mod rings;
mod values;

pub use census::{Census, RankFacts};
pub use fences::{FenceId, Fences};

use self::jobs::JobRules;
use self::names::Names;
use self::posts::Posts;
use self::replies::Replies;
use self::reports::Reports;
use self::rings::Rings;
use self::values::Values;
use crate::event::{Entry, Received, SimEvent};
use crate::host::Host;
use crate::net::Net;
use crate::scenario::{Expectation, PMIX, RankRequest, Scenario, Wanted};
use crate::sim_rank::SimRank;

/// All rules, and what is known about the run.
#[derive(Debug)]
pub struct Checks {
    census: Census,
    fences: Fences,
    reports: Reports,
    jobs: JobRules,
    rings: Rings,
    names: Names,
    posts: Option<Posts>,
    values: Option<Values>,
    replies: Option<Replies>,
    expects: Vec<Expectation>,
    violations: Vec<Violation>,
    reported: usize,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Time of the detection.
    pub at: u64,
    /// Step of the detection.
    pub step: u64,
    /// The rule.
    pub rule: &'static str,
    /// The observation.
    pub what: String,
}

/// Finding of a checker: the rule and the observation.
type Finding = (&'static str, String);

impl Checks {
    /// Creates the checkers. `all` includes the rules whose models grow with the square of the ranks.
    pub fn new(scenario: &Scenario, all: bool) -> Self {
        Self {
            census: Census::new(scenario),
            fences: Fences::new(scenario),
            reports: Reports::default(),
            jobs: JobRules::new(scenario),
            rings: Rings::new(scenario),
            names: Names::default(),
            posts: (PMIX && all).then(|| Posts::new(scenario)),
            values: all.then(|| Values::new(scenario)),
            replies: all.then(|| Replies::new(scenario)),
            expects: scenario.expects.clone(),
            violations: Vec::new(),
            reported: 0,
        }
    }

    /// Observes an event.
    pub fn observe(&mut self, entry: &Entry) {
        let mut found: Vec<Finding> = Vec::new();
        if let SimEvent::Violation { rule, what } = &entry.event {
            found.push((rule, what.clone()));
        }
        self.census.observe(&entry.event, &mut found);
        let fence = self.fences.observe(&entry.event, &self.census, &mut found);
        self.reports.observe(&entry.event, &self.census, &mut found);
        self.jobs.observe(&entry.event, &self.census, &mut found);
        self.rings.observe(&entry.event, &self.census, &mut found);
        let known = (&self.census, &self.jobs);
        self.names.observe(&entry.event, known, &mut found);
        if PMIX && let Some(posts) = &mut self.posts {
            posts.observe(&entry.event, fence, &self.census, &mut found);
        }
        if let Some(values) = &mut self.values {
            values.observe(&entry.event, fence, known, &mut found);
        }
        if let Some(replies) = &mut self.replies {
            replies.observe(&entry.event, &self.census, &mut found);
        }
        if let SimEvent::Answered { rank, ask, got, .. } = &entry.event
            && !self.census.of(*rank).is_tainted()
        {
            found.extend(unwanted(ask, got));
        }
        self.add(entry.at, entry.step, found);
        if matches!(entry.event, SimEvent::Violation { .. }) {
            // It is in the trace already.
            self.reported = self.violations.len();
        }
    }

    /// Judges the end of a run, when the world is quiet.
    pub(crate) fn judge(
        &mut self,
        sim_ranks: &[SimRank],
        net: &Net,
        host: &Host,
        at: u64,
        step: u64,
    ) {
        let mut found = Vec::new();
        quiet::judge(sim_ranks, net, host, self, &mut found);
        self.reports.judge(&self.census, &mut found);
        expects::judge(&self.expects, &self.census, &self.reports, &mut found);
        self.add(at, step, found);
    }

    /// Judges the end without the expectations of the scenario from now on.
    pub(crate) fn drop_expectations(&mut self) {
        self.expects.clear();
    }

    /// The rules that did not hold.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Facts about each rank.
    pub const fn census(&self) -> &Census {
        &self.census
    }

    /// Facts about fences.
    pub const fn fences(&self) -> &Fences {
        &self.fences
    }

    /// The reported ranks, once for each report.
    pub fn reported(&self) -> impl Iterator<Item = Option<u32>> {
        self.reports.named()
    }

    /// Violations found since the last call.
    pub(crate) fn untold(&mut self) -> Vec<Violation> {
        let new = self.violations[self.reported..].to_vec();
        self.reported = self.violations.len();
        new
    }

    fn add(&mut self, at: u64, step: u64, found: Vec<Finding>) {
        let violations = found.into_iter().map(|(rule, what)| Violation { at, step, rule, what });
        self.violations.extend(violations);
    }
}

/// Checks a reply against the value that the script requires.
fn unwanted(ask: &RankRequest, got: &Received) -> Option<Finding> {
    let wanted = match ask {
        RankRequest::Get { wanted, .. }
        | RankRequest::GetOf { wanted, .. }
        | RankRequest::Lookup { wanted, .. } => wanted.as_ref()?,
        _ => return None,
    };
    let is_met = match wanted {
        Wanted::Missing => got.value().is_none(),
        Wanted::Value(value) => got.value() == Some(value),
    };
    (!is_met).then(|| {
        ("wanted", format!("`{ask}` was answered with {got}, which the script does not expect"))
    })
}
