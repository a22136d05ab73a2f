//! Open files: how many a job needs, and the limit its ranks shall see.

use crate::launch::process::PER_RANK;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;

/// The limit on open files, raised for this process and put back around the start of each rank.
///
/// A rank inherits what is in force at that moment. Programs size tables and close descriptors by
/// this limit, so they get the one the user set, from their first instruction on.
#[derive(Debug)]
pub struct DescriptorLimit {
    original: Rlimit,
    per_rank: u64,
    raised: Option<Rlimit>,
}

/// The limit does not allow a job of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFewDescriptors {
    /// How many ranks were asked for.
    pub ranks: u32,
    /// How many open files that takes.
    pub needed: u64,
    /// How many this process may ever have.
    pub limit: u64,
}

impl DescriptorLimit {
    /// Looks the limit up. `files` are open for each rank besides what every rank costs.
    pub fn new(files: u64) -> Self {
        Self { original: getrlimit(Resource::Nofile), per_rank: PER_RANK + files, raised: None }
    }

    /// How many ranks there may be at once.
    pub fn most(&self) -> u32 {
        // "No limit" is how the system says that there is none.
        let ranks = |limit: u64| u32::try_from(limit.saturating_sub(SPARE) / self.per_rank);
        self.original.maximum.map_or(MOST, |limit| ranks(limit).unwrap_or(MOST).min(MOST))
    }

    /// Makes room for `ranks` ranks at once. Room that was made stays.
    ///
    /// Errors: [`TooFewDescriptors`] when not even the hard limit is enough; nothing was changed then.
    pub fn raise_for(&mut self, ranks: u32) -> Result<(), TooFewDescriptors> {
        let needed = u64::from(ranks) * self.per_rank + SPARE;
        let current = self.raised.as_ref().unwrap_or(&self.original).current;
        if current.is_none_or(|current| current >= needed) {
            return Ok(());
        }
        if let Some(limit) = self.original.maximum
            && limit < needed
        {
            return Err(TooFewDescriptors { ranks, needed, limit });
        }
        let raised = Rlimit { current: Some(needed), ..self.original };
        // Raising a soft limit up to the hard one is always allowed; should it fail, the start of a
        // rank will say so with the number at hand.
        if setrlimit(Resource::Nofile, raised).is_ok() {
            self.raised = Some(raised);
        }
        Ok(())
    }

    /// Runs `start` under the limit the user set.
    ///
    /// Nothing that opens a descriptor may happen inside: more than the original limit may be open.
    pub fn with_original<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(raised) = self.raised else { return start() };
        setrlimit(Resource::Nofile, self.original)?;
        let result = start();
        setrlimit(Resource::Nofile, raised)?;
        result
    }
}

impl fmt::Display for TooFewDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, needed, limit } = self;
        write!(
            f,
            "{ranks} ranks need {needed} open files and this process may have {limit}; \
             start fewer ranks or raise the hard limit ('ulimit -Hn', or LimitNOFILE of the service)"
        )
    }
}

impl std::error::Error for TooFewDescriptors {}

/// More ranks than one kernel can hold; a table of them all would still fit.
const MOST: u32 = 1 << 20;

/// Standard streams, readiness loops, signals, the ends that live only while a rank is started, and
/// what this process may have inherited.
const SPARE: u64 = 48;
