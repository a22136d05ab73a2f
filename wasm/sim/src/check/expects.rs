//! Expected results of a scenario.

use super::reports::Reports;
use super::{Census, Finding};
use crate::scenario::{Expectation, Who};

pub(super) fn judge(
    expects: &[Expectation],
    census: &Census,
    reports: &Reports,
    found: &mut Vec<Finding>,
) {
    for expect in expects {
        found.extend(failure(expect, census, reports).map(|what| ("expected", what)));
    }
}

fn failure(expect: &Expectation, census: &Census, reports: &Reports) -> Option<String> {
    match expect {
        Expectation::Finish(who) => {
            let unfinished = |rank: &u32| who.has(*rank) && !census.of(*rank).is_finished;
            let ranks = list(census, unfinished);
            (!ranks.is_empty())
                .then(|| format!("ranks {ranks:?} did not finish, in spite of `{expect}`"))
        }
        Expectation::Report(who) => {
            let wrong = |rank: &u32| who.has(*rank) != reports.names(*rank);
            let ranks = list(census, wrong);
            let is_anonymous = *who == Who::NoRank && reports.named().next().is_some();
            let what = format!("the reports of ranks {ranks:?} contradict `{expect}`");
            (!ranks.is_empty() || is_anonymous).then_some(what)
        }
        Expectation::ReportAmong(who) => {
            let ranks = list(census, |rank| who.has(*rank) && !reports.names(*rank));
            (!ranks.is_empty())
                .then(|| format!("ranks {ranks:?} were not reported, in spite of `{expect}`"))
        }
    }
}

fn list(census: &Census, is: impl Fn(&u32) -> bool) -> Vec<u32> {
    census.all().map(|(rank, _)| rank).filter(is).collect()
}
