//! Collectives of PMIx clients with processes of other runs.

use super::service::Service;
use crate::other_runs::{ConnectedMessage, JobPart};
use crate::server::pmix::heap::Shared;
use pmi_core::error::Misuse;
use pmi_core::server::RemoteError;
use pmi_core::server::pmix::{CollectiveEnd, ForeignJob, SharedBytes};
use pmi_core::wire::pmix::names::Status;

/// Lets PMIx clients take part in collectives with processes of other runs, if the head reaches them.
pub(crate) fn allow(service: &mut Service, is_possible: bool) {
    if is_possible {
        service.server.pmix().allow_foreign();
    }
}

/// Ends a collective with the parts of all runs. What another run has sent fails that collective alone.
///
/// # Errors
///
/// Those of the data of this run.
pub(super) fn end_connected(
    service: &mut Service,
    message: &ConnectedMessage,
) -> Result<(), RemoteError> {
    let ConnectedMessage { number, data, others } = message;
    if others.jobs.iter().try_for_each(|job| add(service, job)).is_err() {
        service.server.pmix().fail_remote_collective(*number, Status::OUT_OF_RESOURCE);
        return Ok(());
    }
    let end = CollectiveEnd { serial: 0, is_partial: others.is_partial, data };
    service.server.pmix().end_remote_collective(*number, &end)
}

fn add(service: &mut Service, job: &JobPart) -> Result<(), RemoteError> {
    let JobPart { nspace, size, info, data, .. } = job;
    let info = Shared::make(info.len(), |bytes| bytes.copy_from_slice(info));
    let info = info.ok_or(RemoteError::Misuse(Misuse::NoRoom { what: "description of a job" }))?;
    let job = ForeignJob { nspace, size: *size, info, data };
    service.server.pmix().add_foreign_job(job, Vec::new())
}
