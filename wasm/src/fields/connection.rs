//! Values in the bodies of PMIx messages, by name. A body is in the format that the greeting of its
//! connection announces, and a reply has the layout of its request's command: only earlier messages
//! determine both.

use super::pmix::{self, is_greeting};
use super::{Fields, MessageField};
use pmi_core::error::Malformed;
use pmi_core::wire::pmix::greeting::Greeting;
use pmi_core::wire::pmix::header::{Header, TAG_EVENT};
use pmi_core::wire::pmix::names::{Command, Status, keys, scope};
use pmi_core::wire::pmix::request::Request;
use pmi_core::wire::pmix::{Format, Kvals, Proc, Type, Unpacker, Value, ranks};
use std::collections::BTreeMap;

/// State of one connection: what earlier messages determine about later ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct PmixConversation {
    format: Option<Format>,
    /// Commands of pending requests, by tag.
    pending: BTreeMap<u32, Command>,
}

impl PmixConversation {
    /// Names the values of a message in `fields`, and returns the common name of its exchange.
    pub(crate) fn describe(
        &mut self,
        fields: &mut Fields,
        message: &[u8],
        is_request: bool,
    ) -> Option<&'static str> {
        if fields.dialect != pmix::DIALECT {
            return None;
        }
        if is_request && is_greeting(message) {
            let greeting = Greeting::read(message).ok()?;
            self.format = Some(greeting.format);
            fields.fields = greeted(message, &greeting);
            return Some("greeting");
        }
        let Some(header) = Header::read(message) else {
            let status = message.first_chunk().map(|status| i32::from_be_bytes(*status));
            if let (Some(field), Some(status)) = (fields.fields.first_mut(), status) {
                field.text = Some(status_name(status));
            }
            return Some("greeting");
        };
        let body = message.get(Header::BYTES..)?;
        let command = match is_request {
            true => Request::command_of(body).map(|(command, _)| command),
            false => self.pending.remove(&header.tag),
        };
        if let (true, Some(command)) = (is_request, command) {
            self.pending.insert(header.tag, command);
        }
        let format = self.format?;
        // The named values stand in the place of the body.
        fields.fields.retain(|field| field.start < Header::BYTES);
        let mut body = Body { from: Unpacker::new(body, format), base: Header::BYTES, fields };
        let read = match (is_request, command) {
            (true, _) => body.request(),
            (false, Some(command)) => body.reply(command),
            (false, None) if header.tag == TAG_EVENT => body.event(),
            (false, None) => Ok(()),
        };
        let start = match read {
            Ok(()) => Header::BYTES + body.from.at(),
            // A value that was read in part belongs to the rest.
            Err(_) => fields.fields.last().map_or(0, |field| field.end).max(Header::BYTES),
        };
        if start < message.len() {
            fields.fields.push(field("body", start, message.len(), None));
        }
        command.and_then(pmix::name)
    }
}

/// Values of a body that are read one after the other.
struct Body<'a, 'f> {
    from: Unpacker<'a>,
    /// Offset of the unpacker's bytes in the message.
    base: usize,
    fields: &'f mut Fields,
}

impl<'a> Body<'a, '_> {
    fn request(&mut self) -> Result<(), Malformed> {
        let start = self.from.at();
        let command = Command(self.from.one(Type::COMMAND)?.u8()?);
        let value = self.from.at() - 1;
        self.note("command", start, value, command.name().map(Into::into));
        match command {
            Command::FENCE | Command::CONNECT | Command::DISCONNECT => {
                self.list("process", Type::PROC)?;
                self.list("info", Type::INFO)
            }
            Command::GET => {
                self.one("nspace", Type::STRING)?;
                self.one("rank", Type::PROC_RANK)?;
                self.list("info", Type::INFO)?;
                if self.from.is_empty() { Ok(()) } else { self.one("key", Type::STRING) }
            }
            Command::COMMIT => {
                while !self.from.is_empty() {
                    self.one("scope", Type::SCOPE)?;
                    self.from.one(Type::BUFFER)?.u8()?;
                    let buffer = self.from.blob()?;
                    self.inside(buffer, Self::kvals)?;
                }
                Ok(())
            }
            Command::ABORT => {
                self.one("status", Type::STATUS)?;
                self.one("message", Type::STRING)?;
                self.list("process", Type::PROC)
            }
            Command::PUBLISH => {
                self.one("user", Type::UINT32)?;
                self.list("info", Type::INFO)
            }
            Command::LOOKUP | Command::UNPUBLISH => {
                self.one("user", Type::UINT32)?;
                for _ in 0..self.from.one(Type::SIZE)?.size()? {
                    self.one("key", Type::STRING)?;
                }
                self.list("info", Type::INFO)
            }
            Command::SPAWN => self.list("info", Type::INFO),
            _ => Ok(()),
        }
    }

    fn reply(&mut self, command: Command) -> Result<(), Malformed> {
        if command == Command::REQ {
            self.one("nspace", Type::STRING)?;
            return self.kvals();
        }
        self.one("status", Type::STATUS)?;
        while !self.from.is_empty() {
            match command {
                Command::GET => {
                    let object = self.from.one(Type::BYTE_OBJECT)?.blob()?;
                    self.inside(object, |body| {
                        body.one("process", Type::PROC)?;
                        body.kvals()
                    })?;
                }
                Command::LOOKUP => return self.list("data", Type::PDATA),
                Command::SPAWN => return self.one("nspace", Type::STRING),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn event(&mut self) -> Result<(), Malformed> {
        self.one("command", Type::COMMAND)?;
        self.one("status", Type::STATUS)?;
        self.one("process", Type::PROC)?;
        self.list("info", Type::INFO)?;
        self.one("range", Type::DATA_RANGE)
    }

    /// One pack operation of one value.
    fn one(&mut self, name: &str, of: Type) -> Result<(), Malformed> {
        let start = self.from.at();
        self.from.one(of)?;
        self.value(name, start, of)
    }

    fn value(&mut self, name: &str, start: usize, of: Type) -> Result<(), Malformed> {
        let at = self.from.at();
        let value = Value { of, bytes: self.from.skip(of)?, format: self.from.format() };
        self.note(name, start, at, Some(shown(&value)));
        Ok(())
    }

    /// A counted list; an info and published data stand under their keys.
    fn list(&mut self, name: &str, of: Type) -> Result<(), Malformed> {
        if self.from.one(Type::SIZE)?.size()? == 0 {
            return Ok(());
        }
        for _ in 0..self.from.op(of)? {
            let start = self.from.at();
            match of {
                Type::INFO => {
                    let key = self.from.text()?;
                    self.from.u32()?;
                    self.keyed(start, key)?;
                }
                Type::PDATA => {
                    self.value("process", start, Type::PROC)?;
                    let start = self.from.at();
                    let key = self.from.text()?;
                    self.keyed(start, key)?;
                }
                _ => self.value(name, start, of)?,
            }
        }
        Ok(())
    }

    fn kvals(&mut self) -> Result<(), Malformed> {
        while !self.from.is_empty() {
            let start = self.from.at();
            let key = self.from.one(Type::KVAL)?.text()?;
            self.keyed(start, key)?;
        }
        Ok(())
    }

    /// The value of a key that was read.
    fn keyed(&mut self, start: usize, key: Option<&'a [u8]>) -> Result<(), Malformed> {
        let at = self.from.at();
        let (key, value) = (key.unwrap_or(b""), self.from.value()?);
        let text = match value.blob() {
            Some(blob) if key == keys::PROC_BLOB => of_rank(blob, value.format),
            _ => None,
        };
        self.note(&text_of(key), start, at, text.or_else(|| Some(shown(&value))));
        Ok(())
    }

    /// Reads a blob that was read just now from its inside.
    fn inside(
        &mut self,
        blob: &'a [u8],
        read: impl FnOnce(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let (outer, base) = (self.from, self.base);
        self.from = Unpacker::new(blob, outer.format());
        self.base = base + outer.at() - blob.len();
        let done = read(self);
        (self.from, self.base) = (outer, base);
        done
    }

    /// Adds a field up to the read position.
    fn note(&mut self, name: &str, start: usize, value: usize, text: Option<String>) {
        let (base, end) = (self.base, self.base + self.from.at());
        let value = base + value;
        self.fields.fields.push(MessageField { value, ..field(name, base + start, end, text) });
    }
}

/// Fields of a greeting that identify the peer and its encoding.
fn greeted(message: &[u8], greeting: &Greeting<'_>) -> Vec<MessageField> {
    let head = || field("greeting", 0, GREETING_HEADER_BYTES, None);
    let text = |name, part: &[u8]| {
        // The part is lent from the message.
        let start = part.as_ptr().addr().wrapping_sub(message.as_ptr().addr());
        field(name, start, start.wrapping_add(part.len()), Some(text_of(part)))
    };
    let mut fields = vec![head()];
    if let Some((nspace, rank)) = greeting.identity {
        let nspace = text("nspace", nspace);
        // Behind the terminator of the name.
        let start = nspace.end + 1;
        fields.extend([nspace, field("rank", start, start + 4, Some(rank_name(rank)))]);
    }
    fields.extend([text("version", greeting.version), text("encoding", greeting.encoding)]);
    fields.retain(|field| field.start <= field.end && field.end <= message.len());
    fields
}

fn field(name: &str, start: usize, end: usize, text: Option<String>) -> MessageField {
    MessageField { start, value: start, end, name: name.into(), text }
}

/// A value in one line.
fn shown(value: &Value<'_>) -> String {
    let number = value.number();
    let small = number.and_then(|number| i32::try_from(number).ok());
    match value.of {
        Type::STATUS => small.map_or_else(String::new, status_name),
        Type::SCOPE => small.map_or_else(String::new, scope_name),
        Type::PROC_RANK => {
            let rank = number.and_then(|number| u32::try_from(number).ok());
            rank.map_or_else(String::new, rank_name)
        }
        Type::COMMAND => "NOTIFY".into(),
        Type::BOOL => value.is_true().to_string(),
        Type::UNDEF => "true".into(),
        _ => value
            .text()
            .map(text_of)
            .or_else(|| number.map(|number| number.to_string()))
            .or_else(|| value.proc().map(|proc| proc_name(&proc)))
            .or_else(|| value.array().map(|array| array_text(&array)))
            .or_else(|| value.blob().map(|blob| format!("{} bytes", blob.len())))
            .unwrap_or_else(|| value.of.name().unwrap_or("unknown type").into()),
    }
}

fn array_text(array: &pmi_core::wire::pmix::List<'_>) -> String {
    let infos = array.infos().map(|info| format!("{}={}", text_of(info.key), shown(&info.value)));
    let all: Vec<String> = match array.of {
        Type::INFO => infos.collect(),
        Type::PROC => array.procs().map(|proc| proc_name(&proc)).collect(),
        other => vec![format!("{} of {}", array.count, other.name().unwrap_or("unknown type"))],
    };
    all.join(", ")
}

/// Data of one rank: the rank, then keys with values.
fn of_rank(blob: &[u8], format: Format) -> Option<String> {
    let mut from = Unpacker::new(blob, format);
    let rank = from.one(Type::PROC_RANK).ok()?.u32().ok()?;
    let kvals = Kvals::after(from).map_while(Result::ok);
    let all = kvals.map(|kval| format!("{}={}", text_of(kval.key), shown(&kval.value)));
    let all = all.collect::<Vec<_>>().join(", ");
    let words = if all.is_empty() { "no values" } else { &all };
    Some(format!("rank {}: {words}", rank_name(rank)))
}

fn proc_name(proc: &Proc<'_>) -> String {
    format!("{} {}", text_of(proc.nspace), rank_name(proc.rank))
}

fn rank_name(rank: u32) -> String {
    match rank {
        ranks::WILDCARD => "WILDCARD".into(),
        ranks::UNDEF => "UNDEF".into(),
        ranks::LOCAL_NODE => "LOCAL_NODE".into(),
        ranks::LOCAL_PEERS => "LOCAL_PEERS".into(),
        _ => rank.to_string(),
    }
}

fn status_name(status: i32) -> String {
    Status(status).name().map_or_else(|| status.to_string(), Into::into)
}

fn scope_name(number: i32) -> String {
    match u8::try_from(number) {
        Ok(scope::LOCAL) => "LOCAL".into(),
        Ok(scope::REMOTE) => "REMOTE".into(),
        Ok(scope::GLOBAL) => "GLOBAL".into(),
        Ok(scope::INTERNAL) => "INTERNAL".into(),
        _ => number.to_string(),
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Length of the header of a greeting.
const GREETING_HEADER_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::pmix::Packer;

    fn described(
        connection: &mut PmixConversation,
        message: &[u8],
        is_request: bool,
    ) -> Vec<(String, String)> {
        let mut fields = Fields::of(message, is_request);
        connection.describe(&mut fields, message, is_request);
        let named = fields.fields.iter().filter(|field| field.start >= Header::BYTES);
        assert!(
            named.clone().all(|field| field.start <= field.value && field.end <= message.len())
        );
        named.map(|field| (field.name.clone(), field.text.clone().unwrap_or_default())).collect()
    }

    fn message(tag: u32, fill: impl FnOnce(&mut Packer<'_>)) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        let mut packer = Packer::new(&mut bytes, Format::PLAIN);
        fill(&mut packer);
        let len = packer.finish().unwrap();
        let header = Header { index: 3, tag, body_bytes: u32::try_from(len).unwrap() };
        [&header.bytes()[..], &bytes[..len]].concat()
    }

    fn plain() -> PmixConversation {
        PmixConversation { format: Some(Format::PLAIN), ..PmixConversation::default() }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
    }

    #[test]
    fn get_names_its_process_and_key_and_the_reply_its_values() {
        let mut connection = plain();
        let get = message(101, |to| {
            to.one(Type::COMMAND).u8(Command::GET.0);
            to.one(Type::STRING).text(Some(b"job"));
            to.one(Type::PROC_RANK).u32(ranks::UNDEF);
            to.one(Type::SIZE).size(0);
            to.one(Type::STRING).text(Some(b"card-1"));
        });
        let expected =
            [("command", "GETNB"), ("nspace", "job"), ("rank", "UNDEF"), ("key", "card-1")];
        assert_eq!(described(&mut connection, &get, true), pairs(&expected));
        let mut object = vec![0; 128];
        let mut packer = Packer::new(&mut object, Format::PLAIN);
        packer.one(Type::PROC).text(Some(b"job")).u32(1);
        packer.one(Type::KVAL).text(Some(b"card-1")).of(Type::STRING).text(Some(b"tcp"));
        let len = packer.finish().unwrap();
        let reply = message(101, |to| {
            to.one(Type::STATUS).i32(0);
            to.one(Type::BYTE_OBJECT).blob(&object[..len]);
        });
        let expected = [("status", "SUCCESS"), ("process", "job 1"), ("card-1", "tcp")];
        assert_eq!(described(&mut connection, &reply, false), pairs(&expected));
        // The request is answered: another message of this tag has no known layout.
        assert_eq!(described(&mut connection, &reply, false), pairs(&[("body", "")]));
    }

    #[test]
    fn reply_has_the_name_of_its_request_and_an_error_its_own() {
        let mut connection = plain();
        let fence = message(7 + 100, |to| {
            to.one(Type::COMMAND).u8(Command::FENCE.0);
            to.one(Type::SIZE).size(1);
            to.op(Type::PROC, 1);
            to.text(Some(b"job")).u32(ranks::WILDCARD);
            to.one(Type::SIZE).size(0);
        });
        let expected = [("command", "FENCENB"), ("process", "job WILDCARD")];
        assert_eq!(described(&mut connection, &fence, true), pairs(&expected));
        let reply = message(107, |to| {
            to.one(Type::STATUS).i32(Status::TIMEOUT.0);
        });
        let mut fields = Fields::of(&reply, false);
        assert_eq!(connection.describe(&mut fields, &reply, false), Some("barrier_in"));
        assert_eq!(fields.fields.last().unwrap().text.as_deref(), Some("TIMEOUT"));
    }

    #[test]
    fn body_that_cannot_be_read_stays_one_field() {
        let mut connection = plain();
        let cut = message(101, |to| {
            to.one(Type::COMMAND).u8(Command::GET.0);
            to.one(Type::STRING).i32(99);
        });
        let expected = [("command", "GETNB"), ("body", "")];
        assert_eq!(described(&mut connection, &cut, true), pairs(&expected));
        // Without a greeting the format is unknown, and nothing is guessed.
        let names = described(&mut PmixConversation::default(), &cut, true);
        assert_eq!(names.last().unwrap().0, "body");
    }
}
