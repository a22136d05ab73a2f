//! Status requests of other processes, answered by the event loop between two turns.

use super::EventLoop;
use super::watching::Which;
use crate::control::socket::StatusSocket;
use crate::settings::Watching;
use std::io;
use std::time::{Duration, Instant};

/// Control socket on which status requests arrive, if there is one.
pub(super) struct Asking {
    /// Time at which the socket is opened.
    open_at: Option<Instant>,
    control: Option<StatusSocket>,
}

impl Asking {
    pub(super) fn new(settings: &Watching, began: Instant) -> Self {
        Self { open_at: settings.control.then(|| began + OPEN_AFTER), control: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.control.as_ref().and_then(StatusSocket::deadline).or(self.open_at)
    }
}

impl EventLoop {
    /// Opens the socket when it is due, and closes connections that take too long.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls.
    pub(super) fn check_status_clients(&mut self, now: Instant) -> io::Result<()> {
        let Asking { open_at, control } = &mut self.watch.asking;
        if open_at.is_some_and(|at| now >= at) {
            *open_at = None;
            // Without a directory for the socket the run is unaffected but cannot be queried; `ps` names
            // the directories it searched.
            *control = StatusSocket::open(&self.poller).ok();
            if let (Some(guard), Some(control)) = (&self.launcher.guard, control.as_ref()) {
                guard.report_file(control.path());
            }
        }
        control.as_mut().map_or(Ok(()), |control| control.tick(now, &self.poller))
    }

    /// Accepts status requests and prepares the answer.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls.
    pub(super) fn accept_status_clients(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.watch.asking.control.as_ref().is_some_and(|control| control.wants_answer(now)) {
            let table = self.table(Which::All);
            // All keys are field names, so serialization cannot fail.
            let mut answer = serde_json::to_vec(&table).unwrap_or_default();
            answer.push(b'\n');
            if let Some(control) = &mut self.watch.asking.control {
                control.set_answer(now, answer);
            }
        }
        let control = self.watch.asking.control.as_mut();
        control.map_or(Ok(()), |control| control.accept(now, &self.poller))
    }

    /// Continues answering one connection.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls.
    pub(super) fn handle_status_client(&mut self, number: u32) -> io::Result<()> {
        let control = self.watch.asking.control.as_mut();
        control.map_or(Ok(()), |control| control.ready(number, &self.poller))
    }
}

/// Delay before the socket is opened: a shorter run creates no file.
const OPEN_AFTER: Duration = Duration::from_millis(100);
