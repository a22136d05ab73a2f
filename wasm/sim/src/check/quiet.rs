//! Rule: in a quiet world, no rank waits for one that is done, unless that was reported.

use super::{Checks, Finding};
use crate::host::Host;
use crate::net::Net;
use crate::scenario::{Direction, PMIX, RankRequest, ScriptAct};
use crate::sim_rank::{ProcessState, SimRank, Waiting};

pub(super) fn judge(
    sim_ranks: &[SimRank],
    net: &Net,
    host: &Host,
    checks: &Checks,
    found: &mut Vec<Finding>,
) {
    for sim_rank in sim_ranks {
        let rank = sim_rank.rank();
        let facts = checks.census.of(rank);
        let flags = sim_rank.flags();
        let listens = sim_rank.life() == ProcessState::Running && !flags.is_deaf && !flags.is_hung;
        // Requests of a tainted rank are unknown.
        if listens && !facts.is_tainted() && !facts.is_reset {
            for waiting in sim_rank.waiting() {
                found.extend(waits(sim_ranks, rank, waiting, checks).map(|what| ("waits", what)));
            }
            let next = sim_rank.next_act();
            let idles = sim_rank.waiting().is_empty() && !matches!(next, Some(ScriptAct::Manual));
            if idles && !flags.has_left {
                let what = format!("rank {rank} waits for nothing and makes no progress");
                found.push(("waits", what));
            }
        }
        let Some(link) = net.link(rank) else { continue };
        let held = link.get(Direction::Down).landed().len();
        if listens && !flags.has_left && held > 0 {
            let what = format!("{held} bytes have arrived at rank {rank}, and it does not read");
            found.push(("waits", what));
        }
        let Some(line) = host.line(rank) else { continue };
        // The server may leave bytes where they are while the peer does not read its answers, or while
        // it owes one for which the peer has to wait.
        let held = link.get(Direction::Up).landed().len();
        let is_free = line.is_open() && line.unsent_bytes() == 0 && line.unconsumed_bytes() == 0;
        if is_free && held > 0 {
            let what =
                format!("{held} bytes of rank {rank} have arrived, and the host does not read");
            found.push(("waits", what));
        }
    }
}

/// Reason why an unanswered request is a violation; `None` if the wait is justified.
fn waits(sim_ranks: &[SimRank], rank: u32, waiting: &Waiting, checks: &Checks) -> Option<String> {
    let ask = &waiting.ask;
    let fence = match ask {
        RankRequest::Fence { .. } | RankRequest::Ring { .. } => {
            checks.fences.entered(rank, waiting.number)?
        }
        RankRequest::Connect { .. } | RankRequest::Disconnect { .. }
            if PMIX && checks.census.of(rank).uses_pmix =>
        {
            checks.fences.entered(rank, waiting.number)?
        }
        RankRequest::Lookup { service, wait: true, .. } if PMIX => {
            let what = format!("rank {rank} waits for `{ask}`, which is published");
            return checks.names.is_sure(service).then_some(what);
        }
        RankRequest::Get { wait: true, .. } => return has_no_putter(sim_ranks, rank, checks),
        _ => return Some(format!("rank {rank} waits for the answer to `{ask}`")),
    };
    if checks.fences.is_open(fence) {
        return Some(format!("rank {rank} is still in a fence that others have left"));
    }
    let missing = checks.fences.missing(fence);
    let census = &checks.census;
    let doubtful = |rank: u32| {
        let facts = census.of(rank);
        facts.is_tainted() || facts.is_reset || facts.is_idle || facts.is_done()
    };
    if missing.is_empty() {
        // A request may have been lost in changed bytes.
        let is_odd = !census.all().any(|(rank, _)| doubtful(rank));
        return is_odd.then(|| format!("rank {rank} is in a fence that all have entered"));
    }
    // A fence of PMIx completes without exited ranks, and waits for the others.
    let is_gone = |rank: u32| census.of(rank).is_done() && !census.of(rank).is_tainted();
    let inside = || checks.fences.inside(fence);
    let uses_pmix = |rank: u32| census.of(rank).uses_pmix;
    // A request in changed bytes need not have been a fence of PMI.
    let is_plain = |rank: u32| !uses_pmix(rank) && !census.of(rank).is_tainted();
    if PMIX && inside().any(uses_pmix) && !inside().any(is_plain) {
        // Unless a request was changed in transit.
        let is_odd = missing.iter().all(|rank| is_gone(*rank)) && !inside().any(doubtful);
        return is_odd.then(|| {
            format!("rank {rank} is in a fence of PMIx that waits for {missing:?}, gone")
        });
    }
    let done: Vec<u32> = missing.into_iter().filter(|rank| census.of(*rank).is_done()).collect();
    // A fence may also wait for a rank with lost messages.
    let is_out = |rank| census.of(rank).is_done() || census.of(rank).is_tainted();
    let named = census.all().any(|(rank, _)| is_out(rank) && checks.reports.names(rank));
    let is_silent = !done.is_empty() && !named;
    is_silent.then(|| {
        format!("rank {rank} is in a fence and waits for {done:?}, gone, which was not reported")
    })
}

/// The reason why no rank on the same node can put the awaited attribute.
fn has_no_putter(sim_ranks: &[SimRank], rank: u32, checks: &Checks) -> Option<String> {
    let census = &checks.census;
    // Another thread of a rank may put the attribute that one waits for.
    let waits = |sim_rank: &SimRank| {
        let is_silent = |waiting: &Waiting| {
            !waiting.also && matches!(waiting.ask, RankRequest::Get { node: true, wait: true, .. })
        };
        let own = sim_rank.waiting();
        let is_one = own.len() == 1 && !census.of(sim_rank.rank()).has_threads;
        sim_rank.life() == ProcessState::Running && is_one && own.iter().all(is_silent)
    };
    let is_gone = |rank: u32| {
        let facts = census.of(rank);
        facts.is_done() && !facts.is_tainted() && !facts.is_idle
    };
    let mut neighbours =
        sim_ranks.iter().filter(|sim_rank| checks.fences.are_neighbours(sim_rank.rank(), rank));
    let is_alone = neighbours.all(|sim_rank| is_gone(sim_rank.rank()) || waits(sim_rank));
    is_alone.then(|| {
        format!("rank {rank} waits for an attribute that no running rank of its node can put")
    })
}
