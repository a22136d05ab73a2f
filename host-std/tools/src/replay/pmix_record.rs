//! Recorded connections of PMIx clients, and what their server had told them about their jobs.

use super::record::{RecordedMessage, RecordedRank};
use pmi_core::server::pmix::SharedBytes;
use pmi_core::wire::pmix::greeting::Greeting;
use pmi_core::wire::pmix::header::{Header, TAG_REQUESTS};
use pmi_core::wire::pmix::names::{Command, keys};
use pmi_core::wire::pmix::{Format, Kval, Kvals, Packer, Request, Type, Unpacker};
use pmi_trace::{Content, Direction, Trace, message};
use std::collections::BTreeMap;

/// One connection of a PMIx client. A rank may have several.
#[derive(Clone, Debug)]
pub(super) struct RecordedConnection<'a> {
    pub(super) who: RecordedRank,
    /// Messages of both sides, in their order.
    pub(super) messages: Vec<RecordedMessage<'a>>,
    /// Position of its end among all records.
    pub(super) closed_at: Option<usize>,
}

/// Connections of PMIx clients, in the order of their first messages; those of tools have no rank, and are
/// left out.
pub(super) fn conversations(trace: &Trace) -> Vec<RecordedConnection<'_>> {
    let mut found: Vec<(Option<RecordedRank>, RecordedConnection<'_>)> = Vec::new();
    // A number is used again after the end of its connection.
    let mut open = BTreeMap::<u32, usize>::new();
    for (at, record) in trace.records.iter().enumerate() {
        let Some(session) = record.session else { continue };
        if record.what == Content::Closed
            && let Some(of) = open.remove(&session).and_then(|of| found.get_mut(of))
        {
            of.1.closed_at = Some(at);
        }
        let Content::Message { direction, bytes } = &record.what else { continue };
        if !message::is_pmix(*direction, bytes) {
            continue;
        }
        let of = *open.entry(session).or_insert_with(|| {
            let who = (record.job, 0);
            found.push((None, RecordedConnection { who, messages: Vec::new(), closed_at: None }));
            found.len() - 1
        });
        if let Some((who, conversation)) = found.get_mut(of) {
            *who = who.or_else(|| Some((record.job, record.rank?)));
            conversation.messages.push(RecordedMessage { at, direction: *direction, bytes });
        }
    }
    let known = found
        .into_iter()
        .filter_map(|(who, conversation)| Some(RecordedConnection { who: who?, ..conversation }));
    known.collect()
}

impl RecordedConnection<'_> {
    fn greeting(&self) -> Option<Greeting<'_>> {
        Greeting::read(self.messages.first()?.bytes).ok()
    }

    /// Format of its values.
    fn format(&self) -> Option<Format> {
        Some(self.greeting()?.format)
    }

    /// True if its client read a store in shared memory, which the launcher kept for the job.
    pub(super) fn reads_store(&self) -> bool {
        self.greeting().is_some_and(|greeting| greeting.store != b"hash")
    }

    /// Body of the reply to the request for the description of the job.
    fn description(&self) -> Option<&[u8]> {
        let asks = |line: &&RecordedMessage<'_>| {
            let command = body_of(line.bytes).and_then(|(_, body)| Request::command_of(body));
            line.direction == Direction::ToServer
                && command.is_some_and(|(command, _)| command == Command::REQ)
        };
        let (asked, _) = self.messages.iter().find(asks).and_then(|line| body_of(line.bytes))?;
        self.answers().find(|(tag, _)| *tag == asked).map(|(_, body)| body)
    }

    /// Bodies of the replies to requests, with their tags.
    pub(super) fn answers(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let replies = self.messages.iter().filter(|line| line.direction == Direction::ToClient);
        replies.filter_map(|line| body_of(line.bytes))
    }
}

/// Tag and body of a request or a reply; `None` for greetings and for messages that are neither.
pub(super) fn body_of(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let header = Header::read(bytes)?;
    let body = bytes.get(Header::BYTES..)?;
    let is_whole = usize::try_from(header.body_bytes) == Ok(body.len());
    (is_whole && header.tag >= TAG_REQUESTS).then_some((header.tag, body))
}

/// True if a job has ranks on several nodes, by the description that its ranks got.
pub(super) fn has_nodes(job: u32, conversations: &[RecordedConnection<'_>]) -> bool {
    let of_job = conversations.iter().filter(|one| one.who.0 == job);
    let mut counts = of_job.filter_map(|one| {
        let mut from = Unpacker::new(one.description()?, one.format()?);
        from.one(Type::STRING).and_then(Unpacker::text).ok()?;
        let kvals = Kvals::after(from).map_while(Result::ok);
        Some(kvals.filter(|kval| kval.key == keys::NODE_ARRAY).count())
    });
    counts.any(|count| count > 1)
}

/// Description of a job, from the replies to its ranks, in [`Format::PLAIN`]; `None` if no rank has
/// requested one.
///
/// The reply to each rank has all values of that rank, and the most important ones of the others.
pub(super) fn description<B: SharedBytes>(
    job: u32,
    conversations: &[RecordedConnection<'_>],
) -> Option<B> {
    let mut own = BTreeMap::<u32, Vec<u8>>::new();
    let mut common: Option<Vec<u8>> = None;
    for conversation in conversations.iter().filter(|one| one.who.0 == job) {
        let (Some(format), Some(answer)) = (conversation.format(), conversation.description())
        else {
            continue;
        };
        let mut from = Unpacker::new(answer, format);
        let name = from.one(Type::STRING).and_then(Unpacker::text);
        if name.is_err() {
            continue;
        }
        let mut plain = Vec::new();
        for kval in Kvals::after(from).map_while(Result::ok) {
            match blob(&kval, format) {
                Some((rank, packed)) => {
                    // The last one about the requesting rank is complete.
                    if rank == conversation.who.1 || !own.contains_key(&rank) {
                        own.insert(rank, packed);
                    }
                }
                None => plain.extend(packed(|to| kval.write(to).is_ok()).unwrap_or_default()),
            }
        }
        common.get_or_insert(plain);
    }
    let mut info = common?;
    own.into_values().for_each(|blob| info.extend(blob));
    B::make(info.len(), |bytes| bytes.copy_from_slice(&info))
}

/// The values of one rank in a description, with the rank.
fn blob(kval: &Kval<'_>, format: Format) -> Option<(u32, Vec<u8>)> {
    let bytes = kval.value.blob().filter(|_| kval.key == keys::PROC_BLOB)?;
    let mut from = Unpacker::new(bytes, format);
    let rank = from.one(Type::PROC_RANK).and_then(Unpacker::u32).ok()?;
    let kvals = Kvals::after(from);
    let packed = packed(|to| {
        to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
            to.one(Type::PROC_RANK).u32(rank);
            // Values of unknown types are left out.
            for kval in kvals.clone().map_while(Result::ok) {
                let _ = kval.write(to);
            }
        });
        true
    });
    Some((rank, packed?))
}

/// Packs values in [`Format::PLAIN`]; `None` if `write` fails.
fn packed(write: impl Fn(&mut Packer<'_>) -> bool) -> Option<Vec<u8>> {
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    let is_known = write(&mut counted);
    let mut bytes = vec![0; counted.len()];
    (is_known && write(&mut Packer::new(&mut bytes, Format::PLAIN))).then_some(bytes)
}
