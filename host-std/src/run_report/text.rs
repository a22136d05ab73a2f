//! Ends of ranks as text for users: ranks with the same end share a line.

use super::{RankEnd, RankSummary};
use crate::launch::process::ProcessEnd;
use crate::report::ended;
use crate::verdict::PmiPhase;
use pmi_host_base::exit::line;
use pmi_host_base::ranges::ranges;

/// Ends of all ranks, by job.
pub(crate) fn endings(rows: &[RankSummary]) -> String {
    let mut text = String::new();
    let mut rest: Vec<&RankSummary> = rows.iter().collect();
    while let Some(first) = rest.first() {
        let name = first.plan.kvsname.clone();
        let (own, others): (Vec<&RankSummary>, _) =
            rest.into_iter().partition(|row| row.plan.kvsname == name);
        rest = others;
        text.push_str(&of_job(&own));
    }
    text
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
fn how(end: &RankEnd) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::tests::plan;
    use crate::server::flush::Traffic;
    use std::rc::Rc;
    use std::time::Instant;

    #[test]
    fn ranks_that_ended_alike_are_in_one_line() {
        let plan = Rc::new(plan(&[("./a", 6)]));
        let row = |rank, ending, phase, was_over| RankSummary {
            plan: Rc::clone(&plan),
            rank,
            pid: 1,
            started: Instant::now(),
            end: Some(RankEnd {
                at: Instant::now(),
                ending,
                phase,
                was_over,
                traffic: Traffic::default(),
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
            endings(&rows),
            "pmi-host: how the 6 ranks ended:\n    ranks 0-1,5      exited with code 0\n    rank \
             2           was killed by signal 11 (SIGSEGV), core dumped before finalize\n    rank \
             3           was killed by the system for lack of memory\n    rank 4           was \
             killed by signal 15 (SIGTERM), after the run had ended\n"
        );
        assert_eq!(endings(&[]), "");
    }
}
