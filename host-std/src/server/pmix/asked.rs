//! What PMIx clients ask of the launcher, read where it lies.

use crate::launch::cleanup::Cleanup;
use crate::launch::order::Order;
use crate::server::service::Service;
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::server::pmix::ConnectionId;
use pmi_core::wire::pmix::names::{Status, flags, keys};
use pmi_core::wire::pmix::{Info, List, Request, Type, WILDCARD};
use std::ffi::CString;

/// A request that only the launcher can fulfil. It owns its words, so the message it came in can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Something goes when a rank has ended; when all have, if there is none.
    Cleanup(JobId, Option<u32>, Cleanup),
    /// New processes.
    Spawn(JobId, u32, Order),
    /// What nobody here can do.
    Unknown,
}

impl Service {
    /// Reads what a client asks of the launcher, and lets it go on with other requests.
    pub fn pmix_wish(&mut self, connection: ConnectionId) -> Wish {
        let peer = self.desk.pmix.peer(connection);
        let wish = match (self.desk.pmix.request(connection), peer) {
            (Some(Request::JobControl { targets, infos }), Some(peer)) => {
                self.job_control(peer, &targets, &infos)
            }
            (Some(Request::Spawn { infos, apps }), Some((job, Rank(rank)))) => {
                let order = Order::of_apps(&infos, &apps);
                order.map_or(Wish::Unknown, |order| Wish::Spawn(job, rank, order))
            }
            _ => Wish::Unknown,
        };
        self.desk.pmix.request_read(connection);
        wish
    }

    /// Answers a client with a status.
    pub fn answer_pmix(&mut self, (connection, pending): (ConnectionId, usize), status: Status) {
        // It may have hung up meanwhile.
        let _ = self.desk.pmix.answer(connection, pending, status, |_| {});
    }

    /// Answers a spawn: the new job, or why there is none.
    pub(in crate::server) fn answer_pmix_spawn(
        &mut self,
        (connection, pending): (ConnectionId, usize),
        made: Result<JobId, Code>,
    ) {
        let name = made.ok().and_then(|job| Some(self.server.job(job)?.name().clone()));
        let status = match made {
            Ok(_) => Status::SUCCESS,
            Err(Code::NOMEM) => Status::JOB_INSUFFICIENT_RESOURCES,
            Err(Code::INVALID_ARG) => Status::JOB_EXE_NOT_FOUND,
            Err(_) => Status::JOB_FAILED_TO_LAUNCH,
        };
        let name = name.as_ref().map(KvsName::as_bytes);
        // It may have hung up meanwhile.
        let _ = self.desk.pmix.answer(connection, pending, status, |to| {
            to.one(Type::STRING).text(name);
        });
    }

    fn job_control(
        &self,
        (job, rank): (JobId, Rank),
        targets: &List<'_>,
        infos: &List<'_>,
    ) -> Wish {
        let mut cleanup = Cleanup::default();
        for info in infos.infos() {
            if !take(&mut cleanup, &info) && info.flags & flags::REQUIRED != 0 {
                return Wish::Unknown;
            }
        }
        if cleanup.is_empty() {
            return Wish::Unknown;
        }
        // Nearly always it is for the rank itself.
        let own = self.server.job(job).map(|job| job.name().as_bytes());
        let target = targets.procs().next();
        let is_own = target.is_some_and(|target| Some(target.nspace) == own);
        match target.map(|target| target.rank) {
            Some(rank) if is_own && rank != WILDCARD => Wish::Cleanup(job, Some(rank), cleanup),
            None | Some(WILDCARD) => Wish::Cleanup(job, None, cleanup),
            Some(_) => Wish::Cleanup(job, Some(rank.0), cleanup),
        }
    }
}

/// Takes up one directive, and says whether it is one of these.
fn take(cleanup: &mut Cleanup, info: &Info<'_>) -> bool {
    let Info { key, value, .. } = info;
    let list = || value.text().map(paths).unwrap_or_default();
    match *key {
        keys::REGISTER_CLEANUP => cleanup.files.extend(list()),
        keys::REGISTER_CLEANUP_DIR => cleanup.folders.extend(list()),
        keys::CLEANUP_IGNORE => cleanup.kept.extend(list()),
        keys::CLEANUP_RECURSIVE => cleanup.is_recursive = value.is_true(),
        keys::CLEANUP_EMPTY => cleanup.only_empty = value.is_true(),
        keys::CLEANUP_LEAVE_TOPDIR => cleanup.leaves_top = value.is_true(),
        _ => return false,
    }
    true
}

/// A comma list of paths.
fn paths(list: &[u8]) -> Vec<CString> {
    let paths = list.split(|byte| *byte == b',').filter(|path| !path.is_empty());
    paths.filter_map(|path| CString::new(path).ok()).collect()
}
