//! A frame of PMI-2 as `key=value;` fields: reader and writer.

use super::super::{Writer, names, quirks, scan};
use crate::command::{CodeRun, Field, Reason, Text};
use crate::error::{Full, Misuse};
use crate::limits::PMI2_LENGTH_DIGITS;
use crate::parts;

/// How a client writes frames, which decides on a `;` that belongs to a value and on the names of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FrameStyle {
    /// The length is on the left and a `;` doubled, as by the two oldest clients.
    LeftAligned,
    /// The length is on the right and a `;` single, as if it ended the value; newer clients have no other
    /// form.
    RightAligned,
    /// The length is on the right and a `;` doubled. Spec: PMI-2 wire protocol, The Protocol; no
    /// implementation was seen to do so.
    Specified,
}

impl FrameStyle {
    /// True if a `;` that belongs to a value is doubled.
    pub(super) const fn is_doubling(self) -> bool {
        !matches!(self, Self::RightAligned)
    }
}

/// The body of one frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) style: FrameStyle,
}

impl<'a> Body<'a> {
    /// Fields that have a name and a value.
    pub(super) fn fields(self) -> impl Iterator<Item = (&'a [u8], Text<'a>)> {
        let cut = if self.style.is_doubling() { cut_doubled } else { cut_single };
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
        if self.style != FrameStyle::LeftAligned || !front.bytes.ends_with(b";") {
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
        let goes_on = self.field(names::CONCAT).is_some();
        let is_known = |piece: &[u8]| {
            let mut name = piece.split(|b| *b == b'=').next().unwrap_or(b"");
            if goes_on && name.ends_with(b"cmd") {
                // A frame that continues the message, behind its length.
                let is_length = |byte: &u8| matches!(byte, b' ' | b'\t' | b'0'..=b'9');
                let length = name.iter().take_while(|byte| is_length(byte)).count();
                name = name.get(length.min(PMI2_LENGTH_DIGITS)..).unwrap_or(b"");
            }
            let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            let name = name.get(..name.len() - digits).unwrap_or(b"");
            piece.contains(&b'=') && quirks::BESIDE_VALUE.iter().any(|k| k.as_bytes() == name)
        };
        !self.style.is_doubling()
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
    // Noted on the way, since a search for it would read each value again.
    let mut is_doubled = false;
    let (name, value, rest) = cut(bytes, |value| {
        let mut at = 0;
        loop {
            at += scan::position(value.get(at..)?, b';')?;
            if value.get(at + 1) != Some(&b';') {
                return Some(at);
            }
            is_doubled = true;
            at += 2;
        }
    })?;
    let value = if is_doubled { Text::doubled(value) } else { Text::plain(value) };
    Some((name, value, rest))
}

/// Cuts off the first field, in the form in which every `;` ends one.
pub(super) fn cut_single(bytes: &[u8]) -> Option<Field<'_>> {
    cut(bytes, |value| scan::position(value, b';'))
        .map(|(name, value, rest)| (name, Text::plain(value), rest))
}

/// Cuts off the first field; `end` finds the end of its value.
///
/// Old clients send six bytes of old memory behind the last field: bytes that do not form
/// `name=value;` are skipped, and a NUL in place of a name ends the message.
fn cut(bytes: &[u8], mut end: impl FnMut(&[u8]) -> Option<usize>) -> Option<(&[u8], &[u8], &[u8])> {
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
    style: FrameStyle,
    /// Offset of the frame that is being written.
    begin: usize,
    /// Length from which on the next field begins another frame.
    split_bytes: usize,
    /// Length of the longest body.
    longest_bytes: usize,
}

impl<'a> FrameWriter<'a> {
    pub(super) fn new(out: &'a mut [u8], words: &[&[u8]], tag: &[u8], style: FrameStyle) -> Self {
        let mut writer = Writer::new(out);
        writer.bytes(b"      cmd=");
        words.iter().for_each(|word| {
            writer.bytes(word);
        });
        writer.byte(b';');
        let mut frame = Self { writer, style, begin: 0, split_bytes: usize::MAX, longest_bytes: 0 };
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
        let word = match (self.style, value) {
            (FrameStyle::Specified, true) => quirks::YES[1],
            (FrameStyle::Specified, false) => "false",
            (_, true) => quirks::YES[0],
            (_, false) => "FALSE",
        };
        self.text(key, Text::from(word))
    }

    /// Says whether there is such a key, by the name that practice uses and by that of the specification.
    pub(super) fn found(&mut self, is_found: bool) -> &mut Self {
        let [practised, specified] = quirks::FOUND;
        self.flag(practised, is_found);
        if self.style == FrameStyle::Specified {
            self.flag(specified, is_found);
        }
        self
    }

    /// Lets the message go on in another frame wherever one has this many bytes.
    ///
    /// Wire: `concat=1;` at the end of a frame, `cmd=concat;concatid=1;` in front of the next.
    /// Spec: PMI-2 wire protocol, The Protocol.
    pub(super) const fn split_at(&mut self, split_bytes: usize) {
        self.split_bytes = split_bytes;
    }

    /// `keyN=value;`
    pub(super) fn indexed(&mut self, key: &str, index: u32, value: Text<'_>) -> &mut Self {
        self.begin_field().bytes(key.as_bytes()).number(index).byte(b'=');
        self.value(value);
        self
    }

    /// `keyN=number;`
    pub(super) fn numbered(&mut self, key: &str, index: u32, value: i32) -> &mut Self {
        self.begin_field().bytes(key.as_bytes()).number(index).byte(b'=').number(value).byte(b';');
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
        if self.style.is_doubling() {
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

    /// Fills in the length, aligned left in its six places, and returns the length of the message and of its
    /// longest body.
    ///
    /// By the alignment a server distinguishes a client that doubles `;` from one that does not.
    pub(super) fn finish_left(mut self) -> Result<(usize, usize), Full> {
        self.end_frame();
        let longest_bytes = self.longest_bytes;
        self.writer.finish().map(|len| (len, longest_bytes))
    }

    fn end_frame(&mut self) {
        let body = self.writer.len().saturating_sub(self.begin + PMI2_LENGTH_DIGITS);
        self.longest_bytes = self.longest_bytes.max(body);
        let written = self.writer.written().get_mut(self.begin..).unwrap_or(&mut []);
        if let Some(length) = written.first_chunk_mut::<PMI2_LENGTH_DIGITS>() {
            Writer::new(length).unsigned(body as u64);
        }
    }

    fn begin_field(&mut self) -> &mut Writer<'a> {
        if parts::CONCAT && self.writer.len() - self.begin >= self.split_bytes {
            self.writer.bytes(b"concat=1;");
            self.end_frame();
            self.begin = self.writer.len();
            self.writer.bytes(b"      cmd=concat;concatid=1;");
        }
        &mut self.writer
    }

    fn key(&mut self, key: &str) -> &mut Writer<'a> {
        self.begin_field().bytes(key.as_bytes()).byte(b'=')
    }

    fn value(&mut self, value: Text<'_>) {
        match value.as_plain().filter(|plain| !plain.contains(&b';')) {
            Some(plain) => {
                self.writer.bytes(plain);
            }
            None => value.bytes().for_each(|byte| {
                if byte == b';' && self.style.is_doubling() {
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
pub(super) fn sayable(text: Text<'_>, style: FrameStyle) -> Result<Text<'_>, Misuse> {
    if !style.is_doubling() && scan::position(text.as_raw(), b';').is_some() {
        return Err(Misuse::NotRepresentable { what: "a `;` for a peer that does not double it" });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn fields(bytes: &[u8], style: FrameStyle) -> Vec<(&[u8], Text<'_>)> {
        Body { bytes, style }.fields().collect()
    }

    #[test]
    fn doubled_semicolon_belongs_to_its_value() {
        let read = fields(b"key=a;value=x;;y;;;z=1;", FrameStyle::LeftAligned);
        assert_eq!(read.len(), 3);
        assert_eq!(read[1].1, *b"x;y;");
        assert_eq!(read[2], (&b"z"[..], Text::from("1")));
        let read = fields(b"key=a;value=x;;y;z=1;", FrameStyle::RightAligned);
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
            let read = fields(&bytes, FrameStyle::LeftAligned);
            assert_eq!(read.len(), 3, "{tail:?}");
        }
    }
}
