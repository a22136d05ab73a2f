//! One table of a job from the reports of its nodes. No system calls.
//!
//! A report is checked like any other input: only ranks of its node count, text is printable and short, and
//! the number of operations is bounded.

use crate::link::node_report::{InitRanks, JobReport, NodeReport, NodeWait};
use crate::rank_sets;
use crate::watch::stall::Standstill;
use crate::watch::table::{
    Elsewhere, Job, NamedProcess, Rank, RankActivity, WAITS_MAX, Wait, WaitCondition, seconds,
};
use pmi_host_base::ranges::Ranks;
use std::time::Instant;

/// Report of one node, with its host and ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported<'a> {
    pub(super) host: &'a str,
    pub(super) ranks: &'a Ranks,
    pub(super) report: &'a NodeReport,
}

/// Ranks of several nodes that wait in the same operation.
struct MergedWait<'a> {
    what: &'a WaitCondition,
    inside: Vec<Ranks>,
    missing: Vec<&'a Ranks>,
    elsewhere: Vec<&'a (String, Ranks)>,
    seconds: Option<f64>,
}

/// Completes the row of a job by the reports of its nodes.
pub(super) fn job(mut job: Job, ended: &Ranks, reports: &[Reported<'_>]) -> Job {
    let of_job = of_job(reports, &job.name);
    let mut waits: Vec<MergedWait<'_>> = Vec::new();
    for (node, report) in &of_job {
        job.fences = job.fences.max(report.fences);
        job.messages = job.messages.saturating_add(report.messages);
        job.more_waits = job.more_waits.saturating_add(report.more_waits);
        job.more_ranks = job.more_ranks.saturating_add(report.more_ranks);
        for wait in &report.waits {
            let at = waits.iter().position(|other| *other.what == wait.what);
            if at.is_none() && waits.len() >= WAITS_MAX {
                job.more_waits = job.more_waits.saturating_add(1);
                continue;
            }
            let at = at.unwrap_or_else(|| {
                waits.push(MergedWait::of(&wait.what));
                waits.len() - 1
            });
            if let Some(merged) = waits.get_mut(at) {
                merged.add(wait, node.ranks);
            }
        }
    }
    let all = rank_sets::without(&rank_sets::below(job.size), ended);
    job.waits = waits.into_iter().map(|wait| wait.finish(&all)).collect();
    job.waits.extend(init_wait(&job, &of_job));
    job.ranks = rows(reports, &job.name);
    job
}

/// Wait of ranks in init for those before it, before the first fence of a job. They wait in memory that they
/// share: a node whose ranks have all called init has none that waits, except if others wait in that fence.
fn init_wait(job: &Job, reports: &[(Reported<'_>, &JobReport)]) -> Option<Wait> {
    if job.fences > 0 {
        return None;
    }
    let is_in_fence = job.waits.iter().any(|wait| matches!(wait.what, WaitCondition::Fence(_)));
    let of = |ranks: fn(&InitRanks) -> &Ranks, is_counted: &dyn Fn(&InitRanks) -> bool| {
        let nodes = reports.iter().filter_map(|(node, report)| {
            let of_node = report.in_init.as_ref().filter(|of_node| is_counted(of_node))?;
            Some(rank_sets::common(ranks(of_node), node.ranks))
        });
        rank_sets::union(&Vec::from_iter(nodes))
    };
    let waits = |ranks: &InitRanks| ranks.is_wait() || is_in_fence;
    let inside = of(|ranks| &ranks.inside, &waits);
    let missing = of(|ranks| &ranks.before, &|_| true);
    if inside.is_empty() || missing.is_empty() {
        return None;
    }
    let all = reports.iter().filter_map(|(_, report)| report.in_init.as_ref());
    let all = Vec::from_iter(all.filter(|ranks| !ranks.inside.is_empty() && waits(ranks)));
    let what =
        WaitCondition::Init { shared_memory: !all.iter().any(|ranks| ranks.is_memory_hidden) };
    let seconds = all.iter().map(|ranks| seconds(ranks.waits_for)).reduce(f64::max);
    Some(Wait { what, inside, missing, elsewhere: Vec::new(), seconds })
}

/// Rows of the ranks of a job, in ascending order.
pub(super) fn rows(reports: &[Reported<'_>], name: &str) -> Vec<Rank> {
    let rows = of_job(reports, name).into_iter().flat_map(|(node, report)| {
        let of_node = report.ranks.iter().filter(|row| node.ranks.contains(row.rank));
        of_node.map(|row| Rank {
            host: Some(node.host.to_owned()),
            kernel_wait: row.kernel_wait.as_deref().map(short),
            last_message: row.last_message.as_deref().map(short),
            activity: row.activity.as_ref().map(printable_activity),
            ..row.clone()
        })
    });
    let mut rows: Vec<Rank> = rows.collect();
    rows.sort_by_key(|row| row.rank);
    rows.dedup_by_key(|row| row.rank);
    rows
}

/// Wait of ranks for others that make no progress, as of `now`; `None` if no rank waits.
pub(super) fn standstill<'a>(
    now: Instant,
    reports: impl Iterator<Item = &'a NodeReport> + Clone,
) -> Option<Standstill> {
    let jobs = reports.flat_map(|report| &report.jobs);
    let in_init = || {
        let all = jobs.clone().filter_map(|report| report.in_init.as_ref());
        all.filter(|ranks| ranks.is_wait())
    };
    let waits_for = jobs.clone().filter_map(|report| report.waits_for).max();
    let (waits_for, idle_for) = match waits_for {
        Some(waits_for) => (waits_for, None),
        None => {
            let waits_for = in_init().map(|wait| wait.waits_for).max()?;
            (waits_for, in_init().map(|wait| wait.idle_for).min())
        }
    };
    // The rank that others wait for makes progress on its own node.
    let progress_ago = jobs.clone().filter_map(|report| report.progress_ago).min();
    let lasts = progress_ago.map_or(waits_for, |ago| ago.min(waits_for));
    let idle_since = match idle_for {
        Some(idle_for) => Some(now.checked_sub(idle_for)?),
        None => None,
    };
    Some(Standstill { since: now.checked_sub(lasts)?, idle_since })
}

fn of_job<'a>(reports: &[Reported<'a>], name: &str) -> Vec<(Reported<'a>, &'a JobReport)> {
    let of_node = |node: &Reported<'a>| {
        let report = node.report.jobs.iter().find(|report| report.name == *name)?;
        Some((*node, report))
    };
    reports.iter().filter_map(of_node).collect()
}

impl<'a> MergedWait<'a> {
    fn of(what: &'a WaitCondition) -> Self {
        let (inside, missing) = (Vec::new(), Vec::new());
        Self { what, inside, missing, elsewhere: Vec::new(), seconds: None }
    }

    fn add(&mut self, wait: &'a NodeWait, of_node: &Ranks) {
        self.inside.push(rank_sets::common(&wait.inside, of_node));
        self.missing.push(&wait.missing);
        let room = ELSEWHERE_MAX.saturating_sub(self.elsewhere.len());
        self.elsewhere.extend(wait.elsewhere.iter().take(room));
        let longer = [self.seconds, wait.seconds].into_iter().flatten().reduce(f64::max);
        self.seconds = longer;
    }

    /// The wait, in a job with these ranks that have not ended.
    fn finish(self, all: &Ranks) -> Wait {
        let inside = rank_sets::union(&self.inside);
        // A node knows which of its own ranks a fence of the job waits for; nodes without a rank inside
        // report no wait.
        let missing = match self.what {
            WaitCondition::Fence(_) => all.clone(),
            _ => rank_sets::common(&rank_sets::union(self.missing), all),
        };
        let missing = rank_sets::without(&missing, &inside);
        let mut elsewhere: Vec<Elsewhere> = Vec::new();
        for (job, ranks) in self.elsewhere {
            match elsewhere.iter_mut().find(|there| there.job == *job) {
                Some(there) => there.ranks = rank_sets::union([&there.ranks, ranks]),
                None => elsewhere.push(Elsewhere { job: short(job), ranks: ranks.clone() }),
            }
        }
        Wait { what: printable(self.what), inside, missing, elsewhere, seconds: self.seconds }
    }
}

/// The condition, with printable and short text.
fn printable(what: &WaitCondition) -> WaitCondition {
    let all = |names: &[String]| names.iter().take(ELSEWHERE_MAX).map(|name| short(name)).collect();
    match what {
        WaitCondition::Attribute(key) => WaitCondition::Attribute(short(key)),
        WaitCondition::Value { key, job, rank } => WaitCondition::Value {
            key: key.as_deref().map(short),
            job: job.as_deref().map(short),
            rank: *rank,
        },
        WaitCondition::Connect(jobs) => WaitCondition::Connect(all(jobs)),
        WaitCondition::Disconnect(jobs) => WaitCondition::Disconnect(all(jobs)),
        WaitCondition::GroupMade(name) => WaitCondition::GroupMade(short(name)),
        WaitCondition::GroupEnd(name) => WaitCondition::GroupEnd(short(name)),
        WaitCondition::Published(key) => WaitCondition::Published(short(key)),
        WaitCondition::Init { .. }
        | WaitCondition::Fence(_)
        | WaitCondition::GroupFence(_)
        | WaitCondition::Ring(_)
        | WaitCondition::Spawn
        | WaitCondition::Message
        | WaitCondition::ListedFence => what.clone(),
    }
}

/// The activity, with printable and short text.
fn printable_activity(activity: &RankActivity) -> RankActivity {
    let named = |process: &NamedProcess| NamedProcess {
        program: process.program.as_deref().map(short),
        ..process.clone()
    };
    RankActivity {
        child: activity.child.as_ref().map(named),
        holder: activity.holder.as_ref().map(named),
        call: activity.call.as_deref().map(short),
        file: activity.file.as_deref().map(short),
        ..activity.clone()
    }
}

fn short(text: &str) -> String {
    let chars = text.chars().take(TEXT_MAX);
    chars.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Names in messages are shorter.
const TEXT_MAX: usize = 512;

/// Number of other jobs that a wait names.
const ELSEWHERE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::table::Phase;
    use pmi_host_os::clock;
    use std::time::Duration;

    fn ranks(all: impl IntoIterator<Item = u32>) -> Ranks {
        all.into_iter().collect()
    }

    fn empty_job(size: u32) -> Job {
        Job {
            name: "kvs_7_0".to_owned(),
            program: "./a".to_owned(),
            size,
            running: rank_sets::below(size),
            ..Job::default()
        }
    }

    fn wait(what: WaitCondition, inside: &[u32], missing: &[u32]) -> NodeWait {
        let (inside, missing) = (ranks(inside.to_vec()), ranks(missing.to_vec()));
        NodeWait { what, inside, missing, elsewhere: Vec::new(), seconds: Some(1.0) }
    }

    fn report(waits: Vec<NodeWait>) -> NodeReport {
        let job = JobReport {
            name: "kvs_7_0".to_owned(),
            fences: 3,
            messages: 5,
            waits_for: None,
            in_init: None,
            progress_ago: None,
            waits,
            more_waits: 0,
            ranks: Vec::new(),
            more_ranks: 0,
        };
        NodeReport { number: 1, jobs: vec![job], variables: Vec::new() }
    }

    fn row(rank: u32, text: &str) -> Rank {
        Rank {
            rank,
            pid: Some(9),
            host: Some("elsewhere".to_owned()),
            phase: Phase::Silent,
            state: None,
            kernel_wait: Some(text.to_owned()),
            cpu_seconds: None,
            cpu_seconds_new: None,
            messages: 0,
            last_message: None,
            last_message_is_answer: false,
            last_message_seconds: None,
            activity: None,
        }
    }

    fn reported<'a>(host: &'a str, ranks: &'a Ranks, report: &'a NodeReport) -> Reported<'a> {
        Reported { host, ranks, report }
    }

    #[test]
    fn fence_waits_for_all_ranks_that_no_node_reports_inside() {
        let (first, second) = (ranks([0, 2]), ranks([1, 3]));
        let inside = report(vec![wait(WaitCondition::Fence(3), &[0, 2], &[])]);
        // The other node reports no wait, and nodes that do not answer report nothing.
        let outside = report(Vec::new());
        let reports = [reported("n1", &first, &inside), reported("n2", &second, &outside)];
        let merged = job(empty_job(6), &ranks([4]), &reports);
        assert_eq!((merged.fences, merged.messages), (3, 10));
        assert_eq!(
            (&merged.waits[0].inside, &merged.waits[0].missing),
            (&first, &ranks([1, 3, 5]))
        );
    }

    #[test]
    fn group_waits_for_missing_ranks_of_all_nodes() {
        let (first, second) = (ranks([0, 1]), ranks([2, 3]));
        let what = || WaitCondition::GroupFence(7);
        let one = report(vec![wait(what(), &[0], &[1, 2, 3])]);
        let other = report(vec![wait(what(), &[2], &[0, 1, 3])]);
        let reports = [reported("n1", &first, &one), reported("n2", &second, &other)];
        let merged = job(empty_job(4), &Ranks::default(), &reports);
        assert_eq!(merged.waits.len(), 1);
        assert_eq!(
            (&merged.waits[0].inside, &merged.waits[0].missing),
            (&ranks([0, 2]), &ranks([1, 3]))
        );
    }

    #[test]
    fn progress_of_one_node_ends_the_standstill_of_all() {
        let secs = Duration::from_secs;
        let (mut one, mut two) = (report(Vec::new()), report(Vec::new()));
        let now = clock::now();
        let found = |one: &NodeReport, two: &NodeReport| standstill(now, [one, two].into_iter());
        let standstill =
            |one: &NodeReport, two: &NodeReport| found(one, two).map(|found| now - found.since);
        two.jobs[0].progress_ago = Some(secs(4));
        assert_eq!(standstill(&one, &two), None);
        (one.jobs[0].waits_for, one.jobs[0].progress_ago) = (Some(secs(9)), Some(secs(9)));
        assert_eq!(standstill(&one, &two), Some(secs(4)));
        two.jobs[0].progress_ago = Some(secs(20));
        assert_eq!(standstill(&one, &two), Some(secs(9)));
        assert_eq!(found(&one, &two).unwrap().idle_since, None);
        // Ranks of both nodes may only wait for those before init, and one of these was active.
        let wait = |waits_for, idle_for| InitRanks {
            inside: ranks([0]),
            before: ranks([1]),
            is_memory_hidden: false,
            waits_for: secs(waits_for),
            idle_for: secs(idle_for),
        };
        (one.jobs[0].waits_for, two.jobs[0].waits_for) = (None, None);
        (one.jobs[0].in_init, two.jobs[0].in_init) = (Some(wait(9, 5)), Some(wait(8, 2)));
        assert_eq!(standstill(&one, &two), Some(secs(9)));
        assert_eq!(found(&one, &two).unwrap().idle_since, Some(now - secs(2)));
    }

    #[test]
    fn ranks_in_init_wait_for_those_before_it() {
        let (first, second) = (ranks([0, 2]), ranks([1, 3]));
        let init = |inside: &[u32], before: &[u32]| InitRanks {
            inside: ranks(inside.to_vec()),
            before: ranks(before.to_vec()),
            is_memory_hidden: inside == [2],
            waits_for: Duration::from_secs(4),
            idle_for: Duration::ZERO,
        };
        let merged = |one: InitRanks, two: InitRanks, fence: &[u32]| {
            let (mut first_report, mut second_report) = (report(Vec::new()), report(Vec::new()));
            if !fence.is_empty() {
                first_report.jobs[0].waits = vec![wait(WaitCondition::Fence(0), fence, &[])];
            }
            first_report.jobs[0].in_init = Some(one);
            second_report.jobs[0].in_init = Some(two);
            for report in [&mut first_report, &mut second_report] {
                report.jobs[0].fences = 0;
            }
            let reports =
                [reported("n1", &first, &first_report), reported("n2", &second, &second_report)];
            let waits = job(empty_job(4), &Ranks::default(), &reports).waits;
            waits.into_iter().find(|wait| matches!(wait.what, WaitCondition::Init { .. }))
        };
        // Without a fence, ranks wait for those of their node.
        let found = merged(init(&[0, 2], &[]), init(&[1], &[3]), &[]).unwrap();
        assert_eq!((found.inside, found.missing), (ranks([1]), ranks([3])));
        assert_eq!(found.what, WaitCondition::Init { shared_memory: true });
        assert_eq!(merged(init(&[0, 2], &[]), init(&[1, 3], &[]), &[]), None);
        // Where one rank of a node is in the fence, the others wait for its end.
        let found = merged(init(&[2], &[]), init(&[1], &[3]), &[0]).unwrap();
        assert_eq!((found.inside, found.missing), (ranks([1, 2]), ranks([3])));
        assert_eq!(found.what, WaitCondition::Init { shared_memory: false });
        assert_eq!(merged(init(&[2], &[]), init(&[], &[1, 3]), &[]), None);
    }

    #[test]
    fn report_describes_only_ranks_of_its_node_in_printable_text() {
        let of_node = ranks([1]);
        let mut report = report(vec![wait(WaitCondition::Ring(0), &[0, 1, 2], &[0])]);
        report.jobs[0].ranks = vec![row(1, "a\x1b[2J"), row(1, "again"), row(0, "no")];
        let reports = [reported("n1", &of_node, &report)];
        let merged = job(empty_job(3), &Ranks::default(), &reports);
        assert_eq!(merged.waits[0].inside, of_node);
        assert_eq!(merged.ranks, [Rank { host: Some("n1".to_owned()), ..row(1, "a [2J") }]);
    }

    #[test]
    fn operations_beyond_the_maximum_are_counted() {
        let of_node = ranks([0]);
        let waits = (0..40).map(|tag| wait(WaitCondition::GroupFence(tag), &[0], &[1]));
        let report = report(waits.collect());
        let merged = job(empty_job(2), &Ranks::default(), &[reported("n1", &of_node, &report)]);
        assert_eq!((merged.waits.len(), merged.more_waits), (WAITS_MAX, 24));
    }
}
