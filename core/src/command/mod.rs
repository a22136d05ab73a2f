//! Messages without their bytes: one meaning for three generations of the protocol.
//!
//! A codec in [`wire`](crate::wire) converts bytes into a [`Request`] or a [`Reply`] and back; server and
//! client know only these. A request that several generations express in different words is one variant
//! here; where they differ a little, the variant carries a field for the difference.

mod process_codes;
mod reason;
mod spawn;
mod text;

pub use process_codes::{CodeFields, ProcessCodes};
pub(crate) use reason::ReasonText;
pub use reason::{LimitedField, Reason};
pub(crate) use spawn::is_numbered;
pub use spawn::{Argument, Field, InfoList, Pair, Program, Programs, Spawn, SpawnText, SpawnWords};
pub use text::Text;

use crate::error::Code;
use crate::parts;

/// A version of the protocol, as `init` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Version {
    /// Generation: 1 or 2.
    pub major: u16,
    /// Revision within it.
    pub minor: u16,
}

impl Version {
    /// PMI-1.1: lock-step lines.
    pub const V1_1: Self = Self { major: 1, minor: 1 };
    /// PMI-1.2: adds fences of groups with tags.
    pub const V1_2: Self = Self { major: 1, minor: 2 };
    /// PMI-2.0: frames with a length.
    pub const V2_0: Self = Self { major: 2, minor: 0 };
    /// The binary dialect of this crate, with a number that no PMI will have. Spec: `docs/binary.md`.
    pub const BINARY: Self = Self { major: 0xf, minor: 1 };
}

/// Kind of a request: its name in the command table of every dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(missing_docs, reason = "each is the variant of `Request` of the same name")]
pub enum Verb {
    Init,
    InitAck,
    FullInit,
    Proof,
    Maxes,
    AppNum,
    UniverseSize,
    KvsName,
    Put,
    Get,
    Fence,
    NodePut,
    NodeGet,
    JobGet,
    Publish,
    Unpublish,
    Lookup,
    Spawn,
    Connect,
    Disconnect,
    GetAll,
    PutAll,
    PutPair,
    Ring,
    OutOfBand,
    Notice,
    Abort,
    Finalize,
    Unknown,
    // Behind the others, which are in the order of `Request`: the compiler needs no table then.
    AuthResponse,
}

impl Verb {
    /// True if the request changes no state that another peer can observe.
    pub const fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::Maxes
                | Self::AppNum
                | Self::UniverseSize
                | Self::KvsName
                | Self::Get
                | Self::NodeGet
                | Self::JobGet
                | Self::Lookup
                | Self::GetAll
                | Self::Notice
                | Self::Unknown
        )
    }
}

/// Place of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Place<'a> {
    /// The key-value space of the job with this name; the caller's own if none is given.
    Job(Option<Text<'a>>),
    /// The attributes that the ranks of one node share. PMI-2 `info-*nodeattr`.
    Node,
    /// Attributes that the process manager sets for the job. PMI-2 `info-getjobattr`.
    Attributes,
}

/// Participants of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FenceGroup<'a> {
    /// Every rank of the job.
    World,
    /// Every rank on the caller's node.
    Node,
    /// The ranks listed, as decimal numbers with commas between. Spec: PMI-1.2 `barrier_in`.
    Ranks(&'a [u8]),
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Request<'a> {
    /// Opens the conversation. `cmd=init`; the same line opens PMI-2.
    Init {
        /// The version the client wants to speak.
        version: Version,
    },
    /// Identifies a caller. `cmd=initack`, over TCP only.
    InitAck {
        /// The identity the launcher gave it, in practice its rank.
        id: u64,
    },
    /// Completes the opening of PMI-2. `cmd=fullinit`.
    FullInit {
        /// The rank the client believes it has.
        rank: Option<u32>,
        /// The job the client believes it is in.
        job: Option<Text<'a>>,
        /// True if several threads will share the connection.
        threaded: bool,
        /// Method by which the client offers to prove the secret.
        method: Option<Text<'a>>,
    },
    /// Proves it, in answer to [`Answer::Challenge`]. `cmd=auth-response-complete`, or `cmd=auth-response` if
    /// the method has another round.
    Proof {
        /// Text of the method; the digits of a proof.
        digits: Text<'a>,
        /// True if the client has no further message.
        is_last: bool,
    },
    /// Asks for the longest name, key and value.
    Maxes,
    /// Asks which of several programs of a launch this is.
    AppNum,
    /// Asks how many processes there could be at most.
    UniverseSize,
    /// Asks for the name of the job's space. In PMI-2: the job's id.
    KvsName,
    /// Stores a value.
    Put {
        /// Place of the key.
        place: Place<'a>,
        /// Under which key.
        key: Text<'a>,
        /// The value.
        value: Text<'a>,
    },
    /// Reads a value.
    Get {
        /// Place of the key.
        place: Place<'a>,
        /// The key.
        key: Text<'a>,
        /// True to wait until a rank has put the key.
        wait: bool,
    },
    /// Waits for all participants, and makes their puts visible.
    Fence {
        /// Participants.
        group: FenceGroup<'a>,
        /// Distinguishes several fences of one client; returned with the reply.
        tag: Option<u32>,
    },
    /// Makes a port known under the name of a service.
    Publish {
        /// The service.
        service: Text<'a>,
        /// Address of the service.
        port: Text<'a>,
    },
    /// Takes a published name back.
    Unpublish {
        /// The service.
        service: Text<'a>,
    },
    /// Asks for the port of a service.
    Lookup {
        /// The service.
        service: Text<'a>,
    },
    /// Asks for new processes.
    Spawn(Spawn<'a>),
    /// Asks to read another job's space.
    Connect {
        /// That job's id.
        job: Text<'a>,
    },
    /// Takes a connection back.
    Disconnect {
        /// The other job's id.
        job: Text<'a>,
    },
    /// Reads the whole space of a job. `kvs-getall`
    GetAll {
        /// That job's id.
        job: Text<'a>,
    },
    /// Announces pairs for the space of a job. `kvs-putall`
    PutAll {
        /// That job's id.
        job: Text<'a>,
        /// Number of pairs that follow.
        pairs: u32,
    },
    /// One of the pairs announced. `kvs-putall-pair`
    PutPair {
        /// The key.
        key: Text<'a>,
        /// The value.
        value: Text<'a>,
    },
    /// Waits for all ranks and returns the values of both neighbours. Slurm's `ring`.
    Ring {
        /// For the rank before.
        left: Text<'a>,
        /// For the rank behind.
        right: Text<'a>,
    },
    /// Opens a second connection, on which the server speaks first. `cmd=init_oob`
    OutOfBand {
        /// The identity the launcher gave the process.
        id: Option<u64>,
        /// The signal that shall follow every message; none if the process watches the connection.
        signal: Option<Text<'a>>,
        /// The version the client wants to speak.
        version: Version,
    },
    /// Ends the job. There is no answer.
    Abort {
        /// The exit code the job shall have.
        code: Option<i32>,
        /// True to abort the whole job, false for the caller alone.
        world: bool,
        /// For a person.
        message: Text<'a>,
    },
    /// Ends the session.
    Finalize,
    /// A message that reads well but lacks a field, or has one that cannot be meant.
    Lacking {
        /// Kind of the request.
        verb: Verb,
        /// The field.
        field: &'static str,
    },
    /// A well-formed message with an unknown command.
    Unknown {
        /// The command.
        word: &'a [u8],
    },
}

/// A reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reply<'a> {
    /// Kind of the request that it answers.
    pub to: Verb,
    /// Tag of the exchange; empty if the client gave none.
    pub tag: &'a [u8],
    /// Result code.
    pub code: Code,
    /// The answer proper.
    pub answer: Answer<'a>,
}

/// Content of a reply, by its meaning and independent of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Answer<'a> {
    /// The result code alone.
    Nothing,
    /// The version that will be spoken.
    Version(Version),
    /// Identity of the client.
    Identity(Identity<'a>),
    /// The nonce to prove knowledge of the secret with, before the question is answered.
    Challenge(Text<'a>),
    /// The longest name, key and value.
    Maxes(Maxes),
    /// A number; -1 stands for "unknown".
    Number(i32),
    /// A name of a space or job.
    Name(Text<'a>),
    /// The value that was asked for.
    Value(Text<'a>),
    /// There is no such key.
    Missing,
    /// The fence is complete.
    Released {
        /// The tag of the request.
        tag: Option<u32>,
    },
    /// The jobs are connected, but neither of their servers can read the space of the other: the processes
    /// copy the pairs. PMI-2 `kvscopy`.
    CopyNeeded,
    /// Number of pairs of a whole space that follow.
    Count(u32),
    /// One of them.
    Pair(Pair<'a>),
    /// The neighbours' values, and which place in the ring the client has.
    Ring {
        /// The rank.
        count: u32,
        /// Right value of the previous rank.
        left: Text<'a>,
        /// Left value of the next rank.
        right: Text<'a>,
    },
    /// Unsolicited message of the server, on a connection of its own.
    Notice(Notice),
    /// Result of a spawn, as the server writes it.
    Made {
        /// The new job's id; none if nothing was started.
        job: Option<Text<'a>>,
        /// The codes of all processes, in their order; none means that of the answer for all.
        codes: &'a [CodeRun],
    },
    /// Result of a spawn, as the client reads it.
    Spawned {
        /// The new job's id.
        job: Option<Text<'a>>,
        /// One code for each process; none means success for all.
        codes: Option<ProcessCodes<'a>>,
    },
    /// Why it did not work, as the server knows it.
    Refused(Reason<'a>),
    /// Why it did not work, as the client read it.
    Message(Text<'a>),
}

/// Processes of a spawn that stand next to each other and have the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CodeRun {
    /// Number of processes.
    pub count: u32,
    /// Result code of their start.
    pub code: Code,
}

/// Unsolicited message of a server, out of band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Notice {
    /// Write a checkpoint.
    Checkpoint,
    /// The job ends with this exit code.
    Abort(i32),
}

/// Identity of a client: the reply to `initack` and `fullinit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Identity<'a> {
    /// Its rank.
    pub rank: u32,
    /// Number of ranks in the job.
    pub size: u32,
    /// Index of the program in its launch; -1 stands for "unknown".
    pub appnum: i32,
    /// The job that spawned it.
    pub spawner: Option<Text<'a>>,
    /// True if a debugger controls the job: `debugged` of PMI-2, which the other dialects cannot express.
    pub is_debugged: bool,
    /// True if the client shall print debug messages: `pmiverbose` of PMI-2, which the other dialects cannot
    /// express.
    pub is_verbose: bool,
}

/// The longest name, key and value, each counting a C terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Maxes {
    /// Name of a space.
    pub kvsname: u32,
    /// Key.
    pub key: u32,
    /// Value.
    pub value: u32,
}

impl Request<'_> {
    /// Kind of the request.
    #[inline(never)]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Init { .. } => Verb::Init,
            Self::InitAck { .. } => Verb::InitAck,
            Self::FullInit { .. } => Verb::FullInit,
            Self::Proof { is_last: false, .. } if parts::LISTEN => Verb::AuthResponse,
            Self::Proof { .. } => Verb::Proof,
            Self::Maxes => Verb::Maxes,
            Self::AppNum => Verb::AppNum,
            Self::UniverseSize => Verb::UniverseSize,
            Self::KvsName => Verb::KvsName,
            Self::Put { place: Place::Node, .. } => Verb::NodePut,
            Self::Put { .. } => Verb::Put,
            Self::Get { place: Place::Node, .. } => Verb::NodeGet,
            Self::Get { place: Place::Attributes, .. } => Verb::JobGet,
            Self::Get { .. } => Verb::Get,
            Self::Fence { .. } => Verb::Fence,
            Self::Publish { .. } => Verb::Publish,
            Self::Unpublish { .. } => Verb::Unpublish,
            Self::Lookup { .. } => Verb::Lookup,
            Self::Spawn(_) => Verb::Spawn,
            Self::Connect { .. } => Verb::Connect,
            Self::Disconnect { .. } => Verb::Disconnect,
            Self::GetAll { .. } => Verb::GetAll,
            Self::PutAll { .. } => Verb::PutAll,
            Self::PutPair { .. } => Verb::PutPair,
            Self::Ring { .. } => Verb::Ring,
            Self::OutOfBand { .. } => Verb::OutOfBand,
            Self::Abort { .. } => Verb::Abort,
            Self::Finalize => Verb::Finalize,
            Self::Lacking { verb, .. } => *verb,
            Self::Unknown { .. } => Verb::Unknown,
        }
    }
}
