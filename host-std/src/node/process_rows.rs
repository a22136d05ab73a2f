//! State of the processes of this node, for PMIx queries.

use super::processes::{ProcessEntry, Processes};
use crate::launch::start::process::ProcessEnd;
use crate::operation::ProcessRow;
use crate::requests::query::memory_bytes;
use crate::run_report::RankEnd;
use crate::server::service::Service;
use crate::verdict::PmiPhase;
use pmi_core::wire::pmix::names::proc_state;

/// Parts of a run that show the state of its processes.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) processes: &'a Processes,
    pub(super) service: &'a Service,
}

impl Observed<'_> {
    /// State of all processes of this launcher, in the order of their start.
    pub(super) fn rows(self, wants_memory: bool) -> Vec<ProcessRow> {
        let Observed { processes, service } = self;
        let row = |one: &ProcessEntry| {
            let end = one.end.map(|end| end_of(one, end));
            let memory = one.process.as_ref().filter(|_| wants_memory);
            ProcessRow {
                job: one.job.0,
                rank: one.rank,
                pid: one.pid,
                state: end.map_or_else(|| running(service.phase(one.job, one.rank)), |end| end.0),
                exit_code: end.and_then(|end| end.1),
                memory_bytes: memory.and_then(|_| memory_bytes(one.pid)),
            }
        };
        processes.iter().map(row).collect()
    }
}

/// State of a process that runs.
const fn running(phase: PmiPhase) -> u8 {
    match phase {
        PmiPhase::Open => proc_state::CONNECTED,
        PmiPhase::Silent | PmiPhase::Finalized => proc_state::RUNNING,
    }
}

/// State and exit code of a process that has ended.
fn end_of(process: &ProcessEntry, end: RankEnd) -> (u8, Option<u8>) {
    let RankEnd { ending, phase, .. } = end;
    let state = match ending {
        ProcessEnd::Unseen => return (proc_state::TERMINATED, None),
        _ if process.has_aborted => proc_state::CALLED_ABORT,
        ProcessEnd::Killed { .. } | ProcessEnd::OutOfMemory if process.is_ending => {
            proc_state::KILLED_BY_CMD
        }
        ProcessEnd::Killed { .. } | ProcessEnd::OutOfMemory => proc_state::ABORTED_BY_SIG,
        ProcessEnd::Exited(_) if phase == PmiPhase::Open => proc_state::TERM_WO_SYNC,
        ProcessEnd::Exited(0) => proc_state::TERMINATED,
        ProcessEnd::Exited(_) => proc_state::TERM_NON_ZERO,
    };
    (state, Some(ending.exit_code()))
}
