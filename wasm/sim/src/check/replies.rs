//! Rules: no reply without a request, in lock-step in order, and bounded memory of the server.
//!
//! The bytes of both directions are read by a separate reader, which knows only where messages
//! end and which word answers which.

use super::{Census, Finding, RankFacts};
use crate::event::SimEvent;
use crate::host::{CARRY_BYTES, EXCHANGES, INBOX_BYTES};
use crate::scenario::{Dialect, Scenario};
use pmi_core::limits::MESSAGE_BYTES;
use std::collections::VecDeque;

/// Requests on each link, from its bytes.
#[derive(Clone, Debug)]
pub(super) struct Replies {
    links: Vec<LinkState>,
}

#[derive(Clone, Debug, Default)]
struct LinkState {
    /// Start of an incomplete message.
    partial: Vec<u8>,
    /// Pending requests, and their lengths.
    pending: VecDeque<(MessageKind, usize)>,
    /// True if several requests may be pending.
    overlaps: bool,
    /// True if messages begin with their length.
    has_frames: bool,
    /// True after the server has sent an explanation, which it does once.
    has_explained: bool,
    has_overflowed: bool,
    /// The link of a rank that speaks PMIx: the part of a reply received so far.
    pmix: Option<Vec<u8>>,
    /// True after both greetings.
    has_greeted: [bool; 2],
}

/// A request, or the request that a reply belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MessageKind {
    /// The word of the answer, and the tag if there is one.
    Known(String, Vec<u8>),
    /// An unknown request: any refusal is correct.
    Unknown,
    /// No message at all.
    Unreadable,
    /// A PMIx request, by its tag.
    Tag(u32),
}

impl Replies {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let link = |rank| LinkState {
            pmix: (scenario.plan(rank).dialect == Dialect::Pmix).then(Vec::new),
            ..LinkState::default()
        };
        Self { links: (0..scenario.ranks).map(link).collect() }
    }

    pub(super) fn observe(&mut self, event: &SimEvent, census: &Census, found: &mut Vec<Finding>) {
        let Some(rank) = event.rank() else { return };
        let at = usize::try_from(rank).unwrap_or(usize::MAX);
        let Some(link) = self.links.get_mut(at) else { return };
        match event {
            SimEvent::ServerReceived { bytes, .. } => {
                if link.pmix.is_some() {
                    return link.receive_pmix(bytes);
                }
                link.recv(bytes);
                let held: usize = link.pending.iter().map(|(_, len)| len).sum();
                let held = held + link.partial.len();
                if held > HELD_MAX && !std::mem::replace(&mut link.has_overflowed, true) {
                    let what =
                        format!("{held} bytes of rank {rank} are held, at most {HELD_MAX} may be");
                    found.push(("bound", what));
                }
            }
            SimEvent::HostHolds { untaken, unsent, .. } => {
                let is_over = *untaken > CARRY_BYTES || *unsent > CARRY_BYTES;
                if is_over && !std::mem::replace(&mut link.has_overflowed, true) {
                    let what = format!(
                        "the host holds {untaken} bytes from rank {rank} and {unsent} for it"
                    );
                    found.push(("bound", what));
                }
            }
            SimEvent::ServerSent { bytes, .. } => {
                let facts = census.of(rank);
                let said = match link.pmix.is_some() {
                    true => link.send_pmix(bytes, facts),
                    false => link.say(bytes, facts),
                };
                if let Err(what) = said {
                    let text = bytes.escape_ascii();
                    let what = format!("the server sent `{text}` to rank {rank}: {what}");
                    found.push(("reply", what));
                }
            }
            SimEvent::ServerLeft { .. } => {
                link.pending.clear();
                link.partial.clear();
                link.pmix.as_mut().map(Vec::clear);
            }
            _ => {}
        }
    }
}

impl LinkState {
    fn recv(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some(len) = self.message_len() {
            let rest = self.partial.split_off(len);
            let message = std::mem::replace(&mut self.partial, rest);
            if let Some(word) = self.question(&message) {
                self.pending.push_back((word, message.len()));
            }
        }
    }

    /// The length of the whole message in front.
    fn message_len(&self) -> Option<usize> {
        let bytes = &self.partial;
        if self.has_frames && !matches!(bytes.first(), Some(b'c' | b'm')) {
            let len = str::from_utf8(bytes.get(..6)?).ok()?.trim().parse::<usize>().ok()?;
            return (bytes.len() >= len + 6).then_some(len + 6);
        }
        let is_spawn = bytes.starts_with(b"mcmd=spawn");
        let end: &[u8] = if is_spawn { b"endcmd\n" } else { b"\n" };
        bytes.windows(end.len()).position(|window| window == end).map(|at| at + end.len())
    }

    fn question(&self, message: &[u8]) -> Option<MessageKind> {
        let text = String::from_utf8_lossy(message);
        let text = text.trim_matches([' ', '\n', '\r']);
        if text.is_empty() {
            return None;
        }
        if text.starts_with("mcmd=spawn") {
            return Some(MessageKind::Known("spawn_result".into(), vec![]));
        }
        if self.has_frames && !text.starts_with("cmd=") {
            let fields = text.get(6..).unwrap_or_default();
            let field = |key: &str| fields.split(';').find_map(|field| field.strip_prefix(key));
            let tag = field("thrid=").unwrap_or_default().as_bytes().to_vec();
            return match field("cmd=")? {
                "abort" => None,
                word => Some(MessageKind::Known(format!("{word}-response"), tag)),
            };
        }
        let Some(word) = text.split(' ').next().and_then(|first| first.strip_prefix("cmd=")) else {
            return Some(MessageKind::Unreadable);
        };
        let answers = WORDS.iter().find(|(asked, _)| *asked == word).map(|(_, answer)| *answer);
        match answers {
            Some("") => None,
            Some(answer) => Some(MessageKind::Known(answer.into(), vec![])),
            None => Some(MessageKind::Unknown),
        }
    }

    /// Finds the request that a message of the server answers.
    fn say(&mut self, message: &[u8], facts: RankFacts) -> Result<(), String> {
        let text = String::from_utf8_lossy(message);
        let first = text.lines().next().unwrap_or_default();
        let (word, tag) = match first.split_once("cmd=") {
            Some(("", rest)) => (rest.split(' ').next().unwrap_or_default(), vec![]),
            Some((_, rest)) => {
                let mut fields = rest.split(';');
                let word = fields.next().unwrap_or_default();
                let tag = fields.find_map(|field| field.strip_prefix("thrid="));
                (word, tag.unwrap_or_default().as_bytes().to_vec())
            }
            None => return Err("it is not a message".into()),
        };
        let is_unreadable = word.starts_with("unparseable_msg");
        // An explanation answers no request: it is about malformed bytes, or a passed deadline.
        let may_explain =
            facts.is_flipped_up || facts.connects_by_itself || facts.is_rude && is_unreadable;
        let fits = |asked: &MessageKind| match asked {
            MessageKind::Known(answer, asked_tag) => answer == word && *asked_tag == tag,
            MessageKind::Unknown => {
                word.ends_with("_result") || word.ends_with("-response") || is_unreadable
            }
            MessageKind::Unreadable => is_unreadable,
            MessageKind::Tag(_) => false,
        };
        let place = self.pending.iter().position(|(asked, _)| fits(asked));
        match place {
            Some(0) => {}
            Some(_) if self.overlaps => {}
            // A request changed in transit is unknown, but it was one.
            _ if facts.is_flipped_up && !self.pending.is_empty() => {}
            _ if may_explain && !self.has_explained => {
                self.has_explained = true;
                return Ok(());
            }
            Some(_) => {
                let first = &self.pending[0].0;
                return Err(format!("the answer to {first:?} comes first"));
            }
            None => return Err("no request has this reply".into()),
        }
        self.pending.remove(place.unwrap_or(0));
        if word == "response_to_init" {
            let says = |part| first.split(' ').any(|pair| pair == part);
            let agreed = says("rc=0");
            self.has_frames = agreed && says("pmi_version=2");
            self.overlaps = self.has_frames || agreed && says("pmi_subversion=2");
        }
        Ok(())
    }
}

/// PMIx: every answer has the tag of its request, in any order.
impl LinkState {
    fn receive_pmix(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some((tag, len)) = pmix_message(&self.partial, !self.has_greeted[0]) {
            self.partial.drain(..len);
            let word = if self.has_greeted[0] {
                MessageKind::Tag(tag)
            } else {
                MessageKind::Tag(GREETING_TAG)
            };
            self.pending.push_back((word, len));
            self.has_greeted[0] = true;
        }
    }

    fn send_pmix(&mut self, bytes: &[u8], facts: RankFacts) -> Result<(), String> {
        let mut input = self.pmix.take().unwrap_or_default();
        input.extend_from_slice(bytes);
        let mut wrong = None;
        loop {
            let is_welcome = !self.has_greeted[1];
            let whole = match is_welcome {
                // A status, and the number of the connection on success.
                true => (input.len() >= 4).then(|| {
                    let is_yes = input.iter().take(4).all(|byte| *byte == 0);
                    (GREETING_TAG, if is_yes { 8 } else { 4 })
                }),
                false => pmix_message(&input, false),
            };
            let Some((tag, len)) = whole.filter(|(_, len)| *len <= input.len()) else { break };
            input.drain(..len);
            self.has_greeted[1] = true;
            let asked = self.pending.iter().position(|(word, _)| *word == MessageKind::Tag(tag));
            match asked {
                Some(at) => drop(self.pending.remove(at)),
                // Tag 0 belongs to notices, and changed bytes may be any request.
                None if tag == 0 || facts.is_tainted() => {}
                None => wrong = Some(format!("no request has tag {tag}")),
            }
        }
        self.pmix = Some(input);
        wrong.map_or(Ok(()), Err)
    }
}

/// The tag of the message in front, and how long it is, once it is whole. The length of a greeting is in
/// the order of its sender's machine, which is this one.
fn pmix_message(bytes: &[u8], is_greeting: bool) -> Option<(u32, usize)> {
    let number = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    let (tag, body): ([u8; 4], [u8; 4]) = (number(4)?, number(8)?);
    let body = if is_greeting { u32::from_ne_bytes(body) } else { u32::from_be_bytes(body) };
    let len = usize::try_from(body).ok()?.checked_add(16)?;
    (len <= bytes.len()).then_some((u32::from_be_bytes(tag), len))
}

/// Stands for the greeting, which has no tag; requests have small ones.
const GREETING_TAG: u32 = u32::MAX;

/// Reply words of each request word; abort has no reply.
const WORDS: [(&str, &str); 14] = [
    ("init", "response_to_init"),
    ("initack", "initack"),
    ("get_maxes", "maxes"),
    ("get_appnum", "appnum"),
    ("get_universe_size", "universe_size"),
    ("get_my_kvsname", "my_kvsname"),
    ("put", "put_result"),
    ("get", "get_result"),
    ("barrier_in", "barrier_out"),
    ("publish_name", "publish_result"),
    ("unpublish_name", "unpublish_result"),
    ("lookup_name", "lookup_result"),
    ("finalize", "finalize_ack"),
    ("abort", ""),
];

/// Bound of the server's memory for one rank: a full inbox, and the accepted requests.
const HELD_MAX: usize = INBOX_BYTES + EXCHANGES * MESSAGE_BYTES;
