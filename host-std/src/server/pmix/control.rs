//! Job control requests of PMIx clients: cleanup of files, signals.
//!
//! | directive | action |
//! |---|---|
//! | `pmix.reg.cleanup`, `.cleanupdir` | registered; see [`pmi_host_os::cleanup::files`] |
//! | `pmix.jctrl.kill` | SIGKILL |
//! | `pmix.jctrl.term` | SIGTERM, and SIGKILL for those that still run a while later |
//! | `pmix.jctrl.sig` | this signal |
//! | `pmix.jctrl.pause`, `.resume` | SIGSTOP, SIGCONT |
//! | `pmix.jctrl.preempt`, `.ckptev`, `.ckptsig`, `.ckmethod` | accepted and ignored, unless required |
//!
//! A rank may control ranks of its own job, and jobs spawned from it, directly or not; a tool all.

use crate::launch::cleanup::control_action::ControlAction;
use crate::server::pmix::heap::PmixHeap;
use pmi_core::ids::{JobId, KvsName};
use pmi_core::server::Server;
use pmi_core::wire::pmix::names::{Status, flags, keys};
use pmi_core::wire::pmix::{Info, List, Proc, WILDCARD};
use pmi_host_base::storage::Heap;
use pmi_host_os::cleanup::files::Cleanup;
use rustix::process::Signal;
use std::ffi::CString;

/// A job control request with its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobControl {
    /// Targets: jobs, each with one rank or as a whole.
    pub(crate) targets: Vec<(JobId, Option<u32>)>,
    /// Files to remove when the targets have exited.
    pub(crate) cleanup: Option<Cleanup>,
    /// Actions to execute now, in this order.
    pub(crate) acts: Vec<ControlAction>,
}

/// Sender of a job control request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    /// A rank of this job.
    Rank(JobId),
    /// The tool with this job.
    Tool(JobId),
}

impl JobControl {
    /// Reads the request of `own` about `targets`.
    ///
    /// # Errors
    ///
    /// The status of a request that is rejected as a whole.
    pub(super) fn read(
        server: &Server<Heap<PmixHeap>>,
        own: Controller,
        targets: &List<'_>,
        infos: &List<'_>,
    ) -> Result<JobControl, Status> {
        let (mut cleanup, mut acts) = (Cleanup::default(), Vec::new());
        let mut has_hint = false;
        for info in infos.infos() {
            let is_taken = read_cleanup(&mut cleanup, &info) || read_action(&mut acts, &info)?;
            has_hint |= HINTS.contains(&info.key);
            if !is_taken && info.flags & flags::REQUIRED != 0 {
                return Err(Status::NOT_SUPPORTED);
            }
        }
        let cleanup = Some(cleanup).filter(|cleanup| !cleanup.is_empty());
        if cleanup.is_none() && acts.is_empty() && !has_hint {
            return Err(Status::NOT_SUPPORTED);
        }
        let named = targets.procs().map(|one| target(server, own, &one));
        let mut named = named.collect::<Result<Vec<_>, Status>>()?;
        if named.is_empty() && acts.is_empty() {
            named.push((own.job(), None));
        } else if named.is_empty() {
            // A request without targets means all that the requester may control.
            let all = server.jobs().filter(|job| own.controls(server, *job));
            named.extend(all.map(|job| (job, None)));
        }
        Ok(JobControl { targets: named, cleanup, acts })
    }
}

impl Controller {
    const fn job(self) -> JobId {
        match self {
            Self::Rank(job) | Self::Tool(job) => job,
        }
    }

    /// True for the jobs that it may control: a rank its own and those spawned from it, a tool, which
    /// belongs to the user of the launcher, all.
    fn controls(self, server: &Server<Heap<PmixHeap>>, job: JobId) -> bool {
        match self {
            Self::Rank(own) => descends_from(server, job, own),
            Self::Tool(_) => true,
        }
    }
}

/// Job of a target, with its rank unless the whole job is meant.
///
/// # Errors
///
/// The status for a target that does not exist or that the sender may not control.
pub(super) fn target(
    server: &Server<Heap<PmixHeap>>,
    own: Controller,
    target: &Proc<'_>,
) -> Result<(JobId, Option<u32>), Status> {
    let is_it =
        |id: &JobId| server.job(*id).is_some_and(|job| job.name().as_bytes() == target.nspace);
    let job = server.jobs().find(is_it).ok_or(Status::NOT_FOUND)?;
    let size = server.job(job).map_or(0, |job| job.size());
    match target.rank {
        _ if !own.controls(server, job) => Err(Status::NO_PERMISSIONS),
        WILDCARD => Ok((job, None)),
        rank if rank < size => Ok((job, Some(rank))),
        _ => Err(Status::NOT_FOUND),
    }
}

/// True if a job is `root`, or was spawned from it, directly or not.
fn descends_from(server: &Server<Heap<PmixHeap>>, job: JobId, root: JobId) -> bool {
    let mut next = Some(job);
    // A chain longer than the number of jobs is a cycle.
    for _ in 0..=server.jobs().count() {
        let Some(job) = next else { return false };
        if job == root {
            return true;
        }
        let spawner = server.job(job).and_then(|job| job.spawner()).map(KvsName::as_bytes);
        next = server.jobs().find(|other| {
            let name = server.job(*other).map(|job| job.name().as_bytes());
            spawner.is_some() && name == spawner
        });
    }
    false
}

/// Reads a directive about files; false if it is none.
fn read_cleanup(cleanup: &mut Cleanup, info: &Info<'_>) -> bool {
    let Info { key, value, .. } = info;
    let list = || value.text().map(paths).unwrap_or_default();
    match *key {
        keys::REGISTER_CLEANUP => cleanup.files.extend(list()),
        keys::REGISTER_CLEANUP_DIR => cleanup.directories.extend(list()),
        keys::CLEANUP_IGNORE => cleanup.kept.extend(list()),
        keys::CLEANUP_RECURSIVE => cleanup.is_recursive = value.is_true(),
        keys::CLEANUP_EMPTY => cleanup.only_empty = value.is_true(),
        keys::CLEANUP_LEAVE_TOPDIR => cleanup.leaves_top = value.is_true(),
        _ => return false,
    }
    true
}

/// Reads a directive about signals; false if it is none.
///
/// # Errors
///
/// The status for a signal that does not exist.
fn read_action(acts: &mut Vec<ControlAction>, info: &Info<'_>) -> Result<bool, Status> {
    let act = match info.key {
        keys::CONTROL_SIGNAL => {
            let number = info.value.number().and_then(|number| i32::try_from(number).ok());
            let signal = number.and_then(Signal::from_named_raw);
            acts.push(ControlAction::Signal(signal.ok_or(Status::BAD_PARAM)?));
            return Ok(true);
        }
        keys::CONTROL_KILL => ControlAction::Kill,
        keys::CONTROL_TERMINATE => ControlAction::Terminate,
        keys::CONTROL_PAUSE => ControlAction::Signal(Signal::STOP),
        keys::CONTROL_RESUME => ControlAction::Signal(Signal::CONT),
        // The identifier of a request serves only to cancel it, which is not supported.
        keys::CONTROL_ID => return Ok(true),
        _ => return Ok(false),
    };
    acts.extend(info.value.is_true().then_some(act));
    Ok(true)
}

/// Directives that describe the abilities of a job and demand nothing: jobs are never preempted or
/// checkpointed.
const HINTS: [&[u8]; 4] = [
    keys::CONTROL_PREEMPTIBLE,
    keys::CONTROL_CHECKPOINT_EVENT,
    keys::CONTROL_CHECKPOINT_SIGNAL,
    keys::CONTROL_CHECKPOINT_METHOD,
];

/// Paths of a comma-separated list.
fn paths(list: &[u8]) -> Vec<CString> {
    let paths = list.split(|byte| *byte == b',').filter(|path| !path.is_empty());
    paths.filter_map(|path| CString::new(path).ok()).collect()
}
