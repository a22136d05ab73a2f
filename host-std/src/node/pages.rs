//! Pages: those that are ranks, and those that watch the run.

use super::Node;
use crate::listeners::ListenerEvent;
use crate::report;
use crate::web::{Rejected, Visit, Web};
use std::io;

/// Accepts connections of pages, as far as they are admitted.
pub(super) fn accept(node: &mut Node) -> io::Result<()> {
    for Rejected { from, socket, why } in node.listeners.accept_pages(&node.poller)? {
        node.io.report_rejected(from, socket, &why);
    }
    Ok(())
}

/// Continues the connection of the page with this number.
pub(super) fn serve(node: &mut Node, number: u32) -> io::Result<()> {
    match node.listeners.serve_page(number, &node.poller)? {
        None => Ok(()),
        Some(Visit::Watches(number)) => {
            node.uplink.observe(number);
            Ok(())
        }
        Some(Visit::Refused(rejected)) => {
            node.handle_connection(ListenerEvent::Rejected(rejected, None))
        }
        Some(Visit::Rank(link, from)) => {
            let event = node.listeners.page_peer(link, from)?;
            node.handle_connection(event)?;
            // The page may have sent data behind its opening message, which causes no further event.
            serve(node, number)
        }
    }
}

/// Sends a page the trace so far.
pub(super) fn show(node: &mut Node, page: u32, so_far: &[u8]) -> io::Result<()> {
    let web = node.listeners.web.as_mut();
    web.map_or(Ok(()), |web| web.show(page, so_far, &node.poller))
}

/// Sends pages the records since the last turn.
pub(super) fn feed(node: &mut Node) -> io::Result<()> {
    let is_watched = match &node.listeners.web {
        Some(web) => web.is_watched(),
        None => return Ok(()),
    };
    node.uplink.note_observers(is_watched);
    Ok(())
}

/// Sends pages these records.
pub(super) fn feed_records(node: &mut Node, records: &[u8]) -> io::Result<()> {
    let Some(web) = &mut node.listeners.web else { return Ok(()) };
    for from in web.feed(records, &node.poller)? {
        node.io.report(report::observer_disconnected(from));
    }
    Ok(())
}

/// Sends pages the last records, and closes their connections.
pub(super) fn dismiss(node: &mut Node) {
    // The exit code is decided, so an error of a page connection has no effect.
    let _ = feed(node);
    if let Some(web) = &mut node.listeners.web {
        Web::finish(web, &mut node.poller);
    }
}
