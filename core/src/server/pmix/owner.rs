//! What an owner is told of, and what it says: who is let in, and how requests are answered that only it
//! can do.

use super::block::packed;
use super::connection::{Connection, Owed, Stage};
use super::{ConnectionId, Memory, Pmix, info, noted_link, ready_link};
use crate::error::{Misuse, PeerError};
use crate::ids::{Excerpt, JobId, Rank};
use crate::server::member::{Member, Phase};
use crate::server::{Server, Storage};
use crate::storage::{Buffer, Slots};
use crate::time::Duration;
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Request, Type, Unpacker};

/// What an owner must know or do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody claims to be a rank, which the protocol does not prove. Find out whether it is, and
    /// call [`Pmix::admit`] or [`Pmix::refuse`]; it waits for that.
    Dialled {
        /// The connection.
        connection: ConnectionId,
        /// The job it claims to be of.
        job: JobId,
        /// The rank it claims to be.
        rank: Rank,
        /// The user it claims to run as, if it says so.
        user: Option<u32>,
    },
    /// Somebody says what cannot be. Call [`Pmix::refuse`] with this status; it waits for that.
    Doubted {
        /// The connection.
        connection: ConnectionId,
        /// What to tell it.
        status: Status,
        /// What it did.
        why: PeerError,
    },
    /// A rank wants processes to end. The answer is on its way.
    Aborted {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// The exit code it wants the job to have.
        code: i32,
        /// What it says.
        message: Excerpt,
    },
    /// A rank has not been heard for as long as it wanted to be watched for.
    Silent {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// What it wants others to be told then.
        code: Status,
        /// How long it was not heard.
        after: Duration,
    },
    /// A rank asks for something that only the owner can do: read [`Pmix::request`], then call
    /// [`Pmix::request_read`], and [`Pmix::answer`] when it is done.
    Asked {
        /// The connection.
        connection: ConnectionId,
        /// Numbers the requests that only the owner can answer; to be given back with the answer.
        pending: usize,
    },
}

impl<P: Memory> Pmix<P> {
    /// Lets a caller in.
    ///
    /// Errors: [`Misuse::WrongState`] unless it has claimed to be a rank and waits.
    pub fn admit<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
    ) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the caller waits to be let in" };
        let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) else {
            return Err(waiting);
        };
        let (Stage::Claimed, Some((job, rank))) = (talk.stage, talk.peer) else {
            return Err(waiting);
        };
        talk.stage = Stage::Open;
        talk.deadline = None;
        talk.is_admitted = true;
        talk.owe_welcome(id);
        if let Some(post) = info::post_mut(&mut self.jobs, job, rank) {
            post.links = post.links.saturating_add(1);
            post.has_spoken = true;
        }
        if let Some(job) = server.jobs.get_mut(job.0 as usize) {
            job.forgive(rank);
            job.advance(rank, Phase::Open);
        }
        self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        Ok(())
    }

    /// Sends a caller away with a status.
    pub fn refuse(&mut self, id: ConnectionId, status: Status) {
        if let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) {
            talk.send_away(status, PeerError::Unproven);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Forgets a connection whose link is closed, and gives what it had not told its owner yet.
    pub fn close<S: Storage>(&mut self, id: ConnectionId, server: &mut Server<S>) -> Option<Event> {
        self.leave(id, server);
        self.ready.remove(&mut self.connections, id.0, ready_link::<P>);
        self.noted.remove(&mut self.connections, id.0, noted_link::<P>);
        let Connection { talk, .. } = self.connections.remove(id.0 as usize)?;
        if let Some((job, rank)) = talk.peer {
            self.member_gone(job, rank, server);
        }
        talk.note
    }

    /// Looks again at what waits for a member that may be gone. Call it after
    /// [`Server::member_gone`].
    pub fn member_gone<S: Storage>(&mut self, job: JobId, rank: Rank, server: &mut Server<S>) {
        if !server.job(job).and_then(|job| job.member(rank)).is_some_and(Member::is_gone) {
            return;
        }
        self.give_up_gets(job, rank);
        self.forget_published(job, Some(rank), server);
        self.mourn((job, rank), server);
        self.look_at_fence(job, server);
        self.look_at_collectives(server);
    }

    /// Lends the request that a connection has asked with, until
    /// [`request_read`](Self::request_read).
    pub fn request(&self, id: ConnectionId) -> Option<Request<'_>> {
        let Connection { inbox, talk } = self.connections.get(id.0 as usize)?;
        let message = inbox.as_slice().get(..talk.held?)?;
        let body = message.get(Header::BYTES..)?;
        Request::read(Unpacker::new(body, talk.format)).ok()
    }

    /// How a connection packs values, and takes them.
    pub fn format(&self, id: ConnectionId) -> Option<Format> {
        Some(self.connections.get(id.0 as usize)?.talk.format)
    }

    /// Lets a connection go on with other requests.
    pub fn request_read(&mut self, id: ConnectionId) {
        let Some(Connection { inbox, talk }) = self.connections.get_mut(id.0 as usize) else {
            return;
        };
        if let Some(len) = talk.held.take() {
            inbox.drop_front(len);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Answers a request that was [`Asked`](Event::Asked): a status, and what `more` packs behind it.
    ///
    /// Errors: [`Misuse::NoSuch`] if the connection does not wait for this answer, or not any more.
    pub fn answer(
        &mut self,
        id: ConnectionId,
        pending: usize,
        status: Status,
        more: impl Fn(&mut Packer<'_>),
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request" };
        let connection = self.connections.get_mut(id.0 as usize).ok_or(missing)?;
        let talk = &mut connection.talk;
        let format = talk.format;
        let place = talk.asked(pending).ok_or(missing)?;
        let body = packed(format, |to| {
            to.one(Type::STATUS).i32(status.0);
            more(to);
        });
        talk.settle(place, body.map_or(Owed::Status(Status::NOMEM), Owed::Body));
        self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        Ok(())
    }
}
