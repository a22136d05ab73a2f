//! Transitions of the session of a PMIx client: the messages accepted in each phase, and their effects.
//!
//! | phase | message | answer | next |
//! |---|---|---|---|
//! | Fresh | a greeting that names a rank of a job, also of a tool | none yet | Claimed |
//! | Fresh | a greeting of a tool, where tools are admitted | none yet | Claimed |
//! | Fresh | any other | a status, and the end | Broken |
//! | Claimed | none is handled | | |
//! | – | the owner admits the peer | status 0 and an index | Open |
//! | – | the owner rejects the peer | a status, and the end | Broken |
//! | Open | FINALIZE | status 0 | Leaving |
//! | Open | any other request | its answer | Open |
//! | Open | a body that is no request | status -27 | Open |
//! | Leaving, Broken, Ended | any | discarded | |

use super::admission::handle_greeting;
use super::context::PmixEffect;
use super::directives;
use super::session::{PmixPeerState, PmixResponse};
use super::shared_bytes::copy_bytes;
use super::tables::{CollectiveKind, PendingOf, PmixSessionOf, PmixSessionStateOf, PmixStorage};
use crate::command::Verb;
use crate::error::{Malformed, PeerError};
use crate::ids::{Excerpt, ProcId, SessionId};
use crate::server::Storage;
use crate::server::input::{MessageContext, MessageEffect, Protocol};
use crate::server::session::{Session, SessionPhase};
use crate::server::session_table::SessionTable;
use crate::server::shared::Shared;
use crate::storage::Buffer;
use crate::wire::Framed;
use crate::wire::pmix::greeting::Greeting;
use crate::wire::pmix::header::{Header, TAG_HEARTBEAT, TAG_REQUESTS};
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::{Request, Unpacker};

/// Form of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum PmixFraming {
    /// The first message.
    Greeting,
    /// A message with a header.
    Message,
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Protocol<S> for PmixPeerState<P::Bytes> {
    type Inbox = P::Inbox;
    type Pending = PendingOf<P>;
    type Dialect = PmixFraming;

    const HOLDS_WHILE_PAUSED: bool = false;

    fn session(table: &mut SessionTable<S>, id: SessionId) -> Option<&mut PmixSessionOf<P>> {
        table.pmix_mut(id)
    }

    fn dialect(state: &PmixSessionStateOf<P>, _bytes: &[u8]) -> PmixFraming {
        match state.lifecycle.phase {
            SessionPhase::Fresh => PmixFraming::Greeting,
            _ => PmixFraming::Message,
        }
    }

    fn frame(framing: PmixFraming, bytes: &[u8]) -> Result<Framed, Malformed> {
        match framing {
            PmixFraming::Greeting => Greeting::frame(bytes),
            PmixFraming::Message => Ok(Header::frame(bytes)),
        }
    }

    /// Number of bytes missing to the end of the held message, or of its header. A greeting is held
    /// with all bytes that arrive with it.
    fn missing_bytes(session: &PmixSessionOf<P>) -> usize {
        let held = session.inbox.as_slice();
        let whole = match (session.state.lifecycle.phase, Header::read(held)) {
            (SessionPhase::Fresh, _) => return usize::MAX,
            (_, None) => Header::BYTES,
            (_, Some(header)) => Header::BYTES.saturating_add(header.body_bytes as usize),
        };
        whole.saturating_sub(held.len())
    }

    /// A message that will never fit is not worth waiting for.
    fn check_unfinished(sessions: &SessionTable<S>, id: SessionId) -> Option<PeerError> {
        let Session { inbox, state } = sessions.pmix(id)?;
        let limit_bytes = inbox.as_slice().len() + inbox.room();
        let body_bytes = Header::read(inbox.as_slice()).map_or(0, |of| of.body_bytes as usize);
        if state.lifecycle.phase != SessionPhase::Fresh
            && body_bytes.saturating_add(Header::BYTES) > limit_bytes
        {
            return Some(PeerError::MessageTooLong { limit_bytes });
        }
        let limit_bytes = sessions.exceeded(id)?;
        Some(PeerError::UnfinishedTooLong { limit_bytes })
    }

    fn handle_message(
        state: &mut PmixSessionStateOf<P>,
        context: MessageContext<'_, S>,
        _framing: PmixFraming,
        bytes: &[u8],
    ) -> MessageEffect {
        MessageEffect::Pmix(handle_message(state, context.shared, bytes))
    }

    /// The protocol has no message for the reason after admission.
    fn fail(state: &mut PmixSessionStateOf<P>, _to: (Verb, PmixFraming), error: PeerError) {
        state.lifecycle.fail(error);
    }
}

/// Handles one complete message. A failure of the peer that ends the session is set as its phase.
fn handle_message<P: PmixStorage, S: Storage<Pmix = P>>(
    state: &mut PmixSessionStateOf<P>,
    shared: &mut Shared<S>,
    bytes: &[u8],
) -> PmixEffect {
    if state.lifecycle.phase == SessionPhase::Fresh {
        return handle_greeting(state, shared, bytes);
    }
    let (Some(peer), Some(header)) = (state.protocol.peer, Header::read(bytes)) else {
        return PmixEffect::Nothing;
    };
    if header.tag < TAG_REQUESTS {
        // A heartbeat, or a message that only servers send.
        shared.record_message(peer, Verb::Unknown);
        if header.tag == TAG_HEARTBEAT {
            state.protocol.heartbeats.record(shared.now);
        }
        return PmixEffect::Nothing;
    }
    let body = bytes.get(Header::BYTES..).unwrap_or(b"");
    let request = match Request::read(Unpacker::new(body, state.protocol.format)) {
        Ok(request) => request,
        Err(_) => {
            state.push_response(header.tag, PmixResponse::Status(Status::BAD_PARAM));
            return PmixEffect::Nothing;
        }
    };
    // Only requests that the other protocols know as well have a verb.
    shared.record_message(peer, request.command().verb().unwrap_or(Verb::Unknown));
    answer(state, shared, header.tag, body, peer, &request)
}

fn answer<P: PmixStorage, S: Storage<Pmix = P>>(
    state: &mut PmixSessionStateOf<P>,
    shared: &mut Shared<S>,
    tag: u32,
    body: &[u8],
    peer: ProcId,
    request: &Request<'_>,
) -> PmixEffect {
    if directives::has_unsupported_directive(request) {
        state.push_response(tag, PmixResponse::Status(Status::NOT_SUPPORTED));
        return PmixEffect::Nothing;
    }
    let (response, effect) = match request {
        Request::Publish { user, .. }
            if state.protocol.user.is_some_and(|claimed| claimed != *user) =>
        {
            (PmixResponse::Status(Status::NO_PERMISSIONS), PmixEffect::Nothing)
        }
        // The head holds the names of all nodes, or a server of names does.
        Request::Publish { .. } | Request::Unpublish(_) if shared.hands_names_up(peer.job) => {
            return ask_owner::<P>(state, tag, PmixResponse::of_owner(), body);
        }
        Request::Lookup(target) if shared.hands_names_up(peer.job) => {
            let deadline = shared.deadline(&target.infos, None);
            let (number, lookup) = (0, copy_bytes(body));
            let response = PmixResponse::Host { number, deadline, lookup };
            return ask_owner::<P>(state, tag, response, body);
        }
        Request::Req => (shared.describe(state, peer), PmixEffect::Nothing),
        Request::Commit(scopes) => {
            let status = shared.commit(peer, state.protocol.format, scopes.clone());
            (PmixResponse::Status(status), PmixEffect::Committed)
        }
        Request::Fence(fence) => return shared.fence(state, tag, peer, fence),
        Request::Get(target) => {
            let response = shared.get(state, peer, target);
            shared.mark_awaited(&response);
            let is_fetched = shared.is_fetched(&response);
            if is_fetched {
                hold::<P>(state, body);
            }
            (response, if is_fetched { PmixEffect::Fetched } else { PmixEffect::Nothing })
        }
        Request::Finalize => {
            state.lifecycle.phase = SessionPhase::Leaving;
            (PmixResponse::Status(Status::SUCCESS), PmixEffect::Left)
        }
        // The job of a tool is the tool itself, which no server started.
        Request::Abort { .. } if state.protocol.tool.is_some() => {
            (PmixResponse::Status(Status::NOT_SUPPORTED), PmixEffect::Nothing)
        }
        Request::Abort { code, message, .. } => {
            let message = Excerpt::new(message.unwrap_or(b"").iter().copied());
            (PmixResponse::Status(Status::SUCCESS), PmixEffect::Aborted { code: *code, message })
        }
        Request::Publish { infos, .. } => {
            let requester = shared.requester(state, peer);
            let status = shared.publish(requester, infos);
            (PmixResponse::Status(status), PmixEffect::Published)
        }
        Request::Lookup(target) => (shared.look_up(state, peer, body, target), PmixEffect::Nothing),
        Request::Unpublish(target) => {
            (PmixResponse::Status(shared.unpublish(peer, target)), PmixEffect::Nothing)
        }
        Request::Connect(with) => {
            return shared.join_listed(state, tag, peer, CollectiveKind::Connect, with);
        }
        Request::Disconnect(from) => {
            return shared.join_listed(state, tag, peer, CollectiveKind::Disconnect, from);
        }
        Request::GroupConstruct { name, group } => {
            return shared.construct(state, tag, body, name, group);
        }
        Request::GroupDestruct { name, rest } => {
            return shared.destruct(state, tag, peer, name, *rest);
        }
        Request::GroupLeave { name, .. } => {
            let (status, effect) = shared.leave_group(peer, name);
            if let PmixEffect::LeftGroup { is_forwarded: true, .. } = effect {
                hold::<P>(state, body);
            }
            (PmixResponse::Status(status), effect)
        }
        Request::Notify { code, range, infos } => {
            match shared.notify(state.protocol.format, peer, *code, *range, infos) {
                Ok(at) => {
                    let is_forwarded = shared.is_for_other_nodes(peer, *range, infos);
                    if is_forwarded {
                        hold::<P>(state, body);
                    }
                    let is_stopped = *code == Status::READY_FOR_DEBUG.0 && *range == range::RM;
                    let breakpoint = infos.find(keys::BREAKPOINT).and_then(|value| value.text());
                    let stopped_at = is_stopped
                        .then(|| Excerpt::new(breakpoint.unwrap_or_default().iter().copied()));
                    let effect = PmixEffect::Happened { at, is_forwarded, stopped_at };
                    (PmixResponse::Status(Status::SUCCESS), effect)
                }
                Err(status) => (PmixResponse::Status(status), PmixEffect::Nothing),
            }
        }
        Request::RegisterEvents { codes, infos } => {
            (PmixResponse::Status(shared.register(state, codes, infos)), PmixEffect::Registered)
        }
        Request::DeregisterEvents(codes) => {
            state.protocol.registrations.deregister(codes.clone());
            // This is the one request without an answer.
            return PmixEffect::Nothing;
        }
        Request::ResolvePeers { node, nspace } => {
            (shared.resolve_peers(state, peer, *node, *nspace), PmixEffect::Nothing)
        }
        Request::ResolveNodes(nspace) => {
            (shared.resolve_nodes(state, *nspace), PmixEffect::Nothing)
        }
        Request::RefreshCache { nspace, rank: of } => {
            (shared.refresh(state, peer, nspace, *of), PmixEffect::Nothing)
        }
        Request::Monitor { what, code, infos } => {
            let monitors = &mut state.protocol.heartbeats;
            match monitors.handle_request(shared.now, what, *code, infos) {
                Some(status) => (PmixResponse::Status(status), PmixEffect::Nothing),
                None => return ask_owner::<P>(state, tag, PmixResponse::of_owner(), body),
            }
        }
        Request::Query(queries) => match shared.query(state, peer, queries) {
            Some(response) => (response, PmixEffect::Nothing),
            None => return ask_owner::<P>(state, tag, PmixResponse::of_owner(), body),
        },
        Request::JobControl { .. }
        | Request::Spawn { .. }
        | Request::Log { .. }
        | Request::GetCredential(_)
        | Request::ValidateCredential { .. }
        | Request::IofPull { .. }
        | Request::IofPush { .. }
        | Request::IofDeregister { .. } => {
            return ask_owner::<P>(state, tag, PmixResponse::of_owner(), body);
        }
        _ => (PmixResponse::Status(Status::NOT_SUPPORTED), PmixEffect::Nothing),
    };
    state.push_response(tag, response);
    effect
}

/// Leaves the answer to the owner, until the deadline of the request. The message stays in the inbox until
/// the owner has read it, and is numbered when the owner receives its event.
fn ask_owner<P: PmixStorage>(
    state: &mut PmixSessionStateOf<P>,
    tag: u32,
    response: PmixResponse<P::Bytes>,
    body: &[u8],
) -> PmixEffect {
    hold::<P>(state, body);
    PmixEffect::HostRequest(state.push_response(tag, response))
}

/// Keeps the message with this body in the inbox until the owner has read it.
fn hold<P: PmixStorage>(state: &mut PmixSessionStateOf<P>, body: &[u8]) {
    state.lifecycle.held_len = Some(Header::BYTES + body.len());
}

impl<S: Storage> Shared<S> {
    fn record_message(&mut self, peer: ProcId, verb: Verb) {
        let now = self.now;
        if let Some(job) = self.job_mut(peer.job) {
            job.record_message(peer.rank, verb, now);
        }
    }
}
