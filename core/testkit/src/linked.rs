//! A test server behind links.

use std::thread;
use std::vec;
use std::vec::Vec;

use pmi_core::error::PeerError;
use pmi_core::ids::SessionId;
use pmi_core::server::{Event, Peer};
use pmi_link::{Link, PumpError, PumpState, flush, pump};

use crate::TestServer;
use crate::server::{Inbox, NOW};

/// A test server and the links of its sessions.
pub struct LinkedServer<L> {
    /// The server with its sessions.
    pub inner: TestServer,
    links: Vec<Option<ServedLink<L>>>,
    /// Errors of peers so far.
    pub faults: Vec<PeerError>,
    /// Events that no test has taken.
    pub events: Vec<Event>,
    scratch: Vec<u8>,
}

/// The server's end of a connection.
struct ServedLink<L> {
    session: SessionId,
    link: L,
    state: PumpState<Inbox>,
}

impl<L: Link> LinkedServer<L> {
    /// Makes a server without links.
    pub fn new(inner: TestServer) -> Self {
        let scratch = vec![0; SCRATCH_BYTES];
        Self { inner, links: Vec::new(), faults: Vec::new(), events: Vec::new(), scratch }
    }

    /// Opens a session for the peer behind `link`.
    pub fn connect(&mut self, peer: Peer, link: L) {
        let session = self.inner.open(peer);
        let state = PumpState::new(Inbox::new(), Inbox::new());
        self.links.push(Some(ServedLink { session, link, state }));
    }

    /// Serves each link once, and then the sessions that became ready; closes those that are finished. True
    /// if bytes moved or a link was closed.
    ///
    /// # Panics
    ///
    /// With an error that no peer can cause.
    pub fn serve_once(&mut self) -> bool {
        let mut has_moved = false;
        for at in 0..self.links.len() {
            has_moved |= self.serve(at, true);
        }
        while let Some(id) = self.inner.server.next_ready() {
            let is_ready =
                |link: &Option<ServedLink<L>>| link.as_ref().is_some_and(|link| link.session == id);
            let at = self.links.iter().position(is_ready);
            has_moved |= self.serve(at.expect("a ready session has a link"), false);
        }
        has_moved
    }

    /// Serves until every link is closed.
    pub fn serve_until_closed(&mut self) {
        while self.is_open() {
            if !self.serve_once() {
                thread::yield_now();
            }
        }
    }

    /// True if a link is open.
    pub fn is_open(&self) -> bool {
        self.links.iter().any(Option::is_some)
    }

    /// Takes a link that was not served yet, with its session.
    pub fn take_link(&mut self, at: usize) -> Option<(SessionId, L)> {
        self.links[at].take().map(|served| (served.session, served.link))
    }

    fn serve(&mut self, at: usize, reads: bool) -> bool {
        let Some(ServedLink { session: id, link, state }) = &mut self.links[at] else {
            return false;
        };
        let id = *id;
        let mut session = self.inner.server.session(id).expect("an open session");
        let drive = if reads { pump } else { flush };
        let (has_moved, is_over) = match drive(NOW, &mut session, link, state, &mut self.scratch) {
            Ok(progress) => (progress.has_moved(), progress.finished),
            Err(PumpError::Peer { error, .. }) => {
                self.faults.push(error);
                (true, true)
            }
            Err(PumpError::Link(_)) => (true, true),
            Err(error) => panic!("{error}"),
        };
        // Before the session is closed, which discards its events.
        self.events.extend(core::iter::from_fn(|| self.inner.server.poll_event()));
        if is_over {
            self.links[at] = None;
            self.inner.server.close(id);
        }
        has_moved || is_over
    }
}

/// Two halves, each with room for the longest message.
const SCRATCH_BYTES: usize = 1 << 15;
