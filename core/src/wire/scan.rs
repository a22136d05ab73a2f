//! Search for one byte.

/// Position of the first `wanted` in `bytes`.
///
/// Readers of text protocols pass each byte of a value three or four times in search of its end. One
/// comparison at a time took a third of the processor time of a put of 1,023 bytes, and two thirds in PMI-2.
/// Most searches end within one field; there, words are faster than the larger blocks.
#[cfg_attr(target_pointer_width = "64", inline(never))]
pub(super) fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    if !COMPARES_BLOCKS {
        return position_by_byte(bytes, wanted);
    }
    let Some((front, behind)) = bytes.split_at_checked(BLOCK_BYTES) else {
        return position_by_word(bytes, wanted);
    };
    if let Some(at) = position_by_word(front, wanted) {
        return Some(at);
    }
    // Without an early exit the comparisons of a block become a few instructions.
    let is_in = |block: &[u8]| block.iter().fold(false, |found, byte| found | (*byte == wanted));
    let blocks = behind.chunks_exact(BLOCK_BYTES);
    let start = BLOCK_BYTES * blocks.take_while(|block| !is_in(block)).count();
    position_by_word(behind.get(start..)?, wanted).map(|at| BLOCK_BYTES + start + at)
}

/// The same, eight bytes at a time.
fn position_by_word(bytes: &[u8], wanted: u8) -> Option<usize> {
    let (words, rest) = bytes.as_chunks();
    for (number, word) in words.iter().enumerate() {
        // Zero in each byte that is wanted. The lowest byte whose highest bit is set then is the first one.
        let differs = u64::from_le_bytes(*word) ^ (LOW_BITS * u64::from(wanted));
        let found = differs.wrapping_sub(LOW_BITS) & !differs & (LOW_BITS << 7);
        if found != 0 {
            return Some(WORD_BYTES * number + found.trailing_zeros() as usize / 8);
        }
    }
    position_by_byte(rest, wanted).map(|at| WORD_BYTES * words.len() + at)
}

fn position_by_byte(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

/// Processors of 32 bits are boards, whose flash is scarcer, and pages, whose messages are short.
const COMPARES_BLOCKS: bool = cfg!(target_pointer_width = "64");

/// Two vector registers of every processor of 64 bits.
const BLOCK_BYTES: usize = 32;

const WORD_BYTES: usize = size_of::<u64>();

/// The lowest bit of each byte of a word.
const LOW_BITS: u64 = u64::MAX / 0xff;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn first_of_the_bytes_is_found_wherever_it_stands() {
        // Bytes beside the wanted one differ from it in the lowest or the highest bit only.
        for (other, wanted) in [(b'a', b'='), (b'<', b'='), (0xbd, b'='), (1, 0), (0x7f, 0xff)] {
            for len in 0..3 * BLOCK_BYTES + 1 {
                let mut bytes = vec![other; len];
                assert_eq!(position(&bytes, wanted), None);
                for at in (0..len).rev() {
                    bytes[at] = wanted;
                    assert_eq!(position(&bytes, wanted), Some(at));
                }
            }
        }
    }
}
