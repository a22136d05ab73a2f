//! Rules of jobs: their spawns, and access to their data.

use super::{Census, Finding};
use crate::event::{Received, ReplyBody, SimEvent};
use crate::scenario::{JobPlan, PMIX, RankRequest, Scenario};

/// All jobs, and which of them are connected.
#[derive(Clone, Debug)]
pub(super) struct JobRules {
    plans: Vec<JobPlan>,
    homes: Vec<usize>,
    /// Parent of each job, set when the host began to start it.
    begun: Vec<Option<Begun>>,
    /// Spawns without an answer: the requester, and the requested job.
    asked: Vec<(u32, String)>,
    links: Vec<JobLink>,
    /// Number of events that may have disconnected jobs.
    changes: u32,
}

/// A job that was spawned.
#[derive(Clone, Copy, Debug)]
struct Begun {
    by: u32,
    /// True if the requester has the result.
    is_told: bool,
}

/// Two jobs with a request to connect, or a job and its spawner.
#[derive(Clone, Copy, Debug)]
struct JobLink {
    jobs: (usize, usize),
    /// True if they may be connected.
    may_be: bool,
    /// True if they are certainly connected.
    is_sure: bool,
    /// Number of pending requests to connect them.
    open: u32,
}

/// State of a connection at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionState {
    may_be: bool,
    is_sure: bool,
    changes: u32,
}

impl JobRules {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let plans: Vec<JobPlan> = scenario.all_jobs().collect();
        Self {
            homes: (0..scenario.ranks).map(|rank| scenario.home(rank).job).collect(),
            begun: vec![None; plans.len()],
            plans,
            asked: Vec::new(),
            links: Vec::new(),
            changes: 0,
        }
    }

    pub(super) fn observe(&mut self, event: &SimEvent, census: &Census, found: &mut Vec<Finding>) {
        match event {
            SimEvent::Spawned { rank, job } => {
                if let Some(at) = self.named(job) {
                    self.begun[at] = Some(Begun { by: *rank, is_told: false });
                }
                // A job is connected with its spawner from the start.
                if let Some(link) = self.link(*rank, job) {
                    link.may_be = true;
                }
            }
            SimEvent::Started { rank } => {
                let job = self.of(*rank);
                if self.plans[job].is_spawned && self.begun[job].is_none() {
                    let name = &self.plans[job].name;
                    let what = format!("rank {rank} has started, and no rank has spawned {name}");
                    found.push(("spawn", what));
                }
            }
            SimEvent::Forgotten { job } => {
                if let Some(at) = self.named(job) {
                    self.changes += 1;
                    self.links.retain(|link| link.jobs.0 != at && link.jobs.1 != at);
                }
            }
            SimEvent::Asked { rank, ask: RankRequest::Spawn { job, .. }, .. } => {
                self.asked.push((*rank, job.clone()));
            }
            // A connect of PMIx is judged by its reply.
            SimEvent::Asked {
                rank,
                ask: RankRequest::Connect { .. } | RankRequest::Disconnect { .. },
                ..
            } if PMIX && census.of(*rank).uses_pmix => {}
            SimEvent::Asked { rank, ask: RankRequest::Connect { job }, .. } => {
                if let Some(link) = self.link(*rank, job) {
                    link.may_be = true;
                    link.open += 1;
                }
            }
            SimEvent::Asked { rank, ask: RankRequest::Disconnect { job }, .. } => {
                self.changes += 1;
                if let Some(link) = self.link(*rank, job) {
                    link.is_sure = false;
                }
            }
            SimEvent::Answered { rank, ask, got, .. } if !census.of(*rank).is_tainted() => {
                match ask {
                    RankRequest::Spawn { job, size, .. } => {
                        let (is_yes, said) = (got.is_success(), &got.said);
                        found.extend(self.judge_spawn(*rank, job, *size, is_yes, said));
                    }
                    RankRequest::Connect { job } if PMIX && census.of(*rank).uses_pmix => {
                        found.extend(self.judge_connect(*rank, job, got));
                    }
                    RankRequest::Connect { job } => {
                        let (is_yes, changes) = (got.is_success(), self.changes);
                        if let Some(link) = self.link(*rank, job) {
                            link.open = link.open.saturating_sub(1);
                            // After the first disconnect, no connection is certain any more.
                            link.is_sure |= is_yes && changes == 0;
                        }
                    }
                    RankRequest::Disconnect { .. } if PMIX && census.of(*rank).uses_pmix => {}
                    RankRequest::Disconnect { job } if got.is_success() => {
                        if let Some(link) = self.link(*rank, job) {
                            link.may_be = link.open > 0;
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// State of the connection between the job of `rank` and another one.
    pub(super) fn reach(&self, rank: u32, job: usize) -> ConnectionState {
        let own = self.of(rank);
        ConnectionState {
            may_be: self.is_joined(own, job, |link| link.may_be),
            is_sure: self.is_joined(own, job, |link| link.is_sure),
            changes: self.changes,
        }
    }

    /// Index of a job.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        self.plans.iter().position(|plan| plan.name == name)
    }

    /// The name of a job.
    pub(super) fn name(&self, job: usize) -> &str {
        self.plans.get(job).map_or("", |plan| &plan.name)
    }

    /// The job of a rank.
    pub(super) fn of(&self, rank: u32) -> usize {
        let home = usize::try_from(rank).ok().and_then(|at| self.homes.get(at));
        home.copied().unwrap_or_default()
    }

    fn link(&mut self, rank: u32, job: &str) -> Option<&mut JobLink> {
        let (own, other) = (self.of(rank), self.named(job)?);
        let jobs = (own.min(other), own.max(other));
        let at = self.links.iter().position(|link| link.jobs == jobs);
        let at = at.unwrap_or_else(|| {
            self.links.push(JobLink { jobs, may_be: false, is_sure: false, open: 0 });
            self.links.len() - 1
        });
        self.links.get_mut(at)
    }

    /// True if two jobs are connected, directly or through others, by links that count.
    fn is_joined(&self, one: usize, other: usize, counts: impl Fn(&JobLink) -> bool) -> bool {
        let mut known = vec![one];
        let mut next = 0;
        while let Some(job) = known.get(next).copied() {
            next += 1;
            for link in self.links.iter().filter(|link| counts(link)) {
                let (a, b) = link.jobs;
                for (from, to) in [(a, b), (b, a)] {
                    if from == job && !known.contains(&to) {
                        known.push(to);
                    }
                }
            }
        }
        known.contains(&other)
    }

    /// A connect of PMIx reports the size of the other job.
    fn judge_connect(&self, rank: u32, job: &str, got: &Received) -> Option<Finding> {
        let other = self.named(job).filter(|other| got.is_success() && *other != self.of(rank))?;
        let plan = &self.plans[other];
        let wanted = ReplyBody::Other(format!("{job} {}", plan.size));
        let what = format!("rank {rank} is connected with {job}, and received `{got}` for it");
        (got.said != wanted).then_some(("connect", what))
    }

    /// A rank that spawns one job several times receives success for one of its requests, whichever
    /// it is.
    fn judge_spawn(
        &mut self,
        rank: u32,
        job: &str,
        size: u32,
        is_yes: bool,
        said: &ReplyBody,
    ) -> Option<Finding> {
        let is_its = |(by, wanted): &(u32, String)| *by == rank && wanted == job;
        if let Some(at) = self.asked.iter().position(is_its) {
            self.asked.remove(at);
        }
        let may_come = self.asked.iter().any(is_its);
        let begun = self.named(job).and_then(|at| self.begun.get_mut(at));
        let begun = begun.filter(|begun| begun.is_some_and(|begun| begun.by == rank));
        let is_untold = match begun {
            Some(Some(begun)) if is_yes => !std::mem::replace(&mut begun.is_told, true),
            Some(Some(begun)) => !begun.is_told && !may_come,
            _ => false,
        };
        if is_yes != is_untold {
            let claim = if is_yes { "has spawned" } else { "could not spawn" };
            let truth = if is_yes { "it was not started" } else { "it was started" };
            return Some((
                "spawn",
                format!("rank {rank} received a reply that it {claim} {job}, and {truth}"),
            ));
        }
        let ReplyBody::Spawned { codes: Some(codes), .. } = said else { return None };
        let codes = codes.split(|byte| *byte == b',');
        let is_right = !is_yes || codes.clone().all(|code| code == b"0");
        let is_all = u32::try_from(codes.count()) == Ok(size);
        (!(is_right && is_all)).then(|| {
            (
                "spawn",
                format!(
                    "rank {rank} has spawned {size} processes of {job}, and not as many codes of 0"
                ),
            )
        })
    }
}

impl ConnectionState {
    /// True if the jobs were surely connected all the time until `later`.
    pub(super) fn is_sure_until(self, later: Self) -> bool {
        self.is_sure && later.is_sure && self.changes == later.changes
    }

    /// True if they may have been connected at some moment until `later`.
    pub(super) const fn may_be_until(self, later: Self) -> bool {
        self.may_be || later.may_be
    }
}
