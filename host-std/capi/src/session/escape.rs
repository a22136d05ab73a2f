//! Values that a line of PMI-1 cannot carry. The C interface takes any string, and Open MPI puts some with
//! blanks; on the wire a value ends at the first blank or line end, which nothing escapes.
//!
//! Such a value is sent as [`MARK`] and its bytes, with `%XX` for each that the line cannot carry. All
//! ranks of a job use the same library, so they read it; others see the escaped form.

use std::borrow::Cow;

/// Start of an escaped value. A value that starts so by itself is escaped as well.
const MARK: &[u8] = b"%%";

/// The value as a line of PMI-1 carries it.
pub(super) fn escape(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.starts_with(MARK) && value.iter().all(|byte| is_plain(*byte)) {
        return Cow::Borrowed(value);
    }
    let mut escaped = MARK.to_vec();
    for byte in value {
        match byte {
            b'%' => escaped.extend_from_slice(b"%25"),
            byte if is_plain(*byte) => escaped.push(*byte),
            byte => escaped.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    Cow::Owned(escaped)
}

/// The value of a line of PMI-1; as it is, unless [`escape`] has made it.
pub(super) fn unescape(value: Vec<u8>) -> Vec<u8> {
    let plain = value.strip_prefix(MARK).and_then(unescaped);
    plain.filter(|plain| *escape(plain) == *value).unwrap_or(value)
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

/// True for a byte within a value of any server.
const fn is_plain(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_any_bytes_comes_back_and_a_line_can_carry_it() {
        for value in
            [&b"a b"[..], b"a\nb\t=;", b"%%", b"%%41", b"100%", b"", b" -", "ü ü".as_bytes()]
        {
            let escaped = escape(value);
            assert!(escaped.iter().all(|byte| is_plain(*byte)), "{escaped:?}");
            assert_eq!(unescape(escaped.into_owned()), value);
        }
        assert_eq!(*escape(b"100%"), *b"100%");
        assert_eq!(*escape(b"QUJD -"), *b"%%QUJD%20-");
    }

    #[test]
    fn value_that_others_have_put_stays_as_it_is() {
        for value in [&b"%%4"[..], b"%%plain", b"%%%zz", b"%41", b"%%\xff%", b"%%%2"] {
            assert_eq!(unescape(value.to_vec()), value);
        }
    }
}
