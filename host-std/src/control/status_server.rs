//! Status requests of other processes, answered by the event loop between two turns.

use crate::control::socket::StatusSocket;
use crate::settings::Watching;
use crate::watch::table::Table;
use pmi_host_os::poller::Poller;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Status socket of a run, if there is one, from the time at which it is opened.
pub(crate) struct StatusServer {
    /// Time at which the socket is opened.
    open_at: Option<Instant>,
    socket: Option<StatusSocket>,
}

impl StatusServer {
    pub(crate) fn new(settings: &Watching, began: Instant) -> Self {
        Self { open_at: settings.control.then(|| began + OPEN_AFTER), socket: None }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.socket.as_ref().and_then(StatusSocket::deadline).or(self.open_at)
    }

    /// Opens the socket when it is due, and closes connections that take too long. The guard removes the
    /// socket if the launcher cannot do it.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        guard_file: impl FnOnce(&Path),
        poller: &Poller,
    ) -> io::Result<()> {
        if self.open_at.is_some_and(|at| now >= at) {
            self.open_at = None;
            // Without a directory for the socket the run is unaffected but cannot be queried; `ps` names
            // the directories it searched.
            self.socket = StatusSocket::open(poller).ok();
            if let Some(socket) = &self.socket {
                guard_file(socket.path());
            }
        }
        self.socket.as_mut().map_or(Ok(()), |socket| socket.tick(now, poller))
    }

    /// True if the last answer is too old for the clients that wait.
    pub(crate) fn wants_answer(&self, now: Instant) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.wants_answer(now))
    }

    /// Sets the answer to clients that are accepted from now on.
    pub(crate) fn set_answer(&mut self, now: Instant, table: &Table) {
        // All keys are field names, so serialization cannot fail.
        let mut answer = serde_json::to_vec(table).unwrap_or_default();
        answer.push(b'\n');
        if let Some(socket) = &mut self.socket {
            socket.set_answer(now, answer);
        }
    }

    /// Leaves clients in the backlog until there is an answer.
    pub(crate) fn defer(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        self.socket.as_mut().map_or(Ok(()), |socket| socket.defer(now, poller))
    }

    /// Accepts clients again after [`defer`](Self::defer).
    pub(crate) fn resume(&mut self, poller: &Poller) -> io::Result<()> {
        self.socket.as_mut().map_or(Ok(()), |socket| socket.resume(poller))
    }

    /// Accepts clients, and starts to answer.
    pub(crate) fn accept(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        self.socket.as_mut().map_or(Ok(()), |socket| socket.accept(now, poller))
    }

    /// Continues answering one client.
    pub(crate) fn serve(&mut self, number: u32, poller: &Poller) -> io::Result<()> {
        self.socket.as_mut().map_or(Ok(()), |socket| socket.ready(number, poller))
    }
}

/// Delay before the socket is opened: a shorter run creates no file.
const OPEN_AFTER: Duration = Duration::from_millis(100);
