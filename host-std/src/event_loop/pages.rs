//! Pages that are ranks of the first job, or watch the run.

use super::EventLoop;
use crate::admission::secret;
use crate::report;
use crate::server::dial_in_peer::DialInPeer;
use crate::web::{Rejected, Visit, Web};
use std::io;
use std::time::Instant;

impl EventLoop {
    /// Accepts connections of pages, as far as they are admitted.
    pub(super) fn accept_pages(&mut self) -> io::Result<()> {
        let (Some(web), Some(listen)) = (&mut self.web, &self.web_listen) else { return Ok(()) };
        let rejected =
            web.accept_clients(|| secret::challenge(listen.secret.as_ref()), &self.poller)?;
        for Rejected { from, socket, why } in rejected {
            self.say_refused(from, socket, &why);
        }
        Ok(())
    }

    /// Continues the connection of the page with this number.
    pub(super) fn handle_page(&mut self, number: u32) -> io::Result<()> {
        let Some(web) = &mut self.web else { return Ok(()) };
        match web.ready(number, &self.poller)? {
            None => {}
            Some(Visit::Watches(number)) => {
                self.service.tracer.keep_for_watchers(true);
                let so_far = self.service.tracer.recent();
                web.show(number, &so_far, &self.poller)?;
            }
            Some(Visit::Refused(Rejected { from, socket, why })) => {
                self.say_refused(from, socket, &why);
            }
            Some(Visit::Rank(stream, from)) => {
                // A rejected page finds its end of the pair closed.
                match &self.dial_in {
                    Some(dial_in) => {
                        let challenge = secret::challenge(dial_in.listen.secret.as_ref())?;
                        let peer = DialInPeer { link: stream, from, challenge, certificate: None };
                        self.service.add_peer(self.first, peer, &self.poller)?;
                    }
                    None => self.say_refused(from, None, NO_RANKS),
                }
                // The page may have sent data behind its opening message, which causes no further event.
                return self.handle_page(number);
            }
        }
        Ok(())
    }

    /// Sends pages the records since the last turn.
    pub(super) fn feed_pages(&mut self) -> io::Result<()> {
        let Some(web) = &mut self.web else { return Ok(()) };
        if let Some(records) = self.service.tracer.take_for_watchers() {
            for from in web.feed(&records, &self.poller)? {
                self.outputs.say(report::observer_disconnected(from));
            }
        }
        if !web.is_watched() {
            self.service.tracer.keep_for_watchers(false);
        }
        Ok(())
    }

    /// Handles the deadlines of page connections.
    pub(super) fn check_pages(&mut self, now: Instant) -> io::Result<()> {
        match &mut self.web {
            Some(web) => web.tick(now, &self.poller),
            None => Ok(()),
        }
    }

    /// Sends pages the last records, and closes their connections.
    pub(super) fn dismiss_pages(&mut self) {
        // The exit code is decided, so an error of a page connection has no effect.
        let _ = self.feed_pages();
        if let Some(web) = &mut self.web {
            Web::finish(web, &mut self.poller);
        }
    }
}

const NO_RANKS: &str =
    "wanted to be a rank from a page, but no rank is to dial in; '--expect N' says how many";
