//! Whole messages out of the pieces in which bytes arrive.

use crate::message::agreed;
use crate::pmix;
use crate::record::Direction;
use pmi_core::command::Version;
use pmi_core::error::Malformed;
use pmi_core::wire::{Dialect, Framed, binary, pmi1, pmi2};

/// Cuts both directions of one connection into whole messages.
///
/// It finds the ends of messages as the server and the client do, and reads the reply to `init` to detect
/// the point from which there may be frames. A client that begins with the greeting of PMIx continues in
/// PMIx.
#[derive(Clone, Debug, Default)]
pub struct Splitter {
    version: Option<Version>,
    pmix: pmix::DecodeState,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

impl Splitter {
    /// Adds received bytes, and passes on every message that is now complete.
    ///
    /// Bytes that can be no message are passed on as they are: after them, the messages of the sender
    /// cannot be separated any more. The same holds for a message that exceeds every limit.
    pub fn push(&mut self, direction: Direction, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let Self { version, pmix, to_server, to_client } = self;
        let kept = match direction {
            Direction::ToServer => to_server,
            Direction::ToClient => to_client,
        };
        if kept.is_empty() {
            // Nearly always: whole messages are read where they lie.
            let taken = split((version, pmix), direction, bytes, &mut each);
            kept.extend(bytes.get(taken..).unwrap_or_default());
        } else {
            kept.extend(bytes);
            let taken = split((version, pmix), direction, kept, &mut each);
            kept.drain(..taken);
            if kept.is_empty() && kept.capacity() > KEPT_MAX {
                // Thousands of connections may each have had one long message.
                *kept = Vec::new();
            }
        }
        // Frames of messages that a client has sent interleaved are read in the order of the server.
        while direction == Direction::ToServer
            && !kept.is_empty()
            && !pmix.is_pmix
            && Dialect::of(kept, *version).reorder_requests(kept) == Ok(true)
        {
            let taken = split((version, pmix), direction, kept, &mut each);
            kept.drain(..taken);
        }
        if kept.len() > if pmix.is_pmix { PMIX_MAX } else { MESSAGE_MAX } {
            each(kept);
            kept.clear();
        }
    }

    /// True if `bytes` of the client are one whole message, which needs no [`push`](Self::push). It may be
    /// false for a message that is whole.
    pub fn is_one_message(&self, bytes: &[u8]) -> bool {
        let Self { version, pmix, to_server, .. } = self;
        let may_be_pmix = pmix.is_pmix || version.is_none() && pmix::begins(bytes);
        to_server.is_empty()
            && !may_be_pmix
            && matches!(
                frame(*version, Direction::ToServer, bytes),
                Ok(Framed::Whole(len)) if len == bytes.len()
            )
    }

    /// Inspects a complete message of the server.
    pub fn note_reply(&mut self, message: &[u8]) {
        if self.version.is_none() {
            self.version = agreed(message);
        }
    }

    /// Gives the remaining bytes at the end of the stream.
    pub fn finish(&mut self, mut each: impl FnMut(Direction, &[u8])) {
        let Self { to_server, to_client, .. } = self;
        for (direction, kept) in
            [(Direction::ToServer, to_server), (Direction::ToClient, to_client)]
        {
            if !kept.is_empty() {
                each(direction, kept);
                kept.clear();
            }
        }
    }
}

/// Passes on the complete messages at the front, and returns their total length.
fn split(
    (version, pmix): (&mut Option<Version>, &mut pmix::DecodeState),
    direction: Direction,
    bytes: &[u8],
    each: &mut impl FnMut(&[u8]),
) -> usize {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        pmix.is_pmix |= direction == Direction::ToServer && version.is_none() && pmix::begins(rest);
        let framed = match pmix.is_pmix {
            true => Ok(pmix.frame(direction, rest)),
            false => frame(*version, direction, rest),
        };
        let len = match framed {
            Ok(Framed::Whole(len)) => len,
            Ok(Framed::Partial) => break,
            Err(_) => rest.len(),
        };
        let message = rest.get(..len).unwrap_or(rest);
        if direction == Direction::ToClient && version.is_none() {
            *version = agreed(message);
        }
        each(message);
        at += message.len();
    }
    at
}

fn frame(
    version: Option<Version>,
    direction: Direction,
    bytes: &[u8],
) -> Result<Framed, Malformed> {
    let dialect = Dialect::of(bytes, version);
    match (direction, dialect) {
        (Direction::ToServer, _) => dialect.frame_request(bytes),
        (Direction::ToClient, Dialect::Lines) => pmi1::frame_reply(bytes),
        (Direction::ToClient, Dialect::Frames(_)) => pmi2::frame_reply(bytes),
        (Direction::ToClient, Dialect::Binary) => binary::frame(bytes),
    }
}

/// Upper bound of the memory that a connection keeps for the start of its next message.
const KEPT_MAX: usize = 4096;

/// More than a server accepts.
const MESSAGE_MAX: usize = 1 << 20;

/// The same for PMIx: one commit holds all values of a process.
const PMIX_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages with their senders.
    const TALK: [(Direction, &[u8]); 8] = [
        (Direction::ToServer, b"cmd=init pmi_version=2 pmi_subversion=0\n"),
        (Direction::ToClient, b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"),
        (Direction::ToServer, b"    23cmd=fullinit;pmirank=0;"),
        (Direction::ToClient, b"    31cmd=fullinit-response;rc=0;a=b;"),
        (Direction::ToServer, b"mcmd=spawn\nnprocs=1\nexecname=a\nendcmd\n"),
        (Direction::ToClient, b"cmd=spawn_result rc=0\n"),
        (Direction::ToServer, b"15    cmd=job-getid;\n"),
        (
            Direction::ToClient,
            b"cmd=initack rc=0\ncmd=set size=1\ncmd=set rank=0\ncmd=set debug=0\n",
        ),
    ];

    fn split_by(piece: usize) -> Vec<(Direction, Vec<u8>)> {
        let (mut splitter, mut whole) = (Splitter::default(), Vec::new());
        for (direction, message) in TALK {
            for piece in message.chunks(piece) {
                splitter
                    .push(direction, piece, |message| whole.push((direction, message.to_vec())));
            }
        }
        splitter.finish(|_, rest| panic!("{:?} is left", rest.escape_ascii().to_string()));
        whole
    }

    #[test]
    fn messages_are_whole_however_they_arrive() {
        let expected = TALK.map(|(direction, message)| (direction, message.to_vec()));
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(split_by(piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn messages_that_arrive_interleaved_are_whole() {
        let frame = |body: &str| format!("{:6}{body}", body.len()).into_bytes();
        let first = frame("cmd=kvs-put;thrid=1;key=a;concat=1;");
        let [second, rest] =
            [frame("cmd=kvs-fence;thrid=2;"), frame("cmd=concat;concatid=1;value=b;")];
        let input = [first.clone(), second.clone(), rest.clone()].concat();
        for piece in [1, 50, 1000] {
            let (mut splitter, mut whole) = (Splitter::default(), Vec::new());
            for (direction, message) in &TALK[..2] {
                splitter.push(*direction, message, |_| {});
            }
            for piece in input.chunks(piece) {
                splitter.push(Direction::ToServer, piece, |message| whole.push(message.to_vec()));
            }
            // The order is that of their ends, unless all have arrived at once.
            whole.sort();
            assert_eq!(whole, [second.clone(), [first.clone(), rest.clone()].concat()]);
        }
    }

    #[test]
    fn several_messages_in_one_piece_are_separated() {
        let mut splitter = Splitter::default();
        let mut lens = Vec::new();
        let piece = b"cmd=put kvsname=a key=b value=c\ncmd=barrier_in\n\ncmd=fin";
        splitter.push(Direction::ToServer, piece, |message| lens.push(message.len()));
        assert_eq!(lens, [32, 15, 1]);
        splitter.push(Direction::ToServer, b"alize\n", |message| lens.push(message.len()));
        assert_eq!(lens[3], 13);
    }

    #[test]
    fn bytes_that_are_no_message_pass_unchanged() {
        let mut splitter = Splitter::default();
        let mut given = Vec::new();
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\xfe\xfe\xfe\xfe", b"cmd=get_maxes\n", b"cmd=x"]
        {
            splitter.push(Direction::ToServer, bytes, |message| given.push(message.to_vec()));
        }
        splitter.finish(|_, rest| given.push(rest.to_vec()));
        assert_eq!(given.len(), 5, "{given:?}");
        let endless = [b"cmd=", vec![b'x'; MESSAGE_MAX].as_slice()].concat();
        given.clear();
        splitter.push(Direction::ToServer, &endless, |message| given.push(message.to_vec()));
        assert_eq!(given, [endless]);
    }
}
