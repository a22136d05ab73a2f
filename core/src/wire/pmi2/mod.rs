//! PMI-2.0: six characters of length, then `key=value;` fields.
//!
//! A session opens with the `init` line of PMI-1 and goes on in frames. Reading takes the length
//! on either side of its six places, fields in any order, and junk behind the last one. Writing is
//! the form every known peer accepts: `rc` first, the last `;` in place and nothing behind it.
//! Spec: `docs/pmi2.md`, which says for each exchange who was seen to send what.

mod fields;
mod spawn;

pub use self::fields::Semicolons;
use self::fields::{Body, FrameWriter, sayable};
use super::{Framed, Unwritten, names};
use crate::command::{
    Answer, Group, Identity, Place, Reason, Reply, Request, Spawn, SpawnText, Text, Verb,
};
use crate::error::{Code, Full, Malformed, Misuse};
use crate::limits::PMI2_LENGTH_DIGITS;

/// Finds the end of the first frame.
///
/// Errors: [`Malformed`] if it does not begin with a length, or with the length 0.
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

/// How the sender of a frame writes `;`: clients that double it put the length on the left.
///
/// Seen: MPICH up to 4.0 and Slurm's library (left, doubled), MPICH from 4.1 on (right, single).
pub fn habit(message: &[u8]) -> Semicolons {
    match message.get(PMI2_LENGTH_DIGITS - 1) {
        Some(b' ' | b'\t') => Semicolons::Doubled,
        _ => Semicolons::Single,
    }
}

/// Reads one frame from a client, and what the client calls the exchange.
///
/// Errors: [`Malformed`] if it does not begin with a command.
pub fn read_request(message: &[u8]) -> Result<(&[u8], Request<'_>), Malformed> {
    let body = body(message);
    let word = command(body)?;
    let tag = body.field("thrid").and_then(Text::as_plain).unwrap_or(b"");
    let Some(verb) = names::find(word, |words| words.frame) else {
        return Ok((tag, Request::Unknown { word }));
    };
    let request = read_fields(verb, body).unwrap_or_else(|field| Request::Lacking { verb, field });
    Ok((tag, request))
}

/// Reads one frame from a server.
///
/// Errors: [`Malformed`] if it does not begin with a command that answers something, or lacks what
/// the answer needs.
pub fn read_reply(message: &[u8]) -> Result<Reply<'_>, Malformed> {
    // Only a server that doubles would put `;;` into a value, and none other can mean it.
    let body = Body { semicolons: Semicolons::Doubled, ..body(message) };
    let word = command(body)?;
    let tag = body.field("thrid").and_then(Text::as_plain).unwrap_or(b"");
    if word == names::CHALLENGE {
        let nonce =
            body.field("authinfo").ok_or(Malformed::new(PMI2_LENGTH_DIGITS, "authinfo="))?;
        let answer = Answer::Challenge(nonce);
        return Ok(Reply { to: Verb::FullInit, tag, code: Code::SUCCESS, answer });
    }
    let request = word.strip_suffix(names::RESPONSE).unwrap_or(b"");
    let to = names::find(request, |words| words.frame).unwrap_or(Verb::Unknown);
    let code = body.number("rc").map_or(Code::SUCCESS, |rc| Code(i32::try_from(rc).unwrap_or(-1)));
    let answer = if code.is_success() {
        read_answer(to, body).ok_or(Malformed::new(0, "the fields of an answer"))?
    } else if matches!(to, Verb::Get | Verb::NodeGet | Verb::JobGet) {
        // Hydra from 4.1 on says so of a key that is not there.
        Answer::Missing
    } else {
        body.field("errmsg").map_or(Answer::Nothing, Answer::Told)
    };
    Ok(Reply { to, tag, code, answer })
}

/// Writes one frame to a server. `job` is the caller's own job id, `tag` names the exchange.
///
/// Shape: the length is on the left, which says that `;` is doubled in values.
/// Errors: [`Unwritten::Misuse`] for what a frame cannot say, [`Unwritten::Full`] with the room
/// needed; nothing of use is in `out` then.
pub fn write_request(
    request: &Request<'_>,
    tag: &[u8],
    job: &[u8],
    out: &mut [u8],
) -> Result<usize, Unwritten> {
    let verb = request.verb();
    let word = names::of(verb).map_or("", |words| words.frame);
    if word.is_empty() {
        return Err(Misuse::NotSayable { what: "a request that PMI-2 does not have" }.into());
    }
    let mut frame = FrameWriter::new(out, &[word.as_bytes()], tag, Semicolons::Doubled);
    match *request {
        Request::FullInit { rank, job, threaded, method } => {
            // Slurm refuses the opening without any of the three.
            frame.text("pmijobid", job.unwrap_or(Text::from("0")));
            if let Some(rank) = rank {
                frame.number("pmirank", rank);
            }
            frame.flag("threaded", threaded).optional("authtype", method);
        }
        Request::Proof { digits } => {
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
        Request::Fence { group: Group::World, tag: None } => {}
        Request::Fence { .. } => {
            return Err(Misuse::NotSayable { what: "a fence of a group in PMI-2" }.into());
        }
        Request::Publish { service, port } => {
            frame.text("name", filled("service", service)?).text("port", filled("port", port)?);
            frame.number("infokeycount", 0);
        }
        Request::Unpublish { service } | Request::Lookup { service } => {
            frame.text("name", filled("service", service)?).number("infokeycount", 0);
        }
        Request::Spawn(spawn) => spawn::write(spawn, &mut frame, Semicolons::Doubled)?,
        Request::Connect { job } | Request::Disconnect { job } => {
            frame.text("jobid", filled("job", job)?);
        }
        Request::Abort { code, world, message } => {
            // Both ways of saying it: newer servers take the code, older ones the flag.
            frame.flag("isworld", world).number("exitcode", code.unwrap_or(1));
            frame.text("msg", message);
        }
        _ => {}
    }
    let len = frame.finish_left()?;
    let limit_bytes = 999_999;
    if len - PMI2_LENGTH_DIGITS > limit_bytes {
        return Err(Misuse::Length { what: "frame", len_bytes: len, limit_bytes }.into());
    }
    Ok(len)
}

/// Writes one answer to a client. `word` is the command of a request that we do not know.
///
/// Errors: [`Full`] with the room needed; nothing of use is in `out` then.
pub fn write_reply(
    reply: &Reply<'_>,
    word: &[u8],
    semicolons: Semicolons,
    out: &mut [u8],
) -> Result<usize, Full> {
    let known = names::of(reply.to).map_or("", |words| words.frame);
    let name = if known.is_empty() { word } else { known.as_bytes() };
    let name = if name.is_empty() { super::quirks::UNREADABLE } else { name };
    if let Answer::Challenge(nonce) = reply.answer {
        let mut frame = FrameWriter::new(out, &[names::CHALLENGE], reply.tag, semicolons);
        frame.text("authinfo", nonce);
        return frame.finish();
    }
    let mut frame = FrameWriter::new(out, &[name, names::RESPONSE], reply.tag, semicolons);
    let reads = matches!(reply.to, Verb::Get | Verb::NodeGet | Verb::JobGet);
    let answer = match reply.answer {
        Answer::Value(value) if sayable(value, semicolons).is_err() => {
            // Cutting the value short would be taken for the value.
            frame.number("rc", Code::OTHER.0).text("errmsg", Text::from(UNREADABLE_VALUE));
            return frame.finish();
        }
        // Old clients take a code for an error of the call, not for "no such key".
        Answer::Missing if reads => {
            frame.number("rc", 0).flag("found", false);
            return frame.finish();
        }
        answer => answer,
    };
    frame.number("rc", reply.code.0);
    match answer {
        Answer::Identity(identity) => write_identity(&mut frame, identity),
        Answer::Name(name) => {
            frame.text("jobid", name);
        }
        // One client reads `value`, the others `port`.
        Answer::Value(port) if reply.to == Verb::Lookup => {
            frame.text("value", port).text("port", port).flag("found", true);
        }
        Answer::Value(value) => {
            frame.flag("found", true).text("value", value);
        }
        Answer::Spawned { job, codes } => {
            frame.optional("jobid", job).number("nerrs", 0).optional("errcodes", codes);
        }
        Answer::Refused(reason) => {
            frame.sentence("errmsg", reason.pieces());
            if let Reason::NoSuch { .. } = reason
                && reply.to == Verb::Lookup
            {
                frame.flag("found", false);
            }
        }
        Answer::Told(text) => {
            frame.text("errmsg", text);
        }
        Answer::Nothing if reply.to == Verb::Connect && reply.code.is_success() => {
            // Nobody has to copy anything: the other job's space is read where it is.
            frame.flag("kvscopy", false);
        }
        _ => {}
    }
    frame.finish()
}

fn body(message: &[u8]) -> Body<'_> {
    let bytes = message.get(PMI2_LENGTH_DIGITS..).unwrap_or(b"");
    Body { bytes, semicolons: habit(message) }
}

fn command<'a>(body: Body<'a>) -> Result<&'a [u8], Malformed> {
    let first = body.fields().next().filter(|(name, _)| *name == b"cmd");
    let word = first.and_then(|(_, word)| word.as_plain()).filter(|word| !word.is_empty());
    word.ok_or(Malformed::new(PMI2_LENGTH_DIGITS, "cmd="))
}

/// Reads the fields of a request, or names the one that is missing.
fn read_fields(verb: Verb, body: Body<'_>) -> Result<Request<'_>, &'static str> {
    let text = |key: &'static str| body.field(key).ok_or(key);
    Ok(match verb {
        Verb::FullInit => Request::FullInit {
            // Slurm's library says `srcid` where a launcher gave it an identity.
            rank: ["pmirank", "srcid"].iter().find_map(|key| body.field(key)?.number()),
            job: body.field("pmijobid"),
            threaded: body.flag("threaded").unwrap_or(false),
            method: body.field("authtype"),
        },
        Verb::Proof => Request::Proof { digits: text("authinfo")? },
        Verb::KvsName => Request::KvsName,
        Verb::Put => {
            Request::Put { place: Place::Job(None), key: text("key")?, value: text("value")? }
        }
        Verb::NodePut => {
            Request::Put { place: Place::Node, key: text("key")?, value: text("value")? }
        }
        Verb::Get => {
            // An empty job id is what a client sends that never asked for its own.
            let job = body.field("jobid").filter(|job| !job.is_empty());
            Request::Get { place: Place::Job(job), key: text("key")?, wait: false }
        }
        Verb::NodeGet => {
            let wait = body.flag("wait").unwrap_or(false);
            Request::Get { place: Place::Node, key: text("key")?, wait }
        }
        Verb::JobGet => Request::Get { place: Place::Attributes, key: text("key")?, wait: false },
        Verb::Fence => Request::Fence { group: Group::World, tag: None },
        Verb::Publish => Request::Publish { service: text("name")?, port: text("port")? },
        Verb::Unpublish => Request::Unpublish { service: text("name")? },
        Verb::Lookup => Request::Lookup { service: text("name")? },
        Verb::Spawn => {
            let words = spawn::words(body.semicolons);
            Request::Spawn(Spawn::Wire(SpawnText::new(body.bytes, words)?))
        }
        Verb::Connect => Request::Connect { job: text("jobid")? },
        Verb::Disconnect => Request::Disconnect { job: text("jobid")? },
        Verb::Abort => Request::Abort {
            code: body.number("exitcode").map(|code| i32::try_from(code).unwrap_or(1)),
            world: body.flag("isworld").unwrap_or(true),
            message: body.field("msg").or(body.field("message")).unwrap_or_default(),
        },
        Verb::Finalize => Request::Finalize,
        _ => return Err("a command of PMI-2"),
    })
}

fn read_answer(to: Verb, body: Body<'_>) -> Option<Answer<'_>> {
    let size = |key| body.field(key)?.number();
    Some(match to {
        Verb::FullInit => Answer::Identity(Identity {
            rank: size("rank")?,
            size: size("size")?,
            appnum: body.number("appnum").and_then(|n| i32::try_from(n).ok()).unwrap_or(-1),
            spawner: body.field("spawner-jobid"),
        }),
        Verb::KvsName => Answer::Name(body.field("jobid")?),
        Verb::Get | Verb::NodeGet | Verb::JobGet => {
            let found = body.flag("found").unwrap_or(true);
            body.field("value").filter(|_| found).map_or(Answer::Missing, Answer::Value)
        }
        Verb::Lookup => Answer::Value(body.field("value").or(body.field("port"))?),
        Verb::Fence => Answer::Released { tag: None },
        Verb::Spawn => Answer::Spawned { job: body.field("jobid"), codes: body.field("errcodes") },
        _ => Answer::Nothing,
    })
}

fn write_identity(frame: &mut FrameWriter<'_>, identity: Identity<'_>) {
    frame.number("pmi-version", 2).number("pmi-subversion", 0);
    frame.number("rank", identity.rank).number("size", identity.size);
    frame.number("appnum", identity.appnum);
    frame.flag("debugged", false).flag("pmiverbose", false);
    frame.optional("spawner-jobid", identity.spawner);
}

/// Lets a field through that is not empty: an empty one ends the job of some servers.
fn filled<'a>(what: &'static str, text: Text<'a>) -> Result<Text<'a>, Misuse> {
    if text.is_empty() {
        Err(Misuse::Length { what, len_bytes: 0, limit_bytes: 0 })
    } else {
        Ok(text)
    }
}

const UNREADABLE_VALUE: &str = "the value holds a semicolon, which this client has no way to read";
