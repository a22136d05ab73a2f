//! Log entries of PMIx clients.

use crate::server::pmix::log::{LogChannel, LogRequest};
use crate::server::pmix::syslog;
use pmi_core::wire::pmix::names::Status;
use pmi_host_os::stream::Stream;
use std::path::Path;

/// Writes a log entry of process `pid`, which is 0 for a tool; `write` takes the texts for streams, and
/// returns false without room.
pub(crate) fn write_log(
    entry: &LogRequest,
    pid: i32,
    mut write: impl FnMut(Stream, &[u8]) -> bool,
) -> Status {
    let mut is_partial = false;
    for (channel, text) in &entry.texts {
        match *channel {
            LogChannel::Stream(stream) if write(stream, text) => {}
            LogChannel::Stream(_) => return Status::OUT_OF_RESOURCE,
            LogChannel::System => {
                match syslog::write(Path::new(syslog::SOCKET), (entry.severity, pid), text) {
                    Ok(()) => {}
                    // Without a log, another channel of the request may do.
                    Err(_) if entry.texts.len() > 1 => is_partial = true,
                    Err(_) => return Status::NOT_SUPPORTED,
                }
            }
        }
    }
    if is_partial { Status::PARTIAL_SUCCESS } else { entry.status() }
}
