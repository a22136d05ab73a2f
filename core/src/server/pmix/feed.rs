//! How bytes go in, what they set off, and what becomes of a connection that ends.

use super::connection::{Appetite, Connection, Owed, Pending, Stage};
use super::state::{self, Reach, Told};
use super::{ConnectionId, Event, Memory, Pmix, info, noted_link};
use crate::error::PeerError;
use crate::ids::{JobId, Rank};
use crate::server::member::Phase;
use crate::server::{Server, Storage};
use crate::storage::{Buffer, Slots};
use crate::time::Instant;
use crate::wire::Framed;
use crate::wire::pmix::greeting::Greeting;
use crate::wire::pmix::header::Header;

impl<P: Memory> Pmix<P> {
    /// Takes up as many messages as it may, and holds the beginning of the next one if that is all there is.
    /// What it may not take up yet it leaves to whoever reads, who then reads no more: nothing is held that
    /// could as well wait in the peer.
    pub(super) fn feed<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            let taken = bytes.len() - rest.len();
            let Some(connection) = self.connections.get_mut(id.0 as usize) else {
                return Ok(bytes.len());
            };
            match (connection.talk.appetite(), connection.talk.stage) {
                (Appetite::Deaf, Stage::Broken(error)) => return Err(error),
                (Appetite::Deaf, _) => return Ok(bytes.len()),
                (Appetite::Full, _) => return Ok(taken),
                (Appetite::Ready, _) => {}
            }
            let is_held = !connection.inbox.as_slice().is_empty();
            let source = if is_held { connection.inbox.as_slice() } else { rest };
            let framed = match connection.talk.stage {
                Stage::Greeting => Greeting::frame(source),
                _ => Ok(Header::frame(source)),
            };
            match framed {
                Ok(Framed::Whole(len)) => {
                    let told = self.take_up(id, server, now, (rest, is_held, len))?;
                    if !is_held {
                        rest = rest.get(len..).unwrap_or(b"");
                    }
                    self.act(id, server, told);
                }
                Ok(Framed::Partial) if rest.is_empty() => return Ok(bytes.len()),
                Ok(Framed::Partial) => {
                    // No more than it lacks: what stands behind it would have to be moved again and again.
                    let lacks = connection.lacks().min(rest.len());
                    let len = connection.hold(rest.get(..lacks).unwrap_or(b""));
                    rest = rest.get(len..).unwrap_or(b"");
                    // A message that will never fit is not worth waiting for.
                    if len == 0 || connection.is_beyond_inbox() {
                        let limit_bytes =
                            connection.inbox.as_slice().len() + connection.inbox.room();
                        return Err(connection
                            .talk
                            .break_off(PeerError::MessageTooLong { limit_bytes }));
                    }
                }
                Err(bad) => return Err(connection.talk.break_off(PeerError::Malformed(bad))),
            }
        }
    }

    /// Takes up the message of `len` bytes at the front of the inbox, or of `rest`.
    fn take_up<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
        now: Instant,
        (rest, is_held, len): (&[u8], bool, usize),
    ) -> Result<Told, PeerError> {
        let Self { connections, jobs, collectives, names, events, groups, .. } = self;
        let Some(connection) = connections.get_mut(id.0 as usize) else {
            return Ok(Told::Nothing);
        };
        let Connection { inbox, talk } = connection;
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let mut reach = Reach::<P, S> { jobs, collectives, names, events, groups, server, now };
        let told = state::message(talk, &mut reach, message);
        if let Ok(Told::Asked(_)) = told {
            if !is_held && inbox.extend(fresh).is_err() {
                let limit_bytes = inbox.room();
                return Err(talk.break_off(PeerError::MessageTooLong { limit_bytes }));
            }
            talk.held = Some(len);
        } else if is_held {
            inbox.drop_front(len);
        }
        told
    }

    /// Does for others, and for the owner, what a message means for them.
    fn act<S: Storage>(&mut self, id: ConnectionId, server: &mut Server<S>, told: Told) {
        let Some(Connection { talk, .. }) = self.connections.get(id.0 as usize) else { return };
        if let Told::Doubted { status, why } = told {
            return self.note(id, Event::Doubted { connection: id, status, why });
        }
        let Some((job, rank)) = talk.peer else { return };
        let note = match told {
            Told::Nothing | Told::Doubted { .. } => return,
            Told::Claimed { user } => Event::Dialled { connection: id, job, rank, user },
            Told::Committed => return self.look_at_gets((job, rank), server),
            Told::Published => return self.look_at_lookups(server),
            Told::Registered => return self.catch_up(id, server),
            Told::Happened(at) => return self.spread(at, Some(id), server),
            Told::LeftGroup(happened) => {
                if let Some(at) = happened {
                    self.spread(at, Some(id), server);
                }
                return self.look_at_collectives(server);
            }
            Told::Fenced => return self.look_at_fence(job, server),
            Told::Entered(at) => return self.look_at_collective(at, server),
            Told::Left => {
                self.unlink(job, rank, Phase::Finalized, server);
                return;
            }
            Told::Asked(place) => Event::Asked { connection: id, pending: self.number(id, place) },
            Told::Aborted { code, message } => Event::Aborted { job, rank, code, message },
        };
        self.note(id, note);
    }

    fn note(&mut self, id: ConnectionId, note: Event) {
        if let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) {
            talk.note = Some(note);
        }
        self.noted.push(&mut self.connections, id.0, noted_link::<P>);
    }

    /// Numbers a request. The number of its connection and its place in it are soon somebody else's.
    fn number(&mut self, id: ConnectionId, place: usize) -> usize {
        self.asked = self.asked.wrapping_add(1);
        let connection = self.connections.get_mut(id.0 as usize);
        if let Some(waits) = connection.and_then(|found| found.talk.pendings.get_mut(place)) {
            waits.owed = Owed::Owner(self.asked);
        }
        self.asked as usize
    }

    /// The stream of a connection has ended; says whether that was too early.
    pub(super) fn leave<S: Storage>(&mut self, id: ConnectionId, server: &mut Server<S>) -> bool {
        let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) else {
            return false;
        };
        let was = core::mem::replace(&mut talk.stage, Stage::Ended);
        let (Some((job, rank)), true) = (talk.peer, talk.is_admitted) else { return false };
        // Nothing it waits for matters any more, and nobody shall count it in.
        let mut next = 0;
        while let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize)
            && next < talk.pendings.end()
        {
            if let Some(Pending { owed: Owed::Collective { at, .. }, .. }) =
                talk.pendings.remove(next)
            {
                self.left(at);
            }
            next += 1;
        }
        let is_early = matches!(was, Stage::Open | Stage::Broken(_));
        is_early && self.unlink(job, rank, Phase::Lost, server)
    }

    /// One connection less of a rank. If it was the last one, the rank has come as far as `phase`.
    fn unlink<S: Storage>(
        &mut self,
        job: JobId,
        rank: Rank,
        phase: Phase,
        server: &mut Server<S>,
    ) -> bool {
        let Some(post) = info::post_mut(&mut self.jobs, job, rank) else { return false };
        post.links = post.links.saturating_sub(1);
        let is_last = post.links == 0;
        if is_last && let Some(of) = server.jobs.get_mut(job.0 as usize) {
            of.advance(rank, phase);
        }
        is_last
    }
}

impl<B, I: Buffer, X> Connection<B, I, X> {
    /// How many bytes are missing to the end of the message that is held, or of its header. A greeting is
    /// held with whatever comes with it.
    fn lacks(&self) -> usize {
        let held = self.inbox.as_slice();
        let whole = match (self.talk.stage, Header::read(held)) {
            (Stage::Greeting, _) => return usize::MAX,
            (_, None) => Header::BYTES,
            (_, Some(header)) => Header::BYTES.saturating_add(header.body_bytes as usize),
        };
        whole.saturating_sub(held.len())
    }

    /// Whether the message at the front says that it is longer than what can be held.
    fn is_beyond_inbox(&self) -> bool {
        let held = self.inbox.as_slice();
        let whole = Header::read(held).map_or(0, |header| header.body_bytes as usize);
        self.talk.stage != Stage::Greeting
            && whole.saturating_add(Header::BYTES) > held.len() + self.inbox.room()
    }
}
