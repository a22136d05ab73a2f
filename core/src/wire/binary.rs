//! The binary dialect of this crate: the requests and replies of PMI for nodes that have no use for
//! text.
//!
//! ```text
//! frame     MAGIC  len (2 bytes, little-endian)  body (len bytes)
//! request   tag, request
//! reply     number of the request, tag, code, reply
//! ```
//!
//! Fields have the format of postcard: numbers of variable length, bytes after their length, a number in
//! front of each variant. The codec is written out here, since a board has room for this much of it and not
//! for serde.
//!
//! Keys and values are arbitrary bytes, the tag identifies a request among several pending ones, and
//! the first byte of a connection selects the dialect for all of it. `docs/binary.md` defines the
//! numbers, which have no gaps: a new request or reply has the next one.

mod fields;
mod reply;
mod request;

use super::{Framed, WriteError, Writer};
use crate::command::{Reply, Request, Text, Verb};
use crate::error::{Code, Full, Malformed};
use fields::{BodyFields, Bytes, put_bytes};
use reply::{ReplyBody, ReplyFrame, SENTENCE_BYTES};
use request::RequestBody;

/// The first byte of every frame. No other dialect has a message that begins so: all others begin with
/// a letter, a digit or a blank.
pub const MAGIC: u8 = 0xa7;

/// Bytes in front of a body.
pub const HEAD_BYTES: usize = 3;

/// Kinds of requests, by the numbers of [`RequestBody`].
const VERBS: [Verb; 22] = [
    Verb::InitAck,
    Verb::Init,
    Verb::Maxes,
    Verb::AppNum,
    Verb::UniverseSize,
    Verb::KvsName,
    Verb::Put,
    Verb::Get,
    Verb::NodePut,
    Verb::NodeGet,
    Verb::JobGet,
    Verb::Fence,
    Verb::Publish,
    Verb::Unpublish,
    Verb::Lookup,
    Verb::Connect,
    Verb::Disconnect,
    Verb::GetAll,
    Verb::PutAll,
    Verb::PutPair,
    Verb::Abort,
    Verb::Finalize,
];

/// Number of a request that could not be read.
const UNREAD: u8 = 0xff;

/// Finds the end of the first frame, from either end.
///
/// # Errors
///
/// [`Malformed`] if the bytes do not begin like a frame.
pub fn frame(bytes: &[u8]) -> Result<Framed, Malformed> {
    match *bytes {
        [] => Ok(Framed::Partial),
        [first, ..] if first != MAGIC => Err(Malformed::new(0, "the first byte of a frame")),
        [_, low, high, ..] => {
            let end = HEAD_BYTES + usize::from(u16::from_le_bytes([low, high]));
            Ok(if bytes.len() < end { Framed::Partial } else { Framed::Whole(end) })
        }
        _ => Ok(Framed::Partial),
    }
}

/// Reads one frame of a client: tag and request.
///
/// Shape: a request with an unknown number is [`Request::Unknown`].
///
/// # Errors
///
/// [`Malformed`] for a body that is no request, or longer than one.
pub fn read_request(message: &[u8]) -> Result<(&[u8], Request<'_>), Malformed> {
    let body = message.get(HEAD_BYTES..).unwrap_or(b"");
    let bad = Malformed::new(HEAD_BYTES, "a request");
    let mut fields = BodyFields(body);
    let tag = fields.bytes().ok_or(bad)?.0.as_plain().unwrap_or(b"");
    if fields.0.first().is_some_and(|number| usize::from(*number) >= VERBS.len()) {
        return Ok((tag, Request::Unknown { word: b"" }));
    }
    let ask = RequestBody::read(&mut fields).filter(|_| fields.0.is_empty());
    ask.map(|ask| (tag, ask.request())).ok_or(bad)
}

/// Reads one frame of a server.
///
/// # Errors
///
/// [`Malformed`] for a body that is no reply, or longer than one.
pub fn read_reply(message: &[u8]) -> Result<Reply<'_>, Malformed> {
    let body = message.get(HEAD_BYTES..).unwrap_or(b"");
    let mut fields = BodyFields(body);
    let reply = ReplyFrame::read(&mut fields).filter(|_| fields.0.is_empty());
    let reply = reply.ok_or(Malformed::new(HEAD_BYTES, "a reply"))?;
    Ok(Reply {
        to: VERBS.get(usize::from(reply.to)).copied().unwrap_or(Verb::Unknown),
        tag: reply.tag.0.as_plain().unwrap_or(b""),
        code: Code(reply.code),
        answer: reply.what.answer(),
    })
}

/// Writes one frame of a client.
///
/// # Errors
///
/// [`WriteError::Misuse`] for text that frames cannot express, [`WriteError::Full`] with the room
/// needed; the content of `out` is undefined then.
pub fn write_request(
    request: &Request<'_>,
    tag: &[u8],
    out: &mut [u8],
) -> Result<usize, WriteError> {
    let ask = RequestBody::of(request)?;
    Ok(write(out, |into| {
        put_bytes(into, Bytes(Text::plain(tag)));
        ask.write(into);
    })?)
}

/// Writes one frame of a server.
///
/// # Errors
///
/// [`Full`] with the room needed; the content of `out` is undefined then.
pub fn write_reply(reply: &Reply<'_>, out: &mut [u8]) -> Result<usize, Full> {
    let mut room = [0; SENTENCE_BYTES];
    let what = ReplyBody::of(reply.answer, &mut room);
    let to = VERBS.iter().position(|verb| *verb == reply.to);
    let to = to.and_then(|to| u8::try_from(to).ok()).unwrap_or(UNREAD);
    let frame = ReplyFrame { to, tag: Bytes(Text::plain(reply.tag)), code: reply.code.0, what };
    write(out, |into| frame.write(into))
}

/// Writes head and body; the length is filled in when it is known.
fn write(out: &mut [u8], body: impl FnOnce(&mut Writer<'_>)) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(&[MAGIC, 0, 0]);
    body(&mut writer);
    let needed = writer.len();
    let Ok(len) = u16::try_from(needed - HEAD_BYTES) else { return Err(Full { needed }) };
    if let Some(place) = writer.written().get_mut(1..HEAD_BYTES) {
        place.iter_mut().zip(len.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    writer.finish()
}
