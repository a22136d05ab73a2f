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
pub use self::fields::FrameStyle;
pub(super) use self::reply::carries;
pub use self::reply::{read_reply, write_reply};
pub use self::request::{read_request, read_request_in, write_request};
use super::{Framed, names, quirks, scan};
use crate::command::Text;
use crate::error::Malformed;
use crate::limits::PMI2_LENGTH_DIGITS;
use crate::parts;

/// What a message with a torn value lacks, see [`quirks::BESIDE_VALUE`].
pub(crate) const TORN_VALUE: &str = "a value without semicolon";

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

/// Finds the end of the first message from a client: a frame, its continuations, and behind `spawn` the
/// commands that it announces.
///
/// Shape: a frame with a field `concat=ID;` is continued by the next, which begins with
/// `cmd=concat;concatid=ID;`. The fields of all frames are read in sequence, since the heads of the
/// continuations are fields without a meaning. `spawn` without a program of its own has one frame
/// `cmd=spawn-cmd;` for each of `ncmds`; no peer was seen to send either.
/// Spec: PMI-2 wire protocol, The Protocol; PMI_Job_Spawn.
///
/// # Errors
///
/// [`Malformed`] as for [`frame`], and if the next frame is no continuation.
pub fn frame_request(bytes: &[u8]) -> Result<Framed, Malformed> {
    let Framed::Whole(mut at) = frame_continued(bytes)? else { return Ok(Framed::Partial) };
    let commands =
        if parts::SPAWN { announced_commands(bytes.get(..at).unwrap_or(b"")) } else { 0 };
    for _ in 0..commands {
        let rest = bytes.get(at..).unwrap_or(b"");
        let Framed::Whole(len) = frame_continued(rest)? else { return Ok(Framed::Partial) };
        if body(rest.get(..len).unwrap_or(b"")).field("cmd")
            != Some(Text::plain(names::SPAWN_COMMAND))
        {
            return Err(Malformed::new(at + PMI2_LENGTH_DIGITS, "cmd=spawn-cmd"));
        }
        at += len;
    }
    Ok(Framed::Whole(at))
}

/// Finds the end of the first message from a server: a frame and its continuations.
///
/// # Errors
///
/// As for [`frame_request`].
pub fn frame_reply(bytes: &[u8]) -> Result<Framed, Malformed> {
    if parts::CONCAT { frame_continued(bytes) } else { frame(bytes) }
}

/// Finds the end of a frame and its continuations.
fn frame_continued(bytes: &[u8]) -> Result<Framed, Malformed> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or(b"");
        let Framed::Whole(len) = frame(rest)? else { return Ok(Framed::Partial) };
        let part = rest.get(..len).unwrap_or(b"");
        if at > 0 && body(part).field("cmd") != Some(Text::from(names::CONCAT)) {
            return Err(Malformed::new(at + PMI2_LENGTH_DIGITS, "cmd=concat"));
        }
        at += len;
        if !is_continued(part) {
            return Ok(Framed::Whole(at));
        }
    }
}

/// True if another frame continues the message of this one.
fn is_continued(frame: &[u8]) -> bool {
    // A search for the word comes first, since reading the fields of every frame twice would be slow.
    let mut end = 0;
    while let Some(len) = frame.get(end..).and_then(|rest| scan::position(rest, b'=')) {
        end += len;
        if frame.get(..end).is_some_and(|before| before.ends_with(names::CONCAT.as_bytes())) {
            return body(frame).field(names::CONCAT).is_some();
        }
        end += 1;
    }
    false
}

/// Number of the commands that follow a spawn which names no program itself.
fn announced_commands(message: &[u8]) -> u32 {
    let body = body(message);
    let is_spawn = body.style != FrameStyle::LeftAligned && body.bytes.starts_with(b"cmd=spawn;");
    if !is_spawn || body.field("subcmd").is_some() {
        return 0;
    }
    body.field("ncmds").and_then(Text::number).unwrap_or(0)
}

/// Determines by one frame how its client writes.
///
/// Shape: the first clients align the length left. Of those that align it right, one that names its
/// exchanges follows the specification, and so does one whose `fullinit` says more than its rank.
pub fn detect_style(message: &[u8]) -> FrameStyle {
    let body = message.get(PMI2_LENGTH_DIGITS..).unwrap_or(b"");
    match message.get(PMI2_LENGTH_DIGITS - 1) {
        Some(last) if quirks::BEHIND_LENGTH.contains(last) => FrameStyle::LeftAligned,
        _ if quirks::follows_text(body) => FrameStyle::Specified,
        _ => FrameStyle::RightAligned,
    }
}

fn body(message: &[u8]) -> Body<'_> {
    body_in(message, detect_style(message))
}

fn body_in(message: &[u8], style: FrameStyle) -> Body<'_> {
    let bytes = message.get(PMI2_LENGTH_DIGITS..).unwrap_or(b"");
    Body { bytes, style }.without_strays()
}

fn command<'a>(body: Body<'a>) -> Result<&'a [u8], Malformed> {
    let first = body.fields().next().filter(|(name, _)| *name == b"cmd");
    let word = first.and_then(|(_, word)| word.as_plain()).filter(|word| !word.is_empty());
    word.ok_or(Malformed::new(PMI2_LENGTH_DIGITS, "cmd="))
}
