//! Required directives: requests with an unsupported `PMIX_INFO_REQD` key fail with
//! `NOT_SUPPORTED`.
//!
//! Directives of requests that the owner answers are left to the owner; those of events and groups
//! are checked by their handlers.

use crate::wire::pmix::names::{flags, keys};
use crate::wire::pmix::{List, Request};

/// True if a request requires a directive that the server does not support.
pub(super) fn has_unsupported_directive(request: &Request<'_>) -> bool {
    let (infos, heeded) = match request {
        Request::Fence(with) => (&with.infos, FENCE),
        Request::Connect(with) | Request::Disconnect(with) => (&with.infos, CONNECT),
        Request::Get(target) => (&target.infos, GET),
        Request::Lookup(target) | Request::Unpublish(target) => (&target.infos, NAMES),
        Request::Monitor { infos, .. } => (infos, MONITOR),
        _ => return false,
    };
    // The server knows no collective algorithm by name, so a request that requires one of several
    // is rejected.
    let wants_algorithm =
        infos.is_set(keys::ALGORITHM_REQUIRED) && infos.find(keys::ALGORITHM).is_some();
    wants_algorithm || has_unknown_required(infos, heeded)
}

/// True if a required directive is not among `heeded`.
fn has_unknown_required(infos: &List<'_>, heeded: &[&[u8]]) -> bool {
    let must = |flags: u32| flags & flags::REQUIRED != 0 && flags & flags::QUALIFIER == 0;
    infos.infos().any(|info| must(info.flags) && !heeded.contains(&info.key))
}

const FENCE: &[&[u8]] = &[keys::COLLECT, keys::TIMEOUT, keys::ALGORITHM, keys::ALGORITHM_REQUIRED];

const CONNECT: &[&[u8]] = &[keys::TIMEOUT, keys::ALGORITHM, keys::ALGORITHM_REQUIRED];

const GET: &[&[u8]] = &[
    keys::IMMEDIATE,
    keys::OPTIONAL,
    keys::TIMEOUT,
    keys::SCOPE,
    keys::GET_REFRESH,
    keys::NODE_INFO,
    keys::APP_INFO,
    keys::SESSION_INFO,
    keys::JOB_INFO,
    keys::HOSTNAME,
    keys::NODEID,
    keys::APPNUM,
    keys::SESSION_ID,
    // Form of the value in the client, and hints on its next gets.
    keys::GET_STATIC,
    keys::GET_POINTER,
    keys::COLLECT,
];

const NAMES: &[&[u8]] = &[keys::RANGE, keys::PERSIST, keys::TIMEOUT, keys::WAIT];

const MONITOR: &[&[u8]] = &[
    keys::MONITOR_ID,
    keys::MONITOR_CANCEL,
    keys::MONITOR_HEARTBEAT_TIME,
    keys::MONITOR_HEARTBEAT_DROPS,
];
