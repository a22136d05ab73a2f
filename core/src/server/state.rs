//! All transitions of the server's side of a conversation.
//!
//! | stage | `initack` | `init` | other questions | `finalize` | `abort` | end of stream |
//! |---|---|---|---|---|---|---|
//! | Fresh, member | who it is | → Open | sizes and names: answered; the rest: refused | → Leaving | → Ended, told | → Ended |
//! | Fresh, caller | joins, who it is | → Broken | → Broken | → Broken | → Broken | → Ended |
//! | Open | who it is | answered again | answered by the job | → Leaving | → Ended, told | → Broken, told |
//! | Leaving, Ended | – | – | – | – | – | → Ended |
//! | Broken | – | – | – | – | – | → Ended |
//!
//! A refused question leaves the stage as it is: the mistake of one call is told to that call.
//! `init` with a version that nobody speaks, bytes that are no message, and a caller that is not
//! expected lead to Broken: the peer is told once and the link is closed.

use super::job::{Effect, Job, Member, Outcome, Phase};
use super::owed::{Exchange, Owed};
use super::session::{Stage, Talk};
use crate::command::{Reason, Request, Spawn, Text, Verb, Version};
use crate::error::PeerError;
use crate::ids::{Key, SessionId, Tag, Word};
use crate::limits::{KEY_BYTES, VALUE_BYTES};
use crate::storage::Slots;
use crate::store::{Kvs, Shelf, Stamp};
use crate::time::Instant;
use crate::wire::{names, pmi1};

/// What a message may touch besides its own session.
pub(super) struct Reach<'a, K, M> {
    pub(super) id: SessionId,
    pub(super) job: &'a mut Job<K, M>,
    pub(super) names: &'a mut K,
    pub(super) now: Instant,
}

/// What a message leads to outside its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    /// What the job says.
    Job(Effect),
    /// A caller has said who it is.
    Joined,
    /// A spawn was read; it stays in the inbox until the owner has seen it.
    Spawn(usize),
}

/// The newest version of each generation that is spoken here.
pub(super) const NEWEST: Version = Version::V1_2;

/// Takes up one whole message.
///
/// Errors: what the peer did that ends the session; its stage says so too.
pub(super) fn message<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>, X: Slots<Exchange>>(
    talk: &mut Talk<X>,
    reach: Reach<'_, K, M>,
    bytes: &[u8],
) -> Result<Told, PeerError> {
    let request = match pmi1::read_request(bytes) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(Told::Nothing),
        Err(bad) => return Err(talk.break_off(Verb::Unknown, PeerError::Malformed(bad))),
    };
    if let Some(rank) = talk.rank {
        reach.job.hear(rank, reach.now);
    }
    let verb = request.verb();
    let Outcome { owed, effect } = match (talk.stage, talk.rank, &request) {
        (_, None, Request::InitAck { id }) => {
            let owed = talk.join(reach, *id)?;
            talk.owe(verb, Tag::default(), owed);
            return Ok(Told::Joined);
        }
        (_, None, _) => {
            let got = names::spoken(verb);
            return Err(talk.break_off(verb, PeerError::OutOfOrder { got, expected: "initack" }));
        }
        (_, Some(_), Request::InitAck { .. }) => Outcome::owed(Owed::Identity),
        (_, Some(_), Request::Init { version }) => Outcome::owed(talk.agree(reach.job, *version)?),
        (_, Some(rank), Request::Finalize) => {
            reach.job.advance(rank, Phase::Finalized);
            talk.stage = Stage::Leaving;
            Outcome::owed(Owed::Done)
        }
        (_, _, Request::Lacking { field, .. }) => {
            Outcome::owed(Owed::refused(Reason::Lacking { field }))
        }
        (_, _, Request::Unknown { word }) => {
            Outcome::owed(Owed::Refused(Reason::NotSupported { word: b"" }, Word::new(word)))
        }
        (Stage::Fresh, _, request) if !may_precede_init(request) => {
            Outcome::owed(Owed::refused(Reason::OutOfOrder { expected: "init" }))
        }
        (_, _, Request::Spawn(spawn)) => return Ok(talk.take_spawn(*spawn)),
        (_, Some(_), Request::Publish { service, port }) => {
            Outcome::owed(publish(reach.names, *service, *port, talk))
        }
        (_, _, Request::Unpublish { service }) => Outcome::owed(unpublish(reach.names, *service)),
        (_, _, Request::Lookup { service }) => Outcome::owed(look_up(reach.names, *service)),
        (_, Some(rank), request) => reach.job.request(rank, request, reach.now),
    };
    if let Effect::Abort { .. } = effect {
        // There is no answer, and some clients go on sending in the same breath.
        talk.stage = Stage::Ended;
        if let Some(rank) = talk.rank {
            reach.job.advance(rank, Phase::Lost);
        }
    }
    if let Some(owed) = owed {
        talk.owe(verb, Tag::default(), owed);
    }
    Ok(Told::Job(effect))
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
        _ => Ok(()),
    }
}

impl<X: Slots<Exchange>> Talk<X> {
    /// Ends the session by the peer's fault, with an explanation owed.
    pub(super) fn break_off(&mut self, verb: Verb, error: PeerError) -> PeerError {
        let reason = match error {
            PeerError::Malformed(bad) => Reason::Malformed { at: bad.at, expected: bad.expected },
            PeerError::MessageTooLong { limit_bytes } => {
                Reason::Malformed { at: limit_bytes, expected: "the end of a message" }
            }
            PeerError::OutOfOrder { expected, .. } => Reason::OutOfOrder { expected },
            PeerError::UnknownPeer { .. } => Reason::NoSuch { what: "rank" },
            PeerError::AlreadyConnected { .. } => Reason::Exists { what: "a session of this rank" },
            PeerError::Version { .. } => {
                let rank = self.rank.map(|rank| rank.0);
                Reason::Version { newest: (NEWEST.major, NEWEST.minor), rank }
            }
            PeerError::TimedOut => Reason::OutOfOrder { expected: "initack in time" },
            PeerError::Refused(_) | PeerError::LeftEarly => Reason::Lacking { field: "the peer" },
        };
        self.owe(verb, Tag::default(), Owed::refused(reason));
        self.stage = Stage::Broken(error);
        error
    }

    /// A caller says who it is.
    fn join<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
        &mut self,
        reach: Reach<'_, K, M>,
        id: u64,
    ) -> Result<Owed, PeerError> {
        let rank = u32::try_from(id).ok().filter(|rank| *rank < reach.job.size());
        let Some(rank) = rank.map(crate::ids::Rank) else {
            return Err(self.break_off(Verb::InitAck, PeerError::UnknownPeer { id }));
        };
        if reach.job.connect(rank, reach.id).is_none() {
            let error = PeerError::AlreadyConnected { rank: rank.0 };
            return Err(self.break_off(Verb::InitAck, error));
        }
        reach.job.hear(rank, reach.now);
        self.rank = Some(rank);
        self.deadline = None;
        Ok(Owed::Identity)
    }

    /// A client asks for a version: it gets the highest that both ends speak.
    fn agree<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
        &mut self,
        job: &mut Job<K, M>,
        asked: Version,
    ) -> Result<Owed, PeerError> {
        let agreed = match asked {
            // Answered with what was asked for, capped: Flux's client refuses 1.2.
            Version { major: 1, minor: 0 | 1 } => Version::V1_1,
            Version { major: 1, .. } => NEWEST,
            Version { major, minor } => {
                return Err(self.break_off(Verb::Init, PeerError::Version { major, minor }));
            }
        };
        self.stage = Stage::Open;
        self.version = Some(agreed);
        if let Some(rank) = self.rank {
            job.advance(rank, Phase::Open);
        }
        Ok(Owed::Version(agreed))
    }

    fn take_spawn(&mut self, spawn: Spawn<'_>) -> Told {
        if spawn.programs().next().is_none() {
            let reason = Reason::Lacking { field: "program" };
            self.owe(Verb::Spawn, Tag::default(), Owed::refused(reason));
            return Told::Nothing;
        }
        Told::Spawn(self.owe(Verb::Spawn, Tag::default(), Owed::Spawn))
    }
}

/// Known servers answer these before `init`, and some clients ask.
const fn may_precede_init(request: &Request<'_>) -> bool {
    use Request::{Abort, AppNum, KvsName, Maxes, UniverseSize};
    matches!(request, Maxes | AppNum | UniverseSize | KvsName | Abort { .. })
}

fn publish<K: Kvs, X>(names: &mut K, service: Text<'_>, port: Text<'_>, talk: &Talk<X>) -> Owed {
    let (mut service_room, mut port_room) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
    let by = talk.rank.unwrap_or(crate::ids::Rank(0));
    let too_long = |what, len_bytes, limit_bytes| {
        Owed::refused(Reason::Length { what, key: b"", len_bytes, limit_bytes, rank: by.0 })
    };
    let lens = (service.len(), port.len());
    let Ok(service) = service.resolve(&mut service_room) else {
        return too_long("service", lens.0, KEY_BYTES);
    };
    if Key::check(service).is_err() {
        return too_long("service", lens.0, KEY_BYTES);
    }
    let port = match port.resolve(&mut port_room) {
        Ok(port) if port.len() <= VALUE_BYTES => port,
        _ => return too_long("port", lens.1, VALUE_BYTES),
    };
    if names.find(Shelf::Names, service).is_some() {
        return Owed::refused(Reason::Exists { what: "service" });
    }
    // The epoch of a name is the job that published it, so that it can go with its job.
    match names.put(Shelf::Names, service, port, Stamp { by, epoch: talk.job.0 }) {
        Ok(_) => Owed::Done,
        Err(_) => Owed::refused(Reason::NoRoom { what: "names" }),
    }
}

fn unpublish<K: Kvs>(names: &mut K, service: Text<'_>) -> Owed {
    match look_up(names, service) {
        Owed::Port(id) => {
            names.remove(id);
            Owed::Done
        }
        refused => refused,
    }
}

fn look_up<K: Kvs>(names: &K, service: Text<'_>) -> Owed {
    let mut room = [0; KEY_BYTES];
    let found = service.resolve(&mut room).ok().and_then(|name| names.find(Shelf::Names, name));
    found.map_or(Owed::refused(Reason::NoSuch { what: "service" }), Owed::Port)
}
