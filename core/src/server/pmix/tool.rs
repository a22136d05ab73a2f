//! Admission of tools: programs that no server started, such as debuggers and monitors.
//!
//! A tool is a job of one process. So it has a namespace, and its requests are those of any client. Only its
//! greeting differs: it claims no rank but asks for an identity, or brings one of its own. A tool that the
//! launcher has started is a rank of its job, such as a daemon of a debugger.

use super::context::{PmixEffect, PmixServer, PmixServerRef, PmixView};
use super::shared_bytes::SharedBytes;
use super::state::claimed_user;
use super::tables::{PmixSessionStateOf, PmixStorage};
use crate::error::{Misuse, PeerError};
use crate::ids::{JobId, KvsName, ProcId, Rank, SessionId};
use crate::server::Storage;
use crate::server::session::{Session, SessionPhase};
use crate::storage::Buffer;
use crate::wire::pmix::WILDCARD;
use crate::wire::pmix::greeting::{Greeting, Layout, TOOL_WELCOME_BYTES, write_tool_welcome};
use crate::wire::pmix::names::{Status, keys};

/// Handles the greeting of a tool, of this length. The owner has to verify its user.
pub(super) fn handle_greeting<P: PmixStorage, S: Storage<Pmix = P>>(
    state: &mut PmixSessionStateOf<P>,
    view: PmixView<'_, P, S>,
    (greeting, len_bytes): (&Greeting<'_>, usize),
) -> PmixEffect {
    match read(view, greeting) {
        Ok(user) => {
            state.lifecycle.phase = SessionPhase::Claimed;
            // The owner reads the namespace from the greeting.
            state.lifecycle.held_len = Some(len_bytes);
            (state.protocol.user, state.protocol.tool) = (user, Some(greeting.layout()));
            PmixEffect::ToolClaimed { user }
        }
        Err((status, why)) => {
            state.defer_rejection();
            PmixEffect::InvalidGreeting { status, why }
        }
    }
}

/// The user that a tool claims to run as.
fn read<P: PmixStorage, S: Storage<Pmix = P>>(
    view: PmixView<'_, P, S>,
    greeting: &Greeting<'_>,
) -> Result<Option<u32>, (Status, PeerError)> {
    let unproven = |why| (Status::INVALID_CRED, why);
    let user = claimed_user(greeting).map_err(unproven)?;
    let owner = greeting.owner.map(|(user, _)| user);
    if user.is_some() && owner.is_some() && user != owner {
        return Err(unproven(PeerError::Unproven));
    }
    let refused = |status, what| Err((status, PeerError::NotOffered { what }));
    if let Some((nspace, rank)) = greeting.identity {
        if rank > RANK_MAX {
            return refused(Status::BAD_PARAM, "a tool with a reserved number as its rank");
        }
        let Ok(name) = KvsName::new(nspace) else {
            return refused(Status::BAD_PARAM, "a namespace with this name");
        };
        let is_its = |id| view.job(id).is_some_and(|job| *job.name() == name);
        if view.common.ids().any(is_its) {
            return refused(Status::EXISTS, "a second namespace with the name of another");
        }
    }
    Ok(user.or(owner))
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The namespace and the rank that a tool brings, which waits for admission.
    pub fn tool_identity(self, id: SessionId) -> Option<(&'a [u8], Rank)> {
        let Session { inbox, state } = self.sessions.pmix(id)?;
        state.protocol.tool.filter(|_| state.lifecycle.phase == SessionPhase::Claimed)?;
        let greeting = Greeting::read(inbox.as_slice().get(..state.lifecycle.held_len?)?).ok()?;
        greeting.identity.map(|(nspace, rank)| (nspace, Rank(rank)))
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Admits a tool as the member of a job of one member, which [`add_job`](Self::add_job) has described.
    /// The description names the server ([`SERVER_NSPACE`](keys::SERVER_NSPACE),
    /// [`SERVER_RANK`](keys::SERVER_RANK)).
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] unless the session is that of a tool and waits; [`Misuse::NoSuch`] without the
    /// job or its description; [`Misuse::NoRoom`] without memory for the answer. Nothing has changed then.
    pub fn admit_tool(&mut self, id: SessionId, job: JobId) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the tool waits for admission" };
        let state = self.sessions.state(id).ok_or(waiting)?;
        let (SessionPhase::Claimed, Some(layout)) = (state.lifecycle.phase, state.protocol.tool)
        else {
            return Err(waiting);
        };
        let peer = ProcId { job, rank: Rank(self.context.view().ranks(job).start) };
        let welcome = self.welcome(job, layout)?;
        self.request_read(id);
        let state = self.sessions.state_mut(id).ok_or(waiting)?;
        state.protocol.peer = Some(peer);
        if let Some(namespace) = self.context.pmix.namespace_mut(job) {
            namespace.is_tool = true;
        }
        self.open_as(id, peer, welcome);
        Ok(())
    }

    /// The response to the greeting of a tool of this job; `None` in the layout of clients.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] without the description of the job, [`Misuse::NoRoom`] without memory.
    pub(super) fn welcome(&self, job: JobId, layout: Layout) -> Result<Option<P::Bytes>, Misuse> {
        let missing = Misuse::NoSuch { what: "job" };
        let view = self.context.view();
        let namespace = view.pmix.namespace(job).ok_or(missing)?;
        let nspace = namespace.find(WILDCARD, keys::SERVER_NSPACE).and_then(|value| value.text());
        let rank = namespace.find(WILDCARD, keys::SERVER_RANK).and_then(|value| value.number());
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        let server = nspace.zip(rank).ok_or(missing)?;
        match layout {
            Layout::Client => Ok(None),
            Layout::Tool { gives_identity } => {
                let given = gives_identity.then_some((view.nspace(job), 0));
                let mut bytes = [0; TOOL_WELCOME_BYTES];
                let room = Misuse::NoRoom { what: "answer" };
                let len = write_tool_welcome(given, server, &mut bytes).map_err(|_| room)?;
                let bytes = bytes.get(..len).unwrap_or_default();
                let fill = |to: &mut [u8]| crate::storage::copy(to, bytes);
                Ok(Some(P::Bytes::make(len, fill).ok_or(room)?))
            }
        }
    }
}

/// Largest number that is a rank: those above it have other meanings in PMIx.
const RANK_MAX: u32 = u32::MAX - 50;
