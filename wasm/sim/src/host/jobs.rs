//! The jobs of the host: initial ones, and those that ranks spawn.

use super::pmix::describe;
use super::store;
use crate::rng::Span;
use crate::scenario::{Dialect, JobPlan, PMIX, Scenario, ScenarioError};
use crate::storage::Metered;
use pmi_core::command::{Spawn, Text};
use pmi_core::error::Misuse;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::server::pmix::RankData;
use pmi_core::server::{JobSpec, Member, Server};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_core::wire::pmix::{App, List, Type};

/// Jobs of the host.
#[derive(Debug)]
pub(super) struct HostJobs {
    scenario: Scenario,
    plans: Vec<JobPlan>,
    /// The server's id of each job, while it exists.
    ids: Vec<Option<JobId>>,
    /// Number of processes of each job that have not exited.
    left: Vec<u32>,
    pub(super) orders: Vec<JobStart>,
    store_bytes: usize,
    /// True for a mutant that places all ranks on one node.
    is_blind: bool,
}

/// Keys and their values.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A requested job that has not started.
#[derive(Debug)]
pub(super) struct JobStart {
    /// Time of its start.
    pub(super) at: u64,
    /// The requesting rank.
    pub(super) rank: u32,
    /// Session that made the request, and number of the request.
    pub(super) asker: (SessionId, usize),
    /// The requested job.
    pub(super) job: usize,
}

impl HostJobs {
    /// Adds the initial jobs to `server`.
    ///
    /// # Errors
    ///
    /// A job that the server cannot hold.
    pub(super) fn new(
        scenario: &Scenario,
        is_blind: bool,
        server: &mut Server<Metered>,
    ) -> Result<Self, ScenarioError> {
        scenario.check_jobs()?;
        let plans: Vec<JobPlan> = scenario.all_jobs().collect();
        let count = usize::try_from(scenario.ranks).unwrap_or(usize::MAX);
        let store_bytes = match scenario.host.store_bytes {
            0 => 65_536 + 4096 * count.min(256),
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let mut jobs = Self {
            scenario: Scenario { scripts: Vec::new(), ..scenario.clone() },
            ids: vec![None; plans.len()],
            left: plans.iter().map(|plan| plan.size).collect(),
            plans,
            orders: Vec::new(),
            store_bytes,
            is_blind,
        };
        for at in 0..jobs.plans.len() {
            if !jobs.plans[at].is_spawned {
                let added = jobs.add(at, None, &[], server);
                added.map_err(|misuse| ScenarioError { line: 0, what: misuse.to_string() })?;
            }
        }
        Ok(jobs)
    }

    /// Adds a job.
    ///
    /// # Errors
    ///
    /// Those of the server.
    pub(super) fn add(
        &mut self,
        at: usize,
        spawner: Option<KvsName>,
        preputs: &[(Vec<u8>, Vec<u8>)],
        server: &mut Server<Metered>,
    ) -> Result<JobId, Misuse> {
        let plan = &self.plans[at];
        let spec = JobSpec {
            name: KvsName::new(plan.name.as_bytes())?,
            spawner,
            universe_size: Some(self.scenario.ranks),
            size: None,
            has_uplink: false,
        };
        let nodes = (plan.first..plan.first + plan.size).map(|rank| self.scenario.node(rank));
        let member = |node| Member::new(0, if self.is_blind { 0 } else { node });
        let members = nodes.clone().map(member).collect();
        let job = server.add_job(spec, members, store(self.store_bytes))?;
        let mut mapping = [0; 256];
        // A mapping that is too long is left out, as the core advises.
        if let Ok(len) = write_mapping(nodes, &mut mapping) {
            server.preset(job, PROCESS_MAPPING, &mapping[..len])?;
        }
        for (key, value) in preputs {
            server.preput(job, key, value)?;
        }
        if PMIX {
            let info = describe(&self.scenario, plan).ok_or(Misuse::NoRoom { what: "job" })?;
            let posts = (0..plan.size).map(|_| RankData::default()).collect();
            server.pmix().add_job(job, info, posts)?;
        }
        self.ids[at] = Some(job);
        Ok(job)
    }

    /// The job that a spawn requests, and the pairs for its key-value space; `None` if there is no
    /// such job, or it was spawned before.
    pub(super) fn wanted(&self, spawn: Spawn<'_>) -> Option<(usize, Pairs)> {
        let mut programs = spawn.programs();
        let (Some(program), None) = (programs.next(), programs.next()) else { return None };
        let is_named = |name: &[u8]| program.executable == *name;
        let job = self.startable(is_named, program.processes)?;
        let text = |text: Text<'_>| text.bytes().collect();
        let pairs = spawn.preputs().map(|pair| (text(pair.key), text(pair.value)));
        Some((job, pairs.collect()))
    }

    /// Does the same for a PMIx spawn.
    pub(super) fn wanted_in_pmix(&self, infos: &List<'_>, apps: &List<'_>) -> Option<usize> {
        let mut apps = apps.each(Type::APP, App::read);
        let (Some(app), None) = (apps.next(), apps.next()) else { return None };
        let is_named = |name: &[u8]| app.command == name;
        let size = u32::try_from(app.processes).ok()?;
        infos.is_empty().then(|| self.startable(is_named, size)).flatten()
    }

    /// The job of this name and size, if it may be spawned and never was.
    fn startable(&self, is_named: impl Fn(&[u8]) -> bool, size: u32) -> Option<usize> {
        let is_meant =
            |plan: &JobPlan| plan.is_spawned && is_named(plan.name.as_bytes()) && plan.size == size;
        let job = self.plans.iter().position(is_meant)?;
        let is_new = self.ids[job].is_none() && self.left[job] == self.plans[job].size;
        is_new.then_some(job)
    }

    /// Takes the requests that are due.
    pub(super) fn due(&mut self, now: u64) -> Vec<JobStart> {
        let (due, later) = self.orders.drain(..).partition(|order| order.at <= now);
        self.orders = later;
        due
    }

    /// Time of the next due request.
    pub(super) fn timeout(&self) -> Option<u64> {
        self.orders.iter().map(|order| order.at).min()
    }

    /// Records that a process has exited.
    pub(super) fn lose(&mut self, rank: u32) {
        if let Some(left) = self.left.get_mut(self.scenario.home(rank).job) {
            *left = left.saturating_sub(1);
        }
    }

    /// Removes a job whose processes have all exited, if the host does that; returns its name.
    pub(super) fn forget(&mut self, server: &mut Server<Metered>) -> Option<String> {
        let is_over = |at: &usize| self.left[*at] == 0 && self.ids[*at].is_some();
        let mut over = (0..self.ids.len()).filter(is_over);
        // A job with an open session stays.
        let is_removed = |at: &usize| {
            let removed = self.ids[*at].map(|id| server.remove_job(id));
            removed.is_some_and(|removed| removed.is_ok())
        };
        let at = if self.scenario.host.forgets { over.find(is_removed)? } else { return None };
        self.ids[at] = None;
        Some(self.plans[at].name.clone())
    }

    /// The job of the server, while it knows it.
    pub(super) fn id(&self, job: usize) -> Option<JobId> {
        self.ids.get(job).copied().flatten()
    }

    /// The server's job and rank of this rank.
    pub(super) fn seat(&self, rank: u32) -> Option<(JobId, Rank)> {
        let home = self.scenario.home(rank);
        Some((self.id(home.job)?, Rank(home.own(rank))))
    }

    /// Its rank, counted through all jobs.
    pub(super) fn rank(&self, id: JobId, rank: Rank) -> Option<u32> {
        let job = self.ids.iter().position(|own| *own == Some(id))?;
        Some(self.plans[job].first + rank.0)
    }

    /// The plan of a job.
    pub(super) fn plan(&self, job: usize) -> &JobPlan {
        &self.plans[job]
    }

    /// Time to start a spawned job.
    pub(super) const fn spawns(&self) -> Span {
        self.scenario.host.spawns
    }

    /// True if a rank speaks PMIx.
    pub(super) fn uses_pmix(&self, rank: u32) -> bool {
        self.scenario.plan(rank).dialect == Dialect::Pmix
    }

    /// True if a rank connects by TCP.
    pub(super) fn connects_by_itself(&self, rank: u32) -> bool {
        self.scenario.plan(rank).connects_by_itself
    }
}
