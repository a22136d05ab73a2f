//! Frames between the nodes of a job, which form a tree under the launcher.
//!
//! ```text
//! frame     len (2 bytes, little-endian)  body (len bytes, postcard)
//! body      number of the frame, fields
//! ```
//!
//! The link below carries them in order, complete and authenticated. `docs/nodes-wire.md` defines the
//! numbers and fields; they are the order of the variants here, so new variants go to the end, and every
//! change of an old one needs a new [`VERSION`].

use super::postcard_output::{PostcardOutput, PostcardWriter};
use super::{Framed, Writer};
use crate::error::{Full, Malformed};
use core::fmt;
use core::marker::PhantomData;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the format; in the first frame of each side.
pub const VERSION: u16 = 3;

/// Largest number of payload bytes in one frame.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// Bytes in front of a body.
pub const HEAD_BYTES: usize = 2;

/// Largest body of a frame: a full chunk, and a list of parts or nodes of up to half its length.
pub const BODY_BYTES_MAX: usize = CHUNK_BYTES + LIST_BYTES_MAX + 64;

/// Largest encoded list in a frame.
pub const LIST_BYTES_MAX: usize = 8 * 1024;

/// Identity of a collective operation of all nodes; in every frame that belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CollectiveId {
    /// The job, as the head numbers jobs.
    pub job: u32,
    /// Kind of the operation: fence, modex, ... The tree does not interpret it.
    pub kind: u8,
    /// Number of the operation in its job and kind; each is used once.
    pub number: u32,
}

/// A frame of either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeFrame<'a> {
    /// First frame of the child.
    #[serde(borrow)]
    Attach(AttachFrame<'a>),
    /// First frame of the parent: the child is attached.
    Welcome {
        /// [`VERSION`] of the parent.
        version: u16,
        /// Ancestors of the parent as they are now, nearest first: an encoded list of `u32`.
        chain: NodeBytes<'a>,
    },
    /// First frame of the parent, or a later one: the child is not attached (any more).
    Refuse(Refusal),
    /// A sign of life on an edge that has nothing else to carry.
    Ping,
    /// Down: the ancestors of the parent have changed; fields as in `Welcome`.
    Chain {
        /// Ancestors of the parent, nearest first: an encoded list of `u32`.
        chain: NodeBytes<'a>,
    },
    /// Down: contributions on their way up may be lost; each node below sends its own again.
    Resend,
    /// Up: contributions to a collective operation.
    Contribution {
        /// The operation.
        id: CollectiveId,
        /// Number of the last ended operation that the whole subtree has received.
        ended: u64,
        /// True if all nodes of the subtree have contributed with this frame.
        is_complete: bool,
        /// Encoded list of [`ContributionPart`]; their bytes follow each other in `data`.
        parts: NodeBytes<'a>,
        /// Bytes of the parts.
        data: NodeBytes<'a>,
    },
    /// Down: a piece of the result of a collective operation.
    Ended {
        /// Number of the result: 1, 2, ... in the order in which operations ended at the head.
        sequence: u64,
        /// The operation.
        id: CollectiveId,
        /// Sum of the members that have contributed.
        members: u64,
        /// Length of the whole result.
        total: u64,
        /// Position of this piece in it.
        offset: u64,
        /// The piece.
        data: NodeBytes<'a>,
    },
    /// A piece of a message, in either direction.
    #[serde(borrow)]
    Message(MessageFrame<'a>),
    /// Numbers of messages of this edge whose delivery is certain, and of the last ended operation that
    /// the whole subtree has received.
    Settled {
        /// Messages of the class Control since the edge was attached.
        control: u64,
        /// Messages of the class Output since the edge was attached.
        output: u64,
        /// As `ended` of `Contribution`; 0 downwards.
        ended: u64,
    },
    /// Down: the head does not answer any more, on any way.
    HeadLost,
}

/// First frame of a child: its place, and what it has received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachFrame<'a> {
    /// [`VERSION`] of the child.
    pub version: u16,
    /// Number of the child.
    pub node: u32,
    /// Number of nodes with the head, in the configuration of the child.
    pub nodes: u32,
    /// Radix of the tree, in the configuration of the child.
    pub radix: u32,
    /// Number of this attachment of the child: 1 is the first one.
    pub epoch: u32,
    /// Messages to all nodes that the child has received: of Control, of Output.
    pub received: [u64; 2],
    /// Number of the last ended operation that the child has received as a whole.
    pub ended: u64,
    /// Bytes of the result after that one.
    pub offset: u64,
    /// Number of the last ended operation that the whole subtree of the child has received.
    pub acknowledged: u64,
    /// Nodes below the child that left their first parents: an encoded list of [`MovedNode`].
    #[serde(borrow)]
    pub moved: NodeBytes<'a>,
}

/// A piece of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageFrame<'a> {
    /// Class: 0 is Control, 1 is Output.
    pub class: u8,
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: Target,
    /// Number of the message: upwards among those of its sender and class, downwards among those
    /// of its target and class. The first one is 1.
    pub number: u64,
    /// Meaning of the body.
    pub content: Content,
    /// Length of the whole body.
    pub total: u32,
    /// Position of this piece in it.
    pub offset: u32,
    /// The piece.
    #[serde(borrow)]
    pub data: NodeBytes<'a>,
}

/// Receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// The head.
    Head,
    /// One node.
    Node(u32),
    /// Every node but the sender.
    All,
    /// The parent, which passes on the content in messages of its own.
    Parent,
}

/// Meaning of the body of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Content {
    /// Bytes for the owner of the receiving node.
    Owner,
    /// Up, to the head: the sender has lost the edge to a child. Body: [`GoneNode`].
    Gone,
    /// Up, to the head: the sender has a new child. Down, to the first parent of a node: it need not await
    /// it. Body: [`MovedNode`].
    Moved,
    /// Down, to all: a node does not belong to the tree any more. Body: `u32`.
    Excluded,
    /// Down, to all: the tree has more nodes. Body: [`GrownTree`].
    Grown,
}

/// Reason for which a parent does not take a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// Another version of the format.
    Version,
    /// Another number of nodes, or another radix.
    Shape,
    /// The head has excluded the node.
    Excluded,
    /// The parent cannot supply what the child lacks; another ancestor can.
    Behind,
}

/// One edge that its upper end has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GoneNode {
    /// The lower end.
    pub node: u32,
    /// True if it was silent, false if the connection was closed or reset.
    pub is_silent: bool,
}

/// A node that has attached itself to another parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MovedNode {
    /// The node.
    pub node: u32,
    /// Number of its attachment; a higher one is newer.
    pub epoch: u32,
    /// The parent, an ancestor of the node by numbers.
    pub parent: u32,
}

/// Nodes that were added to a tree: the numbers behind those that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GrownTree {
    /// Number of all nodes, with the head.
    pub nodes: u32,
    /// First job whose operations wait for the new ones.
    pub first_job: u32,
}

/// A piece of the contributions of a node, or the empty contributions of several nodes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContributionPart {
    /// The node, or the first one.
    pub node: u32,
    /// Number of nodes; only empty contributions are of several nodes.
    pub count: u32,
    /// Members of each of them.
    pub members: u32,
    /// Length of the whole contribution of the node.
    pub total: u32,
    /// Position of this piece in it.
    pub offset: u32,
    /// Length of this piece.
    pub len: u32,
}

/// Bytes with their length in front, borrowed from their frame.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeBytes<'a>(pub &'a [u8]);

/// Items of an encoded list, decoded one by one.
#[derive(Clone, Debug)]
pub struct ListItems<'a, T> {
    rest: &'a [u8],
    kind: PhantomData<T>,
}

impl fmt::Debug for NodeBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for NodeBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for NodeBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Self)
    }
}

impl<'a, T> ListItems<'a, T> {
    /// Items of `list`.
    pub const fn new(list: &'a [u8]) -> Self {
        Self { rest: list, kind: PhantomData }
    }
}

impl<'a, T: Deserialize<'a>> Iterator for ListItems<'a, T> {
    type Item = Result<T, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(self.rest) {
            Ok((item, rest)) => {
                self.rest = rest;
                Some(Ok(item))
            }
            Err(_) => {
                self.rest = b"";
                Some(Err(Malformed::new(HEAD_BYTES, "an item of a list")))
            }
        }
    }
}

/// Finds the end of the first frame.
///
/// # Errors
///
/// [`Malformed`] if its length is 0 or above [`BODY_BYTES_MAX`].
pub fn frame(bytes: &[u8]) -> Result<Framed, Malformed> {
    let [low, high, ..] = *bytes else { return Ok(Framed::Partial) };
    let len = usize::from(u16::from_le_bytes([low, high]));
    if !(1..=BODY_BYTES_MAX).contains(&len) {
        return Err(Malformed::new(0, "the length of a frame"));
    }
    let end = HEAD_BYTES + len;
    Ok(if bytes.len() < end { Framed::Partial } else { Framed::Whole(end) })
}

/// Reads one whole frame.
///
/// # Errors
///
/// [`Malformed`] for a body that is no frame, or longer than one.
pub fn read(message: &[u8]) -> Result<NodeFrame<'_>, Malformed> {
    match postcard::take_from_bytes(message.get(HEAD_BYTES..).unwrap_or(b"")) {
        Ok((frame, [])) => Ok(frame),
        Ok(_) | Err(_) => Err(Malformed::new(HEAD_BYTES, "a frame between nodes")),
    }
}

/// Writes one frame.
///
/// # Errors
///
/// [`Full`] with the room needed, which is above [`BODY_BYTES_MAX`] for a frame that is too long for the
/// format; the content of `out` is undefined then.
pub fn write(frame: &NodeFrame<'_>, out: &mut [u8]) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    writer.bytes(&[0; HEAD_BYTES]);
    // Infallible: postcard knows every length here, and the output accepts bytes beyond the slice.
    let _ = frame.serialize(&mut PostcardWriter { output: PostcardOutput(&mut writer) });
    let needed = writer.len();
    let len = needed - HEAD_BYTES;
    let (true, Ok(len)) = (len <= BODY_BYTES_MAX, u16::try_from(len)) else {
        return Err(Full { needed });
    };
    if let Some(place) = writer.written().get_mut(..HEAD_BYTES) {
        place.copy_from_slice(&len.to_le_bytes());
    }
    writer.finish()
}

/// Writes one item of an encoded list, or the body of a message of the tree.
///
/// # Errors
///
/// [`Full`] with the room needed.
pub fn write_item<T: Serialize>(item: &T, out: &mut [u8]) -> Result<usize, Full> {
    let mut writer = Writer::new(out);
    // Infallible, as above.
    let _ = item.serialize(&mut PostcardWriter { output: PostcardOutput(&mut writer) });
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn written(frame: &NodeFrame<'_>) -> Vec<u8> {
        let mut out = [0; HEAD_BYTES + BODY_BYTES_MAX];
        let len = write(frame, &mut out).unwrap();
        out[..len].to_vec()
    }

    const ID: CollectiveId = CollectiveId { job: 1, kind: 2, number: 300 };

    #[test]
    fn frames_are_read_as_they_are_written_and_no_cut_is_whole() {
        let message = MessageFrame {
            class: 1,
            from: 7,
            to: Target::Node(9),
            number: 4,
            content: Content::Owner,
            total: 3,
            offset: 0,
            data: NodeBytes(b"abc"),
        };
        let attach = AttachFrame {
            version: VERSION,
            node: 5,
            nodes: 22,
            radix: 4,
            epoch: 1,
            received: [3, u64::MAX],
            ended: 2,
            offset: 100,
            acknowledged: 1,
            moved: NodeBytes(&[1, 2]),
        };
        let ended = NodeFrame::Ended {
            sequence: 1,
            id: ID,
            members: 400,
            total: 5,
            offset: 2,
            data: NodeBytes(b"xyz"),
        };
        let contribution = NodeFrame::Contribution {
            id: ID,
            ended: 0,
            is_complete: true,
            parts: NodeBytes(b"p"),
            data: NodeBytes(b""),
        };
        for frame in [
            NodeFrame::Attach(attach),
            NodeFrame::Welcome { version: VERSION, chain: NodeBytes(&[0]) },
            NodeFrame::Refuse(Refusal::Behind),
            NodeFrame::Ping,
            NodeFrame::Chain { chain: NodeBytes(b"") },
            NodeFrame::Resend,
            contribution,
            ended,
            NodeFrame::Message(message),
            NodeFrame::Message(MessageFrame { to: Target::Parent, number: 0, ..message }),
            NodeFrame::Settled { control: 1, output: 2, ended: 3 },
            NodeFrame::HeadLost,
        ] {
            let bytes = written(&frame);
            assert_eq!(super::frame(&bytes), Ok(Framed::Whole(bytes.len())));
            assert_eq!(read(&bytes), Ok(frame));
            for cut in 0..bytes.len() {
                assert_eq!(super::frame(&bytes[..cut]), Ok(Framed::Partial), "{frame:?} at {cut}");
            }
            let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
            assert!(read(&longer).is_err(), "{frame:?}");
            let mut tight = bytes.clone();
            tight.pop();
            assert_eq!(write(&frame, &mut tight), Err(Full { needed: bytes.len() }));
        }
    }

    #[test]
    fn barrier_frame_takes_sixteen_bytes() {
        let mut list = [0; 16];
        let part =
            ContributionPart { node: 85, count: 1, members: 100, total: 0, offset: 0, len: 0 };
        let len = write_item(&part, &mut list).unwrap();
        let frame = NodeFrame::Contribution {
            id: CollectiveId { job: 0, kind: 0, number: 9 },
            ended: 8,
            is_complete: true,
            parts: NodeBytes(&list[..len]),
            data: NodeBytes(b""),
        };
        assert_eq!(written(&frame).len(), 16);
    }

    #[test]
    fn lengths_of_no_frame_are_refused() {
        assert!(frame(&[0, 0]).is_err());
        assert!(frame(&[0xff, 0xff]).is_err());
        let longest = u16::try_from(BODY_BYTES_MAX).unwrap().to_le_bytes();
        assert_eq!(frame(&longest), Ok(Framed::Partial));
        assert_eq!(frame(&longest[..1]), Ok(Framed::Partial));
        let big = [0; BODY_BYTES_MAX];
        let frame = NodeFrame::Welcome { version: 1, chain: NodeBytes(&big) };
        let mut out = [0; BODY_BYTES_MAX + 64];
        assert!(write(&frame, &mut out).unwrap_err().needed > BODY_BYTES_MAX);
    }

    #[test]
    fn list_ends_at_its_first_invalid_item() {
        let mut items: ListItems<'_, u32> = ListItems::new(&[1, 0x80, 1, 0x80]);
        assert_eq!(items.next(), Some(Ok(1)));
        assert_eq!(items.next(), Some(Ok(128)));
        assert!(items.next().unwrap().is_err());
        assert_eq!(items.next(), None);
    }
}
