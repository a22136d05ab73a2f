//! Memory that processes share: any bytes are read without harm, and a written generation is read as it was meant.

use pmi_core::wire::snapshot::{Generation, split_message, write_generation};
use std::collections::BTreeMap;

/// Generations and batches. The bytes are taken for both, and the pairs of a generation, or the halves of the
/// messages of a batch, are written as a generation.
pub fn decode_snapshot(bytes: &[u8]) {
    if let Ok(generation) = Generation::new(bytes) {
        assert!(generation.first() <= generation.last());
        for (key, value) in generation.pairs() {
            assert!(key.len() + value.len() <= bytes.len());
            // A search may end before the slot, or at another record with the same key.
            let _ = generation.get(key);
        }
        check_written(generation.pairs().collect());
    }
    let (mut pairs, mut rest) = (BTreeMap::new(), bytes);
    while let Some((message, more)) = split_message(rest) {
        assert!(!message.is_empty() && more.len() + message.len() < rest.len());
        let (key, value) = message.split_at(message.len() / 2);
        pairs.insert(key, value);
        rest = more;
    }
    check_written(pairs);
}

/// Checks that exactly these pairs are found in the generation that is written of them.
fn check_written(pairs: BTreeMap<&[u8], &[u8]>) {
    let write = |out: &mut [u8]| write_generation(pairs.iter().map(|(k, v)| (*k, *v)), [1, 2], out);
    let needed = write(&mut []).expect_err("a generation has a header").needed;
    let mut out = vec![0xff; needed];
    assert_eq!(write(&mut out), Ok(needed));
    assert!(write(&mut out[1..]).is_err());
    let written = Generation::new(&out[..]);
    let Ok(generation) = Generation::new(&out[..]) else { panic!("{written:?}") };
    for (key, value) in &pairs {
        assert_eq!(generation.get(key), Some(*value), "{key:?}");
    }
    assert_eq!(generation.pairs().collect::<BTreeMap<_, _>>(), pairs);
    assert!(pairs.contains_key(&b"?"[..]) || generation.get(b"?").is_none());
}
