//! Waits between ranks, as the protocol server knows them.

use super::event::printable;
use super::pmix::heap::PmixHeap;
use super::pmix::tools::Tools;
use crate::trace::{Last, Tracer};
use crate::watch::table::{Elsewhere, WAITS_MAX, Wait, WaitCondition, seconds};
use pmi_core::ids::{JobId, ProcId, Rank};
use pmi_core::server::pmix::{self, CollectiveKind};
use pmi_core::server::{self, GroupFence, Member, Server};
use pmi_host_base::ranges::Ranks;
use pmi_host_base::storage::Heap;
use pmi_host_os::clock;
use pmi_std::Clock;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Messages exchanged between a rank and the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RankMessages {
    /// Number of messages sent by the rank.
    pub(crate) messages: u32,
    /// Last message in either direction, and the time since.
    pub(crate) last: Option<(Last, Duration)>,
}

/// Ranks that wait for the same thing, with its identity.
struct SharedWait {
    is: WaitKey,
    inside: BTreeSet<u32>,
    since: Option<pmi_core::time::Instant>,
}

#[derive(Clone, PartialEq, Eq)]
enum WaitKey {
    Fence(u32),
    Group(GroupFence),
    Ring(u32),
    Attribute(String),
    Spawn,
    Post { job: JobId, rank: Option<Rank>, key: Option<String> },
    Together(CollectiveKind, usize),
    Published(String),
    Message,
}

/// Time at which the first waiting rank of a job began to wait, and that of the last progress that could end
/// a wait.
#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    waits_since: Option<pmi_core::time::Instant>,
    progress_at: Option<pmi_core::time::Instant>,
}

/// Ranks that are waited for: of the job itself, and of others.
#[derive(Default)]
struct MissingRanks {
    missing: Ranks,
    elsewhere: Vec<(JobId, Ranks)>,
}

/// The conversations of all ranks with the server, for reports on their progress.
#[derive(Clone, Copy)]
pub(crate) struct ProgressView<'a> {
    pub(super) server: &'a Server<Heap<PmixHeap>>,
    pub(super) tracer: &'a Tracer,
    pub(super) clock: &'a Clock,
    pub(super) tools: &'a Tools,
}

impl ProgressView<'_> {
    /// Number of completed fences of the whole job.
    pub(crate) fn fences(self, job: JobId) -> u32 {
        self.server.job(job).map_or(0, |job| job.fence().generation())
    }

    /// Number of messages sent by all ranks of a job.
    pub(crate) fn messages(self, job: JobId) -> u64 {
        let members = self.server.job(job).map_or(&[][..], server::Job::members);
        members.iter().map(|member| u64::from(member.request_count())).sum()
    }

    /// Messages exchanged with a rank.
    pub(crate) fn rank_messages(self, job: JobId, rank: u32) -> RankMessages {
        let member = self.server.job(job).and_then(|job| job.member(Rank(rank)));
        let Some(member) = member else { return RankMessages::default() };
        let now_ns = self.tracer.now_ns();
        let last = self
            .tracer
            .last(job.0, rank)
            .map(|last| (*last, Duration::from_nanos(now_ns.saturating_sub(last.time_ns))));
        RankMessages { messages: member.request_count(), last }
    }

    /// Waits in a job, and the number of waits that exceed the maximum and are only counted.
    pub(crate) fn waits(self, job: JobId) -> (Vec<Wait>, u64) {
        let (found, more) = self.find_waits(job);
        let now = self.clock.now();
        let wait = |SharedWait { is, inside, since }: SharedWait| {
            let (what, MissingRanks { missing, elsewhere }) = self.describe(job, is);
            let lasts = since.map(|since| Duration::from_micros(now.since(since).as_micros()));
            let elsewhere = elsewhere.into_iter();
            let elsewhere = elsewhere.map(|(job, ranks)| Elsewhere { job: self.name(job), ranks });
            let elsewhere = elsewhere.collect();
            let inside = inside.into_iter().collect();
            Wait { what, inside, missing, elsewhere, seconds: lasts.map(seconds) }
        };
        (found.into_iter().map(wait).collect(), more)
    }

    /// Time since which a rank waits for others that make no progress; `None` if no rank does. A rank
    /// that waits for a spawned job waits for the launcher, and one that waits for a published name may
    /// offer a service until a client wants it; those do not count, nor does a tool.
    pub(crate) fn standstill(self) -> Option<Instant> {
        let pmix = self.pmix_waits();
        let jobs = self.server.jobs().filter(|id| !self.tools.has(*id));
        let since = jobs.filter_map(|id| {
            let Activity { waits_since, progress_at } = self.activity_in(id, &pmix);
            Some(progress_at.into_iter().fold(waits_since?, Ord::max))
        });
        let lasts = self.clock.now().since({ since }.min()?).as_micros();
        clock::now().checked_sub(Duration::from_micros(lasts))
    }

    /// Time since the first rank of this node in a job began to wait, of those that wait, and since the last
    /// progress that could end a wait of theirs.
    pub(crate) fn activity(self, job: JobId) -> (Option<Duration>, Option<Duration>) {
        let Activity { waits_since, progress_at } = self.activity_in(job, &self.pmix_waits());
        let now = self.clock.now();
        let ago = |at: pmi_core::time::Instant| Duration::from_micros(now.since(at).as_micros());
        (waits_since.map(ago), progress_at.map(ago))
    }

    /// PMIx clients that wait for others, with the last progress of these.
    fn pmix_waits(self) -> Vec<(ProcId, Option<pmi_core::time::Instant>)> {
        let moved = |id: JobId| self.server.job(id).and_then(server::Job::last_progress);
        let waits = self.server.pmix_ref().waits().filter_map(|(peer, wait)| {
            let others = match wait {
                pmix::PmixWait::Post { job, .. } => moved(job),
                pmix::PmixWait::Together { at, .. } => {
                    let all = self.server.pmix_ref().taking_part(at);
                    { all }.filter_map(|(member, _)| moved(member.job)).max()
                }
                _ => return None,
            };
            Some((peer, others))
        });
        waits.collect()
    }

    fn activity_in(
        self,
        id: JobId,
        pmix: &[(ProcId, Option<pmi_core::time::Instant>)],
    ) -> Activity {
        let Some(job) = self.server.job(id) else { return Activity::default() };
        let waits = |member: &&Member| {
            let session = member.session();
            session.is_some_and(|session| {
                self.server.waits(session).any(|wait| wait != server::Wait::Spawn)
            })
        };
        let times = job.members().iter().filter(waits).filter_map(Member::last_message_at);
        let of_job = pmix.iter().filter(|(of, _)| of.job == id);
        let pmix_times = of_job.clone();
        let pmix_times = pmix_times.filter_map(|(of, _)| job.member(of.rank)?.last_message_at());
        // A rank waits since its request, even if others may never have begun the operation. A fence
        // is the same one for clients of all protocols.
        let waits_since = times.chain(pmix_times).chain(job.fence().since()).min();
        // The missing rank may be of another job, and make progress there.
        let others = of_job.filter_map(|(_, others)| *others);
        Activity { waits_since, progress_at: others.chain(job.last_progress()).max() }
    }

    fn find_waits(self, job: JobId) -> (Vec<SharedWait>, u64) {
        let mut found: Vec<SharedWait> = Vec::from_iter(self.fence_wait(job));
        let mut more = 0;
        let of_job = self.server.job(job);
        let members = of_job.into_iter().flat_map(server::Job::ranked);
        let pmi = members.flat_map(|(Rank(rank), member)| {
            let waits = member.session().into_iter().flat_map(|id| self.server.waits(id));
            waits.filter_map(WaitKey::of).map(move |is| (rank, is))
        });
        let pmix = self.server.pmix_ref().waits().filter(|(of, _)| of.job == job);
        let pmix = pmix.map(|(of, wait)| (of.rank.0, WaitKey::of_pmix(wait)));
        for (rank, is) in pmi.chain(pmix) {
            let at = found.iter().position(|other| other.is == is);
            if at.is_none() && found.len() >= WAITS_MAX {
                more += 1;
                continue;
            }
            let at = at.unwrap_or_else(|| {
                found.push(SharedWait { is, inside: BTreeSet::new(), since: None });
                found.len() - 1
            });
            let Some(SharedWait { inside, since, .. }) = found.get_mut(at) else { continue };
            // Several threads of a rank may wait for the same.
            inside.insert(rank);
            let times = of_job.and_then(|of_job| of_job.member(Rank(rank)));
            let times = times.and_then(Member::last_message_at);
            *since = [*since, times].into_iter().flatten().min();
        }
        (found, more)
    }

    /// Ranks in the fence of the whole job, if there are any.
    fn fence_wait(self, job: JobId) -> Option<SharedWait> {
        let job = self.server.job(job).filter(|job| job.fence().inside() > 0)?;
        let outside: Ranks = job.missing().map(|rank| rank.0).collect();
        Some(SharedWait {
            is: WaitKey::Fence(job.fence().generation()),
            inside: job
                .ranked()
                .map(|(rank, _)| rank.0)
                .filter(|rank| !outside.contains(*rank))
                .collect(),
            since: job.fence().since(),
        })
    }

    /// Description of a wait for the user, and the missing ranks.
    fn describe(self, id: JobId, is: WaitKey) -> (WaitCondition, MissingRanks) {
        let here = |ranks: &mut dyn Iterator<Item = Rank>| MissingRanks {
            missing: ranks.map(|rank| rank.0).collect(),
            elsewhere: Vec::new(),
        };
        let job = self.server.job(id);
        match is {
            WaitKey::Fence(number) => {
                let missing = job.map(|job| here(&mut job.missing())).unwrap_or_default();
                (WaitCondition::Fence(number), missing)
            }
            WaitKey::Group(group) => {
                let missing = here(&mut self.server.missing_from_group(id, group));
                (WaitCondition::GroupFence(group.tag), missing)
            }
            WaitKey::Ring(number) => {
                (WaitCondition::Ring(number), here(&mut self.server.missing_from_ring(id)))
            }
            WaitKey::Attribute(key) => (WaitCondition::Attribute(key), MissingRanks::default()),
            WaitKey::Spawn => (WaitCondition::Spawn, MissingRanks::default()),
            WaitKey::Message => (WaitCondition::Message, MissingRanks::default()),
            WaitKey::Published(key) => (WaitCondition::Published(key), MissingRanks::default()),
            WaitKey::Post { job, rank, key } => {
                let other = (job != id).then(|| self.name(job));
                let whom = MissingRanks::of(id, rank.into_iter().map(|rank| (job, rank)));
                (WaitCondition::Value { key, job: other, rank: rank.map(|rank| rank.0) }, whom)
            }
            WaitKey::Together(purpose, at) => {
                let all = Vec::from_iter(self.server.pmix_ref().taking_part(at));
                let missing = all
                    .iter()
                    .filter(|(_, is_in)| !is_in)
                    .map(|(member, _)| (member.job, member.rank));
                let whom = MissingRanks::of(id, missing);
                let others = BTreeSet::from_iter(all.iter().map(|(member, _)| member.job));
                let others = others.into_iter().filter(|job| *job != id);
                let of_runs = self.server.pmix_ref().foreign_names(at).map(printable);
                let others = others.map(|job| self.name(job)).chain(of_runs).collect();
                let what = match purpose {
                    CollectiveKind::Fence => WaitCondition::ListedFence,
                    CollectiveKind::Connect => WaitCondition::Connect(others),
                    CollectiveKind::Disconnect => WaitCondition::Disconnect(others),
                    CollectiveKind::Construct | CollectiveKind::Bootstrap => {
                        WaitCondition::GroupMade(self.group(at))
                    }
                    CollectiveKind::Destruct => WaitCondition::GroupEnd(self.group(at)),
                };
                (what, whom)
            }
        }
    }

    /// Name of a group that is being constructed or destructed.
    fn group(self, at: usize) -> String {
        self.server.pmix_ref().group_name(at).map(printable).unwrap_or_default()
    }

    /// Name of a job for the user: that of its key-value space.
    fn name(self, job: JobId) -> String {
        self.server.job(job).map_or_else(String::new, |job| printable(job.name().as_bytes()))
    }
}

impl WaitKey {
    /// Wait of a PMI client; `None` for the fence of the whole job, which is recorded separately.
    fn of(wait: server::Wait<'_>) -> Option<Self> {
        Some(match wait {
            server::Wait::Fence(_) => return None,
            server::Wait::Group(group) => Self::Group(group),
            server::Wait::Ring(number) => Self::Ring(number),
            server::Wait::Attribute(key) => Self::Attribute(printable(key.as_bytes())),
            server::Wait::Spawn => Self::Spawn,
            server::Wait::Message => Self::Message,
        })
    }

    fn of_pmix(wait: pmix::PmixWait<'_>) -> Self {
        match wait {
            pmix::PmixWait::Together { purpose, at } => Self::Together(purpose, at),
            pmix::PmixWait::Post { job, rank, key } => {
                Self::Post { job, rank, key: key.map(printable) }
            }
            pmix::PmixWait::Lookup(key) => Self::Published(printable(key)),
            pmix::PmixWait::Owner => Self::Spawn,
        }
    }
}

impl MissingRanks {
    /// Converts processes to the view of job `home`.
    fn of(home: JobId, processes: impl Iterator<Item = (JobId, Rank)>) -> Self {
        let mut by_job: BTreeMap<JobId, BTreeSet<u32>> = BTreeMap::new();
        for (job, rank) in processes {
            by_job.entry(job).or_default().insert(rank.0);
        }
        let missing = by_job.remove(&home).into_iter().flatten().collect();
        let ranks = |(job, ranks): (JobId, BTreeSet<u32>)| (job, ranks.into_iter().collect());
        Self { missing, elsewhere: by_job.into_iter().map(ranks).collect() }
    }
}
