//! How bytes go in, what they set off, and how answers come out.

use super::answer::Facts;
use super::job::Effect;
use super::member::Member;
use super::owed::{Exchange, Listing, Owed, Question};
use super::session::{Appetite, Session, Stage};
use super::state::{self, Reach, Told};
use super::{Event, NOTED, READY, Server, Storage, push};
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
            match dialect.frame_request(source) {
                Ok(Framed::Whole(len)) => {
                    let told = self.take_up(id, now, rest, is_held, (dialect, len));
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
                        session.talk.give_up(dialect, PeerError::MessageTooLong { limit_bytes });
                    }
                }
                Err(bad) => {
                    session.talk.give_up(dialect, PeerError::Malformed(bad));
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
    ) -> Told {
        let Some(session) = self.sessions.get_mut(id.0 as usize) else { return Told::NOTHING };
        let Session { inbox, talk } = session;
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let (jobs, names, spawns) = (&mut self.jobs, &mut self.names, &mut self.spawns);
        let reach = Reach { id, jobs, names, spawns, now };
        let told = state::message(talk, reach, dialect, message);
        if parts::SPAWN && talk.held.is_some() {
            if !is_held && inbox.extend(fresh).is_err() {
                (talk.held, talk.note) = (None, None);
                let error = PeerError::MessageTooLong { limit_bytes: inbox.room() };
                talk.break_off(Question::unread(Verb::Spawn, dialect), error);
            }
        } else if is_held {
            inbox.drop_front(len);
        }
        told
    }

    /// Does for others, and for the owner, what a message means for them.
    fn settle(&mut self, id: SessionId, told: Told) {
        let Some(Session { talk, .. }) = self.sessions.get(id.0 as usize) else { return };
        let job = talk.job;
        if talk.note.is_some() {
            push::<S>(&mut self.queues, &mut self.sessions, NOTED, id.0);
        }
        match told.effect {
            Effect::FenceEnded => self.release(job),
            Effect::RingEnded if parts::CIRCLES => {
                if let Some(job) = self.jobs.get_mut(job.0 as usize) {
                    job.end_ring();
                }
                self.wake_all(job);
            }
            Effect::GroupEntered if parts::GROUPS => self.release_group(job, id, told.at),
            Effect::NodePut if parts::FRAMES => self.wake_all(job),
            #[cfg(feature = "pmix")]
            Effect::Published => self.has_new_names = true,
            _ => {}
        }
    }

    pub(super) fn release(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(id.0 as usize) {
            job.end_fence();
        }
        self.wake_all(id);
    }

    /// Ends the fence of the group that a session has entered if everybody is in it: its members are
    /// found by what they are owed, so a fence of any group needs no memory of its own.
    fn release_group(&mut self, id: JobId, session: SessionId, at: usize) {
        let entered = self.sessions.get(session.0 as usize).and_then(|s| s.talk.exchanges.get(at));
        let Some(&Exchange { owed: Owed::Group(group), .. }) = entered else { return };
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
            push::<S>(&mut self.queues, &mut self.sessions, READY, session.0);
        }
    }

    fn wake_all(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id.0 as usize) else { return };
        for session in job.members().iter().filter_map(Member::session) {
            push::<S>(&mut self.queues, &mut self.sessions, READY, session.0);
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
        let has_tags = parts::GROUPS && talk.version == Some(Version::V1_2);
        let mut facts = Facts { job, names: &self.names, rank, nonce, has_tags, other: None };
        let is_due = |exchange: &Exchange| facts.is_due(&exchange.owed) && !talk.is_early(exchange);
        let due = talk.exchanges().find(|(_, exchange)| is_due(exchange));
        let Some((at, exchange)) = due else { return Ok(None) };
        if (parts::CIRCLES || parts::SPAWN)
            && let Owed::Spawned(_, Ok(other), _)
            | Owed::Foreign(other, _)
            | Owed::All(Listing { job: other, .. }) = exchange.owed
        {
            facts.other = self.jobs.get(other.0 as usize);
        }
        let len = facts.write(exchange, out)?;
        let rest = if parts::CIRCLES { facts.rest(exchange) } else { None };
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
            push::<S>(&mut self.queues, &mut self.sessions, NOTED, id.0);
        }
        Ok(Some(len))
    }
}
