//! Operations of processes of several launchers: the parts of those that have sent theirs, until all have.
//!
//! A part names its own members and those of the others, and belongs to a present one if each lists the
//! members of the other as the other does. An operation fails as soon as it cannot complete: a namespace is
//! that of no launcher, the launcher or the job is gone, or a member has ended.

use super::read;
use super::store::QueryId;
use crate::other_runs::{CONNECT_BYTES, ConnectPart, JobPart};
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::ranges::Ranks;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Operations, and the jobs of all launchers.
#[derive(Debug, Default)]
pub(super) struct Connects {
    jobs: BTreeMap<Vec<u8>, LauncherJob>,
    open: Vec<OpenConnect>,
}

/// Result that is due to a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectDue {
    /// The [`ConnectResult`](crate::other_runs::ConnectResult) of an operation, encoded.
    Connected(QueryId, Vec<u8>),
    /// An operation has failed.
    Failed(QueryId, Status),
    /// The launcher of this connection was connected with this job, which has ended.
    Ended(u32, Vec<u8>),
}

/// A job of a launcher.
#[derive(Debug)]
struct LauncherJob {
    link: u32,
    /// Number of its ranks.
    size: u32,
    /// Ranks that have ended.
    ended: BTreeSet<u32>,
    /// Connections of the launchers that are connected with it.
    known_by: BTreeSet<u32>,
}

/// An operation that parts are missing of.
#[derive(Debug)]
struct OpenConnect {
    parts: Vec<HeldPart>,
}

#[derive(Debug)]
struct HeldPart {
    query: QueryId,
    part: ConnectPart,
    len_bytes: usize,
}

/// A result as it is encoded, with borrowed parts.
#[derive(Serialize)]
struct ResultRef<'a> {
    is_partial: bool,
    jobs: Vec<&'a JobPart>,
}

impl Connects {
    /// Adds a job of a launcher.
    pub(super) fn start_job(&mut self, link: u32, nspace: Vec<u8>, size: u32) {
        // Names of jobs have host, process and time, so that only a launcher that is wrong repeats one.
        if self.jobs.len() < JOBS_MAX && nspace.len() <= NSPACE_BYTES {
            let (ended, known_by) = (BTreeSet::new(), BTreeSet::new());
            let job = LauncherJob { link, size, ended, known_by };
            self.jobs.entry(nspace).or_insert(job);
        }
    }

    /// Adds the part of a launcher. Returns the results that are due.
    pub(super) fn add(&mut self, query: QueryId, content: &[u8]) -> Vec<ConnectDue> {
        let fail = |status| vec![ConnectDue::Failed(query, status)];
        let Ok(part) = read::<ConnectPart>(content) else {
            return fail(Status::BAD_PARAM);
        };
        if let Err(status) = self.check(query.0, &part) {
            return fail(status);
        }
        let is_its = |open: &OpenConnect| {
            let mut parts = open.parts.iter();
            parts.all(|held| held.query.0 != query.0 && held.part.agrees(&part))
        };
        let found = self.open.iter().position(is_its);
        let held_bytes: usize = self.open.iter().map(OpenConnect::len_bytes).sum();
        if held_bytes + content.len() > HELD_BYTES || self.open.len() >= OPEN_MAX {
            return fail(Status::OUT_OF_RESOURCE);
        }
        let at = found.unwrap_or_else(|| {
            self.open.push(OpenConnect { parts: Vec::new() });
            self.open.len() - 1
        });
        self.open[at].parts.push(HeldPart { query, part, len_bytes: content.len() });
        if self.open[at].len_bytes() > CONNECT_BYTES {
            return self.fail(at, Status::OUT_OF_RESOURCE);
        }
        if self.open[at].is_complete() {
            return self.complete(at);
        }
        self.fail_hopeless()
    }

    /// Checks that the members are those of launchers.
    fn check(&self, link: u32, part: &ConnectPart) -> Result<(), Status> {
        let names = BTreeSet::from_iter(part.namespaces());
        let is_once = names.len() == part.namespaces().count() && names.len() <= NAMESPACES_MAX;
        if !is_once || part.own.is_empty() || part.others.is_empty() {
            return Err(Status::BAD_PARAM);
        }
        let link_of = |nspace: &[u8]| self.jobs.get(nspace).map(|job| job.link);
        let is_own = part.own.iter().all(|job| link_of(&job.nspace) == Some(link));
        let of_others = |(nspace, _): &(Vec<u8>, _)| link_of(nspace).is_some_and(|of| of != link);
        match is_own && part.others.iter().all(of_others) {
            true => Ok(()),
            false => Err(Status::NOT_FOUND),
        }
    }

    /// Withdraws the part of a query; false if it has its result already.
    pub(super) fn withdraw(&mut self, query: QueryId) -> bool {
        let is_its = |held: &HeldPart| held.query == query;
        let is_open = self.open.iter().any(|open| open.parts.iter().any(is_its));
        self.open.iter_mut().for_each(|open| open.parts.retain(|held| !is_its(held)));
        self.open.retain(|open| !open.parts.is_empty());
        is_open
    }

    /// A process has ended. Returns the results that are due.
    pub(super) fn end_rank(&mut self, link: u32, nspace: &[u8], rank: u32) -> Vec<ConnectDue> {
        if let Some(job) = self.jobs.get_mut(nspace).filter(|job| job.link == link) {
            // A rank that it does not have would take memory.
            if rank < job.size {
                job.ended.insert(rank);
            }
        }
        let has_sent = |held: &HeldPart| {
            let mut own = held.part.own.iter();
            own.any(|job| job.nspace == nspace && job.ranks.contains(rank))
        };
        let mut due = Vec::new();
        let is_its = |open: &OpenConnect| {
            open.parts.iter().any(|held| held.query.0 == link && has_sent(held))
        };
        while let Some(at) = self.open.iter().position(is_its) {
            due.extend(self.fail(at, Status::LOST_CONNECTION));
        }
        due.extend(self.fail_hopeless());
        due
    }

    /// A job has ended. Returns the results that are due.
    pub(super) fn end_job(&mut self, link: u32, nspace: &[u8]) -> Vec<ConnectDue> {
        if self.jobs.get(nspace).is_none_or(|job| job.link != link) {
            return Vec::new();
        }
        let known_by = self.jobs.remove(nspace).map(|job| job.known_by).unwrap_or_default();
        let notice = |of| ConnectDue::Ended(of, nspace.to_vec());
        let mut due: Vec<ConnectDue> = known_by.into_iter().map(notice).collect();
        due.extend(self.fail_hopeless());
        due
    }

    /// A launcher has ended, or its connection is lost. Returns the results that are due to others.
    pub(super) fn end_session(&mut self, link: u32) -> Vec<ConnectDue> {
        let own = self.jobs.iter().filter(|(_, job)| job.link == link);
        let mut due = Vec::new();
        for nspace in Vec::from_iter(own.map(|(nspace, _)| nspace.clone())) {
            due.extend(self.end_job(link, &nspace));
        }
        self.jobs.values_mut().for_each(|job| {
            job.known_by.remove(&link);
        });
        let is_own = |one: &ConnectDue| match one {
            ConnectDue::Connected((of, _), _) | ConnectDue::Failed((of, _), _) => *of == link,
            ConnectDue::Ended(of, _) => *of == link,
        };
        due.retain(|one| !is_own(one));
        due
    }

    /// Fails the operations that cannot complete.
    fn fail_hopeless(&mut self) -> Vec<ConnectDue> {
        let mut due = Vec::new();
        while let Some(at) = self.open.iter().position(|open| open.is_hopeless(&self.jobs)) {
            due.extend(self.fail(at, Status::LOST_CONNECTION));
        }
        due
    }

    fn fail(&mut self, at: usize, status: Status) -> Vec<ConnectDue> {
        let failed = self.open.remove(at);
        failed.parts.into_iter().map(|held| ConnectDue::Failed(held.query, status)).collect()
    }

    /// Hands the parts over, each to the other launchers.
    fn complete(&mut self, at: usize) -> Vec<ConnectDue> {
        let OpenConnect { parts } = self.open.remove(at);
        let is_partial = parts.iter().any(|held| held.part.is_partial);
        let result = |held: &HeldPart| {
            let others = parts.iter().filter(|other| other.query != held.query);
            let jobs = others.flat_map(|other| &other.part.own).collect();
            // These types have no serialization that can fail.
            let content = postcard::to_stdvec(&ResultRef { is_partial, jobs }).unwrap_or_default();
            ConnectDue::Connected(held.query, content)
        };
        let due = parts.iter().map(result).collect();
        for held in &parts {
            for (nspace, _) in &held.part.others {
                if let Some(job) = self.jobs.get_mut(nspace) {
                    job.known_by.insert(held.query.0);
                }
            }
        }
        due
    }
}

impl OpenConnect {
    fn len_bytes(&self) -> usize {
        self.parts.iter().map(|held| held.len_bytes).sum()
    }

    fn is_complete(&self) -> bool {
        let own: usize = self.parts.iter().map(|held| held.part.own.len()).sum();
        self.parts.first().is_some_and(|first| first.part.namespaces().count() == own)
    }

    /// True if a job is gone, or if a part that is missing will never come.
    fn is_hopeless(&self, jobs: &BTreeMap<Vec<u8>, LauncherJob>) -> bool {
        let mut own = self.parts.iter().flat_map(|held| &held.part.own);
        if own.any(|job| !jobs.contains_key(&job.nspace)) {
            return true;
        }
        let others = self.parts.iter().flat_map(|held| &held.part.others);
        { others }.any(|(nspace, ranks)| match jobs.get(nspace) {
            None => true,
            Some(job) => job.have_all_ended(ranks.as_ref()),
        })
    }
}

impl LauncherJob {
    /// True if none of these ranks is left; without any, of all.
    fn have_all_ended(&self, ranks: Option<&Ranks>) -> bool {
        let ended = u64::try_from(self.ended.len()).unwrap_or(u64::MAX);
        let Some(ranks) = ranks else { return ended >= u64::from(self.size) };
        ranks.count() <= ended && ranks.iter().all(|rank| self.ended.contains(&rank))
    }
}

/// Number of jobs of all launchers.
const JOBS_MAX: usize = 1 << 16;

/// Length of a namespace.
const NSPACE_BYTES: usize = 1024;

/// Number of operations that parts are missing of.
const OPEN_MAX: usize = 1 << 12;

/// Bytes of the parts of all of these.
const HELD_BYTES: usize = 256 << 20;

/// Number of namespaces in one operation.
const NAMESPACES_MAX: usize = 256;

#[cfg(test)]
mod tests;
