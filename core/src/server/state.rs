//! All transitions of the server's side of a conversation.
//!
//! | stage | `initack`, `fullinit` | `init` | other questions | `finalize` | `abort` | end of stream |
//! |---|---|---|---|---|---|---|
//! | Fresh, member | who it is | → Open | sizes and names: answered; the rest: refused | → Leaving | → Ended, told | → Ended |
//! | Fresh, caller | joins | 2.0: → Open; else → Broken | → Broken | → Broken | → Broken | → Ended |
//! | Open, caller | joins | answered again | → Broken | → Broken | → Broken | → Ended |
//! | Open, member | who it is | answered again | answered by the job | → Leaving | → Ended, told | → Ended, LeftEarly |
//! | Listening, Leaving, Broken, Ended | – | – | – | – | – | → Ended |
//!
//! A caller becomes a member when it has said who it is. With `init_oob` it becomes Listening
//! instead: the second connection of a member, on which only the server speaks.
//! A refused question leaves the stage as it is: the mistake of one call is told to that call.
//! `init` with a version that nobody speaks, bytes that are no message, and a caller that is not
//! expected lead to Broken: the peer is told once and the link is closed.

use super::Event;
use super::job::{Effect, Job, Turn};
use super::member::{Listener, Member, Phase};
use super::owed::{Exchange, Owed, Question};
use super::services::{connect, get_all, get_foreign, look_up, publish, reachable, unpublish};
use super::session::{Announced, Stage, Talk};
use crate::auth;
use crate::command::{Place, Reason, Request, Text, Verb, Version};
use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, Rank, SessionId, Tag, Word};
use crate::parts;
use crate::storage::Slots;
use crate::store::Kvs;
use crate::time::Instant;
use crate::wire::{Dialect, Said, names};

/// What a message may touch besides its own session.
pub(super) struct Reach<'a, J, K> {
    pub(super) id: SessionId,
    pub(super) jobs: &'a mut J,
    pub(super) names: &'a mut K,
    /// How many spawns were asked for.
    pub(super) spawns: &'a mut u32,
    pub(super) now: Instant,
}

/// What a message leads to outside its session, besides what the owner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) effect: Effect,
    /// Where what is owed for the message stands among the exchanges.
    pub(super) at: usize,
}

impl Told {
    pub(super) const NOTHING: Self = Self { effect: Effect::None, at: 0 };
}

/// The newest version that is spoken here.
const NEWEST: Version = match (parts::FRAMES, parts::GROUPS) {
    (true, _) => Version::V2_0,
    (false, true) => Version::V1_2,
    (false, false) => Version::V1_1,
};

/// Whether exchanges have names: in lines they have none.
const HAS_TAGS: bool = parts::FRAMES || parts::OWN_FRAMES;

/// Takes up one whole message. If the peer did something that ends the session, its stage says so.
pub(super) fn message<K, M, J, X>(
    talk: &mut Talk<X>,
    mut reach: Reach<'_, J, K>,
    dialect: Dialect,
    bytes: &[u8],
) -> Told
where
    K: Kvs,
    M: AsRef<[Member]> + AsMut<[Member]>,
    J: Slots<Job<K, M>>,
    X: Slots<Exchange>,
{
    let Said { tag, request } = match dialect.read_request(bytes) {
        Ok(said) => said,
        Err(bad) => return talk.give_up(dialect, PeerError::Malformed(bad)),
    };
    let Some(request) = request else { return Told::NOTHING };
    let verb = request.verb();
    let Ok(tag) = Tag::new(if HAS_TAGS { tag } else { b"" }) else {
        // An answer with another name would be taken for another's.
        let error = PeerError::MessageTooLong { limit_bytes: crate::limits::TAG_BYTES };
        return talk.break_off(Question::unread(verb, dialect), error);
    };
    let mut exchange = Exchange { question: Question { verb, tag, dialect }, owed: Owed::Done };
    let Some(rank) = talk.rank else {
        // Nobody can be let in without it.
        return if parts::DIAL {
            talk.greet(&mut reach, exchange.question, &request)
        } else {
            Told::NOTHING
        };
    };
    let own = talk.job;
    let Some(job) = reach.jobs.get_mut(own.0 as usize) else { return Told::NOTHING };
    job.hear(rank, verb, reach.now);
    if parts::FRAMES
        && let Request::FullInit { threaded, .. } = request
    {
        talk.is_threaded = threaded;
    }
    let owed = &mut exchange.owed;
    let mut effect = Effect::None;
    match (talk.stage, &request) {
        (_, Request::FullInit { rank: Some(claimed), .. })
            if parts::FRAMES && *claimed != rank.0 =>
        {
            owed.refuse(&Reason::Lacking { field: "the caller's own rank in pmirank" });
        }
        (_, Request::InitAck { .. } | Request::FullInit { .. }) if parts::DIAL || parts::FRAMES => {
            *owed = Owed::Identity;
        }
        (_, Request::Init { version }) => {
            let Some(agreed) = talk.agree(*version, dialect) else {
                return talk.break_off(exchange.question, unspoken(*version));
            };
            job.advance(rank, Phase::Open);
            *owed = Owed::Version(agreed);
        }
        (_, Request::Finalize) => {
            job.advance(rank, Phase::Finalized);
            talk.stage = Stage::Leaving;
        }
        (_, Request::Lacking { field, .. }) => owed.refuse(&Reason::Lacking { field }),
        (_, Request::Unknown { word }) => {
            owed.refuse_about(&Reason::NotSupported { word: b"" }, word);
        }
        (Stage::Fresh, request) if !may_precede_init(request) => {
            owed.refuse(&Reason::OutOfOrder { expected: "init" });
        }
        (_, Request::Abort { code, world, message }) => {
            let (code, world, message) = (*code, *world, excerpt(*message));
            talk.note = Some(Event::Aborted { job: own, rank, code, world, message });
            // There is no answer, and some clients go on sending in the same breath.
            talk.stage = Stage::Ended;
            job.advance(rank, Phase::Lost);
            return Told::NOTHING;
        }
        (_, Request::Spawn(spawn)) if parts::SPAWN => {
            if spawn.programs().next().is_some() {
                // The number of the session and the place in it are soon somebody else's.
                *reach.spawns = reach.spawns.wrapping_add(1);
                talk.owe(Exchange { owed: Owed::Spawn(*reach.spawns), ..exchange });
                let number = *reach.spawns as usize;
                talk.note = Some(Event::Spawn { session: reach.id, exchange: number });
                // It stays in the inbox until the owner has seen it.
                talk.held = Some(bytes.len());
                return Told::NOTHING;
            }
            owed.refuse(&Reason::Lacking { field: "program" });
        }
        (_, Request::Publish { service, port }) if parts::NAMES => {
            *owed = publish(reach.names, *service, *port, (own, rank));
            #[cfg(feature = "pmix")]
            {
                effect = Effect::Published;
            }
        }
        (_, Request::Unpublish { service }) if parts::NAMES => {
            *owed = unpublish(reach.names, *service);
        }
        (_, Request::Lookup { service }) if parts::NAMES => {
            *owed = look_up(reach.names, *service);
        }
        (_, Request::Connect { job }) if parts::CIRCLES => {
            *owed = connect(reach.jobs, own, *job, true);
        }
        (_, Request::Disconnect { job }) if parts::CIRCLES => {
            *owed = connect(reach.jobs, own, *job, false);
        }
        (_, Request::GetAll { job }) if parts::CIRCLES => {
            *owed = get_all(reach.jobs, (own, rank), *job);
        }
        (_, Request::PutAll { job, pairs }) if parts::CIRCLES => {
            return talk.announce(reach.jobs, exchange.question, *job, *pairs);
        }
        (_, Request::PutPair { key, value }) if parts::CIRCLES => {
            return talk.take_pair(reach.jobs, exchange.question, *key, *value);
        }
        (_, Request::Get { place: Place::Job(Some(name)), key, .. })
            if parts::CIRCLES && *name != *job.name().as_bytes() =>
        {
            *owed = get_foreign(reach.jobs, own, *name, *key);
        }
        (_, request) => {
            let note = &mut talk.note;
            effect = job.request(Turn { job: own, rank, now: reach.now, owed, note }, request);
        }
    }
    Told { effect, at: talk.owe(exchange) }
}

/// Takes up the end of the stream.
///
/// Errors: [`PeerError::LeftEarly`] after `init` and before `finalize`.
pub(super) fn end<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>, X: Slots<Exchange>>(
    talk: &mut Talk<X>,
    job: Option<&mut Job<K, M>>,
) -> Result<(), PeerError> {
    let was = core::mem::replace(&mut talk.stage, Stage::Ended);
    match (was, talk.rank, job) {
        (Stage::Open, Some(rank), Some(job)) => {
            job.advance(rank, Phase::Lost);
            Err(PeerError::LeftEarly)
        }
        (Stage::Fresh, Some(rank), Some(job)) => {
            job.sever(rank);
            Ok(())
        }
        _ => Ok(()),
    }
}

impl<X: Slots<Exchange>> Talk<X> {
    /// Ends the session by the peer's fault, with an explanation owed.
    pub(super) fn break_off(&mut self, question: Question, error: PeerError) -> Told {
        let reason = match error {
            PeerError::Malformed(bad) => Reason::Malformed { at: bad.at, expected: bad.expected },
            PeerError::MessageTooLong { limit_bytes } => {
                Reason::Malformed { at: limit_bytes, expected: "the end of a message" }
            }
            PeerError::Version { .. } => {
                let rank = self.rank.map(|rank| rank.0);
                Reason::Version { newest: (NEWEST.major, NEWEST.minor), rank }
            }
            // What only a caller can do.
            PeerError::OutOfOrder { expected, .. } if parts::DIAL => {
                Reason::OutOfOrder { expected }
            }
            PeerError::UnknownPeer { .. } if parts::DIAL => Reason::NoSuch { what: "rank" },
            PeerError::AlreadyConnected { .. } if parts::DIAL => {
                Reason::Exists { what: "a session of this rank" }
            }
            PeerError::TimedOut if parts::DIAL => {
                Reason::OutOfOrder { expected: "initack in time" }
            }
            _ => Reason::Unproven,
        };
        self.owe(Exchange { question, owed: Owed::refused(reason) });
        self.stage = Stage::Broken(error);
        // Whoever has failed is not late as well: the first error stays.
        self.deadline = None;
        Told::NOTHING
    }

    /// Ends the session because of bytes that are no message.
    pub(super) fn give_up(&mut self, dialect: Dialect, error: PeerError) -> Told {
        self.break_off(Question::unread(Verb::Unknown, dialect), error)
    }

    /// A caller must say who it is: in PMI-1 with `initack`, in PMI-2 with `fullinit`, before
    /// which only the versions are agreed on.
    fn greet<K, M, J>(
        &mut self,
        reach: &mut Reach<'_, J, K>,
        question: Question,
        request: &Request<'_>,
    ) -> Told
    where
        K: Kvs,
        M: AsRef<[Member]> + AsMut<[Member]>,
        J: Slots<Job<K, M>>,
    {
        let Some(job) = reach.jobs.get_mut(self.job.0 as usize) else { return Told::NOTHING };
        let claimed = match *request {
            Request::InitAck { id } => {
                let rank = job.identified(id);
                // Without a secret of its own, a number that anybody can guess proves nothing.
                if self.challenge.is_some() && !rank.is_some_and(|rank| job.has_token(rank)) {
                    return self.break_off(question, PeerError::Unproven);
                }
                rank.ok_or(id)
            }
            Request::FullInit { rank: Some(rank), method, .. } => {
                if self.challenge.is_none() {
                    in_job(job, rank)
                } else if method.is_some_and(|method| method == *auth::METHOD) {
                    self.claimed = Some(rank);
                    self.owe(Exchange { question, owed: Owed::Challenge });
                    return Told::NOTHING;
                } else {
                    return self.break_off(question, PeerError::Unproven);
                }
            }
            Request::FullInit { rank: None, .. } => {
                let got = "fullinit without the number of a rank";
                let expected = "a number in pmirank";
                return self.break_off(question, PeerError::OutOfOrder { got, expected });
            }
            Request::Proof { digits } => {
                // Taken, not lent: a nonce is good for one answer.
                let (challenge, claimed) = (self.challenge.take(), self.claimed.take());
                let digits = digits.as_plain().unwrap_or(b"");
                match (challenge, claimed) {
                    (Some(challenge), Some(rank)) if challenge.is_met(digits) => in_job(job, rank),
                    _ => return self.break_off(question, PeerError::Unproven),
                }
            }
            Request::OutOfBand { id, signal, version } => {
                let found = id.and_then(|id| identified(reach.jobs, self.job, id));
                let has_token = |(job, rank): (JobId, Rank)| {
                    reach.jobs.get(job.0 as usize).is_some_and(|job| job.has_token(rank))
                };
                if self.challenge.is_some() && !found.is_some_and(has_token) {
                    return self.break_off(question, PeerError::Unproven);
                }
                let Some((found, rank)) = found else {
                    let id = id.unwrap_or(u64::MAX);
                    return self.break_off(question, PeerError::UnknownPeer { id });
                };
                self.job = found;
                let Some(job) = reach.jobs.get_mut(found.0 as usize) else {
                    return Told::NOTHING;
                };
                let signal = signal.map(|signal| Word::new(signal.as_plain().unwrap_or(b"")));
                let listener = Listener { session: reach.id, version, signal };
                job.listen(rank, listener);
                self.stage = Stage::Listening;
                self.deadline = None;
                self.owe(Exchange { question, owed: Owed::Version(version) });
                return Told::NOTHING;
            }
            Request::Init { version } if version.major == 2 => {
                let Some(agreed) = self.agree(version, question.dialect) else {
                    return self.break_off(question, unspoken(version));
                };
                self.owe(Exchange { question, owed: Owed::Version(agreed) });
                return Told::NOTHING;
            }
            _ => {
                let got = names::spoken(question.verb);
                let expected = if self.version.is_some() { "fullinit" } else { "initack" };
                return self.break_off(question, PeerError::OutOfOrder { got, expected });
            }
        };
        let rank = match claimed {
            Ok(rank) => rank,
            Err(id) => return self.break_off(question, PeerError::UnknownPeer { id }),
        };
        if job.connect(rank, reach.id).is_none() {
            return self.break_off(question, PeerError::AlreadyConnected { rank: rank.0 });
        }
        if self.stage == Stage::Open {
            job.advance(rank, Phase::Open);
        }
        job.hear(rank, question.verb, reach.now);
        self.rank = Some(rank);
        self.deadline = None;
        // The proof completes the opening, so it is the opening that is answered.
        let verb = if question.verb == Verb::Proof { Verb::FullInit } else { question.verb };
        self.owe(Exchange { question: Question { verb, ..question }, owed: Owed::Identity });
        self.note = Some(Event::Joined { job: self.job, rank });
        Told::NOTHING
    }

    /// A client asks for a version: it gets the highest that both ends speak, if there is one.
    fn agree(&mut self, asked: Version, dialect: Dialect) -> Option<Version> {
        let is_own = parts::OWN_FRAMES && dialect == Dialect::Own;
        let agreed = match asked {
            // Whoever speaks our frames speaks nothing else, and nobody else may ask for them.
            Version::OWN if is_own => Version::OWN,
            _ if is_own || asked == Version::OWN => return None,
            // Answered with what was asked for, capped: Flux's client refuses 1.2.
            Version { major: 1, minor: 0 | 1 } => Version::V1_1,
            Version { major: 1, .. } if parts::GROUPS => Version::V1_2,
            Version { major: 1, .. } => Version::V1_1,
            Version { major: 2, .. } if parts::FRAMES => NEWEST,
            _ => return None,
        };
        self.stage = Stage::Open;
        self.version = Some(agreed);
        Some(agreed)
    }

    /// Pairs for a space are announced; one answer comes after the last.
    fn announce<K: Kvs, M: AsRef<[Member]>>(
        &mut self,
        jobs: &impl Slots<Job<K, M>>,
        question: Question,
        name: Text<'_>,
        pairs: u32,
    ) -> Told {
        // A job that cannot be reached is told after the last pair, like every other refusal.
        let (job, owed) = match reachable(jobs, self.job, name) {
            Some(job) => (job, Owed::Done),
            None => (self.job, Owed::refused(Reason::NoSuch { what: "connected job" })),
        };
        if pairs == 0 {
            self.owe(Exchange { question, owed });
        } else {
            self.announced = Some(Announced { question, job, left: pairs, owed });
        }
        Told::NOTHING
    }

    /// One of the pairs that were announced.
    fn take_pair<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
        &mut self,
        jobs: &mut impl Slots<Job<K, M>>,
        question: Question,
        key: Text<'_>,
        value: Text<'_>,
    ) -> Told {
        let Some(mut announced) = self.announced.take() else {
            let owed = Owed::refused(Reason::OutOfOrder { expected: "kvs-putall" });
            self.owe(Exchange { question, owed });
            return Told::NOTHING;
        };
        // The first refusal holds, and nothing is stored after it.
        if announced.owed == Owed::Done {
            announced.owed = match jobs.get_mut(announced.job.0 as usize) {
                Some(job) => job.copy_in(key, value),
                None => Owed::refused(Reason::NoSuch { what: "job" }),
            };
        }
        announced.left = announced.left.saturating_sub(1);
        if announced.left == 0 {
            self.owe(Exchange { question: announced.question, owed: announced.owed });
        } else {
            self.announced = Some(announced);
        }
        Told::NOTHING
    }
}

/// What a peer has done that asks for a version that nobody speaks.
const fn unspoken(asked: Version) -> PeerError {
    PeerError::Version { major: asked.major, minor: asked.minor }
}

/// The rank, if the job has it.
fn in_job<K, M: AsRef<[Member]>>(job: &Job<K, M>, rank: u32) -> Result<Rank, u64> {
    if rank < job.size() { Ok(Rank(rank)) } else { Err(u64::from(rank)) }
}

/// Whose identity this is: somebody's of the job at whose address it was said, or of another job whose
/// members have numbers of their own.
fn identified<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    home: JobId,
    id: u64,
) -> Option<(JobId, Rank)> {
    let of = |job: JobId| Some((job, jobs.get(job.0 as usize)?.identified(id)?));
    let has_token = |(job, rank): &(JobId, Rank)| {
        jobs.get(job.0 as usize).is_some_and(|job| job.has_token(*rank))
    };
    let ids = 0..u32::try_from(jobs.end()).unwrap_or(u32::MAX);
    of(home).or_else(|| ids.map(JobId).filter_map(of).find(has_token))
}

/// The start of what a member says. Only frames double bytes.
fn excerpt(text: Text<'_>) -> Excerpt {
    match text.as_plain() {
        None if parts::FRAMES => Excerpt::new(text.bytes()),
        plain => Excerpt::new(plain.unwrap_or(b"").iter().copied()),
    }
}

/// Known servers answer these before `init`, and some clients ask.
const fn may_precede_init(request: &Request<'_>) -> bool {
    use Request::{Abort, AppNum, KvsName, Maxes, UniverseSize};
    matches!(request, Maxes | AppNum | UniverseSize | KvsName | Abort { .. })
}
