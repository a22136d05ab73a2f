//! Aborts of ranks of themselves alone. Spec: PMI-2 wire protocol, PMI_Abort, `isworld=false`.

use super::Node;
use crate::launch::cleanup::control_action::ControlAction;
use crate::verdict::Failure;
use pmi_core::ids::JobId;

/// Ends the process of a rank that has aborted itself alone. Its end is judged as that abort; a rank
/// without a process here has ended with its message.
pub(super) fn handle(node: &mut Node, job: JobId, failure: Failure) {
    let Failure::Abort { rank, .. } = failure else { return };
    let number = node.jobs.process_of(job, rank);
    match number.filter(|number| node.processes.running(*number).is_some()) {
        Some(number) => {
            node.processes.note_abort((job, rank), failure);
            node.processes.act_on(std::iter::once(number), ControlAction::Terminate);
        }
        None if node.tolerate(job, rank, &failure) => {}
        None => node.fail(job, failure),
    }
}
