//! The rules, and whether they hold.
//!
//! The checkers stand outside of the code they check: they see what ranks ask and are told, the bytes
//! that go in and out of the server, and what the server reports, and keep models of their own. From
//! the machines themselves they learn nothing.
//!
//! | rule | says |
//! |---|---|
//! | `fence` | nobody leaves a fence before all have entered it |
//! | `value` | a get sees every put that lies before it, by fences and by order; nothing that was overwritten |
//! | `ring` | a ring tells everybody what its neighbours passed on |
//! | `scope` | what a PMIx rank puts for its node, or for others, is found there only |
//! | `name` | a published name is found until it is taken back or its job is forgotten, and nothing else is |
//! | `apart` | a job reads in another's space only while they are connected |
//! | `connect` | jobs that PMIx connects know each other |
//! | `spawn` | a job starts when it was spawned, and whoever spawned it is told the truth |
//! | `reply` | no reply without a question, and in lock-step in the order of the questions |
//! | `bound` | what the server holds for one rank is bounded, whatever the rank does |
//! | `waits` | when all is quiet, nobody waits for somebody who is done, unless that was reported |
//! | `named` | a rank that failed is reported, by its name |
//! | `blamed` | no other component is |
//! | `harmed` | what one rank does wrong does not break another's conversation |
//! | `wanted` | an answer is what the script wants |
//! | `expected` | the end is what the scenario expects |
//! | `full-is-honest` | the room that is said to be enough is enough |

mod census;
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

pub use census::{Census, Facts};
pub use fences::Fences;

use self::jobs::Jobs;
use self::names::Names;
use self::posts::Posts;
use self::replies::Replies;
use self::reports::Reports;
use self::rings::Rings;
use self::values::Values;
use crate::actor::Actor;
use crate::host::Host;
use crate::net::Net;
use crate::note::{Entry, Got, Note};
use crate::scenario::{Ask, Expect, PMIX, Scenario, Wanted};

/// All rules, and what is known about the run.
#[derive(Debug)]
pub struct Checks {
    census: Census,
    fences: Fences,
    reports: Reports,
    jobs: Jobs,
    rings: Rings,
    names: Names,
    posts: Option<Posts>,
    values: Option<Values>,
    replies: Option<Replies>,
    expects: Vec<Expect>,
    violations: Vec<Violation>,
    told: usize,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it was seen.
    pub at: u64,
    /// In which step.
    pub step: u64,
    /// Which rule.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

/// What a checker found: the rule and what was seen.
type Found = (&'static str, String);

impl Checks {
    /// Nothing has happened. `all` includes the rules whose models grow with the square of the ranks.
    pub fn new(scenario: &Scenario, all: bool) -> Self {
        Self {
            census: Census::new(scenario),
            fences: Fences::new(scenario),
            reports: Reports::default(),
            jobs: Jobs::new(scenario),
            rings: Rings::new(scenario),
            names: Names::default(),
            posts: (PMIX && all).then(|| Posts::new(scenario)),
            values: all.then(|| Values::new(scenario)),
            replies: all.then(|| Replies::new(scenario)),
            expects: scenario.expects.clone(),
            violations: Vec::new(),
            told: 0,
        }
    }

    /// Sees something happen.
    pub fn observe(&mut self, entry: &Entry) {
        let mut found: Vec<Found> = Vec::new();
        if let Note::Violation { rule, what } = &entry.note {
            found.push((rule, what.clone()));
        }
        self.census.observe(&entry.note, &mut found);
        let fence = self.fences.observe(&entry.note, &self.census, &mut found);
        self.reports.observe(&entry.note, &self.census, &mut found);
        self.jobs.observe(&entry.note, &self.census, &mut found);
        self.rings.observe(&entry.note, &self.census, &mut found);
        let known = (&self.census, &self.jobs);
        self.names.observe(&entry.note, known, &mut found);
        if PMIX && let Some(posts) = &mut self.posts {
            posts.observe(&entry.note, fence, &self.census, &mut found);
        }
        if let Some(values) = &mut self.values {
            values.observe(&entry.note, fence, known, &mut found);
        }
        if let Some(replies) = &mut self.replies {
            replies.observe(&entry.note, &self.census, &mut found);
        }
        if let Note::Answered { rank, ask, got, .. } = &entry.note
            && !self.census.of(*rank).is_tainted()
        {
            found.extend(unwanted(ask, got));
        }
        self.add(entry.at, entry.step, found);
        if matches!(entry.note, Note::Violation { .. }) {
            // It is in the trace already.
            self.told = self.violations.len();
        }
    }

    /// Judges the end: nothing more happens by itself.
    pub(crate) fn judge(&mut self, actors: &[Actor], net: &Net, host: &Host, at: u64, step: u64) {
        let mut found = Vec::new();
        quiet::judge(actors, net, host, self, &mut found);
        self.reports.judge(&self.census, &mut found);
        expects::judge(&self.expects, &self.census, &self.reports, &mut found);
        self.add(at, step, found);
    }

    /// The rules that did not hold.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What is known about each rank.
    pub const fn census(&self) -> &Census {
        &self.census
    }

    /// What is known about fences.
    pub const fn fences(&self) -> &Fences {
        &self.fences
    }

    /// The ranks that were reported, as often as they were.
    pub fn reported(&self) -> impl Iterator<Item = Option<u32>> {
        self.reports.named()
    }

    /// What was found since this was asked last.
    pub(crate) fn untold(&mut self) -> Vec<Violation> {
        let new = self.violations[self.told..].to_vec();
        self.told = self.violations.len();
        new
    }

    fn add(&mut self, at: u64, step: u64, found: Vec<Found>) {
        let violations = found.into_iter().map(|(rule, what)| Violation { at, step, rule, what });
        self.violations.extend(violations);
    }
}

/// What a script wants of an answer.
fn unwanted(ask: &Ask, got: &Got) -> Option<Found> {
    let wanted = match ask {
        Ask::Get { wanted, .. } | Ask::GetOf { wanted, .. } | Ask::Lookup { wanted, .. } => {
            wanted.as_ref()?
        }
        _ => return None,
    };
    let is_met = match wanted {
        Wanted::Missing => got.value().is_none(),
        Wanted::Value(value) => got.value() == Some(value),
    };
    (!is_met).then(|| {
        ("wanted", format!("`{ask}` was answered with {got}, which is not what the script wants"))
    })
}
