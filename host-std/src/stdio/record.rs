//! Output of ranks on its way from their node to the head of the run.
//!
//! Wire: records in the order in which they were written, in postcard, without anything between them.

use crate::rank_sets;
use pmi_host_base::ranges::Ranks;
use pmi_host_os::byte_vec;
use pmi_host_os::stream::Stream;
use serde::{Deserialize, Serialize};

/// Output of one rank, or of its node.
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
        #[serde(borrow, serialize_with = "byte_vec::serialize")]
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
    /// A line of a node for the user.
    Message {
        /// Number of its node in the tree.
        node: u32,
        /// Number of the line among those of the node, from 1.
        number: u64,
        /// The line.
        #[serde(borrow, serialize_with = "byte_vec::serialize")]
        text: &'a [u8],
    },
    /// Text of one or several ranks, in a run in which equal lines are written once.
    Shared {
        /// Number of their job.
        job: u32,
        /// Stream of the text.
        stream: Stream,
        /// Time for which the text has waited for further ranks, in milliseconds.
        held_ms: u32,
        /// True for lines, which may be written once together with equal ones of other ranks.
        is_whole: bool,
        /// The ranks, by the position of the text in their streams.
        places: Vec<TextPlace>,
        /// The text.
        #[serde(borrow, serialize_with = "byte_vec::serialize")]
        text: &'a [u8],
    },
    /// What a rank has written up to now precedes this: the head has asked for the rest of a line.
    UpToDate {
        /// Number of its job.
        job: u32,
        /// The rank.
        rank: u32,
        /// The stream.
        stream: Stream,
    },
}

/// Ranks with a text at the same position in their streams. The head takes each byte of a stream once,
/// by whatever path it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextPlace {
    /// Number of bytes in front of the text.
    pub(crate) at: u64,
    /// The ranks.
    pub(crate) ranks: Ranks,
}

impl TextPlace {
    /// The same places, with one for each position, in ascending order.
    pub(crate) fn united(mut places: Vec<Self>) -> Vec<Self> {
        if places.len() > 1 {
            places.sort_by_key(|place| place.at);
            let same = places.chunk_by(|one, other| one.at == other.at);
            let unite = |same: &[Self]| {
                let ranks = rank_sets::union(same.iter().map(|place| &place.ranks));
                Some(Self { at: same.first()?.at, ranks })
            };
            places = same.filter_map(unite).collect();
        }
        places
    }
}

impl<'a> OutputRecord<'a> {
    /// Appends the record to `to`.
    pub(crate) fn append(&self, to: &mut Vec<u8>) {
        // Neither the type nor a vector has an error.
        *to = postcard::to_extend(self, std::mem::take(to)).unwrap_or_default();
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
            OutputRecord::Message { node: 3, number: 1, text: b"the agent" },
            OutputRecord::Ended { job: 1, rank: u32::MAX, stream: Stream::Err },
            OutputRecord::Shared {
                job: 0,
                stream: Stream::Out,
                held_ms: 250,
                is_whole: true,
                places: vec![
                    TextPlace { at: 0, ranks: [0, 1, 5].into_iter().collect() },
                    TextPlace { at: 300, ranks: [2].into_iter().collect() },
                ],
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
    const MIXED_RANKS: &[u8] = b"\x03\x00\x00\x00\x01\x01\x00\x01\x05\x04\x01a";

    #[test]
    fn places_are_united_by_position() {
        let place = |at, ranks: &[u32]| TextPlace { at, ranks: ranks.iter().copied().collect() };
        let places = vec![place(7, &[4, 5]), place(0, &[3]), place(7, &[6]), place(0, &[1])];
        let united = [place(0, &[1, 3]), place(7, &[4, 5, 6])];
        assert_eq!(TextPlace::united(places), united);
    }

    #[test]
    fn malformed_records_are_left() {
        for bytes in [&b"\x03"[..], b"\x00\x00\x01\x02\x00", b"\x00\x00\x01\x00\x7fab", MIXED_RANKS]
        {
            let mut from = bytes;
            assert_eq!((OutputRecord::next(&mut from), from), (None, bytes));
        }
    }
}
