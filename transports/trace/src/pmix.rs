//! Messages of PMIx, as far as one of them can be read alone: command, reply, and process of a
//! greeting.
//!
//! The encoding of values is negotiated in the greeting; for a single message every encoding is
//! tried.

use crate::describe::{Meaning, shown};
use crate::message::Shape;
use crate::record::Direction;
use pmi_core::command::Verb;
use pmi_core::wire::Framed;
use pmi_core::wire::pmix::greeting::{Greeting, Layout, TOOL_WELCOME_BYTES, read_welcome};
use pmi_core::wire::pmix::header::{Header, TAG_REQUESTS};
use pmi_core::wire::pmix::names::{Command, Status};
use pmi_core::wire::pmix::{Family, Format, Request, Type, Unpacker};

/// Position in a PMIx connection: each side begins with a message that has no header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DecodeState {
    pub(crate) is_pmix: bool,
    greeted: bool,
    welcomed: bool,
    /// Layout of the response to the greeting; that of a client until the greeting is read.
    welcome: Option<Layout>,
}

/// A message of PMIx.
#[derive(Clone, Copy, Debug)]
enum PmixMessage<'a> {
    Greeting(&'a [u8]),
    Welcome(&'a [u8]),
    Message(Header, &'a [u8]),
}

impl DecodeState {
    /// Length of the message at the front of `bytes`; bytes that are no message are taken whole.
    pub(crate) fn frame(&mut self, direction: Direction, bytes: &[u8]) -> Framed {
        match direction {
            Direction::ToServer if !self.greeted => match Greeting::frame(bytes) {
                Ok(Framed::Whole(len)) => {
                    self.greeted = true;
                    let greeting = bytes.get(..len).and_then(|bytes| Greeting::read(bytes).ok());
                    self.welcome = greeting.map(|greeting| greeting.layout());
                    Framed::Whole(len)
                }
                Ok(Framed::Partial) => Framed::Partial,
                Err(_) => Framed::Whole(bytes.len()),
            },
            Direction::ToClient if !self.welcomed => {
                let Some(status) = bytes.first_chunk::<4>() else { return Framed::Partial };
                let len = match status {
                    [0, 0, 0, 0] => self.welcome.unwrap_or(Layout::Client).welcome_bytes(),
                    _ => status.len(),
                };
                if bytes.len() < len {
                    return Framed::Partial;
                }
                self.welcomed = true;
                Framed::Whole(len)
            }
            _ => Header::frame(bytes),
        }
    }
}

/// True if bytes of a client can only belong to PMIx.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0xff) && Greeting::frame(bytes).is_ok()
}

/// True for the length of a response to a greeting.
fn is_welcome(len_bytes: usize) -> bool {
    const REJECTION: usize = 4;
    len_bytes == REJECTION || WELCOMES.iter().any(|layout| layout.welcome_bytes() == len_bytes)
}

/// All layouts of responses that admit a peer.
const WELCOMES: [Layout; 3] =
    [Layout::Client, Layout::Tool { gives_identity: false }, Layout::Tool { gives_identity: true }];

fn kind(direction: Direction, message: &[u8]) -> Option<PmixMessage<'_>> {
    let is_whole = Header::frame(message) == Framed::Whole(message.len());
    match (direction, message.first()?) {
        (Direction::ToServer, 0xff) if begins(message) => Some(PmixMessage::Greeting(message)),
        // Bytes of text begin no header: connections are not that many.
        (_, 0) if is_whole => {
            let body = message.get(Header::BYTES..)?;
            Some(PmixMessage::Message(Header::read(message)?, body))
        }
        (Direction::ToClient, 0 | 0xff) if is_welcome(message.len()) => {
            Some(PmixMessage::Welcome(message))
        }
        _ => None,
    }
}

/// Role of the message in an exchange; `None` if it is of another protocol.
pub(crate) fn shape(direction: Direction, message: &[u8]) -> Option<Shape> {
    Some(match (direction, kind(direction, message)?) {
        (_, PmixMessage::Greeting(_)) => Shape::Question,
        (_, PmixMessage::Welcome(_)) => Shape::Answer,
        (_, PmixMessage::Message(header, _)) if header.tag < TAG_REQUESTS => Shape::Remark,
        (Direction::ToServer, PmixMessage::Message(_, body)) => match command(body) {
            Some(Command::DEREGISTER_EVENTS) => Shape::Remark,
            _ => Shape::Question,
        },
        (Direction::ToClient, _) => Shape::Answer,
    })
}

/// Name of a message of `len_bytes`, of which only the start was kept; `None` if it is of another
/// protocol.
pub(crate) fn name(direction: Direction, start: &[u8], len_bytes: usize) -> Option<&'static str> {
    match (direction, start.first()?, Header::read(start)) {
        (Direction::ToServer, 0xff, _) => Some(GREETING_NAME),
        (_, 0, Some(header))
            if usize::try_from(header.body_bytes).ok() == len_bytes.checked_sub(Header::BYTES) =>
        {
            Some(match direction {
                _ if header.tag < TAG_REQUESTS => "pmix notice",
                Direction::ToClient => "pmix answer",
                Direction::ToServer => {
                    let command = command(start.get(Header::BYTES..)?);
                    command.and_then(Command::name).unwrap_or("pmix message")
                }
            })
        }
        (Direction::ToClient, 0 | 0xff, _) if is_welcome(len_bytes) => Some(GREETING_NAME),
        _ => None,
    }
}

/// The tag that a reply shares with its request.
pub(crate) fn tag(message: &[u8]) -> Option<&[u8]> {
    let direction = Direction::ToServer;
    match kind(direction, message).or_else(|| kind(Direction::ToClient, message))? {
        PmixMessage::Message(..) => message.get(4..8),
        _ => Some(b""),
    }
}

/// The command in terms of the other protocols, and in those of PMIx.
pub(crate) fn asks(message: &[u8]) -> Option<(Verb, &'static str)> {
    let body = match kind(Direction::ToServer, message)? {
        PmixMessage::Greeting(_) => return Some((Verb::Init, GREETING_NAME)),
        PmixMessage::Message(_, body) => body,
        PmixMessage::Welcome(_) => return None,
    };
    let command = command(body)?;
    let verb = match command {
        Command::REQ => Verb::FullInit,
        _ => command.verb().unwrap_or(Verb::OutOfBand),
    };
    Some((verb, command.name()?))
}

/// The message in words; `None` if it is of another protocol.
pub(crate) fn describe(direction: Direction, message: &[u8]) -> Option<Meaning> {
    Some(match kind(direction, message)? {
        PmixMessage::Greeting(bytes) => {
            let meaning = Meaning::named(GREETING_NAME);
            match Greeting::read(bytes) {
                Ok(greeting) => meaning.with("version", shown(greeting.version)),
                Err(error) => Meaning { is_good: false, ..meaning.with("unread", error) },
            }
        }
        PmixMessage::Welcome(bytes) if bytes.len() > Layout::Client.welcome_bytes() => {
            let meaning = Meaning::named(GREETING_NAME).with("rc", 0);
            // The first identity is that of the tool, unless it has brought its own.
            let name = match bytes.len() == TOOL_WELCOME_BYTES {
                true => "tool",
                false => "server",
            };
            let nspace = bytes.get(4..)?.split(|byte| *byte == 0).next()?;
            meaning.with(name, shown(nspace))
        }
        PmixMessage::Welcome(bytes) => match read_welcome(bytes)? {
            (Ok(index), _) => Meaning::named(GREETING_NAME).with("rc", 0).with("index", index),
            (Err(status), _) => {
                let meaning = Meaning::named(GREETING_NAME).with("rc", status);
                Meaning { is_good: false, ..meaning }
            }
        },
        PmixMessage::Message(header, body) if direction == Direction::ToServer => {
            let name = command(body).and_then(Command::name).unwrap_or("pmix message");
            Meaning::named(name).with("tag", header.tag).with("bytes", body.len())
        }
        PmixMessage::Message(header, body) => {
            let name = if header.tag < TAG_REQUESTS { "pmix notice" } else { "pmix answer" };
            let meaning = Meaning::named(name).with("tag", header.tag);
            let status = in_any_format(body, |from| from.one(Type::STATUS).ok()?.i32().ok());
            // A positive number is another value that is encoded like a status.
            let meaning = match status.filter(|code| *code < 0) {
                None => meaning,
                Some(code) => {
                    let name = Status(code).name().map_or_else(|| code.to_string(), str::to_owned);
                    Meaning { is_good: false, ..meaning.with("status", name) }
                }
            };
            meaning.with("bytes", body.len())
        }
    })
}

/// The first words of both sides have no header, and no command.
const GREETING_NAME: &str = "pmix greeting";

fn command(body: &[u8]) -> Option<Command> {
    Request::command_of(body).map(|(command, _)| command)
}

/// Reads the front of a message in each way that values are written until one fits.
fn in_any_format<T>(body: &[u8], read: impl Fn(&mut Unpacker<'_>) -> Option<T>) -> Option<T> {
    // With described types, a wrong encoding is detected at once.
    [true, false].into_iter().find_map(|is_described| {
        [Family::Flex, Family::Fixed]
            .into_iter()
            .find_map(|family| read(&mut Unpacker::new(body, Format { family, is_described })))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Splitter;

    const GREETING: &[u8] =
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x37\0\0\0\0\0\0\0native\0\0\0\0\x08\0\0\0\0\0\0\0\0\
        \0kvs_6758_0\0\0\0\0\x024.2.2rc2\0v41\0\x01hash\0\0";

    /// Messages of a client of OpenPMIx 4.2.2 and its server, and their names.
    const TALK: [(Direction, &[u8], &str, Shape); 6] = [
        (Direction::ToServer, GREETING, "pmix greeting version=4.2.2rc2", Shape::Question),
        (Direction::ToClient, b"\0\0\0\0\0\0\0\x05", "pmix greeting rc=0 index=5", Shape::Answer),
        (
            Direction::ToServer,
            b"\0\0\0\x05\0\0\0\x65\0\0\0\x02\0\0\0\0\x02\0",
            "REQ tag=101 bytes=2",
            Shape::Question,
        ),
        (
            Direction::ToClient,
            b"\0\0\0\0\0\0\0\x65\0\0\0\x02\0\0\0\0\x02\0",
            "pmix answer tag=101 bytes=2",
            Shape::Answer,
        ),
        (
            Direction::ToClient,
            b"\0\0\0\0\0\0\0\x66\0\0\0\x02\0\0\0\0\x02\x5b",
            "pmix answer tag=102 status=NOT_FOUND bytes=2",
            Shape::Answer,
        ),
        (
            Direction::ToServer,
            b"\0\0\0\x05\0\0\0\x01\0\0\0\0\0\0\0\0",
            "pmix message tag=1 bytes=0",
            Shape::Remark,
        ),
    ];

    #[test]
    fn messages_are_identified_by_command_and_tag() {
        for (direction, bytes, line, expected) in TALK {
            assert_eq!(crate::describe::describe(direction, bytes).line(99), line);
            assert_eq!(shape(direction, bytes), Some(expected), "{line}");
        }
        assert_eq!(tag(TALK[2].1), tag(TALK[3].1));
        assert_eq!(asks(TALK[2].1), Some((Verb::FullInit, "REQ")));
        for other in
            [&b"cmd=init pmi_version=1\n"[..], b"    14cmd=job-getid;", b"", b"\xff\xfe", b"\0"]
        {
            assert_eq!(shape(Direction::ToServer, other), None, "{other:?}");
        }
    }

    #[test]
    fn start_of_a_message_is_enough_for_its_name() {
        let names = TALK.map(|(direction, bytes, ..)| {
            let start = bytes.get(..40).unwrap_or(bytes);
            name(direction, start, bytes.len())
        });
        let greeting = Some("pmix greeting");
        let answer = Some("pmix answer");
        let notice = Some("pmix notice");
        assert_eq!(names, [greeting, greeting, Some("REQ"), answer, answer, notice]);
        for other in [&b"cmd=init pmi_version=1\n"[..], b"    14cmd=job-getid;", b"", b"\0"] {
            assert_eq!(name(Direction::ToServer, other, other.len()), None, "{other:?}");
        }
        // A commit is longer than what is kept of it.
        let commit = [&[0, 0, 0, 5, 0, 0, 0, 106, 0, 0, 16, 0, 0, 0, 0, 0, 1, 7][..], &[7; 22]];
        assert!(name(Direction::ToServer, &commit.concat(), 4096 + 16).is_some());
    }

    #[test]
    fn response_to_a_tool_is_a_greeting_of_its_own_length() {
        use pmi_core::wire::pmix::greeting::{Kind, write_tool_welcome};
        let client = Greeting::read(GREETING).unwrap();
        let (kind, owner) = (Kind::Tool, Some((0, 0)));
        let tool = Greeting { kind, owner, identity: None, ..client };
        let mut greeting = [0; 256];
        let len = tool.write(&mut greeting).unwrap();
        let (tool, layout) = (&greeting[..len], tool.layout());
        let mut room = [0; TOOL_WELCOME_BYTES];
        let server = (&b"pmi-host-7"[..], 0);
        for (given, line) in [
            (Some((&b"tool_7_1"[..], 0)), "pmix greeting rc=0 tool=tool_7_1"),
            (None, "pmix greeting rc=0 server=pmi-host-7"),
        ] {
            let len = write_tool_welcome(given, server, &mut room).unwrap();
            let line_of = crate::describe::describe(Direction::ToClient, &room[..len]).line(99);
            assert_eq!(line_of, line);
            assert_eq!(shape(Direction::ToClient, &room[..len]), Some(Shape::Answer));
            assert_eq!(name(Direction::ToClient, &room[..40], len), Some("pmix greeting"));
        }
        // The next message begins behind it.
        let len = write_tool_welcome(Some((b"tool_7_1", 0)), server, &mut room);
        let answer = TALK[3].1;
        let bytes = [&room[..len.unwrap()], answer].concat();
        for piece in [1, 200, 1000] {
            let (mut splitter, mut whole) = (Splitter::default(), Vec::new());
            splitter.push(Direction::ToServer, tool, |message| whole.push(message.to_vec()));
            for piece in bytes.chunks(piece) {
                splitter.push(Direction::ToClient, piece, |message| whole.push(message.to_vec()));
            }
            let lengths: Vec<usize> = whole.iter().map(Vec::len).collect();
            assert_eq!(lengths, [tool.len(), layout.welcome_bytes(), answer.len()]);
        }
    }

    #[test]
    fn connection_that_greets_is_cut_by_its_headers() {
        for piece in [1, 3, 1000] {
            let (mut splitter, mut whole) = (Splitter::default(), Vec::new());
            for (direction, message, ..) in TALK {
                for piece in message.chunks(piece) {
                    splitter.push(direction, piece, |message| {
                        whole.push((direction, message.to_vec()))
                    });
                }
            }
            let expected = TALK.map(|(direction, message, ..)| (direction, message.to_vec()));
            assert_eq!(whole, expected, "in pieces of {piece}");
        }
    }
}
