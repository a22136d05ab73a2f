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
}

impl Direction {
    /// Adds a piece, behind all others; true if it arrives next.
    pub(super) fn push(&mut self, due: Due, bytes: &[u8]) -> bool {
        if self.arrived > self.bytes.len() / 2 {
            self.bytes.drain(..self.arrived);
            self.arrived = 0;
        }
        self.pieces.push_back(Piece { due, len: bytes.len() });
        self.bytes.extend_from_slice(bytes);
        self.pieces.len() == 1
    }

    /// The bytes of the next piece, which has arrived, and when the one behind it will.
    pub(super) fn pop(&mut self) -> (&[u8], Option<Due>) {
        let len = self.pieces.pop_front().map_or(0, |piece| piece.len);
        let start = self.arrived;
        self.arrived += len;
        (&self.bytes[start..self.arrived], self.pieces.front().map(|piece| piece.due))
    }
}

/// A connection of a child to its parent.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) child: NodeId,
    pub(super) parent: NodeId,
    /// Bytes vanish, and its end is not noticed.
    pub(super) is_muted: bool,
    /// Both ends have noticed its end.
    pub(super) is_over: bool,
    /// Up, down.
    pub(super) directions: [Direction; 2],
}

impl Connection {
    pub(super) fn new(child: NodeId, parent: NodeId) -> Self {
        Self { child, parent, is_muted: false, is_over: false, directions: Default::default() }
    }

    /// The direction of bytes from `from`: 0 is up.
    pub(super) fn direction(&self, from: NodeId) -> usize {
        usize::from(from != self.child)
    }

    pub(super) fn other(&self, node: NodeId) -> NodeId {
        if node == self.child { self.parent } else { self.child }
    }

    /// Loses what is under way.
    pub(super) fn reset(&mut self) {
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

impl FrameCounter {
    /// Number of frames of collective operations that begin in `bytes`.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = &bytes[passed..];
            while self.head.len() <= HEAD_BYTES && !bytes.is_empty() && self.skip == 0 {
                self.head.push(bytes[0]);
                bytes = &bytes[1..];
            }
            if let [low, high, number] = *self.head {
                found += u64::from(COLLECTIVE.contains(&number));
                self.skip = usize::from(u16::from_le_bytes([low, high])).saturating_sub(1);
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
        let mut direction = Direction::default();
        assert!(direction.push((1, 1), &[1, 2]));
        assert!(!direction.push((1, 2), &[3]));
        assert_eq!(direction.pop(), ([1, 2].as_slice(), Some((1, 2))));
        // The room of what has arrived is used again.
        assert!(!direction.push((4, 3), &[4; 100]));
        assert_eq!(direction.bytes.len(), 101);
        assert_eq!(direction.pop(), ([3].as_slice(), Some((4, 3))));
        assert_eq!(direction.pop(), ([4; 100].as_slice(), None));
        assert!(direction.push((9, 4), &[5]));
        assert_eq!(direction.bytes, [5]);
    }

    #[test]
    fn frames_are_counted_at_every_cut() {
        let stream = [1, 0, 3, 4, 0, 6, 1, 2, 3, 1, 0, 7, 2, 0, 6, 6];
        for cut in 0..=stream.len() {
            let mut counter = FrameCounter::default();
            let (one, two) = stream.split_at(cut);
            assert_eq!(counter.count(one) + counter.count(two), 3, "cut at {cut}");
        }
    }
}
