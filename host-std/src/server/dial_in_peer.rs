//! Connections of ranks that connect by themselves, and second connections on which ranks listen.

use super::event::ServerEvent;
use super::secure::Certificate;
use super::service::{Service, index};
use crate::admission::{EVICTED, PENDING_MAX};
use crate::poller::Poller;
use pmi_core::auth::Challenge;
use pmi_core::command::Notice;
use pmi_core::ids::{JobId, Rank};
use pmi_core::server::{Job, Peer};
use pmi_core::time::Duration;
use pmi_std::{Clock, Stream};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// Connection that has not proved which rank it is.
#[derive(Debug)]
pub(crate) struct DialInPeer {
    /// Its link, not blocking.
    pub(crate) link: Stream,
    /// Its address.
    pub(crate) from: SocketAddr,
    /// Challenge that it has to answer, if ranks must know a secret.
    pub(crate) challenge: Option<Challenge>,
    /// Certificate of the server, if the connection uses TLS.
    pub(crate) certificate: Option<Certificate>,
}

impl Service {
    /// Adds a connection whose peer has to identify itself. If too many are unauthenticated, one of them
    /// is closed.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(crate) fn add_peer(
        &mut self,
        job: JobId,
        peer: DialInPeer,
        poller: &Poller,
    ) -> io::Result<()> {
        let DialInPeer { link, from, challenge, certificate } = peer;
        while let Some(surplus) = self.pending.surplus(PENDING_MAX) {
            let from = self.connection(surplus).and_then(|connection| connection.from);
            let refused = from.map(|from| ServerEvent::Refused { from, why: EVICTED.to_owned() });
            self.launcher_events.extend(refused);
            self.close(surplus);
        }
        let deadline = self.clock.now().plus(SAY_WITHIN);
        let peer = Peer::Unidentified { job, deadline: Some(deadline), challenge };
        let session = self.open(peer, link, Some(from), poller)?;
        if let Some(Some(connection)) = self.connections.get_mut(index(session.0)) {
            connection.certificate = certificate;
        }
        self.pending.insert(session, from.ip(), ());
        Ok(())
    }

    /// Adds the connection to a singleton, opened by the launcher.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub(crate) fn add_singleton(
        &mut self,
        (job, rank): (JobId, u32),
        (link, from): (Stream, SocketAddr),
        poller: &Poller,
    ) -> io::Result<()> {
        let session =
            self.open(Peer::Member { job, rank: Rank(rank) }, link, Some(from), poller)?;
        if let Some(Some(connection)) = self.connections.get_mut(index(session.0)) {
            connection.is_unauthenticated = false;
        }
        if let Some(rank_conn) = self.rank_conn_mut(job, rank) {
            (rank_conn.session, rank_conn.is_local) = (Some(session), true);
        }
        Ok(())
    }

    /// Assigns a connection to the rank as which it has identified itself.
    pub(super) fn handle_joined(&mut self, job: JobId, rank: Rank) -> Option<ServerEvent> {
        let member = self.server.job(job)?.member(rank)?;
        let session = member.session()?;
        let from = self.connection(session)?.from?;
        self.suspects.retain(|suspect| *suspect != (job, rank));
        let rank_conn = self.rank_conn_mut(job, rank.0)?;
        if rank_conn.is_local || rank_conn.last_phase.is_some() {
            // A rank that was started by the launcher, or has been given up, cannot be replaced.
            self.close(session);
            return Some(ServerEvent::Refused { from, why: TAKEN.to_owned() });
        }
        (rank_conn.session, rank_conn.from) = (Some(session), Some(from));
        Some(ServerEvent::Joined)
    }

    /// Resets a rank to unconnected: it has not started the protocol, and may connect again.
    pub(crate) fn set_absent(&mut self, job: JobId, rank: u32) {
        let session = self.rank_conn_mut(job, rank).and_then(|rank_conn| rank_conn.session.take());
        session.into_iter().for_each(|session| self.close(session));
    }

    /// Address from which a rank has connected.
    pub(crate) fn from(&self, job: JobId, rank: u32) -> Option<SocketAddr> {
        self.rank_conn(job, rank)?.from
    }

    /// Sends a notice to all ranks that listen on a second connection. Returns the notified ranks.
    pub(crate) fn notify_all(&mut self, notice: Notice) -> Vec<(JobId, u32)> {
        let mut told = Vec::new();
        for job in Vec::from_iter(self.server.jobs()) {
            let ranks = 0..self.server.job(job).map_or(0, Job::size);
            // A rank that does not listen, or has not read the last notice, gets none.
            let listens = ranks.filter(|rank| self.server.notify(job, Rank(*rank), notice).is_ok());
            told.extend(listens.map(|rank| (job, rank)));
        }
        told
    }

    /// Time of the next [`tick`](Self::tick): unauthenticated connections and timed PMIx requests have
    /// deadlines.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let callers = if self.pending.is_empty() { None } else { self.server.poll_timeout() };
        let later = callers.into_iter().chain(self.pmix.server.poll_timeout()).min();
        let later = later.map(|later| Instant::now() + Clock::until(self.clock.now(), later));
        let judged = self.guesses.until().filter(|_| self.pending.has_held());
        later.into_iter().chain(judged).min()
    }

    /// Closes connections that have not identified themselves in time, and answers PMIx requests that
    /// have timed out; then serves connections that were held after a wrong guess. Returns true if
    /// responses may be due then.
    ///
    /// # Errors
    ///
    /// Errors of the system's readiness calls.
    pub(crate) fn tick(&mut self, poller: &Poller) -> io::Result<bool> {
        let has_unauthenticated = !self.pending.is_empty();
        if has_unauthenticated {
            let now = self.clock.now();
            self.server.handle_timeout(now);
        }
        while !self.guesses.is_paused(Instant::now())
            && let Some(held) = self.pending.next_held()
        {
            self.ready(held.0, poller)?;
        }
        let now = self.clock.now();
        let is_late = self.pmix.server.poll_timeout().is_some_and(|at| at <= now);
        if is_late {
            self.server.pmix(&mut self.pmix.server).handle_timeout(now);
        }
        Ok(has_unauthenticated || is_late)
    }
}

const TAKEN: &str = "requested a rank that is not available: it was started here, or has already \
                     connected; each rank that connects needs a PMI_ID of its own";

/// Longest time until a new connection must have identified itself; a rank does so at once.
const SAY_WITHIN: Duration = Duration::from_secs(5);
