//! The binary dialect of this crate: the requests and replies of PMI for nodes that have no use for
//! text.
//!
//! ```text
//! frame     MAGIC  len (2 bytes, little-endian)  body (len bytes)
//! request   tag, request                         both in postcard
//! reply     number of the request, tag, code, reply
//! ```
//!
//! Keys and values are arbitrary bytes, the tag identifies a request among several pending ones, and
//! the first byte of a connection selects the dialect for all of it. `docs/binary.md` defines the
//! numbers; they are the order of the variants here, so new variants go to the end.

use super::postcard_output::{PostcardOutput, PostcardWriter};
use super::{Framed, WriteError, Writer};
use crate::command::{
    Answer, FenceGroup, Identity, Maxes, Pair, Place, Reason, Reply, Request, Text, Verb, Version,
};
use crate::error::{Code, Full, Malformed, Misuse};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first byte of every frame. No other dialect has a message that begins so: all others begin with
/// a letter, a digit or a blank.
pub const MAGIC: u8 = 0xa7;

/// Bytes in front of a body.
pub const HEAD_BYTES: usize = 3;

/// A request; its tag is written before it.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum RequestBody<'a> {
    Join {
        id: u64,
    },
    Open {
        major: u16,
        minor: u16,
    },
    Limits,
    AppNum,
    Universe,
    Name,
    Put {
        #[serde(borrow)]
        job: Option<Bytes<'a>>,
        key: Bytes<'a>,
        value: Bytes<'a>,
    },
    Get {
        job: Option<Bytes<'a>>,
        key: Bytes<'a>,
    },
    NodePut {
        key: Bytes<'a>,
        value: Bytes<'a>,
    },
    NodeGet {
        key: Bytes<'a>,
        wait: bool,
    },
    JobGet {
        key: Bytes<'a>,
    },
    Fence,
    Publish {
        service: Bytes<'a>,
        port: Bytes<'a>,
    },
    Unpublish {
        service: Bytes<'a>,
    },
    Lookup {
        service: Bytes<'a>,
    },
    Connect {
        job: Bytes<'a>,
    },
    Disconnect {
        job: Bytes<'a>,
    },
    GetAll {
        job: Bytes<'a>,
    },
    PutAll {
        job: Bytes<'a>,
        pairs: u32,
    },
    PutPair {
        key: Bytes<'a>,
        value: Bytes<'a>,
    },
    Abort {
        code: Option<i32>,
        world: bool,
        message: Bytes<'a>,
    },
    Finalize,
}

/// Kinds of requests by number, in the order of [`Ask`].
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

/// A reply.
#[derive(Serialize, Deserialize)]
struct ReplyFrame<'a> {
    to: u8,
    #[serde(borrow)]
    tag: Bytes<'a>,
    code: i32,
    what: ReplyBody<'a>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum ReplyBody<'a> {
    Nothing,
    Version {
        major: u16,
        minor: u16,
    },
    Identity {
        rank: u32,
        size: u32,
        appnum: i32,
        #[serde(borrow)]
        spawner: Option<Bytes<'a>>,
    },
    Limits {
        name: u32,
        key: u32,
        value: u32,
    },
    Number(i32),
    Name(Bytes<'a>),
    Value(Bytes<'a>),
    Missing,
    Released,
    Count(u32),
    Pair {
        key: Bytes<'a>,
        value: Bytes<'a>,
    },
    Why(Bytes<'a>),
}

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
    let bad = Malformed::new(HEAD_BYTES, "a question");
    let (tag, rest) = postcard::take_from_bytes::<Bytes<'_>>(body).map_err(|_| bad)?;
    let tag = tag.0.as_plain().unwrap_or(b"");
    if rest.first().is_some_and(|number| usize::from(*number) >= VERBS.len()) {
        return Ok((tag, Request::Unknown { word: b"" }));
    }
    match postcard::take_from_bytes::<RequestBody<'_>>(rest) {
        Ok((ask, [])) => Ok((tag, ask.request())),
        Ok(_) | Err(_) => Err(bad),
    }
}

/// Reads one frame of a server.
///
/// # Errors
///
/// [`Malformed`] for a body that is no reply, or longer than one.
pub fn read_reply(message: &[u8]) -> Result<Reply<'_>, Malformed> {
    let body = message.get(HEAD_BYTES..).unwrap_or(b"");
    match postcard::take_from_bytes::<ReplyFrame<'_>>(body) {
        Ok((frame, [])) => Ok(Reply {
            to: VERBS.get(usize::from(frame.to)).copied().unwrap_or(Verb::Unknown),
            tag: frame.tag.0.as_plain().unwrap_or(b""),
            code: Code(frame.code),
            answer: frame.what.answer(),
        }),
        Ok(_) | Err(_) => Err(Malformed::new(HEAD_BYTES, "an answer")),
    }
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
        Bytes(Text::plain(tag)).serialize(&mut *into)?;
        ask.serialize(into)
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
    write(out, |into| frame.serialize(into))
}

impl<'a> RequestBody<'a> {
    fn of(request: &Request<'a>) -> Result<Self, Misuse> {
        let unsayable = Misuse::NotRepresentable { what: "a request that our frames do not have" };
        Ok(match *request {
            Request::InitAck { id } => Self::Join { id },
            Request::Init { version: Version { major, minor } } => Self::Open { major, minor },
            Request::Maxes => Self::Limits,
            Request::AppNum => Self::AppNum,
            Request::UniverseSize => Self::Universe,
            Request::KvsName => Self::Name,
            Request::Put { place: Place::Job(job), key, value } => {
                Self::Put { job: job.map(Bytes), key: Bytes(key), value: Bytes(value) }
            }
            Request::Put { place: Place::Node, key, value } => {
                Self::NodePut { key: Bytes(key), value: Bytes(value) }
            }
            Request::Get { place: Place::Job(job), key, .. } => {
                Self::Get { job: job.map(Bytes), key: Bytes(key) }
            }
            Request::Get { place: Place::Node, key, wait } => {
                Self::NodeGet { key: Bytes(key), wait }
            }
            Request::Get { place: Place::Attributes, key, .. } => Self::JobGet { key: Bytes(key) },
            Request::Fence { group: FenceGroup::World, tag: None } => Self::Fence,
            Request::Publish { service, port } => {
                Self::Publish { service: Bytes(service), port: Bytes(port) }
            }
            Request::Unpublish { service } => Self::Unpublish { service: Bytes(service) },
            Request::Lookup { service } => Self::Lookup { service: Bytes(service) },
            Request::Connect { job } => Self::Connect { job: Bytes(job) },
            Request::Disconnect { job } => Self::Disconnect { job: Bytes(job) },
            Request::GetAll { job } => Self::GetAll { job: Bytes(job) },
            Request::PutAll { job, pairs } => Self::PutAll { job: Bytes(job), pairs },
            Request::PutPair { key, value } => {
                Self::PutPair { key: Bytes(key), value: Bytes(value) }
            }
            Request::Abort { code, world, message } => {
                Self::Abort { code, world, message: Bytes(message) }
            }
            Request::Finalize => Self::Finalize,
            _ => return Err(unsayable),
        })
    }

    fn request(self) -> Request<'a> {
        let text = |bytes: Option<Bytes<'a>>| bytes.map(|bytes| bytes.0);
        match self {
            Self::Join { id } => Request::InitAck { id },
            Self::Open { major, minor } => Request::Init { version: Version { major, minor } },
            Self::Limits => Request::Maxes,
            Self::AppNum => Request::AppNum,
            Self::Universe => Request::UniverseSize,
            Self::Name => Request::KvsName,
            Self::Put { job, key, value } => {
                Request::Put { place: Place::Job(text(job)), key: key.0, value: value.0 }
            }
            Self::Get { job, key } => {
                Request::Get { place: Place::Job(text(job)), key: key.0, wait: false }
            }
            Self::NodePut { key, value } => {
                Request::Put { place: Place::Node, key: key.0, value: value.0 }
            }
            Self::NodeGet { key, wait } => Request::Get { place: Place::Node, key: key.0, wait },
            Self::JobGet { key } => {
                Request::Get { place: Place::Attributes, key: key.0, wait: false }
            }
            Self::Fence => Request::Fence { group: FenceGroup::World, tag: None },
            Self::Publish { service, port } => {
                Request::Publish { service: service.0, port: port.0 }
            }
            Self::Unpublish { service } => Request::Unpublish { service: service.0 },
            Self::Lookup { service } => Request::Lookup { service: service.0 },
            Self::Connect { job } => Request::Connect { job: job.0 },
            Self::Disconnect { job } => Request::Disconnect { job: job.0 },
            Self::GetAll { job } => Request::GetAll { job: job.0 },
            Self::PutAll { job, pairs } => Request::PutAll { job: job.0, pairs },
            Self::PutPair { key, value } => Request::PutPair { key: key.0, value: value.0 },
            Self::Abort { code, world, message } => {
                Request::Abort { code, world, message: message.0 }
            }
            Self::Finalize => Request::Finalize,
        }
    }
}

impl<'a> ReplyBody<'a> {
    /// Converts a reply. `room` is for the text of a reason, which is rendered here.
    fn of(answer: Answer<'a>, room: &'a mut [u8; SENTENCE_BYTES]) -> Self {
        match answer {
            Answer::Version(Version { major, minor }) => Self::Version { major, minor },
            Answer::Identity(Identity { rank, size, appnum, spawner, .. }) => {
                Self::Identity { rank, size, appnum, spawner: spawner.map(Bytes) }
            }
            Answer::Maxes(Maxes { kvsname, key, value }) => {
                Self::Limits { name: kvsname, key, value }
            }
            Answer::Number(number) => Self::Number(number),
            Answer::Name(name) => Self::Name(Bytes(name)),
            Answer::Value(value) => Self::Value(Bytes(value)),
            Answer::Missing => Self::Missing,
            Answer::Released { .. } => Self::Released,
            Answer::Count(count) => Self::Count(count),
            Answer::Pair(Pair { key, value }) => {
                Self::Pair { key: Bytes(key), value: Bytes(value) }
            }
            Answer::Message(text) => Self::Why(Bytes(text)),
            Answer::Refused(Reason::Version { newest: (major, minor), .. }) => {
                Self::Version { major, minor }
            }
            Answer::Refused(reason) => Self::Why(Bytes(Text::plain(sentence(reason, room)))),
            // Replies to requests that the binary dialect cannot express.
            _ => Self::Nothing,
        }
    }

    const fn answer(self) -> Answer<'a> {
        match self {
            Self::Nothing => Answer::Nothing,
            Self::Version { major, minor } => Answer::Version(Version { major, minor }),
            Self::Identity { rank, size, appnum, spawner } => {
                let spawner = match spawner {
                    Some(Bytes(text)) => Some(text),
                    None => None,
                };
                Answer::Identity(Identity {
                    rank,
                    size,
                    appnum,
                    spawner,
                    is_debugged: false,
                    is_verbose: false,
                })
            }
            Self::Limits { name, key, value } => Answer::Maxes(Maxes { kvsname: name, key, value }),
            Self::Number(number) => Answer::Number(number),
            Self::Name(name) => Answer::Name(name.0),
            Self::Value(value) => Answer::Value(value.0),
            Self::Missing => Answer::Missing,
            Self::Released => Answer::Released { tag: None },
            Self::Count(count) => Answer::Count(count),
            Self::Pair { key, value } => Answer::Pair(Pair { key: key.0, value: value.0 }),
            Self::Why(text) => Answer::Message(text.0),
        }
    }
}

/// Bytes with their length in front, borrowed from their message.
#[derive(Clone, Copy)]
struct Bytes<'a>(Text<'a>);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_plain() {
            Some(plain) => serializer.serialize_bytes(plain),
            // A text with escapes of another dialect: its bytes, written one by one, have the same
            // encoding.
            None => {
                let mut bytes = serializer.serialize_seq(Some(self.0.len()))?;
                self.0.bytes().try_for_each(|byte| bytes.serialize_element(&byte))?;
                bytes.end()
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(|bytes| Self(Text::plain(bytes)))
    }
}

/// Writes head and body; the length is filled in when it is known.
fn write(
    out: &mut [u8],
    body: impl FnOnce(&mut PostcardWriter<'_, '_>) -> postcard::Result<()>,
) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(&[MAGIC, 0, 0]);
    // Infallible: postcard knows every length here, and the output accepts bytes beyond the slice.
    let _ = body(&mut PostcardWriter { output: PostcardOutput(&mut writer) });
    let needed = writer.len();
    let Ok(len) = u16::try_from(needed - HEAD_BYTES) else { return Err(Full { needed }) };
    if let Some(place) = writer.written().get_mut(1..HEAD_BYTES) {
        place.copy_from_slice(&len.to_le_bytes());
    }
    writer.finish()
}

/// Text of a reason, cut to the room.
fn sentence<'r>(reason: Reason<'_>, room: &'r mut [u8; SENTENCE_BYTES]) -> &'r [u8] {
    let mut writer = Writer::new(room);
    writer.sentence(&reason, |byte| byte);
    let len = writer.len().min(SENTENCE_BYTES);
    room.get(..len).unwrap_or(b"")
}

/// Room for every fixed text of a reason; a word of the peer in it may be cut.
const SENTENCE_BYTES: usize = 160;
