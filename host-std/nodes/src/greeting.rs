//! Messages of a connection between node servers before it is an edge of the tree.
//!
//! Wire: one record each, in postcard. A node that has started sends `NodeGreeting::Join` to the head,
//! which answers with `NodeGreeting::Place`, or with `NodeGreeting::Refused` at any time. If the head
//! is not its parent, the node then sends `NodeGreeting::Attach` to its parent, which answers with
//! `NodeGreeting::Welcome`, and `NodeGreeting::Attached` to the head, whose connection ends with that.
//! A node that starts further ones opens a second connection to the head, which begins with
//! `NodeGreeting::StartRequest`. The head sends `NodeGreeting::Start` and `NodeGreeting::Started` then,
//! and the node `NodeGreeting::StarterEnded`.
//!
//! All records after `NodeGreeting::Place` from a parent that is the head, and after
//! `NodeGreeting::Welcome`, are the byte stream of the tree.

use super::check_program::ProgramToCheck;
use super::key::ChannelKeys;
use super::starter::StarterCommand;
use super::starter::pool::StarterEnd;
use crate::resources::NodeResources;
use pmi_tree::TreeStart;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Message before a connection is an edge of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NodeGreeting {
    /// A node server has started and requests its place.
    Join(NodeHello),
    /// Place of the node server, from the head.
    Place(NodePlace),
    /// The other side does not take part; the text is a sentence for users.
    Refused(String),
    /// A placed node connects to an ancestor.
    Attach {
        /// Number of the node.
        node: u32,
    },
    /// Answer to [`Attach`](Self::Attach): the connection is an edge now.
    Welcome,
    /// A placed node is connected to a parent. The head learns which one from the node itself, because a
    /// report of that parent may be lost with it.
    Attached {
        /// Number of the parent.
        parent: u32,
    },
    /// A placed node requests the commands of the node servers that it is to start.
    StartRequest {
        /// Number of the node.
        node: u32,
    },
    /// A command that the other side executes, from the head.
    Start(StarterCommand),
    /// A node that the other side has started is connected to the head.
    Started {
        /// Its number.
        node: u32,
    },
    /// A command of the head has ended, or could not be executed.
    StarterEnded(StarterEnd),
}

/// Description that a node server gives of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHello {
    /// Name of the host as the user or the batch system writes it, if the starter handed it over.
    pub(crate) name: Option<String>,
    /// Name of the host as its kernel reports it.
    pub(crate) host: String,
    /// Version of its pmi-host.
    pub(crate) version: String,
    /// Architecture of its processors.
    pub(crate) architecture: String,
    /// Address at which it accepts other nodes.
    pub(crate) address: SocketAddr,
    /// True if its connections to the head go through its starter.
    pub(crate) is_relayed: bool,
    /// What it offers to ranks.
    pub resources: NodeResources,
}

/// Place of a node in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlace {
    /// Number of the node; the head is 0.
    pub(crate) node: u32,
    /// Number of nodes, with the head.
    pub(crate) nodes: u32,
    /// Most children of a node.
    pub(crate) radix: u32,
    /// Time without a sign of life after which a connection is lost, in milliseconds.
    pub(crate) timeout_ms: u64,
    /// True if the node starts further ones.
    pub(crate) is_delegate: bool,
    /// State in which the node begins, if it joins a run that has begun.
    pub(crate) start: Option<StartMessage>,
    /// Ancestors and their addresses, the parent first, without the head.
    pub(crate) ancestors: Vec<(u32, SocketAddr)>,
    /// Reason for which the node was started.
    pub(crate) task: NodeTask,
    /// Keys for its connections from now on; `None` without encryption, where it keeps that of the run.
    pub(crate) keys: Option<Box<ChannelKeys>>,
}

/// State in which a node begins that joins a run that has begun: [`TreeStart`] as a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartMessage {
    received: [u64; 2],
    ended: u64,
    growths: Vec<(u32, u32)>,
}

impl From<&TreeStart> for StartMessage {
    fn from(start: &TreeStart) -> Self {
        let TreeStart { received, ended, growths } = start.clone();
        Self { received, ended, growths }
    }
}

impl From<&StartMessage> for TreeStart {
    fn from(start: &StartMessage) -> Self {
        let StartMessage { received, ended, growths } = start.clone();
        Self { received, ended, growths }
    }
}

/// Reason for which node servers are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeTask {
    /// A job, whose description follows through the tree.
    Job,
    /// A check of the hosts, which starts no rank.
    Check {
        /// A program to look for.
        program: Option<ProgramToCheck>,
    },
}

impl NodeGreeting {
    /// Content of a record with this message.
    pub(super) fn encode(&self) -> Vec<u8> {
        // Serialization into a vector fails for no message of these types.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads a message, which has to fill the record.
    pub(super) fn decode(content: &[u8]) -> Option<Self> {
        let (greeting, rest) = postcard::take_from_bytes(content).ok()?;
        rest.is_empty().then_some(greeting)
    }
}

/// Nodes above `node` in a tree of this radix, the parent first and the head last.
pub(super) fn ancestors(node: u32, radix: u32) -> impl Iterator<Item = u32> {
    let parent = move |node: &u32| node.checked_sub(1).map(|below| below / radix.max(1));
    std::iter::successors(parent(&node), parent)
}

impl NodeHello {
    /// Reason to refuse the node server: another program would be a subtle fault later.
    pub(super) fn mismatch(&self) -> Option<String> {
        let (host, own) = (self.shown(), env!("CARGO_PKG_VERSION"));
        if self.version != own {
            return Some(format!(
                "'{host}' has pmi-host {}, and this one is {own}; install the same version on all hosts",
                self.version
            ));
        }
        let own = std::env::consts::ARCH;
        if self.architecture != own {
            return Some(format!(
                "'{host}' has processors of architecture {}, and this host {own}; all hosts of a job need \
                 the same one",
                self.architecture
            ));
        }
        (!self.resources.is_possible())
            .then(|| format!("'{host}' describes more processors than a machine has"))
    }

    /// Name for messages: that which the user knows.
    pub(crate) fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.host)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::key::LinkKey;
    use super::super::record::CONTENT_MAX;
    use super::*;
    use crate::resources::NumaNode;
    use pmi_host_base::ranges::Ranks;

    /// A node of four processors in two memory domains.
    pub(crate) fn resources() -> NodeResources {
        let domain = |number, processors: [u32; 2]| NumaNode {
            number,
            processors: Ranks::from_iter(processors),
        };
        NodeResources {
            processors: (0..4).collect(),
            parallelism: 3,
            memory_bytes: Some(1 << 34),
            numa_nodes: vec![domain(0, [0, 2]), domain(1, [1, 3])],
        }
    }

    fn hello() -> NodeHello {
        NodeHello {
            name: None,
            host: "b".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            address: "[::1]:4000".parse().unwrap(),
            is_relayed: false,
            resources: resources(),
        }
    }

    #[test]
    fn greetings_are_read_as_they_were_written_and_only_whole() {
        let keys = ChannelKeys::of(&LinkKey::generate().unwrap(), 7, [1].into_iter());
        let place = NodePlace {
            node: 7,
            nodes: 9,
            radix: 4,
            timeout_ms: 5000,
            is_delegate: true,
            start: Some(StartMessage { received: [3, 0], ended: 2, growths: vec![(8, 1)] }),
            ancestors: vec![(1, "10.0.0.1:400".parse().unwrap())],
            task: NodeTask::Check { program: None },
            keys: Some(Box::new(keys)),
        };
        let plain = NodePlace { keys: None, ..place.clone() };
        for greeting in [
            NodeGreeting::Join(hello()),
            NodeGreeting::Place(place),
            NodeGreeting::Place(plain),
            NodeGreeting::Refused("no".to_owned()),
            NodeGreeting::Attach { node: 7 },
            NodeGreeting::Welcome,
            NodeGreeting::Attached { parent: 1 },
            NodeGreeting::StartRequest { node: 7 },
            NodeGreeting::Start(StarterCommand {
                words: vec!["ssh".to_owned()],
                nodes: vec![9],
                sends_program: true,
                is_relayed: true,
                is_srun: true,
                key: Some(LinkKey::generate().unwrap()),
            }),
            NodeGreeting::Started { node: 9 },
            NodeGreeting::StarterEnded(StarterEnd {
                nodes: vec![9],
                awaited: Vec::new(),
                how: "'ssh' exited with 0".to_owned(),
                output: String::new(),
            }),
        ] {
            let content = greeting.encode();
            assert_eq!(NodeGreeting::decode(&content), Some(greeting));
            for end in 0..content.len() {
                assert_eq!(NodeGreeting::decode(&content[..end]), None);
            }
            assert_eq!(NodeGreeting::decode(&[&content[..], b"x"].concat()), None);
        }
        assert_eq!(NodeGreeting::decode(&[0xff; 64]), None);
    }

    #[test]
    fn greeting_of_the_largest_machine_is_one_record() {
        // No two neighbours are in the same domain, and not all processors are usable.
        let of_domain = |number| NumaNode {
            number,
            processors: (0..1024).filter(|one| one % 8 == number).collect(),
        };
        let resources = NodeResources {
            processors: (0..1024).filter(|one| one % 3 > 0).collect(),
            parallelism: 1024,
            memory_bytes: Some(u64::MAX),
            numa_nodes: (0..1024).map(of_domain).collect(),
        };
        let name = "n".repeat(255);
        let hello = NodeHello { name: Some(name.clone()), host: name, resources, ..hello() };
        assert!(NodeGreeting::Join(hello).encode().len() <= CONTENT_MAX);
    }

    #[test]
    fn sets_of_processors_that_do_not_ascend_are_malformed() {
        let content = NodeGreeting::Join(hello()).encode();
        // The only run of processors, 0 to 3, is in front of their number.
        let at = content.windows(4).position(|four| four == [1, 0, 3, 3]).unwrap();
        let mut descending = content;
        (descending[at + 1], descending[at + 2]) = (3, 0);
        assert_eq!(NodeGreeting::decode(&descending), None);
    }

    #[test]
    fn ancestors_end_at_the_head() {
        assert_eq!(ancestors(0, 4).count(), 0);
        assert_eq!(Vec::from_iter(ancestors(4, 4)), [0]);
        assert_eq!(Vec::from_iter(ancestors(5, 4)), [1, 0]);
        assert_eq!(Vec::from_iter(ancestors(257, 4)), [64, 15, 3, 0]);
    }

    #[test]
    fn other_version_or_architecture_is_refused_with_a_remedy() {
        assert_eq!(hello().mismatch(), None);
        let named = Some("node-b".to_owned());
        let other = NodeHello { version: "0.0.1".to_owned(), name: named, ..hello() };
        let why = other.mismatch().unwrap();
        assert!(
            why.contains("'node-b' has pmi-host 0.0.1") && why.contains("same version"),
            "{why}"
        );
        let other = NodeHello { architecture: "m68k".to_owned(), ..hello() };
        assert!(other.mismatch().unwrap().contains("architecture m68k"));
        let mut other = hello();
        other.resources.numa_nodes[1].processors = Ranks::from_iter([u32::MAX]);
        assert_eq!(other.mismatch().unwrap(), "'b' describes more processors than a machine has");
    }
}
