//! Pages: those that are ranks, and those that watch the run.

use super::EventLoop;
use super::listeners::ListenerEvent;
use crate::report;
use crate::web::{Rejected, Visit, Web};
use std::io;

/// Accepts connections of pages, as far as they are admitted.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn accept(run: &mut EventLoop) -> io::Result<()> {
    for Rejected { from, socket, why } in run.listeners.accept_pages(&run.poller)? {
        run.io.report_rejected(from, socket, &why);
    }
    Ok(())
}

/// Continues the connection of the page with this number.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn serve(run: &mut EventLoop, number: u32) -> io::Result<()> {
    match run.listeners.serve_page(number, &run.poller)? {
        None => Ok(()),
        Some(Visit::Watches(number)) => match &mut run.uplink {
            Some(uplink) => {
                uplink.observe(number);
                Ok(())
            }
            None => {
                run.service.tracer.keep_unsent(true);
                let so_far = run.service.tracer.recent();
                show(run, number, &so_far)
            }
        },
        Some(Visit::Refused(rejected)) => {
            run.handle_connection(ListenerEvent::Rejected(rejected, None))
        }
        Some(Visit::Rank(link, from)) => {
            let event = run.listeners.page_peer(link, from)?;
            run.handle_connection(event)?;
            // The page may have sent data behind its opening message, which causes no further event.
            serve(run, number)
        }
    }
}

/// Sends a page the trace so far.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn show(run: &mut EventLoop, page: u32, so_far: &[u8]) -> io::Result<()> {
    let web = run.listeners.web.as_mut();
    web.map_or(Ok(()), |web| web.show(page, so_far, &run.poller))
}

/// Sends pages the records since the last turn.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn feed(run: &mut EventLoop) -> io::Result<()> {
    let is_watched = match &run.listeners.web {
        Some(web) => web.is_watched(),
        None => return Ok(()),
    };
    if let Some(uplink) = &mut run.uplink {
        // The head sends the records of all nodes.
        uplink.note_observers(is_watched);
        return Ok(());
    }
    while let Some(records) = run.service.tracer.take_unsent() {
        feed_records(run, &records)?;
    }
    if !is_watched {
        run.service.tracer.keep_unsent(false);
    }
    Ok(())
}

/// Sends pages these records.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn feed_records(run: &mut EventLoop, records: &[u8]) -> io::Result<()> {
    let Some(web) = &mut run.listeners.web else { return Ok(()) };
    for from in web.feed(records, &run.poller)? {
        run.io.report(report::observer_disconnected(from));
    }
    Ok(())
}

/// Sends pages the last records, and closes their connections.
pub(super) fn dismiss(run: &mut EventLoop) {
    // The exit code is decided, so an error of a page connection has no effect.
    let _ = feed(run);
    if let Some(web) = &mut run.listeners.web {
        Web::finish(web, &mut run.poller);
    }
}
