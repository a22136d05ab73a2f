//! The client's side of one PMIx session.
//!
//! ```text
//!   caller ── put ────▶ puts ─────┐
//!   caller ── start ──▶ request ──┴──▶ poll_transmit ──▶ wire
//!   caller ◀─ poll_event ── Reply (lent) ◀── response ◀── handle_input ◀── wire
//!   caller ◀─ known ────── job (kept from init) ◀┘
//! ```
//!
//! # Memory
//!
//! [`PmixBuffers`] lends four buffers. `request` holds the texts of a request until [`poll_transmit`]
//! has rendered it. `response` holds one reply; a call that finds it in use loses nothing, as with the
//! client of PMI. `puts` holds put values until a commit has sent them, packed as they will be sent.
//! `job` holds the job-level information as it arrived, so that data of job, node, application or rank
//! is found without a request ([`PmixClient::known`]).
//!
//! [`poll_transmit`]: crate::machine::Machine::poll_transmit
//!
//! # Order
//!
//! [`state`] has the table of transitions. As many requests may be in flight as there are slots, and a
//! server answers them in any order: a reply has the number of its request. Unsolicited messages of the
//! server are events. A client that has registered for some receives them between the replies, one at a
//! time; before that, or if an event is longer than the room for replies, it is discarded.

mod answer;
mod commits;
mod datum;
mod job;
mod queued_request;
mod recv;
mod request;
pub mod state;
#[cfg(test)]
mod tests;

pub use self::answer::{
    GroupResult, JobDescriptions, Object, Objects, PmixAnswer, Published, PublishedData,
};
use self::commits::LocalPuts;
pub use self::commits::Scope;
pub use self::datum::Datum;
pub use self::job::{DataRealm, JobInfo};
use self::queued_request::QueuedPmixRequest;
use self::recv::PmixBufferUse;
pub use self::recv::PmixClientEvent;
pub use self::request::{Attribute, PmixRequest, SpawnApp};
pub use self::state::PmixState;
use crate::error::Misuse;
use crate::ids::KvsName;
use crate::storage::{Buffer, Slots};
use crate::wire::pmix::greeting::Credential;
use crate::wire::pmix::header::TAG_REQUESTS;
use crate::wire::pmix::names::Command;
use crate::wire::pmix::{Format, Value};

/// Identity that a client presents, as the launcher has put it in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcIdentity {
    /// The name of its job: `PMIX_NAMESPACE`.
    pub nspace: KvsName,
    /// Its rank: `PMIX_RANK`.
    pub rank: u32,
    /// The user and group it runs as, for a server that takes `native`; for one that takes `none`,
    /// nothing.
    pub credential: Option<Credential>,
    /// Encoding of values, in both directions.
    pub format: Format,
}

/// Identity of a tool, to which the server assigns a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolIdentity {
    /// The user and group it runs as.
    pub owner: Credential,
    /// True if they are the credential, for a server that takes `native`.
    pub is_native: bool,
    /// Encoding of values, in both directions.
    pub format: Format,
}

/// Buffers lent to a client; all of them are empty at first.
#[derive(Clone, Debug)]
pub struct PmixBuffers<B> {
    /// For the texts of one request: a namespace and a key, or the processes of a fence.
    pub request: B,
    /// For one reply. The longest is the job-level information, about 200 bytes for every rank.
    pub response: B,
    /// For values that are put and not committed yet.
    pub puts: B,
    /// For the job-level information. It is exchanged for `response`.
    pub job: B,
}

/// Client of a PMIx session.
#[derive(Debug)]
pub struct PmixClient<B, const SLOTS: usize = 4> {
    identity: ProcIdentity,
    /// That of a tool, whose namespace is empty until it is admitted, and the number of attributes of its
    /// greeting, which are in `request` until it is sent.
    tool: Option<(ToolIdentity, u32)>,
    request: B,
    response: B,
    puts: LocalPuts<B>,
    job: B,
    buffer_use: PmixBufferUse,
    outgoing: Option<Outgoing>,
    inflight: [Option<SentRequest>; SLOTS],
    state: PmixState,
    tag: u32,
    /// Number of bytes of a discarded unsolicited message that are still to come.
    unasked_bytes: usize,
    /// True if the client has registered for events.
    is_listening: bool,
}

/// Identifies one request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PmixTicket(u32);

/// Message that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outgoing {
    /// The first message; the next request is [`QueuedPmixRequest::Job`].
    Greeting(PmixTicket),
    Request(PmixTicket, QueuedPmixRequest),
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SentRequest {
    ticket: PmixTicket,
    command: Command,
}

impl<B: Buffer, const SLOTS: usize> PmixClient<B, SLOTS> {
    /// Creates a client that has sent nothing yet.
    pub fn new(identity: ProcIdentity, memory: PmixBuffers<B>) -> Self {
        Self::with_role(identity, None, memory)
    }

    /// Creates a client that is a tool: no server has started it, and it is rank 0 of a job of its own. The
    /// room for replies is at least [`TOOL_WELCOME_BYTES`](crate::wire::pmix::greeting::TOOL_WELCOME_BYTES).
    ///
    /// Shape: `attributes` describe the tool. Servers of OpenPMIx need its process id and command line
    /// ([`PROC_PID`](crate::wire::pmix::names::keys::PROC_PID),
    /// [`COMMAND_LINE`](crate::wire::pmix::names::keys::COMMAND_LINE)).
    ///
    /// # Errors
    ///
    /// [`Misuse`] for an invalid attribute, or one for which `request` has no room.
    pub fn tool(
        tool: ToolIdentity,
        attributes: &[Attribute<'_>],
        mut memory: PmixBuffers<B>,
    ) -> Result<Self, Misuse> {
        let ToolIdentity { owner, is_native, format } = tool;
        let credential = is_native.then_some(owner);
        let identity = ProcIdentity { nspace: KvsName::none(), rank: 0, credential, format };
        attributes.iter().try_for_each(|one| one.check(format))?;
        queued_request::append_packed(&mut memory.request, format, "attributes", |to| {
            attributes.iter().for_each(|one| one.write(to));
        })?;
        let count = u32::try_from(attributes.len()).unwrap_or(u32::MAX);
        Ok(Self::with_role(identity, Some((tool, count)), memory))
    }

    fn with_role(
        identity: ProcIdentity,
        tool: Option<(ToolIdentity, u32)>,
        memory: PmixBuffers<B>,
    ) -> Self {
        let PmixBuffers { request, response, puts, job } = memory;
        Self {
            puts: LocalPuts::new(puts, identity.format),
            identity,
            tool,
            request,
            response,
            job,
            buffer_use: PmixBufferUse::Incoming,
            outgoing: None,
            inflight: [const { None }; SLOTS],
            state: PmixState::Fresh,
            tag: TAG_REQUESTS,
            unasked_bytes: 0,
            is_listening: false,
        }
    }

    /// Starts an exchange: queues `request` until it can be transmitted.
    ///
    /// Shape: the texts of the request are copied. An abort drops every other exchange. A commit sends
    /// the values that were put before this call.
    ///
    /// # Errors
    ///
    /// [`Misuse`], and nothing has changed. [`Misuse::Busy`] while another request waits to be
    /// transmitted or every slot is taken, and for a finalize while any reply is awaited.
    pub fn start(&mut self, request: &PmixRequest<'_>) -> Result<PmixTicket, Misuse> {
        self.release_buffer();
        let next = self.state.start(request, self.outstanding() == 0)?;
        let is_abort = matches!(request, PmixRequest::Abort { .. });
        let free = self.inflight.iter().position(Option::is_none);
        if !is_abort && (self.outgoing.is_some() || free.is_none()) {
            return Err(Misuse::Busy);
        }
        if is_abort {
            self.forget_pending();
        }
        let kept = queued_request::keep(request, &self.identity, &self.puts, &mut self.request)?;
        self.tag = if self.tag == u32::MAX { TAG_REQUESTS } else { self.tag + 1 };
        let ticket = PmixTicket(self.tag);
        let waiting = SentRequest { ticket, command: kept.command() };
        if waiting.command != Command::DEREGISTER_EVENTS {
            // A slot is free: that was checked above, or an abort has freed all of them.
            Slots::insert(&mut self.inflight, waiting).ok_or(Misuse::Busy)?;
        }
        self.is_listening |= matches!(request, PmixRequest::Register { .. });
        self.outgoing = Some(match kept {
            QueuedPmixRequest::Job => Outgoing::Greeting(ticket),
            kept => Outgoing::Request(ticket, kept),
        });
        self.state = next;
        Ok(ticket)
    }

    /// Stores a value under a key until [`PmixRequest::Commit`] sends it. Of several under one key the
    /// last one counts.
    ///
    /// # Errors
    ///
    /// [`Misuse`], and nothing has changed: for a key that is empty, is longer than
    /// [`KEY_BYTES_MAX`] or begins with `pmix`, and where there is no room.
    pub fn put(&mut self, scope: Scope, key: &[u8], value: Datum<'_>) -> Result<(), Misuse> {
        self.state.can_put()?;
        self.puts.put(scope, key, value)
    }

    /// Value of a process under a key as far as it is known without a request: the values that this
    /// client has put and not committed, and the data that the launcher has provided at the start for
    /// the process, its node, its application and the whole job.
    ///
    /// Shape: `rank` is one of the own job, or [`WILDCARD`](crate::wire::pmix::WILDCARD) for the job.
    pub fn known(&self, rank: u32, key: &[u8]) -> Option<Value<'_>> {
        let own = (rank == self.identity.rank).then(|| self.puts.find(key)).flatten();
        own.or_else(|| self.job_info().find(rank, key))
    }

    /// Job-level information; empty before [`PmixRequest::Init`] was answered.
    pub fn job_info(&self) -> JobInfo<'_> {
        JobInfo::new(self.job.as_slice(), self.identity.format, self.identity.rank)
    }

    /// Identity of this client. That of a tool has no namespace before the server has assigned one.
    pub const fn identity(&self) -> &ProcIdentity {
        &self.identity
    }

    /// State of the session.
    pub const fn state(&self) -> PmixState {
        self.state
    }

    /// Number of requests in flight.
    pub fn outstanding(&self) -> usize {
        self.inflight.iter().flatten().count()
    }

    fn forget_pending(&mut self) {
        self.request.clear();
        self.outgoing = None;
        self.inflight = [const { None }; SLOTS];
    }

    /// Releases a lent reply.
    fn release_buffer(&mut self) {
        if self.buffer_use == PmixBufferUse::Lent {
            self.response.clear();
            self.buffer_use = PmixBufferUse::Incoming;
        }
    }
}

/// Length of the longest key.
pub const KEY_BYTES_MAX: usize = 511;

/// Version of libpmix that this client is compatible with; the server selects the layout of its
/// replies by it.
pub const VERSION: &[u8] = b"4.2.2";
