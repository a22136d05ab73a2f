//! Log requests of PMIx clients.
//!
//! | key | destination |
//! |---|---|
//! | `pmix.log.stdout`, `pmix.log.stderr` | behind the output that the rank itself has written there, as a line of its own |
//! | anything else: system logs, mail, a store of all jobs | none: a launcher has none of these |

use crate::stream::Stream;
use pmi_core::wire::pmix::names::{Status, flags, keys};
use pmi_core::wire::pmix::{Info, List};

/// Log request of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogRequest {
    /// Texts, in their order.
    pub(crate) texts: Vec<(Stream, Vec<u8>)>,
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
        let mut entry = Self::default();
        for info in data.infos() {
            let stream = match info.key {
                keys::LOG_STDOUT => Stream::Out,
                keys::LOG_STDERR => Stream::Err,
                key => {
                    // Some libraries put directives among the data.
                    entry.is_partial |= !HEEDED.contains(&key);
                    continue;
                }
            };
            match info.value.text() {
                Some(text) => entry.texts.push((stream, text.to_vec())),
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
const HEEDED: &[&[u8]] =
    &[keys::LOG_ONCE, keys::LOG_SOURCE, keys::LOG_TIMESTAMP, keys::LOG_GENERATE_TIMESTAMP];
