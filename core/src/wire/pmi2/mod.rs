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

/// Largest number of messages of one client that are open at once. An id names a thread or process.
const OPEN_MAX: u32 = 4;

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
/// continuations are fields without a meaning. Another message may stand between two frames of one:
/// then it is partial until [`reorder_requests`] has moved that one. `spawn` without a program of its own has
/// one frame `cmd=spawn-cmd;` for each of `ncmds`; no peer was seen to send either.
/// Spec: PMI-2 wire protocol, The Protocol; PMI_Job_Spawn.
///
/// # Errors
///
/// [`Malformed`] as for [`frame`].
pub fn frame_request(bytes: &[u8]) -> Result<Framed, Malformed> {
    let Opening { end: mut at, awaits } = opening(bytes)?;
    if at == 0 || awaits.is_some() {
        return Ok(Framed::Partial);
    }
    let commands =
        if parts::SPAWN { announced_commands(bytes.get(..at).unwrap_or(b"")) } else { 0 };
    for _ in 0..commands {
        let rest = bytes.get(at..).unwrap_or(b"");
        let Opening { end: len, awaits } = opening(rest)?;
        if len == 0 || awaits.is_some() {
            return Ok(Framed::Partial);
        }
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
/// As for [`frame`], and if the frame behind one that goes on is no continuation of it: a server writes its
/// messages one after the other.
pub fn frame_reply(bytes: &[u8]) -> Result<Framed, Malformed> {
    if !parts::CONCAT {
        return frame(bytes);
    }
    let Opening { end, awaits } = opening(bytes)?;
    match (end, awaits) {
        (0, _) => Ok(Framed::Partial),
        (end, None) => Ok(Framed::Whole(end)),
        (end, Some(_)) => match frame(bytes.get(end..).unwrap_or(b""))? {
            Framed::Whole(_) => Err(Malformed::new(end + PMI2_LENGTH_DIGITS, "cmd=concat")),
            Framed::Partial => Ok(Framed::Partial),
        },
    }
}

/// Moves frames of messages that a client has sent interleaved; see [`frame_request`]. One call moves the
/// frames of one message at most. False if nothing was moved.
///
/// # Errors
///
/// [`Malformed`] as for [`frame`], and if more than four messages are open at once.
pub fn reorder_requests(bytes: &mut [u8]) -> Result<bool, Malformed> {
    reorder(bytes, OPEN_MAX)
}

/// Moves the frame that continues the message at the front behind it, or else the first whole message before
/// it. `open_max` messages may be open.
fn reorder(bytes: &mut [u8], open_max: u32) -> Result<bool, Malformed> {
    let Opening { end, awaits: Some(id) } = opening(bytes)? else { return Ok(false) };
    let behind = bytes.get(end..).unwrap_or(b"");
    let mut at = 0;
    while let Framed::Whole(len) = frame(behind.get(at..).unwrap_or(b""))? {
        if continues(behind.get(at..at + len).unwrap_or(b""), id) {
            return Ok(rotate(bytes.get_mut(end..end + at + len), len));
        }
        at += len;
    }
    if at == 0 {
        return Ok(false);
    }
    match frame_request(behind)? {
        Framed::Whole(len) => Ok(rotate(bytes.get_mut(..end + len), len)),
        Framed::Partial if open_max <= 1 => {
            Err(Malformed::new(end + PMI2_LENGTH_DIGITS, "cmd=concat"))
        }
        Framed::Partial => reorder(bytes.get_mut(end..).unwrap_or(&mut []), open_max - 1),
    }
}

/// Moves the last `len` bytes to the front; false without bytes.
fn rotate(bytes: Option<&mut [u8]>, len: usize) -> bool {
    let Some(bytes) = bytes else { return false };
    if len > bytes.len() {
        return false;
    }
    bytes.rotate_right(len);
    true
}

/// The front of a message: a frame, and the continuations that follow it at once.
struct Opening<'a> {
    /// Its end; 0 if not even the first frame is whole.
    end: usize,
    /// Id of the continuation that has to come.
    awaits: Option<Text<'a>>,
}

/// Finds the front of the first message.
fn opening(bytes: &[u8]) -> Result<Opening<'_>, Malformed> {
    let (mut end, mut awaits) = (0, None);
    while end == 0 || awaits.is_some() {
        let rest = bytes.get(end..).unwrap_or(b"");
        let Framed::Whole(len) = frame(rest)? else { break };
        let part = rest.get(..len).unwrap_or(b"");
        if awaits.is_some_and(|id| !continues(part, id)) {
            break;
        }
        end += len;
        awaits = continued_by(part);
    }
    Ok(Opening { end, awaits })
}

/// True if a frame continues the message with this id.
fn continues(frame: &[u8], id: Text<'_>) -> bool {
    let body = body(frame);
    body.field("cmd") == Some(Text::from(names::CONCAT)) && body.field("concatid") == Some(id)
}

/// Id by which another frame continues the message of this one.
fn continued_by(frame: &[u8]) -> Option<Text<'_>> {
    // A search for the word comes first, since reading the fields of every frame twice would be slow.
    let mut end = 0;
    while let Some(len) = frame.get(end..).and_then(|rest| scan::position(rest, b'=')) {
        end += len;
        if frame.get(..end).is_some_and(|before| before.ends_with(names::CONCAT.as_bytes())) {
            return body(frame).field(names::CONCAT);
        }
        end += 1;
    }
    None
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
