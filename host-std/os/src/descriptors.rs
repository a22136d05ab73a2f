//! Open files: the number a job needs, and the limit for its ranks.

use pmi_host_base::limits;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, Resource, Rlimit, prlimit, setrlimit};
use std::fmt;
use std::io;

/// The limit on open files, raised for this process and restored around the start of each rank.
///
/// A rank inherits the limit in force at that moment. Programs size tables and close descriptors by this
/// limit, so they get the one the user set, from their first instruction on.
#[derive(Debug)]
pub struct DescriptorLimit {
    original: Rlimit,
    per_rank: u64,
    /// Connections that need as many files as a rank, for the whole run.
    others: u32,
    raised: Option<Rlimit>,
    /// Maximum number of open files for the allowed ranks, without the connections counted by
    /// [`spare`](Self::spare).
    needed: u64,
}

/// Maximum number of simultaneous ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FdBudget {
    /// All of them.
    pub ranks: u32,
    /// Ranks that may connect to the PMIx port, besides the socket that every rank has.
    pub pmix: u32,
}

/// The limit does not allow a job of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewDescriptors {
    /// The requested ranks.
    pub(crate) budget: FdBudget,
    /// Other connections of the run.
    pub(crate) others: u32,
    /// Number of open files they need.
    pub needed: u64,
    /// Hard limit of this process.
    pub limit: u64,
}

impl DescriptorLimit {
    /// Reads the limit. `files` are open for each rank in addition to the descriptors of every rank, and
    /// `others` are connections that need as much as a rank each, besides the ranks of any budget.
    pub fn new(files: u64, others: u32) -> Self {
        let per_rank = PER_RANK + files;
        let limits::Limit { current, maximum } = limits::limit(limits::Resource::RLIMIT_NOFILE);
        Self {
            original: Rlimit { current, maximum },
            per_rank,
            others,
            raised: None,
            needed: SPARE,
        }
    }

    /// Maximum number of simultaneous ranks, if none of them uses PMIx.
    pub fn most(&self) -> u32 {
        // "No limit" is the system's notation for none.
        let ranks = |limit: u64| u32::try_from(limit.saturating_sub(SPARE) / self.per_rank);
        let most =
            self.original.maximum.map_or(MOST, |limit| ranks(limit).unwrap_or(MOST).min(MOST));
        most.saturating_sub(self.others)
    }

    /// Number of connections at the PMIx port beyond one for each rank: of further processes that
    /// represent a rank, and of unauthenticated connections.
    pub fn spare(&self) -> u64 {
        let current = self.raised.as_ref().unwrap_or(&self.original).current;
        current.map_or(u64::MAX, |current| current.saturating_sub(self.needed))
    }

    /// Number of ranks that may share memory with the server, which takes a descriptor for each. Other
    /// ranks use messages.
    pub fn segments(&self) -> usize {
        usize::try_from(self.spare() / 2).unwrap_or(usize::MAX)
    }

    /// Raises the limit for this number of simultaneous ranks, and for further connections of those with
    /// PMIx as far as the hard limit allows. The limit is never lowered again.
    ///
    /// # Errors
    ///
    /// [`TooFewDescriptors`] when not even the hard limit is enough; nothing was changed then.
    pub fn raise_for(&mut self, budget: FdBudget) -> Result<(), TooFewDescriptors> {
        let FdBudget { ranks, pmix } = budget;
        let peers = u64::from(ranks) + u64::from(self.others);
        let needed = self.check(budget)?;
        self.needed = self.needed.max(needed);
        let more = u64::from(pmix) * u64::from(MORE_PER_RANK);
        let more = if pmix > 0 { more + u64::from(CALLERS_MAX) } else { 0 };
        // A segment for each rank, with as many descriptors to spare.
        let wanted = self.needed.saturating_add(more).saturating_add(2 * peers);
        let wanted = self.original.maximum.map_or(wanted, |limit| wanted.min(limit));
        let current = self.raised.as_ref().unwrap_or(&self.original).current;
        if current.is_some_and(|current| current < wanted) {
            let raised = Rlimit { current: Some(wanted), ..self.original };
            // Raising a soft limit up to the hard one is always allowed; if it fails, the start of a rank
            // reports the error with the number at hand.
            if setrlimit(Resource::Nofile, raised).is_ok() {
                self.raised = Some(raised);
            }
        }
        self.grow_table();
        Ok(())
    }

    /// Number of open files for these ranks.
    ///
    /// # Errors
    ///
    /// [`TooFewDescriptors`] when the hard limit is not enough.
    pub fn check(&self, budget: FdBudget) -> Result<u64, TooFewDescriptors> {
        let FdBudget { ranks, pmix } = budget;
        let others = self.others;
        let peers = u64::from(ranks) + u64::from(others);
        let needed = peers * self.per_rank + u64::from(pmix) + SPARE;
        match self.original.maximum {
            Some(limit) if limit < needed => {
                Err(TooFewDescriptors { budget, others, needed, limit })
            }
            _ => Ok(needed),
        }
    }

    /// Lets the system make room for all descriptors at once.
    ///
    /// The table of a process doubles when it is full. With several threads, each time takes until all
    /// processors have passed a quiescent state (`synchronize_rcu`), 5 to 20 ms. At the start of a run there
    /// are none.
    fn grow_table(&self) {
        if self.needed > TABLE_AT_START {
            let last = i32::try_from(self.needed - 1).unwrap_or(i32::MAX);
            // Without room, the table grows later, or the start of a rank reports the error.
            drop(fcntl_dupfd_cloexec(io::stderr(), last));
        }
    }

    /// Runs `start` under the limit of the user.
    ///
    /// `start` must not open descriptors: more than the original limit may be open.
    pub fn with_original<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(raised) = self.raised else { return start() };
        setrlimit(Resource::Nofile, self.original)?;
        let result = start();
        setrlimit(Resource::Nofile, raised)?;
        result
    }

    /// Gives a process that was just started the limit of the user. For programs that examine it late, and
    /// whose start needs descriptors beyond that limit.
    pub fn restore_in(&self, process: u32) {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        if self.raised.is_some() && pid.is_some() {
            // It fails only if the process has ended.
            let _ = prlimit(pid, Resource::Nofile, self.original);
        }
    }
}

impl fmt::Display for TooFewDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget: FdBudget { ranks, pmix }, others, needed, limit } = self;
        let why = match pmix {
            0 => String::new(),
            all if all == ranks => ", with a PMIx connection for each,".to_owned(),
            some => format!(", with PMIx connections for {some} of them,"),
        };
        let others = match others {
            0 => String::new(),
            count => format!(" and {count} other connections"),
        };
        let s = if *ranks == 1 { "" } else { "s" };
        write!(
            f,
            "{ranks} rank{s}{why}{others} need {needed} open files and this process may have {limit}; \
             start fewer ranks or raise the hard limit ('ulimit -Hn', or LimitNOFILE of the service)"
        )
    }
}

impl std::error::Error for TooFewDescriptors {}

/// Number of descriptors in the launcher for a running rank: socket, two pipes, the process itself.
const PER_RANK: u64 = 4;

/// More ranks than one kernel supports; a table of them all would still fit.
const MOST: u32 = 1 << 20;

/// Maximum number of unauthenticated connections at the PMIx port, besides those of ranks.
pub const CALLERS_MAX: u8 = 64;

/// Maximum number of connections of a rank at the PMIx port beyond the first: processes it has started
/// may represent it. Fewer where the limit is low.
pub const MORE_PER_RANK: u8 = 63;

/// Standard streams, readiness loops, signals, descriptors that are open only while a rank is started,
/// and inherited ones.
const SPARE: u64 = 48;

/// Descriptors for which each process has room.
const TABLE_AT_START: u64 = 64;
