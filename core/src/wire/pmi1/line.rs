//! A line of PMI-1 as `key=value` pairs separated by blanks: reader and writer.

use super::super::{WriteError, Writer, scan};
use crate::command::{CodeRun, Reason, Text};
use crate::error::{Full, Misuse};
use crate::parts;

/// One line, without its end and without blanks around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    /// Takes the first line of `bytes`; a carriage return before its end is dropped.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self::trimmed(up_to(bytes, b'\n'))
    }

    /// Takes a message of one line, whose end was found when it was framed.
    pub(super) fn of_message(message: &'a [u8]) -> Self {
        Self::trimmed(message.strip_suffix(b"\n").unwrap_or(message))
    }

    fn trimmed(line: &'a [u8]) -> Self {
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        while let [b' ', rest @ ..] = line {
            line = rest;
        }
        while let [rest @ .., b' '] = line {
            line = rest;
        }
        Self(line)
    }

    /// The line.
    pub(super) const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// True if the line is empty.
    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The value of `key=` if the line begins with it.
    pub(super) fn first(self, key: &str) -> Option<&'a [u8]> {
        value_in_front(self.0, key).map(token)
    }

    /// The value of the first `key=`, up to the next blank.
    #[inline(never)]
    pub(super) fn field(self, key: &str) -> Option<&'a [u8]> {
        self.behind(key).map(token)
    }

    /// The value of the first `key=`, as a text.
    pub(super) fn text(self, key: &str) -> Option<Text<'a>> {
        self.field(key).map(Text::plain)
    }

    /// The value of the first `key=`, as a number.
    pub(super) fn number(self, key: &str) -> Option<i64> {
        Text::plain(self.field(key)?).signed()
    }

    /// The value of the first `key=`, as an unsigned number of 32 bits.
    #[inline(never)]
    pub(super) fn unsigned(self, key: &str) -> Option<u32> {
        self.number(key).and_then(|number| u32::try_from(number).ok())
    }

    /// The value of the first `key=`, as a signed number of 32 bits.
    #[inline(never)]
    pub(super) fn signed(self, key: &str) -> Option<i32> {
        self.number(key).and_then(|number| i32::try_from(number).ok())
    }

    /// The value of `key=` as an identity: a number without a sign, of up to 19 digits.
    pub(super) fn identity(self, key: &str) -> Option<u64> {
        let digits = self.field(key)?;
        // 19 digits always fit 64 bits.
        if digits.is_empty() || digits.len() > 19 {
            return None;
        }
        digits.iter().try_fold(0_u64, |value, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit <= 9).then(|| value * 10 + u64::from(digit))
        })
    }

    /// The value of the first `key=`, up to the end of the line: it may hold blanks.
    ///
    /// Fields named in `known` that stand behind it and did not stand before it are not part of
    /// it, since tolerant senders write pairs in any order.
    #[inline(never)]
    pub(super) fn rest(self, key: &str, known: &[&str]) -> Option<&'a [u8]> {
        self.value_among(self.behind(key)?, known)
    }

    /// The part of `value`, which extends to the end of the line, in front of the fields behind it.
    fn value_among(self, value: &'a [u8], known: &[&str]) -> Option<&'a [u8]> {
        let before = Self(self.0.get(..self.0.len().checked_sub(value.len())?)?);
        let is = |rest: &[u8], key: &str| {
            value_in_front(rest, key).is_some() && before.behind(key).is_none()
        };
        let is_field =
            |rest: &[u8]| known.iter().any(|key| is(rest, key)) || parts::SPAWN && is(rest, "cmd");
        // The value always has its own first token; the rest is cut at the first run of fields
        // that extends to the end. Unknown fields may stand in it behind a known one.
        let (mut at, mut kept, mut is_in_run) = (0, 0, false);
        while let Some(rest) = value.get(at..) {
            let own = token(rest);
            let end = at + own.len();
            if end > at || at == 0 {
                is_in_run = at > 0 && (parts::SPAWN && is_in_run && is_pair(own) || is_field(rest));
                if !is_in_run {
                    kept = end;
                }
            }
            at = end + 1;
        }
        value.get(..kept)
    }

    /// Everything behind the first `key=`.
    #[inline(never)]
    fn behind(self, key: &str) -> Option<&'a [u8]> {
        let mut rest = self.0;
        loop {
            if let Some(value) = value_in_front(rest, key) {
                return Some(value);
            }
            rest = rest.get(token(rest).len() + 1..)?;
        }
    }
}

/// Reader of fields in the order in which clients send them: each is usually next to the one before.
///
/// Any other order costs a search from the front, as all do on processors of 32 bits, where flash is
/// scarce. No field is read twice.
pub(super) struct FieldReader<'a> {
    line: Line<'a>,
    /// Fields behind the ones that were read, without a gap between these.
    unread: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Starts behind the command.
    pub(super) fn new(line: Line<'a>) -> Self {
        let command = token(line.0);
        Self { line, unread: line.0.get(command.len() + 1..).unwrap_or(b"") }
    }

    /// As [`Line::text`].
    pub(super) fn text(&mut self, key: &str) -> Option<Text<'a>> {
        if EXPECTS_ORDER && let Some(behind) = value_in_front(self.unread, key) {
            let value = token(behind);
            self.unread = behind.get(value.len() + 1..).unwrap_or(b"");
            return Some(Text::plain(value));
        }
        self.line.text(key)
    }

    /// As [`Line::rest`].
    pub(super) fn rest(self, key: &str, known: &[&str]) -> Option<&'a [u8]> {
        match value_in_front(self.unread, key) {
            Some(value) if EXPECTS_ORDER => self.line.value_among(value, known),
            _ => self.line.rest(key, known),
        }
    }
}

const EXPECTS_ORDER: bool = cfg!(target_pointer_width = "64");

/// True if a token has the form of a field.
pub(super) fn is_pair(token: &[u8]) -> bool {
    let name = up_to(token, b'=');
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.len() < token.len() && name.iter().all(is_word)
}

/// Bytes before the first blank.
fn token(bytes: &[u8]) -> &[u8] {
    up_to(bytes, b' ')
}

/// Bytes before the first `byte`; all of them without one.
#[inline(never)]
pub(super) fn up_to(bytes: &[u8], byte: u8) -> &[u8] {
    let end = scan::position(bytes, byte).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or(bytes)
}

/// Bytes behind `key=` if `bytes` begin with it.
#[inline(never)]
fn value_in_front<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
    bytes.strip_prefix(key.as_bytes())?.strip_prefix(b"=")
}

/// Writes `cmd=WORD key=value …`.
///
/// A field that a line cannot carry does not stop the writer; the end reports the first of them.
pub(super) struct LineWriter<'a> {
    writer: Writer<'a>,
    unsayable: Option<Misuse>,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(out: &'a mut [u8], word: &[u8]) -> Self {
        Self::with_suffix(out, word, b"")
    }

    pub(super) fn with_suffix(out: &'a mut [u8], word: &[u8], suffix: &[u8]) -> Self {
        let mut writer = Writer::new(out);
        writer.bytes(b"cmd=").bytes(word).bytes(suffix);
        Self { writer, unsayable: None }
    }

    fn key(&mut self, key: &str) -> &mut Writer<'a> {
        self.writer.byte(b' ').bytes(key.as_bytes()).byte(b'=')
    }

    pub(super) fn pair(&mut self, key: &str, value: Text<'_>) -> &mut Self {
        self.key(key).text(value);
        self
    }

    /// A value that must be one word.
    #[inline(never)]
    pub(super) fn word(&mut self, key: &'static str, value: &Text<'_>) -> &mut Self {
        if self.unsayable.is_none() {
            self.unsayable = unsayable(key, *value);
        }
        self.pair(key, *value)
    }

    pub(super) fn optional(&mut self, key: &str, value: Option<Text<'_>>) -> &mut Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    /// One code for each process, separated by commas.
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

    /// A value of a peer: bytes that would end the line are left out.
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

    /// The text of a reason as one word, since clients up to MPICH 4.0 drop a message with bare words.
    pub(super) fn reason(&mut self, key: &str, reason: &Reason<'_>) -> &mut Self {
        self.key(key).sentence(reason, in_word);
        self
    }

    /// A text of a peer as one word.
    pub(super) fn one_word(&mut self, key: &str, text: Text<'_>) -> &mut Self {
        text.bytes().fold(self.key(key), |writer, byte| writer.byte(in_word(byte)));
        self
    }

    /// The underlying writer, for content that is no pair.
    pub(super) fn writer(&mut self) -> &mut Writer<'a> {
        &mut self.writer
    }

    /// Ends a line of a client.
    ///
    /// # Errors
    ///
    /// [`Misuse`] for the first invalid word, [`Full`].
    pub(super) fn finish_request(self) -> Result<usize, WriteError> {
        match self.unsayable {
            Some(misuse) => Err(misuse.into()),
            None => Ok(self.finish()?),
        }
    }

    pub(super) fn finish(mut self) -> Result<usize, Full> {
        self.writer.byte(b'\n');
        self.writer.finish()
    }
}

/// Replaces a byte that could end a word by `_`.
const fn in_word(byte: u8) -> u8 {
    if byte <= b' ' { b'_' } else { byte }
}

/// Reason for which a text cannot be one word of a line.
fn unsayable(what: &'static str, text: Text<'_>) -> Option<Misuse> {
    if text.is_empty() {
        return Some(Misuse::Length { what, len_bytes: 0, limit_bytes: 0 });
    }
    let is_torn = text.bytes().any(|b| matches!(b, 0 | b' ' | b'\n' | b'\r'));
    let what = "PMI-1 has no blank, line end or NUL in a field";
    is_torn.then_some(Misuse::NotRepresentable { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(line: &str) -> &str {
        let rest = Line::new(line.as_bytes()).rest("value", &["key", "rc", "found"]);
        str::from_utf8(rest.unwrap()).unwrap()
    }

    #[test]
    fn pairs_are_found_in_any_order_and_the_first_of_a_name_counts() {
        let line = Line::new(b"  cmd=put  key=k bare value=a=b key=z \r\n");
        assert_eq!(line.field("key"), Some(&b"k"[..]));
        assert_eq!(line.field("value"), Some(&b"a=b"[..]));
        assert_eq!(line.field("bare"), None);
        assert_eq!(line.field("ke"), None);
        assert!(Line::new(b" \r\n").is_empty());
    }

    #[test]
    fn fields_are_the_same_in_the_expected_order_and_in_any_other() {
        for line in [
            "cmd=put kvsname=s key=k value=v",
            "cmd=put kvsname=s key=k value=v w key=z",
            "cmd=put key=k kvsname=s value=v",
            "cmd=put kvsname=s value=v key=k",
            "cmd=put kvsname=s key=k key=z kvsname=t value=v",
            "cmd=put other=o kvsname=s  key=k value=",
            "cmd=put kvsname= key= value=v",
            "cmd=put kvsname=s",
            "cmd=put",
            "",
        ] {
            let line = Line::new(line.as_bytes());
            let mut reader = FieldReader::new(line);
            for key in ["kvsname", "key"] {
                assert_eq!(reader.text(key), line.text(key), "{line:?}");
            }
            assert_eq!(reader.rest("value", &["key"]), line.rest("value", &["key"]), "{line:?}");
        }
    }

    #[test]
    fn value_reaches_to_the_end_of_the_line_but_not_over_fields() {
        assert_eq!(rest("cmd=put key=k value=a b  c"), "a b  c");
        assert_eq!(rest("cmd=get_result rc=0 value=V found=TRUE"), "V");
        assert_eq!(rest("cmd=get_result value=a b rc=0 found=TRUE"), "a b");
        assert_eq!(rest("cmd=put value=v1 key=k1"), "v1");
        assert_eq!(rest("cmd=put value= key=k1"), "");
        assert_eq!(rest("cmd=put value="), "");
    }

    #[test]
    fn field_seen_before_the_value_is_part_of_the_value_behind_it() {
        assert_eq!(rest("cmd=get_result rc=0 value=a rc=5"), "a rc=5");
        assert_eq!(rest("cmd=put key=k value=x key=y z"), "x key=y z");
    }
}
