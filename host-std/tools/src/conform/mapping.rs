//! Judges whether a `PMI_process_mapping` covers every rank.

use super::verdict::Finding;
use super::verdict::Verdict::{AsSpecified, Tolerated, Wrong};
use super::verdict::shown;

/// Judges the mapping of a job of `size` ranks.
pub(super) fn judged(value: &[u8], size: u32) -> Finding {
    match covered(value) {
        None => Wrong.on(shown(value)),
        Some(ranks) if ranks >= u64::from(size) => AsSpecified.on(shown(value)),
        // The mapping is meant to be repeated, which MPICH does and Intel MPI does not.
        Some(_) => Tolerated.on(format!("{} for {size} ranks", shown(value))),
    }
}

/// Number of ranks that `(vector,(node,nodes,ranks),…)` covers.
fn covered(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let body = text.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut ranks = 0;
    // Of the last two parentheses, one closes the list and one its last block.
    for block in body.strip_prefix('(')?.strip_suffix(')')?.split("),(") {
        let mut numbers = block.split(',').map(|number| number.trim().parse::<u64>().ok());
        let (Some(Some(_)), Some(Some(nodes)), Some(Some(each)), None) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        ranks += nodes.saturating_mul(each);
    }
    Some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_must_name_every_rank() {
        assert_eq!(judged(b"(vector,(0,2,2))", 4).verdict, AsSpecified);
        assert_eq!(judged(b"(vector,(0,2,1),(0,2,1))", 4).verdict, AsSpecified);
        assert_eq!(judged(b"(vector,(0,1,1))", 2).verdict, Tolerated);
        for text in [&b"(vector,0)"[..], b"", b"(vector,(0,1))", b"(vector,(a,1,1))", b"vector"] {
            assert_eq!(judged(text, 1).verdict, Wrong);
        }
    }
}
