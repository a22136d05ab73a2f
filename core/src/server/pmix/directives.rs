//! Required directives: requests with an unsupported `PMIX_INFO_REQD` key fail with
//! `NOT_SUPPORTED`.
//!
//! Those of the destruction of a group, whose layout depends on the release, are checked with it.
//! Directives of requests that the owner answers are left to the owner. Of the attributes of an event those
//! that begin with `pmix.ev` are directives, and the others are for its handlers.

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
        Request::GroupConstruct { group, .. } => (&group.infos, GROUP),
        Request::GroupLeave { infos, .. } => (infos, &[][..]),
        Request::RegisterEvents { infos, .. } => {
            // The library heeds its own directives about handlers and tells the server.
            let is_known = |key: &[u8]| key.starts_with(EVENT) || key == keys::RANGE;
            return infos.infos().any(|info| is_required(info.flags) && !is_known(info.key));
        }
        Request::Notify { infos, .. } => {
            let is_unknown = |key: &[u8]| key.starts_with(EVENT) && !NOTIFY.contains(&key);
            return infos.infos().any(|info| is_required(info.flags) && is_unknown(info.key));
        }
        _ => return false,
    };
    // The server knows no collective algorithm by name, so a request that requires one of several
    // is rejected, as one whose list itself is required.
    let wants_algorithm =
        infos.is_set(keys::ALGORITHM_REQUIRED) && infos.find(keys::ALGORITHM).is_some();
    wants_algorithm || has_unknown_required(infos, heeded)
}

/// True if a required directive is not among `heeded`.
pub(super) fn has_unknown_required(infos: &List<'_>, heeded: &[&[u8]]) -> bool {
    infos.infos().any(|info| is_required(info.flags) && !heeded.contains(&info.key))
}

const fn is_required(flags: u32) -> bool {
    flags & flags::REQUIRED != 0 && flags & flags::QUALIFIER == 0
}

/// Begin of the keys of directives about events.
const EVENT: &[u8] = b"pmix.ev";

const NOTIFY: &[&[u8]] = &[
    keys::EVENT_AFFECTED_PROC,
    keys::EVENT_AFFECTED_PROCS,
    keys::EVENT_CUSTOM_RANGE,
    keys::EVENT_DO_NOT_CACHE,
    keys::EVENT_NON_DEFAULT,
    // Texts and times for the handlers.
    b"pmix.evtext",
    b"pmix.evtstamp",
    b"pmix.evproxy",
];

const GROUP: &[&[u8]] = &[
    keys::TIMEOUT,
    keys::GROUP_ASSIGN_CONTEXT_ID,
    keys::GROUP_INFO,
    keys::GROUP_BOOTSTRAP,
    keys::GROUP_ADD_MEMBERS,
    keys::GROUP_OPTIONAL,
    keys::GROUP_FT_COLLECTIVE,
    keys::GROUP_NOTIFY_TERMINATION,
    // Committed data of the requester.
    keys::PROC_DATA,
];

/// Without the list of algorithms: a hint, and refused where it is required.
const FENCE: &[&[u8]] = &[keys::COLLECT, keys::TIMEOUT, keys::ALGORITHM_REQUIRED];

/// As for [`FENCE`].
const CONNECT: &[&[u8]] = &[keys::TIMEOUT, keys::ALGORITHM_REQUIRED];

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
    keys::MONITOR_FILE_SIZE,
    keys::MONITOR_FILE_ACCESS,
    keys::MONITOR_FILE_MODIFY,
    keys::MONITOR_FILE_CHECK_TIME,
    keys::MONITOR_FILE_DROPS,
];
