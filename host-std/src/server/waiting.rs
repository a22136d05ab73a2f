//! Who waits for whom, as the protocol server knows it.

use super::news::printable;
use super::service::Service;
use crate::trace::Last;
use crate::watch::ranges::Ranks;
use crate::watch::table::{WAITS_MAX, Wait, What, seconds};
use pmi_core::ids::{JobId, Rank};
use pmi_core::server::{self, GroupFence, Member};
use std::time::{Duration, Instant};

/// What was said between a rank and us.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spoken {
    /// How many messages it has sent.
    pub messages: u32,
    /// The last message that came from it or went to it, and how long ago that was.
    pub last: Option<(Last, Duration)>,
}

/// Those who wait for the same thing, with what tells that thing from others.
struct Found {
    is: Is,
    inside: Ranks,
    since: Option<pmi_core::time::Instant>,
}

#[derive(Clone, PartialEq, Eq)]
enum Is {
    Fence(u32),
    Group(GroupFence),
    Ring(u32),
    Attribute(String),
    Spawn,
}

impl Service {
    /// All jobs there are.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.server.jobs()
    }

    /// How many fences of the whole job have ended.
    pub fn fences(&self, job: JobId) -> u32 {
        self.server.job(job).map_or(0, |job| job.fence().generation())
    }

    /// How many messages came from all ranks of a job.
    pub fn messages(&self, job: JobId) -> u64 {
        let members = self.server.job(job).map_or(&[][..], server::Job::members);
        members.iter().map(|member| u64::from(member.asked_count())).sum()
    }

    /// What a rank has said.
    pub fn spoken(&self, job: JobId, rank: u32) -> Spoken {
        let member = self.server.job(job).and_then(|job| job.member(Rank(rank)));
        let Some(member) = member else { return Spoken::default() };
        let now_ns = self.tracer.now_ns();
        let last = self
            .tracer
            .last(job.0, rank)
            .map(|last| (*last, Duration::from_nanos(now_ns.saturating_sub(last.time_ns))));
        Spoken { messages: member.asked_count(), last }
    }

    /// Who waits for whom in a job, and how many waits are not told apart because there are so many.
    pub fn waits(&self, job: JobId) -> (Vec<Wait>, u64) {
        let (found, more) = self.find_waits(job);
        let now = self.clock.now();
        let wait = |Found { is, inside, since }: Found| {
            let (what, missing) = self.describe(job, is);
            let lasts = since.map(|since| Duration::from_micros(now.since(since).as_micros()));
            Wait { what, inside, missing, seconds: lasts.map(seconds) }
        };
        (found.into_iter().map(wait).collect(), more)
    }

    /// Since when somebody waits for others who do nothing about it; nobody waits if never. A rank that
    /// waits for a job it has asked for waits for us, and that is another matter.
    pub fn standstill(&self) -> Option<Instant> {
        let since = self.server.jobs().filter_map(|id| {
            let job = self.server.job(id)?;
            let waits = |member: &&Member| {
                let session = member.session();
                session.is_some_and(|session| {
                    self.server.waits(session).any(|wait| wait != server::Wait::Spawn)
                })
            };
            let heard = job.members().iter().filter(waits).filter_map(Member::heard);
            // Whoever waits for what others may never have started to do waits since it asked. A fence
            // is the same one for clients of all protocols.
            let first = heard.chain(job.fence().since()).min()?;
            Some(job.moved().map_or(first, |moved| moved.max(first)))
        });
        let lasts = self.clock.now().since({ since }.min()?).as_micros();
        Instant::now().checked_sub(Duration::from_micros(lasts))
    }

    fn find_waits(&self, job: JobId) -> (Vec<Found>, u64) {
        let mut found: Vec<Found> = Vec::from_iter(self.fence_wait(job));
        let mut more = 0;
        let members = self.server.job(job).map_or(&[][..], server::Job::members);
        for (rank, member) in (0..).zip(members) {
            for wait in member.session().into_iter().flat_map(|id| self.server.waits(id)) {
                let is = match wait {
                    // Of all protocols' clients alike, and here already.
                    server::Wait::Fence(_) => continue,
                    server::Wait::Group(group) => Is::Group(group),
                    server::Wait::Ring(number) => Is::Ring(number),
                    server::Wait::Attribute(key) => Is::Attribute(printable(key.as_bytes())),
                    server::Wait::Spawn => Is::Spawn,
                };
                let at = found.iter().position(|other| other.is == is);
                if at.is_none() && found.len() >= WAITS_MAX {
                    more += 1;
                    continue;
                }
                let at = at.unwrap_or_else(|| {
                    found.push(Found { is, inside: Ranks::default(), since: None });
                    found.len() - 1
                });
                let Some(Found { inside, since, .. }) = found.get_mut(at) else { continue };
                // Several threads of a rank may wait for the same.
                if !inside.contains(rank) {
                    inside.push(rank);
                }
                *since = [*since, member.heard()].into_iter().flatten().min();
            }
        }
        (found, more)
    }

    /// Those who are in the fence of the whole job, if anybody is.
    fn fence_wait(&self, job: JobId) -> Option<Found> {
        let job = self.server.job(job).filter(|job| job.fence().inside() > 0)?;
        let outside: Ranks = job.missing().map(|rank| rank.0).collect();
        Some(Found {
            is: Is::Fence(job.fence().generation()),
            inside: (0..job.size()).filter(|rank| !outside.contains(*rank)).collect(),
            since: job.fence().since(),
        })
    }

    /// What it is for people, and who is missing.
    fn describe(&self, id: JobId, is: Is) -> (What, Ranks) {
        let numbers = |ranks: &mut dyn Iterator<Item = Rank>| ranks.map(|rank| rank.0).collect();
        let job = self.server.job(id);
        match is {
            Is::Fence(number) => {
                let missing = job.map(|job| numbers(&mut job.missing())).unwrap_or_default();
                (What::Fence(number), missing)
            }
            Is::Group(group) => {
                let missing = numbers(&mut self.server.missing_from_group(id, group));
                (What::GroupFence(group.tag), missing)
            }
            Is::Ring(number) => {
                (What::Ring(number), numbers(&mut self.server.missing_from_ring(id)))
            }
            Is::Attribute(key) => (What::Attribute(key), Ranks::default()),
            Is::Spawn => (What::Spawn, Ranks::default()),
        }
    }
}
