//! Pairs of other nodes: the bytes as they arrived, and an index by key.

use pmi_core::store::{BlockError, BlockReader, BlockRecord};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

/// Blocks of pairs, of which each key is found in the latest one that has it.
///
/// A pair is addressed by its offset in the sequence of all blocks, and the index is a hash table of these
/// offsets: about eight bytes a pair, whatever its length, and no allocation for it.
#[derive(Debug, Default)]
pub(crate) struct SealedBlocks {
    blocks: Vec<SealedBlock>,
    /// Open addressing: the offset of a pair plus one, or 0.
    table: Vec<u32>,
    /// Number of pairs in the table.
    pairs: usize,
    /// Offset behind the last block.
    end: u32,
    hasher: RandomState,
}

#[derive(Debug)]
struct SealedBlock {
    /// Offset of its first byte.
    first: u32,
    bytes: Rc<[u8]>,
    /// Number of pairs.
    pairs: usize,
    /// Number of pairs that no later one has replaced.
    live: usize,
}

impl SealedBlocks {
    /// Number of pairs of a block.
    ///
    /// # Errors
    ///
    /// [`BlockError::Malformed`] if the bytes are not a block.
    pub(crate) fn count(bytes: &[u8]) -> Result<usize, BlockError> {
        BlockReader::new(bytes).try_fold(0, |pairs, record| {
            Ok(pairs + usize::from(matches!(record?, BlockRecord::Pair { .. })))
        })
    }

    /// Adds a block with this number of pairs, and returns the number of pairs and of bytes that are no
    /// longer held, since every pair of an earlier block had been replaced before.
    ///
    /// # Errors
    ///
    /// [`BlockError::NoRoom`] if all blocks of the job together are longer than offsets can tell.
    pub(crate) fn add(&mut self, bytes: &Rc<[u8]>, pairs: usize) -> Result<(u64, u64), BlockError> {
        let len = u32::try_from(bytes.len()).map_err(|_| BlockError::NoRoom)?;
        let first = self.end;
        let end = first.checked_add(len).filter(|end| *end <= OFFSETS_MAX);
        self.end = end.ok_or(BlockError::NoRoom)?;
        let released = self.release();
        self.blocks.push(SealedBlock { first, bytes: Rc::clone(bytes), pairs, live: 0 });
        self.grow(self.pairs + pairs);
        let mut reader = BlockReader::new(bytes);
        loop {
            let at = reader.offset();
            match reader.next() {
                Some(Ok(BlockRecord::Pair { key, .. })) => {
                    // Below the length, which has 32 bits.
                    self.index(key, first + u32::try_from(at).unwrap_or(u32::MAX));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Ok(released),
            }
        }
    }

    /// Finds the latest pair with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        if self.pairs == 0 {
            return None;
        }
        match self.table[self.search(key)] {
            0 => None,
            slot => Some(slot - 1),
        }
    }

    /// The pair at an offset.
    pub(crate) fn pair(&self, offset: u32) -> Option<BlockRecord<'_>> {
        let block = &self.blocks[self.block_of(offset)?];
        let at = usize::try_from(offset.checked_sub(block.first)?).ok()?;
        BlockRecord::read(&block.bytes, at).ok().map(|(record, _)| record)
    }

    /// Offset of the pair after `last`, or of the first.
    pub(crate) fn next(&self, last: Option<u32>) -> Option<u32> {
        let (mut number, mut at) = match last {
            None => (0, 0),
            Some(last) => {
                let number = self.block_of(last)?;
                let block = &self.blocks[number];
                let at = usize::try_from(last.checked_sub(block.first)?).ok()?;
                (number, BlockRecord::read(&block.bytes, at).ok()?.1)
            }
        };
        while let Some(block) = self.blocks.get(number) {
            while let Ok((record, end)) = BlockRecord::read(&block.bytes, at) {
                if matches!(record, BlockRecord::Pair { .. }) {
                    return Some(block.first + u32::try_from(at).ok()?);
                }
                at = end;
            }
            (number, at) = (number + 1, 0);
        }
        None
    }

    /// Enters a pair into the index, in place of an earlier one.
    fn index(&mut self, key: &[u8], offset: u32) {
        let place = self.search(key);
        let former = std::mem::replace(&mut self.table[place], offset + 1);
        match former.checked_sub(1).and_then(|former| self.block_of(former)) {
            Some(block) => self.blocks[block].live -= 1,
            None => self.pairs += 1,
        }
        if let Some(last) = self.blocks.last_mut() {
            last.live += 1;
        }
    }

    /// Place of a key in the table, or the free one where it belongs. There is a free one.
    fn search(&self, key: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut place = self.start(key);
        loop {
            let is_it = |slot: u32| match self.pair(slot - 1) {
                Some(BlockRecord::Pair { key: own, .. }) => own == key,
                _ => false,
            };
            match self.table[place] {
                0 => return place,
                slot if is_it(slot) => return place,
                _ => place = (place + 1) & mask,
            }
        }
    }

    fn start(&self, key: &[u8]) -> usize {
        // The low bits of the hash are as good as the high ones.
        usize::try_from(self.hasher.hash_one(key) & u64::from(u32::MAX)).unwrap_or(0)
            & (self.table.len() - 1)
    }

    /// Makes room in the table for this number of pairs.
    fn grow(&mut self, pairs: usize) {
        let len = (pairs + pairs / 3 + 1).next_power_of_two();
        if len <= self.table.len() {
            return;
        }
        let old = std::mem::replace(&mut self.table, vec![0; len]);
        for slot in old.into_iter().filter(|slot| *slot > 0) {
            if let Some(BlockRecord::Pair { key, .. }) = self.pair(slot - 1) {
                let mut place = self.start(key);
                while self.table[place] > 0 {
                    place = (place + 1) & (len - 1);
                }
                self.table[place] = slot;
            }
        }
    }

    /// Forgets the bytes of blocks whose pairs had all been replaced when the previous block came: no answer
    /// that is still to be sent refers to them.
    fn release(&mut self) -> (u64, u64) {
        let is_dead = |block: &&mut SealedBlock| block.live == 0 && !block.bytes.is_empty();
        let dead = self.blocks.iter_mut().filter(is_dead);
        let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
        dead.fold((0, 0), |(pairs, bytes), block| {
            let held = std::mem::take(&mut block.bytes);
            (pairs + count(block.pairs), bytes + count(held.len()))
        })
    }

    fn block_of(&self, offset: u32) -> Option<usize> {
        self.blocks.partition_point(|block| block.first <= offset).checked_sub(1)
    }
}

/// Upper bound of the bytes of all blocks. Half of the numbers of entries are those of other pairs.
pub(crate) const OFFSETS_MAX: u32 = 1 << 31;
