//! Bodies of replies, in the order of their numbers.

use super::fields::{BodyFields, Bytes, put_bytes, put_number, put_optional, zigzag};
use crate::command::{Answer, Identity, Maxes, Pair, Reason, Text, Version};
use crate::wire::Writer;

/// A reply.
pub(super) struct ReplyFrame<'a> {
    pub(super) to: u8,
    pub(super) tag: Bytes<'a>,
    pub(super) code: i32,
    pub(super) what: ReplyBody<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum ReplyBody<'a> {
    Nothing,
    Version { major: u16, minor: u16 },
    Identity { rank: u32, size: u32, appnum: i32, spawner: Option<Bytes<'a>> },
    Limits { name: u32, key: u32, value: u32 },
    Number(i32),
    Name(Bytes<'a>),
    Value(Bytes<'a>),
    Missing,
    Released,
    Count(u32),
    Pair { key: Bytes<'a>, value: Bytes<'a> },
    Why(Bytes<'a>),
}

impl<'a> ReplyFrame<'a> {
    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.byte(self.to);
        put_bytes(to, self.tag);
        put_number(to, zigzag(self.code));
        self.what.write(to);
    }

    pub(super) fn read(from: &mut BodyFields<'a>) -> Option<Self> {
        Some(Self {
            to: from.byte()?,
            tag: from.bytes()?,
            code: from.signed()?,
            what: ReplyBody::read(from)?,
        })
    }
}

impl<'a> ReplyBody<'a> {
    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.byte(self.number());
        match *self {
            Self::Nothing | Self::Missing | Self::Released => {}
            Self::Version { major, minor } => {
                put_number(to, major.into());
                put_number(to, minor.into());
            }
            Self::Identity { rank, size, appnum, spawner } => {
                put_number(to, rank);
                put_number(to, size);
                put_number(to, zigzag(appnum));
                put_optional(to, spawner);
            }
            Self::Limits { name, key, value } => {
                put_number(to, name);
                put_number(to, key);
                put_number(to, value);
            }
            Self::Number(number) => put_number(to, zigzag(number)),
            Self::Name(bytes) | Self::Value(bytes) | Self::Why(bytes) => put_bytes(to, bytes),
            Self::Count(count) => put_number(to, count),
            Self::Pair { key, value } => {
                put_bytes(to, key);
                put_bytes(to, value);
            }
        }
    }

    /// Number of the reply, as in `docs/binary.md`.
    const fn number(&self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Version { .. } => 1,
            Self::Identity { .. } => 2,
            Self::Limits { .. } => 3,
            Self::Number(_) => 4,
            Self::Name(_) => 5,
            Self::Value(_) => 6,
            Self::Missing => 7,
            Self::Released => 8,
            Self::Count(_) => 9,
            Self::Pair { .. } => 10,
            Self::Why(_) => 11,
        }
    }

    pub(super) fn read(from: &mut BodyFields<'a>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Self::Nothing,
            1 => Self::Version { major: from.short()?, minor: from.short()? },
            2 => Self::Identity {
                rank: from.number(u32::BITS)?,
                size: from.number(u32::BITS)?,
                appnum: from.signed()?,
                spawner: from.optional()?,
            },
            3 => Self::Limits {
                name: from.number(u32::BITS)?,
                key: from.number(u32::BITS)?,
                value: from.number(u32::BITS)?,
            },
            4 => Self::Number(from.signed()?),
            5 => Self::Name(from.bytes()?),
            6 => Self::Value(from.bytes()?),
            7 => Self::Missing,
            8 => Self::Released,
            9 => Self::Count(from.number(u32::BITS)?),
            10 => Self::Pair { key: from.bytes()?, value: from.bytes()? },
            11 => Self::Why(from.bytes()?),
            _ => return None,
        })
    }

    /// Converts a reply. `room` is for the text of a reason, which is rendered here.
    pub(super) fn of(answer: Answer<'a>, room: &'a mut [u8; SENTENCE_BYTES]) -> Self {
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

    pub(super) const fn answer(self) -> Answer<'a> {
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

/// Text of a reason, cut to the room.
fn sentence<'r>(reason: Reason<'_>, room: &'r mut [u8; SENTENCE_BYTES]) -> &'r [u8] {
    let mut writer = Writer::new(room);
    writer.sentence(&reason, |byte| byte);
    let len = writer.len().min(SENTENCE_BYTES);
    room.get(..len).unwrap_or(b"")
}

/// Room for every fixed text of a reason; a word of the peer in it may be cut.
pub(super) const SENTENCE_BYTES: usize = 160;
