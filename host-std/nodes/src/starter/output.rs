//! Output of starters: the last lines, without those that show the key of the run.
//!
//! A starter whose far end has a terminal, such as `ssh -tt`, or is a shell that reads the key as a command,
//! writes its input back. Whoever sees that line can join the run, and it would be stored in reports. All
//! output of starters goes through [`OutputTail`].

use std::collections::VecDeque;

/// The last lines of an output.
#[derive(Debug)]
pub(super) struct OutputTail {
    /// Digits of the key, without a line end.
    key: Vec<u8>,
    bytes: VecDeque<u8>,
    /// Number of bytes of the line that is not complete.
    line_bytes: usize,
    /// The last hexadecimal digits of this line.
    digits: Vec<u8>,
    /// True once the line has shown a piece of the key: what follows up to its end is left out.
    shows_key: bool,
    place: Place,
}

/// Place in the control sequences of a terminal, which may stand between the digits of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Text,
    /// Behind an escape character.
    Escape,
    /// In a sequence that ends with a letter, such as one for a colour.
    Sequence,
    /// In a text for the terminal, such as a title. An escape character or a bell ends it.
    Title,
}

impl OutputTail {
    /// An empty one, of a starter that was given `key_line`.
    pub(super) fn new(key_line: &str) -> Self {
        Self {
            key: key_line.trim_end().as_bytes().to_vec(),
            bytes: VecDeque::new(),
            line_bytes: 0,
            digits: Vec::new(),
            shows_key: false,
            place: Place::Text,
        }
    }

    /// Adds output.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add_byte(*byte));
        let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
        self.bytes.drain(..surplus);
        self.line_bytes = self.line_bytes.min(self.bytes.len());
    }

    fn add_byte(&mut self, byte: u8) {
        if byte == b'\n' {
            (self.line_bytes, self.shows_key, self.place) = (0, false, Place::Text);
            self.digits.clear();
            self.bytes.push_back(byte);
            return;
        }
        let is_visible = self.place == Place::Text && !byte.is_ascii_control();
        self.place = self.place.after(byte);
        if self.shows_key {
            return;
        }
        self.bytes.push_back(byte);
        self.line_bytes += 1;
        if is_visible && self.completes_piece(byte) {
            let start = self.bytes.len() - self.line_bytes.min(self.bytes.len());
            self.bytes.truncate(start);
            self.bytes.extend(LEFT_OUT.as_bytes());
            self.shows_key = true;
        }
    }

    /// True if this character is the last one of a piece of the key.
    fn completes_piece(&mut self, byte: u8) -> bool {
        if !byte.is_ascii_hexdigit() {
            self.digits.clear();
            return false;
        }
        if self.digits.len() == PIECE_DIGITS {
            self.digits.remove(0);
        }
        self.digits.push(byte.to_ascii_lowercase());
        self.digits.len() == PIECE_DIGITS
            && self.key.windows(PIECE_DIGITS).any(|piece| piece == self.digits)
    }

    /// The text, without control characters and empty lines.
    pub(super) fn lines(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let clean = |line: &str| -> String {
            line.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        let lines: Vec<String> = text.lines().map(clean).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Place {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (_, b'\x1b') => Self::Escape,
            (Self::Escape, b'[') => Self::Sequence,
            (Self::Escape, b']') => Self::Title,
            (Self::Sequence, b'@'..=b'~') | (Self::Title, b'\x07') | (Self::Escape, _) => {
                Self::Text
            }
            (place, _) => place,
        }
    }
}

/// Number of digits of a key, in a row, that are not shown: fewer leave it secret.
const PIECE_DIGITS: usize = 16;

/// Text in place of a line that shows the key.
const LEFT_OUT: &str =
    "(a line with the key of the run is left out: this starter repeats its input)";

/// Kept output of a starter: enough for the reason of a failure.
const TAIL_BYTES: usize = 4096;
const TAIL_LINES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef\n";

    /// What is kept of `output`, which comes byte by byte.
    fn kept(output: &str) -> String {
        let mut tail = OutputTail::new(KEY);
        output.as_bytes().chunks(1).for_each(|byte| tail.add(byte));
        tail.lines()
    }

    #[test]
    fn last_lines_are_kept_and_cannot_move_the_cursor() {
        let mut tail = OutputTail::new(KEY);
        for line in 0..10_000 {
            tail.add(format!("line {line}\r\n\n").as_bytes());
        }
        tail.add(b"\x1b[2Jend\x07");
        let lines = tail.lines();
        assert!(tail.bytes.len() <= TAIL_BYTES && lines.starts_with("line 9993\n"), "{lines}");
        assert!(lines.ends_with("line 9999\n [2Jend "), "{lines}");
    }

    #[test]
    fn line_with_a_piece_of_the_key_is_left_out_and_others_are_kept() {
        let digits = KEY.trim_end();
        let coloured: String =
            digits.chars().map(|c| format!("\x1b[1;32m{c}\x1b[0m\x08")).collect();
        for line in [
            digits,
            &format!("fish: Unknown command: {digits}"),
            &format!("$ {}\r", digits.to_uppercase()),
            &format!("{} and more behind it", &digits[20..36]),
            &format!("\x1b]0;title 1\x07{coloured}"),
        ] {
            assert_eq!(
                kept(&format!("before\n{line}\nbehind")),
                format!("before\n{LEFT_OUT}\nbehind")
            );
            assert_eq!(kept(line), LEFT_OUT);
        }
        // Fewer digits, and digits of something else.
        for line in [&digits[3..18], "commit 0123456789abcde1 of 00112233 44556677"] {
            assert_eq!(kept(line), line);
        }
    }

    #[test]
    fn key_does_not_come_back_when_old_output_is_dropped() {
        for len in [TAIL_BYTES - 40, TAIL_BYTES - 20, TAIL_BYTES, 3 * TAIL_BYTES] {
            let mut tail = OutputTail::new(KEY);
            tail.add(format!("{}{}", "-".repeat(len), KEY).as_bytes());
            tail.add(b"end\n");
            assert_eq!(tail.lines(), format!("{LEFT_OUT}\nend"));
        }
        let mut tail = OutputTail::new(KEY);
        tail.add(b"x".repeat(2 * TAIL_BYTES).as_slice());
        assert_eq!(tail.lines().len(), TAIL_BYTES);
    }
}
