//! PMI-2.0: six characters of length, then `key=value;` fields.
//!
//! A session opens with the `init` line of PMI-1 and continues in frames. Reading accepts the length
//! on either side of its six places, fields in any order, and junk behind the last one. Writing uses
//! the form every known peer accepts: `rc` first, the last `;` in place and nothing behind it.
//! Spec: `docs/pmi2.md`, with the observed peers of each exchange.

mod fields;
mod reply;
mod request;
mod spawn;

use self::fields::Body;
pub use self::fields::Semicolons;
pub(super) use self::reply::carries;
pub use self::reply::{read_reply, write_reply};
pub use self::request::{read_request, write_request};
use super::{Framed, names, quirks};
use crate::command::Text;
use crate::error::Malformed;
use crate::limits::PMI2_LENGTH_DIGITS;

/// Finds the end of the first frame.
///
/// # Errors
///
/// [`Malformed`] if it does not begin with a length, or with the length 0.
pub fn frame(bytes: &[u8]) -> Result<Framed, Malformed> {
    let digits = bytes.get(..PMI2_LENGTH_DIGITS).unwrap_or(bytes);
    let mut len = 0usize;
    let (mut begun, mut ended) = (false, false);
    for (at, byte) in digits.iter().enumerate() {
        match byte {
            b' ' | b'\t' => ended = begun,
            b'0'..=b'9' if !ended => {
                begun = true;
                len = len * 10 + usize::from(byte - b'0');
            }
            _ => return Err(Malformed::new(at, "six characters of length")),
        }
    }
    if digits.len() < PMI2_LENGTH_DIGITS {
        return Ok(Framed::Partial);
    }
    if len == 0 {
        return Err(Malformed::new(0, "a length above 0"));
    }
    let end = PMI2_LENGTH_DIGITS + len;
    Ok(if bytes.len() < end { Framed::Partial } else { Framed::Whole(end) })
}

/// Finds the end of the first message from a client: a frame and its continuations.
///
/// Shape: a frame with a field `concat=ID;` is continued by the next, which begins with
/// `cmd=concat;concatid=ID;`. No peer was seen to send one. The fields of all frames are read in
/// sequence, since the heads of the continuations are fields without a meaning.
///
/// # Errors
///
/// [`Malformed`] as for [`frame`], and if the next frame is no continuation.
pub fn frame_request(bytes: &[u8]) -> Result<Framed, Malformed> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or(b"");
        let Framed::Whole(len) = frame(rest)? else { return Ok(Framed::Partial) };
        let part = rest.get(..len).unwrap_or(b"");
        if at > 0 && body(part).field("cmd") != Some(Text::from(names::CONCAT)) {
            return Err(Malformed::new(at + PMI2_LENGTH_DIGITS, "cmd=concat"));
        }
        at += len;
        // A search for the word comes first, since reading the fields of every frame twice would be
        // slow.
        let word = names::CONCAT.as_bytes();
        let may_go_on =
            part.windows(word.len() + 1).any(|at| at.starts_with(word) && at.ends_with(b"="));
        if !may_go_on || body(part).field(names::CONCAT).is_none() {
            return Ok(Framed::Whole(at));
        }
    }
}

/// Detects the form of `;` in a frame: clients that double it align the length left.
pub fn detect_semicolons(message: &[u8]) -> Semicolons {
    match message.get(PMI2_LENGTH_DIGITS - 1) {
        Some(last) if quirks::BEHIND_LENGTH.contains(last) => Semicolons::Doubled,
        _ => Semicolons::Single,
    }
}

fn body(message: &[u8]) -> Body<'_> {
    let bytes = message.get(PMI2_LENGTH_DIGITS..).unwrap_or(b"");
    Body { bytes, semicolons: detect_semicolons(message) }.without_strays()
}

fn command<'a>(body: Body<'a>) -> Result<&'a [u8], Malformed> {
    let first = body.fields().next().filter(|(name, _)| *name == b"cmd");
    let word = first.and_then(|(_, word)| word.as_plain()).filter(|word| !word.is_empty());
    word.ok_or(Malformed::new(PMI2_LENGTH_DIGITS, "cmd="))
}
