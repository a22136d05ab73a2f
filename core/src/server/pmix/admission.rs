//! Admission of peers: the greetings of ranks and of tools, and the answer of the owner.
//!
//! A tool is a program that no server started, such as a debugger or a monitor. It is a job of one process,
//! so it has a namespace, and its requests are those of any client. Only its greeting differs: it claims no
//! rank but asks for an identity, or brings one of its own. A tool that the launcher has started is a rank of
//! its job, such as a daemon of a debugger.

use super::context::{PmixEffect, PmixServer, PmixServerRef};
use super::session::PmixResponse;
use super::shared_bytes::SharedBytes;
use super::tables::{PmixSessionStateOf, PmixStorage};
use crate::error::{Misuse, PeerError};
use crate::ids::{JobId, KvsName, ProcId, Rank, SessionId};
use crate::server::Storage;
use crate::server::member::Phase;
use crate::server::session::{Session, SessionPhase};
use crate::server::session_table::READY;
use crate::server::shared::Shared;
use crate::storage::Buffer;
use crate::wire::pmix::greeting::{
    Credential, Greeting, Kind, Layout, TOOL_WELCOME_BYTES, write_tool_welcome,
};
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{Format, Release, WILDCARD};

/// Handles a greeting. The owner has to verify the identity it claims.
pub(super) fn handle_greeting<P: PmixStorage, S: Storage<Pmix = P>>(
    state: &mut PmixSessionStateOf<P>,
    shared: &Shared<S>,
    bytes: &[u8],
) -> PmixEffect {
    let greeting = match Greeting::read(bytes) {
        Ok(greeting) => greeting,
        Err(bad) => {
            state.lifecycle.fail(PeerError::Malformed(bad));
            return PmixEffect::Nothing;
        }
    };
    (state.protocol.format, state.protocol.release) = (greeting.format, greeting.release());
    let mut reject = |status, why| {
        state.defer_rejection();
        PmixEffect::InvalidGreeting { status, why }
    };
    let is_started = match greeting.kind {
        Kind::Client => true,
        Kind::StartedTool | Kind::StartedLauncher => P::ADMITS_TOOLS,
        // A singleton for which the owner was started, and has added a job, is the rank of that job.
        Kind::Singleton => {
            P::ADMITS_TOOLS
                && greeting.identity.is_some_and(|(nspace, _)| {
                    shared
                        .named(nspace)
                        .and_then(|job| shared.pmix.namespace(job))
                        .is_some_and(|of| !of.is_tool)
                })
        }
        _ => false,
    };
    if P::ADMITS_TOOLS && !is_started {
        return claim_as_tool(state, shared, &greeting, bytes.len());
    }
    let (true, Some((nspace, rank))) = (is_started, greeting.identity) else {
        let what = "a service to tools";
        return reject(Status::NOT_SUPPORTED, PeerError::NotOffered { what });
    };
    let is_member = |job: &JobId| shared.member(ProcId { job: *job, rank: Rank(rank) }).is_some();
    let Some(job) = shared.named(nspace).filter(is_member) else {
        return reject(Status::NOT_FOUND, PeerError::UnknownPeer { id: Some(u64::from(rank)) });
    };
    let has_store = shared.pmix.namespace(job).is_some_and(|namespace| namespace.has_store);
    let reads_store = match greeting.store {
        HASH => false,
        STORE if has_store && is_known_reader(&greeting) => true,
        STORE if has_store => {
            let what =
                "the store `ds21` to this version of libpmix: --env PMIX_GDS_MODULE=hash is needed";
            return reject(Status::NOT_SUPPORTED, PeerError::NotOffered { what });
        }
        _ => {
            let what = "a store but `hash`: PMIX_GDS_MODULE=hash is missing in its environment";
            return reject(Status::NOT_SUPPORTED, PeerError::NotOffered { what });
        }
    };
    let Ok(user) = claimed_user(&greeting) else {
        return reject(Status::INVALID_CRED, PeerError::Unproven);
    };
    state.lifecycle.phase = SessionPhase::Claimed;
    state.protocol.peer = Some(ProcId { job, rank: Rank(rank) });
    (state.protocol.user, state.protocol.welcome) = (user, greeting.layout());
    state.protocol.reads_store = reads_store;
    PmixEffect::Claimed { user }
}

/// Handles the greeting of a tool, of this length. The owner has to verify its user.
fn claim_as_tool<P: PmixStorage, S: Storage<Pmix = P>>(
    state: &mut PmixSessionStateOf<P>,
    shared: &Shared<S>,
    greeting: &Greeting<'_>,
    len_bytes: usize,
) -> PmixEffect {
    match read_tool(shared, greeting) {
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
fn read_tool<P: PmixStorage, S: Storage<Pmix = P>>(
    shared: &Shared<S>,
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
        let is_its = |id| shared.job(id).is_some_and(|job| *job.name() == name);
        if shared.ids().any(is_its) {
            return refused(Status::EXISTS, "a second namespace with the name of another");
        }
    }
    Ok(user.or(owner))
}

/// The user that the credential of a greeting names, if any.
///
/// # Errors
///
/// [`PeerError::Unproven`] for a credential that cannot be read.
fn claimed_user(greeting: &Greeting<'_>) -> Result<Option<u32>, PeerError> {
    match greeting.credential_type {
        b"native" => {
            let credential = Credential::read(greeting.credential).ok_or(PeerError::Unproven)?;
            Ok(Some(credential.user))
        }
        b"none" => Ok(None),
        _ => Err(PeerError::Unproven),
    }
}

/// True for a client whose library reads the store of its job as owners write it: its values are in
/// [`Format::PLAIN`].
fn is_known_reader(greeting: &Greeting<'_>) -> bool {
    let release = greeting.release();
    let is_known = Release::V4_2 <= release && release < Release::new(5, 0, 0);
    is_known && greeting.format == Format::PLAIN
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Admits a peer as the rank that it claims.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] unless it has claimed to be a rank and waits. For a tool that its launcher has
    /// started, [`Misuse::NoSuch`] if the description of the job does not name the server, as
    /// [`admit_tool`](Self::admit_tool) needs it, and [`Misuse::NoRoom`] without memory for the answer.
    pub fn admit(&mut self, id: SessionId) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the session waits for admission" };
        let state = self.sessions.state(id).ok_or(waiting)?;
        let (SessionPhase::Claimed, Some(peer)) = (state.lifecycle.phase, state.protocol.peer)
        else {
            return Err(waiting);
        };
        let welcome = match state.protocol.welcome {
            Layout::Client => None,
            layout => self.welcome(peer.job, layout)?,
        };
        self.open_as(id, peer, welcome);
        Ok(())
    }

    /// Describes the hardware of this node to the ranks of a job, by values as in the description of the
    /// job: KVALs in [`Format::PLAIN`], those of a rank in a PROC_BLOB.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if PMIx clients do not know the job.
    pub fn describe_hardware(&mut self, job: JobId, hardware: P::Bytes) -> Result<(), Misuse> {
        let namespace = self.shared.pmix.namespace_mut(job);
        namespace.ok_or(Misuse::NoSuch { what: "job" })?.set_hardware(hardware);
        Ok(())
    }

    /// Opens a session as one of this process, with the answer to the greeting of a tool, if it is one.
    pub(super) fn open_as(&mut self, id: SessionId, peer: ProcId, welcome: Option<P::Bytes>) {
        let Some(state) = self.sessions.state_mut(id) else { return };
        match welcome {
            Some(bytes) => {
                state.push_response(0, PmixResponse::ToolWelcome(bytes));
            }
            None => state.push_welcome(id),
        }
        state.lifecycle.phase = SessionPhase::Open;
        state.lifecycle.deadline = None;
        state.protocol.is_admitted = true;
        self.link(id, peer);
        if let Some(data) = self.shared.pmix.rank_data_mut(peer) {
            data.sessions = data.sessions.saturating_add(1);
            data.was_admitted = true;
        }
        if let Some(job) = self.shared.job_mut(peer.job) {
            job.set_tolerates_failures(peer.rank);
            job.advance(peer.rank, Phase::Open);
        }
        self.sessions.push(READY, id);
    }

    /// Rejects a peer with a status.
    pub fn refuse(&mut self, id: SessionId, status: Status) {
        if let Some(state) = self.sessions.state_mut(id) {
            state.reject(status, PeerError::Unproven);
            self.sessions.push(READY, id);
        }
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
        let peer = ProcId { job, rank: Rank(self.shared.ranks(job).start) };
        let welcome = self.welcome(job, layout)?;
        self.request_read(id);
        let state = self.sessions.state_mut(id).ok_or(waiting)?;
        state.protocol.peer = Some(peer);
        if let Some(namespace) = self.shared.pmix.namespace_mut(job) {
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
        let shared = &*self.shared;
        let namespace = shared.pmix.namespace(job).ok_or(missing)?;
        let nspace = namespace.find(WILDCARD, keys::SERVER_NSPACE).and_then(|value| value.text());
        let rank = namespace.find(WILDCARD, keys::SERVER_RANK).and_then(|value| value.number());
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        let server = nspace.zip(rank).ok_or(missing)?;
        match layout {
            Layout::Client => Ok(None),
            Layout::Tool { gives_identity } => {
                let given = gives_identity.then_some((shared.nspace(job), 0));
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

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The job of a rank whose library would detect the hardware by itself, since nobody has described it to
    /// the job ([`describe_hardware`](PmixServer::describe_hardware)). The libraries that read a description
    /// are those from 4.2.3 on, unless they read the store of their job.
    pub fn lacks_hardware(self, id: SessionId) -> Option<JobId> {
        let state = &self.sessions.state(id)?.protocol;
        let is_reader = state.release >= Release::new(4, 2, 3) && !state.reads_store;
        let job = state.peer.filter(|_| is_reader)?.job;
        self.shared.pmix.namespace(job)?.hardware.is_none().then_some(job)
    }

    /// The namespace and the rank that a tool brings, which waits for admission.
    pub fn tool_identity(self, id: SessionId) -> Option<(&'a [u8], Rank)> {
        let Session { inbox, state } = self.sessions.pmix(id)?;
        state.protocol.tool.filter(|_| state.lifecycle.phase == SessionPhase::Claimed)?;
        let greeting = Greeting::read(inbox.as_slice().get(..state.lifecycle.held_len?)?).ok()?;
        greeting.identity.map(|(nspace, rank)| (nspace, Rank(rank)))
    }
}

/// The client store that is filled by messages, which every client has.
const HASH: &[u8] = b"hash";

/// The client store in shared memory that an owner may keep for a job. All others are private to one library.
const STORE: &[u8] = b"ds21";

/// Largest number that is a rank: those above it have other meanings in PMIx.
const RANK_MAX: u32 = u32::MAX - 50;
