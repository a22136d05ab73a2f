//! Pages that are ranks of the first job, or watch the run.

use super::Run;
use crate::admission::secret;
use crate::report;
use crate::web::{Rejected, Visit, Web};
use std::io;
use std::time::Instant;

impl Run {
    /// Accepts connections of pages, as far as they are admitted.
    pub(super) fn take_pages(&mut self) -> io::Result<()> {
        let (Some(web), Some(gate)) = (&mut self.web, &self.web_gate) else { return Ok(()) };
        let rejected =
            web.take_visitors(|| secret::challenge(gate.secret.as_ref()), &self.poller)?;
        for Rejected { from, socket, why } in rejected {
            self.say_refused(from, socket, &why);
        }
        Ok(())
    }

    /// Continues the connection of the page with this number.
    pub(super) fn take_page(&mut self, number: u32) -> io::Result<()> {
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
                match &self.door {
                    Some(door) => {
                        let challenge = secret::challenge(door.gate.secret.as_ref())?;
                        let caller = (stream, from);
                        self.service.add_caller(
                            self.first,
                            caller,
                            challenge,
                            None,
                            &self.poller,
                        )?;
                    }
                    None => self.say_refused(from, None, NO_RANKS),
                }
                // The page may have sent data behind its opening message, which causes no further event.
                return self.take_page(number);
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
    pub(super) fn look_at_pages(&mut self, now: Instant) -> io::Result<()> {
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
