//! Operations of ranks on several nodes besides fences of the whole job: a node hands up the part of its
//! node, the head gathers the parts of all nodes that have members, and each of these receives the result.

use crate::launch::cleanup::control_action::ControlAction;
use crate::other_runs::{ConnectKind, ConnectedMessage};
use pmi_core::server::ChangeAnswer;
use pmi_host_base::ranges::Ranks;
use pmi_host_os::byte_vec;
use pmi_host_os::cleanup::files::Cleanup;
use serde::{Deserialize, Serialize};

/// Message of a node to the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperationRequest {
    /// Part of the node, in place of a former part with the same number.
    Part(OperationPart),
    /// The members of this node have given up an operation.
    Withdrawn {
        /// Number of the part.
        number: u32,
    },
    /// A request of a PMIx client of the node, which all nodes handle.
    Forwarded(ForwardedMessage),
    /// A request about a published name, which the head executes.
    Name {
        /// Session of the client, and number of the request there.
        asker: Asker,
        /// The request.
        request: NameMessage,
    },
    /// A request for committed data of a rank on another node.
    Fetch(FetchMessage),
    /// Answer to such requests of other nodes.
    Fetched(FetchAnswer),
    /// Request of a rank for a change that all nodes make.
    Change {
        /// Session of the rank, and number of the request there.
        asker: Asker,
        /// Job and number of the rank.
        by: (u32, u32),
        /// The change.
        change: JobChange,
    },
    /// The node has made a change.
    Changed {
        /// Its number.
        number: u32,
        /// The result.
        result: ChangeResult,
    },
    /// Request of a PMIx client for the state of the processes of all nodes.
    ListProcesses {
        /// Session of the client, and number of the request there.
        asker: Asker,
        /// True if it wants to know their memory.
        wants_memory: bool,
    },
    /// State of the processes of the node.
    Processes {
        /// Number of the request.
        number: u32,
        /// The processes.
        rows: Vec<ProcessRow>,
    },
    /// Request of a PMIx client for job control of ranks on other nodes.
    Control {
        /// Session of the client, and number of the request there.
        asker: Asker,
        /// The request.
        message: ControlMessage,
    },
    /// An event that a tool has published, for the PMIx clients of all nodes.
    Event(EventMessage),
    /// A rank of the node waits for a debugger.
    Stopped(StopMessage),
    /// The node has handled pushed input.
    Pushed {
        /// Number of the push.
        number: u32,
        /// The result.
        result: PushResult,
    },
}

/// Message of the head to nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperationReply {
    /// All nodes with members have handed up their parts.
    Ended {
        /// Kind of the operation.
        kind: OperationKind,
        /// Job of the first member.
        job: u32,
        /// Number of the part of this node.
        number: u32,
        /// Number of the constructed group; no other group of the run has it.
        serial: u32,
        /// True if members are gone without having joined.
        is_partial: bool,
        /// Data of all parts, in the order of the nodes.
        #[serde(with = "byte_vec")]
        data: Vec<u8>,
    },
    /// A request of a PMIx client of another node.
    Forwarded(ForwardedMessage),
    /// Answer to a request about a published name.
    Name {
        /// As in the request.
        asker: Asker,
        /// The answer.
        answer: NameAnswerMessage,
    },
    /// A request of another node for committed data of a rank of the receiving node.
    Fetch {
        /// Number of the other node in the tree.
        node: u32,
        /// The request.
        request: FetchMessage,
    },
    /// Answer to a request for committed data.
    Fetched {
        /// The request.
        request: FetchMessage,
        /// As in [`FetchAnswer`].
        #[serde(with = "byte_vec::optional")]
        data: Option<Vec<u8>>,
    },
    /// A change that all nodes make in the order of its arrival.
    Change {
        /// Its number.
        number: u32,
        /// The change.
        change: JobChange,
    },
    /// Answer to a request for a change, which all nodes have made.
    Changed {
        /// As in the request.
        asker: Asker,
        /// The result: that of a node which could not make it, if there is one.
        result: ChangeResult,
    },
    /// Requests the state of the processes of the receiving node.
    ListProcesses {
        /// Number of the request.
        number: u32,
        /// True if their memory is requested.
        wants_memory: bool,
    },
    /// State of the processes of all nodes, for the query of a client of the receiving one.
    Processes {
        /// As in the request.
        asker: Asker,
        /// The processes; `None` if they are more than a message describes.
        rows: Option<Vec<ProcessRow>>,
    },
    /// Job control, of which each node executes what concerns its ranks.
    Control(ControlMessage),
    /// Answer to a request for job control, which all nodes have executed.
    Controlled {
        /// As in the request.
        asker: Asker,
    },
    /// An event that a tool has published.
    Event(EventMessage),
    /// A rank waits for a debugger, or all of a job.
    Stopped(StopMessage),
    /// An operation with processes of other runs has ended.
    Connected(ConnectedMessage),
    /// An operation with processes of other runs has failed: the number of the part of this node, and a
    /// status of PMIx.
    NotConnected(u32, i32),
    /// The job of another run with this namespace has ended.
    OtherEnded(Vec<u8>),
    /// Input that a tool has pushed, for readers on the receiving node.
    Push {
        /// Its number.
        number: u32,
        /// The input.
        message: PushMessage,
    },
}

/// State of one process of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRow {
    /// Its job.
    pub(crate) job: u32,
    /// Its rank.
    pub(crate) rank: u32,
    /// Id of the process.
    pub(crate) pid: i32,
    /// State, as a number of PMIx.
    pub(crate) state: u8,
    /// Its exit code, or 128 and the signal; `None` while it runs, or if its exit cannot be seen.
    pub(crate) exit_code: Option<u8>,
    /// Memory in use; `None` if it has ended, or if that was not requested.
    pub(crate) memory_bytes: Option<u64>,
}

/// Job control request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ControlMessage {
    /// Job of the rank that requests it; `None` for a tool.
    pub(crate) by: Option<u32>,
    /// Targets: jobs, each with one rank or as a whole.
    pub(crate) targets: Vec<(u32, Option<u32>)>,
    /// Files to remove when the targets have exited, on their nodes.
    pub(crate) cleanup: Option<Cleanup>,
    /// Actions to execute now, in this order.
    pub(crate) actions: Vec<ControlAction>,
}

/// A rank that waits for a debugger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopMessage {
    /// Its job.
    pub(crate) job: u32,
    /// The rank; of the head, that of all ranks if all of them wait.
    pub(crate) rank: u32,
    /// Name of the place where it waits; empty if that is unknown.
    pub(crate) breakpoint: String,
}

/// Input of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PushMessage {
    /// Readers: jobs, each with one rank or as a whole; none for all that read pushed input.
    pub(crate) readers: Vec<(u32, Option<u32>)>,
    /// The input.
    #[serde(with = "byte_vec")]
    pub(crate) input: Vec<u8>,
    /// True if no more follows.
    pub(crate) is_complete: bool,
}

/// Result of pushed input. The first of several nodes' results in this order is that of the push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PushResult {
    Failed,
    Full,
    Taken,
    NoReader,
}

/// Event of a tool, whose namespace no node knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventMessage {
    /// Namespace of the tool, in which its rank is 0.
    pub(crate) nspace: Vec<u8>,
    /// Event code.
    pub(crate) code: i32,
    /// Range, as a number of PMIx.
    pub(crate) range: u8,
    /// True if processes that register later receive it, too.
    pub(crate) is_cached: bool,
    /// Number of infos.
    pub(crate) count: u32,
    /// The infos, in the plain format.
    #[serde(with = "byte_vec")]
    pub(crate) infos: Vec<u8>,
}

/// A change of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JobChange {
    /// Connects two jobs, or ends their connection.
    Connect {
        /// Job of the rank that requests it.
        one: u32,
        /// The other job.
        other: u32,
        /// False for the end.
        is_connect: bool,
    },
    /// Adds pairs to the space of a job.
    PutAll {
        /// The job.
        job: u32,
        /// The pairs.
        #[serde(with = "byte_vec")]
        block: Vec<u8>,
    },
}

/// Result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChangeResult {
    Done,
    NoRoom,
    NotConnected,
}

impl From<ChangeAnswer> for ChangeResult {
    fn from(answer: ChangeAnswer) -> Self {
        match answer {
            ChangeAnswer::Done => Self::Done,
            ChangeAnswer::NoRoom => Self::NoRoom,
            ChangeAnswer::NotConnected => Self::NotConnected,
        }
    }
}

impl From<ChangeResult> for ChangeAnswer {
    fn from(result: ChangeResult) -> Self {
        match result {
            ChangeResult::Done => Self::Done,
            ChangeResult::NoRoom => Self::NoRoom,
            ChangeResult::NotConnected => Self::NotConnected,
        }
    }
}

/// A request for data that a PMIx client of another node has committed, or will commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FetchMessage {
    /// Job of the client.
    pub(crate) job: u32,
    /// Rank of the client.
    pub(crate) rank: u32,
    /// The key; `None` for any data.
    pub(crate) key: Option<Vec<u8>>,
}

/// Answer to [`FetchMessage`]s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FetchAnswer {
    /// Numbers of the requesting nodes in the tree.
    pub(crate) nodes: Vec<u32>,
    /// The request.
    pub(crate) request: FetchMessage,
    /// The record of all data of the client; `None` if it will not commit the requested data.
    #[serde(with = "byte_vec::optional")]
    pub(crate) data: Option<Vec<u8>>,
}

/// A request that waits for its answer, on the node of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    pub(crate) session: u32,
    pub(crate) exchange: u64,
}

/// A request about a published name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NameMessage {
    /// PMI-1 and PMI-2: publishes a name.
    Publish {
        /// The process.
        by: (u32, u32),
        /// The name.
        service: Vec<u8>,
        /// Its port.
        port: Vec<u8>,
    },
    /// PMI-1 and PMI-2: unpublishes a name.
    Unpublish {
        /// The name.
        service: Vec<u8>,
    },
    /// PMI-1 and PMI-2: looks up a name.
    Lookup {
        /// The name.
        service: Vec<u8>,
    },
    /// Request of a PMIx client.
    Pmix(ForwardedMessage),
}

/// Answer to a [`NameMessage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NameAnswerMessage {
    Done,
    Port(Vec<u8>),
    Exists,
    Unknown,
    NoRoom,
    /// Body of the answer to a PMIx client; empty without memory for it.
    Pmix(Vec<u8>),
    /// Status of PMIx, for a PMIx client.
    Status(i32),
}

/// Part of one node in an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperationPart {
    /// Number of the operation among those of the node.
    pub(crate) number: u32,
    /// Parts of the same operation belong together.
    pub(crate) operation: Operation,
    /// True if members of the node are gone without having joined.
    pub(crate) is_partial: bool,
    /// Data for the other nodes.
    #[serde(with = "byte_vec")]
    pub(crate) data: Vec<u8>,
}

/// Identity of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) kind: OperationKind,
    /// The group that it is about; of a fence, a connect or a disconnect of PMIx, the processes of other runs
    /// ([`ForeignProcs`](pmi_core::server::pmix::ForeignProcs)).
    pub(crate) name: Option<Vec<u8>>,
    /// Members by job.
    pub(crate) members: Vec<(u32, Ranks)>,
}

impl Operation {
    /// Kind, and processes of other runs, of an operation in which some take part.
    pub(crate) fn others(&self) -> Option<(ConnectKind, &[u8])> {
        let kind = match self.kind {
            OperationKind::Fence => ConnectKind::Fence,
            OperationKind::Connect => ConnectKind::Connect,
            OperationKind::Disconnect => ConnectKind::Disconnect,
            _ => return None,
        };
        Some((kind, self.name.as_deref()?))
    }
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OperationKind {
    /// PMIx: fence of some processes.
    Fence,
    /// PMIx: connection of processes.
    Connect,
    /// PMIx: end of a connection.
    Disconnect,
    /// PMIx: construction of a group.
    Construct,
    /// PMIx: construction of a group whose leaders name the members. A node hands its part up anew with each
    /// participant.
    Bootstrap,
    /// PMIx: destruction of a group.
    Destruct,
    /// PMI-1: fence of some ranks, with its tag.
    GroupFence(u32),
    /// PMI-2: ring of all ranks.
    Ring,
}

impl OperationKind {
    /// True if the operation ends without members that have ended.
    pub(crate) const fn tolerates_ends(self) -> bool {
        !matches!(self, Self::GroupFence(_) | Self::Ring)
    }

    /// True if both have numbers from the same sequence on each node.
    pub(crate) fn shares_numbers(self, other: Self) -> bool {
        self == other || self.tolerates_ends() && other.tolerates_ends()
    }
}

/// A request of a PMIx client that the servers of all nodes handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForwardedMessage {
    /// Job of the client.
    pub(crate) job: u32,
    /// Rank of the client.
    pub(crate) rank: u32,
    /// Number of its wire format.
    pub(crate) format: u8,
    /// Body of the request.
    #[serde(with = "byte_vec")]
    pub(crate) body: Vec<u8>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::other_runs::ConnectResult;
    use crate::other_runs::tests::job_part;
    use rustix::process::Signal;

    const ASKER: Asker = Asker { session: 1 << 31, exchange: 4 };

    fn forwarded() -> ForwardedMessage {
        ForwardedMessage { job: 0, rank: 7, format: 3, body: b"\x01\0".to_vec() }
    }

    fn fetch() -> FetchMessage {
        FetchMessage { job: 1, rank: 300, key: Some(b"k".to_vec()) }
    }

    fn rows() -> Vec<ProcessRow> {
        let row = ProcessRow {
            job: 1,
            rank: 300,
            pid: 4711,
            state: 20,
            exit_code: Some(137),
            memory_bytes: None,
        };
        vec![row.clone(), ProcessRow { exit_code: None, memory_bytes: Some(1 << 40), ..row }]
    }

    fn control() -> ControlMessage {
        let cleanup = Cleanup { files: vec![c"/tmp/a".to_owned()], ..Cleanup::default() };
        ControlMessage {
            by: Some(1),
            targets: vec![(0, None), (1, Some(300))],
            cleanup: Some(cleanup),
            actions: vec![ControlAction::Signal(Signal::USR1), ControlAction::Terminate],
        }
    }

    fn event() -> EventMessage {
        let (nspace, infos) = (b"tool_7_1".to_vec(), b"k\0\xff".to_vec());
        EventMessage { nspace, code: -231, range: 5, is_cached: true, count: 1, infos }
    }

    fn push() -> PushMessage {
        PushMessage { readers: vec![(1, None)], input: b"a\0".to_vec(), is_complete: true }
    }

    fn stopped() -> StopMessage {
        StopMessage { job: 1, rank: u32::MAX, breakpoint: "pmix-init".to_owned() }
    }

    pub(crate) fn requests() -> [OperationRequest; 15] {
        let operation = Operation {
            kind: OperationKind::Construct,
            name: Some(b"ours".to_vec()),
            members: vec![(0, [0, 1, 4].into_iter().collect())],
        };
        let part = OperationPart { number: 9, operation, is_partial: true, data: vec![0, 255] };
        [
            OperationRequest::Part(part),
            OperationRequest::Withdrawn { number: u32::MAX },
            OperationRequest::Forwarded(forwarded()),
            OperationRequest::Name {
                asker: ASKER,
                request: NameMessage::Publish {
                    by: (0, 1),
                    service: b"s".to_vec(),
                    port: b"p\0".to_vec(),
                },
            },
            OperationRequest::Name { asker: ASKER, request: NameMessage::Pmix(forwarded()) },
            OperationRequest::Fetch(fetch()),
            OperationRequest::Fetched(FetchAnswer {
                nodes: vec![1, 300],
                request: fetch(),
                data: Some(b"d".to_vec()),
            }),
            OperationRequest::Change {
                asker: ASKER,
                by: (1, 2),
                change: JobChange::Connect { one: 1, other: 0, is_connect: true },
            },
            OperationRequest::Changed { number: 300, result: ChangeResult::NotConnected },
            OperationRequest::ListProcesses { asker: ASKER, wants_memory: true },
            OperationRequest::Processes { number: 300, rows: rows() },
            OperationRequest::Control { asker: ASKER, message: control() },
            OperationRequest::Event(event()),
            OperationRequest::Stopped(stopped()),
            OperationRequest::Pushed { number: 300, result: PushResult::Full },
        ]
    }

    pub(crate) fn replies() -> [OperationReply; 18] {
        [
            OperationReply::Ended {
                kind: OperationKind::GroupFence(2),
                job: 1,
                number: 9,
                serial: 1,
                is_partial: false,
                data: vec![1],
            },
            OperationReply::Forwarded(forwarded()),
            OperationReply::Name { asker: ASKER, answer: NameAnswerMessage::Port(b"p".to_vec()) },
            OperationReply::Name { asker: ASKER, answer: NameAnswerMessage::Unknown },
            OperationReply::Fetch { node: 300, request: fetch() },
            OperationReply::Fetched { request: fetch(), data: None },
            OperationReply::Change {
                number: 300,
                change: JobChange::PutAll { job: 1, block: vec![0, 255] },
            },
            OperationReply::Changed { asker: ASKER, result: ChangeResult::NoRoom },
            OperationReply::ListProcesses { number: 300, wants_memory: false },
            OperationReply::Processes { asker: ASKER, rows: Some(rows()) },
            OperationReply::Control(control()),
            OperationReply::Controlled { asker: ASKER },
            OperationReply::Event(event()),
            OperationReply::Stopped(stopped()),
            OperationReply::Push { number: 300, message: push() },
            OperationReply::Connected(ConnectedMessage {
                number: 300,
                data: vec![0, 255],
                others: ConnectResult { is_partial: true, jobs: vec![job_part()] },
            }),
            OperationReply::NotConnected(300, -61),
            OperationReply::OtherEnded(b"kvs_n1_7_0".to_vec()),
        ]
    }
}
