//! Scenarios: a world, the script of each rank, and faults.
//!
//! A scenario is a text file; its grammar is on the page of this crate. `FromStr` reads it,
//! `Display` writes it, so that a smaller scenario found by a program is a file as well.

mod acts;
mod jobs;
mod pmix;
mod read;
mod step;
mod words;
mod write;

pub use acts::{Group, RankRequest, ScriptAct, Wanted, acts, acts_of};
pub use jobs::{FIRST_JOB, Home, JobPlan};
pub use pmix::AS_PMIX;
pub use words::Phrase;

use crate::rng::{Percent, Span};
use litemap::LiteMap;
use pmi_core::client::pmix::Scope;
use pmi_core::command::Version;
use std::fmt;
use std::str::FromStr;

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// One word.
    pub name: String,
    /// Description, line by line.
    pub about: Vec<String>,
    /// The seed to use unless another is given.
    pub seed: Option<u64>,
    /// Number of ranks, of all jobs together.
    pub ranks: u32,
    /// Number of nodes they are spread over.
    pub nodes: u32,
    /// The jobs besides the first, which has the ranks before them.
    pub jobs: Vec<JobPlan>,
    /// Behaviour of the process manager.
    pub host: HostPlan,
    /// Properties of every rank and its link, unless overridden.
    pub all: Traits,
    /// Properties of single ranks.
    pub only: LiteMap<u32, Traits>,
    /// Scripts of ranks; the last one that names a rank counts.
    pub scripts: Vec<Script>,
    /// Faults.
    pub faults: Vec<Fault>,
    /// Expected results.
    pub expects: Vec<Expectation>,
}

/// Behaviour of the process manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// True if it kills all ranks after a failure, rather than only reports it.
    pub kills: bool,
    /// Delay until it serves received bytes.
    pub pace: Span,
    /// Delay of the kill after a failure.
    pub grace: Span,
    /// Delay until it notices the end of a process.
    pub notice: Span,
    /// Time limit for the identity of a new connection.
    pub patience: u64,
    /// Room for keys and values.
    pub store_bytes: u32,
    /// Time to start a spawned job.
    pub spawns: Span,
    /// True if it removes a job when the last of its processes has exited.
    pub forgets: bool,
}

/// Properties of a rank and its link, as far as they are specified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Its dialect.
    pub dialect: Option<Dialect>,
    /// True if it connects by TCP and has to identify itself.
    pub connects_by_itself: Option<bool>,
    /// Time of its start.
    pub start: Option<Span>,
    /// Delay before each step.
    pub pace: Option<Span>,
    /// Time of bytes in transit.
    pub latency: Option<Span>,
    /// Probability that a write arrives in pieces.
    pub split: Option<Percent>,
    /// Probability that a write arrives together with the one before.
    pub join: Option<Percent>,
    /// Capacity of the link in each direction, in bytes.
    pub room: Option<u32>,
    /// Probability and duration of a stall of the link.
    pub stall: Option<(Percent, Span)>,
    /// Probability that a byte changes in transit.
    pub flip: Option<Percent>,
    /// Probability that the link breaks.
    pub reset: Option<Percent>,
}

/// A rank and its link, with all properties set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the field of `Traits` of the same name")]
pub struct RankPlan {
    pub dialect: Dialect,
    pub connects_by_itself: bool,
    pub start: Span,
    pub pace: Span,
    pub latency: Span,
    pub split: Percent,
    pub join: Percent,
    pub room: u32,
    pub stall: (Percent, Span),
    pub flip: Percent,
    pub reset: Percent,
}

/// True if this build has PMIx. It is a constant and not a condition of compilation, because a match
/// then names every case in every build; a branch that cannot be taken leaves nothing behind.
pub const PMIX: bool = cfg!(feature = "pmix");

/// Protocol of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// PMI, and the version it asks for.
    Pmi(Version),
    /// PMIx. Its ranks always connect by TCP.
    Pmix,
}

/// Script of some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The ranks.
    pub who: Who,
    /// Step by step.
    pub steps: Vec<Step>,
}

/// Some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every one.
    All,
    /// No rank; `none` in the text of a scenario.
    NoRank,
    /// These, in order.
    These(Vec<u32>),
}

/// A step of a rank, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are explained once, with the grammar of a scenario")]
pub enum Step {
    Open,
    Init,
    Maxes,
    AppNum,
    Universe,
    Name,
    Put { node: bool, key: Phrase, value: Phrase },
    Get { node: bool, key: Phrase, of: Option<String>, wait: bool, wanted: Option<Option<Phrase>> },
    PutFor { scope: Scope, key: Phrase, value: Phrase },
    Commit,
    GetOf { rank: Phrase, key: Phrase, now: bool, wanted: Option<Option<Phrase>> },
    Register { code: i32 },
    Notify { code: i32 },
    AwaitEvent { code: i32, from: Option<u32> },
    Group { name: Phrase, members: Phrase },
    GroupLeave { name: Phrase },
    GroupEnd { name: Phrase },
    Fence { group: GroupPhrase, tag: Option<u32> },
    Publish { service: Phrase, port: Phrase },
    Unpublish { service: Phrase },
    Lookup { service: Phrase, wait: bool, wanted: Option<Option<Phrase>> },
    Spawn { job: String, preputs: Vec<(Phrase, Phrase)> },
    Connect { job: String },
    Disconnect { job: String },
    Ring { left: Phrase, right: Phrase },
    Abort { code: i32, message: Option<Phrase> },
    Finalize,
    Sleep(Span),
    Exit(i32),
    Die,
    Stop,
    Hang,
    Leave,
    Deaf,
    ReadAgain,
    Send(Phrase),
    Garbage(Span),
    Await(u32),
    Manual,
    Also(Box<Self>),
    Wait,
    Repeat { times: u32, name: Option<String>, steps: Vec<Self> },
    Each { name: String, steps: Vec<Self> },
}

/// Participants of a fence, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupPhrase {
    /// The fence of the job, in the form without a group.
    Job,
    /// All ranks, as a group.
    World,
    /// The node of the requester.
    Node,
    /// A list of ranks.
    Ranks(Phrase),
}

/// A possible fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its probability.
    pub chance: Percent,
    /// Time of the fault.
    pub at: Span,
    /// Its kind.
    pub what: FaultKind,
    /// The affected rank; `None` is drawn.
    pub rank: Option<u32>,
}

/// A fault of one rank or its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Its process is killed.
    Kill,
    /// Its process is stopped, for good or for a time.
    Stop(Option<Span>),
    /// Its stopped process goes on.
    Continue,
    /// The link breaks, and bytes in transit are lost.
    Reset,
    /// The process closes its end and continues to run.
    Cut,
    /// Nothing moves on the link for a time.
    Stall(Span),
    /// A bit of the next bytes changes.
    Flip(Direction),
    /// The next bytes arrive one by one.
    Shatter(Direction),
    /// The rank sends these bytes.
    Send(Vec<u8>),
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the rank to the server.
    Up,
    /// From the server to the rank.
    Down,
}

/// A condition at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// These ranks have finalized and received the reply.
    Finish(Who),
    /// These ranks, and no others, were reported.
    Report(Who),
    /// These ranks were reported, others perhaps too.
    ReportAmong(Who),
}

/// Error of an invalid scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The line, from 1; 0 if it is about the whole.
    pub line: usize,
    /// The error, and the remedy.
    pub what: String,
}

impl Scenario {
    /// Properties of `rank` and its link.
    pub fn plan(&self, rank: u32) -> RankPlan {
        let only = self.only.get(&rank).copied().unwrap_or_default();
        let all = &self.all;
        let dialect = only.dialect.or(all.dialect).unwrap_or(Dialect::Pmi(Version::V1_1));
        RankPlan {
            dialect,
            connects_by_itself: only.connects_by_itself.or(all.connects_by_itself).unwrap_or(false)
                || dialect == Dialect::Pmix,
            start: only.start.or(all.start).unwrap_or(Span::just(0)),
            pace: only.pace.or(all.pace).unwrap_or(Span::just(1)),
            latency: only.latency.or(all.latency).unwrap_or(Span::just(10)),
            split: only.split.or(all.split).unwrap_or_default(),
            join: only.join.or(all.join).unwrap_or_default(),
            room: only.room.or(all.room).unwrap_or(ROOM_BYTES),
            stall: only.stall.or(all.stall).unwrap_or((Percent(0), Span::just(0))),
            flip: only.flip.or(all.flip).unwrap_or_default(),
            reset: only.reset.or(all.reset).unwrap_or_default(),
        }
    }

    /// The node of `rank`: blocks of equal size, as far as they can be equal.
    pub const fn node(&self, rank: u32) -> u32 {
        let per_node = self.ranks.div_ceil(self.nodes);
        rank / per_node
    }

    /// The steps of `rank`.
    pub fn steps(&self, rank: u32) -> &[Step] {
        let named = self.scripts.iter().rfind(|script| script.who.has(rank));
        named.map_or(&[], |script| &script.steps)
    }
}

impl Dialect {
    /// True if it is PMI of this generation.
    pub fn is_pmi(self, generation: u16) -> bool {
        matches!(self, Self::Pmi(version) if version.major == generation)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pmi(version) => write!(f, "{}.{}", version.major, version.minor),
            Self::Pmix => f.write_str("pmix"),
        }
    }
}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        read::read(text)
    }
}

impl FaultKind {
    /// Reads a fault of one rank, as in a scenario but without a time: `kill 2`.
    ///
    /// # Errors
    ///
    /// A malformed fault.
    pub fn read(text: &str) -> Result<(Self, u32), ScenarioError> {
        read::read_fault(text)
    }
}

impl Step {
    /// True if requests overtake each other in it, as those of several threads do.
    pub(crate) fn has_threads(&self) -> bool {
        match self {
            Self::Also(_) => true,
            Self::Repeat { steps, .. } | Self::Each { steps, .. } => {
                steps.iter().any(Self::has_threads)
            }
            _ => false,
        }
    }
}

impl FromStr for Step {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        read::read_step(text)
    }
}

impl Default for Scenario {
    /// One rank without steps, and no faults.
    fn default() -> Self {
        Self {
            name: "unnamed".into(),
            about: Vec::new(),
            seed: None,
            ranks: 1,
            nodes: 1,
            jobs: Vec::new(),
            host: HostPlan::default(),
            all: Traits::default(),
            only: LiteMap::new(),
            scripts: Vec::new(),
            faults: Vec::new(),
            expects: Vec::new(),
        }
    }
}

impl Default for HostPlan {
    fn default() -> Self {
        Self {
            kills: false,
            pace: Span::just(1),
            grace: Span::just(20),
            notice: Span::just(5),
            patience: 1_000_000,
            store_bytes: 0,
            spawns: Span::just(20),
            forgets: false,
        }
    }
}

impl Who {
    /// True if `rank` is included.
    pub fn has(&self, rank: u32) -> bool {
        match self {
            Self::All => true,
            Self::NoRank => false,
            Self::These(ranks) => ranks.contains(&rank),
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// A socket of a real host holds more; this is enough for a reader that keeps up.
const ROOM_BYTES: u32 = 8192;

/// More ranks than this are a typing error.
pub(crate) const RANKS_MAX: u32 = 1_000_000;
