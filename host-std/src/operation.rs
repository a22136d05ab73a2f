//! Operations of ranks on several nodes besides fences of the whole job: an agent hands up the part of its
//! node, the head gathers the parts of all nodes that have members, and each of these receives the result.

use pmi_host_base::ranges::Ranks;
use serde::{Deserialize, Serialize};

/// Message of an agent to the head.
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
}

/// Message of the head to agents.
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
    pub(crate) data: Vec<u8>,
}

/// Identity of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) kind: OperationKind,
    /// The group that it is about.
    pub(crate) name: Option<Vec<u8>>,
    /// Members by job.
    pub(crate) members: Vec<(u32, Ranks)>,
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
    pub(crate) body: Vec<u8>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ASKER: Asker = Asker { session: 1 << 31, exchange: 4 };

    fn forwarded() -> ForwardedMessage {
        ForwardedMessage { job: 0, rank: 7, format: 3, body: b"\x01\0".to_vec() }
    }

    pub(crate) fn requests() -> [OperationRequest; 5] {
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
        ]
    }

    pub(crate) fn replies() -> [OperationReply; 4] {
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
        ]
    }
}
