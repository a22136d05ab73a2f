//! All transitions of a session.
//!
//! | phase | `initack`, `fullinit` | `init` | other requests | `finalize` | `abort` | end of stream |
//! |---|---|---|---|---|---|---|
//! | Fresh, Declined, member | identity | → Open, or → Declined | sizes and names: answered; others: refused | → Leaving | → Ended, event | → Ended |
//! | Fresh, Declined, unidentified | identifies | 2.0: → Open; 1.x → Broken; else → Declined | → Broken | → Broken | → Broken | → Ended |
//! | Open, unidentified | identifies | answered again | → Broken | → Broken | → Broken | → Ended |
//! | Open, member | identity | answered again | answered by the job | → Leaving | → Ended, event | → Ended, LeftEarly |
//! | Listening, Leaving, Broken, Ended | – | – | – | – | – | → Ended |
//!
//! A peer becomes a member by its identification. With `init_oob` it becomes Listening instead: the
//! second connection of a member, for notices of the server. A refused request leaves the phase
//! unchanged, and so does `init` with an unsupported version once the session is Open; before, it leads to
//! Declined, since the specification allows the peer to try another one. Only a peer that ends there
//! has failed. Malformed bytes and an unexpected peer lead to Broken: the peer receives one error and the
//! link is closed.

use super::Event;
use super::job::{Job, RequestContext};
use super::member::{Member, MemberListener, Phase};
use super::outcome::{PutTwice, Wake};
use super::pmi_session::{ClaimedRank, PmiSessionState};
use super::response::{PendingProof, PendingReply, RequestHeader, Response};
use super::services::{
    check_preputs, check_publish, connect, get_all, get_foreign, look_up, publish, unpublish,
};
use super::session::SessionPhase;
use crate::auth::{AuthMessage, AuthStep};
use crate::command::{Place, Reason, Request, Text, Verb, Version};
use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, Key, ProcId, Rank, SessionId, Tag, Word};
use crate::parts::{self, PartOption};
use crate::storage::Slots;
use crate::store::Kvs;
use crate::time::Instant;
use crate::wire::pmi2::{FrameStyle, TORN_VALUE};
use crate::wire::{Dialect, RequestMessage, names, quirks};

/// Server state that a message may modify besides its session.
pub(super) struct Context<'a, J, K> {
    pub(super) id: SessionId,
    pub(super) jobs: &'a mut J,
    pub(super) names: &'a mut K,
    /// The number of spawn requests so far.
    pub(super) spawns: &'a mut u32,
    /// True for the name of a signal that the system has.
    pub(super) has_signal: fn(&[u8]) -> bool,
    pub(super) now: Instant,
}

/// Newest supported version.
const NEWEST: Version = match (parts::PMI2, parts::GROUPS) {
    (true, _) => Version::V2_0,
    (false, true) => Version::V1_2,
    (false, false) => Version::V1_1,
};

/// True if requests can have names; in PMI-1 lines they have none.
const HAS_TAGS: bool = parts::PMI2 || parts::BINARY;

/// Handles one whole message. A failure of the peer that ends the session is set as its phase.
pub(super) fn handle_message<K, M, J, X>(
    state: &mut PmiSessionState<X>,
    mut context: Context<'_, J, K>,
    dialect: Dialect,
    bytes: &[u8],
) -> Wake
where
    K: Kvs,
    M: AsRef<[Member]> + AsMut<[Member]>,
    J: Slots<Job<K, M>>,
    X: Slots<PendingReply>,
{
    let RequestMessage { tag, request } = match dialect.read_request(bytes) {
        Ok(said) => said,
        Err(bad) => return state.fail_unread((Verb::Unknown, dialect), PeerError::Malformed(bad)),
    };
    let Some(request) = request else { return Wake::None };
    let verb = request.verb();
    let Ok(tag) = (if HAS_TAGS { Tag::new(tag) } else { Ok(Tag::EMPTY) }) else {
        // An answer with another tag would be taken for that of another request.
        let error = PeerError::MessageTooLong { limit_bytes: crate::limits::TAG_BYTES };
        return state.fail_unread((verb, dialect), error);
    };
    if parts::PMI2 && verb == Verb::FullInit && dialect == Dialect::Frames(FrameStyle::Specified) {
        state.protocol.follows_text = true;
    }
    let header = RequestHeader { verb, tag, dialect };
    let Some(rank) = state.protocol.rank else {
        // Without this part no peer can be identified.
        return if parts::LISTEN {
            state.identify_peer(&mut context, header, &request, bytes.len())
        } else {
            Wake::None
        };
    };
    let own = state.protocol.job;
    let Some(job) = context.jobs.get_mut(own.0 as usize) else { return Wake::None };
    job.record_message(rank, verb, context.now);
    if parts::PMI2
        && let Request::FullInit { threaded, .. } = request
    {
        state.protocol.is_threaded = threaded;
    }
    let mut reply = Response::Done;
    let response = &mut reply;
    match (state.lifecycle.phase, &request) {
        (_, Request::FullInit { rank: Some(claimed), .. }) if parts::PMI2 && *claimed != rank.0 => {
            response.refuse(&Reason::Lacking { field: "the caller's own rank in pmirank" });
        }
        (_, Request::FullInit { job: Some(named), .. })
            if parts::PMI2 && !quirks::is_job(*named, job.name().as_bytes()) =>
        {
            response.refuse(&Reason::NoSuch { what: "job" });
        }
        (_, Request::InitAck { .. } | Request::FullInit { .. }) if parts::LISTEN || parts::PMI2 => {
            *response = Response::Identity;
        }
        (_, Request::Init { version }) => {
            let [requested, newer] = quirks::NEWER_THAN_REQUESTED;
            let asked = match job.member(rank) {
                Some(member) if parts::GROUPS && member.accepts_newer && *version == requested => {
                    newer
                }
                _ => *version,
            };
            let Some(agreed) = state.agree(asked, dialect) else {
                return state.decline(header, *version);
            };
            job.advance(rank, Phase::Open);
            *response = Response::Version(agreed);
        }
        (_, Request::Finalize) => {
            job.advance(rank, Phase::Finalized);
            state.lifecycle.phase = SessionPhase::Leaving;
        }
        (_, Request::Lacking { field: TORN_VALUE, .. }) if parts::PMI2 => {
            response.refuse(&Reason::TornValue);
        }
        (_, Request::Lacking { field, .. }) => response.refuse(&Reason::Lacking { field }),
        (_, Request::Unknown { word }) => {
            response.refuse_about(&Reason::NotSupported { word: b"" }, word);
        }
        (SessionPhase::Fresh | SessionPhase::Declined(_), request)
            if !may_precede_init(request) =>
        {
            response.refuse(&Reason::OutOfOrder { expected: "init" });
        }
        (_, Request::Abort { code, world, message }) => {
            let (code, world, message) = (*code, *world, excerpt(*message));
            state.lifecycle.event = Some(Event::Aborted { job: own, rank, code, world, message });
            // There is no answer, and some clients send further requests at once.
            state.lifecycle.phase = SessionPhase::Ended;
            if parts::SPAWN {
                // Its text stays in the inbox, since it may be longer than the event.
                state.lifecycle.held_len = Some(bytes.len());
            }
            job.advance(rank, Phase::Lost);
            return Wake::None;
        }
        (_, Request::Spawn(spawn)) if parts::SPAWN => {
            if let Some(refused) = check_preputs(*spawn, rank) {
                *response = refused;
            } else if spawn.programs().next().is_some() {
                // The numbers of a session and of its slots are reused.
                *context.spawns = context.spawns.wrapping_add(1);
                let response = Response::Spawn(*context.spawns);
                state.push_request(PendingReply { header, response });
                let number = *context.spawns as usize;
                state.lifecycle.event =
                    Some(Event::Spawn { session: context.id, exchange: number });
                // The request stays in the inbox until the owner has read it.
                state.lifecycle.held_len = Some(bytes.len());
                return Wake::None;
            } else {
                response.refuse(&Reason::Lacking { field: "program" });
            }
        }
        (_, Request::Publish { .. } | Request::Unpublish { .. } | Request::Lookup { .. })
            if parts::NAMES && job.hands_names_up() =>
        {
            let refused = match request {
                Request::Publish { service, port } => check_publish(service, port, rank),
                _ => None,
            };
            let Some(refused) = refused else {
                *context.spawns = context.spawns.wrapping_add(1);
                let (session, number) = (context.id, *context.spawns);
                state.push_request(PendingReply { header, response: Response::Head(number) });
                let exchange = number as usize;
                state.lifecycle.event = Some(Event::NameRequested { session, exchange });
                // The request stays in the inbox until it is answered.
                state.lifecycle.held_len = Some(bytes.len());
                return Wake::None;
            };
            *response = refused;
        }
        (_, Request::Publish { service, port }) if parts::NAMES => {
            *response = publish(context.names, *service, *port, ProcId { job: own, rank });
        }
        (_, Request::Unpublish { service }) if parts::NAMES => {
            *response = unpublish(context.names, *service);
        }
        (_, Request::Lookup { service }) if parts::NAMES => {
            *response = look_up(context.names, *service);
        }
        (_, Request::Connect { job: name } | Request::Disconnect { job: name })
            if parts::CONNECT =>
        {
            let is_connect = matches!(request, Request::Connect { .. });
            if parts::NODES && job.is_over_nodes() {
                return state.hand_up_connection(&mut context, header, *name, is_connect);
            }
            *response = connect(context.jobs, own, *name, is_connect);
        }
        (_, Request::GetAll { job }) if parts::CONNECT => {
            *response = get_all(context.jobs, ProcId { job: own, rank }, *job);
        }
        (_, Request::PutAll { job, pairs }) if parts::CONNECT => {
            return state.start_put_all(context.jobs, header, *job, *pairs);
        }
        (_, Request::PutPair { key, value }) if parts::CONNECT => {
            return state.put_pair(&mut context, header, (*key, *value), bytes.len());
        }
        (_, Request::Get { place: Place::Job(Some(name)), key, .. })
            if parts::CONNECT && *name != *job.name().as_bytes() =>
        {
            *response = get_foreign(context.jobs, own, *name, *key);
        }
        (_, request) => {
            let now = context.now;
            let outcome = job.request(RequestContext { rank, now }, request);
            if let Some(twice) = outcome.event {
                state.lifecycle.event = put_twice(own, job, twice);
            }
            state.push_request(PendingReply { header, response: outcome.reply });
            return outcome.wake;
        }
    }
    state.push_request(PendingReply { header, response: reply });
    // PMIx clients may wait for the name.
    #[cfg(feature = "pmix")]
    if let Request::Publish { .. } = request {
        return Wake::Published;
    }
    Wake::None
}

/// Handles the end of the stream.
///
/// # Errors
///
/// [`PeerError::LeftEarly`] after `init` and before `finalize`, [`PeerError::Version`] if no version was
/// agreed on.
pub(super) fn handle_end<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>, X: Slots<PendingReply>>(
    state: &mut PmiSessionState<X>,
    job: Option<&mut Job<K, M>>,
) -> Result<(), PeerError> {
    let was = core::mem::replace(&mut state.lifecycle.phase, SessionPhase::Ended);
    match (was, state.protocol.rank, job) {
        (SessionPhase::Open, Some(rank), Some(job)) => {
            job.advance(rank, Phase::Lost);
            Err(PeerError::LeftEarly)
        }
        (SessionPhase::Fresh, Some(rank), Some(job)) => {
            job.mark_disconnected(rank);
            Ok(())
        }
        (SessionPhase::Declined(asked), Some(rank), Some(job)) => {
            job.mark_disconnected(rank);
            Err(unsupported_version(asked))
        }
        _ => Ok(()),
    }
}

impl<X: Slots<PendingReply>> PmiSessionState<X> {
    /// Fails the session because of a protocol error, and queues the explanation.
    pub(super) fn fail(&mut self, header: RequestHeader, error: PeerError) -> Wake {
        let reason = match error {
            PeerError::Malformed(bad) => Reason::Malformed { at: bad.at, expected: bad.expected },
            PeerError::MessageTooLong { limit_bytes } => {
                Reason::Malformed { at: limit_bytes, expected: "the end of a message" }
            }
            PeerError::Version { .. } => {
                let rank = self.protocol.rank.map(|rank| rank.0);
                Reason::Version { newest: (NEWEST.major, NEWEST.minor), rank }
            }
            // Failures of unidentified peers only.
            PeerError::OutOfOrder { expected, .. } if parts::LISTEN => {
                Reason::OutOfOrder { expected }
            }
            PeerError::NotOffered { what } if parts::LISTEN => Reason::NotOffered { what },
            PeerError::UnknownPeer { .. } if parts::LISTEN => Reason::NoSuch { what: "rank" },
            PeerError::AlreadyConnected { .. } if parts::LISTEN => {
                Reason::Exists { what: "a session of this rank" }
            }
            PeerError::TimedOut if parts::LISTEN => {
                Reason::OutOfOrder { expected: "initack in time" }
            }
            _ => Reason::Unproven,
        };
        self.push_request(PendingReply { header, response: Response::refused(reason) });
        self.lifecycle.fail(error);
        Wake::None
    }

    /// Fails the session because of a message that was not read, and queues the explanation as the answer to
    /// `verb`.
    #[inline(never)]
    pub(super) fn fail_unread(
        &mut self,
        (verb, dialect): (Verb, Dialect),
        error: PeerError,
    ) -> Wake {
        self.fail(RequestHeader::unread(verb, dialect), error)
    }

    /// Identifies the peer: in PMI-1 by `initack`, in PMI-2 by `fullinit`, before which only the
    /// versions are negotiated.
    fn identify_peer<K, M, J>(
        &mut self,
        context: &mut Context<'_, J, K>,
        header: RequestHeader,
        request: &Request<'_>,
        len: usize,
    ) -> Wake
    where
        K: Kvs,
        M: AsRef<[Member]> + AsMut<[Member]>,
        J: Slots<Job<K, M>>,
    {
        // A rank of a spawned job connects to the same listener, with a number of its own.
        if let Request::InitAck { id } = *request
            && let Some(found) = find_by_token(&*context.jobs, self.protocol.job, id)
        {
            self.protocol.job = found.job;
        }
        let Some(job) = context.jobs.get_mut(self.protocol.job.0 as usize) else {
            return Wake::None;
        };
        if let Request::FullInit { job: Some(named), .. } = *request
            && !quirks::is_job(named, job.name().as_bytes())
        {
            return self.fail(header, PeerError::NotOffered { what: "another job" });
        }
        let claimed = match *request {
            Request::InitAck { id } => {
                let rank = job.find_token(id);
                // Rank numbers are guessable: without a token of its own, the number of a rank
                // proves nothing.
                if self.protocol.challenge.is_some()
                    && !rank.is_some_and(|rank| job.has_token(rank))
                {
                    return self.fail(header, PeerError::Unproven);
                }
                rank.ok_or(id)
            }
            Request::FullInit { rank: Some(rank), method, .. } => {
                match self.protocol.challenge.as_ref() {
                    None => in_job(job, rank),
                    Some(challenge) => {
                        let name = method.and_then(Text::as_plain).unwrap_or(b"");
                        let Some(method) = challenge.method(name) else {
                            return self.fail(header, PeerError::Unproven);
                        };
                        let claimed = ClaimedRank { rank, method, rounds: 0 };
                        self.protocol.claimed = PartOption::keep(Some(claimed));
                        self.push_request(PendingReply { header, response: Response::Challenge });
                        return Wake::None;
                    }
                }
            }
            Request::FullInit { rank: None, .. } => {
                let got = "fullinit without the number of a rank";
                let expected = "a number in pmirank";
                return self.fail(header, PeerError::OutOfOrder { got, expected });
            }
            Request::Proof { digits, is_last } => {
                // Taken, not borrowed: a nonce is valid for one proof.
                let taken = (self.protocol.challenge.take(), self.protocol.claimed.take());
                let (Some(challenge), Some(mut claimed)) = taken else {
                    return self.fail(header, PeerError::Unproven);
                };
                claimed.rounds = claimed.rounds.saturating_add(1);
                let message = AuthMessage { text: digits.as_plain().unwrap_or(b""), is_last };
                match claimed.method.handle(&challenge, claimed.rounds, message) {
                    AuthStep::Proven => in_job(job, claimed.rank),
                    AuthStep::Answer(proof) => {
                        self.protocol.challenge = PartOption::keep(Some(challenge));
                        self.protocol.claimed = PartOption::keep(Some(claimed));
                        let response = Response::Proof(PendingProof::new(proof));
                        self.push_request(PendingReply { header, response });
                        return Wake::None;
                    }
                    // A build that holds no requests has no owner that could read the credential.
                    AuthStep::Verify if parts::SPAWN => {
                        let rank = match in_job(job, claimed.rank) {
                            Ok(rank) => rank,
                            Err(id) => {
                                return self.fail(header, PeerError::UnknownPeer { id: Some(id) });
                            }
                        };
                        self.protocol.challenge = PartOption::keep(Some(challenge));
                        self.protocol.claimed = PartOption::keep(Some(claimed));
                        *context.spawns = context.spawns.wrapping_add(1);
                        let (session, number) = (context.id, *context.spawns);
                        self.push_request(PendingReply {
                            header,
                            response: Response::Verdict(number),
                        });
                        let (job, exchange) = (self.protocol.job, number as usize);
                        self.lifecycle.event =
                            Some(Event::CredentialGiven { session, exchange, job, rank });
                        // The credential stays in the inbox until the owner has answered.
                        self.lifecycle.held_len = Some(len);
                        return Wake::None;
                    }
                    AuthStep::Verify | AuthStep::Rejected => {
                        return self.fail(header, PeerError::Unproven);
                    }
                }
            }
            Request::OutOfBand { id, signal, version } => {
                let found = match id {
                    Some(id) => find_by_token(context.jobs, self.protocol.job, id),
                    // The specification has no identity here; that of the only rank is known.
                    None if job.size() == 1 => {
                        Some(ProcId { job: self.protocol.job, rank: Rank(0) })
                    }
                    None => None,
                };
                let has_token = |ProcId { job, rank }: ProcId| {
                    context.jobs.get(job.0 as usize).is_some_and(|job| job.has_token(rank))
                };
                if self.protocol.challenge.is_some() && !found.is_some_and(has_token) {
                    return self.fail(header, PeerError::Unproven);
                }
                let Some(ProcId { job: found, rank }) = found else {
                    return self.fail(header, PeerError::UnknownPeer { id });
                };
                if signal.is_some_and(|name| !(context.has_signal)(name.as_plain().unwrap_or(b"")))
                {
                    let what = "a signal of this name";
                    return self.fail(header, PeerError::NotOffered { what });
                }
                self.protocol.job = found;
                let Some(job) = context.jobs.get_mut(found.0 as usize) else {
                    return Wake::None;
                };
                let signal = signal.map(|signal| Word::new(signal.as_plain().unwrap_or(b"")));
                let listener = MemberListener { session: context.id, version, signal };
                job.listen(rank, listener);
                self.lifecycle.phase = SessionPhase::Listening;
                self.lifecycle.deadline = None;
                self.push_request(PendingReply { header, response: Response::Version(version) });
                return Wake::None;
            }
            Request::Init { version } if version.major != 1 => {
                let Some(agreed) = self.agree(version, header.dialect) else {
                    return self.decline(header, version);
                };
                self.push_request(PendingReply { header, response: Response::Version(agreed) });
                return Wake::None;
            }
            _ => {
                let got = names::display_name(header.verb);
                let expected = if self.protocol.version.is_some() { "fullinit" } else { "initack" };
                return self.fail(header, PeerError::OutOfOrder { got, expected });
            }
        };
        let rank = match claimed {
            Ok(rank) => rank,
            Err(id) => return self.fail(header, PeerError::UnknownPeer { id: Some(id) }),
        };
        self.join(job, header, ProvenRank { rank, session: context.id, now: context.now })
    }

    /// Makes the peer a member of its job, and answers its identification.
    pub(super) fn join<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
        &mut self,
        job: &mut Job<K, M>,
        header: RequestHeader,
        proven: ProvenRank,
    ) -> Wake {
        let ProvenRank { rank, session, now } = proven;
        if job.connect(rank, session).is_none() {
            return self.fail(header, PeerError::AlreadyConnected { rank: rank.0 });
        }
        if self.lifecycle.phase == SessionPhase::Open {
            job.advance(rank, Phase::Open);
        }
        job.record_message(rank, header.verb, now);
        self.protocol.rank = Some(rank);
        self.lifecycle.deadline = None;
        // The proof completes the opening, so it is the opening that is answered.
        let verb = if header.verb == Verb::Proof { Verb::FullInit } else { header.verb };
        self.push_request(PendingReply {
            header: RequestHeader { verb, ..header },
            response: Response::Identity,
        });
        self.lifecycle.event = Some(Event::Joined { job: self.protocol.job, rank });
        Wake::None
    }

    /// Refuses a version, and names the newest one. The peer may request another one, except in the binary
    /// dialect, which has one version, and in a build of PMI-1 alone, where every client begins with that.
    fn decline(&mut self, header: RequestHeader, asked: Version) -> Wake {
        if !parts::PMI2 || parts::BINARY && header.dialect == Dialect::Binary {
            return self.fail(header, unsupported_version(asked));
        }
        let rank = self.protocol.rank.map(|rank| rank.0);
        let reason = Reason::Version { newest: (NEWEST.major, NEWEST.minor), rank };
        self.push_request(PendingReply { header, response: Response::refused(reason) });
        if matches!(self.lifecycle.phase, SessionPhase::Fresh) {
            self.lifecycle.phase = SessionPhase::Declined(asked);
        }
        Wake::None
    }

    /// Negotiates a version: the highest that both ends support, if any.
    fn agree(&mut self, asked: Version, dialect: Dialect) -> Option<Version> {
        let is_own = parts::BINARY && dialect == Dialect::Binary;
        let agreed = match asked {
            // Clients of the binary dialect support no other version, and other clients cannot
            // request it.
            Version::BINARY if is_own => Version::BINARY,
            _ if is_own || asked == Version::BINARY => return None,
            // The version requested, capped: Flux's client rejects 1.2.
            Version { major: 1, minor: 0 | 1 } => Version::V1_1,
            Version { major: 1, .. } if parts::GROUPS => Version::V1_2,
            Version { major: 1, .. } => Version::V1_1,
            Version { major: 2, .. } if parts::PMI2 => NEWEST,
            _ => return None,
        };
        self.lifecycle.phase = SessionPhase::Open;
        self.protocol.version = Some(agreed);
        Some(agreed)
    }
}

/// Rank that a peer has proved.
pub(super) struct ProvenRank {
    pub(super) rank: Rank,
    pub(super) session: SessionId,
    /// Time of the proof.
    pub(super) now: Instant,
}

/// Error of a peer that requests an unsupported version.
const fn unsupported_version(asked: Version) -> PeerError {
    PeerError::Version { major: asked.major, minor: asked.minor }
}

/// The rank, if the job has it.
fn in_job<K, M: AsRef<[Member]>>(job: &Job<K, M>, rank: u32) -> Result<Rank, u64> {
    if job.member(Rank(rank)).is_some() { Ok(Rank(rank)) } else { Err(u64::from(rank)) }
}

/// The event of a key that two members have put.
fn put_twice<K: Kvs, M>(own: JobId, job: &Job<K, M>, twice: PutTwice) -> Option<Event> {
    let PutTwice { entry, first, second } = twice;
    let key = Key::copy(job.kvs.entry(entry)?.key);
    Some(Event::PutTwice { job: own, key, first, second })
}

/// Finds the member with this token: of the job whose address the peer used, or of another job
/// whose members have tokens of their own.
fn find_by_token<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    home: JobId,
    id: u64,
) -> Option<ProcId> {
    let of = |job: JobId| Some(ProcId { job, rank: jobs.get(job.0 as usize)?.find_token(id)? });
    let has_token = |&ProcId { job, rank }: &ProcId| {
        jobs.get(job.0 as usize).is_some_and(|job| job.has_token(rank))
    };
    let ids = 0..u32::try_from(jobs.end()).unwrap_or(u32::MAX);
    of(home).or_else(|| ids.map(JobId).filter_map(of).find(has_token))
}

/// Excerpt of a message of a member. Only PMI-2 frames double bytes.
fn excerpt(text: Text<'_>) -> Excerpt {
    match text.as_plain() {
        None if parts::PMI2 => Excerpt::new(text.bytes()),
        plain => Excerpt::new(plain.unwrap_or(b"").iter().copied()),
    }
}

/// True for requests that known servers answer before `init` and some clients send then.
const fn may_precede_init(request: &Request<'_>) -> bool {
    use Request::{Abort, AppNum, KvsName, Maxes, UniverseSize};
    matches!(request, Maxes | AppNum | UniverseSize | KvsName | Abort { .. })
}
