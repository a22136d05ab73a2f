//! Replies and events, with memory of their own.

use pmi_core::client::pmix::PmixAnswer;
use pmi_core::wire::pmix::names::{Command, Status};
use pmi_core::wire::pmix::{Format, Info, List, Proc, Type, Value};

use super::error::CallError;

/// Several attributes of a reply or an event.
#[derive(Clone, Debug)]
pub struct Infos {
    count: u32,
    bytes: Vec<u8>,
    format: Format,
}

/// An event that this process has registered for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PmixEvent {
    /// Code of the event.
    pub code: Status,
    /// Process that the event concerns.
    pub source: OwnedProc,
    /// Processes that the event reaches: one of [`range`](super::range).
    pub range: u8,
    /// Further attributes.
    pub infos: Infos,
}

/// A process, or several of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedProc {
    /// The name of its job.
    pub nspace: Vec<u8>,
    /// Its rank, or one of [`ranks`](super::ranks).
    pub rank: u32,
}

/// A constructed group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PmixGroup {
    /// Context id, if it was requested.
    pub context: Option<u64>,
    /// Members, if the server lists them.
    pub members: Option<Vec<OwnedProc>>,
}

/// PmixReply to a request, as far as it has content of its own.
#[derive(Debug)]
pub(super) struct PmixReply {
    command: Command,
    status: Status,
    nspace: Option<Vec<u8>>,
    published: Vec<(Vec<u8>, Vec<u8>)>,
    infos: Option<Infos>,
    group: Option<PmixGroup>,
}

impl Infos {
    pub(super) fn new(list: &List<'_>) -> Self {
        Self { count: list.count, bytes: list.bytes.to_vec(), format: list.format }
    }

    /// The attributes, lent.
    pub fn list(&self) -> List<'_> {
        List { of: Type::INFO, count: self.count, bytes: &self.bytes, format: self.format }
    }

    /// The attributes in turn.
    pub fn iter(&self) -> impl Iterator<Item = Info<'_>> {
        self.list().infos()
    }

    /// The value of the first attribute with this key.
    pub fn find(&self, key: &[u8]) -> Option<Value<'_>> {
        self.list().find(key)
    }

    /// True if there is no attribute.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl From<Proc<'_>> for OwnedProc {
    fn from(proc: Proc<'_>) -> Self {
        Self { nspace: proc.nspace.to_vec(), rank: proc.rank }
    }
}

impl OwnedProc {
    /// The process, lent.
    pub fn lend(&self) -> Proc<'_> {
        Proc { nspace: &self.nspace, rank: self.rank }
    }
}

impl PmixReply {
    pub(super) fn new(command: Command, status: Status, answer: &PmixAnswer<'_>) -> Self {
        let published = answer.published().filter_map(|published| {
            Some((published.key.to_vec(), published.value.text()?.to_vec()))
        });
        let group = answer.group().map(|group| PmixGroup {
            context: group.context,
            members: group.members.map(|members| members.procs().map(OwnedProc::from).collect()),
        });
        Self {
            command,
            status,
            nspace: answer.nspace().map(<[u8]>::to_vec),
            published: published.collect(),
            infos: answer.infos().map(|infos| Infos::new(&infos)),
            group,
        }
    }

    /// The reply of a session that its last request has ended.
    pub(super) const fn end(command: Command) -> Self {
        Self {
            command,
            status: Status::SUCCESS,
            nspace: None,
            published: Vec::new(),
            infos: None,
            group: None,
        }
    }

    /// Fails unless the request has succeeded.
    pub(super) const fn done(&self) -> Result<(), CallError> {
        self.done_or(Status::SUCCESS)
    }

    /// Fails unless the request has succeeded or has this status.
    pub(super) const fn done_or(&self, other: Status) -> Result<(), CallError> {
        if self.status.0 == Status::SUCCESS.0 || self.status.0 == other.0 {
            return Ok(());
        }
        Err(CallError::Refused { command: self.command, status: self.status })
    }

    /// True for the reply to a get.
    pub(super) fn is_get(&self) -> bool {
        self.command == Command::GET
    }

    /// True if what was requested does not exist.
    pub(super) fn is_missing(&self) -> bool {
        self.status == Status::NOT_FOUND
    }

    /// The text that is published under a key.
    pub(super) fn published(self, key: &[u8]) -> Option<Vec<u8>> {
        self.published.into_iter().find_map(|(of, text)| (of == key).then_some(text))
    }

    /// Entries, if there are any.
    pub(super) fn infos(self, format: Format) -> Infos {
        self.infos.unwrap_or_else(|| Infos { count: 0, bytes: Vec::new(), format })
    }

    /// The constructed group.
    pub(super) fn group(self) -> PmixGroup {
        self.group.unwrap_or(PmixGroup { context: None, members: None })
    }

    /// Name of the spawned job.
    pub(super) fn nspace(self) -> Vec<u8> {
        self.nspace.unwrap_or_default()
    }
}
