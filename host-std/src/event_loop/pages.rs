//! Pages: those that are ranks, and those that watch the run.

use super::EventLoop;
use super::listeners::ListenerEvent;
use crate::report;
use crate::web::{Visit, Web};
use std::io;

/// Continues the connection of the page with this number.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn serve(run: &mut EventLoop, number: u32) -> io::Result<()> {
    match run.listeners.serve_page(number, &run.poller)? {
        None => Ok(()),
        Some(Visit::Watches(number)) => {
            run.service.tracer.keep_unsent(true);
            let so_far = run.service.tracer.recent();
            let web = run.listeners.web.as_mut();
            web.map_or(Ok(()), |web| web.show(number, &so_far, &run.poller))
        }
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

/// Sends pages the records since the last turn.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn feed(run: &mut EventLoop) -> io::Result<()> {
    let Some(web) = &mut run.listeners.web else { return Ok(()) };
    while let Some(records) = run.service.tracer.take_unsent() {
        for from in web.feed(&records, &run.poller)? {
            run.io.report(report::observer_disconnected(from));
        }
    }
    if !web.is_watched() {
        run.service.tracer.keep_unsent(false);
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
