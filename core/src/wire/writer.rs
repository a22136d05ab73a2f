//! Writes bytes into a lent slice, whole or not at all.

use crate::command::{CodeRun, Reason, ReasonText, Text};
use crate::error::Full;

/// Writer of bytes into a lent slice.
///
/// Writing past the end is not an error yet: the length is still counted, so that
/// [`finish`](Self::finish) can report the room needed.
pub struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `out`.
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    /// Appends `bytes`.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if let Some(to) = self.out.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()))
        {
            to.copy_from_slice(bytes);
        }
        self.len = self.len.saturating_add(bytes.len());
        self
    }

    /// Appends one byte.
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.bytes(&[byte])
    }

    /// Appends the bytes that `text` means.
    pub fn text(&mut self, text: Text<'_>) -> &mut Self {
        match text.as_plain() {
            Some(plain) => self.bytes(plain),
            None => text.bytes().fold(self, |writer, byte| writer.byte(byte)),
        }
    }

    /// Appends a number in decimal.
    pub fn number(&mut self, value: impl Into<i64>) -> &mut Self {
        let value = value.into();
        if value < 0 {
            self.byte(b'-');
        }
        // The 64-bit division is not linked for numbers that never need it.
        match u32::try_from(value.unsigned_abs()) {
            Ok(short) => self.short(short),
            Err(_) => self.unsigned(value.unsigned_abs()),
        }
    }

    /// Appends a number in decimal.
    pub fn unsigned(&mut self, mut value: u64) -> &mut Self {
        // No `core::fmt`: it would cost a small board more than all of this crate's codecs.
        let mut digits = [b'0'; 20];
        let mut first = digits.len();
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + divide_by_ten(&mut value);
            first = at;
            if value == 0 {
                break;
            }
        }
        self.bytes(digits.get(first..).unwrap_or(b""))
    }

    /// Appends a number of 32 bits, which a board divides in one instruction.
    #[inline(never)]
    fn short(&mut self, mut value: u32) -> &mut Self {
        let mut digits = [b'0'; 10];
        let mut first = digits.len();
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit |= u8::try_from(value % 10).unwrap_or(0);
            value /= 10;
            first = at;
            if value == 0 {
                break;
            }
        }
        self.bytes(digits.get(first..).unwrap_or(b""))
    }

    /// Appends the code of each process in decimal, separated by commas.
    pub fn codes(&mut self, runs: &[CodeRun]) -> &mut Self {
        let mut is_first = true;
        for run in runs {
            for _ in 0..run.count {
                if !core::mem::take(&mut is_first) {
                    self.byte(b',');
                }
                self.number(run.code.0);
            }
        }
        self
    }

    /// Appends the text of a reason; `say` maps every byte of the peer's words.
    pub fn sentence(&mut self, reason: &Reason<'_>, say: impl Fn(u8) -> u8) -> &mut Self {
        let ReasonText { form, what, quoted, numbers: [mut number, mut second, third] } =
            reason.sentence();
        for place in form.as_bytes() {
            let words = match place {
                b'%' => what.as_bytes(),
                b'&' => quoted,
                b'#' => {
                    self.number(i64::try_from(number).unwrap_or(i64::MAX));
                    (number, second) = (second, third);
                    continue;
                }
                _ => core::slice::from_ref(place),
            };
            for byte in words {
                self.byte(say(*byte));
            }
        }
        self
    }

    /// Number of bytes that were written, or would have been.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True while nothing was written.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes written so far, as far as they fit.
    pub fn written(&mut self) -> &mut [u8] {
        let len = self.len.min(self.out.len());
        &mut self.out[..len]
    }

    /// Returns the length.
    ///
    /// # Errors
    ///
    /// [`Full`] if it did not fit; the content of the lent slice is undefined then.
    pub fn finish(self) -> Result<usize, Full> {
        if self.len <= self.out.len() { Ok(self.len) } else { Err(Full { needed: self.len }) }
    }
}

/// Divides `value` by ten and returns the remainder.
///
/// Four steps of long division, since boards divide 32 bits at most, and the routine that
/// compilers link for 64 bits is longer than the whole writer.
#[allow(clippy::cast_possible_truncation, reason = "16 bits are wanted, and a digit is small")]
fn divide_by_ten(value: &mut u64) -> u8 {
    let mut quotient = 0;
    let mut left = 0;
    for shift in [48, 32, 16, 0] {
        let part = u32::try_from(*value >> shift & 0xffff).unwrap_or(0) | left << 16;
        quotient = quotient << 16 | u64::from(part / 10);
        left = part % 10;
    }
    *value = quotient;
    u8::try_from(left).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_a_person_would() {
        for (value, text) in [(0, "0"), (7, "7"), (-1, "-1"), (1_234_567, "1234567")] {
            let mut out = [0; 24];
            let mut writer = Writer::new(&mut out);
            writer.number(value);
            assert_eq!(writer.written(), text.as_bytes());
        }
        let mut out = [0; 24];
        let mut writer = Writer::new(&mut out);
        writer.unsigned(u64::MAX).byte(b' ').number(i64::MIN + 1);
        assert_eq!(writer.finish(), Err(Full { needed: 41 }));
    }

    #[test]
    fn too_little_room_is_told_with_the_room_needed() {
        let mut out = [0; 3];
        let mut writer = Writer::new(&mut out);
        writer.bytes(b"ab").bytes(b"cd").text(Text::doubled(b"e;;f"));
        assert_eq!(writer.finish(), Err(Full { needed: 7 }));
    }
}
