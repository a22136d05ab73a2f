//! What is said, without the bytes: one meaning for three generations of the protocol.
//!
//! A codec in [`wire`](crate::wire) turns bytes into a [`Request`] or a [`Reply`] and back. The
//! server's job and the client's caller know only these. Where two generations ask for the same
//! thing in different words, there is one variant here; where they ask for a little more or less,
//! the variant carries a field for it.

mod reason;
mod spawn;
mod text;

pub(crate) use reason::ReasonText;
pub use reason::{LimitedField, Reason};
pub use spawn::{Argument, Field, InfoList, Pair, Program, Programs, Spawn, SpawnText, SpawnWords};
pub use text::Text;

use crate::error::Code;

/// A version of the protocol, as `init` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Our own frames, with a number that no PMI will have. Spec: `docs/binary.md`.
    pub const BINARY: Self = Self { major: 0xf, minor: 1 };
}

/// What a request is about: its name in every dialect's table of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Verb {
    /// Whether asking this changes nothing that others could notice.
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

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// The key-value space of the job with this name; the caller's own if none is given.
    Job(Option<Text<'a>>),
    /// The attributes that the ranks of one node share. PMI-2 `info-*nodeattr`.
    Node,
    /// What the process manager says about the job. PMI-2 `info-getjobattr`.
    Attributes,
}

/// Who takes part in a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceGroup<'a> {
    /// Every rank of the job.
    World,
    /// Every rank on the caller's node.
    Node,
    /// The ranks listed, as decimal numbers with commas between. Spec: PMI-1.2 `barrier_in`.
    Ranks(&'a [u8]),
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// Opens the conversation. `cmd=init`; the same line opens PMI-2.
    Init {
        /// The version the client wants to speak.
        version: Version,
    },
    /// Says who dialled in. `cmd=initack`, over TCP only.
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
        /// Whether several threads will share the connection.
        threaded: bool,
        /// How the client offers to prove that it knows the secret.
        method: Option<Text<'a>>,
    },
    /// Proves it. `cmd=auth-response-complete`, the answer to [`Answer::Challenge`].
    Proof {
        /// The digits.
        digits: Text<'a>,
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
        /// Where.
        place: Place<'a>,
        /// Under which key.
        key: Text<'a>,
        /// Which value.
        value: Text<'a>,
    },
    /// Reads a value.
    Get {
        /// Where.
        place: Place<'a>,
        /// Which key.
        key: Text<'a>,
        /// Whether to wait until somebody has put it.
        wait: bool,
    },
    /// Waits for everybody named, and makes what they put visible.
    Fence {
        /// Who takes part.
        group: FenceGroup<'a>,
        /// Tells several fences of one client apart; given back with the answer.
        tag: Option<u32>,
    },
    /// Makes a port known under the name of a service.
    Publish {
        /// The service.
        service: Text<'a>,
        /// Where it is.
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
        /// How many pairs follow.
        pairs: u32,
    },
    /// One of the pairs announced. `kvs-putall-pair`
    PutPair {
        /// The key.
        key: Text<'a>,
        /// The value.
        value: Text<'a>,
    },
    /// Waits for everybody and gets the values of both neighbours. Slurm's `ring`.
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
        /// Whether everybody is meant, or only the caller.
        world: bool,
        /// For a person.
        message: Text<'a>,
    },
    /// Says goodbye.
    Finalize,
    /// A message that reads well but lacks a field, or has one that cannot be meant.
    Lacking {
        /// What it would have asked.
        verb: Verb,
        /// The field.
        field: &'static str,
    },
    /// A message that reads well, with a command that we do not know.
    Unknown {
        /// The command.
        word: &'a [u8],
    },
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Which question it answers.
    pub to: Verb,
    /// What the client called the exchange; empty if it gave no name.
    pub tag: &'a [u8],
    /// Whether it worked.
    pub code: Code,
    /// The answer proper.
    pub answer: Answer<'a>,
}

/// The answer proper, by what it says and not by who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// The return code says all.
    Nothing,
    /// The version that will be spoken.
    Version(Version),
    /// Who the client is.
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
    /// How many pairs of a whole space follow.
    Count(u32),
    /// One of them.
    Pair(Pair<'a>),
    /// The neighbours' values, and which place in the ring the client has.
    Ring {
        /// The rank.
        count: u32,
        /// What the rank before gave to its right.
        left: Text<'a>,
        /// What the rank behind gave to its left.
        right: Text<'a>,
    },
    /// What the server says unasked, on a connection of its own.
    Notice(Notice),
    /// What became of a spawn, as the server knows it.
    Made {
        /// The new job's id; none if nothing was started.
        job: Option<Text<'a>>,
        /// The codes of all processes, in their order; none means that of the answer for all.
        codes: &'a [CodeRun],
    },
    /// What became of a spawn, as the client read it.
    Spawned {
        /// The new job's id.
        job: Option<Text<'a>>,
        /// One code for each process, as a list with commas; none means success for all.
        codes: Option<Text<'a>>,
    },
    /// Why it did not work, as the server knows it.
    Refused(Reason<'a>),
    /// Why it did not work, as the client read it.
    Told(Text<'a>),
}

/// Processes of a spawn that stand next to each other and have the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRun {
    /// How many they are.
    pub count: u32,
    /// Whether they were started, or why not.
    pub code: Code,
}

/// What a server says unasked, out of band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Write a checkpoint.
    Checkpoint,
    /// The job ends with this exit code.
    Abort(i32),
}

/// Who a client is: the answer to `initack` and `fullinit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Its rank.
    pub rank: u32,
    /// How many there are in its job.
    pub size: u32,
    /// Which program of the launch it is; -1 stands for "unknown".
    pub appnum: i32,
    /// The job that spawned it.
    pub spawner: Option<Text<'a>>,
}

/// The longest name, key and value, each counting a C terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maxes {
    /// Name of a space.
    pub kvsname: u32,
    /// Key.
    pub key: u32,
    /// Value.
    pub value: u32,
}

impl Request<'_> {
    /// What the request is about.
    #[inline(never)]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Init { .. } => Verb::Init,
            Self::InitAck { .. } => Verb::InitAck,
            Self::FullInit { .. } => Verb::FullInit,
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
