//! Random numbers from one seed, the same on every machine.

use oorandom::Rand64;
use std::fmt;

/// Draws numbers. Two sources with the same seed and stream draw the same.
#[derive(Clone, Debug)]
pub struct Rng(Rand64);

/// A range of times or counts; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub from: u64,
    /// The most.
    pub to: u64,
}

/// A chance in a hundred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

impl Rng {
    /// A separate stream for each consumer: the draws of one do not shift those of the others, so
    /// that a scenario keeps its shape when a part of it is removed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Rand64::new_inc(u128::from(seed), u128::from(stream)))
    }

    /// A number below `end`; 0 if `end` is.
    pub fn below(&mut self, end: u64) -> u64 {
        if end < 2 { 0 } else { self.0.rand_range(0..end) }
    }

    /// A number of `span`.
    pub fn within(&mut self, span: Span) -> u64 {
        if span.to <= span.from { span.from } else { self.0.rand_range(span.from..span.to + 1) }
    }

    /// True in `percent` of a hundred draws. Nothing is drawn for what is certain.
    pub fn chance(&mut self, percent: Percent) -> bool {
        match percent.0 {
            0 => false,
            100.. => true,
            some => self.below(100) < u64::from(some),
        }
    }

    /// An index into something of length `len`; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }
}

impl Span {
    /// The range of `value` alone.
    pub const fn just(value: u64) -> Self {
        Self { from: value, to: value }
    }

    /// From `from` to `to`.
    pub const fn new(from: u64, to: u64) -> Self {
        Self { from, to }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from == self.to {
            true => write!(f, "{}", self.from),
            false => write!(f, "{}..{}", self.from, self.to),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_are_the_same_everywhere_and_differ_by_stream() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [(); 4].map(|()| rng.below(1000))
        };
        // Fixed numbers: another generator, or another width of words, would show here.
        assert_eq!(draw(1, 0), GOLDEN);
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn spans_and_chances_keep_to_their_ends() {
        let mut rng = Rng::new(7, 7);
        let mut seen = [false; 3];
        for _ in 0..200 {
            let drawn = rng.within(Span::new(4, 6));
            seen[usize::try_from(drawn - 4).unwrap()] = true;
            assert!(!rng.chance(Percent(0)) && rng.chance(Percent(100)));
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(rng.within(Span::new(9, 3)), 9);
        let hits = (0..1000).filter(|_| rng.chance(Percent(25))).count();
        assert!((150..350).contains(&hits), "{hits}");
    }

    const GOLDEN: [u64; 4] = [387, 437, 147, 103];
}
