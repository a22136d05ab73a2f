//! Turns in which only messages of ranks arrive.

use super::Node;
use pmi_core::ids::SessionId;
use pmi_host_os::poller::Token;
use std::io;
use std::time::Instant;

/// Serves ranks, turn by turn, as long as only their messages arrive and cause nothing but responses.
/// `ready` holds what the last wait found, and in the end what is left to handle.
///
/// Nothing else is due in such turns, so they are without the steps for it: no deadline of the launcher
/// changes, no output has arrived, no record has a reader, and the node server has nothing to send to
/// others.
pub(super) fn serve(
    node: &mut Node,
    until: Option<Instant>,
    ready: &mut Vec<Token>,
) -> io::Result<()> {
    // Between two starts there is one turn.
    let has_other_work = node.jobs.has_starts()
        || node.uplink.follows_messages()
        || node.service.may_time_out()
        || node.service.tracer.has_readers();
    while !has_other_work && node.status.expects_messages() && has_only_messages(ready) {
        for token in ready.drain(..) {
            if let Token::Link(session) = token {
                node.service.ready(session, &node.poller)?;
            }
        }
        node.service.flush(&node.poller)?;
        if node.handle_server_events() {
            return Ok(());
        }
        if let Some(put) = node.service.take_refused_put() {
            node.io.report(put);
            return Ok(());
        }
        node.poller.wait(until, ready)?;
    }
    Ok(())
}

/// True if ranks that speak PMI-1 or PMI-2 have sent something, and nothing else has happened.
fn has_only_messages(ready: &[Token]) -> bool {
    let is_message = |token: &Token| match token {
        Token::Link(session) => !SessionId(*session).is_pmix(),
        _ => false,
    };
    !ready.is_empty() && ready.iter().all(is_message)
}
