//! Connections between nodes: bytes that take time, and that a fault may silence.

use super::queue::Due;
use pmi_core::wire::nodes::HEAD_BYTES;
use pmi_tree::NodeId;
use std::collections::VecDeque;

/// One direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Direction {
    /// Bytes that were sent and have not arrived, as far as the sender knows.
    pub(super) in_flight: usize,
    /// Time of the last arrival: what is sent later does not arrive earlier.
    pub(super) last_arrival: u64,
    pub(super) counter: FrameCounter,
    /// Pieces on their way, the next one first.
    pieces: VecDeque<Piece>,
    /// Their bytes, behind those of pieces that have arrived.
    bytes: Vec<u8>,
    /// Number of bytes that have arrived.
    arrived: usize,
}

/// Bytes that arrive at one time.
#[derive(Clone, Copy, Debug)]
struct Piece {
    due: Due,
    len: usize,
    /// True if a frame ends in them.
    has_end: bool,
}

/// A piece that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival<'a> {
    pub(super) bytes: &'a [u8],
    /// True if a frame ends in them: a node keeps others until then.
    pub(super) has_end: bool,
    /// When the piece behind it arrives.
    pub(super) next: Option<Due>,
}

impl Direction {
    /// Adds a piece, behind all others; true if it arrives next.
    pub(super) fn push(&mut self, due: Due, bytes: &[u8], has_end: bool) -> bool {
        if self.arrived > self.bytes.len() / 2 {
            self.bytes.drain(..self.arrived);
            self.arrived = 0;
        }
        self.pieces.push_back(Piece { due, len: bytes.len(), has_end });
        self.bytes.extend_from_slice(bytes);
        self.pieces.len() == 1
    }

    /// The next piece, which has arrived.
    pub(super) fn pop(&mut self) -> Arrival<'_> {
        let (len, has_end) =
            self.pieces.pop_front().map_or((0, false), |piece| (piece.len, piece.has_end));
        let start = self.arrived;
        self.arrived += len;
        let next = self.pieces.front().map(|piece| piece.due);
        Arrival { bytes: &self.bytes[start..self.arrived], has_end, next }
    }
}

/// A connection of a child to its parent.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) child: NodeId,
    pub(super) parent: NodeId,
    /// Bytes vanish, and its end is not noticed.
    pub(super) is_muted: bool,
    /// It was reset: nothing arrives any more, and its ends notice that soon.
    pub(super) is_reset: bool,
    /// Both ends have noticed its end.
    pub(super) is_over: bool,
    /// Up, down.
    pub(super) directions: [Direction; 2],
}

impl Connection {
    pub(super) fn new(child: NodeId, parent: NodeId) -> Self {
        Self {
            child,
            parent,
            is_muted: false,
            is_reset: false,
            is_over: false,
            directions: Default::default(),
        }
    }

    /// The direction of bytes from `from`: 0 is up.
    pub(super) fn direction(&self, from: NodeId) -> usize {
        usize::from(from != self.child)
    }

    pub(super) fn other(&self, node: NodeId) -> NodeId {
        if node == self.child { self.parent } else { self.child }
    }

    /// Loses what is under way, and what is sent later: a stream has no gap.
    pub(super) fn reset(&mut self) {
        self.is_reset = true;
        for direction in &mut self.directions {
            direction.pieces.clear();
            direction.bytes.clear();
            direction.arrived = 0;
        }
    }
}

/// Counts the frames of collective operations in a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameCounter {
    head: Vec<u8>,
    skip: usize,
}

/// Frames in a piece of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameCount {
    /// Number of frames of collective operations whose heads end in it.
    pub(super) collective: u64,
    /// True if a frame begins in it.
    pub(super) has_begin: bool,
    /// True if a frame ends in it.
    pub(super) has_end: bool,
}

impl FrameCounter {
    /// Reads the next piece.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> FrameCount {
        let mut found = FrameCount::default();
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            found.has_end |= passed > 0 && passed == self.skip;
            self.skip -= passed;
            bytes = &bytes[passed..];
            while self.head.len() <= HEAD_BYTES && !bytes.is_empty() && self.skip == 0 {
                found.has_begin |= self.head.is_empty();
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
            }
            if let [low, high, number] = *self.head {
                found.collective += u64::from(COLLECTIVE.contains(&number));
                self.skip = usize::from(u16::from_le_bytes([low, high])).saturating_sub(1);
                found.has_end |= self.skip == 0;
                self.head.clear();
            }
        }
        found
    }
}

/// Numbers of `Contribution` and `Ended`.
const COLLECTIVE: [u8; 2] = [6, 7];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_arrive_as_they_were_sent() {
        let piece = |bytes, has_end, next| Arrival { bytes, has_end, next };
        let mut direction = Direction::default();
        assert!(direction.push((1, 1), &[1, 2], false));
        assert!(!direction.push((1, 2), &[3], true));
        assert_eq!(direction.pop(), piece(&[1, 2], false, Some((1, 2))));
        // The room of what has arrived is used again.
        assert!(!direction.push((4, 3), &[4; 100], false));
        assert_eq!(direction.bytes.len(), 101);
        assert_eq!(direction.pop(), piece(&[3], true, Some((4, 3))));
        assert_eq!(direction.pop(), piece(&[4; 100], false, None));
        assert!(direction.push((9, 4), &[5], false));
        assert_eq!(direction.bytes, [5]);
    }

    #[test]
    fn begins_and_ends_of_frames_are_found() {
        // Of lengths 1, 4 and 2.
        let stream = [1, 0, 3, 4, 0, 6, 1, 2, 3, 2, 0, 7, 1];
        let (begins, ends) = ([0, 3, 9], [2, 8, 12]);
        for width in 1..=stream.len() {
            let mut counter = FrameCounter::default();
            for (number, piece) in stream.chunks(width).enumerate() {
                let places = number * width..number * width + piece.len();
                let found = counter.count(piece);
                let has = |all: [usize; 3]| all.iter().any(|place| places.contains(place));
                let expected = (has(begins), has(ends));
                assert_eq!((found.has_begin, found.has_end), expected, "{places:?}");
            }
        }
    }

    #[test]
    fn frames_are_counted_at_every_cut() {
        let stream = [1, 0, 3, 4, 0, 6, 1, 2, 3, 1, 0, 7, 2, 0, 6, 6];
        for cut in 0..=stream.len() {
            let mut counter = FrameCounter::default();
            let (one, two) = stream.split_at(cut);
            let (one, two) = (counter.count(one), counter.count(two));
            assert_eq!(one.collective + two.collective, 3, "cut at {cut}");
        }
    }
}
