//! Pairs of a generation that is being made.

use pmi_core::wire::snapshot::write_generation;
use std::collections::BTreeMap;

/// Pairs of a generation that is being made.
#[derive(Debug, Default)]
pub struct GenerationBuilder {
    pairs: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl GenerationBuilder {
    /// Adds a pair, in place of an earlier one with the same key.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) {
        self.pairs.insert(key.into(), value.into());
    }

    /// Adds a pair unless there is one with this key.
    pub fn insert_older(&mut self, key: &[u8], value: &[u8]) {
        if !self.pairs.contains_key(key) {
            self.insert(key, value);
        }
    }

    /// Number of bytes of all keys and values.
    pub fn len_bytes(&self) -> usize {
        self.pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// True without a pair.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The bytes of the generation, for the publications from `first` to `last`; `None` if it is too
    /// long for the format.
    pub fn finish(&self, first: u32, last: u32) -> Option<Vec<u8>> {
        let pairs = self.pairs.iter().map(|(key, value)| (&**key, &**value));
        let write = |out: &mut [u8]| write_generation(pairs.clone(), [first, last], out);
        let needed = write(&mut []).unwrap_or_else(|full| full.needed);
        let mut bytes = vec![0; Some(needed).filter(|needed| u32::try_from(*needed).is_ok())?];
        write(&mut bytes).is_ok().then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::snapshot::Generation;

    #[test]
    fn newer_value_of_a_key_stays() {
        let mut builder = GenerationBuilder::default();
        for (key, value) in [(b"k", b"1"), (b"l", b"2"), (b"k", b"3")] {
            builder.insert(key, value);
        }
        builder.insert_older(b"k", b"4");
        builder.insert_older(b"m", b"5");
        assert_eq!((builder.len_bytes(), builder.is_empty()), (6, false));
        let generation = Generation::new(builder.finish(1, 2).unwrap()).unwrap();
        let values = [b"k", b"l", b"m"].map(|key| generation.get(key).unwrap()[0]);
        assert_eq!(values, *b"325");
    }
}
