//! Recorded messages between each rank and its server.

use pmi_trace::describe::{Meaning, describe};
use pmi_trace::{Direction, Trace, message};
use std::collections::BTreeMap;

/// Recorded number of the job, and rank.
pub(super) type RecordedRank = (u32, u32);

/// A recorded message.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedMessage<'a> {
    /// Position among all records.
    pub(super) at: usize,
    pub(super) direction: Direction,
    pub(super) bytes: &'a [u8],
}

impl RecordedMessage<'_> {
    /// Meaning of the message.
    pub(super) fn meaning(&self) -> Meaning {
        describe(self.direction, self.bytes)
    }
}

/// Messages of each rank, in their order. A connection counts as the rank that it identified itself as;
/// messages of connections without a rank are left out, and so is PMIx, which is not replayed.
pub(super) fn scripts(trace: &Trace) -> BTreeMap<RecordedRank, Vec<RecordedMessage<'_>>> {
    let ranks = trace.records.iter().filter_map(|one| Some((one.session?, (one.job, one.rank?))));
    let known: BTreeMap<u32, RecordedRank> = ranks.collect();
    let mut scripts = BTreeMap::<RecordedRank, Vec<RecordedMessage<'_>>>::new();
    for (at, record, direction, bytes) in trace.messages() {
        let own = record.rank.map(|rank| (record.job, rank));
        let who = own.or_else(|| record.session.and_then(|session| known.get(&session)).copied());
        if let Some(who) = who.filter(|_| !message::is_pmix(direction, bytes)) {
            scripts.entry(who).or_default().push(RecordedMessage { at, direction, bytes });
        }
    }
    scripts
}

/// Name of a rank in reports: with the job only if there are several.
pub(super) fn name(trace: &Trace, (job, rank): RecordedRank) -> String {
    match trace.jobs().nth(1) {
        None => format!("rank {rank}"),
        Some(_) => format!("rank {rank} of job {job}"),
    }
}

/// Number of ranks of a job, above that of any launcher; each takes memory here.
pub(super) const RANKS_MAX: u32 = 1 << 20;

/// Number of characters of a value that are shown.
pub(super) const VALUE_MAX: usize = 100;
