//! Requests of a PMI-2 client: reader and writer.

use super::super::{WriteError, names, quirks};
use super::fields::{Body, FrameStyle, FrameWriter};
use super::{TORN_VALUE, body_in, command, detect_style, spawn};
use crate::command::{FenceGroup, Place, Request, Spawn, SpawnText, Text, Verb};
use crate::error::{Malformed, Misuse};
use crate::limits::PMI2_SPLIT;
use crate::parts;

/// Reads one frame from a client: the tag of the exchange and the request.
///
/// # Errors
///
/// [`Malformed`] if it does not begin with a command.
pub fn read_request(message: &[u8]) -> Result<(&[u8], Request<'_>), Malformed> {
    read_request_in(message, detect_style(message))
}

/// Reads one frame from a client that is known to write in this style.
///
/// # Errors
///
/// As for [`read_request`].
pub fn read_request_in(
    message: &[u8],
    style: FrameStyle,
) -> Result<(&[u8], Request<'_>), Malformed> {
    let body = body_in(message, style);
    let word = command(body)?;
    let tag = body.field("thrid").and_then(Text::as_plain).unwrap_or(b"");
    let Some(verb) = names::find(word, |words| words.frame) else {
        return Ok((tag, Request::Unknown { word }));
    };
    if matches!(verb, Verb::Put | Verb::NodePut | Verb::Publish | Verb::PutPair) && body.is_torn() {
        // Storing a part of the value would be worse than storing nothing.
        return Ok((tag, Request::Lacking { verb, field: TORN_VALUE }));
    }
    let request = read_fields(verb, body).unwrap_or_else(|field| Request::Lacking { verb, field });
    Ok((tag, request))
}

/// Writes one frame to a server. `job` is the caller's own job id, `tag` names the exchange.
///
/// Shape: the length is aligned left, the mark of a client that doubles `;` in values.
///
/// # Errors
///
/// [`WriteError::Misuse`] for a text that a frame cannot express, [`WriteError::Full`] with the room
/// needed; the content of `out` is undefined then.
pub fn write_request(
    request: &Request<'_>,
    tag: &[u8],
    job: &[u8],
    out: &mut [u8],
) -> Result<usize, WriteError> {
    if tag.starts_with(quirks::STRAYING) || tag.contains(&b';') {
        return Err(
            Misuse::NotRepresentable { what: "a name of an exchange that is misread" }.into()
        );
    }
    if let (Request::Spawn(spawn), true) = (request, parts::SPAWN) {
        return write_spawn(*spawn, tag, out);
    }
    let verb = request.verb();
    let word = names::of(verb).map_or("", |words| words.frame);
    if word.is_empty()
        || !names::has(verb)
        || matches!(request, Request::Lacking { .. } | Request::Spawn(_))
    {
        return Err(Misuse::NotRepresentable {
            what: "a request that PMI-2 does not have, or this build",
        }
        .into());
    }
    let mut frame = FrameWriter::new(out, &[word.as_bytes()], tag, FrameStyle::LeftAligned);
    match *request {
        Request::FullInit { rank, job, threaded, method } => {
            frame.text("pmijobid", job.unwrap_or(Text::from(quirks::NO_JOB)));
            if let Some(rank) = rank {
                frame.number("pmirank", rank);
            }
            frame.flag("threaded", threaded).optional("authtype", method);
        }
        Request::Proof { digits, .. } if parts::LISTEN => {
            frame.text("authinfo", digits);
        }
        Request::Put { key, value, .. } => {
            frame.text("key", filled("key", key)?).text("value", filled("value", value)?);
        }
        Request::Get { place: Place::Job(name), key, .. } => {
            frame.text("jobid", name.unwrap_or(Text::plain(job))).number("srcid", -1);
            frame.text("key", filled("key", key)?);
        }
        Request::Get { key, wait, .. } => {
            frame.text("key", filled("key", key)?);
            if verb == Verb::NodeGet {
                frame.flag("wait", wait);
            }
        }
        Request::Fence { group: FenceGroup::World, tag: None } => {}
        Request::Fence { .. } => {
            return Err(Misuse::NotRepresentable { what: "a fence of a group in PMI-2" }.into());
        }
        Request::Publish { service, port } if parts::NAMES => {
            frame.text("name", filled("service", service)?).text("port", filled("port", port)?);
            frame.number("infokeycount", 0);
        }
        Request::Unpublish { service } | Request::Lookup { service } if parts::NAMES => {
            frame.text("name", filled("service", service)?).number("infokeycount", 0);
        }
        Request::GetAll { job } if parts::CONNECT => {
            frame.text("jobid", job);
        }
        Request::PutAll { job, pairs } if parts::CONNECT => {
            frame.text("jobid", job).number("npair", pairs);
        }
        Request::PutPair { key, value } if parts::CONNECT => {
            frame.text("key", filled("key", key)?).text("val", filled("value", value)?);
        }
        Request::Ring { left, right } if parts::CONNECT => {
            frame.number("ring-count", 1).text("ring-left", left).text("ring-right", right);
        }
        Request::Connect { job } | Request::Disconnect { job } if parts::CONNECT => {
            frame.text("jobid", filled("job", job)?);
        }
        Request::Abort { code, world, message } => {
            // Both forms: newer servers read the code, older ones the flag.
            frame.flag("isworld", world).number("exitcode", code.unwrap_or(1));
            frame.text("msg", message);
        }
        _ => {}
    }
    seal(frame)
}

/// Writes one spawn.
fn write_spawn(spawn: Spawn<'_>, tag: &[u8], out: &mut [u8]) -> Result<usize, WriteError> {
    let mut frame = FrameWriter::new(out, &[b"spawn"], tag, FrameStyle::LeftAligned);
    frame.split_at(PMI2_SPLIT);
    spawn::write(spawn, &mut frame, FrameStyle::LeftAligned)?;
    seal(frame)
}

/// Fills in the length in front.
fn seal(frame: FrameWriter<'_>) -> Result<usize, WriteError> {
    let (len, longest_bytes) = frame.finish_left()?;
    let limit_bytes = 999_999;
    if longest_bytes > limit_bytes {
        return Err(Misuse::Length { what: "frame", len_bytes: longest_bytes, limit_bytes }.into());
    }
    Ok(len)
}

/// Reads the fields of a request, or names the one that is missing.
fn read_fields(verb: Verb, body: Body<'_>) -> Result<Request<'_>, &'static str> {
    let text = |key: &'static str| body.field(key).ok_or(key);
    Ok(match verb {
        Verb::FullInit => Request::FullInit {
            rank: quirks::RANK.iter().find_map(|key| body.field(key)?.number()),
            job: body.field("pmijobid"),
            threaded: body.flag("threaded").unwrap_or(false),
            method: body.field("authtype"),
        },
        Verb::Proof | Verb::AuthResponse if parts::LISTEN => {
            Request::Proof { digits: text("authinfo")?, is_last: verb == Verb::Proof }
        }
        Verb::KvsName => Request::KvsName,
        Verb::Put => {
            Request::Put { place: Place::Job(None), key: text("key")?, value: text("value")? }
        }
        Verb::NodePut => {
            Request::Put { place: Place::Node, key: text("key")?, value: text("value")? }
        }
        Verb::Get => {
            let is_named = |job: &Text<'_>| !(quirks::EMPTY_JOB_IS_OWN && job.is_empty());
            let job = body.field("jobid").filter(is_named);
            Request::Get { place: Place::Job(job), key: text("key")?, wait: false }
        }
        Verb::NodeGet => {
            let wait = body.flag("wait").unwrap_or(false);
            Request::Get { place: Place::Node, key: text("key")?, wait }
        }
        Verb::JobGet => Request::Get { place: Place::Attributes, key: text("key")?, wait: false },
        Verb::Fence => Request::Fence { group: FenceGroup::World, tag: None },
        Verb::Publish if parts::NAMES => {
            Request::Publish { service: text("name")?, port: text("port")? }
        }
        Verb::Unpublish if parts::NAMES => Request::Unpublish { service: text("name")? },
        Verb::Lookup if parts::NAMES => Request::Lookup { service: text("name")? },
        Verb::Spawn if parts::SPAWN => {
            let words = spawn::words(body);
            Request::Spawn(Spawn::Wire(SpawnText::new(body.bytes, words)?))
        }
        Verb::Connect if parts::CONNECT => Request::Connect { job: text("jobid")? },
        Verb::Disconnect if parts::CONNECT => Request::Disconnect { job: text("jobid")? },
        Verb::GetAll if parts::CONNECT => {
            Request::GetAll { job: body.field("jobid").unwrap_or_default() }
        }
        Verb::PutAll if parts::CONNECT => {
            let pairs = body.field("npair").and_then(Text::number).ok_or("npair")?;
            Request::PutAll { job: body.field("jobid").unwrap_or_default(), pairs }
        }
        Verb::PutPair if parts::CONNECT => {
            Request::PutPair { key: text("key")?, value: text("val")? }
        }
        Verb::Ring if parts::CONNECT => Request::Ring {
            left: body.field("ring-left").unwrap_or_default(),
            right: body.field("ring-right").unwrap_or_default(),
        },
        Verb::Abort => Request::Abort {
            code: body.number("exitcode").map(|code| i32::try_from(code).unwrap_or(1)),
            world: body.flag("isworld").unwrap_or(true),
            message: quirks::FRAME_ABORT_TEXT
                .iter()
                .find_map(|name| body.field(name))
                .unwrap_or_default(),
        },
        Verb::Finalize => Request::Finalize,
        _ => return Err("a command of PMI-2"),
    })
}

/// Checks that a field is not empty: an empty one terminates the job on some servers.
fn filled<'a>(what: &'static str, text: Text<'a>) -> Result<Text<'a>, Misuse> {
    if text.is_empty() {
        Err(Misuse::Length { what, len_bytes: 0, limit_bytes: 0 })
    } else {
        Ok(text)
    }
}
