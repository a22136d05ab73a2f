//! Directives that concern a whole job: those of a PMIx spawn request, and the debuggers of the first job.
//!
//! | key | meaning here |
//! |---|---|
//! | `pmix.fwd.stdout`, `pmix.fwd.stderr` | the requester, a tool, receives the output without a further request |
//! | `pmix.fwd.stdin`, `pmix.stdin` | the ranks read input that tools push: rank 0, or this rank |
//! | `pmix.dbg.init`, `pmix.dbg.notify` | PMIx clients wait for a debugger in init or where they choose: this rank or all |
//! | `pmix.dbg.exec` | this rank or all stop at their first instruction, whatever their protocol |
//! | `pmix.debugger`, `pmix.dbg.tgt`, `pmix.dbg.job` | the processes are daemons of a debugger for these processes |
//! | `pmix.dbg.dpnd`, `pmix.dbg.dpproc` | number of daemons for each node, or for each of these processes |

use crate::settings::DebuggedRanks;
use pmi_core::wire::pmix::names::keys;
use pmi_core::wire::pmix::{Info, Type, WILDCARD};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;

/// Directives that concern a whole job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobDirectives {
    /// Ranks that read pushed input.
    pub(crate) stdin: Option<RankChoice>,
    /// True for the streams whose output goes to the requester, by index.
    pub(crate) forwards: [bool; 2],
    /// Ranks that wait for a debugger in init.
    pub(crate) stop_in_init: Option<RankChoice>,
    /// Ranks that wait for a debugger where they choose.
    pub(crate) stop_in_app: Option<RankChoice>,
    /// Ranks that stop at their first instruction.
    pub(crate) stop_on_exec: Option<RankChoice>,
    /// Ranks of the first job that start in gdb, which is on one host.
    #[serde(skip)]
    pub(crate) gdb: Option<DebuggedRanks>,
    /// True for daemons of a debugger.
    pub(crate) are_daemons: bool,
    /// Processes that these daemons control: a namespace and its ranks.
    pub(crate) target: Option<(String, RankChoice)>,
    /// Number of daemons for each node with one of these.
    pub(crate) per_node: Option<u32>,
    /// Number of daemons for each process.
    pub(crate) per_process: Option<u32>,
}

/// Ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RankChoice {
    /// All.
    All,
    /// This one.
    One(u32),
}

/// Preparation of a rank for a debugger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DebugHold {
    /// None.
    #[default]
    None,
    /// Any process of its user may attach to it.
    Traceable,
    /// The same, and it stops at its first instruction.
    StoppedOnExec,
}

/// Supported keys.
pub(crate) const KEYS: &[&[u8]] = &[
    keys::FORWARD_STDIN,
    keys::STDIN_TARGET,
    keys::FORWARD_STDOUT,
    keys::FORWARD_STDERR,
    keys::DEBUG_STOP_IN_INIT,
    keys::DEBUG_STOP_IN_APP,
    keys::DEBUG_STOP_ON_EXEC,
    keys::DEBUGGER_DAEMONS,
    keys::DEBUG_TARGET,
    keys::DEBUG_JOB,
    keys::DEBUG_DAEMONS_PER_NODE,
    keys::DEBUG_DAEMONS_PER_PROC,
];

impl JobDirectives {
    /// True if this rank starts in gdb.
    pub(crate) fn has_gdb(&self, rank: u32) -> bool {
        self.gdb.as_ref().is_some_and(|ranks| ranks.has(rank))
    }

    /// Preparation of a rank for the debugger that has requested its job.
    pub(super) fn debug_hold(&self, rank: u32) -> DebugHold {
        let is_in = |choice: Option<RankChoice>| choice.is_some_and(|choice| choice.has(rank));
        match () {
            () if self.has_gdb(rank) || is_in(self.stop_on_exec) => DebugHold::StoppedOnExec,
            () if is_in(self.stop_in_init) || is_in(self.stop_in_app) => DebugHold::Traceable,
            () => DebugHold::None,
        }
    }

    /// Removes stops, which are not for daemons.
    pub(super) fn end_stops(&mut self) {
        (self.stop_in_init, self.stop_in_app, self.stop_on_exec) = (None, None, None);
    }

    /// Applies a directive; false if it is none of [`KEYS`].
    pub(super) fn take(&mut self, info: &Info<'_>) -> bool {
        let value = &info.value;
        let number = || value.number().and_then(|number| u32::try_from(number).ok());
        match info.key {
            keys::FORWARD_STDIN if value.of == Type::BOOL => {
                let first = value.is_true().then_some(RankChoice::One(0));
                self.stdin = self.stdin.or(first);
            }
            keys::FORWARD_STDIN | keys::STDIN_TARGET => self.stdin = RankChoice::read(info),
            keys::FORWARD_STDOUT => self.forwards[0] = value.is_true(),
            keys::FORWARD_STDERR => self.forwards[1] = value.is_true(),
            keys::DEBUG_STOP_IN_INIT => self.stop_in_init = RankChoice::read(info),
            keys::DEBUG_STOP_IN_APP => self.stop_in_app = RankChoice::read(info),
            keys::DEBUG_STOP_ON_EXEC => self.stop_on_exec = RankChoice::read(info),
            keys::DEBUGGER_DAEMONS => self.are_daemons = value.is_true(),
            keys::DEBUG_TARGET => {
                self.target = value.proc().map(|proc| {
                    let nspace = String::from_utf8_lossy(proc.nspace).into_owned();
                    (nspace, RankChoice::of(proc.rank))
                });
            }
            keys::DEBUG_JOB => {
                let nspace = value.text().map(|text| String::from_utf8_lossy(text).into_owned());
                self.target = nspace.map(|nspace| (nspace, RankChoice::All));
            }
            keys::DEBUG_DAEMONS_PER_NODE => self.per_node = number(),
            keys::DEBUG_DAEMONS_PER_PROC => self.per_process = number(),
            _ => return false,
        }
        true
    }
}

impl RankChoice {
    /// The ranks that a directive names: a rank, a process, or all of them by a true value.
    fn read(info: &Info<'_>) -> Option<Self> {
        let value = &info.value;
        match value.of {
            Type::PROC => value.proc().map(|proc| Self::of(proc.rank)),
            Type::BOOL | Type::UNDEF => value.is_true().then_some(Self::All),
            _ => value.number().and_then(|rank| u32::try_from(rank).ok()).map(Self::of),
        }
    }

    const fn of(rank: u32) -> Self {
        match rank {
            WILDCARD => Self::All,
            rank => Self::One(rank),
        }
    }

    /// The rank as PMIx writes it.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::All => WILDCARD,
            Self::One(rank) => rank,
        }
    }

    /// True if this rank is among them.
    pub(crate) fn has(self, rank: u32) -> bool {
        self == Self::All || self == Self::One(rank)
    }
}

impl DebugHold {
    /// Its word on the command line of the trampoline.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Traceable => "traceable",
            Self::StoppedOnExec => "stopped",
        }
    }

    /// Reads this word.
    pub(crate) fn of_word(word: &CStr) -> Self {
        let all = [Self::Traceable, Self::StoppedOnExec];
        let found = all.into_iter().find(|hold| hold.word().as_bytes() == word.to_bytes());
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::pmix::{Format, Packer, Unpacker};

    /// The directives after one with this key and value.
    fn taken(key: &[u8], write: impl Fn(&mut Packer<'_>)) -> JobDirectives {
        let mut bytes = [0; 128];
        let mut to = Packer::new(&mut bytes, Format::PLAIN);
        to.text(Some(key)).u32(0);
        write(&mut to);
        to.finish().unwrap();
        let info = Info::read(&mut Unpacker::new(&bytes, Format::PLAIN)).unwrap();
        let mut directives = JobDirectives::default();
        assert!(directives.take(&info) && KEYS.contains(&key));
        directives
    }

    #[test]
    fn ranks_are_prepared_for_the_debugger_that_has_requested_their_job() {
        let stop = |key| taken(key, |to| _ = to.of(Type::PROC_RANK).u32(1));
        let holds = |key| [0, 1].map(|rank| stop(key).debug_hold(rank));
        let (none, traceable) = (DebugHold::None, DebugHold::Traceable);
        assert_eq!(holds(keys::DEBUG_STOP_ON_EXEC), [none, DebugHold::StoppedOnExec]);
        assert_eq!(holds(keys::DEBUG_STOP_IN_INIT), [none, traceable]);
        assert_eq!(holds(keys::DEBUG_STOP_IN_APP), [none, traceable]);
        assert_eq!(holds(keys::DEBUG_JOB), [none, none]);
    }

    #[test]
    fn ranks_are_named_by_a_rank_a_process_or_a_truth_value() {
        let stop = keys::DEBUG_STOP_IN_INIT;
        let all = Some(RankChoice::All);
        let rank = |rank| taken(stop, move |to| _ = to.of(Type::PROC_RANK).u32(rank));
        assert_eq!(rank(WILDCARD).stop_in_init, all);
        assert_eq!(rank(3).stop_in_init, Some(RankChoice::One(3)));
        let is = |is| taken(stop, move |to| _ = to.of(Type::BOOL).u8(is));
        assert_eq!((is(1).stop_in_init, is(0).stop_in_init), (all, None));
        // The stream of the requester goes to rank 0 unless another one is named.
        let stdin = taken(keys::FORWARD_STDIN, |to| _ = to.of(Type::BOOL).u8(1)).stdin;
        assert_eq!(stdin, Some(RankChoice::One(0)));
        let target = |to: &mut Packer<'_>| {
            to.of(Type::PROC).text(Some(b"kvs")).u32(5);
        };
        assert_eq!(taken(keys::STDIN_TARGET, target).stdin, Some(RankChoice::One(5)));
        let named = taken(keys::DEBUG_TARGET, target).target;
        assert_eq!(named, Some(("kvs".to_owned(), RankChoice::One(5))));
        let job = taken(keys::DEBUG_JOB, |to| _ = to.of(Type::STRING).text(Some(b"kvs"))).target;
        assert_eq!(job, Some(("kvs".to_owned(), RankChoice::All)));
    }
}
