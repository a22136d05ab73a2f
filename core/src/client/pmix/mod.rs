//! The client's side of one conversation in PMIx.
//!
//! ```text
//!   caller ── put ────▶ posts ─┐
//!   caller ── start ──▶ said ──┴──▶ poll_transmit ──▶ wire
//!   caller ◀─ poll_event ── Reply (lent) ◀── heard ◀── handle_input ◀── wire
//!   caller ◀─ known ────── job (kept from init) ◀┘
//! ```
//!
//! # Memory
//!
//! [`PmixBuffers`] lends four buffers. `request` holds the texts of a request until [`poll_transmit`] has
//! rendered it. `response` holds one response; a call that finds it in use fails and changes nothing, as with
//! the client of PMI.
//! `puts` holds what was put until a commit has sent it, packed as it will be sent. `job` holds the
//! description of the job as it came, so that whatever a launcher says of job, node, application
//! or rank is found without asking ([`PmixClient::known`]).
//!
//! [`poll_transmit`]: crate::machine::Machine::poll_transmit
//!
//! # Order
//!
//! [`state`] has the table of transitions. As many questions may be out at once as there are slots, and a
//! server answers them in any order: an answer has the number of its question. What the server says
//! unasked is events. Whoever has asked to be told of some finds them between the answers, one at a time;
//! until then, and where one is longer than the room for answers, they are not kept.

mod answer;
mod commits;
mod job;
mod queued_request;
mod recv;
pub mod state;
#[cfg(test)]
mod tests;

pub use self::answer::{JobDescriptions, Object, Objects, PmixAnswer, Published, PublishedData};
use self::commits::LocalPuts;
pub use self::commits::{Datum, Scope};
pub use self::job::JobInfo;
use self::queued_request::QueuedPmixRequest;
use self::recv::PmixBufferUse;
pub use self::recv::PmixClientEvent;
pub use self::state::PmixState;
use crate::error::Misuse;
use crate::ids::KvsName;
use crate::storage::{Buffer, Slots};
use crate::wire::pmix::greeting::Credential;
use crate::wire::pmix::header::TAG_REQUESTS;
use crate::wire::pmix::names::{Command, Status};
use crate::wire::pmix::{Format, Proc, Value};

/// Who a client says it is, as the launcher has told it in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcIdentity {
    /// The name of its job: `PMIX_NAMESPACE`.
    pub nspace: KvsName,
    /// Its rank: `PMIX_RANK`.
    pub rank: u32,
    /// The user and group it runs as, for a server that takes `native`; for one that takes `none`, nothing.
    pub credential: Option<Credential>,
    /// How values are written, in both directions.
    pub format: Format,
}

/// What a client is lent; all of it is empty at first.
#[derive(Clone, Debug)]
pub struct PmixBuffers<B> {
    /// For the texts of one request: a name space and a key, or the processes of a fence.
    pub request: B,
    /// For one answer. The longest is the description of the job, about 200 bytes for every rank.
    pub response: B,
    /// For what is put and not committed yet.
    pub puts: B,
    /// For the description of the job. It is exchanged for `heard`.
    pub job: B,
}

/// What a client asks. Name spaces that are empty are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmixRequest<'a> {
    /// To be let in, and for the description of the job. Always the first one.
    Init,
    /// That others see what was put since the last one.
    Commit,
    /// To wait until all of `procs` have asked for the same.
    Fence {
        /// Who takes part; all of the own job if nobody is named.
        procs: &'a [Proc<'a>],
        /// True if what they have committed is spread before it ends.
        collect: bool,
        /// After how many seconds the server gives up; never if it is not said.
        timeout_s: Option<u32>,
    },
    /// What a process has committed.
    Get {
        /// The process, or one of [`ranks`](crate::wire::pmix::ranks).
        of: Proc<'a>,
        /// The key that is wanted; whatever there is, if none is.
        key: Option<&'a [u8]>,
        /// True if what is not there yet is not waited for.
        immediate: bool,
        /// After how many seconds the server gives up; a server has a limit of its own otherwise.
        timeout_s: Option<u32>,
    },
    /// That every job of the launcher finds a text under a key, until this job has ended.
    Publish {
        /// The key.
        key: &'a [u8],
        /// The text.
        text: &'a [u8],
    },
    /// What somebody has published under a key.
    Lookup {
        /// The key.
        key: &'a [u8],
        /// True if what is not there yet is waited for.
        wait: bool,
        /// After how many seconds the server gives up; never if it is not said.
        timeout_s: Option<u32>,
    },
    /// To take back what this process has published under a key.
    Unpublish {
        /// The key.
        key: &'a [u8],
    },
    /// That a program is started, as a job of its own.
    Spawn {
        /// What to start, without arguments.
        command: &'a [u8],
        /// Number of processes.
        processes: u32,
    },
    /// A fence, after which the processes know each other's jobs.
    Connect {
        /// Who takes part, this process among them.
        procs: &'a [Proc<'a>],
        /// After how many seconds the server gives up; never if it is not said.
        timeout_s: Option<u32>,
    },
    /// A fence, after which they do not.
    Disconnect {
        /// Who takes part, this process among them.
        procs: &'a [Proc<'a>],
        /// After how many seconds the server gives up; never if it is not said.
        timeout_s: Option<u32>,
    },
    /// To be told when this happens, by [`PmixClientEvent::Happened`]; whatever happens, if it is nothing in
    /// particular.
    Register {
        /// What.
        code: Option<Status>,
    },
    /// That others are told of something that has happened to this process.
    Notify {
        /// What.
        code: Status,
        /// Whom to tell: one of [`range`](crate::wire::pmix::names::range).
        range: u8,
    },
    /// To leave.
    Finalize,
    /// The end of the whole job, with an exit code and something to say about it.
    Abort {
        /// The exit code.
        code: i32,
        /// For people; cut to what there is room for.
        message: &'a [u8],
    },
}

/// The client's end of a conversation.
#[derive(Debug)]
pub struct PmixClient<B, const SLOTS: usize = 4> {
    identity: ProcIdentity,
    request: B,
    response: B,
    puts: LocalPuts<B>,
    job: B,
    buffer_use: PmixBufferUse,
    outgoing: Option<Outgoing>,
    inflight: [Option<SentRequest>; SLOTS],
    state: PmixState,
    tag: u32,
    /// How much of a message that nobody asked for is still to come.
    unasked_bytes: usize,
    /// It has asked to be told of events.
    is_listening: bool,
}

/// Tells one question of a client from its others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmixTicket(u32);

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outgoing {
    /// The first message; the question behind it is [`QueuedPmixRequest::Job`].
    Greeting(PmixTicket),
    Request(PmixTicket, QueuedPmixRequest),
}

/// A question without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SentRequest {
    ticket: PmixTicket,
    command: Command,
}

impl<B: Buffer, const SLOTS: usize> PmixClient<B, SLOTS> {
    /// Makes a client that has said nothing yet.
    pub fn new(identity: ProcIdentity, memory: PmixBuffers<B>) -> Self {
        let PmixBuffers { request, response, puts, job } = memory;
        Self {
            puts: LocalPuts::new(puts, identity.format),
            identity,
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

    /// Starts an exchange: keeps what `request` says until it can be transmitted.
    ///
    /// Shape: the texts of the request are copied. An abort drops every other exchange. A commit sends
    /// what was put before this call.
    ///
    /// # Errors
    ///
    /// [`Misuse`], and nothing has changed. [`Misuse::Busy`] while another request waits to be
    /// transmitted or every slot is taken, and for a goodbye while any answer is awaited.
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
        // There is a free one, or it is an abort, for which all were freed.
        Slots::insert(&mut self.inflight, waiting).ok_or(Misuse::Busy)?;
        self.is_listening |= matches!(request, PmixRequest::Register { .. });
        self.outgoing = Some(match kept {
            QueuedPmixRequest::Job => Outgoing::Greeting(ticket),
            kept => Outgoing::Request(ticket, kept),
        });
        self.state = next;
        Ok(ticket)
    }

    /// Keeps a value under a key until [`PmixRequest::Commit`] sends it. Of several under one key the last
    /// one counts.
    ///
    /// # Errors
    ///
    /// [`Misuse`], and nothing has changed: for a key that is empty, longer than
    /// [`KEY_BYTES_MAX`] or begins with `pmix`, and where there is no room.
    pub fn put(&mut self, scope: Scope, key: &[u8], value: Datum<'_>) -> Result<(), Misuse> {
        self.state.can_put()?;
        self.puts.put(scope, key, value)
    }

    /// What is known of a process under a key without asking: what this client has put itself and not
    /// committed, and what the launcher has said at the start of the process, of its node and its
    /// application, and of the whole job.
    ///
    /// Shape: `rank` is one of the own job, or [`WILDCARD`](crate::wire::pmix::WILDCARD) for the job.
    pub fn known(&self, rank: u32, key: &[u8]) -> Option<Value<'_>> {
        let own = (rank == self.identity.rank).then(|| self.puts.find(key)).flatten();
        own.or_else(|| self.job_info().find(rank, key))
    }

    /// The description of the job; nothing before [`PmixRequest::Init`] was answered.
    pub fn job_info(&self) -> JobInfo<'_> {
        JobInfo::new(self.job.as_slice(), self.identity.format, self.identity.rank)
    }

    /// Who this client says it is.
    pub const fn identity(&self) -> &ProcIdentity {
        &self.identity
    }

    /// Where the conversation stands.
    pub const fn state(&self) -> PmixState {
        self.state
    }

    /// Number of questions have no answer yet.
    pub fn outstanding(&self) -> usize {
        self.inflight.iter().flatten().count()
    }

    fn forget_pending(&mut self) {
        self.request.clear();
        self.outgoing = None;
        self.inflight = [const { None }; SLOTS];
    }

    /// Takes a lent answer back.
    fn release_buffer(&mut self) {
        if self.buffer_use == PmixBufferUse::Lent {
            self.response.clear();
            self.buffer_use = PmixBufferUse::Incoming;
        }
    }
}

/// The longest key.
pub const KEY_BYTES_MAX: usize = 511;

/// The version of the library whose messages this client writes, and by which a server lays out what it
/// answers.
pub const VERSION: &[u8] = b"4.2.2";
