//! The wait-for graph of a run: an edge leads from each rank that waits to each that it waits for.
//! No system calls.

use super::table::Job;
use crate::rank_sets;
use pmi_host_base::ranges::Ranks;

/// Ranks of `job` at which the waits of all `jobs` end: others wait for them, and they do not wait for
/// others. If each waits for others, too, they wait for each other in a circle, and all are returned.
pub(crate) fn ends(jobs: &[Job], job: &Job) -> Ranks {
    let awaited = |job: &Job| rank_sets::union(jobs.iter().flat_map(|other| job.missing_in(other)));
    let of = |job: &Job| {
        let waiting = rank_sets::union(job.waits.iter().map(|wait| &wait.inside));
        rank_sets::without(&awaited(job), &waiting)
    };
    let is_circle = jobs.iter().all(|job| of(job).is_empty());
    if is_circle { awaited(job) } else { of(job) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::table::{Elsewhere, Wait, WaitCondition};

    fn wait(inside: &[u32], missing: &[u32]) -> Wait {
        Wait {
            what: WaitCondition::ListedFence,
            inside: inside.iter().copied().collect(),
            missing: missing.iter().copied().collect(),
            elsewhere: Vec::new(),
            seconds: None,
        }
    }

    fn job(name: &str, waits: Vec<Wait>) -> Job {
        Job { name: name.to_owned(), size: 8, waits, ..Job::default() }
    }

    fn ranks(all: &[u32]) -> Ranks {
        all.iter().copied().collect()
    }

    #[test]
    fn waits_end_at_the_ranks_that_do_not_wait_themselves() {
        // 1 and 3 wait for 0 and 2, of which 0 waits for 2.
        let jobs = [job("a", vec![wait(&[1, 3], &[0, 2]), wait(&[0], &[2])])];
        assert_eq!(ends(&jobs, &jobs[0]), ranks(&[2]));
        assert_eq!(ends(&[job("a", Vec::new())], &job("a", Vec::new())), ranks(&[]));
    }

    #[test]
    fn ranks_that_wait_for_each_other_are_all_named() {
        let jobs = [job("a", vec![wait(&[0], &[1]), wait(&[1], &[0])])];
        assert_eq!(ends(&jobs, &jobs[0]), ranks(&[0, 1]));
    }

    #[test]
    fn waits_lead_from_job_to_job() {
        let mut first = wait(&[0], &[]);
        first.elsewhere = vec![Elsewhere { job: "b".to_owned(), ranks: ranks(&[4, 5]) }];
        let jobs = [job("a", vec![wait(&[1], &[0]), first]), job("b", vec![wait(&[4], &[5])])];
        assert_eq!(ends(&jobs, &jobs[0]), ranks(&[]));
        assert_eq!(ends(&jobs, &jobs[1]), ranks(&[5]));
    }
}
