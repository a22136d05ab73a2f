//! PMI-1.1 and 1.2: lines of `key=value`, and spawn as a block of lines.
//!
//! Reading is tolerant: pairs in any order, extra pairs, extra blanks, a carriage return before
//! the line feed. Writing is strict: the form every known peer accepts, `rc` first and the value
//! last. Spec: `docs/pmi1.md`, with the peers of each exchange.

mod line;
mod singleton;
mod spawn;

use self::line::{FieldReader, Line, LineWriter, up_to};
pub use self::singleton::SingletonGreeting;
use self::spawn::{SPAWN_START, SPAWN_WORDS, frame_spawn, write_spawn};
use super::{Framed, WriteError, has_codes, is_list, names, quirks};
use crate::command::{
    Answer, FenceGroup, Identity, Maxes, Notice, Place, ProcessCodes, Reason, Reply, Request,
    Spawn, SpawnText, Text, Verb, Version,
};
use crate::error::{Code, Full, Malformed, Misuse};
use crate::limits::KEY_BYTES;
use crate::parts;

/// Finds the end of the first message from a client.
///
/// Shape: a line ends at LF; a spawn ends with the `endcmd` of its last program.
///
/// # Errors
///
/// [`Malformed`] as soon as no continuation can be a message.
pub fn frame_request(bytes: &[u8]) -> Result<Framed, Malformed> {
    if parts::SPAWN && bytes.starts_with(SPAWN_START) {
        frame_spawn(bytes)
    } else {
        frame_line(bytes, 0)
    }
}

/// Finds the end of the first message from a server.
///
/// Shape: a line ends at LF; the reply to `initack` is four lines, unless it is a refusal.
///
/// # Errors
///
/// [`Malformed`] as soon as no continuation can be a message.
pub fn frame_reply(bytes: &[u8]) -> Result<Framed, Malformed> {
    let first = frame_line(bytes, 0)?;
    let Framed::Whole(end) = first else { return Ok(first) };
    if !parts::LISTEN {
        return Ok(first);
    }
    let line = Line::new(bytes.get(..end).unwrap_or(b""));
    let word = command(line).unwrap_or(b"");
    if names::find(word, |words| words.line_reply) != Some(Verb::InitAck)
        || !code(line, Verb::InitAck).is_success()
    {
        return Ok(first);
    }
    let mut ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
    Ok(match ends.nth(quirks::INITACK_LINES - 1) {
        Some((end, _)) => Framed::Whole(end + 1),
        None => Framed::Partial,
    })
}

/// Reads one message from a client; `None` is an empty line, which means nothing.
///
/// # Errors
///
/// [`Malformed`] if it does not begin with a command.
pub fn read_request(message: &[u8]) -> Result<Option<Request<'_>>, Malformed> {
    if parts::SPAWN && message.starts_with(SPAWN_START) {
        return Ok(Some(match SpawnText::new(message, &SPAWN_WORDS) {
            Ok(text) => Request::Spawn(Spawn::Wire(text)),
            Err(field) => Request::Lacking { verb: Verb::Spawn, field },
        }));
    }
    let line = Line::of_message(message);
    if line.is_empty() {
        return Ok(None);
    }
    let word = command(line)?;
    let Some(verb) = names::find(word, |words| words.line) else {
        return Ok(Some(Request::Unknown { word }));
    };
    Ok(Some(fields(verb, line).unwrap_or_else(|field| Request::Lacking { verb, field })))
}

/// Reads one message from a server.
///
/// # Errors
///
/// [`Malformed`] if it does not begin with the command of a reply, or lacks a field that
/// the reply needs.
pub fn read_reply(message: &[u8]) -> Result<Reply<'_>, Malformed> {
    let line = Line::new(message);
    let word = command(line)?;
    if parts::LISTEN
        && let Some(notice) = read_notice(word, line)
    {
        let answer = Answer::Notice(notice);
        return Ok(Reply { to: Verb::Notice, tag: b"", code: Code::SUCCESS, answer });
    }
    let to = names::find(word, |words| words.line_reply).unwrap_or(Verb::Unknown);
    let mut code = code(line, to);
    let answer = if code.is_success() {
        answer(to, line, message).ok_or(Malformed::new(0, "the fields of an answer"))?
    } else {
        refusal(to, line)
    };
    if answer == Answer::Missing && code.is_success() {
        code = Code::INIT;
    }
    Ok(Reply { to, tag: b"", code, answer })
}

/// Writes one message to a server. `kvsname` is the caller's own space.
///
/// # Errors
///
/// [`WriteError::Misuse`] for text that a line cannot express, [`WriteError::Full`] with the room
/// needed; the content of `out` is undefined then.
pub fn write_request(
    request: &Request<'_>,
    kvsname: &[u8],
    out: &mut [u8],
) -> Result<usize, WriteError> {
    if let (Request::Spawn(spawn), true) = (request, parts::SPAWN) {
        return write_spawn(*spawn, out);
    }
    let verb = request.verb();
    let word = names::of(verb).map_or("", |words| words.line);
    if word.is_empty()
        || !names::has(verb)
        || matches!(request, Request::Lacking { .. } | Request::Spawn(_))
    {
        return Err(Misuse::NotRepresentable {
            what: "a request that PMI-1 does not have, or this build",
        }
        .into());
    }
    let mut line = LineWriter::new(out, word.as_bytes());
    match *request {
        Request::Init { version } => {
            line.number("pmi_version", version.major).number("pmi_subversion", version.minor);
        }
        Request::InitAck { id } if parts::LISTEN => {
            line.unsigned("pmiid", id);
        }
        Request::OutOfBand { id, signal, version } if parts::LISTEN => {
            let signal = signal.unwrap_or(Text::from("NONE"));
            line.word("signal", &signal);
            line.number("pmi_version", version.major).number("pmi_subversion", version.minor);
            if let Some(id) = id {
                line.unsigned("pmiid", id);
            }
        }
        Request::Put { key, value, .. } => {
            line.word("kvsname", &Text::plain(kvsname));
            line.word("key", &key).word("value", &value);
        }
        Request::Get { place, key, .. } => {
            let name = match place {
                Place::Job(Some(name)) => name,
                _ => Text::plain(kvsname),
            };
            line.word("kvsname", &name).word("key", &key);
        }
        Request::Fence { group, tag } if parts::GROUPS => {
            write_group(&mut line, group, tag)?;
        }
        Request::Publish { service, port } if parts::NAMES => {
            line.word("service", &service).word("port", &port);
        }
        Request::Unpublish { service } | Request::Lookup { service } if parts::NAMES => {
            line.word("service", &service);
        }
        Request::Abort { code, message, .. } => {
            line.number("exitcode", code.unwrap_or(1));
            if !message.is_empty() {
                line.free("message", message);
            }
        }
        _ => {}
    }
    line.finish_request()
}

/// Writes one reply to a client. `word` is the command of an unknown request.
///
/// # Errors
///
/// [`Full`] with the room needed; the content of `out` is undefined then.
#[inline(never)]
pub fn write_reply(reply: &Reply<'_>, word: &[u8], out: &mut [u8]) -> Result<usize, Full> {
    let (code, answer) = match &reply.answer {
        Answer::Notice(notice) if parts::LISTEN => return write_notice(*notice, out),
        Answer::Value(value) if has_line_feed(*value) => {
            (Code::INVALID_VAL, &Answer::Refused(Reason::LineFeed))
        }
        answer => (reply.code, answer),
    };
    let known = names::of(reply.to).map_or("", |words| words.line_reply);
    let (front, suffix): (_, &[u8]) = match (known.is_empty(), word.is_empty()) {
        (false, _) => (known.as_bytes(), b""),
        (true, false) => (word, b"_result"),
        (true, true) => (quirks::UNREADABLE, b""),
    };
    let mut line = LineWriter::with_suffix(out, front, suffix);
    line.number("rc", code.0);
    let version = match answer {
        Answer::Version(Version { major, minor }) => Some((*major, *minor)),
        Answer::Refused(Reason::Version { newest, .. }) => Some(*newest),
        _ => None,
    };
    if let Some((major, minor)) = version {
        line.number("pmi_version", major).number("pmi_subversion", minor);
    }
    match *answer {
        Answer::Identity(identity) if parts::LISTEN => return write_identity(line, identity),
        Answer::Maxes(maxes) => {
            line.number("kvsname_max", maxes.kvsname).number("keylen_max", maxes.key);
            line.number("vallen_max", maxes.value);
        }
        Answer::Number(number) => {
            line.number(if reply.to == Verb::UniverseSize { "size" } else { "appnum" }, number);
        }
        Answer::Name(name) => {
            line.pair("kvsname", name);
        }
        Answer::Released { tag: Some(tag) } if parts::GROUPS => {
            line.number("tag", tag);
        }
        Answer::Spawned { job, codes } if parts::SPAWN => {
            line.optional("jobid", job);
            // A field for each process stands in frames only.
            if let Some(ProcessCodes::List(codes)) = codes {
                line.optional("errcodes", Some(codes));
            }
        }
        Answer::Made { job, codes } if parts::SPAWN => {
            line.optional("jobid", job);
            if has_codes(codes) {
                line.codes("errcodes", codes);
            }
        }
        Answer::Refused(ref reason) => {
            line.reason("msg", reason);
        }
        Answer::Message(text) => {
            line.one_word("msg", text);
        }
        Answer::Nothing
        | Answer::Missing
        | Answer::Version(_)
        | Answer::Value(_)
        // Frames only.
        | Answer::Challenge(_)
        | Answer::CopyNeeded
        | Answer::Count(_)
        | Answer::Pair(_)
        | Answer::Ring { .. }
        | Answer::Notice(_)
        // Without a tag, or of parts that this build leaves out.
        | Answer::Released { .. }
        | Answer::Identity(_)
        | Answer::Spawned { .. }
        | Answer::Made { .. } => {}
    }
    if parts::NAMES && matches!(reply.to, Verb::Publish | Verb::Unpublish | Verb::Lookup) {
        let info = if code.is_success() { "ok" } else { "fail" };
        line.pair(quirks::INFO, Text::from(info));
    }
    if let Answer::Value(value) = *answer {
        line.pair(if reply.to == Verb::Lookup { "port" } else { "value" }, value);
    }
    line.finish()
}

/// True if a text would end its line.
fn has_line_feed(text: Text<'_>) -> bool {
    up_to(text.as_raw(), b'\n').len() < text.as_raw().len()
}

/// Length of the first line of `bytes`, with its end if that is there.
pub(crate) fn line_bytes(bytes: &[u8]) -> usize {
    (up_to(bytes, b'\n').len() + 1).min(bytes.len())
}

fn frame_line(bytes: &[u8], from: usize) -> Result<Framed, Malformed> {
    let rest = bytes.get(from..).unwrap_or(b"");
    let end = up_to(rest, b'\n').len();
    if end < rest.len() {
        return Ok(Framed::Whole(from + end + 1));
    }
    // The first bytes distinguish garbage from a slow peer: a line begins with a pair.
    let start = rest.iter().position(|b| !matches!(b, b' ' | b'\r')).unwrap_or(rest.len());
    let front = rest.get(start..).unwrap_or(b"");
    let could_be = |word: &[u8]| front.iter().zip(word).all(|(a, b)| a == b);
    if could_be(b"cmd=") || (parts::SPAWN && may_be_pair(front)) {
        Ok(Framed::Partial)
    } else {
        Err(Malformed::new(from + start, "cmd="))
    }
}

fn command(line: Line<'_>) -> Result<&[u8], Malformed> {
    let word = match line.first("cmd") {
        // Bytes that are no pair are refused by the first of them, in whichever segments they arrive.
        None if parts::SPAWN && may_be_pair(line.bytes()) => line.field("cmd"),
        word => word,
    };
    word.filter(|word| !word.is_empty()).ok_or(Malformed::new(0, "cmd="))
}

/// True if `bytes` begin like `key=`, as far as they have arrived.
fn may_be_pair(bytes: &[u8]) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let name = up_to(bytes.get(..=KEY_BYTES).unwrap_or(bytes), b'=');
    // A length of PMI-2 is in front of its frames.
    let is_length = name.first().is_some_and(u8::is_ascii_digit);
    name.len() <= KEY_BYTES && !is_length && name.iter().all(is_plain)
}

/// Reads the fields of a request, or names the one that is missing.
fn fields(verb: Verb, line: Line<'_>) -> Result<Request<'_>, &'static str> {
    let small = |key| line.number(key).and_then(|n| u16::try_from(n).ok());
    let text = |key: &'static str| line.text(key).ok_or(key);
    let rest = |key, known: &[&str]| line.rest(key, known).map(Text::plain).ok_or(key);
    let mut ordered = FieldReader::new(line);
    Ok(match verb {
        Verb::Init => Request::Init {
            version: Version {
                major: small("pmi_version").ok_or("pmi_version")?,
                minor: small("pmi_subversion").ok_or("pmi_subversion")?,
            },
        },
        Verb::InitAck if parts::LISTEN => {
            Request::InitAck { id: line.identity("pmiid").ok_or("pmiid")? }
        }
        Verb::OutOfBand if parts::LISTEN => Request::OutOfBand {
            // The specification does not define the identity of a second connection.
            id: line.identity("pmiid"),
            signal: line.text("signal").filter(|signal| *signal != *b"NONE"),
            version: Version {
                major: small("pmi_version").ok_or("pmi_version")?,
                minor: small("pmi_subversion").unwrap_or(0),
            },
        },
        Verb::Maxes => Request::Maxes,
        Verb::AppNum => Request::AppNum,
        Verb::UniverseSize => Request::UniverseSize,
        Verb::KvsName => Request::KvsName,
        Verb::Put => Request::Put {
            place: Place::Job(ordered.text("kvsname")),
            key: ordered.text("key").ok_or("key")?,
            value: ordered.rest("value", &quirks::BEHIND_PUT).map(Text::plain).ok_or("value")?,
        },
        Verb::Get => {
            let place = Place::Job(ordered.text("kvsname"));
            Request::Get { place, key: ordered.text("key").ok_or("key")?, wait: false }
        }
        Verb::Fence if !parts::GROUPS => match line.field("group") {
            None => Request::Fence { group: FenceGroup::World, tag: None },
            Some(_) => return Err("group"),
        },
        Verb::Fence => read_group(line.field("group"))?,
        Verb::Publish if parts::NAMES => Request::Publish {
            service: text("service")?,
            port: rest("port", &quirks::BEHIND_PORT)?,
        },
        Verb::Unpublish if parts::NAMES => Request::Unpublish { service: text("service")? },
        Verb::Lookup if parts::NAMES => Request::Lookup { service: text("service")? },
        Verb::Abort => Request::Abort {
            code: quirks::ABORT_CODE.iter().find_map(|key| line.number(key)).map(narrow),
            world: true,
            message: quirks::ABORT_TEXT
                .iter()
                .find_map(|key| line.rest(key, &quirks::ABORT_CODE))
                .map_or(Text::EMPTY, Text::plain),
        },
        Verb::Finalize => Request::Finalize,
        _ => return Err("mcmd=spawn"),
    })
}

/// Narrows a code; one beyond the range is still a failure.
fn narrow(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(1)
}

/// `WORLD`, `NODE` or ranks separated by commas, then `:` and the tag.
fn read_group(text: Option<&[u8]>) -> Result<Request<'_>, &'static str> {
    let Some(text) = text else {
        return Ok(Request::Fence { group: FenceGroup::World, tag: None });
    };
    let mut halves = text.splitn(2, |b| *b == b':');
    let name = halves.next().unwrap_or(b"");
    let tag = halves.next().map(|tag| Text::plain(tag).number().ok_or("tag")).transpose()?;
    let group = match name {
        b"WORLD" => FenceGroup::World,
        b"NODE" => FenceGroup::Node,
        list if is_list(list) => FenceGroup::Ranks(list),
        _ => return Err("group"),
    };
    // A named group has tag 0 by default; only the old form has none at all.
    Ok(Request::Fence { group, tag: tag.or(Some(0)) })
}

fn write_group(
    line: &mut LineWriter<'_>,
    group: FenceGroup<'_>,
    tag: Option<u32>,
) -> Result<(), Misuse> {
    let name: &[u8] = match group {
        FenceGroup::World if tag.is_none() => return Ok(()),
        FenceGroup::World => b"WORLD",
        FenceGroup::Node => b"NODE",
        FenceGroup::Ranks(list) if is_list(list) => list,
        FenceGroup::Ranks(_) => {
            return Err(Misuse::NotRepresentable { what: "a group that is no list of ranks" });
        }
    };
    line.pair("group", Text::plain(name));
    line.writer().byte(b':').number(tag.unwrap_or(0));
    Ok(())
}

fn code(line: Line<'_>, to: Verb) -> Code {
    if let Some(rc) = line.field("rc") {
        return Text::plain(rc).signed().map_or(Code::FAIL, |rc| Code(narrow(rc)));
    }
    let has_failed = match line.field(quirks::INFO) {
        Some(info) if to != Verb::Unknown && info != b"ok" => true,
        // An opening without a return code is an error: old clients hang on it.
        _ if matches!(to, Verb::Init | Verb::OutOfBand) => true,
        _ => line.field("found") == Some(b"FALSE"),
    };
    if has_failed { Code::FAIL } else { Code::SUCCESS }
}

/// Reads the fields of a reply with a return code other than success.
fn refusal(to: Verb, line: Line<'_>) -> Answer<'_> {
    let codes = || line.text("errcodes").filter(|_| parts::SPAWN && to == Verb::Spawn);
    let codes = || codes().map(ProcessCodes::List);
    match to {
        Verb::Get => return Answer::Missing,
        // A server names its own version even if it rejects the requested one.
        Verb::Init | Verb::OutOfBand => {
            if let Some(version) = version(line) {
                return Answer::Version(version);
            }
        }
        _ => {
            if let Some(codes) = codes() {
                return Answer::Spawned { job: None, codes: Some(codes) };
            }
        }
    }
    match line.rest("msg", &quirks::BEHIND_MSG) {
        Some(message) => Answer::Message(Text::plain(message)),
        None => Answer::Nothing,
    }
}

fn version(line: Line<'_>) -> Option<Version> {
    let small = |key| line.unsigned(key).and_then(|n| u16::try_from(n).ok());
    Some(Version { major: small("pmi_version")?, minor: small("pmi_subversion")? })
}

fn answer<'a>(to: Verb, line: Line<'a>, message: &'a [u8]) -> Option<Answer<'a>> {
    Some(match to {
        Verb::Init | Verb::OutOfBand => version(line).map_or(Answer::Nothing, Answer::Version),
        Verb::InitAck if parts::LISTEN => Answer::Identity(read_identity(message)?),
        Verb::Maxes => Answer::Maxes(Maxes {
            kvsname: line.unsigned("kvsname_max")?,
            key: line.unsigned("keylen_max")?,
            value: line.unsigned("vallen_max")?,
        }),
        Verb::AppNum => Answer::Number(line.signed("appnum")?),
        Verb::UniverseSize => Answer::Number(line.signed("size")?),
        Verb::KvsName => Answer::Name(line.text("kvsname")?),
        Verb::Get => match line.rest("value", &quirks::BEHIND_VALUE) {
            Some(value) if !(value.is_empty() && is_not_found(line)) => {
                Answer::Value(Text::plain(value))
            }
            _ => Answer::Missing,
        },
        Verb::Lookup if parts::NAMES => {
            Answer::Value(Text::plain(line.rest("port", &quirks::BEHIND_PORT)?))
        }
        Verb::Fence => Answer::Released { tag: line.unsigned("tag") },
        Verb::Spawn if parts::SPAWN => {
            let codes = line.text("errcodes").map(ProcessCodes::List);
            Answer::Spawned { job: line.text("jobid"), codes }
        }
        _ => Answer::Nothing,
    })
}

fn is_not_found(line: Line<'_>) -> bool {
    line.field("msg").is_some_and(|msg| msg.ends_with(quirks::NOT_FOUND.as_bytes()))
}

/// Unsolicited messages of a server have the form of requests.
fn read_notice(word: &[u8], line: Line<'_>) -> Option<Notice> {
    match word {
        names::CHECKPOINT => Some(Notice::Checkpoint),
        names::ABORT => Some(Notice::Abort(line.number("exitcode").map_or(1, narrow))),
        _ => None,
    }
}

fn write_notice(notice: Notice, out: &mut [u8]) -> Result<usize, Full> {
    match notice {
        Notice::Checkpoint => LineWriter::new(out, names::CHECKPOINT).finish(),
        Notice::Abort(code) => {
            let mut line = LineWriter::new(out, names::ABORT);
            line.number("exitcode", code);
            line.finish()
        }
    }
}

/// Reads the four lines of a reply to `initack`; the numbers may be in any of them.
fn read_identity(message: &[u8]) -> Option<Identity<'_>> {
    let lines = || message.split(|b| *b == b'\n').map(Line::new);
    let find = |key: &str| lines().find_map(|line| line.text(key));
    Some(Identity {
        rank: find("rank")?.number()?,
        size: find("size")?.number()?,
        appnum: find("appnum")
            .and_then(Text::signed)
            .and_then(|n| i32::try_from(n).ok())
            .unwrap_or(-1),
        spawner: find("spawner-jobid"),
        is_debugged: false,
        is_verbose: false,
    })
}

fn write_identity(mut line: LineWriter<'_>, identity: Identity<'_>) -> Result<usize, Full> {
    line.number("rank", identity.rank).number("size", identity.size);
    line.number("appnum", identity.appnum);
    line.optional("spawner-jobid", identity.spawner).number("debug", 0u32);
    let writer = line.writer();
    writer.bytes(b"\ncmd=set size=").number(identity.size);
    writer.bytes(b"\ncmd=set rank=").number(identity.rank);
    writer.bytes(b"\ncmd=set debug=0");
    line.finish()
}
