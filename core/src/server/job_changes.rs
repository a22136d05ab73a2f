//! Changes of jobs on several nodes that the servers of all nodes make: connections of jobs, and puts of
//! several pairs at once.
//!
//! A server reports what a rank requests ([`Event::ConnectRequested`], [`Event::PairRequested`]). The owner
//! has the servers of all nodes make the change, in one order ([`Server::connect_jobs`],
//! [`Server::add_pairs`]), and answers the rank when all have made it ([`Server::answer_change`]).

use super::connected_jobs;
use super::job::Job;
use super::member::Member;
use super::outcome::Wake;
use super::pmi_session::PmiSessionState;
use super::response::{PendingReply, RequestHeader, Response};
use super::session_table::READY;
use super::state::Context;
use super::{Event, NO_JOB, RemoteError, Server, Storage};
use crate::command::{Reason, Request, Text, Verb};
use crate::error::Misuse;
use crate::ids::{JobId, Key, SessionId};
use crate::limits::{KEY_BYTES, VALUE_BYTES};
use crate::storage::Slots;
use crate::store::Kvs;

/// Result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAnswer {
    /// It was made.
    Done,
    /// There is no room for it.
    NoRoom,
    /// The jobs are not connected.
    NotConnected,
}

impl<S: Storage> Server<S> {
    /// Connects two jobs, or ends their connection.
    pub fn connect_jobs(&mut self, one: JobId, other: JobId, is_connect: bool) -> ChangeAnswer {
        let jobs = &mut self.shared.jobs;
        match is_connect {
            true if connected_jobs::connect(jobs, one, other) => ChangeAnswer::Done,
            true => ChangeAnswer::NoRoom,
            false if connected_jobs::disconnect(jobs, one, other) => ChangeAnswer::Done,
            false => ChangeAnswer::NotConnected,
        }
    }

    /// True if a job is connected with another one: by its spawn, by a connect of PMI-2, or by one of PMIx.
    pub fn is_connected(&self, job: JobId) -> bool {
        self.shared.job(job).is_some_and(|job| !job.links.is_empty())
    }

    /// Ends the connections of a job with all others, once its ranks have ended and none will read its data.
    pub fn disconnect_job(&mut self, job: JobId) {
        connected_jobs::leave(&mut self.shared.jobs, job);
    }

    /// Adds pairs of a block to the space of a job; clients of all jobs that may read it see them at once.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; nothing was added.
    pub fn add_pairs(
        &mut self,
        job: JobId,
        block: &<S::Kvs as Kvs>::Block,
    ) -> Result<(), RemoteError> {
        let job = self.shared.job_mut(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        job.kvs.add_block(block).map_err(RemoteError::Block)
    }

    /// The pair that a session puts ([`Event::PairRequested`]), until [`spawn_read`](Self::spawn_read).
    pub fn pair_request(&self, session: SessionId) -> Option<(Text<'_>, Text<'_>)> {
        match self.held_request(session)? {
            Request::PutPair { key, value } => Some((key, value)),
            _ => None,
        }
    }

    /// Answers the request of a session for a change.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn answer_change(
        &mut self,
        session: SessionId,
        exchange: usize,
        answer: ChangeAnswer,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request for a change" };
        let number = u32::try_from(exchange).map_err(|_| missing)?;
        let of = self.sessions.get_mut(session).ok_or(missing)?;
        let mut pending = of.state.pending_requests();
        let found = pending.find(|(_, waits)| waits.response == Response::Head(number));
        let (place, _) = found.ok_or(missing)?;
        drop(pending);
        let waits = of.state.pending.get_mut(place).ok_or(missing)?;
        let what = match waits.header.verb {
            Verb::PutAll => "values",
            _ => "connected jobs",
        };
        waits.response = match answer {
            ChangeAnswer::Done => Response::Done,
            ChangeAnswer::NoRoom => Response::refused(Reason::NoRoom { what }),
            ChangeAnswer::NotConnected => Response::refused(Reason::NoSuch { what: "connection" }),
        };
        self.sessions.push(READY, session);
        Ok(())
    }
}

impl<X: Slots<PendingReply>> PmiSessionState<X> {
    /// Leaves a connection of the job of the session with the job of this name, or its end, to the owner.
    pub(super) fn hand_up_connection<K: Kvs, M: AsRef<[Member]>, J: Slots<Job<K, M>>>(
        &mut self,
        context: &mut Context<'_, J, K>,
        header: RequestHeader,
        name: Text<'_>,
        is_connect: bool,
    ) -> Wake {
        let found = connected_jobs::find_named(context.jobs, |job| name == *job);
        let Some(other) = found else {
            let response = Response::refused(Reason::NoSuch { what: "job" });
            self.push_request(PendingReply { header, response });
            return Wake::None;
        };
        *context.spawns = context.spawns.wrapping_add(1);
        let (session, number) = (context.id, *context.spawns);
        self.push_request(PendingReply { header, response: Response::Head(number) });
        let (job, exchange) = (self.protocol.job, number as usize);
        let event = Event::ConnectRequested { session, exchange, job, other, is_connect };
        self.lifecycle.event = Some(event);
        Wake::None
    }
}

/// Refusal of a pair that is not within the limits.
pub(super) fn refusal_of_pair(key: Text<'_>, value: Text<'_>) -> Option<Response> {
    let (mut key_room, mut value_room) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
    let is_key = key.resolve(&mut key_room).is_ok_and(|key| Key::check(key).is_ok());
    let is_value = value.resolve(&mut value_room).is_ok_and(|value| value.len() <= VALUE_BYTES);
    let refused = Response::refused(Reason::Lacking { field: "a pair within the limits" });
    (!is_key || !is_value).then_some(refused)
}
