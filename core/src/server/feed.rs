//! How bytes go in, what they set off, and how answers come out.

use super::answer::Facts;
use super::job::Effect;
use super::member::Member;
use super::owed::{GroupFence, Listing, Owed, Question};
use super::session::{Appetite, Session, Stage};
use super::state::{self, Reach, Told};
use super::{Event, Server, Storage, noted_link, ready_link};
use crate::command::{Verb, Version};
use crate::error::{Full, PeerError};
use crate::ids::{JobId, Rank, SessionId};
use crate::parts;
use crate::storage::{Buffer, Slots};
use crate::time::Instant;
use crate::wire::{Dialect, Framed};

impl<S: Storage> Server<S> {
    /// Takes up as many messages as it may, and holds what is left if there is room.
    pub(super) fn feed(
        &mut self,
        id: SessionId,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            let taken = bytes.len() - rest.len();
            let Some(session) = self.sessions.get_mut(id.0 as usize) else {
                return Ok(bytes.len());
            };
            match (session.talk.appetite(), session.talk.stage) {
                (Appetite::Deaf, Stage::Broken(error)) => return Err(error),
                (Appetite::Deaf, _) => return Ok(bytes.len()),
                (Appetite::Full, _) => return Ok(taken + session.hold(rest)),
                (Appetite::Ready, _) => {}
            }
            let is_held = !session.inbox.as_slice().is_empty();
            let source = if is_held { session.inbox.as_slice() } else { rest };
            let dialect = Dialect::of(source, session.talk.version);
            let unread = Question::unread(Verb::Unknown, dialect);
            match dialect.frame_request(source) {
                Ok(Framed::Whole(len)) => {
                    let told = self.take_up(id, now, rest, is_held, (dialect, len))?;
                    if !is_held {
                        rest = rest.get(len..).unwrap_or(b"");
                    }
                    self.settle(id, told);
                }
                Ok(Framed::Partial) if rest.is_empty() => return Ok(bytes.len()),
                Ok(Framed::Partial) => {
                    let len = session.hold(rest);
                    rest = rest.get(len..).unwrap_or(b"");
                    if len == 0 {
                        let limit_bytes = session.inbox.as_slice().len();
                        let error = PeerError::MessageTooLong { limit_bytes };
                        return Err(session.talk.break_off(unread, error));
                    }
                }
                Err(bad) => {
                    return Err(session.talk.break_off(unread, PeerError::Malformed(bad)));
                }
            }
        }
    }

    /// Takes up the message of `len` bytes at the front of the inbox, or of `rest`.
    fn take_up(
        &mut self,
        id: SessionId,
        now: Instant,
        rest: &[u8],
        is_held: bool,
        (dialect, len): (Dialect, usize),
    ) -> Result<Told, PeerError> {
        let Some(session) = self.sessions.get_mut(id.0 as usize) else { return Ok(Told::Nothing) };
        let Session { inbox, talk } = session;
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let reach = Reach { id, jobs: &mut self.jobs, names: &mut self.names, now };
        let told = state::message(talk, reach, dialect, message);
        if parts::SPAWN
            && let Ok(Told::Spawn(_)) = told
        {
            if !is_held && inbox.extend(fresh).is_err() {
                let error = PeerError::MessageTooLong { limit_bytes: inbox.room() };
                return Err(talk.break_off(Question::unread(Verb::Spawn, dialect), error));
            }
            talk.held = Some(len);
        } else if is_held {
            inbox.drop_front(len);
        }
        told
    }

    /// Does for others, and for the owner, what a message means for them.
    fn settle(&mut self, id: SessionId, told: Told) {
        let Some((job, Some(rank))) = self.peer(id) else { return };
        let note = match told {
            Told::Nothing | Told::Job(Effect::None) => return,
            Told::Joined => Event::Joined { job, rank },
            Told::Spawn(place) => Event::Spawn { session: id, exchange: self.number(id, place) },
            Told::Job(Effect::FenceEnded) => return self.release(job),
            Told::Job(Effect::RingEnded) if !parts::CIRCLES => return,
            Told::Job(Effect::RingEnded) => {
                if let Some(job) = self.jobs.get_mut(job.0 as usize) {
                    job.end_ring();
                }
                return self.wake_all(job);
            }
            Told::Job(Effect::GroupEntered(_)) if !parts::GROUPS => return,
            Told::Job(Effect::GroupEntered(group)) => return self.release_group(job, group),
            Told::Job(Effect::NodePut) if !parts::FRAMES => return,
            Told::Job(Effect::NodePut) => return self.wake_all(job),
            Told::Job(Effect::FenceHandedUp) => {
                let generation = self.job(job).map_or(0, |job| job.fence().generation());
                Event::FenceHandedUp { job, generation }
            }
            Told::Job(Effect::PutTwice { key, first }) => {
                Event::PutTwice { job, key, first, second: rank }
            }
            Told::Job(Effect::Abort { code, world, message }) => {
                Event::Aborted { job, rank, code, world, message }
            }
        };
        if let Some(session) = self.sessions.get_mut(id.0 as usize) {
            session.talk.note = Some(note);
        }
        self.noted.push(&mut self.sessions, id.0, noted_link::<S>);
    }

    /// Numbers a spawn. The number of its session and its place in it are soon somebody else's.
    fn number(&mut self, id: SessionId, place: usize) -> usize {
        self.spawns = self.spawns.wrapping_add(1);
        let session = self.sessions.get_mut(id.0 as usize);
        if let Some(waits) = session.and_then(|session| session.talk.exchanges.get_mut(place)) {
            waits.owed = Owed::Spawn(self.spawns);
        }
        self.spawns as usize
    }

    pub(super) fn release(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(id.0 as usize) {
            job.end_fence();
        }
        self.wake_all(id);
    }

    /// Ends the fence of a group if everybody is in it: its members are found by what they are
    /// owed, so a fence of any group needs no memory of its own.
    fn release_group(&mut self, id: JobId, group: GroupFence) {
        let Some(job) = self.jobs.get_mut(id.0 as usize) else { return };
        let sessions = &self.sessions;
        let is_in = |session: Option<SessionId>| {
            let talk = &sessions.get(session?.0 as usize)?.talk;
            talk.exchanges().find(|(_, waits)| waits.owed == Owed::Group(group)).map(|(at, _)| at)
        };
        let entered = job.members().iter().filter(|member| is_in(member.session()).is_some());
        if entered.count() < group.size as usize {
            return;
        }
        job.show_puts(|member| is_in(member.session()).is_some());
        job.forget_group(&group);
        for rank in 0..job.size() {
            let Some(session) = job.member(Rank(rank)).and_then(Member::session) else { continue };
            let Some(Session { talk, .. }) = self.sessions.get_mut(session.0 as usize) else {
                continue;
            };
            let found = talk.exchanges().find(|(_, waits)| waits.owed == Owed::Group(group));
            let Some(at) = found.map(|(at, _)| at) else { continue };
            if let Some(waits) = talk.exchanges.get_mut(at) {
                waits.owed = Owed::Released(group.tag);
            }
            self.ready.push(&mut self.sessions, session.0, ready_link::<S>);
        }
    }

    fn wake_all(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id.0 as usize) else { return };
        for session in job.members().iter().filter_map(Member::session) {
            self.ready.push(&mut self.sessions, session.0, ready_link::<S>);
        }
    }

    pub(super) fn transmit(
        &mut self,
        id: SessionId,
        out: &mut [u8],
    ) -> Result<Option<usize>, Full> {
        let Some(Session { talk, .. }) = self.sessions.get_mut(id.0 as usize) else {
            return Ok(None);
        };
        let Some(job) = self.jobs.get(talk.job.0 as usize) else { return Ok(None) };
        let rank = talk.rank.unwrap_or(Rank(u32::MAX));
        let nonce =
            talk.challenge.as_ref().map_or(&b""[..], |challenge| challenge.nonce().as_bytes());
        let has_tags = talk.version == Some(Version::V1_2);
        let mut facts = Facts { job, names: &self.names, rank, nonce, has_tags, other: None };
        let due = talk.exchanges().find(|(_, exchange)| facts.is_due(&exchange.owed));
        let Some((at, exchange)) = due else { return Ok(None) };
        if (parts::CIRCLES || parts::SPAWN)
            && let Owed::Spawned(Ok(other), _)
            | Owed::Foreign(other, _)
            | Owed::All(Listing { job: other, .. }) = exchange.owed
        {
            facts.other = self.jobs.get(other.0 as usize);
        }
        let len = facts.write(exchange, out)?;
        let rest = if parts::CIRCLES { facts.rest(&exchange.owed) } else { None };
        let signal = match exchange.owed {
            Owed::Notice(_) if parts::DIAL => job.listener(id).and_then(|(rank, listener)| {
                Some(Event::Signal { job: talk.job, rank, signal: listener.signal.clone()? })
            }),
            _ => None,
        };
        match (rest, talk.exchanges.get_mut(at)) {
            (Some(rest), Some(exchange)) => exchange.owed = rest,
            _ => drop(talk.exchanges.remove(at)),
        }
        if signal.is_some() {
            talk.note = signal;
            self.noted.push(&mut self.sessions, id.0, noted_link::<S>);
        }
        Ok(Some(len))
    }
}
