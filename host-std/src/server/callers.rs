//! Connections of ranks that dial in, and second connections on which ranks listen.

use super::news::News;
use super::secure::Certificate;
use super::service::{Service, index};
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

impl Service {
    /// Takes over the connection of somebody who has to say who it is. Too many of those at once are sent
    /// away.
    ///
    /// Errors: those of the system.
    pub fn add_caller(
        &mut self,
        job: JobId,
        (link, from): (Stream, SocketAddr),
        challenge: Option<Challenge>,
        certificate: Option<Certificate>,
        poller: &Poller,
    ) -> io::Result<()> {
        if self.strangers >= STRANGERS_MAX {
            return Ok(());
        }
        let deadline = self.clock.now().plus(SAY_WITHIN);
        let peer = Peer::Unidentified { job, deadline: Some(deadline), challenge };
        let session = self.open(peer, link, Some(from), poller)?;
        if let Some(Some(connection)) = self.connections.get_mut(index(session.0)) {
            connection.certificate = certificate;
        }
        self.strangers += 1;
        Ok(())
    }

    /// Takes over the connection of a rank that we have dialled.
    ///
    /// Errors: those of the system.
    pub fn add_singleton(
        &mut self,
        (job, rank): (JobId, u32),
        (link, from): (Stream, SocketAddr),
        poller: &Poller,
    ) -> io::Result<()> {
        let session =
            self.open(Peer::Member { job, rank: Rank(rank) }, link, Some(from), poller)?;
        if let Some(Some(connection)) = self.connections.get_mut(index(session.0)) {
            connection.is_stranger = false;
        }
        if let Some(seat) = self.seat_mut(job, rank) {
            (seat.session, seat.is_local) = (Some(session), true);
        }
        Ok(())
    }

    /// A caller has said who it is.
    pub(super) fn take_joined(&mut self, job: JobId, rank: Rank) -> Option<News> {
        let member = self.server.job(job)?.member(rank)?;
        let session = member.session()?;
        let from = self.connection(session)?.from?;
        self.suspects.retain(|suspect| *suspect != (job, rank));
        let seat = self.seat_mut(job, rank.0)?;
        if seat.is_local || seat.last_phase.is_some() {
            // It was started here, or has been here and gone: nobody can take its place.
            self.close(session);
            return Some(News::Refused { from, why: TAKEN.to_owned(), is_guess: false });
        }
        (seat.session, seat.from) = (Some(session), Some(from));
        Some(News::Joined { rank: rank.0, from })
    }

    /// Forgets that a rank has dialled in: it has not begun, and may dial in again.
    pub fn set_absent(&mut self, job: JobId, rank: u32) {
        let session = self.seat_mut(job, rank).and_then(|seat| seat.session.take());
        session.into_iter().for_each(|session| self.close(session));
    }

    /// Where a rank has dialled in from.
    pub fn from(&self, job: JobId, rank: u32) -> Option<SocketAddr> {
        self.seat(job, rank)?.from
    }

    /// Tells everybody who listens on a second connection, and says who that is.
    pub fn notify_all(&mut self, notice: Notice) -> Vec<(JobId, u32)> {
        let mut told = Vec::new();
        for job in Vec::from_iter(self.server.jobs()) {
            let ranks = 0..self.server.job(job).map_or(0, Job::size);
            // Who does not listen, or has not read the last one, gets none.
            let listens = ranks.filter(|rank| self.server.notify(job, Rank(*rank), notice).is_ok());
            told.extend(listens.map(|rank| (job, rank)));
        }
        told
    }

    /// When to call [`tick`](Self::tick). Callers wait for time, and PMIx clients that said how long.
    pub fn deadline(&self) -> Option<Instant> {
        let callers = if self.strangers > 0 { self.server.poll_timeout() } else { None };
        let later = callers.into_iter().chain(self.desk.pmix.poll_timeout()).min()?;
        Some(Instant::now() + Clock::until(self.clock.now(), later))
    }

    /// Breaks off with callers that have not said in time who they are, and answers PMIx clients that have
    /// waited as long as they wanted. If there are any, somebody may be owed something then.
    pub fn tick(&mut self) -> bool {
        let has_strangers = self.strangers > 0;
        if has_strangers {
            let now = self.clock.now();
            self.server.handle_timeout(now);
        }
        let now = self.clock.now();
        let is_late = self.desk.pmix.poll_timeout().is_some_and(|at| at <= now);
        if is_late {
            self.desk.pmix.handle_timeout(now, &mut self.server);
        }
        has_strangers || is_late
    }
}

const TAKEN: &str = "asked for a rank that is not to be had: it was started here, or has been here and \
                     gone; each rank that dials in needs a PMI_ID of its own";

/// How many callers may be deciding who they are.
const STRANGERS_MAX: usize = 64;

/// Whoever dials in to be a rank says so at once.
const SAY_WITHIN: Duration = Duration::from_secs(5);
