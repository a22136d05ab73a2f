//! Replies of a PMI-2 server: reader and writer.

use super::super::{has_codes, names, quirks};
use super::command;
use super::fields::{Body, FrameStyle, FrameWriter, cut_doubled, sayable};
use crate::command::{
    Answer, CodeFields, Identity, Notice, Pair, ProcessCodes, Reason, Reply, Text, Verb,
};
use crate::error::{Code, Full, Malformed};
use crate::limits::PMI2_LENGTH_DIGITS;
use crate::parts;

/// Reads one frame from a server.
///
/// # Errors
///
/// [`Malformed`] if it does not begin with the command of a reply, or lacks a field that
/// the reply needs.
pub fn read_reply(message: &[u8]) -> Result<Reply<'_>, Malformed> {
    // Only a server that doubles `;` writes `;;` into a value; from any other it has no meaning.
    let bytes = message.get(PMI2_LENGTH_DIGITS..).unwrap_or(b"");
    let body = Body { bytes, style: FrameStyle::LeftAligned };
    let word = command(body)?;
    let tag = body.field("thrid").and_then(Text::as_plain).unwrap_or(b"");
    if let Some((to, answer)) = read_unnamed(word, body) {
        let answer = answer.ok_or(Malformed::new(PMI2_LENGTH_DIGITS, "the fields of an answer"))?;
        return Ok(Reply { to, tag, code: Code::SUCCESS, answer });
    }
    let request = word.strip_suffix(names::RESPONSE).unwrap_or(b"");
    let to = names::find(request, |words| words.frame).unwrap_or(Verb::Unknown);
    let code = body.field("rc").map_or(Code::SUCCESS, code);
    let answer = if code.is_success() {
        read_answer(to, body).ok_or(Malformed::new(0, "the fields of an answer"))?
    } else if quirks::MISSING_BY_CODE.contains(&to) {
        Answer::Missing
    } else {
        refusal(to, body)
    };
    Ok(Reply { to, tag, code, answer })
}

/// True if this form of `;` can carry every text of a reply unchanged.
pub(in crate::wire) fn carries(answer: &Answer<'_>, style: FrameStyle) -> bool {
    let none = Text::default();
    let texts = match *answer {
        Answer::Value(text) | Answer::Name(text) | Answer::Challenge(text) => [text, none],
        Answer::Pair(pair) => [pair.key, pair.value],
        Answer::Ring { left, right, .. } => [left, right],
        Answer::Identity(Identity { spawner: text, .. }) | Answer::Made { job: text, .. } => {
            [text.unwrap_or_default(), none]
        }
        Answer::Spawned { job, codes: Some(ProcessCodes::List(codes)) } => {
            [job.unwrap_or_default(), codes]
        }
        Answer::Spawned { job, codes: Some(ProcessCodes::Fields(codes)) } => {
            if !codes.values().all(|code| sayable(code, style).is_ok()) {
                return false;
            }
            [job.unwrap_or_default(), none]
        }
        Answer::Spawned { job, codes: None } => [job.unwrap_or_default(), none],
        _ => return true,
    };
    texts.iter().all(|text| sayable(*text, style).is_ok())
}

/// Writes one reply to a client. `word` is the command of an unknown request.
///
/// A reply that a client with this form of `;` would misread becomes a refusal.
///
/// # Errors
///
/// [`Full`] with the room needed; the content of `out` is undefined then.
pub fn write_reply(
    reply: &Reply<'_>,
    word: &[u8],
    style: FrameStyle,
    out: &mut [u8],
) -> Result<usize, Full> {
    let known = names::of(reply.to).map_or("", |words| words.frame);
    let name = if known.is_empty() { word } else { known.as_bytes() };
    let name = if name.is_empty() { quirks::UNREADABLE } else { name };
    let response = [name, names::RESPONSE];
    if !carries(&reply.answer, style) {
        // A client would take a shortened text for the whole text.
        let mut frame = FrameWriter::new(out, &response, reply.tag, style);
        frame.number("rc", Code::INVALID_VAL.0).text("errmsg", Text::from(UNREADABLE_TEXT));
        return frame.finish();
    }
    let unnamed = match reply.answer {
        Answer::Challenge(_) if parts::LISTEN => names::CHALLENGE,
        Answer::Count(_) if parts::CONNECT => names::GETALL_COUNT,
        Answer::Pair(_) if parts::CONNECT => names::GETALL_PAIR,
        Answer::Notice(Notice::Checkpoint) if parts::LISTEN => names::CHECKPOINT,
        Answer::Notice(Notice::Abort(_)) if parts::LISTEN => names::ABORT,
        _ => b"",
    };
    if !unnamed.is_empty() {
        let mut frame = FrameWriter::new(out, &[unnamed], reply.tag, style);
        match reply.answer {
            Answer::Challenge(nonce) => frame.text("authinfo", nonce),
            Answer::Count(count) => frame.number("npair", count),
            Answer::Pair(pair) => frame.text("key", pair.key).text("val", pair.value),
            Answer::Notice(Notice::Abort(code)) => frame.number("exitcode", code),
            _ => &mut frame,
        };
        return frame.finish();
    }
    let mut frame = FrameWriter::new(out, &response, reply.tag, style);
    if reply.answer == Answer::Missing && quirks::MISSING_BY_CODE.contains(&reply.to) {
        frame.number("rc", quirks::MISSING.0).found(false);
        return frame.finish();
    }
    frame.number("rc", reply.code.0);
    match reply.answer {
        Answer::Identity(identity) => write_identity(&mut frame, identity),
        Answer::Name(name) => {
            frame.text("jobid", name);
        }
        Answer::Value(port) if parts::NAMES && reply.to == Verb::Lookup => {
            for name in quirks::PORT {
                frame.text(name, port);
            }
            frame.found(true);
        }
        Answer::Value(value) => {
            frame.found(true).text("value", value);
        }
        Answer::Ring { count, left, right } if parts::CONNECT => {
            frame.number("ring-count", count).text("ring-left", left).text("ring-right", right);
        }
        Answer::Spawned { job, codes } if parts::SPAWN => {
            frame.optional("jobid", job);
            match codes {
                Some(ProcessCodes::Fields(codes)) => {
                    let count = codes.values().count();
                    frame.number("nerrs", u32::try_from(count).unwrap_or(u32::MAX));
                    for (at, value) in (0..).zip(codes.values()) {
                        frame.indexed("err", at, value);
                    }
                }
                Some(ProcessCodes::List(codes)) => {
                    frame.number("nerrs", failed_count(codes)).text("errcodes", codes);
                }
                None => {
                    frame.number("nerrs", 0);
                }
            }
        }
        Answer::Made { job, codes } if parts::SPAWN => {
            let failed = codes.iter().filter(|run| !run.code.is_success());
            let failed_count = failed.fold(0u32, |sum, run| sum.saturating_add(run.count));
            frame.optional("jobid", job);
            if style == FrameStyle::Specified && has_codes(codes) {
                // One number for each process, which `nerrs` counts here.
                let all = || codes.iter().flat_map(|run| (0..run.count).map(|_| run.code));
                frame.number("nerrs", u32::try_from(all().count()).unwrap_or(u32::MAX));
                for (at, code) in (0..).zip(all()) {
                    frame.numbered("err", at, code.0);
                }
            } else if reply.code.is_success() || failed_count > 0 {
                frame.number("nerrs", failed_count);
            }
            if has_codes(codes) {
                frame.codes("errcodes", codes);
            }
        }
        Answer::Refused(reason) => {
            frame.reason("errmsg", &reason);
            if let Reason::NoSuch { .. } = reason
                && reply.to == Verb::Lookup
            {
                frame.found(false);
            }
        }
        Answer::Message(text) => {
            frame.free_text("errmsg", text);
        }
        Answer::Nothing
            if parts::CONNECT && reply.to == Verb::Connect && reply.code.is_success() =>
        {
            // No copy is needed: the other job's space is read in place.
            frame.flag(quirks::KVSCOPY, false);
        }
        Answer::CopyNeeded if parts::CONNECT => {
            frame.text(quirks::KVSCOPY, Text::from(quirks::COPY));
        }
        _ => {}
    }
    frame.finish()
}

/// Codes of the processes of a spawn: the list that all known servers write, else a field for each.
fn spawn_codes(body: Body<'_>) -> Option<ProcessCodes<'_>> {
    if !parts::SPAWN {
        return None;
    }
    let list = body.field("errcodes").map(ProcessCodes::List);
    list.or_else(|| CodeFields::new(body.bytes, cut_doubled).map(ProcessCodes::Fields))
}

/// Number of codes of a list that are not 0.
fn failed_count(codes: Text<'_>) -> u32 {
    let mut is_counted = false;
    codes.bytes().fold(0, |count, byte| match byte {
        b',' => {
            is_counted = false;
            count
        }
        b'1'..=b'9' if !core::mem::replace(&mut is_counted, true) => count + 1,
        _ => count,
    })
}

/// Reason of a refusal: for a spawn, process by process if the server reports it so.
fn refusal(to: Verb, body: Body<'_>) -> Answer<'_> {
    match spawn_codes(body).filter(|_| to == Verb::Spawn) {
        Some(codes) => Answer::Spawned { job: None, codes: Some(codes) },
        None => body.field("errmsg").map_or(Answer::Nothing, Answer::Message),
    }
}

/// Reads a message that is not named after a request.
fn read_unnamed<'a>(word: &[u8], body: Body<'a>) -> Option<(Verb, Option<Answer<'a>>)> {
    let pair = || Some(Pair { key: body.field("key")?, value: body.field("val")? });
    let code = || body.number("exitcode").and_then(|code| i32::try_from(code).ok()).unwrap_or(1);
    Some(match word {
        names::CHALLENGE if parts::LISTEN => {
            (Verb::FullInit, body.field("authinfo").map(Answer::Challenge))
        }
        names::GETALL_COUNT if parts::CONNECT => {
            (Verb::GetAll, body.field("npair").and_then(Text::number).map(Answer::Count))
        }
        names::GETALL_PAIR if parts::CONNECT => (Verb::GetAll, pair().map(Answer::Pair)),
        names::CHECKPOINT if parts::LISTEN => {
            (Verb::Notice, Some(Answer::Notice(Notice::Checkpoint)))
        }
        names::ABORT if parts::LISTEN => {
            (Verb::Notice, Some(Answer::Notice(Notice::Abort(code()))))
        }
        _ => return None,
    })
}

/// Code of a reply; an invalid number counts as a failure.
fn code(rc: Text<'_>) -> Code {
    rc.signed().and_then(|rc| i32::try_from(rc).ok()).map_or(Code::FAIL, Code)
}

fn read_answer(to: Verb, body: Body<'_>) -> Option<Answer<'_>> {
    let size = |key| body.field(key)?.number();
    Some(match to {
        Verb::FullInit => Answer::Identity(Identity {
            rank: size("rank")?,
            size: size("size")?,
            appnum: body.number("appnum").and_then(|n| i32::try_from(n).ok()).unwrap_or(-1),
            spawner: body.field("spawner-jobid"),
            is_debugged: body.flag("debugged").unwrap_or(false),
            is_verbose: body.flag("pmiverbose").unwrap_or(false),
        }),
        Verb::KvsName => Answer::Name(body.field("jobid")?),
        Verb::Get | Verb::NodeGet | Verb::JobGet => {
            let found = quirks::FOUND.iter().find_map(|name| body.flag(name)).unwrap_or(true);
            body.field("value").filter(|_| found).map_or(Answer::Missing, Answer::Value)
        }
        Verb::Lookup if parts::NAMES => {
            Answer::Value(quirks::PORT.iter().find_map(|name| body.field(name))?)
        }
        Verb::Fence => Answer::Released { tag: None },
        Verb::Ring if parts::CONNECT => Answer::Ring {
            count: size("ring-count")?,
            left: body.field("ring-left").unwrap_or_default(),
            right: body.field("ring-right").unwrap_or_default(),
        },
        Verb::Spawn if parts::SPAWN => {
            Answer::Spawned { job: body.field("jobid"), codes: spawn_codes(body) }
        }
        Verb::Connect if parts::CONNECT && needs_copy(body) => Answer::CopyNeeded,
        _ => Answer::Nothing,
    })
}

/// True if the processes of connected jobs copy their spaces.
fn needs_copy(body: Body<'_>) -> bool {
    let word = body.field(quirks::KVSCOPY);
    word.is_some_and(|word| word == *quirks::COPY.as_bytes())
        || body.flag(quirks::KVSCOPY).unwrap_or(false)
}

fn write_identity(frame: &mut FrameWriter<'_>, identity: Identity<'_>) {
    frame.number("pmi-version", 2).number("pmi-subversion", 0);
    frame.number("rank", identity.rank).number("size", identity.size);
    frame.number("appnum", identity.appnum);
    frame.flag("debugged", identity.is_debugged).flag("pmiverbose", identity.is_verbose);
    frame.optional("spawner-jobid", identity.spawner);
}

const UNREADABLE_TEXT: &str = "the value holds a semicolon, which this client has no way to read";
