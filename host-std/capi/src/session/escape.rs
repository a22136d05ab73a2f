//! Keys and values that a message cannot carry. The C interface takes any string. In PMI-1, whose values
//! Open MPI fills with blanks, a value ends at the first blank or line end, which nothing escapes; in PMI-2
//! it ends at a `;` with every server but this project's: Hydra and Slurm lose the rest.
//!
//! Such a text is sent as [`MARK`] and its bytes, with `%XX` for each that the message cannot carry. All
//! ranks of a job use the same library, so they read it; others see the escaped form.

use std::borrow::Cow;

/// Start of an escaped text. A text that starts so by itself is escaped as well.
const MARK: &[u8] = b"%%";

/// A message that carries keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// A line of PMI-1.
    Line,
    /// A frame of PMI-2, for a server of others.
    Frame,
}

impl Carrier {
    /// The text as the message carries it.
    pub(super) fn escape(self, text: &[u8]) -> Cow<'_, [u8]> {
        if !text.starts_with(MARK) && text.iter().all(|byte| self.is_plain(*byte)) {
            return Cow::Borrowed(text);
        }
        let mut escaped = MARK.to_vec();
        for byte in text {
            match byte {
                b'%' => escaped.extend_from_slice(b"%25"),
                byte if self.is_plain(*byte) => escaped.push(*byte),
                byte => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
        Cow::Owned(escaped)
    }

    /// The text of a message; as it is, unless [`Carrier::escape`] has made it.
    pub(super) fn unescape(self, text: Vec<u8>) -> Vec<u8> {
        let plain = text.strip_prefix(MARK).and_then(unescaped);
        plain.filter(|plain| *self.escape(plain) == *text).unwrap_or(text)
    }

    /// True for a byte within a value of any server.
    const fn is_plain(self, byte: u8) -> bool {
        match self {
            Self::Line => byte > b' ' && byte != 0x7f,
            Self::Frame => byte != b';',
        }
    }
}

fn unescaped(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            plain.push(*byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        plain.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = behind;
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_any_bytes_comes_back_and_its_message_can_carry_it() {
        for carrier in [Carrier::Line, Carrier::Frame] {
            for value in
                [&b"a b"[..], b"a\nb\t=;", b"%%", b"%%41", b"100%", b"", b" -", "ü ü".as_bytes()]
            {
                let escaped = carrier.escape(value);
                assert!(escaped.iter().all(|byte| carrier.is_plain(*byte)), "{escaped:?}");
                assert_eq!(carrier.unescape(escaped.into_owned()), value);
            }
            assert_eq!(*carrier.escape(b"100%"), *b"100%");
        }
        assert_eq!(*Carrier::Line.escape(b"QUJD -"), *b"%%QUJD%20-");
        assert_eq!(*Carrier::Frame.escape(b"a;b=c d"), *b"%%a%3Bb=c d");
        assert_eq!(*Carrier::Frame.escape(b"a b\n"), *b"a b\n");
    }

    #[test]
    fn value_that_others_have_put_stays_as_it_is() {
        for value in [&b"%%4"[..], b"%%plain", b"%%%zz", b"%41", b"%%\xff%", b"%%%2"] {
            for carrier in [Carrier::Line, Carrier::Frame] {
                assert_eq!(carrier.unescape(value.to_vec()), value);
            }
        }
    }
}
