//! A frame of PMI-2 as `key=value;` fields: reader and writer.

use super::super::{Writer, quirks};
use crate::command::{CodeRun, Field, Reason, Text};
use crate::error::{Full, Misuse};
use crate::limits::PMI2_LENGTH_DIGITS;

/// Form of a `;` that belongs to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semicolons {
    /// Doubled. Spec: PMI-2 wire protocol; used by the two oldest clients.
    Doubled,
    /// Single, as if it ended the value; newer clients have no other form.
    Single,
}

/// The body of one frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) semicolons: Semicolons,
}

impl<'a> Body<'a> {
    /// Fields that have a name and a value.
    pub(super) fn fields(self) -> impl Iterator<Item = (&'a [u8], Text<'a>)> {
        let cut = match self.semicolons {
            Semicolons::Doubled => cut_doubled,
            Semicolons::Single => cut_single,
        };
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (name, value, after) = cut(rest)?;
            rest = after;
            Some((name, value))
        })
    }

    /// Removes the stray bytes that some clients send behind the last field.
    ///
    /// Most of them are no field anyway. But if they begin with `;`, the last value
    /// would continue in them.
    pub(super) fn without_strays(self) -> Self {
        let end = self.bytes.len().saturating_sub(quirks::STRAY_BYTES);
        let front = Self { bytes: self.bytes.get(..end).unwrap_or(b""), ..self };
        if self.semicolons == Semicolons::Single || !front.bytes.ends_with(b";") {
            return self;
        }
        let name = self.field("thrid").and_then(Text::as_plain).unwrap_or(b"");
        let strays = name.starts_with(quirks::STRAYING) || !self.is_closed() && front.is_closed();
        if strays { front } else { self }
    }

    /// True if the last byte ends a field.
    fn is_closed(self) -> bool {
        let mut rest = self.bytes;
        while let Some((_, _, after)) = cut_doubled(rest) {
            rest = after;
        }
        rest.is_empty()
    }

    /// True if a piece between the fields is none: the rest of a value with `;`, from a client that
    /// writes `;` once. Clients that double it leave junk at the end instead.
    pub(super) fn is_torn(self) -> bool {
        let is_known = |piece: &[u8]| {
            let name = piece.split(|b| *b == b'=').next().unwrap_or(b"");
            let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            let name = name.get(..name.len() - digits).unwrap_or(b"");
            piece.contains(&b'=') && quirks::BESIDE_VALUE.iter().any(|k| k.as_bytes() == name)
        };
        self.semicolons == Semicolons::Single
            && self.bytes.split(|b| *b == b';').any(|piece| !piece.is_empty() && !is_known(piece))
    }

    /// The first field of this name.
    pub(super) fn field(self, name: &str) -> Option<Text<'a>> {
        self.fields().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    pub(super) fn number(self, name: &str) -> Option<i64> {
        self.field(name)?.signed()
    }

    /// The field of this name as a boolean. Every old peer writes upper case; newer ones read more
    /// forms.
    pub(super) fn flag(self, name: &str) -> Option<bool> {
        let value = self.field(name)?;
        Some(quirks::YES.iter().any(|yes| value == *yes.as_bytes()))
    }
}

/// Cuts off the first field, in the form in which `;;` means `;`.
pub(super) fn cut_doubled(bytes: &[u8]) -> Option<Field<'_>> {
    cut(bytes, |value| {
        let mut at = 0;
        loop {
            at += value.get(at..)?.iter().position(|b| *b == b';')?;
            if value.get(at + 1) != Some(&b';') {
                return Some(at);
            }
            at += 2;
        }
    })
    .map(|(name, value, rest)| (name, Text::doubled(value), rest))
}

/// Cuts off the first field, in the form in which every `;` ends one.
pub(super) fn cut_single(bytes: &[u8]) -> Option<Field<'_>> {
    cut(bytes, |value| value.iter().position(|b| *b == b';'))
        .map(|(name, value, rest)| (name, Text::plain(value), rest))
}

/// Cuts off the first field; `end` finds the end of its value.
///
/// Old clients send six bytes of old memory behind the last field: bytes that do not form
/// `name=value;` are skipped, and a NUL in place of a name ends the message.
fn cut(bytes: &[u8], end: impl Fn(&[u8]) -> Option<usize>) -> Option<(&[u8], &[u8], &[u8])> {
    let mut rest = bytes;
    loop {
        if rest.first().is_none_or(|first| *first == 0) {
            return None;
        }
        let stop = rest.iter().position(|b| matches!(b, b'=' | b';'))?;
        let (name, tail) = (rest.get(..stop)?, rest.get(stop + 1..)?);
        if rest.get(stop) == Some(&b'=') && is_name(name) {
            let len = end(tail)?;
            return Some((name, tail.get(..len)?, tail.get(len + 1..)?));
        }
        rest = tail;
    }
}

fn is_name(name: &[u8]) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    !name.is_empty() && name.iter().all(plain)
}

/// Writes `LLLLLLcmd=WORD;key=value;…`.
pub(super) struct FrameWriter<'a> {
    writer: Writer<'a>,
    semicolons: Semicolons,
}

impl<'a> FrameWriter<'a> {
    pub(super) fn new(
        out: &'a mut [u8],
        words: &[&[u8]],
        tag: &[u8],
        semicolons: Semicolons,
    ) -> Self {
        let mut writer = Writer::new(out);
        writer.bytes(b"      cmd=");
        words.iter().for_each(|word| {
            writer.bytes(word);
        });
        writer.byte(b';');
        let mut frame = Self { writer, semicolons };
        if !tag.is_empty() {
            frame.text("thrid", Text::plain(tag));
        }
        frame
    }

    pub(super) fn text(&mut self, key: &str, value: Text<'_>) -> &mut Self {
        self.key(key);
        self.value(value);
        self
    }

    pub(super) fn optional(&mut self, key: &str, value: Option<Text<'_>>) -> &mut Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    /// One code for each process, separated by commas.
    pub(super) fn codes(&mut self, key: &str, runs: &[CodeRun]) -> &mut Self {
        self.key(key).codes(runs).byte(b';');
        self
    }

    pub(super) fn number(&mut self, key: &str, value: impl Into<i64>) -> &mut Self {
        self.key(key).number(value).byte(b';');
        self
    }

    pub(super) fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        self.text(key, Text::from(if value { quirks::YES[0] } else { "FALSE" }))
    }

    /// `keyN=value;`
    pub(super) fn indexed(&mut self, key: &str, index: u32, value: Text<'_>) -> &mut Self {
        self.writer.bytes(key.as_bytes()).number(index).byte(b'=');
        self.value(value);
        self
    }

    /// Writes the text of a reason.
    pub(super) fn reason(&mut self, key: &str, reason: &Reason<'_>) -> &mut Self {
        let in_field = |byte| if matches!(byte, b';' | 0) { b'_' } else { byte };
        self.key(key);
        self.writer.sentence(reason, in_field);
        self.writer.byte(b';');
        self
    }

    /// Writes a message of a third party. It is for human readers, so its bytes may be replaced.
    pub(super) fn free_text(&mut self, key: &str, text: Text<'_>) -> &mut Self {
        if self.semicolons == Semicolons::Doubled {
            return self.text(key, text);
        }
        self.key(key);
        for byte in text.bytes() {
            self.writer.byte(if byte == b';' { b'_' } else { byte });
        }
        self.writer.byte(b';');
        self
    }

    /// Fills in the length.
    pub(super) fn finish(mut self) -> Result<usize, Full> {
        let body = self.writer.len().saturating_sub(PMI2_LENGTH_DIGITS);
        let mut left = body;
        if let Some(length) = self.writer.written().first_chunk_mut::<PMI2_LENGTH_DIGITS>() {
            // Blanks on the left: the form of the specification, which every reader accepts.
            for digit in length.iter_mut().rev() {
                *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
                left /= 10;
                if left == 0 {
                    break;
                }
            }
        }
        self.writer.finish()
    }

    /// Fills in the length, aligned left in its six places.
    ///
    /// By the alignment a server distinguishes a client that doubles `;` from one that does not.
    pub(super) fn finish_left(mut self) -> Result<usize, Full> {
        let at = self.writer.len().saturating_sub(PMI2_LENGTH_DIGITS);
        if let Some(length) = self.writer.written().first_chunk_mut::<PMI2_LENGTH_DIGITS>() {
            Writer::new(length).unsigned(at as u64);
        }
        self.writer.finish()
    }

    fn key(&mut self, key: &str) -> &mut Writer<'a> {
        self.writer.bytes(key.as_bytes()).byte(b'=')
    }

    fn value(&mut self, value: Text<'_>) {
        match value.as_plain().filter(|plain| !plain.contains(&b';')) {
            Some(plain) => {
                self.writer.bytes(plain);
            }
            None => value.bytes().for_each(|byte| {
                if byte == b';' && self.semicolons == Semicolons::Doubled {
                    self.writer.byte(b';');
                }
                self.writer.byte(byte);
            }),
        }
        self.writer.byte(b';');
    }
}

/// Checks that this form of `;` can carry a text.
///
/// # Errors
///
/// [`Misuse::NotRepresentable`] for a `;` that would end the value.
pub(super) fn sayable(text: Text<'_>, semicolons: Semicolons) -> Result<Text<'_>, Misuse> {
    if semicolons == Semicolons::Single && text.bytes().any(|b| b == b';') {
        return Err(Misuse::NotRepresentable { what: "a `;` for a peer that does not double it" });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn fields(bytes: &[u8], semicolons: Semicolons) -> Vec<(&[u8], Text<'_>)> {
        Body { bytes, semicolons }.fields().collect()
    }

    #[test]
    fn doubled_semicolon_belongs_to_its_value() {
        let read = fields(b"key=a;value=x;;y;;;z=1;", Semicolons::Doubled);
        assert_eq!(read.len(), 3);
        assert_eq!(read[1].1, *b"x;y;");
        assert_eq!(read[2], (&b"z"[..], Text::from("1")));
        let read = fields(b"key=a;value=x;;y;z=1;", Semicolons::Single);
        assert_eq!(read[1].1, *b"x");
        assert_eq!(read[2].0, b"z");
    }

    #[test]
    fn bytes_of_old_memory_behind_the_last_field_are_passed_over() {
        for tail in [
            &b"\0\0\0\0\0\0"[..],
            b"\0\xa2\xbc\x7f\xec\xf4",
            b"apping",
            b"a9a40;",
            b"b6;c=2",
            b"id=0x7",
        ] {
            let mut bytes = Vec::from(&b"cmd=kvs-put;key=k;value=v;"[..]);
            bytes.extend_from_slice(tail);
            let read = fields(&bytes, Semicolons::Doubled);
            assert_eq!(read.len(), 3, "{tail:?}");
        }
    }
}
