//! Messages of PMIx as fields: the header of each, and its command. Values are in an encoding that
//! was negotiated in the greeting, so a message by itself reveals no more; `connection` names them.

use super::{Fields, MessageField};
use pmi_core::command::Verb;
use pmi_core::wire::pmix::Request;
use pmi_core::wire::pmix::greeting::Greeting;
use pmi_core::wire::pmix::header::{Header, TAG_REQUESTS};
use pmi_core::wire::pmix::names::Command;
use pmi_core::wire::{Framed, names};

/// Name of this dialect on the page.
pub(crate) const DIALECT: &str = "pmix";

/// Splits a message into fields; `None` unless it is a complete PMIx message.
pub(super) fn of(message: &[u8], is_request: bool) -> Option<Fields> {
    let len = message.len();
    let fields = match message.first()? {
        _ if is_request && is_greeting(message) => vec![field("greeting", 0, len)],
        0 | 0xff if !is_request && len == WELCOME[0] => vec![field("status", 0, len)],
        0 if !is_request && len == WELCOME[1] => {
            vec![field("status", 0, WELCOME[0]), field("index", WELCOME[0], len)]
        }
        0 if Header::frame(message) == Framed::Whole(len) => headed(message, is_request),
        _ => return None,
    };
    Some(Fields { dialect: DIALECT, fields })
}

/// True if a PMIx message is complete; `None` if it may be another format.
pub(crate) fn is_whole(bytes: &[u8]) -> Option<bool> {
    match bytes.first()? {
        0xff => Some(bytes.len() == WELCOME[0] || is_greeting(bytes)),
        0 => Some(WELCOME.contains(&bytes.len()) || Header::frame(bytes) != Framed::Partial),
        _ => None,
    }
}

/// The tag that a reply shares with its request.
pub(super) fn tag(message: &[u8]) -> Option<u32> {
    Header::read(message).map(|header| header.tag)
}

/// Common name of a message.
pub(super) fn display_name(message: &[u8], is_request: bool) -> Option<&'static str> {
    if is_request && is_greeting(message) {
        return Some("greeting");
    }
    let body = message.get(Header::BYTES..)?;
    match tag(message)? < TAG_REQUESTS {
        true => Some("notice"),
        false if is_request => Request::command_of(body).and_then(|(command, _)| name(command)),
        false => None,
    }
}

/// Name of the exchange, as in PMI where the exchange is the same.
pub(super) fn name(command: Command) -> Option<&'static str> {
    match command.verb() {
        Some(Verb::Put) | None => command.name(),
        Some(verb) => Some(names::display_name(verb)),
    }
}

pub(super) fn is_greeting(message: &[u8]) -> bool {
    message.first() == Some(&0xff) && Greeting::frame(message) == Ok(Framed::Whole(message.len()))
}

fn headed(message: &[u8], is_request: bool) -> Vec<MessageField> {
    let mut fields = vec![field("connection", 0, 4), field("tag", 4, 8), field("length", 8, 12)];
    let (mut at, end) = (Header::BYTES, message.len());
    if is_request && let Some((_, len)) = Request::command_of(&message[at..]) {
        fields.push(MessageField { value: at + len - 1, ..field("command", at, at + len) });
        at += len;
    }
    if at < end {
        fields.push(field("body", at, end));
    }
    fields
}

fn field(name: &str, start: usize, end: usize) -> MessageField {
    MessageField { start, value: start, end, name: name.into(), text: None }
}

/// Lengths of the reply to a greeting: a refusal, and an acceptance.
const WELCOME: [usize; 2] = [4, 8];

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: &[u8] = b"\0\0\0\x05\0\0\0\x65\0\0\0\x02\0\0\0\0\x02\x03";
    const ANSWER: &[u8] = b"\0\0\0\0\0\0\0\x65\0\0\0\x02\0\0\0\0\x02\0";

    fn names(message: &[u8], is_request: bool) -> Vec<(String, usize, usize)> {
        let fields = of(message, is_request).expect("a message").fields;
        fields.into_iter().map(|field| (field.name, field.start, field.end)).collect()
    }

    #[test]
    fn request_is_a_header_and_a_command_and_its_answer_shares_the_tag() {
        let head = [("connection".into(), 0, 4), ("tag".into(), 4, 8), ("length".into(), 8, 12)];
        let [asked, told] = [("command", 16, 18), ("body", 16, 18)].map(|(name, start, end)| {
            let mut all = head.to_vec();
            all.push((name.into(), start, end));
            all
        });
        assert_eq!((names(FENCE, true), names(ANSWER, false)), (asked, told));
        assert_eq!(display_name(FENCE, true), Some("barrier_in"));
        assert_eq!((display_name(ANSWER, false), tag(FENCE)), (None, tag(ANSWER)));
    }

    #[test]
    fn message_is_whole_at_its_end_and_not_before() {
        for message in [FENCE, ANSWER] {
            assert_eq!(is_whole(message), Some(true));
            assert_eq!(is_whole(&message[..17]), Some(false));
            assert_eq!(of(&message[..17], true), None);
        }
        assert_eq!(names(b"\0\0\0\0\0\0\0\x05", false).len(), 2);
        assert_eq!((is_whole(b"cmd=init"), is_whole(b"")), (None, None));
    }
}
