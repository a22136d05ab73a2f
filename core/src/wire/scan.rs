//! Search for one byte.

/// Position of the first `wanted` in `bytes`.
///
/// Readers of text protocols pass each byte of a value twice in search of its end, which took a third of the
/// processor time of a put of 1,023 bytes by one comparison at a time.
///
/// Most words have fewer than 24 bytes, for which the vectors of a library take longer to set up than eight
/// bytes at a time.
#[cfg(target_pointer_width = "64")]
pub(super) fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    let pattern = LOWEST_BITS * u64::from(wanted);
    let mut at = 0;
    while at < WORDS_BYTES
        && let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk)
    {
        // A byte that equals the wanted one is 0 here; the lowest of those borrows from its highest bit.
        let differing = u64::from_le_bytes(*eight) ^ pattern;
        let found = differing.wrapping_sub(LOWEST_BITS) & !differing & (LOWEST_BITS << 7);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += size_of::<u64>();
    }
    memchr::memchr(wanted, bytes.get(at..)?).map(|position| at + position)
}

/// The lowest bit of each byte.
#[cfg(target_pointer_width = "64")]
const LOWEST_BITS: u64 = u64::MAX / 255;

/// Number of bytes in which a word usually ends.
#[cfg(target_pointer_width = "64")]
const WORDS_BYTES: usize = 24;

/// Position of the first `wanted` in `bytes`.
///
/// Processors of 32 bits are boards, whose flash is scarce, and pages, whose messages are short.
#[cfg(not(target_pointer_width = "64"))]
pub(super) fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn first_of_the_bytes_is_found_wherever_it_stands() {
        // Bytes beside the wanted one differ from it in the lowest or the highest bit only.
        for (other, wanted) in [(b'a', b'='), (b'<', b'='), (0xbd, b'='), (1, 0), (0x7f, 0xff)] {
            for len in 0..97 {
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
