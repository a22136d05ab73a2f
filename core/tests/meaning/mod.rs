//! Renders the meaning of a message in the words of the transcripts.
//!
//! The words are those of the model, not of any dialect: a vector that passes has been understood.

#![allow(dead_code, reason = "each test program uses its own part of this module")]

use crate::transcript::{Message, Side, Voice};
use pmi_core::command::{
    Answer, FenceGroup, Notice, Pair, Place, Reply, Request, Spawn, Text, Verb,
};
use pmi_core::error::Malformed;
use pmi_core::wire::RequestMessage;

/// Meaning of a message, or the reason for which it has none.
pub(crate) fn of(message: &Message) -> Vec<u8> {
    if let Some(bad) = message.unframed {
        return malformed(bad);
    }
    read(message.from, &message.bytes)
}

/// Reads one whole message.
pub(crate) fn read(from: Voice, bytes: &[u8]) -> Vec<u8> {
    match from.side {
        Side::Client => match from.dialect(bytes).read_request(bytes) {
            Ok(RequestMessage { tag, request: Some(asked) }) => called(request(&asked), tag),
            Ok(RequestMessage { request: None, .. }) => b"nothing".to_vec(),
            Err(bad) => malformed(bad),
        },
        Side::Server => from.read_reply(bytes).map_or_else(malformed, |told| reply(&told)),
    }
}

/// Renders a request of a client.
pub(crate) fn request(request: &Request<'_>) -> Vec<u8> {
    let mut says = Says::new(verb(request.verb()));
    match *request {
        Request::Init { version } => {
            says.pair("version", format!("{}.{}", version.major, version.minor));
        }
        Request::InitAck { id } => {
            says.pair("id", id.to_string());
        }
        Request::FullInit { rank, job, threaded, method } => {
            says.optional("rank", rank.map(|rank| rank.to_string())).optional_text("job", job);
            says.flag("threaded", threaded).optional_text("method", method);
        }
        Request::Proof { digits, .. } => {
            says.text("digits", digits);
        }
        Request::Put { place, key, value } => {
            says.place(place).text("key", key).text("value", value);
        }
        Request::Get { place, key, wait } => {
            says.place(place).text("key", key).flag("wait", wait);
        }
        Request::Fence { group, tag } => {
            match group {
                FenceGroup::World => says.word(b"world"),
                FenceGroup::Node => says.word(b"node"),
                FenceGroup::Ranks(list) => says.pair("ranks", list),
            };
            says.optional("tag", tag.map(|tag| tag.to_string()));
        }
        Request::Publish { service, port } => {
            says.text("service", service).text("port", port);
        }
        Request::Unpublish { service } | Request::Lookup { service } => {
            says.text("service", service);
        }
        Request::Spawn(spawn) => {
            says.spawn(spawn);
        }
        Request::Connect { job } | Request::Disconnect { job } | Request::GetAll { job } => {
            says.text("job", job);
        }
        Request::PutAll { job, pairs } => {
            says.text("job", job).pair("pairs", pairs.to_string());
        }
        Request::PutPair { key, value } => {
            says.text("key", key).text("value", value);
        }
        Request::Ring { left, right } => {
            says.text("left", left).text("right", right);
        }
        Request::OutOfBand { id, signal, version } => {
            says.optional("id", id.map(|id| id.to_string())).optional_text("signal", signal);
            says.pair("version", format!("{}.{}", version.major, version.minor));
        }
        Request::Abort { code, world, message } => {
            says.optional("code", code.map(|code| code.to_string())).flag("alone", !world);
            if !message.is_empty() {
                says.text("message", message);
            }
        }
        Request::Lacking { verb: asked, field } => {
            says = Says::new("lacking");
            says.word(verb(asked).as_bytes()).word(field.as_bytes());
        }
        Request::Unknown { word } => {
            says.word(word);
        }
        _ => {}
    }
    says.bytes
}

/// Renders a reply of a server.
pub(crate) fn reply(reply: &Reply<'_>) -> Vec<u8> {
    let mut says = Says::new(verb(reply.to));
    says.pair("rc", reply.code.0.to_string());
    match reply.answer {
        Answer::Version(version) => {
            says.pair("version", format!("{}.{}", version.major, version.minor));
        }
        Answer::Identity(who) => {
            says.pair("rank", who.rank.to_string()).pair("size", who.size.to_string());
            says.pair("appnum", who.appnum.to_string()).optional_text("spawner", who.spawner);
        }
        Answer::Challenge(nonce) => {
            says.text("nonce", nonce);
        }
        Answer::Maxes(maxes) => {
            says.pair("kvsname", maxes.kvsname.to_string()).pair("key", maxes.key.to_string());
            says.pair("value", maxes.value.to_string());
        }
        Answer::Number(number) => {
            says.pair("number", number.to_string());
        }
        Answer::Name(name) => {
            says.text("name", name);
        }
        Answer::Value(value) => {
            says.text("value", value);
        }
        Answer::Missing => {
            says.word(b"missing");
        }
        Answer::Released { tag } => {
            says.word(b"released").optional("tag", tag.map(|tag| tag.to_string()));
        }
        Answer::CopyNeeded => {
            says.word(b"copy");
        }
        Answer::Count(count) => {
            says.pair("count", count.to_string());
        }
        Answer::Pair(pair) => {
            says.text("key", pair.key).text("value", pair.value);
        }
        Answer::Ring { count, left, right } => {
            says.pair("count", count.to_string()).text("left", left).text("right", right);
        }
        Answer::Spawned { job, codes } => {
            says.optional_text("job", job);
            let codes: Option<Vec<u8>> = codes.map(|codes| codes.bytes().collect());
            says.optional_text("codes", codes.as_deref().map(Text::plain));
        }
        Answer::Notice(Notice::Checkpoint) => {
            says.word(b"checkpoint");
        }
        Answer::Notice(Notice::Abort(code)) => {
            says.word(b"abort").pair("code", code.to_string());
        }
        Answer::Message(text) => {
            says.text("told", text);
        }
        _ => {}
    }
    called(says.bytes, reply.tag)
}

/// Adds the tag of the client's exchange, if there is one.
fn called(mut means: Vec<u8>, tag: &[u8]) -> Vec<u8> {
    if !tag.is_empty() {
        // In front of the deeper lines of a spawn.
        let end = means.iter().position(|b| *b == b'\n').unwrap_or(means.len());
        means.splice(end..end, [b" called=", tag].concat());
    }
    means
}

fn malformed(bad: Malformed) -> Vec<u8> {
    format!("malformed at={} expected={}", bad.at, bad.expected).into_bytes()
}

fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Init => "init",
        Verb::InitAck => "initack",
        Verb::FullInit => "full-init",
        Verb::Proof => "proof",
        Verb::AuthResponse => "auth-response",
        Verb::Maxes => "maxes",
        Verb::AppNum => "appnum",
        Verb::UniverseSize => "universe-size",
        Verb::KvsName => "kvsname",
        Verb::Put => "put",
        Verb::Get => "get",
        Verb::Fence => "fence",
        Verb::NodePut => "node-put",
        Verb::NodeGet => "node-get",
        Verb::JobGet => "job-get",
        Verb::Publish => "publish",
        Verb::Unpublish => "unpublish",
        Verb::Lookup => "lookup",
        Verb::Spawn => "spawn",
        Verb::Connect => "connect",
        Verb::Disconnect => "disconnect",
        Verb::GetAll => "get-all",
        Verb::PutAll => "put-all",
        Verb::PutPair => "put-pair",
        Verb::Ring => "ring",
        Verb::OutOfBand => "out-of-band",
        Verb::Notice => "notice",
        Verb::Abort => "abort",
        Verb::Finalize => "finalize",
        Verb::Unknown => "unknown",
    }
}

/// A meaning under construction.
struct Says {
    bytes: Vec<u8>,
}

impl Says {
    fn new(word: &str) -> Self {
        Self { bytes: word.as_bytes().to_vec() }
    }

    fn word(&mut self, word: &[u8]) -> &mut Self {
        self.bytes.push(b' ');
        self.bytes.extend(word);
        self
    }

    fn pair(&mut self, key: &str, value: impl AsRef<[u8]>) -> &mut Self {
        self.word(key.as_bytes()).bytes.push(b'=');
        self.bytes.extend(value.as_ref());
        self
    }

    fn text(&mut self, key: &str, value: Text<'_>) -> &mut Self {
        self.pair(key, value.bytes().collect::<Vec<u8>>())
    }

    fn optional(&mut self, key: &str, value: Option<impl AsRef<[u8]>>) -> &mut Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    fn optional_text(&mut self, key: &str, value: Option<Text<'_>>) -> &mut Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    /// Appends a word if `is_so` is true.
    fn flag(&mut self, word: &str, is_so: bool) -> &mut Self {
        if is_so { self.word(word.as_bytes()) } else { self }
    }

    /// The verb implies the other places.
    fn place(&mut self, place: Place<'_>) -> &mut Self {
        match place {
            Place::Job(name) => self.optional_text("kvsname", name),
            Place::Node | Place::Attributes => self,
        }
    }

    fn spawn(&mut self, spawn: Spawn<'_>) {
        for program in spawn.programs() {
            self.line("  program").text("executable", program.executable);
            self.pair("processes", program.processes.to_string());
            for argument in program.arguments.iter() {
                self.line("    argument").text("is", argument);
            }
            program.info.iter().for_each(|pair| self.named("    info", pair));
        }
        spawn.preputs().for_each(|pair| self.named("  preput", pair));
    }

    fn named(&mut self, what: &str, pair: Pair<'_>) {
        self.line(what).text("key", pair.key).text("value", pair.value);
    }

    /// Begins a deeper line.
    fn line(&mut self, word: &str) -> &mut Self {
        self.bytes.push(b'\n');
        self.bytes.extend(word.as_bytes());
        self
    }
}
