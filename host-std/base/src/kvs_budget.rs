//! Memory budget for the key-value pairs of one run, in all spaces of all its jobs.

use pmi_core::ids::Rank;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::fmt;

/// Limits of all key-value spaces of a run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvsLimits {
    /// Number of pairs (`--kvs-pairs`).
    pub pairs: u64,
    /// Number of bytes of keys and values (`--kvs-bytes`); the same amount again holds the data that PMIx
    /// clients commit, publish and wait for.
    pub bytes: u64,
}

impl Default for KvsLimits {
    fn default() -> Self {
        // Four pairs for each rank of the largest job, with 256 bytes each for key and value: some ten
        // times the data of MPI libraries.
        Self { pairs: 1 << 22, bytes: 1 << 30 }
    }
}

/// Budget shared by the spaces of one run.
#[derive(Debug, Default)]
pub struct KvsBudget {
    limits: KvsLimits,
    pairs: Cell<u64>,
    bytes: Cell<u64>,
    refused: RefCell<PutRefusal>,
}

/// The first put that exceeded the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPut {
    /// Space of the put.
    pub space: String,
    /// Rank that sent the put; `None` for the launcher itself.
    pub rank: Option<Rank>,
    /// Key of the put.
    pub key: Vec<u8>,
    /// Limits that are exhausted.
    pub limits: KvsLimits,
}

impl fmt::Display for RefusedPut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { space, rank, key, limits: KvsLimits { pairs, bytes } } = self;
        write!(f, "the put of '{}' ", key.escape_ascii())?;
        match rank {
            None => f.write_str("by the launcher itself")?,
            Some(rank) => write!(f, "by rank {}", rank.0)?,
        }
        write!(
            f,
            " into the space {space} is refused: all spaces of the run together hold at most {pairs} pairs \
             (--kvs-pairs) and {bytes} bytes (--kvs-bytes); reported once"
        )
    }
}

/// State of the report to the user.
#[derive(Debug, Default)]
enum PutRefusal {
    #[default]
    None,
    Unreported(RefusedPut),
    Reported,
}

impl KvsBudget {
    /// Unused budget.
    pub fn new(limits: KvsLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes pairs and bytes from the budget. False, with nothing taken, if that exceeds the rest.
    pub fn take(&self, pairs: u64, bytes: u64) -> bool {
        let (pairs, bytes) = (self.pairs.get() + pairs, self.bytes.get() + bytes);
        let fits = pairs <= self.limits.pairs && bytes <= self.limits.bytes;
        if fits {
            self.pairs.set(pairs);
            self.bytes.set(bytes);
        }
        fits
    }

    /// Returns pairs and bytes to the budget.
    pub fn give_back(&self, pairs: u64, bytes: u64) {
        self.pairs.set(self.pairs.get().saturating_sub(pairs));
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Records a put that exceeded the budget; the first one is worth a message.
    pub fn refuse(&self, space: &str, rank: Option<Rank>, key: &[u8]) {
        let mut refused = self.refused.borrow_mut();
        if matches!(*refused, PutRefusal::None) {
            let (space, key) = (space.to_owned(), key.to_owned());
            *refused = PutRefusal::Unreported(RefusedPut { space, rank, key, limits: self.limits });
        }
    }

    /// The first put that exceeded the budget, once.
    pub fn take_refused(&self) -> Option<RefusedPut> {
        let mut refused = self.refused.borrow_mut();
        let PutRefusal::Unreported(_) = *refused else { return None };
        match std::mem::replace(&mut *refused, PutRefusal::Reported) {
            PutRefusal::Unreported(put) => Some(put),
            PutRefusal::None | PutRefusal::Reported => None,
        }
    }
}
