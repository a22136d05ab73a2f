//! Sets of processors by their numbers in the system.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;

/// Numbers of processors, or of memory domains. Printed as `0-2,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorSet(BTreeSet<u32>);

/// Text that is no set of processors of a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no set of processors")]
pub struct NotASet(pub String);

impl ProcessorSet {
    /// More than the numbers of any machine.
    pub const NUMBER_MAX: u32 = 1 << 16;

    /// Reads a list of the system, as `0-3,8`; an empty text is the empty set.
    ///
    /// # Errors
    ///
    /// [`NotASet`] for another text, and for numbers that no machine has.
    pub fn of_list(text: &str) -> Result<Self, NotASet> {
        let wrong = || NotASet(shortened(text));
        let mut all = BTreeSet::new();
        for piece in text.trim().split(',').filter(|piece| !piece.trim().is_empty()) {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last && last < Self::NUMBER_MAX => {
                    all.extend(first..=last);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(Self(all))
    }

    /// Reads a mask of hwloc or of the system: words of 32 bits in hexadecimal digits, the highest first, as
    /// `0x0000ffff,0xffffffff`. An empty word is 0, and so is an empty text.
    ///
    /// # Errors
    ///
    /// [`NotASet`] for another text, an infinite set (`0xf...f`), and numbers that no machine has.
    pub fn of_mask(text: &str) -> Result<Self, NotASet> {
        let wrong = || NotASet(shortened(text));
        let mut all = BTreeSet::new();
        for (at, word) in (0_u32..).zip(text.trim().rsplit(',')) {
            let word = word.trim().trim_start_matches("0x");
            let bits = match word {
                "" => 0,
                digits if digits.len() <= 8 && !digits.starts_with('+') => {
                    u32::from_str_radix(digits, 16).map_err(|_| wrong())?
                }
                _ => return Err(wrong()),
            };
            if at >= Self::NUMBER_MAX / 32 {
                return Err(wrong());
            }
            all.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| 32 * at + bit));
        }
        Ok(Self(all))
    }

    /// The mask, as [`of_mask`](Self::of_mask) reads it and hwloc writes it: words of 0 are empty but for the
    /// last one.
    pub fn mask(&self) -> String {
        let mut text = String::new();
        let last = self.0.last().map_or(0, |last| last / 32);
        for at in (0..=last).rev() {
            let inside = self.0.range(32 * at..32 * (at + 1));
            match inside.fold(0_u32, |bits, number| bits | 1 << (number % 32)) {
                0 if at == 0 => text.push_str("0x0"),
                0 => (),
                bits => text.push_str(&format!("0x{bits:08x}")),
            }
            if at > 0 {
                text.push(',');
            }
        }
        text
    }

    /// Adds the processors of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter());
    }

    /// True if both have a processor.
    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Processors of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.0.intersection(&other.0).copied().collect()
    }

    /// Processors of either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.0.union(&other.0).copied().collect()
    }

    /// Processors of this set that the other one lacks.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.0.difference(&other.0).copied().collect()
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

const SHOWN_CHARS: usize = 60;

impl Deref for ProcessorSet {
    type Target = BTreeSet<u32>;

    fn deref(&self) -> &BTreeSet<u32> {
        &self.0
    }
}

impl FromIterator<u32> for ProcessorSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl fmt::Display for ProcessorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<u32> = self.0.iter().copied().collect();
        f.write_str(&pmi_host_base::ranges::ranges(&numbers, ","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_lists_and_masks() {
        let set = ProcessorSet::of_list("0-3,8, 64\n").unwrap();
        assert_eq!((set.to_string(), set.len()), ("0-3,8,64".into(), 6));
        assert_eq!(set.mask(), "0x00000001,,0x0000010f");
        assert_eq!(ProcessorSet::from_iter([32]).mask(), "0x00000001,0x0");
        assert_eq!(ProcessorSet::of_mask(&set.mask()), Ok(set));
        assert_eq!(ProcessorSet::of_mask("0xf,,0x1").unwrap().to_string(), "0,64-67");
        let empty = ProcessorSet::default();
        assert_eq!(ProcessorSet::of_list(" \n"), Ok(empty.clone()));
        assert_eq!((ProcessorSet::of_mask(""), empty.mask()), (Ok(empty), "0x0".into()));
    }

    #[test]
    fn text_that_is_no_set_is_refused() {
        for wrong in ["a", "3-1", "-1", "1-", "65536", "0-4294967295"] {
            assert!(ProcessorSet::of_list(wrong).is_err(), "{wrong}");
        }
        let long = "0x1,".repeat(3000);
        for wrong in ["0xf...f", "0x123456789", "g", &long] {
            assert!(ProcessorSet::of_mask(wrong).is_err(), "{wrong}");
        }
        let error = ProcessorSet::of_list(&"9".repeat(500)).unwrap_err().to_string();
        assert!(error.len() < 120, "{error}");
    }

    #[test]
    fn sets_are_compared() {
        let [one, two] = ["0-3", "2-5"].map(|text| ProcessorSet::of_list(text).unwrap());
        assert!(one.meets(&two) && !one.meets(&two.without(&one)));
        assert_eq!([one.and(&two), one.or(&two)].map(|set| set.to_string()), ["2-3", "0-5"]);
    }
}
