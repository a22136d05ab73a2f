//! Kind and meaning of a message, as the codec of `pmi-core` reads it.

use crate::pmix;
use crate::record::Direction;
use pmi_core::command::{Answer, Verb, Version};
use pmi_core::wire::{names, pmi1};

/// Role of a message in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A request; a reply follows.
    Question,
    /// The end of a reply.
    Answer,
    /// Every other message: one without a reply, and parts that precede a reply.
    Remark,
}

/// The command of a message: the word after its first `cmd=`. Empty if it does not begin with one.
pub fn word(message: &[u8]) -> &[u8] {
    let front = message.iter().take_while(|byte| b" 0123456789\r\tm".contains(byte)).count();
    let rest = message.get(front..).and_then(|rest| rest.strip_prefix(b"cmd=")).unwrap_or_default();
    let end = rest.iter().position(|byte| b" ;\r\n\0".contains(byte)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// The command of a message of `len_bytes`, of which only the start was kept, by its name on the
/// wire; a reply of PMIx does not name its command. Empty if there is none.
pub fn name(direction: Direction, start: &[u8], len_bytes: usize) -> &[u8] {
    match pmix::name(direction, start, len_bytes) {
        Some(name) => name.as_bytes(),
        None => word(start),
    }
}

/// True for a frame of PMI-2, false for lines of PMI-1 and for other bytes.
pub fn is_frame(message: &[u8]) -> bool {
    message.first().is_some_and(|first| b" 0123456789".contains(first))
}

/// True if it is a message of PMIx.
pub fn is_pmix(direction: Direction, message: &[u8]) -> bool {
    pmix::shape(direction, message).is_some()
}

/// The command of a request, or that of the request that a reply belongs to. A reply of PMIx does
/// not name it.
pub fn verb(direction: Direction, message: &[u8]) -> Verb {
    if let (Direction::ToServer, Some((verb, _))) = (direction, pmix::asks(message)) {
        return verb;
    }
    let word = word(message);
    let found = match (direction, is_frame(message)) {
        (Direction::ToServer, false) => names::find(word, |words| words.line),
        (Direction::ToServer, true) => names::find(word, |words| words.frame),
        (Direction::ToClient, _) if is_notice(word) => Some(Verb::Notice),
        (Direction::ToClient, false) => names::find(word, |words| words.line_reply),
        (Direction::ToClient, true) => {
            let asked = word.strip_suffix(names::RESPONSE).unwrap_or_default();
            names::find(asked, |words| words.frame)
        }
    };
    found.unwrap_or(Verb::Unknown)
}

/// Role of the message in an exchange.
pub fn shape(direction: Direction, message: &[u8]) -> Shape {
    if let Some(shape) = pmix::shape(direction, message) {
        return shape;
    }
    let word = word(message);
    let is_part =
        || [names::GETALL_COUNT, names::GETALL_PAIR, names::CHALLENGE, SET].contains(&word);
    match (direction, verb(direction, message)) {
        _ if word.is_empty() => Shape::Remark,
        // A proof completes a request, and pairs belong to the request that announced them.
        (Direction::ToServer, Verb::Abort | Verb::Proof | Verb::AuthResponse | Verb::PutPair) => {
            Shape::Remark
        }
        (Direction::ToServer, _) => Shape::Question,
        (Direction::ToClient, Verb::Notice) => Shape::Remark,
        (Direction::ToClient, Verb::Unknown) if is_part() => Shape::Remark,
        (Direction::ToClient, _) => Shape::Answer,
    }
}

/// The client's name of the exchange; empty in lines, and in frames without a name.
pub fn tag(message: &[u8]) -> &[u8] {
    if let Some(tag) = pmix::tag(message) {
        return tag;
    }
    if !is_frame(message) {
        return b"";
    }
    let fields = message.split(|byte| *byte == b';');
    { fields }.find_map(|field| field.strip_prefix(b"thrid=")).unwrap_or_default()
}

/// Common name of a client's request.
pub fn display_name(message: &[u8]) -> &'static str {
    match pmix::asks(message) {
        Some((_, name)) => name,
        None => names::display_name(verb(Direction::ToServer, message)),
    }
}

/// The negotiated version, if this is the reply that contains it.
pub fn agreed(message: &[u8]) -> Option<Version> {
    let reply = message.starts_with(b"c").then(|| pmi1::read_reply(message).ok()).flatten()?;
    match reply.answer {
        Answer::Version(version) if reply.code.is_success() => Some(version),
        _ => None,
    }
}

fn is_notice(word: &[u8]) -> bool {
    [names::CHECKPOINT, names::ABORT].contains(&word)
}

/// Three of the four lines of the reply to `initack`, where a log shows them one by one.
const SET: &[u8] = b"set";
