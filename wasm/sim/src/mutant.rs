//! A server with a known fault, which the checkers must detect.
//!
//! A mutant stands between the shipped server and the links, and changes messages: nothing of the
//! core has to be broken for it.

mod pmix;

use litemap::LiteMap;
use pmi_core::wire::{Framed, pmi2};
use std::fmt;
use std::str::FromStr;

/// True if this build has any: they are a sixtieth of a page that never asks for one.
pub const MUTANTS: bool = cfg!(feature = "mutants");

/// A server with one fault.
#[derive(Clone, Debug)]
pub struct Mutant {
    kind: MutantKind,
    /// Incomplete lines of ranks.
    partial: LiteMap<u32, Vec<u8>>,
    forged: LiteMap<u32, Vec<Vec<u8>>>,
    /// Ranks whose next release was forged already, so that the true one must be dropped.
    released: LiteMap<u32, ()>,
    kept: LiteMap<u32, Vec<u8>>,
    /// State of ranks that speak PMIx.
    binary: LiteMap<u32, pmix::PmixState>,
    /// A port that was found once.
    port: Option<Vec<u8>>,
    has_acted: bool,
}

/// The fault of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutantKind {
    /// Lets a rank out of a fence as soon as it is in.
    EarlyFence,
    /// Confirms a put without storing the value.
    LosePut,
    /// Answers a get with another value.
    WrongValue,
    /// Answers a lookup with another port.
    WrongPort,
    /// Answers a put twice.
    AnswerTwice,
    /// Drops one answer to a get, of a key or of an attribute of a node.
    SwallowReply,
    /// Releases all ranks from a fence but one.
    SwallowRelease,
    /// Gives two answers in the wrong order.
    Swap,
    /// Never reports the failure of a rank.
    ForgetReport,
    /// Reports the failure of another rank.
    BlameAnother,
    /// Sends another rank an error for malformed bytes.
    HarmAnother,
    /// Continues to read although the peer does not.
    Greedy,
    /// Denies a spawn that has happened.
    DenySpawn,
    /// Confirms a spawn that has not happened.
    GrantSpawn,
    /// Starts a job without its preput values.
    ForgetPreput,
    /// Finds a key of a job that is not connected.
    Leak,
    /// Gives a rank of a ring another value than that of its neighbour.
    WrongNeighbour,
    /// Lets a rank out of a ring as soon as it is in.
    EarlyRing,
    /// Finds a name of a removed job.
    KeepName,
    /// Takes all nodes for one.
    OneNode,
    /// Misses the exit of a process that has finalized.
    MissEnd,
    /// Panics at a lookup.
    Crash,
}

impl Mutant {
    pub(crate) fn new(kind: MutantKind) -> Self {
        Self {
            kind,
            partial: LiteMap::new(),
            forged: LiteMap::new(),
            released: LiteMap::new(),
            kept: LiteMap::new(),
            binary: LiteMap::new(),
            port: None,
            has_acted: false,
        }
    }

    /// Input of the server for bytes from `rank`.
    pub(crate) fn input(&mut self, rank: u32, bytes: &[u8]) -> Vec<u8> {
        let begins = self.partial.get(&rank).is_none_or(Vec::is_empty);
        if begins && bytes.first() == Some(&0xff) {
            self.binary.entry(rank).or_default();
        }
        if let Some(talk) = self.binary.get_mut(&rank) {
            let (out, answers) = talk.input(self.kind, bytes, &mut self.has_acted);
            self.forged.entry(rank).or_default().extend(answers);
            return out;
        }
        let mut out = Vec::new();
        let mut pending = self.partial.remove(&rank).unwrap_or_default();
        pending.extend(bytes);
        while let Some(end) = message_len(&pending) {
            let rest = pending.split_off(end);
            let line = std::mem::replace(&mut pending, rest);
            if self.passes(rank, &line) {
                out.extend(line);
            }
        }
        self.partial.insert(rank, pending);
        out
    }

    fn passes(&mut self, rank: u32, line: &[u8]) -> bool {
        let says = |word: &[u8]| line.starts_with(word);
        match self.kind {
            MutantKind::EarlyFence if says(b"cmd=barrier_in") => {
                self.forge(rank, b"cmd=barrier_out rc=0\n");
                self.released.insert(rank, ());
                true
            }
            MutantKind::LosePut if says(b"cmd=put ") && !self.has_acted => {
                self.has_acted = true;
                self.forge(rank, b"cmd=put_result rc=0\n");
                false
            }
            MutantKind::EarlyRing if body(line).starts_with(b"cmd=ring;") => {
                let tag = field(line, b"thrid=").map(|tag| [b"thrid=", tag, b";"].concat());
                let answer = [
                    b"cmd=ring-response;",
                    &tag.unwrap_or_default()[..],
                    b"rc=0;ring-count=0;ring-left=;ring-right=;",
                ];
                self.forge(rank, &framed(&answer.concat()));
                self.released.insert(rank, ());
                true
            }
            MutantKind::Crash if says(b"cmd=lookup_name") => {
                panic!("a mutant crashes as it should")
            }
            _ => true,
        }
    }

    fn forge(&mut self, rank: u32, message: &[u8]) {
        self.forged.entry(rank).or_default().push(message.into());
    }

    /// Additional messages of the server.
    pub(crate) fn forged(&mut self, rank: u32) -> Vec<Vec<u8>> {
        self.forged.remove(&rank).unwrap_or_default()
    }

    /// Output on the link of `rank` for a message of the server.
    pub(crate) fn output(&mut self, rank: u32, message: &[u8]) -> Vec<Vec<u8>> {
        let says = |word: &[u8]| message.starts_with(word);
        let same = vec![message.to_vec()];
        let kind = self.kind;
        if let Some(talk) = self.binary.get_mut(&rank) {
            return talk.output(kind, message, &mut self.has_acted);
        }
        match kind {
            MutantKind::EarlyFence
                if says(b"cmd=barrier_out") && self.released.remove(&rank).is_some() =>
            {
                vec![]
            }
            MutantKind::WrongValue if says(b"cmd=get_result rc=0") => changed(message),
            MutantKind::WrongPort if says(b"cmd=lookup_result rc=0") => changed(message),
            MutantKind::HarmAnother if says(b"cmd=unparseable_msg") => {
                self.forge(u32::from(rank == 0), message);
                same
            }
            MutantKind::AnswerTwice if says(b"cmd=put_result") => [same.clone(), same].concat(),
            MutantKind::SwallowReply
                if (says(b"cmd=get_result")
                    || body(message).starts_with(b"cmd=info-getnodeattr-response"))
                    && self.acts() =>
            {
                vec![]
            }
            MutantKind::SwallowRelease if says(b"cmd=barrier_out") && self.acts() => vec![],
            MutantKind::DenySpawn if says(b"cmd=spawn_result rc=0") => {
                vec![b"cmd=spawn_result rc=1 msg=no\n".to_vec()]
            }
            MutantKind::GrantSpawn if says(b"cmd=spawn_result rc=-1") => {
                vec![b"cmd=spawn_result rc=0 spawned_kvsname=kids errcodes=0,0\n".to_vec()]
            }
            MutantKind::ForgetPreput if says(b"cmd=get_result rc=0") && self.acts() => {
                vec![b"cmd=get_result rc=4 msg=no_such_key\n".to_vec()]
            }
            MutantKind::Leak if says(b"cmd=get_result rc=4") => {
                vec![b"cmd=get_result rc=0 msg=success value=leak\n".to_vec()]
            }
            MutantKind::EarlyRing
                if body(message).starts_with(b"cmd=ring-response")
                    && self.released.remove(&rank).is_some() =>
            {
                vec![]
            }
            MutantKind::WrongNeighbour if body(message).starts_with(b"cmd=ring-response") => {
                changed(message)
            }
            MutantKind::KeepName if says(b"cmd=lookup_result rc=0") => {
                self.port = Some(message.into());
                same
            }
            MutantKind::KeepName if says(b"cmd=lookup_result") => {
                vec![self.port.clone().unwrap_or_else(|| message.into())]
            }
            MutantKind::Swap if says(b"cmd=maxes") && !self.has_acted => {
                self.kept.insert(rank, message.into());
                vec![]
            }
            MutantKind::Swap => match self.kept.remove(&rank) {
                Some(kept) => {
                    self.has_acted = true;
                    vec![message.into(), kept]
                }
                None => same,
            },
            _ => same,
        }
    }

    /// The rank that a report names; `None` if the report is suppressed.
    pub(crate) fn report(&mut self, rank: Option<u32>) -> Option<Option<u32>> {
        match self.kind {
            MutantKind::ForgetReport => None,
            MutantKind::BlameAnother => Some(rank.map(|rank| u32::from(rank == 0))),
            _ => Some(rank),
        }
    }

    /// True if the server places all ranks on one node.
    pub(crate) fn is_blind(&self) -> bool {
        self.kind == MutantKind::OneNode
    }

    /// True if it notices the end of a process.
    pub(crate) fn detects_exits(&self) -> bool {
        self.kind != MutantKind::MissEnd
    }

    pub(crate) fn is_greedy(&self) -> bool {
        self.kind == MutantKind::Greedy
    }

    /// True at the first call.
    fn acts(&mut self) -> bool {
        !std::mem::replace(&mut self.has_acted, true)
    }
}

/// The length of the message in front, as lines and frames begin.
fn message_len(bytes: &[u8]) -> Option<usize> {
    match pmi2::frame(bytes) {
        Ok(Framed::Whole(len)) if !bytes.starts_with(b"cmd=") && !bytes.starts_with(b"mcmd=") => {
            Some(len)
        }
        _ => bytes.iter().position(|b| *b == b'\n').map(|end| end + 1),
    }
}

/// A frame without its length; a line as it is.
fn body(message: &[u8]) -> &[u8] {
    if message.starts_with(b"cmd=") { message } else { message.get(6..).unwrap_or(b"") }
}

/// The value of a field of a frame.
fn field<'a>(message: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut fields = body(message).split(|b| *b == b';');
    fields.find_map(|field| field.strip_prefix(name))
}

fn framed(body: &[u8]) -> Vec<u8> {
    [format!("{:<6}", body.len()).as_bytes(), body].concat()
}

/// The message with another last letter.
fn changed(message: &[u8]) -> Vec<Vec<u8>> {
    let mut changed = message.to_vec();
    if let Some(last) = changed.iter_mut().rev().nth(1) {
        *last ^= 1;
    }
    vec![changed]
}

impl MutantKind {
    /// All kinds of mutants, and their names.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::EarlyFence, "early-fence"),
        (Self::LosePut, "lose-put"),
        (Self::WrongValue, "wrong-value"),
        (Self::WrongPort, "wrong-port"),
        (Self::AnswerTwice, "answer-twice"),
        (Self::SwallowReply, "swallow-reply"),
        (Self::SwallowRelease, "swallow-release"),
        (Self::Swap, "swap"),
        (Self::ForgetReport, "forget-report"),
        (Self::BlameAnother, "blame-another"),
        (Self::HarmAnother, "harm-another"),
        (Self::Greedy, "greedy"),
        (Self::DenySpawn, "deny-spawn"),
        (Self::GrantSpawn, "grant-spawn"),
        (Self::ForgetPreput, "forget-preput"),
        (Self::Leak, "leak"),
        (Self::WrongNeighbour, "wrong-neighbour"),
        (Self::EarlyRing, "early-ring"),
        (Self::KeepName, "keep-name"),
        (Self::OneNode, "one-node"),
        (Self::MissEnd, "miss-end"),
        (Self::Crash, "crash"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for MutantKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name)| name);
            format!("mutants are {}, not `{name}`", names.join(" "))
        })
    }
}

impl fmt::Display for MutantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
