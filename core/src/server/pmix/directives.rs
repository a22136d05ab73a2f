//! Directives that must be heeded: a request with one that nobody here knows is refused.
//!
//! Those of requests that the owner fulfils are its own affair, and so are those of events and of groups,
//! which are heeded where they are read.

use crate::wire::pmix::names::{flags, keys};
use crate::wire::pmix::{List, Request};

/// Whether a request demands what is not done here.
pub(super) fn has_unsupported_directive(request: &Request<'_>) -> bool {
    let (infos, heeded) = match request {
        Request::Fence(with) => (&with.infos, FENCE),
        Request::Connect(with) | Request::Disconnect(with) => (&with.infos, CONNECT),
        Request::Get(target) => (&target.infos, GET),
        Request::Lookup(target) | Request::Unpublish(target) => (&target.infos, NAMES),
        Request::Monitor { infos, .. } => (infos, MONITOR),
        _ => return false,
    };
    // No collective algorithm is known by name, so that whoever must have one of several gets none.
    let wants_algorithm =
        infos.is_set(keys::ALGORITHM_REQUIRED) && infos.find(keys::ALGORITHM).is_some();
    wants_algorithm || has_unknown_required(infos, heeded)
}

/// Whether there is a directive that must be heeded and is not among `heeded`.
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
    // How the client keeps the value, and hints on what it will want next.
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
