//! Output of ranks on its way from their node to the head of the run.
//!
//! Wire: records in the order in which they were written, in postcard, without anything between them.

use crate::stream::Stream;
use pmi_host_base::ranges::Ranks;
use serde::{Deserialize, Serialize};

/// Output of one rank, or of its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OutputRecord<'a> {
    /// Text of a rank. A line may be cut into several texts.
    Text {
        /// Number of its job.
        job: u32,
        /// The rank.
        rank: u32,
        /// Stream of the text.
        stream: Stream,
        /// The text.
        #[serde(borrow)]
        text: &'a [u8],
    },
    /// A stream of a rank has ended.
    Ended {
        /// Number of its job.
        job: u32,
        /// The rank.
        rank: u32,
        /// The stream.
        stream: Stream,
    },
    /// A line of the agent for the user.
    Message(&'a [u8]),
    /// The same text of several ranks.
    Shared {
        /// Number of their job.
        job: u32,
        /// The ranks.
        ranks: Ranks,
        /// Stream of the text.
        stream: Stream,
        /// Time for which the text has waited for further ranks, in milliseconds.
        held_ms: u32,
        /// The text.
        #[serde(borrow)]
        text: &'a [u8],
    },
}

impl<'a> OutputRecord<'a> {
    /// Appends the record to `to`.
    pub(crate) fn append(&self, to: &mut Vec<u8>) {
        // Neither the type nor a vector has an error.
        to.extend_from_slice(&postcard::to_stdvec(self).unwrap_or_default());
    }

    /// Reads the next record from the front of `from`, and advances it. `None` at the end, and for
    /// malformed bytes, which are left then.
    pub(crate) fn next(from: &mut &'a [u8]) -> Option<Self> {
        let (record, rest) = postcard::take_from_bytes(from).ok()?;
        *from = rest;
        Some(record)
    }
}

/// Maximum length of the text of a record.
pub(crate) const TEXT_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_one_another() {
        let records = [
            OutputRecord::Text { job: 0, rank: 3, stream: Stream::Out, text: b"a\nb\n" },
            OutputRecord::Message(b"the agent"),
            OutputRecord::Ended { job: 1, rank: u32::MAX, stream: Stream::Err },
            OutputRecord::Shared {
                job: 0,
                ranks: [0, 1, 5].into_iter().collect(),
                stream: Stream::Out,
                held_ms: 250,
                text: b"a\n",
            },
        ];
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.append(&mut bytes));
        let mut rest = &bytes[..];
        for record in &records {
            assert_eq!(OutputRecord::next(&mut rest), Some(record.clone()));
        }
        assert_eq!((OutputRecord::next(&mut rest), rest), (None, &b""[..]));
        for len in 0..bytes.len() {
            let mut cut = &bytes[..len];
            let count = std::iter::from_fn(|| OutputRecord::next(&mut cut)).count();
            assert!(count < records.len(), "{len}");
        }
    }

    /// Text of the ranks 5 to 4.
    const MIXED_RANKS: &[u8] = b"\x03\x00\x01\x05\x04\x00\x00\x01a";

    #[test]
    fn malformed_records_are_left() {
        for bytes in [&b"\x03"[..], b"\x00\x00\x01\x02\x00", b"\x00\x00\x01\x00\x7fab", MIXED_RANKS]
        {
            let mut from = bytes;
            assert_eq!((OutputRecord::next(&mut from), from), (None, bytes));
        }
    }
}
