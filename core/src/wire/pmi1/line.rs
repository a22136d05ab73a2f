//! A line of PMI-1 as `key=value` pairs with blanks between: reader and writer.

use super::super::Writer;
use crate::command::{CodeRun, Piece, Text};
use crate::error::{Full, Misuse};

/// One line, without its end and without blanks around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    /// Takes the first line of `bytes`; a carriage return before its end is dropped.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
        let bytes = bytes.get(..end).unwrap_or(b"");
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let start = bytes.iter().position(|b| *b != b' ').unwrap_or(bytes.len());
        let end = bytes.iter().rposition(|b| *b != b' ').map_or(start, |last| last + 1);
        Self(bytes.get(start..end).unwrap_or(b""))
    }

    /// True when nothing is left of it.
    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The value of `key=` if the line begins with it.
    pub(super) fn first(self, key: &str) -> Option<Text<'a>> {
        value_of(self.tokens().next()?, key).map(Text::plain)
    }

    /// The value of the first `key=`, up to the next blank.
    pub(super) fn field(self, key: &str) -> Option<Text<'a>> {
        self.tokens().find_map(|token| value_of(token, key)).map(Text::plain)
    }

    /// The value of the first `key=`, as a number.
    pub(super) fn number(self, key: &str) -> Option<i64> {
        self.field(key)?.signed()
    }

    /// The value of the first `key=`, up to the end of the line: it may hold blanks.
    ///
    /// Fields named in `known` that stand behind it and did not stand before it are not part of
    /// it, since tolerant senders write pairs in any order.
    pub(super) fn rest(self, key: &str, known: &[&str]) -> Option<Text<'a>> {
        let (start, value) = self.tokens_at().find_map(|(at, token)| {
            value_of(token, key).map(|value| (at + token.len() - value.len(), value))
        })?;
        let before = Self(self.0.get(..start)?);
        let is_field = |token: &[u8]| {
            known.iter().any(|k| value_of(token, k).is_some() && before.field(k).is_none())
        };
        // The value always has its own first token; what follows is cut where a run of fields
        // begins that goes on to the end.
        let own = start + value.len();
        let mut end = own;
        let mut kept = own;
        for (at, token) in self.tokens_at().skip_while(|(at, _)| *at < own) {
            end = at + token.len();
            if !is_field(token) {
                kept = end;
            }
        }
        // Nothing was cut: blanks between are the value's own, and none are at the end.
        let end = if kept == end { self.0.len() } else { kept };
        Some(Text::plain(self.0.get(start..end)?))
    }

    fn tokens(self) -> impl Iterator<Item = &'a [u8]> {
        self.0.split(|b| *b == b' ').filter(|token| !token.is_empty())
    }

    fn tokens_at(self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut next = 0;
        let split = self.0.split(|b| *b == b' ');
        split.filter_map(move |token| {
            let at = next;
            next += token.len() + 1;
            if token.is_empty() { None } else { Some((at, token)) }
        })
    }
}

/// Writes `cmd=WORD key=value …`.
pub(super) struct LineWriter<'a> {
    writer: Writer<'a>,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(out: &'a mut [u8], word: &[u8]) -> Self {
        Self::with_suffix(out, word, b"")
    }

    pub(super) fn with_suffix(out: &'a mut [u8], word: &[u8], suffix: &[u8]) -> Self {
        let mut writer = Writer::new(out);
        writer.bytes(b"cmd=").bytes(word).bytes(suffix);
        Self { writer }
    }

    fn key(&mut self, key: &str) -> &mut Writer<'a> {
        self.writer.byte(b' ').bytes(key.as_bytes()).byte(b'=')
    }

    pub(super) fn pair(&mut self, key: &str, value: Text<'_>) -> &mut Self {
        self.key(key).text(value);
        self
    }

    pub(super) fn optional(&mut self, key: &str, value: Option<Text<'_>>) -> &mut Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    /// One number for each process, with commas between.
    pub(super) fn codes(&mut self, key: &str, runs: &[CodeRun]) -> &mut Self {
        self.key(key).codes(runs);
        self
    }

    pub(super) fn number(&mut self, key: &str, value: impl Into<i64>) -> &mut Self {
        self.key(key).number(value);
        self
    }

    pub(super) fn unsigned(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key).unsigned(value);
        self
    }

    /// A value of somebody else's: what would end the line is left out of it.
    pub(super) fn free(&mut self, key: &str, value: Text<'_>) -> &mut Self {
        let writer = self.key(key);
        match value.as_plain().filter(|plain| !plain.contains(&b'\n')) {
            Some(plain) => writer.bytes(plain),
            None => {
                let one_line = value.bytes().map(|b| if b == b'\n' { b' ' } else { b });
                one_line.fold(writer, |writer, b| writer.byte(b))
            }
        };
        self
    }

    /// A sentence as one word, since clients up to MPICH 4.0 drop a message with bare words.
    pub(super) fn token<'p>(
        &mut self,
        key: &str,
        pieces: impl Iterator<Item = Piece<'p>>,
    ) -> &mut Self {
        let writer = self.key(key);
        for (at, piece) in pieces.enumerate() {
            if at > 0 {
                writer.byte(b'_');
            }
            match piece {
                Piece::Words(words) => joined(writer, words.bytes()),
                Piece::Quoted(bytes) => joined(writer, bytes.iter().copied()),
                Piece::Number(number) => writer.unsigned(number),
            };
        }
        self
    }

    /// Somebody else's sentence as one word.
    pub(super) fn one_word(&mut self, key: &str, text: Text<'_>) -> &mut Self {
        joined(self.key(key), text.bytes());
        self
    }

    /// For what is not a pair.
    pub(super) fn writer(&mut self) -> &mut Writer<'a> {
        &mut self.writer
    }

    pub(super) fn finish(mut self) -> Result<usize, Full> {
        self.writer.byte(b'\n');
        self.writer.finish()
    }
}

/// Appends words with `_` for everything that could end one.
fn joined<'w, 'a>(
    writer: &'w mut Writer<'a>,
    bytes: impl Iterator<Item = u8>,
) -> &'w mut Writer<'a> {
    bytes.fold(writer, |writer, b| writer.byte(if b <= b' ' { b'_' } else { b }))
}

/// Lets a field through that can stand in a line as one word.
pub(super) fn sayable<'a>(what: &'static str, text: Text<'a>) -> Result<Text<'a>, Misuse> {
    if text.is_empty() {
        return Err(Misuse::Length { what, len_bytes: 0, limit_bytes: 0 });
    }
    if text.bytes().any(|b| matches!(b, 0 | b' ' | b'\n' | b'\r')) {
        return Err(Misuse::NotSayable { what: "PMI-1 has no blank, line end or NUL in a field" });
    }
    Ok(text)
}

fn value_of<'a>(token: &'a [u8], key: &str) -> Option<&'a [u8]> {
    token.strip_prefix(key.as_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(line: &str) -> Text<'_> {
        Line::new(line.as_bytes()).rest("value", &["key", "rc", "found"]).unwrap()
    }

    #[test]
    fn pairs_are_found_in_any_order_and_the_first_of_a_name_counts() {
        let line = Line::new(b"  cmd=put  key=k bare value=a=b key=z \r\n");
        assert_eq!(line.field("key"), Some(Text::from("k")));
        assert_eq!(line.field("value"), Some(Text::from("a=b")));
        assert_eq!(line.field("bare"), None);
        assert_eq!(line.field("ke"), None);
        assert!(Line::new(b" \r\n").is_empty());
    }

    #[test]
    fn a_value_reaches_to_the_end_of_the_line_but_not_over_fields() {
        assert_eq!(rest("cmd=put key=k value=a b  c"), Text::from("a b  c"));
        assert_eq!(rest("cmd=get_result rc=0 value=V found=TRUE"), Text::from("V"));
        assert_eq!(rest("cmd=get_result value=a b rc=0 found=TRUE"), Text::from("a b"));
        assert_eq!(rest("cmd=put value=v1 key=k1"), Text::from("v1"));
        assert_eq!(rest("cmd=put value= key=k1"), Text::from(""));
        assert_eq!(rest("cmd=put value="), Text::from(""));
    }

    #[test]
    fn a_field_seen_before_the_value_is_part_of_the_value_behind_it() {
        assert_eq!(rest("cmd=get_result rc=0 value=a rc=5"), Text::from("a rc=5"));
        assert_eq!(rest("cmd=put key=k value=x key=y z"), Text::from("x key=y z"));
    }
}
