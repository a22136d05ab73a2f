//! The output of a launcher: numbered lines of ranks, and its own messages.

use std::collections::{BTreeMap, BTreeSet};

/// The output of a run, taken in pieces.
#[derive(Debug, Default)]
pub(super) struct OutputLines {
    /// Lines of each rank that have arrived whole and in order.
    whole: BTreeMap<u32, u64>,
    /// OutputLines that look like those of a rank and are none, or come again.
    torn: u64,
    /// The piece of a line whose end has not come.
    rest: Vec<u8>,
    /// The last of all other lines.
    words: Vec<String>,
    /// All other lines, up to a limit.
    said: Vec<u8>,
}

impl OutputLines {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut rest = std::mem::take(&mut self.rest);
        let mut start = 0;
        while let Some(length) = rest[start..].iter().position(|byte| *byte == b'\n') {
            self.take_line(&rest[start..start + length]);
            start += length + 1;
        }
        rest.drain(..start);
        self.rest = rest;
    }

    fn take_line(&mut self, line: &[u8]) {
        // A terminal ends its lines so.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.contains(&b'#') {
            if self.words.len() == WORDS_MAX {
                self.words.remove(0);
            }
            self.words.push(printable(line));
            if self.said.len() < SAID_MAX {
                self.said.extend_from_slice(line);
                self.said.push(b'\n');
            }
            return;
        }
        match parse(line) {
            Some((rank, number)) if *self.whole.entry(rank).or_default() == number => {
                self.whole.insert(rank, number + 1);
            }
            _ => self.torn += 1,
        }
    }

    /// Number of lines of `rank`, of `written`, that have not arrived whole.
    pub(super) fn missing(&self, rank: u32, written: u64) -> u64 {
        written.saturating_sub(self.whole.get(&rank).copied().unwrap_or(0))
    }

    pub(super) const fn torn(&self) -> u64 {
        self.torn
    }

    /// All lines that are not those of a rank.
    pub(super) fn said(&self) -> Vec<u8> {
        [&self.said[..], &self.rest].concat()
    }

    /// The last messages of the launcher.
    pub(super) fn words(&self) -> String {
        let last = printable(&self.rest);
        let all = self.words.iter().map(String::as_str).chain([last.as_str()]);
        all.filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join(" | ")
    }
}

/// The text without what a terminal would take for more than text.
fn printable(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Reads `#RANK NUMBER ....`, as rank.c writes it.
fn parse(line: &[u8]) -> Option<(u32, u64)> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix('#')?;
    let (rank, rest) = line.split_once(' ')?;
    let (number, fill) = rest.split_once(' ')?;
    let is_whole = fill.len() == FILL_LEN && fill.bytes().all(|byte| byte == b'.');
    is_whole.then_some((rank.parse().ok()?, number.parse().ok()?))
}

const FILL_LEN: usize = 44;
/// Enough for the message of a launcher.
const WORDS_MAX: usize = 12;
/// Enough for all messages of a run.
const SAID_MAX: usize = 1 << 20;

/// Number of lines of `shown` with a piece of a key in `keys`: 16 hexadecimal digits in a row.
pub(super) fn shown_keys(keys: &[u8], shown: &[u8]) -> u64 {
    let is_key = |piece: &[u8]| piece.iter().all(u8::is_ascii_hexdigit);
    let pieces: BTreeSet<&[u8]> = keys.windows(KEY_PIECE).filter(|piece| is_key(piece)).collect();
    let has_piece = |line: &&[u8]| line.windows(KEY_PIECE).any(|window| pieces.contains(window));
    shown.split(|byte| *byte == b'\n').filter(has_piece).count() as u64
}

/// Length of a piece of a key that nobody may see.
const KEY_PIECE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rank: u32, number: u64) -> String {
        format!("#{rank} {number} {}\n", ".".repeat(FILL_LEN))
    }

    #[test]
    fn lines_are_counted_however_they_are_cut() {
        let text = [line(0, 0), line(1, 0), line(0, 1), "words\n".into()].concat();
        for size in 1..text.len() {
            let mut lines = OutputLines::default();
            text.as_bytes().chunks(size).for_each(|piece| lines.take(piece));
            assert_eq!((lines.missing(0, 2), lines.missing(1, 1), lines.torn()), (0, 0, 0));
            assert_eq!(lines.words(), "words");
        }
    }

    #[test]
    fn missing_line_and_a_torn_one_are_counted() {
        let mut lines = OutputLines::default();
        lines.take([line(0, 0), line(0, 2)].concat().as_bytes());
        assert_eq!((lines.missing(0, 3), lines.missing(7, 1), lines.torn()), (2, 1, 1));
        let joined = format!("#0 1 ....{}", line(1, 0));
        lines.take(joined.as_bytes());
        assert_eq!((lines.missing(1, 1), lines.torn()), (1, 2));
    }

    #[test]
    fn line_with_a_piece_of_a_key_is_counted_and_no_other() {
        let keys = b"0123456789abcdef0011 more\nELF\n";
        let shown = |text: &str| shown_keys(keys, text.as_bytes());
        assert_eq!(shown("its starter wrote '123456789abcdef00'\nother\n"), 1);
        assert_eq!(shown("0123456789abcdef\n0123456789abcdef0011\n"), 2);
        assert_eq!(shown("0123456789abcde\nffffffffffffffffffff\nf0011 more\n"), 0);
    }

    #[test]
    fn fill_is_as_long_as_the_rank_program_writes_it() {
        let source = include_str!("rank.c");
        let format = source.split("\"#%d %d ").nth(1).and_then(|rest| rest.split('\\').next());
        assert_eq!(format.map(str::len), Some(FILL_LEN));
    }
}
