//! Output of ranks, cut into whole lines.

/// The unfinished last line of one stream.
///
/// The output is whole lines in the order they came in. An unfinished line is held back until it ends,
/// until the stream ends (it then goes out unchanged, without a line end), or until the caller releases
/// it.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    held: Vec<u8>,
}

impl LineBuffer {
    /// Takes input and hands every whole line to `out`, in one or two pieces.
    pub(crate) fn push(&mut self, read: &[u8], mut out: impl FnMut(&[u8])) {
        let mut rest = read;
        if let Some(last) = memchr::memrchr(b'\n', read) {
            let (mut whole, tail) = read.split_at(last + 1);
            if let Some(first) = memchr::memchr(b'\n', read).filter(|_| !self.held.is_empty()) {
                self.held.extend_from_slice(&read[..=first]);
                self.let_go(&mut out);
                whole = &whole[first + 1..];
            }
            if !whole.is_empty() {
                out(whole);
            }
            rest = tail;
        }
        self.held.extend_from_slice(rest);
    }

    /// Takes input and hands everything to `out`.
    pub(crate) fn pass(&mut self, read: &[u8], mut out: impl FnMut(&[u8])) {
        self.let_go(&mut out);
        out(read);
    }

    /// Hands out the held text, even if its line is unfinished.
    pub(crate) fn let_go(&mut self, mut out: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            out(&self.held);
            // Freed, since most streams never hold a long line again, and there may be thousands.
            self.held = Vec::new();
        }
    }

    /// Number of held bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_consists_of_whole_lines() {
        let mut lines = LineBuffer::default();
        for chunk in ["a", "b\nc\nd", "\n", "e"] {
            lines.push(chunk.as_bytes(), |piece| assert_eq!(piece.last(), Some(&b'\n')));
        }
        assert_eq!(lines.held_bytes(), 1);
    }

    fn through(chunks: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (mut lines, mut out, mut rest) = (LineBuffer::default(), Vec::new(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, |piece| out.extend_from_slice(piece));
        }
        lines.let_go(|piece| rest.extend_from_slice(piece));
        assert_eq!(lines.held_bytes(), 0);
        (out, rest)
    }

    fn parts(out: &[u8], rest: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (out.to_vec(), rest.to_vec())
    }

    #[test]
    fn line_goes_out_when_it_is_whole() {
        assert_eq!(
            through(&[b"one\ntwo", b" and", b" half\nthr"]),
            parts(b"one\ntwo and half\n", b"thr")
        );
        assert_eq!(through(&[b"\n\n"]), parts(b"\n\n", b""));
        assert_eq!(through(&[b"", b"x", b""]), parts(b"", b"x"));
    }

    #[test]
    fn splits_of_a_text_give_the_same_text() {
        let text = b"a\nbc\n\ndef";
        for first in 0..text.len() {
            for second in first..text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(through(&chunks), parts(b"a\nbc\n\n", b"def"));
            }
        }
    }
}
