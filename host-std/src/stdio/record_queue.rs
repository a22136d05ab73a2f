//! Records of several nodes that wait to be sent to the node above.

use super::outlet::SHARED_BYTES;
use super::record::{OutputRecord, TEXT_BYTES, TextPlace};
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use std::collections::VecDeque;
use std::time::Instant;

/// Encoded records, in pieces that are messages later.
#[derive(Debug, Default)]
pub(crate) struct RecordQueue {
    pieces: VecDeque<Vec<u8>>,
    /// Number of pieces that were taken.
    taken: u64,
    /// Lines at the end, to which others of the same ranks may be added.
    open: Option<OpenLines>,
}

#[derive(Debug)]
struct OpenLines {
    /// Job and stream.
    of: (u32, Stream),
    /// Places of the first line.
    places: Vec<TextPlace>,
    /// Time at which the first of the ranks has written it.
    since: Instant,
    text: Vec<u8>,
}

impl RecordQueue {
    /// Adds a line, written at this time.
    pub(crate) fn put_line(
        &mut self,
        of: (u32, Stream),
        places: Vec<TextPlace>,
        (line, since): (&[u8], Instant),
    ) {
        if let Some(open) = &mut self.open
            && open.of == of
            && open.text.len() + line.len() <= SHARED_BYTES
            && open.is_continued_at(&places)
        {
            return open.text.extend_from_slice(line);
        }
        self.close();
        self.open = Some(OpenLines { of, places, since, text: line.to_vec() });
    }

    /// Adds a record.
    pub(crate) fn put(&mut self, record: &OutputRecord<'_>) {
        self.close();
        record.append(self.piece());
    }

    /// Adds an encoded record.
    pub(crate) fn put_bytes(&mut self, record: &[u8]) {
        self.close();
        self.piece().extend_from_slice(record);
    }

    /// Takes the next piece; empty if there is none.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.close();
        let piece = self.pieces.pop_front();
        self.taken += u64::from(piece.is_some());
        piece.unwrap_or_default()
    }

    /// Number of pieces that were taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Number of pieces that will have been taken when all records that are here now are.
    pub(crate) fn end(&mut self) -> u64 {
        self.close();
        self.taken + self.pieces.len() as u64
    }

    /// True if there is more than one piece.
    pub(crate) fn has_many(&self) -> bool {
        self.pieces.len() > 1
    }

    fn close(&mut self) {
        let Some(OpenLines { of: (job, stream), places, since, text }) = self.open.take() else {
            return;
        };
        let held_ms = u32::try_from(clock::since(since).as_millis()).unwrap_or(u32::MAX);
        let is_whole = true;
        debug_assert!(text.len() <= TEXT_BYTES, "longer lines are not merged");
        let text = &text;
        OutputRecord::Shared { job, stream, held_ms, is_whole, places, text }.append(self.piece());
    }

    /// The last piece, if it has room, else a new one.
    fn piece(&mut self) -> &mut Vec<u8> {
        if self.pieces.back().is_none_or(|last| last.len() >= PIECE_BYTES) {
            self.pieces.push_back(Vec::new());
        }
        let last = self.pieces.len() - 1;
        &mut self.pieces[last]
    }
}

impl OpenLines {
    /// True if a line at these places follows the text.
    fn is_continued_at(&self, places: &[TextPlace]) -> bool {
        let len = self.text.len() as u64;
        let follows = |(first, next): (&TextPlace, &TextPlace)| {
            first.at.checked_add(len) == Some(next.at) && first.ranks == next.ranks
        };
        self.places.len() == places.len() && self.places.iter().zip(places).all(follows)
    }
}

/// A message has up to this many bytes and the last record.
const PIECE_BYTES: usize = 64 * 1024;
