//! Debuggers that find ranks through the variables of the launcher.

use super::EventLoop;
use super::spawn::Spawning;
use crate::launch::control::ControlAction;
use crate::launch::directives::{JobDirectives, RankChoice};
use crate::launch::gdb::{GdbPanes, HeldRank};
use crate::launch::guard::Guard;
use crate::mpir::{self, PartProcesses};
use crate::numbers::index;
use crate::report;
use pmi_core::ids::JobId;
use pmi_core::wire::pmix::WILDCARD;
use std::rc::Rc;

impl Spawning<'_> {
    /// Number of processes of a job of daemons of a debugger, if it follows from the processes that they
    /// control.
    pub(super) fn daemon_count(&self, directives: &JobDirectives) -> Option<u32> {
        let (nspace, ranks) = directives.target.as_ref().filter(|_| directives.are_daemons)?;
        let mut jobs = self.jobs.iter();
        let (_, job) = jobs.find(|(_, job)| job.plan.kvsname == *nspace)?;
        let targets = match ranks {
            RankChoice::All => job.plan.local(),
            RankChoice::One(_) => 1,
        };
        // All of them are on this host.
        match (directives.per_process, directives.per_node) {
            (Some(count), _) => count.checked_mul(targets),
            (None, count) => count,
        }
    }
}

/// Handles a process that waits for a debugger. Tools are notified when all ranks wait that were told to.
pub(super) fn note_stopped(run: &mut EventLoop, job: JobId, rank: u32) {
    let Some(state) = run.jobs.get_mut(job) else { return };
    state.stopped.insert(rank);
    let JobDirectives { stop_in_init, stop_in_app, .. } = &state.plan.pairs.directives;
    let awaited = match (stop_in_init, stop_in_app) {
        (Some(RankChoice::All), _) | (_, Some(RankChoice::All)) => state.plan.local(),
        // A rank that stops by itself is reported at once.
        _ => 1,
    };
    if state.stopped.len() >= index(awaited) {
        let all = state.stopped.len() == index(state.plan.local());
        let rank = if all { WILDCARD } else { rank };
        run.service.pmix_notifier().notify_ready_for_debug((job, rank), None);
    }
}

/// Terminates daemons of debuggers once no other process runs.
pub(super) fn dismiss_daemons(run: &mut EventLoop) {
    // Few runs have any, and this is called at the end of each process.
    if !run.jobs.iter().any(|(_, job)| job.plan.pairs.directives.are_daemons) {
        return;
    }
    let running = run.processes.iter().enumerate().filter(|(_, entry)| entry.process.is_some());
    let is_daemon =
        |job: JobId| run.jobs.get(job).is_some_and(|job| job.plan.pairs.directives.are_daemons);
    let mut daemons: Vec<u32> = Vec::new();
    for (number, entry) in running {
        if !is_daemon(entry.job) {
            return;
        }
        daemons.extend(u32::try_from(number));
    }
    if !run.starts_more() {
        run.processes.act_on(daemons.into_iter(), ControlAction::Terminate);
    }
}

/// Opens the debuggers of ranks that start in one, and tells the user where they are.
fn open_gdb(run: &mut EventLoop) {
    let first = run.jobs.first();
    let Some(plan) = run.jobs.plan(first).map(Rc::clone) else { return };
    if plan.pairs.directives.gdb.is_none() {
        return;
    }
    let ranks = plan.placement.ranks.iter().filter(|rank| plan.pairs.directives.has_gdb(*rank));
    let held = ranks.filter_map(|rank| Some(HeldRank { rank, pid: run.pid(first, rank)? }));
    let held: Vec<HeldRank> = held.collect();
    let mark = run.processes.launcher.guard.as_ref().map(Guard::mark);
    match GdbPanes::open(&held, mark) {
        Ok(panes) => {
            run.io.report(report::in_gdb(&plan, &held, &panes.hint()));
            run.status.set_gdb(panes);
        }
        Err(why) => {
            run.io.report(why);
            held.iter().for_each(|one| run.io.report(report::awaits_gdb(&plan, *one)));
        }
    }
}

/// Publishes the processes of the first job when the last of them was started, and lets a debugger attach to
/// them. Jobs that ranks spawn are not in the table.
pub(super) fn publish(run: &mut EventLoop) {
    // The agent of a node is not the launcher that a debugger starts.
    let first = run.jobs.first();
    let Some(job) = run.jobs.get(first).filter(|_| run.uplink.is_none()) else { return };
    if mpir::is_published() || job.started_count < job.plan.local() {
        return;
    }
    let mut parts: Vec<PartProcesses> = Vec::new();
    let mut last = None;
    for rank in job.started_ranks() {
        let Some(pid) = run.pid(first, rank) else { continue };
        let part = job.plan.appnum(rank);
        if last != Some(part) {
            let program = job.plan.program_name(rank);
            parts.push(PartProcesses { program, pids: Vec::new() });
            last = Some(part);
        }
        parts.iter_mut().last().into_iter().for_each(|part| part.pids.push(pid));
    }
    mpir::publish(&job.plan.host, &parts);
    open_gdb(run);
}
