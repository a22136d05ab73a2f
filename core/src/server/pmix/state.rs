//! Transitions of a connection: the messages accepted in each phase, and their effects.
//!
//! | phase | message | answer | next |
//! |---|---|---|---|
//! | Greeting | a greeting that names a rank of a job | none yet | Claimed |
//! | Greeting | any other | a status, and the end | Broken |
//! | Claimed | none is handled | | |
//! | – | the owner admits the peer | status 0 and an index | Open |
//! | – | the owner rejects the peer | a status, and the end | Broken |
//! | Open | FINALIZE | status 0 | Leaving |
//! | Open | any other request | its answer | Open |
//! | Open | a body that is no request | status -27 | Open |
//! | Leaving, Broken, Ended | any | discarded | |

use super::collective::CollectiveKind;
use super::collective_request::CollectiveRequest;
use super::connection::{ConnPhase, PmixResponse};
use super::get::deadline;
use super::storage::{CollectivesOf, ConnStateOf, EventsOf, GroupsOf, NamesOf, NamespacesOf};
use super::{PmixStorage, directives, namespace};
use crate::command::Verb;
use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, ProcId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::greeting::{Credential, Greeting, Kind};
use crate::wire::pmix::header::{Header, TAG_HEARTBEAT, TAG_REQUESTS};
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Request, Unpacker};

/// Server state that request handlers may modify.
pub(super) struct PmixContext<'a, P: PmixStorage, S: Storage> {
    pub(super) jobs: &'a mut NamespacesOf<P>,
    pub(super) collectives: &'a mut CollectivesOf<P>,
    pub(super) names: &'a mut NamesOf<P>,
    pub(super) events: &'a mut EventsOf<P>,
    pub(super) groups: &'a mut GroupsOf<P>,
    pub(super) server: &'a mut Server<S>,
    pub(super) now: Instant,
}

/// Effect of a message outside its connection.
pub(super) enum PmixEffect {
    Nothing,
    /// The peer has claimed a rank.
    Claimed {
        user: Option<u32>,
    },
    /// The greeting is invalid, and the owner has to reject the peer.
    Doubted {
        status: Status,
        why: PeerError,
    },
    /// The rank has committed data.
    Committed,
    /// The rank has published data.
    Published,
    /// The registrations of the connection were extended.
    Registered,
    /// The peer has published an event; its place in the cache.
    Happened(usize),
    /// The rank has left a group; place of the cached event, if any.
    LeftGroup(Option<usize>),
    /// The rank has entered the fence of its job.
    Fenced,
    /// The rank has joined the collective at this place.
    Entered(usize),
    /// The peer has finalized.
    Left,
    /// The owner has to answer; the message stays in the inbox until the owner has read it.
    Asked(usize),
    /// The rank aborts its job.
    Aborted {
        code: i32,
        message: Excerpt,
    },
}

/// Handles one complete message.
///
/// # Errors
///
/// Protocol error of the peer that terminates the connection, whose phase records it too.
pub(super) fn handle_message<P: PmixStorage, S: Storage>(
    state: &mut ConnStateOf<P>,
    context: &mut PmixContext<'_, P, S>,
    bytes: &[u8],
) -> Result<PmixEffect, PeerError> {
    if state.phase == ConnPhase::Greeting {
        return handle_greeting(state, context, bytes);
    }
    let (Some(ProcId { job, rank }), Some(header)) = (state.peer, Header::read(bytes)) else {
        return Ok(PmixEffect::Nothing);
    };
    if header.tag < TAG_REQUESTS {
        // A heartbeat, or a message that only servers send.
        context.record_message(ProcId { job, rank }, Verb::Unknown);
        if header.tag == TAG_HEARTBEAT {
            state.heartbeat(context.now);
        }
        return Ok(PmixEffect::Nothing);
    }
    let body = bytes.get(Header::BYTES..).unwrap_or(b"");
    let request = match Request::read(Unpacker::new(body, state.format)) {
        Ok(request) => request,
        Err(_) => {
            state.push_response(header.tag, PmixResponse::Status(Status::BAD_PARAM));
            return Ok(PmixEffect::Nothing);
        }
    };
    // Only requests that the other protocols know as well have a verb.
    context.record_message(ProcId { job, rank }, request.command().verb().unwrap_or(Verb::Unknown));
    Ok(answer(state, context, (header.tag, body), ProcId { job, rank }, &request))
}

fn answer<P: PmixStorage, S: Storage>(
    state: &mut ConnStateOf<P>,
    context: &mut PmixContext<'_, P, S>,
    (tag, body): (u32, &[u8]),
    ProcId { job, rank }: ProcId,
    request: &Request<'_>,
) -> PmixEffect {
    if directives::has_unsupported_directive(request) {
        state.push_response(tag, PmixResponse::Status(Status::NOT_SUPPORTED));
        return PmixEffect::Nothing;
    }
    let (response, effect) = match request {
        Request::Req => (context.describe(state, ProcId { job, rank }), PmixEffect::Nothing),
        Request::Commit(scopes) => {
            let status = context.commit(ProcId { job, rank }, state.format, scopes.clone());
            (PmixResponse::Status(status), PmixEffect::Committed)
        }
        Request::Fence(fence) => return context.fence(state, tag, ProcId { job, rank }, fence),
        Request::Get(target) => {
            (context.get(state, ProcId { job, rank }, target), PmixEffect::Nothing)
        }
        Request::Finalize => {
            state.phase = ConnPhase::Leaving;
            (PmixResponse::Status(Status::SUCCESS), PmixEffect::Left)
        }
        Request::Abort { code, message, .. } => {
            let message = Excerpt::new(message.unwrap_or(b"").iter().copied());
            (PmixResponse::Status(Status::SUCCESS), PmixEffect::Aborted { code: *code, message })
        }
        Request::Publish { user, infos } => {
            let status = context.publish(state, ProcId { job, rank }, *user, infos);
            (PmixResponse::Status(status), PmixEffect::Published)
        }
        Request::Lookup(target) => {
            (context.look_up(state, ProcId { job, rank }, body, target), PmixEffect::Nothing)
        }
        Request::Unpublish(target) => (
            PmixResponse::Status(context.unpublish(ProcId { job, rank }, target)),
            PmixEffect::Nothing,
        ),
        Request::Connect(with) => {
            let deadline = deadline(&with.infos, context.now, None);
            let request = CollectiveRequest::of(CollectiveKind::Connect, &with.procs, deadline);
            return context.join(state, tag, ProcId { job, rank }, request);
        }
        Request::Disconnect(from) => {
            let deadline = deadline(&from.infos, context.now, None);
            let request = CollectiveRequest::of(CollectiveKind::Disconnect, &from.procs, deadline);
            return context.join(state, tag, ProcId { job, rank }, request);
        }
        Request::GroupConstruct { name, group } => {
            return context.construct(state, (tag, body), ProcId { job, rank }, (name, group));
        }
        Request::GroupDestruct { name, rest } => {
            return context.destruct(state, tag, ProcId { job, rank }, (name, *rest));
        }
        Request::GroupLeave { name, .. } => {
            let (status, effect) = context.leave_group(ProcId { job, rank }, name);
            (PmixResponse::Status(status), effect)
        }
        Request::Notify { code, range, infos } => {
            match context.notify(state.format, ProcId { job, rank }, (*code, *range), infos) {
                Ok(at) => (PmixResponse::Status(Status::SUCCESS), PmixEffect::Happened(at)),
                Err(status) => (PmixResponse::Status(status), PmixEffect::Nothing),
            }
        }
        Request::RegisterEvents { codes, infos } => {
            (PmixResponse::Status(context.register(state, codes, infos)), PmixEffect::Registered)
        }
        Request::DeregisterEvents(codes) => {
            state.registrations.deregister(codes.clone());
            // This is the one request without an answer.
            return PmixEffect::Nothing;
        }
        Request::ResolvePeers { node, nspace } => (
            context.resolve_peers(state, ProcId { job, rank }, (*node, *nspace)),
            PmixEffect::Nothing,
        ),
        Request::ResolveNodes(nspace) => {
            (context.resolve_nodes(state, *nspace), PmixEffect::Nothing)
        }
        Request::RefreshCache { nspace, rank: of } => {
            (context.refresh(state, ProcId { job, rank }, (*nspace, *of)), PmixEffect::Nothing)
        }
        Request::Monitor { what, code, infos } => {
            (state.monitor(context.now, (what, *code), infos), PmixEffect::Nothing)
        }
        Request::Query(queries) => match context.query(state, ProcId { job, rank }, queries) {
            Some(response) => (response, PmixEffect::Nothing),
            None => return PmixEffect::Asked(state.push_response(tag, PmixResponse::Host(0))),
        },
        Request::JobControl { .. }
        | Request::Spawn { .. }
        | Request::Log { .. }
        | Request::GetCredential(_)
        | Request::ValidateCredential { .. } => {
            // The request is numbered when the owner receives its event.
            return PmixEffect::Asked(state.push_response(tag, PmixResponse::Host(0)));
        }
        _ => (PmixResponse::Status(Status::NOT_SUPPORTED), PmixEffect::Nothing),
    };
    state.push_response(tag, response);
    effect
}

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    fn record_message(&mut self, ProcId { job, rank }: ProcId, verb: Verb) {
        if let Some(job) = self.server.jobs.get_mut(job.0 as usize) {
            job.record_message(rank, verb, self.now);
        }
    }
}

/// Handles a greeting. The owner has to verify the identity it claims.
fn handle_greeting<P: PmixStorage, S: Storage>(
    state: &mut ConnStateOf<P>,
    context: &mut PmixContext<'_, P, S>,
    bytes: &[u8],
) -> Result<PmixEffect, PeerError> {
    let greeting = match Greeting::read(bytes) {
        Ok(greeting) => greeting,
        Err(bad) => return Err(state.fail(PeerError::Malformed(bad))),
    };
    (state.format, state.release) = (greeting.format, greeting.release());
    let (Kind::Client, Some((nspace, rank))) = (greeting.kind, greeting.identity) else {
        let what = "a service to tools";
        return Ok(state.defer_rejection(Status::NOT_SUPPORTED, PeerError::NotOffered { what }));
    };
    let job = namespace::named(context.jobs, context.server, nspace);
    let size = |job: JobId| context.server.job(job).map_or(0, crate::server::Job::size);
    let Some(job) = job.filter(|job| rank < size(*job)) else {
        let error = PeerError::UnknownPeer { id: u64::from(rank) };
        return Ok(state.defer_rejection(Status::NOT_FOUND, error));
    };
    if greeting.store != STORE {
        let what = "a store but `hash`: PMIX_GDS_MODULE=hash is missing in its environment";
        return Ok(state.defer_rejection(Status::NOT_SUPPORTED, PeerError::NotOffered { what }));
    }
    let user = match greeting.credential_type {
        b"native" => match Credential::read(greeting.credential) {
            Some(credential) => Some(credential.user),
            None => return Ok(state.defer_rejection(Status::INVALID_CRED, PeerError::Unproven)),
        },
        b"none" => None,
        _ => return Ok(state.defer_rejection(Status::INVALID_CRED, PeerError::Unproven)),
    };
    state.phase = ConnPhase::Claimed;
    state.peer = Some(ProcId { job, rank: Rank(rank) });
    state.user = user;
    Ok(PmixEffect::Claimed { user })
}

/// The supported client store, which is filled by messages. The others are shared memory in private
/// formats.
const STORE: &[u8] = b"hash";
