//! Records for a reader other than the file: observers, or the head of a run on several nodes.

use std::collections::VecDeque;

/// Encoded records that were not taken yet, in blocks of whole records.
#[derive(Debug, Default)]
pub(super) struct UnsentRecords {
    blocks: VecDeque<Vec<u8>>,
    len_bytes: usize,
    lost_count: u64,
}

impl UnsentRecords {
    /// Adds a record. Without room it is counted and left out.
    pub(super) fn push(&mut self, frame: &[u8]) {
        if self.len_bytes + frame.len() > UNSENT_BYTES_MAX {
            self.lost_count += 1;
            return;
        }
        self.len_bytes += frame.len();
        match self.blocks.back_mut().filter(|block| block.len() < BLOCK_BYTES) {
            Some(block) => block.extend(frame),
            None => self.blocks.push_back(frame.to_vec()),
        }
    }

    /// True if there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.lost_count == 0
    }

    /// Takes the oldest block.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let block = self.blocks.pop_front()?;
        self.len_bytes -= block.len();
        Some(block)
    }

    /// Takes the number of records that were left out, once all earlier ones are taken.
    pub(super) fn take_lost(&mut self) -> Option<u64> {
        let is_due = self.blocks.is_empty() && self.lost_count > 0;
        is_due.then(|| std::mem::take(&mut self.lost_count))
    }
}

/// Size at which a block is complete.
const BLOCK_BYTES: usize = 32 * 1024;

/// Maximum number of bytes that wait for the reader; longer records are left out.
const UNSENT_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_in_order_and_in_whole_blocks() {
        let mut unsent = UnsentRecords::default();
        assert!(unsent.is_empty());
        for number in 0..100u8 {
            unsent.push(&[number; 1000]);
        }
        let mut all = Vec::new();
        while let Some(block) = unsent.take() {
            assert!(block.len() % 1000 == 0 && block.len() < BLOCK_BYTES + 1000);
            all.extend(block);
        }
        assert!(all.chunks(1000).zip(0..100u8).all(|(frame, number)| frame == [number; 1000]));
        assert_eq!((all.len(), unsent.is_empty(), unsent.take_lost()), (100_000, true, None));
    }

    #[test]
    fn records_without_room_are_counted_after_those_that_were_kept() {
        let mut unsent = UnsentRecords::default();
        unsent.push(&vec![1; UNSENT_BYTES_MAX]);
        unsent.push(&[2; 10]);
        unsent.push(&[3; 10]);
        assert_eq!(unsent.take_lost(), None);
        assert_eq!(unsent.take().map(|block| block.len()), Some(UNSENT_BYTES_MAX));
        assert!(!unsent.is_empty());
        assert_eq!((unsent.take_lost(), unsent.take_lost()), (Some(2), None));
        unsent.push(&[4; 10]);
        assert_eq!(unsent.take(), Some(vec![4; 10]));
    }
}
