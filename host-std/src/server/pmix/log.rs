//! Log requests of PMIx clients.
//!
//! | key | destination |
//! |---|---|
//! | `pmix.log.stdout`, `pmix.log.stderr` | behind the output that the rank itself has written there, as a line of its own; of a tool, to the stream of the launcher, without a label |
//! | `pmix.log.syslog`, `pmix.log.lsys` | the system log of the host, with the severity `pmix.log.syspri`, else that of an error |
//! | anything else: the log of another host, mail, a store of all jobs | none: a launcher has none of these |

use super::syslog;
use pmi_core::wire::pmix::names::{Status, flags, keys};
use pmi_core::wire::pmix::{Info, List};
use pmi_host_os::stream::Stream;

/// Destination of a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogChannel {
    /// Output of the rank.
    Stream(Stream),
    /// System log of this host.
    System,
}

/// Log request of a rank or a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogRequest {
    /// Texts, in their order.
    pub(crate) texts: Vec<(LogChannel, Vec<u8>)>,
    /// Severity in the system log, from 0 to 7.
    pub(crate) severity: u8,
    /// True if the request has data that cannot be logged.
    pub(crate) is_partial: bool,
}

impl LogRequest {
    /// Reads the data and directives of a log request.
    ///
    /// # Errors
    ///
    /// The status of a request none of which can be executed.
    pub(super) fn read(data: &List<'_>, directives: &List<'_>) -> Result<Self, Status> {
        let is_strange =
            |info: &Info<'_>| info.flags & flags::REQUIRED != 0 && !HEEDED.contains(&info.key);
        if directives.infos().any(|info| is_strange(&info)) {
            return Err(Status::NOT_SUPPORTED);
        }
        let mut entry = Self { severity: syslog::ERROR, ..Self::default() };
        let severity = directives.find(keys::LOG_SYSLOG_PRI);
        if let Some(severity) = severity.or_else(|| data.find(keys::LOG_SYSLOG_PRI)) {
            let severity = severity.number().and_then(|number| u8::try_from(number).ok());
            entry.severity = severity.filter(|number| *number < 8).ok_or(Status::BAD_PARAM)?;
        }
        for info in data.infos() {
            let channel = match info.key {
                keys::LOG_STDOUT => LogChannel::Stream(Stream::Out),
                keys::LOG_STDERR => LogChannel::Stream(Stream::Err),
                keys::LOG_SYSLOG | keys::LOG_LOCAL_SYSLOG => LogChannel::System,
                key => {
                    // Some libraries put directives among the data.
                    entry.is_partial |= !HEEDED.contains(&key);
                    continue;
                }
            };
            match info.value.text() {
                Some(text) => entry.texts.push((channel, text.to_vec())),
                None => return Err(Status::BAD_PARAM),
            }
        }
        if directives.is_set(keys::LOG_ONCE) && !entry.texts.is_empty() {
            entry.texts.truncate(1);
            entry.is_partial = false;
        }
        match entry.texts.is_empty() {
            true => Err(Status::NOT_SUPPORTED),
            false => Ok(entry),
        }
    }

    /// Status of the request, if all of its supported data was written.
    pub(crate) const fn status(&self) -> Status {
        match self.is_partial {
            true => Status::PARTIAL_SUCCESS,
            false => Status::SUCCESS,
        }
    }
}

/// Directives that need no action: a line is written at once, and its writer is known.
const HEEDED: &[&[u8]] = &[
    keys::LOG_ONCE,
    keys::LOG_SOURCE,
    keys::LOG_TIMESTAMP,
    keys::LOG_GENERATE_TIMESTAMP,
    keys::LOG_SYSLOG_PRI,
];
