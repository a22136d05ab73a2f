//! What PMIx clients ask of the launcher, read where it lies.

use crate::launch::cleanup::Cleanup;
use crate::server::service::Service;
use pmi_core::ids::{JobId, Rank};
use pmi_core::server::pmix::ConnectionId;
use pmi_core::wire::pmix::names::{Status, flags, keys};
use pmi_core::wire::pmix::{Info, List, Request, WILDCARD};
use std::ffi::CString;

/// A request that only the launcher can fulfil. It owns its words, so the message it came in can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Something goes when a rank has ended; when all have, if there is none.
    Cleanup(JobId, Option<u32>, Cleanup),
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
