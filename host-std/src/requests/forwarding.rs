//! Output of ranks for PMIx tools, and input of tools for ranks.

use crate::io::Io;
use crate::operation::PushResult;
use crate::report;
use crate::server::service::Service;
use crate::stdio::forward::OutputSource;
use pmi_core::wire::pmix::names::Status;
use pmi_host_os::clock;
use std::rc::Rc;

/// Sends tools the output that they have requested of processes that `source` describes, as far as they take
/// it. Returns true if responses are due.
pub(crate) fn send(
    (io, service): (&mut Io, &mut Service),
    source: impl Fn(u32) -> Option<OutputSource>,
) -> bool {
    take_output((io, service), source);
    let forwarder = &mut io.forwarder;
    let has_sent = forwarder
        .send(clock::now(), |session, output| service.pmix_calls().send_output(session, output));
    while let Some((session, bytes)) = io.forwarder.take_dropped() {
        if let Some(name) = service.pmix_calls().tool_name(session) {
            io.report(report::output_dropped(&name, bytes));
        }
    }
    has_sent
}

/// Hands output of ranks over to the requests for it: what comes before a request belongs to earlier ones.
pub(crate) fn take_output(
    (io, service): (&mut Io, &mut Service),
    source: impl Fn(u32) -> Option<OutputSource>,
) {
    // A number of a closed session may be that of a new one.
    for session in service.pmix_calls().take_closed_tools() {
        io.forwarder.remove_session(session);
    }
    let now = clock::now();
    for (process, stream, bytes) in io.outputs.take_tapped() {
        if let Some(source) = source(process) {
            io.forwarder.receive(&Rc::new(source), stream, &bytes, now);
        }
    }
}

/// The result of a push: the end of input is no news for ranks that read none.
pub(crate) fn without_input(result: PushResult, input: &[u8]) -> PushResult {
    match result {
        PushResult::NoReader if input.is_empty() => PushResult::Taken,
        result => result,
    }
}

/// Status of the answer to a push.
pub(crate) const fn status(result: PushResult) -> Status {
    match result {
        PushResult::Taken => Status::SUCCESS,
        PushResult::NoReader => Status::NOT_SUPPORTED,
        PushResult::Full => Status::OUT_OF_RESOURCE,
        PushResult::Failed => Status::ERROR,
    }
}
