//! Faults in the server's messages to ranks that speak PMIx.
//!
//! A reply of PMIx has the tag of its request and no command, so a mutant remembers the requests.

use super::{MutantKind, changed};
use litemap::LiteMap;
use pmi_core::wire::Framed;
use pmi_core::wire::pmix::greeting::Greeting;
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::names::{Command, Status};
use pmi_core::wire::pmix::{Format, Packer, Request, Type};

/// A mutant's state of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct PmixState {
    /// Start of an incomplete message.
    partial: Vec<u8>,
    /// Encoding of the client, after its greeting.
    format: Option<Format>,
    /// Requests, by their tags.
    asked: LiteMap<u32, Command>,
    /// Requests whose answer was forged already, so that the true one must be dropped.
    forged: LiteMap<u32, ()>,
}

impl PmixState {
    /// Input of the server for received bytes, and messages that the server sends at once.
    pub(super) fn input(
        &mut self,
        kind: MutantKind,
        bytes: &[u8],
        has_acted: &mut bool,
    ) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (mut out, mut answers) = (Vec::new(), Vec::new());
        self.partial.extend(bytes);
        while let Some(len) = self.message_len() {
            let rest = self.partial.split_off(len);
            let message = std::mem::replace(&mut self.partial, rest);
            let Some(format) = self.format else {
                self.format = Greeting::read(&message).ok().map(|greeting| greeting.format);
                out.extend(message);
                continue;
            };
            let header = Header::read(&message);
            let body = message.get(Header::BYTES..).unwrap_or(b"");
            let asked = header.zip(Request::command_of(body).map(|(command, _)| command));
            match (kind, asked) {
                (MutantKind::EarlyFence, Some((header, Command::FENCE | Command::CONNECT))) => {
                    answers.push(status(header.tag, format, Status::SUCCESS));
                    self.forged.insert(header.tag, ());
                }
                (MutantKind::LosePut, Some((header, Command::COMMIT))) if !*has_acted => {
                    *has_acted = true;
                    answers.push(status(header.tag, format, Status::SUCCESS));
                    continue;
                }
                _ => {}
            }
            if let Some((header, command)) = asked {
                self.asked.insert(header.tag, command);
            }
            out.extend(message);
        }
        (out, answers)
    }

    /// Output on the link for a message of the server.
    pub(super) fn output(
        &mut self,
        kind: MutantKind,
        message: &[u8],
        has_acted: &mut bool,
    ) -> Vec<Vec<u8>> {
        let same = vec![message.to_vec()];
        let tag = Header::read(message).map(|header| header.tag);
        let Some((tag, asked)) = tag.and_then(|tag| Some((tag, *self.asked.get(&tag)?))) else {
            return same;
        };
        let format = self.format.unwrap_or(Format::PLAIN);
        let is_status = (Header::BYTES + 1..=Header::BYTES + 8).contains(&message.len());
        let mut acts = || !std::mem::replace(has_acted, true);
        match kind {
            MutantKind::EarlyFence if self.forged.remove(&tag).is_some() => vec![],
            MutantKind::WrongValue if asked == Command::GET && !is_status => changed(message),
            MutantKind::WrongPort if asked == Command::LOOKUP && !is_status => changed(message),
            MutantKind::DenySpawn if asked == Command::SPAWN && !is_status => {
                vec![status(tag, format, Status::JOB_FAILED_TO_LAUNCH)]
            }
            MutantKind::GrantSpawn if asked == Command::SPAWN && is_status => {
                vec![status(tag, format, Status::SUCCESS)]
            }
            MutantKind::AnswerTwice if asked == Command::COMMIT => [same.clone(), same].concat(),
            MutantKind::SwallowReply if (is_status || asked == Command::LOOKUP) && acts() => vec![],
            MutantKind::SwallowRelease if asked == Command::FENCE && acts() => vec![],
            _ => same,
        }
    }

    /// The length of the whole message in front.
    fn message_len(&self) -> Option<usize> {
        let framed = match self.format {
            None => Greeting::frame(&self.partial).ok()?,
            Some(_) => Header::frame(&self.partial),
        };
        match framed {
            Framed::Whole(len) => Some(len),
            _ => None,
        }
    }
}

/// A reply with a status alone.
fn status(tag: u32, format: Format, status: Status) -> Vec<u8> {
    let mut body = [0; 16];
    let mut to = Packer::new(&mut body, format);
    to.one(Type::STATUS).i32(status.0);
    let len = to.len();
    let body_bytes = u32::try_from(len).unwrap_or(0);
    let header = Header { index: 0, tag, body_bytes }.bytes();
    [&header[..], body.get(..len).unwrap_or(b"")].concat()
}
