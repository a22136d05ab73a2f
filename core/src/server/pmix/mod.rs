//! Sessions of PMIx clients, beside those of PMI-1 and PMI-2.
//!
//! ```text
//!   bytes ── Connection (bytes, who it is, what is owed) ── state ── a request
//!                       │                                             │
//!             Pmix: jobs as PMIx clients see them           Server: members, fences, names
//! ```
//!
//! A PMIx client asks for much more than a PMI client: what processes post is kept apart by process
//! and by who may see it, fences are of any processes, and values have types. All that is here. What
//! the clients of all generations share is not: who the members of a job are and how far each has
//! come, the fence of a whole job, and the names. A [`Pmix`] is lent the [`Server`] for every call,
//! so that one job may have ranks of every generation.
//!
//! Answers may be long: the description of a job, or all that a process has posted. They are made
//! once, as a [`Block`] that can be shared, and sent piece by piece as there is room. What was posted
//! later never changes an answer that is on its way.
//!
//! What only an owner can do (start processes, signal them, remove files) is an [`Event`], by which
//! it learns of a request; it reads the request where it lies, and says how to answer.

mod block;
mod collective;
mod connection;
mod directives;
mod events;
mod feed;
mod fence;
mod get;
mod groups;
mod happening;
mod info;
mod making;
mod monitor;
mod names;
mod post;
mod query;
mod realm;
mod resolve;
mod state;
mod waiting;

pub use block::Block;
pub use collective::{Collective, Purpose};
pub use connection::{Connection, Pending};
pub use groups::Group;
pub use happening::{Happening, News};
pub use info::JobView;
pub use names::Published;
pub use post::{Post, Posted};
pub use query::Question;
pub use waiting::Wait;

use self::connection::{Owed, Stage};
use super::member::{Member, Phase};
use super::queue::{Link, Queue};
use super::{Server, Storage};
use crate::error::{Full, Misuse, PeerError};
use crate::ids::{Excerpt, JobId, Rank};
use crate::machine::Machine;
use crate::storage::{Buffer, Slots};
use crate::time::{Duration, Instant};
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Request, Unpacker};

/// What the memory of PMIx sessions is made of. An owner names its kinds once.
pub trait Memory {
    /// Bytes that answers and posted values are made of.
    type Block: Block;
    /// Holds a message of one connection that has not ended yet. Its size bounds what a peer can
    /// make the server hold: a commit or a spawn must fit.
    type Inbox: Buffer + 'static;
    /// Holds what one connection is owed.
    type Pendings: Slots<Pending<Self::Block>> + 'static;
    /// Holds the connections.
    type Connections: Slots<Connection<Self::Block, Self::Inbox, Self::Pendings>>;
    /// Holds what the ranks of a job have posted.
    type Posts: AsRef<[Post<Self::Block>]> + AsMut<[Post<Self::Block>]>;
    /// Holds the jobs as PMIx clients see them.
    type Jobs: Slots<JobView<Self::Block, Self::Posts>>;
    /// Holds what several processes do together.
    type Collectives: Slots<Collective<Self::Block>>;
    /// Holds what is published.
    type Names: Slots<Published<Self::Block>>;
    /// Holds what has happened, for those that want to know of it later.
    type Events: Slots<Happening<Self::Block>>;
    /// Holds groups of processes.
    type Groups: Slots<Group<Self::Block>>;
}

/// The memory of a [`Pmix`], all of it empty at first.
#[derive(Debug)]
pub struct Tables<P: Memory> {
    /// See [`Memory::Connections`].
    pub connections: P::Connections,
    /// See [`Memory::Jobs`].
    pub jobs: P::Jobs,
    /// See [`Memory::Collectives`].
    pub collectives: P::Collectives,
    /// See [`Memory::Names`].
    pub names: P::Names,
    /// See [`Memory::Events`].
    pub events: P::Events,
    /// See [`Memory::Groups`].
    pub groups: P::Groups,
}

/// Which connection. Used again after the connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// PMIx sessions of a [`Server`], without I/O.
#[derive(Debug)]
pub struct Pmix<P: Memory> {
    connections: P::Connections,
    jobs: P::Jobs,
    collectives: P::Collectives,
    names: P::Names,
    events: P::Events,
    groups: P::Groups,
    /// The number that was given to a group last.
    contexts: u32,
    /// Connections that have something to send or to take up.
    ready: Queue,
    /// Connections that have something to tell the owner.
    noted: Queue,
    /// How many requests were handed to the owner.
    asked: u32,
}

/// One connection, lent with what it may touch, as a [`Machine`].
pub struct ConnectionMut<'a, P: Memory, S: Storage> {
    pmix: &'a mut Pmix<P>,
    server: &'a mut Server<S>,
    id: ConnectionId,
}

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
    /// Makes it without connections and jobs.
    pub fn new(tables: Tables<P>) -> Self {
        let Tables { connections, jobs, collectives, names, events, groups } = tables;
        let (ready, noted) = (Queue::new(), Queue::new());
        Self {
            connections,
            jobs,
            collectives,
            names,
            events,
            groups,
            contexts: 0,
            ready,
            noted,
            asked: 0,
        }
    }

    /// Lets PMIx clients into a job of the server. `info` is what they are told about it: KVALs as
    /// they stand in the answer to REQ behind the name space, in [`Format::PLAIN`]. `posts` has an
    /// element for each rank.
    ///
    /// Errors: [`Misuse::NoRoom`].
    pub fn add_job(&mut self, job: JobId, info: P::Block, posts: P::Posts) -> Result<(), Misuse> {
        let view = JobView::new(job, info, posts);
        self.jobs.insert(view).map(drop).ok_or(Misuse::NoRoom { what: "job" })
    }

    /// Forgets a job, here and in the server: what its ranks have posted, and what they have published for no
    /// longer.
    ///
    /// Errors: [`Misuse::WrongState`] while a session or a connection of the job is open, or somebody claims
    /// to be a rank of it: the next job may get its number. Nothing has changed then. Otherwise those of
    /// [`Server::remove_job`].
    pub fn remove_job<S: Storage>(
        &mut self,
        job: JobId,
        server: &mut Server<S>,
    ) -> Result<(), Misuse> {
        let mut open = (0..self.connections.end()).filter_map(|at| self.connections.get(at));
        if open.any(|connection| connection.talk.peer.is_some_and(|(of, _)| of == job)) {
            return Err(Misuse::WrongState { needed: "no connection of the job is open" });
        }
        server.remove_job(job)?;
        self.forget_published(job, None, server);
        self.forget_events(job);
        self.forget_members(job);
        self.end_meetings_with(job, server);
        if let Some(at) = info::place(&self.jobs, job) {
            self.jobs.remove(at);
        }
        Ok(())
    }

    /// Opens a connection to a caller that has until `deadline` to say who it is.
    ///
    /// Errors: [`Misuse::NoRoom`].
    pub fn open(
        &mut self,
        inbox: P::Inbox,
        pendings: P::Pendings,
        deadline: Option<Instant>,
    ) -> Result<ConnectionId, Misuse> {
        let full = Misuse::NoRoom { what: "connection" };
        let connection = Connection::new(inbox, pendings, deadline);
        let at = self.connections.insert(connection).ok_or(full)?;
        u32::try_from(at).map(ConnectionId).map_err(|_| full)
    }

    /// Lends a connection.
    pub fn connection<'a, S: Storage>(
        &'a mut self,
        id: ConnectionId,
        server: &'a mut Server<S>,
    ) -> Option<ConnectionMut<'a, P, S>> {
        self.connections.get(id.0 as usize)?;
        Some(ConnectionMut { pmix: self, server, id })
    }

    /// Which job and rank a connection speaks for, once it was let in.
    pub fn peer(&self, id: ConnectionId) -> Option<(JobId, Rank)> {
        let talk = &self.connections.get(id.0 as usize)?.talk;
        talk.peer.filter(|_| talk.is_admitted)
    }

    /// Whether a connection was ever let in as this rank.
    pub fn has_spoken(&self, job: JobId, rank: Rank) -> bool {
        let post = info::view(&self.jobs, job).and_then(|view| view.post(rank));
        post.is_some_and(|post| post.has_spoken)
    }

    /// Whether this rank has lost its last connection without a goodbye.
    pub fn has_left_early<S: Storage>(&self, job: JobId, rank: Rank, server: &Server<S>) -> bool {
        let member = server.job(job).and_then(|job| job.member(rank));
        self.has_spoken(job, rank) && member.is_some_and(|m| m.phase() == Phase::Lost)
    }

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

    /// The next connection to serve: to transmit, then to hand it an empty input.
    ///
    /// Changes after: any call on any connection or on any session of the server.
    pub fn next_ready<S: Storage>(&mut self, server: &mut Server<S>) -> Option<ConnectionId> {
        self.look_at_ended_fences(server);
        if core::mem::take(&mut server.has_new_names) {
            self.look_at_lookups(server);
        }
        self.ready.pop(&mut self.connections, ready_link::<P>).map(ConnectionId)
    }

    /// The next thing the owner must know or do.
    ///
    /// Changes after: any call on any connection.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(id) = self.noted.pop(&mut self.connections, noted_link::<P>) {
            let connection = self.connections.get_mut(id as usize);
            if let Some(note) = connection.and_then(|connection| connection.talk.note.take()) {
                // The connection held its bytes back until now.
                self.ready.push(&mut self.connections, id, ready_link::<P>);
                return Some(note);
            }
        }
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    ///
    /// Changes after: every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let all = (0..self.connections.end()).filter_map(|at| self.connections.get(at));
        all.filter_map(|connection| connection.talk.deadline()).min()
    }

    /// Breaks off with callers that have not said in time who they are, and ends what has waited as
    /// long as it was to.
    pub fn handle_timeout<S: Storage>(&mut self, now: Instant, server: &mut Server<S>) {
        for at in 0..self.connections.end() {
            let Some(Connection { talk, .. }) = self.connections.get_mut(at) else { continue };
            let id = u32::try_from(at).unwrap_or(u32::MAX);
            if talk.deadline.is_some_and(|deadline| deadline <= now) {
                talk.break_off(PeerError::TimedOut);
                self.ready.push(&mut self.connections, id, ready_link::<P>);
            }
            self.expire(ConnectionId(id), now, server);
            self.look_at_pulses(ConnectionId(id), now);
        }
    }

    /// Lends the request that a connection has asked with, until
    /// [`request_read`](Self::request_read).
    pub fn request(&self, id: ConnectionId) -> Option<Request<'_>> {
        let Connection { inbox, talk } = self.connections.get(id.0 as usize)?;
        let message = inbox.as_slice().get(..talk.held?)?;
        let body = message.get(crate::wire::pmix::header::Header::BYTES..)?;
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
        let body = block::packed(format, |to| {
            to.one(crate::wire::pmix::Type::STATUS).i32(status.0);
            more(to);
        });
        talk.settle(place, body.map_or(Owed::Status(Status::NOMEM), Owed::Body));
        self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        Ok(())
    }

    /// What has waited as long as it was to is answered so.
    fn expire<S: Storage>(&mut self, id: ConnectionId, now: Instant, server: &mut Server<S>) {
        while let Some((place, job, owed)) =
            self.connections.get(id.0 as usize).and_then(|Connection { talk, .. }| {
                let (place, pending) = talk.pendings().find(|(_, pending)| pending.is_late(now))?;
                Some((place, talk.peer?.0, pending.owed.clone()))
            })
        {
            match owed {
                Owed::Fence { .. } => self.expire_fence(job, server),
                Owed::Collective { at, .. } => self.end(at, Status::TIMEOUT, server),
                _ => {}
            }
            // Also for whoever is in something that nobody knows of any more.
            self.settle(id, place, Owed::Status(Status::TIMEOUT));
        }
    }

    /// What one connection is owed is due.
    fn settle(&mut self, id: ConnectionId, pending: usize, owed: Owed<P::Block>) {
        if let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) {
            talk.settle(pending, owed);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }
}

impl<P: Memory, S: Storage> Machine for ConnectionMut<'_, P, S> {
    type Event<'a>
        = Event
    where
        Self: 'a;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.pmix.feed(self.id, self.server, now, bytes)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.pmix.handle_timeout(now, self.server);
        match self.pmix.connections.get(self.id.0 as usize).map(|open| open.talk.stage) {
            Some(Stage::Broken(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        match self.pmix.leave(self.id, self.server) {
            true => Err(PeerError::LeftEarly),
            false => Ok(()),
        }
    }

    /// Writes a piece of a message: as much of it as there is room for.
    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let pmix = &mut *self.pmix;
        if pmix.connections.get(self.id.0 as usize).is_some_and(|open| open.talk.ear.is_behind) {
            pmix.catch_up(self.id, self.server);
        }
        match pmix.connections.get_mut(self.id.0 as usize) {
            Some(connection) => connection.talk.transmit(out),
            None => Ok(None),
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        let pmix = &mut *self.pmix;
        let note = pmix.connections.get_mut(self.id.0 as usize)?.talk.note.take()?;
        pmix.noted.remove(&mut pmix.connections, self.id.0, noted_link::<P>);
        pmix.ready.push(&mut pmix.connections, self.id.0, ready_link::<P>);
        Some(note)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pmix.connections.get(self.id.0 as usize)?.talk.deadline()
    }

    fn is_finished(&self) -> bool {
        self.pmix.connections.get(self.id.0 as usize).is_none_or(|connection| {
            let talk = &connection.talk;
            match talk.stage {
                Stage::Ended => true,
                // Whoever was sent away reads why, and hangs up; it must not be left to.
                Stage::Broken(_) => !talk.has_due(),
                // A client closes when it has read the answer to its goodbye.
                Stage::Greeting | Stage::Claimed | Stage::Open | Stage::Leaving => false,
            }
        })
    }
}

fn ready_link<P: Memory>(connections: &mut P::Connections, id: u32) -> Option<&mut Link> {
    Some(&mut connections.get_mut(id as usize)?.talk.ready)
}

fn noted_link<P: Memory>(connections: &mut P::Connections, id: u32) -> Option<&mut Link> {
    Some(&mut connections.get_mut(id as usize)?.talk.noted)
}
