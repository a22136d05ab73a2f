//! Messages in words that are the same for every version of the protocol.

use crate::message::{is_frame, word};
use crate::pmix;
use crate::record::Direction;
use pmi_core::command::{
    Answer, FenceGroup, Notice, Place, Reply, Request, Spawn, Text, Verb, Version,
};
use pmi_core::wire::{Dialect, binary, names, pmi1, pmi2};
use std::fmt::Write;

/// A message in words: its subject and its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The subject, by its common name.
    pub name: String,
    /// Its fields, in the order of their importance.
    pub fields: Vec<(&'static str, String)>,
    /// False for a refusal, and for bytes that are no message.
    pub is_good: bool,
}

/// Reads a message with the codec.
pub fn describe(direction: Direction, message: &[u8]) -> Meaning {
    if let Some(meaning) = pmix::describe(direction, message) {
        return meaning;
    }
    match direction {
        Direction::ToServer => {
            let dialect = Dialect::detect(message);
            match dialect.read_request(message) {
                Ok(said) => match said.request {
                    Some(request) => of_request(&request),
                    None => Meaning::named("an empty line"),
                },
                Err(_) => unreadable(message),
            }
        }
        Direction::ToClient => {
            let reply = match message.first() {
                Some(&binary::MAGIC) => binary::read_reply(message),
                _ if is_frame(message) => pmi2::read_reply(message),
                _ => pmi1::read_reply(message),
            };
            match reply {
                Ok(reply) => of_reply(&reply, word(message)),
                Err(_) => unreadable(message),
            }
        }
    }
}

impl Meaning {
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.into(), fields: Vec::new(), is_good: true }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    fn text(self, name: &'static str, value: Text<'_>) -> Self {
        self.optional(name, Some(value))
    }

    fn optional(self, name: &'static str, value: Option<Text<'_>>) -> Self {
        self.maybe(name, value.map(|value| shown(&value.bytes().collect::<Vec<u8>>())))
    }

    fn maybe(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// All of it on one line; values longer than `value_max` characters are cut.
    pub fn line(&self, value_max: usize) -> String {
        let mut line = self.name.clone();
        for (name, value) in &self.fields {
            // Writing to a string does not fail.
            let _ = match value.char_indices().nth(value_max) {
                Some((end, _)) => write!(line, " {name}={}…", &value[..end]),
                None => write!(line, " {name}={value}"),
            };
        }
        line
    }

    /// The same without the obvious: the success of a reply, and the name of the own space.
    pub fn brief(mut self, space: Option<&str>) -> Self {
        self.fields.retain(|(name, value)| match *name {
            "rc" => value != "0",
            "space" => Some(value.as_str()) != space,
            _ => true,
        });
        self
    }

    /// One field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_str())
    }
}

fn of_request(request: &Request<'_>) -> Meaning {
    let meaning = Meaning::named(names::display_name(request.verb()));
    match *request {
        Request::Init { version } => meaning.with("version", shown_version(version)),
        Request::InitAck { id } => meaning.with("id", id),
        Request::FullInit { rank, job, threaded, method } => {
            let meaning = meaning.maybe("rank", rank).optional("job", job);
            meaning.optional("method", method).maybe("threaded", threaded.then_some(true))
        }
        Request::Proof { .. } => meaning,
        Request::Put { key, value, place } => {
            of_place(meaning.text("key", key).text("value", value), place)
        }
        Request::Get { place, key, wait } => {
            of_place(meaning.text("key", key), place).maybe("wait", wait.then_some(true))
        }
        Request::Fence { group, tag } => {
            let group = match group {
                FenceGroup::World => None,
                FenceGroup::Node => Some("NODE".to_owned()),
                FenceGroup::Ranks(ranks) => Some(shown(ranks)),
            };
            meaning.maybe("group", group).maybe("tag", tag)
        }
        Request::Publish { service, port } => meaning.text("service", service).text("port", port),
        Request::Unpublish { service } | Request::Lookup { service } => {
            meaning.text("service", service)
        }
        Request::Spawn(spawn) => of_spawn(meaning, spawn),
        Request::Connect { job } | Request::Disconnect { job } | Request::GetAll { job } => {
            meaning.text("job", job)
        }
        Request::PutAll { job, pairs } => meaning.text("job", job).with("pairs", pairs),
        Request::PutPair { key, value } => meaning.text("key", key).text("value", value),
        Request::Ring { left, right } => meaning.text("left", left).text("right", right),
        Request::OutOfBand { id, signal, version } => {
            let meaning = meaning.with("version", shown_version(version));
            meaning.optional("signal", signal).maybe("id", id)
        }
        Request::Abort { code, message, .. } => {
            let message = (!message.is_empty()).then_some(message);
            meaning.with("code", code.unwrap_or(1)).optional("message", message)
        }
        Request::Lacking { field, .. } => {
            Meaning { is_good: false, ..meaning.with("lacks", field) }
        }
        Request::Unknown { word } => Meaning::named(&shown(word)),
        _ => meaning,
    }
}

fn of_place(meaning: Meaning, place: Place<'_>) -> Meaning {
    match place {
        Place::Job(Some(name)) => meaning.text("space", name),
        Place::Job(None) | Place::Node | Place::Attributes => meaning,
    }
}

fn of_spawn(mut meaning: Meaning, spawn: Spawn<'_>) -> Meaning {
    for program in spawn.programs() {
        meaning = meaning.text("program", program.executable).with("ranks", program.processes);
    }
    meaning
}

fn of_reply(reply: &Reply<'_>, word: &[u8]) -> Meaning {
    let name = match (reply.to, reply.answer) {
        (_, Answer::Notice(_)) => "notice".to_owned(),
        (Verb::Unknown, _) => shown(word),
        (verb, _) => names::display_name(verb).to_owned(),
    };
    let mut meaning = Meaning::named(&name).with("rc", reply.code.0);
    meaning.is_good = reply.code.is_success();
    match reply.answer {
        Answer::Version(version) => meaning.with("version", shown_version(version)),
        Answer::Identity(who) => meaning
            .with("rank", who.rank)
            .with("size", who.size)
            .with("appnum", who.appnum)
            .optional("spawner", who.spawner),
        Answer::Maxes(maxes) => {
            meaning.with("kvsname", maxes.kvsname).with("key", maxes.key).with("value", maxes.value)
        }
        Answer::Number(number) => meaning.with("number", number),
        Answer::Name(name) => meaning.text("name", name),
        Answer::Value(value) => meaning.text("value", value),
        Answer::Missing => Meaning { is_good: false, ..meaning.with("found", false) },
        Answer::Released { tag: Some(tag) } => meaning.with("tag", tag),
        Answer::CopyNeeded => meaning.with("copy", true),
        Answer::Count(count) => meaning.with("pairs", count),
        Answer::Pair(pair) => meaning.text("key", pair.key).text("value", pair.value),
        Answer::Ring { count, left, right } => {
            meaning.with("count", count).text("left", left).text("right", right)
        }
        Answer::Notice(Notice::Checkpoint) => meaning.with("what", "checkpoint"),
        Answer::Notice(Notice::Abort(code)) => meaning.with("what", "abort").with("code", code),
        Answer::Spawned { job, codes } => {
            let codes: Option<Vec<u8>> = codes.map(|codes| codes.bytes().collect());
            meaning.optional("job", job).optional("codes", codes.as_deref().map(Text::plain))
        }
        Answer::Message(text) => meaning.text("message", text),
        _ => meaning,
    }
}

fn unreadable(message: &[u8]) -> Meaning {
    let word = word(message);
    let name = if word.is_empty() { "no message".to_owned() } else { shown(word) };
    Meaning { is_good: false, ..Meaning::named(&name).with("bytes", shown(message)) }
}

/// Bytes as text that is safe on a terminal: unprintable text is escaped.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                ' ' => text.push(' '),
                _ if character.is_control() || character.is_whitespace() => {
                    text.extend(character.escape_default());
                }
                _ => text.push(character),
            }
        }
        let _ = write!(text, "{}", chunk.invalid().escape_ascii());
    }
    text
}

fn shown_version(version: Version) -> String {
    format!("{}.{}", version.major, version.minor)
}
