//! Debuggers that find ranks through the variables of the launcher.

use super::{EventLoop, agent};
use crate::launch::cleanup::control_action::ControlAction;
use crate::launch::cleanup::guard::Guard;
use crate::launch::plan::directives::{JobDirectives, RankChoice};
use crate::launch::start::gdb::{GdbPanes, HeldRank};
use crate::mpir::{self, PartProcesses};
use crate::numbers::index;
use crate::operation::{OperationRequest, StopMessage};
use crate::report;
use pmi_core::ids::JobId;
use pmi_core::wire::pmix::WILDCARD;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Ranks of a job that wait for a debugger at the same place.
#[derive(Debug, Default)]
pub(super) struct StoppedRanks(BTreeSet<u32>);

impl StoppedRanks {
    /// Adds a rank of a job with this number of ranks. Returns the rank to report once all wait that were
    /// told to, [`WILDCARD`] for all; the next one waits at another place.
    pub(super) fn add(
        &mut self,
        directives: &JobDirectives,
        rank: u32,
        rank_count: u32,
    ) -> Option<u32> {
        self.0.insert(rank);
        let JobDirectives { stop_in_init, stop_in_app, .. } = directives;
        let awaits_all = [stop_in_init, stop_in_app].contains(&&Some(RankChoice::All));
        let has_all = self.0.len() >= index(rank_count);
        // A rank that stops by itself is reported at once.
        if awaits_all && !has_all {
            return None;
        }
        self.0.clear();
        Some(if has_all { WILDCARD } else { rank })
    }
}

/// Handles a process that waits for a debugger. Tools are notified when all ranks wait that were told to.
pub(super) fn note_stopped(run: &mut EventLoop, (job, rank): (JobId, u32), breakpoint: String) {
    if run.uplink.is_some() {
        let message = StopMessage { job: job.0, rank, breakpoint };
        return agent::send_operation(run, Ok(OperationRequest::Stopped(message)));
    }
    let Some(state) = run.jobs.get_mut(job) else { return };
    let directives = &state.plan.pairs.directives;
    if let Some(rank) = state.stopped.add(directives, rank, state.plan.local()) {
        run.service.pmix_notifier().notify_ready_for_debug((job, rank), &breakpoint);
    }
}

/// Terminates daemons of debuggers once no other process runs.
pub(super) fn dismiss_daemons(run: &mut EventLoop) {
    // Few runs have any, and this is called at the end of each process. The head knows those of all nodes.
    if run.uplink.is_some()
        || !run.jobs.iter().any(|(_, job)| job.plan.pairs.directives.are_daemons)
    {
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
