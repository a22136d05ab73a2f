//! One connection to a parent or child: framing, signs of life, and the state of its queues.

use crate::event::Silence;
use crate::lane::{Parcel, ReceiveLane, SendLane};
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use pmi_core::error::Malformed;
use pmi_core::time::Instant;
use pmi_core::wire::Framed;
use pmi_core::wire::nodes::{self, BODY_BYTES_MAX, HEAD_BYTES, NodeFrame, Refusal};

/// State of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeState {
    /// The first frame of the peer is missing.
    Opening,
    /// Frames of all kinds may pass.
    Open,
    /// Only what is in the output remains to be sent.
    Closing,
}

/// Frames that are due, each at most once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DueFrames {
    /// `Attach` of a child, `Welcome` of a parent.
    pub(crate) greeting: bool,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) chain: bool,
    pub(crate) resend: bool,
    pub(crate) head_lost: bool,
    /// `Settled` if there is news, else `Ping`.
    pub(crate) life: bool,
}

/// Position of a child in the sequence of results.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultCursor {
    /// Result that is sent next.
    pub(crate) sequence: u64,
    /// Bytes of it that were sent.
    pub(crate) offset: u64,
    /// Last result that the whole subtree has received.
    pub(crate) acked: u64,
}

/// A message from the parent that is not settled; none if it was a repeated one.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) parcel: Option<Rc<Parcel>>,
    pub(crate) len: usize,
}

/// Queues of one class.
#[derive(Debug, Default)]
pub(crate) struct EdgeLane {
    /// To a child. Messages to the parent are kept by the node, since they outlive the edge.
    pub(crate) send: SendLane,
    pub(crate) receive: ReceiveLane,
    /// From the parent, in the order of arrival.
    pub(crate) inbound: VecDeque<Inbound>,
}

/// A connection to a parent or child.
#[derive(Debug)]
pub(crate) struct TreeEdge {
    pub(crate) is_parent: bool,
    pub(crate) state: EdgeState,
    /// Distinguishes connections to the same peer.
    pub(crate) session: u32,
    pub(crate) due: DueFrames,
    pub(crate) lanes: [EdgeLane; 2],
    pub(crate) cursor: ResultCursor,
    pub(crate) last_received: Instant,
    /// Last answer of the host of the peer, whose system acknowledges what the peer does not read.
    pub(crate) host_answered: Instant,
    /// What does not answer, once that was reported.
    pub(crate) silence: Option<Silence>,
    pub(crate) last_sent: Instant,
    /// True between an answer of `next_ready` and the moment when nothing is left to send.
    pub(crate) is_announced: bool,
    input: Vec<u8>,
    /// Room for the output, as long as the longest so far.
    output: Vec<u8>,
    /// The output that was not taken.
    unsent: Range<usize>,
}

impl TreeEdge {
    pub(crate) fn new(is_parent: bool, session: u32, now: Instant) -> Self {
        Self {
            is_parent,
            state: EdgeState::Opening,
            session,
            due: DueFrames { greeting: is_parent, ..DueFrames::default() },
            lanes: Default::default(),
            cursor: ResultCursor::default(),
            last_received: now,
            host_answered: now,
            silence: None,
            last_sent: now,
            is_announced: false,
            input: Vec::new(),
            output: Vec::new(),
            unsent: 0..0,
        }
    }

    pub(crate) fn is_open_child(&self) -> bool {
        !self.is_parent && self.state == EdgeState::Open
    }

    /// Puts a frame behind the output.
    pub(crate) fn write(&mut self, frame: &NodeFrame<'_>) {
        let start = self.unsent.end;
        // The room of small frames first: most are.
        let mut room = SMALL_FRAME_BYTES;
        loop {
            if self.output.len() < start + room {
                self.output.resize(start + room, 0);
            }
            match nodes::write(frame, &mut self.output[start..]) {
                Ok(len) => return self.unsent.end += len,
                Err(full) if full.needed > room && full.needed <= HEAD_BYTES + BODY_BYTES_MAX => {
                    room = full.needed;
                }
                Err(_) => {
                    debug_assert!(false, "a frame is longer than the format allows");
                    return;
                }
            }
        }
    }

    /// Copies output; returns the number of bytes.
    pub(crate) fn take_output(&mut self, out: &mut [u8]) -> usize {
        let rest = self.output.get(self.unsent.clone()).unwrap_or_default();
        let len = rest.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        self.unsent.start += len;
        if self.unsent.is_empty() {
            self.unsent = 0..0;
        }
        len
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.unsent.is_empty()
    }
}

/// Frames of a stream that arrives in pieces.
///
/// The start of an unfinished frame is in the edge; the rest is borrowed, so that whole frames are not
/// copied.
pub(crate) struct FrameReader<'a> {
    kept: Vec<u8>,
    bytes: &'a [u8],
}

impl<'a> FrameReader<'a> {
    pub(crate) fn new(edge: &mut TreeEdge, bytes: &'a [u8]) -> Self {
        Self { kept: core::mem::take(&mut edge.input), bytes }
    }

    /// Calls `handle` with each whole frame until it fails; returns the unfinished one.
    pub(crate) fn each<E: From<Malformed>>(
        mut self,
        mut handle: impl FnMut(&NodeFrame<'_>) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        while !self.kept.is_empty() {
            match nodes::frame(&self.kept)? {
                Framed::Whole(len) => {
                    handle(&nodes::read(&self.kept[..len])?)?;
                    self.kept.clear();
                }
                Framed::Partial if self.bytes.is_empty() => return Ok(self.kept),
                Framed::Partial => self.complete(),
            }
        }
        loop {
            match nodes::frame(self.bytes)? {
                Framed::Whole(len) => {
                    let (frame, rest) = self.bytes.split_at(len);
                    handle(&nodes::read(frame)?)?;
                    self.bytes = rest;
                }
                Framed::Partial => {
                    self.kept.extend_from_slice(self.bytes);
                    return Ok(self.kept);
                }
            }
        }
    }

    /// Moves bytes to the unfinished frame, at most up to its end.
    fn complete(&mut self) {
        let wanted = match *self.kept.as_slice() {
            [low, high, ..] => HEAD_BYTES + usize::from(u16::from_le_bytes([low, high])),
            _ => HEAD_BYTES,
        };
        let missing = wanted.saturating_sub(self.kept.len()).min(self.bytes.len());
        let (head, rest) = self.bytes.split_at(missing);
        self.kept.extend_from_slice(head);
        self.bytes = rest;
    }
}

impl TreeEdge {
    /// Keeps an unfinished frame for the next bytes.
    pub(crate) fn keep_input(&mut self, input: Vec<u8>) {
        self.input = input;
    }
}

/// Encodes an item of a list.
pub(crate) fn encode_item<T: serde::Serialize>(item: &T) -> Vec<u8> {
    let mut out = vec![0; ITEM_BYTES_MAX];
    let len = nodes::write_item(item, &mut out).unwrap_or(0);
    out.truncate(len);
    out
}

/// Most frames without data are shorter.
const SMALL_FRAME_BYTES: usize = 64;

/// Longest item of a list: six numbers of 32 bits.
pub(crate) const ITEM_BYTES_MAX: usize = 32;
