//! The file of `pmi-sim tree sweep --cursor`: the seeds that earlier sweeps have run.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Seeds that were run: all from 0 up to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeedCursor {
    /// The first seed that was not run.
    pub(super) next: u64,
    /// Seeds that broke a rule, in order.
    pub(super) broken: Vec<u64>,
}

impl SeedCursor {
    /// Reads a file; one that does not exist stands for no seeds.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has another content.
    pub(super) fn read(path: &str) -> Result<Self, String> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).ok_or_else(|| {
                format!("{path} is not a file of --cursor: it needs a line `next N` and lines `broken SEED`")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{path}: {error}")),
        }
    }

    /// Replaces the file as a whole, so that an interrupted sweep leaves the former one.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(super) fn write(&self, path: &str) -> Result<(), String> {
        let new = format!("{path}.new");
        let written = fs::write(&new, self.text()).and_then(|()| fs::rename(&new, Path::new(path)));
        written.map_err(|error| format!("{path}: {error}"))
    }

    fn text(&self) -> String {
        let mut text = format!("next {}\n", self.next);
        self.broken.iter().for_each(|seed| text.push_str(&format!("broken {seed}\n")));
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut next = None;
        let mut broken = Vec::new();
        for line in text.lines() {
            match line.split_once(' ')? {
                ("next", seed) if next.is_none() => next = Some(seed.parse().ok()?),
                ("broken", seed) => broken.push(seed.parse().ok()?),
                _ => return None,
            }
        }
        Some(Self { next: next?, broken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_is_read_as_written() {
        let cursor = SeedCursor { next: 1_000_000, broken: vec![16_598, 16_701] };
        assert_eq!(cursor.text(), "next 1000000\nbroken 16598\nbroken 16701\n");
        assert_eq!(SeedCursor::parse(&cursor.text()), Some(cursor));
        for text in
            ["", "broken 1\n", "next\n", "next x\n", "next 1\nnext 2\n", "next 1\n\n", "last 1\n"]
        {
            assert_eq!(SeedCursor::parse(text), None, "{text:?}");
        }
    }
}
