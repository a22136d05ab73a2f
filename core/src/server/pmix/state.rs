//! What each message leads to, and when it may come.
//!
//! | stage | message | answer | next |
//! |---|---|---|---|
//! | Greeting | a greeting that names a rank of a job | none yet | Claimed |
//! | Greeting | any other | a status, and the end | Broken |
//! | Claimed | nothing is taken up | | |
//! | – | the owner lets it in | status 0 and an index | Open |
//! | – | the owner sends it away | a status, and the end | Broken |
//! | Open | FINALIZE | status 0 | Leaving |
//! | Open | any other request | its answer | Open |
//! | Open | a body that is no request | status -27 | Open |
//! | Leaving, Broken, Ended | anything | thrown away | |

use super::collective::Purpose;
use super::connection::{Owed, Stage, Talk};
use super::get::until;
use super::meeting::Meeting;
use super::{Memory, directives, info};
use crate::command::Verb;
use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::greeting::{Credential, Greeting, Kind};
use crate::wire::pmix::header::{Header, TAG_HEARTBEAT, TAG_REQUESTS};
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Request, Unpacker};

/// What a message may touch besides its connection.
pub(super) struct Reach<'a, P: Memory, S: Storage> {
    pub(super) jobs: &'a mut P::Jobs,
    pub(super) collectives: &'a mut P::Collectives,
    pub(super) names: &'a mut P::Names,
    pub(super) events: &'a mut P::Events,
    pub(super) groups: &'a mut P::Groups,
    pub(super) server: &'a mut Server<S>,
    pub(super) now: Instant,
}

/// What a message leads to outside its connection.
pub(super) enum Told {
    Nothing,
    /// A caller has said who it is.
    Claimed {
        user: Option<u32>,
    },
    /// A caller cannot be what it says.
    Doubted {
        status: Status,
        why: PeerError,
    },
    /// Its rank has posted something.
    Committed,
    /// Its rank has published something.
    Published,
    /// It wants to be told of more than before.
    Registered,
    /// It has said that something has happened, which is kept here.
    Happened(usize),
    /// Its rank has left a group, and where it is kept that it has.
    LeftGroup(Option<usize>),
    /// Its rank is in the fence of its job.
    Fenced,
    /// Its rank takes part in something with others.
    Entered(usize),
    /// It has said goodbye.
    Left,
    /// The owner has to act; the message stays in the inbox until it has seen it.
    Asked(usize),
    /// The job shall end.
    Aborted {
        code: i32,
        message: Excerpt,
    },
}

/// Takes up one whole message.
///
/// Errors: what the peer did that ends the connection; its stage says so too.
pub(super) fn message<P: Memory, S: Storage>(
    talk: &mut Talk<P::Block, P::Pendings>,
    reach: &mut Reach<'_, P, S>,
    bytes: &[u8],
) -> Result<Told, PeerError> {
    if talk.stage == Stage::Greeting {
        return greet(talk, reach, bytes);
    }
    let (Some((job, rank)), Some(header)) = (talk.peer, Header::read(bytes)) else {
        return Ok(Told::Nothing);
    };
    if header.tag < TAG_REQUESTS {
        // A sign of life, or something that only servers say.
        reach.hear((job, rank), Verb::Unknown);
        if header.tag == TAG_HEARTBEAT {
            talk.beat(reach.now);
        }
        return Ok(Told::Nothing);
    }
    let body = bytes.get(Header::BYTES..).unwrap_or(b"");
    let request = match Request::read(Unpacker::new(body, talk.format)) {
        Ok(request) => request,
        Err(_) => {
            talk.owe(header.tag, Owed::Status(Status::BAD_PARAM));
            return Ok(Told::Nothing);
        }
    };
    // What the other generations do not know moves no job.
    reach.hear((job, rank), request.command().verb().unwrap_or(Verb::Unknown));
    Ok(answer(talk, reach, (header.tag, body), (job, rank), &request))
}

fn answer<P: Memory, S: Storage>(
    talk: &mut Talk<P::Block, P::Pendings>,
    reach: &mut Reach<'_, P, S>,
    (tag, body): (u32, &[u8]),
    (job, rank): (JobId, Rank),
    request: &Request<'_>,
) -> Told {
    if directives::demands_more(request) {
        talk.owe(tag, Owed::Status(Status::NOT_SUPPORTED));
        return Told::Nothing;
    }
    let (owed, told) = match request {
        Request::Req => (reach.describe(talk, (job, rank)), Told::Nothing),
        Request::Commit(scopes) => {
            let status = reach.commit((job, rank), talk.format, scopes.clone());
            (Owed::Status(status), Told::Committed)
        }
        Request::Fence(fence) => return reach.fence(talk, tag, (job, rank), fence),
        Request::Get(wanted) => (reach.get(talk, (job, rank), wanted), Told::Nothing),
        Request::Finalize => {
            talk.stage = Stage::Leaving;
            (Owed::Status(Status::SUCCESS), Told::Left)
        }
        Request::Abort { code, message, .. } => {
            let message = Excerpt::new(message.unwrap_or(b"").iter().copied());
            (Owed::Status(Status::SUCCESS), Told::Aborted { code: *code, message })
        }
        Request::Publish { user, infos } => {
            let status = reach.publish(talk, (job, rank), *user, infos);
            (Owed::Status(status), Told::Published)
        }
        Request::Lookup(wanted) => (reach.look_up(talk, (job, rank), body, wanted), Told::Nothing),
        Request::Unpublish(wanted) => {
            (Owed::Status(reach.unpublish((job, rank), wanted)), Told::Nothing)
        }
        Request::Connect(with) => {
            let until = until(&with.infos, reach.now, None);
            let meeting = Meeting::of(Purpose::Connect, &with.procs, until);
            return reach.join(talk, tag, (job, rank), meeting);
        }
        Request::Disconnect(from) => {
            let until = until(&from.infos, reach.now, None);
            let meeting = Meeting::of(Purpose::Disconnect, &from.procs, until);
            return reach.join(talk, tag, (job, rank), meeting);
        }
        Request::GroupConstruct { name, group } => {
            return reach.construct(talk, (tag, body), (job, rank), (name, group));
        }
        Request::GroupDestruct { name, rest } => {
            return reach.destruct(talk, tag, (job, rank), (name, *rest));
        }
        Request::GroupLeave { name, .. } => {
            let (status, told) = reach.leave_group((job, rank), name);
            (Owed::Status(status), told)
        }
        Request::Notify { code, range, infos } => {
            match reach.notify(talk.format, (job, rank), (*code, *range), infos) {
                Ok(at) => (Owed::Status(Status::SUCCESS), Told::Happened(at)),
                Err(status) => (Owed::Status(status), Told::Nothing),
            }
        }
        Request::RegisterEvents { codes, infos } => {
            (Owed::Status(reach.register(talk, codes, infos)), Told::Registered)
        }
        Request::DeregisterEvents(codes) => {
            talk.ear.deregister(codes.clone());
            // This is the one request without an answer.
            return Told::Nothing;
        }
        Request::ResolvePeers { node, nspace } => {
            (reach.resolve_peers(talk, (job, rank), (*node, *nspace)), Told::Nothing)
        }
        Request::ResolveNodes(nspace) => (reach.resolve_nodes(talk, *nspace), Told::Nothing),
        Request::RefreshCache { nspace, rank: of } => {
            (reach.refresh(talk, (job, rank), (*nspace, *of)), Told::Nothing)
        }
        Request::Monitor { what, code, infos } => {
            (talk.monitor(reach.now, (what, *code), infos), Told::Nothing)
        }
        Request::Query(queries) => match reach.query(talk, (job, rank), queries) {
            Some(owed) => (owed, Told::Nothing),
            None => return Told::Asked(talk.owe(tag, Owed::Owner(0))),
        },
        Request::JobControl { .. }
        | Request::Spawn { .. }
        | Request::Log { .. }
        | Request::GetCredential(_)
        | Request::ValidateCredential { .. } => {
            // It gets its number when the owner is told.
            return Told::Asked(talk.owe(tag, Owed::Owner(0)));
        }
        _ => (Owed::Status(Status::NOT_SUPPORTED), Told::Nothing),
    };
    talk.owe(tag, owed);
    told
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    fn hear(&mut self, (job, rank): (JobId, Rank), verb: Verb) {
        if let Some(job) = self.server.jobs.get_mut(job.0 as usize) {
            job.hear(rank, verb, self.now);
        }
    }
}

/// A caller says who it is. Whether that is so is for the owner to find out.
fn greet<P: Memory, S: Storage>(
    talk: &mut Talk<P::Block, P::Pendings>,
    reach: &mut Reach<'_, P, S>,
    bytes: &[u8],
) -> Result<Told, PeerError> {
    let greeting = match Greeting::read(bytes) {
        Ok(greeting) => greeting,
        Err(bad) => return Err(talk.break_off(PeerError::Malformed(bad))),
    };
    (talk.format, talk.release) = (greeting.format, greeting.release());
    let (Kind::Client, Some((nspace, rank))) = (greeting.kind, greeting.identity) else {
        let what = "a service to tools";
        return Ok(talk.doubt(Status::NOT_SUPPORTED, PeerError::NotOffered { what }));
    };
    let job = info::named(reach.jobs, reach.server, nspace);
    let size = |job: JobId| reach.server.job(job).map_or(0, crate::server::Job::size);
    let Some(job) = job.filter(|job| rank < size(*job)) else {
        let error = PeerError::UnknownPeer { id: u64::from(rank) };
        return Ok(talk.doubt(Status::NOT_FOUND, error));
    };
    if greeting.store != STORE {
        let what = "a store but `hash`: PMIX_GDS_MODULE=hash is missing in its environment";
        return Ok(talk.doubt(Status::NOT_SUPPORTED, PeerError::NotOffered { what }));
    }
    let user = match greeting.credential_type {
        b"native" => match Credential::read(greeting.credential) {
            Some(credential) => Some(credential.user),
            None => return Ok(talk.doubt(Status::INVALID_CRED, PeerError::Unproven)),
        },
        b"none" => None,
        _ => return Ok(talk.doubt(Status::INVALID_CRED, PeerError::Unproven)),
    };
    talk.stage = Stage::Claimed;
    talk.peer = Some((job, Rank(rank)));
    talk.user = user;
    Ok(Told::Claimed { user })
}

/// Where clients keep what they are told by messages. The others are memory in private forms.
const STORE: &[u8] = b"hash";
