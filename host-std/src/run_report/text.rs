//! Ends of ranks as text for users: ranks with the same end share a line.

use super::{RankEnd, RankSummary, RunOutcome};
use crate::launch::start::process::ProcessEnd;
use crate::report::ended;
use crate::verdict::PmiPhase;
use pmi_host_base::exit::line;
use pmi_host_base::ranges::ranges;
use pmi_host_os::clock;
use std::collections::BTreeSet;

/// Ends of all ranks, by job.
pub(crate) fn endings(outcome: &RunOutcome<'_>) -> String {
    outcome.jobs().iter().map(|rows| of_job(rows)).collect()
}

/// The run in one line.
pub(crate) fn summary(outcome: &RunOutcome<'_>) -> String {
    let RunOutcome { exit_code, times, rows, .. } = outcome;
    let hosts: BTreeSet<&str> = rows.iter().map(|row| row.plan.host_of(row.rank)).collect();
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let mut text = counted(rows.len(), "rank");
    let jobs = outcome.jobs().len();
    if jobs > 1 {
        text.push_str(&format!(" in {jobs} jobs"));
    }
    text.push_str(&format!(" on {}", counted(hosts.len(), "host")));
    let is_terminated =
        |row: &&RankSummary| row.end.is_some_and(|end| end.was_over && !end.is_good());
    let is_good = |row: &&RankSummary| row.end.is_some_and(|end| end.is_good());
    let (good, terminated) =
        (rows.iter().filter(is_good).count(), rows.iter().filter(is_terminated).count());
    let kinds = [
        (good, "succeeded"),
        (rows.len() - good - terminated, "failed"),
        (terminated, "terminated by the launcher"),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
    let separator = if kinds.is_empty() { "" } else { ": " };
    let time = clock::since(times.began).as_secs_f64();
    line(format!("{text}{separator}{}; exit code {exit_code} after {time:.2} s", kinds.join(", ")))
}

fn of_job(rows: &[&RankSummary]) -> String {
    let mut kinds: Vec<(String, Vec<u32>)> = Vec::new();
    for row in rows {
        let how = row.end.as_ref().map_or_else(|| "has an unknown exit status".to_owned(), how);
        match kinds.iter_mut().find(|(kind, _)| *kind == how) {
            Some((_, ranks)) => ranks.push(row.rank),
            None => kinds.push((how, vec![row.rank])),
        }
    }
    let which = match rows.first().filter(|row| row.plan.spawner.is_some()) {
        Some(row) => format!(" of the spawned job {}", row.plan.kvsname),
        None => String::new(),
    };
    let head = match rows.len() {
        1 => format!("how the 1 rank{which} ended:"),
        count => format!("how the {count} ranks{which} ended:"),
    };
    let rows = kinds.iter().map(|(how, ranks)| {
        let name = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("\n    {:<16} {how}", format!("{name} {}", ranges(ranks, ",")))
    });
    line(head + &rows.collect::<String>())
}

/// End of one rank, as the predicate of a sentence about it.
pub(super) fn how(end: &RankEnd) -> String {
    let mut text = match (end.ending, end.phase) {
        (ProcessEnd::Exited(0), PmiPhase::Open) => {
            "exited with code 0 but without finalize".to_owned()
        }
        (ending, phase) => ended(ending, phase),
    };
    if end.was_over && !end.is_good() {
        text.push_str(", after the run had ended");
    }
    text
}

/// Message for a failure after which the other ranks continue; `what` is the sentence about it.
pub(crate) fn tolerated(what: &str, running: usize) -> String {
    match running {
        0 => what.to_owned(),
        1 => format!("{what}; the 1 rank still running continues (--on-exit-error ignore)"),
        _ => format!("{what}; the {running} ranks still running continue (--on-exit-error ignore)"),
    }
}

/// Message for a failure that concerns no other job; `what` is the sentence about it.
pub(crate) fn apart(what: &str) -> String {
    format!("{what}; other jobs continue, since this one is connected with none of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::tests::plan;
    use crate::run_report::RunTimes;
    use crate::server::flush::Traffic;
    use pmi_host_os::clock;
    use std::rc::Rc;
    use std::time::SystemTime;

    #[test]
    fn ranks_that_ended_alike_are_in_one_line() {
        let began = clock::now();
        let times = RunTimes {
            began_at: SystemTime::now(),
            began,
            all_started: None,
            first_end: None,
            last_end: None,
        };
        let times = &times;
        let outcome = |rows| RunOutcome { exit_code: 139, failure: None, times, rows };
        let plan = Rc::new(plan(&[("./a", 6)]));
        let row = |rank, ending, phase, was_over| RankSummary {
            plan: Rc::clone(&plan),
            rank,
            pid: 1,
            started: clock::now(),
            end: Some(RankEnd {
                at: clock::now(),
                ending,
                phase,
                was_over,
                traffic: Traffic::default(),
                is_singleton: false,
            }),
        };
        let good = |rank| row(rank, ProcessEnd::Exited(0), PmiPhase::Finalized, false);
        let killed = ProcessEnd::Killed { signal: 11, dumped: true };
        let rows = [
            good(0),
            good(1),
            row(2, killed, PmiPhase::Open, false),
            row(3, ProcessEnd::OutOfMemory, PmiPhase::Silent, false),
            row(4, ProcessEnd::Killed { signal: 15, dumped: false }, PmiPhase::Silent, true),
            good(5),
        ];
        assert_eq!(
            endings(&outcome(&rows)),
            "pmi-host: how the 6 ranks ended:\n    ranks 0-1,5      exited with code 0\n    rank \
             2           was killed by signal 11 (SIGSEGV), core dumped before finalize\n    rank \
             3           was killed by the system for lack of memory\n    rank 4           was \
             killed by signal 15 (SIGTERM), after the run had ended\n"
        );
        assert_eq!(endings(&outcome(&[])), "");
        let line = summary(&outcome(&rows));
        let start = "pmi-host: 6 ranks on 1 host: 3 succeeded, 2 failed, 1 terminated by the launcher; \
                     exit code 139 after ";
        assert!(line.starts_with(start) && line.ends_with(" s\n"), "{line}");
        let line = summary(&outcome(&rows[..1]));
        assert!(line.starts_with("pmi-host: 1 rank on 1 host: 1 succeeded; "), "{line}");
        let line = summary(&outcome(&[]));
        assert!(line.starts_with("pmi-host: 0 ranks on 0 hosts; exit code 139 "), "{line}");
    }
}
