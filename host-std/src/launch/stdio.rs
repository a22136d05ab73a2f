//! Output of ranks, cut into whole lines.

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Both, in the order of their numbers.
    pub const BOTH: [Self; 2] = [Self::Out, Self::Err];

    /// 0 or 1, for tables with one entry per stream.
    pub const fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }
}

/// The unfinished last line of one stream.
///
/// What comes out are whole lines in the order they came in, so lines of two streams never mix. An
/// unfinished line is held back until it ends, until the stream ends (it then goes out as it is,
/// without a line end it never had), or until it is so long that it goes out in pieces.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
}

impl Lines {
    /// Takes what was read and hands everything that may go out to `out`, in one or two pieces.
    pub fn take(&mut self, read: &[u8], mut out: impl FnMut(&[u8])) {
        let mut rest = read;
        if let Some(last) = read.iter().rposition(|&byte| byte == b'\n') {
            let (whole, tail) = read.split_at(last + 1);
            if !self.held.is_empty() {
                // The held piece must go out glued to the line's end; nothing is let in between.
                out(&self.held);
                // Most streams never hold a long line again, and there may be thousands.
                self.held = Vec::new();
            }
            out(whole);
            rest = tail;
        }
        self.held.extend_from_slice(rest);
        if self.held.len() >= LINE_MAX {
            out(&self.held);
            self.held = Vec::new();
        }
    }

    /// The stream has ended: hands out what is left of it.
    pub fn end(&mut self, mut out: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            out(&self.held);
            self.held = Vec::new();
        }
    }
}

/// A line is held back up to this length. Long enough for any text meant for people and most tables;
/// short enough that a rank that writes no line ends at all costs no more than this.
const LINE_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn through(chunks: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (mut lines, mut out, mut rest) = (Lines::default(), Vec::new(), Vec::new());
        for chunk in chunks {
            lines.take(chunk, |piece| out.extend_from_slice(piece));
        }
        lines.end(|piece| rest.extend_from_slice(piece));
        (out, rest)
    }

    fn parts(out: &[u8], rest: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (out.to_vec(), rest.to_vec())
    }

    #[test]
    fn a_line_goes_out_when_it_is_whole() {
        assert_eq!(
            through(&[b"one\ntwo", b" and", b" half\nthr"]),
            parts(b"one\ntwo and half\n", b"thr")
        );
        assert_eq!(through(&[b"\n\n"]), parts(b"\n\n", b""));
        assert_eq!(through(&[b"", b"x", b""]), parts(b"", b"x"));
    }

    #[test]
    fn every_split_of_a_text_gives_the_same_text() {
        let text = b"a\nbc\n\ndef";
        for first in 0..text.len() {
            for second in first..text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(through(&chunks), parts(b"a\nbc\n\n", b"def"));
            }
        }
    }

    #[test]
    fn a_line_without_end_goes_out_in_pieces() {
        let chunk = vec![b'x'; LINE_MAX - 1];
        assert_eq!(through(&[&chunk]), parts(b"", &chunk));
        let (out, rest) = through(&[&chunk, b"yz", b"!\n"]);
        assert_eq!((out.len(), rest.len()), (LINE_MAX + 3, 0));
    }
}
