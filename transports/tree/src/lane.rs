//! Queues of messages on an edge: sent in pieces, kept until their delivery is certain.

use crate::source::Source;
use crate::{Class, NodeId, TreeError};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use pmi_core::wire::nodes::{CHUNK_BYTES, Content, MessageFrame, Target};

/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of a class that may be under way on an edge before the next message of it begins.
pub(crate) const fn window(class: Class) -> usize {
    match class {
        // A bound against a peer that never stops, far above the need of any job.
        Class::Control => 64 * 1024 * 1024,
        Class::Output => 256 * 1024,
    }
}

impl Class {
    /// Both classes, the urgent one first.
    pub(crate) const ALL: [Self; 2] = [Self::Control, Self::Output];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn of(index: u8) -> Option<Self> {
        match index {
            0 => Some(Self::Control),
            1 => Some(Self::Output),
            _ => None,
        }
    }
}

/// A whole message.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) from: NodeId,
    pub(crate) to: Target,
    pub(crate) number: u64,
    pub(crate) content: Content,
    pub(crate) body: Vec<u8>,
}

/// A message in a queue.
#[derive(Clone, Debug)]
pub(crate) struct LaneEntry {
    pub(crate) parcel: Rc<Parcel>,
    /// Order of arrival at this node, over all queues.
    pub(crate) order: u64,
    /// Child that sent it; none for messages of this node and for messages down.
    pub(crate) source: Option<Source>,
}

/// Messages of one class for one edge, in their order.
#[derive(Debug, Default)]
pub(crate) struct SendLane {
    entries: VecDeque<LaneEntry>,
    /// Entries at the front that were sent as a whole.
    sent: usize,
    /// Bytes of the next entry that were sent.
    offset: usize,
    /// Bytes of the entries that were sent.
    in_flight: usize,
    /// Entries that the peer has settled since the edge was attached.
    settled: u64,
}

impl SendLane {
    pub(crate) fn push(&mut self, entry: LaneEntry) {
        self.entries.push_back(entry);
    }

    /// The next piece: its message, position and length. None if there is none, or no credit for it.
    pub(crate) fn piece(&self, class: Class) -> Option<(&Rc<Parcel>, usize, usize)> {
        let entry = self.entries.get(self.sent)?;
        if self.offset == 0 && self.in_flight >= window(class) {
            return None;
        }
        let len = (entry.parcel.body.len() - self.offset).min(CHUNK_BYTES);
        Some((&entry.parcel, self.offset, len))
    }

    /// True if a message, or the rest of one, was not sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.entries.len()
    }

    /// Records that the piece of `len` bytes was sent.
    pub(crate) fn advance(&mut self, len: usize) {
        let Some(entry) = self.entries.get(self.sent) else { return };
        self.offset += len;
        if self.offset == entry.parcel.body.len() {
            self.in_flight += self.offset;
            self.offset = 0;
            self.sent += 1;
        }
    }

    /// Removes entries up to the `total`th since the edge was attached.
    pub(crate) fn settle(&mut self, total: u64) -> Result<Vec<LaneEntry>, TreeError> {
        let count = total.checked_sub(self.settled).and_then(|count| usize::try_from(count).ok());
        let Some(count) = count.filter(|count| *count <= self.sent) else {
            return Err(TreeError::OutOfRange("the number of settled messages"));
        };
        self.settled = total;
        self.sent -= count;
        let settled: Vec<LaneEntry> = self.entries.drain(..count).collect();
        self.in_flight -= settled.iter().map(|entry| entry.parcel.body.len()).sum::<usize>();
        Ok(settled)
    }

    /// Begins again with the first entry, for another edge.
    pub(crate) fn rewind(&mut self) {
        (self.sent, self.offset, self.in_flight, self.settled) = (0, 0, 0, 0);
    }

    /// Entries that are not settled.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &LaneEntry> {
        self.entries.iter()
    }

    /// Takes the entries that are not settled.
    pub(crate) fn into_entries(self) -> VecDeque<LaneEntry> {
        self.entries
    }
}

/// Messages of one class from the peer of an edge.
#[derive(Debug, Default)]
pub(crate) struct ReceiveLane {
    partial: Option<Parcel>,
    total: usize,
    /// Whole messages that have arrived on this edge.
    pub(crate) received: u64,
    /// Bytes of whole messages that are not settled.
    unsettled_bytes: usize,
    /// Messages that are settled, of those that arrived on this edge, up to the first that is not.
    pub(crate) settled: u64,
    /// Numbers and bytes of settled messages behind that one.
    early: BTreeMap<u64, usize>,
    /// Number of settled messages in the last acknowledgement to the peer.
    pub(crate) announced: u64,
    /// Bytes that were settled since then.
    announceable_bytes: usize,
}

impl ReceiveLane {
    /// Adds a piece; returns the message if it is whole.
    pub(crate) fn receive(
        &mut self,
        class: Class,
        frame: &MessageFrame<'_>,
    ) -> Result<Option<Parcel>, TreeError> {
        let offset = frame.offset as usize;
        if self.partial.is_none() {
            if self.unsettled_bytes >= window(class) {
                return Err(TreeError::CreditExceeded { limit_bytes: window(class) });
            }
            self.total = frame.total as usize;
            if self.total > MESSAGE_BYTES_MAX {
                return Err(TreeError::OutOfRange("the length of a message"));
            }
            self.partial = Some(Parcel {
                from: NodeId(frame.from),
                to: frame.to,
                number: frame.number,
                content: frame.content,
                body: Vec::new(),
            });
        }
        let Some(partial) = &mut self.partial else { return Ok(None) };
        let is_next = partial.body.len() == offset
            && (partial.from, partial.to, partial.number, partial.content)
                == (NodeId(frame.from), frame.to, frame.number, frame.content)
            && frame.total as usize == self.total;
        let end = offset.saturating_add(frame.data.0.len());
        if !is_next || end > self.total || (frame.data.0.is_empty() && self.total > 0) {
            return Err(TreeError::OutOfRange("the position of a piece"));
        }
        partial.body.extend_from_slice(frame.data.0);
        if end < self.total {
            return Ok(None);
        }
        self.unsettled_bytes += self.total;
        self.received += 1;
        Ok(self.partial.take())
    }

    /// Records that the next message, of `len` bytes, is settled.
    pub(crate) fn settle(&mut self, len: usize) {
        self.settled += 1;
        self.unsettled_bytes = self.unsettled_bytes.saturating_sub(len);
        self.announceable_bytes += len;
    }

    /// The same for the message with this number, which others may precede that are not settled.
    pub(crate) fn settle_number(&mut self, number: u64, len: usize) {
        if number != self.settled + 1 {
            self.early.insert(number, len);
            self.unsettled_bytes = self.unsettled_bytes.saturating_sub(len);
            return;
        }
        self.settle(len);
        while let Some(len) = self.early.remove(&(self.settled + 1)) {
            self.settled += 1;
            self.announceable_bytes += len;
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        self.settled > self.announced
    }

    /// True if the peer may wait for the news, or keeps much for lack of them.
    pub(crate) fn is_urgent(&self) -> bool {
        let limit = window(Class::Output);
        let counted_by_peer = self.unsettled_bytes + self.announceable_bytes;
        self.announceable_bytes >= limit / 4
            || self.settled - self.announced >= SETTLED_MANY
            || (self.unsettled_bytes < limit && counted_by_peer >= limit)
    }

    pub(crate) fn announce(&mut self) -> u64 {
        (self.announced, self.announceable_bytes) = (self.settled, 0);
        self.settled
    }
}

/// Settled messages that are announced without waiting for the next sign of life.
const SETTLED_MANY: u64 = 32;
