//! Output that comes up from the nodes below and from the ranks of this one, on its way to the node above:
//! equal lines of several of them go on once.
//!
//! Each child of the node, and the node itself, is a source of records, whose order stays. What a source has
//! sent is settled when the records that carry it on are, so that the loss of this node loses no output of
//! the nodes below: they send it again to the node above, and the head knows positions in the stream of each
//! rank.

use super::collapse::{Collapse, Group};
use super::record::{OutputRecord, TextPlace};
use super::record_queue::RecordQueue;
use crate::placement::PlacedHosts;
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_tree::{ChildMessage, NodeId, TreeConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Records of several nodes on their way up.
#[derive(Debug)]
pub(crate) struct LineMerge {
    tree: TreeConfig,
    wait: Option<Duration>,
    jobs: BTreeMap<u32, MergedJob>,
    /// Spawned jobs that have ended, whose streams are removed when nothing of them is on its way.
    ended_jobs: BTreeSet<u32>,
    /// What each source has sent and is not passed on, in its order.
    sources: BTreeMap<NodeId, VecDeque<PendingBatch>>,
    /// Children at present.
    children: BTreeSet<NodeId>,
    /// Nodes whose ranks write no more.
    lost: BTreeSet<NodeId>,
    streams: BTreeMap<(Stream, u32), StreamMerge>,
    queue: RecordQueue,
}

/// Records of a source, and what is due when they are passed on.
#[derive(Debug, Default)]
pub(crate) struct MergeBatch {
    /// The message with the records; `None` for those of this node.
    pub(crate) message: Option<ChildMessage>,
    /// For each node of these numbers: all of its batches up to this number are here, or went before.
    pub(crate) counts: Vec<(u32, u64)>,
}

/// Records to send to the node above.
#[derive(Debug)]
pub(crate) struct MergedOutput {
    /// Messages of children that are settled when this output is.
    pub(crate) messages: Vec<ChildMessage>,
    /// As in [`MergeBatch`].
    pub(crate) counts: Vec<(u32, u64)>,
    pub(crate) records: Vec<u8>,
}

#[derive(Debug)]
struct PendingBatch {
    batch: MergeBatch,
    len_bytes: usize,
    /// Shared with each of its records that waits.
    uses: Rc<()>,
    /// Number of pieces of the queue of which the last has its last record, once none of them waits.
    end: Option<u64>,
}

/// Hosts of a job, and the number of its ranks that write.
#[derive(Debug)]
struct MergedJob {
    hosts: Rc<PlacedHosts>,
    started: u32,
}

/// Lines of one stream of one job.
#[derive(Debug)]
struct StreamMerge {
    collapse: Collapse<MergedLine, EncodedRecord>,
    /// By source that is waited for: number of its ranks whose streams have not ended.
    open: BTreeMap<NodeId, u32>,
    ended: BTreeSet<u32>,
}

/// Ranks of a line that waits, by its position in their streams: `offset` bytes behind these places.
#[derive(Debug)]
struct MergedLine {
    places: Rc<[TextPlace]>,
    offset: u64,
    _use: Rc<()>,
}

/// A record behind a line that waits. It is not merged with others.
#[derive(Debug)]
struct EncodedRecord {
    bytes: Vec<u8>,
    _use: Rc<()>,
}

impl LineMerge {
    /// An empty merge for the node of this configuration. A line waits for equal ones of other sources up to
    /// `wait` from the time at which it was written, or indefinitely.
    pub(crate) fn new(tree: TreeConfig, wait: Option<Duration>) -> Self {
        Self {
            tree,
            wait,
            jobs: BTreeMap::new(),
            ended_jobs: BTreeSet::new(),
            sources: BTreeMap::new(),
            children: BTreeSet::new(),
            lost: BTreeSet::new(),
            streams: BTreeMap::new(),
            queue: RecordQueue::default(),
        }
    }

    /// Prepares for the lines of a job, of which ranks below `started` write.
    pub(crate) fn add_job(&mut self, job: u32, hosts: Rc<PlacedHosts>, started: u32) {
        self.jobs.insert(job, MergedJob { hosts, started });
    }

    /// Forgets a spawned job whose ranks have ended, once their last lines are passed on.
    pub(crate) fn note_job_end(&mut self, job: u32) {
        self.ended_jobs.insert(job);
        self.forget_ended();
    }

    fn forget_ended(&mut self) {
        let Self { ended_jobs, streams, jobs, .. } = self;
        streams.retain(|(_, job), stream| !ended_jobs.contains(job) || stream.is_expected());
        jobs.retain(|job, _| !ended_jobs.contains(job) || streams.keys().any(|(_, of)| of == job));
    }

    /// Waits for no further lines of a job, or of any, and passes on those that wait.
    pub(crate) fn end_job(&mut self, job: Option<u32>) {
        self.jobs.retain(|of, _| job.is_some_and(|job| job != *of));
        for (key, stream) in &mut self.streams {
            if job.is_none_or(|job| job == key.1) {
                stream.open.keys().for_each(|source| stream.collapse.close(source.0));
                stream.open.clear();
                stream.hurry(*key, None, &mut self.queue);
            }
        }
        self.streams.retain(|(_, of), _| job.is_some_and(|job| job != *of));
    }

    /// Sets the children of this node. The lines of one that is gone wait no longer.
    pub(crate) fn set_children(&mut self, children: impl Iterator<Item = NodeId>) {
        let children: BTreeSet<NodeId> = children.collect();
        if children == self.children {
            return;
        }
        let former = std::mem::replace(&mut self.children, children);
        for (key, stream) in &mut self.streams {
            for gone in former.difference(&self.children) {
                stream.open.remove(gone);
                stream.collapse.close(gone.0);
                stream.hurry(*key, Some(*gone), &mut self.queue);
            }
            if let Some(job) = self.jobs.get(&key.1) {
                for new in self.children.difference(&former) {
                    stream.expect(*new, job, (&self.tree, &self.lost));
                }
            }
        }
    }

    /// Waits for no further lines of the ranks of a lost node.
    pub(crate) fn lose_node(&mut self, node: NodeId) {
        self.lost.insert(node);
        for ((_, number), stream) in &mut self.streams {
            let Some(job) = self.jobs.get(number) else { continue };
            let ranks: Vec<u32> = job.ranks_of(node).collect();
            ranks.into_iter().for_each(|rank| stream.end(rank, job, &self.tree));
        }
    }

    /// True if few records wait to be sent to the node above, so that the ranks of this node may write more.
    pub(crate) fn takes_own(&self) -> bool {
        self.pending_bytes(self.tree.node) < SOURCE_BYTES && !self.queue.has_many()
    }

    /// Takes records of a source: of a child, or of this node.
    pub(crate) fn add(&mut self, from: NodeId, batch: MergeBatch, records: &[u8]) {
        let (uses, now) = (Rc::new(()), clock::now());
        let mut rest = records;
        while let Some(record) = OutputRecord::next(&mut rest) {
            match record {
                OutputRecord::Shared { job, stream, held_ms, is_whole: true, places, text } => {
                    let held = Duration::from_millis(held_ms.into());
                    let since = now.checked_sub(held).unwrap_or(now);
                    let (places, mut offset) = (Rc::<[TextPlace]>::from(places), 0);
                    let lines = self.stream((stream, job));
                    for line in text.split_inclusive(|byte| *byte == b'\n') {
                        let merged = MergedLine {
                            places: Rc::clone(&places),
                            offset,
                            _use: Rc::clone(&uses),
                        };
                        lines.push(from, (line, merged), since);
                        offset += line.len() as u64;
                    }
                }
                OutputRecord::Ended { job, rank, stream } => {
                    self.pass_whole(from, (stream, job), &record, &uses);
                    if let (Some(lines), Some(job)) =
                        (self.streams.get_mut(&(stream, job)), self.jobs.get(&job))
                    {
                        lines.end(rank, job, &self.tree);
                    }
                }
                OutputRecord::Shared { job, stream, .. }
                | OutputRecord::Text { job, stream, .. } => {
                    self.pass_whole(from, (stream, job), &record, &uses);
                }
                OutputRecord::Message { .. } | OutputRecord::UpToDate { .. } => {
                    self.queue.put(&record);
                }
            }
        }
        let pending = PendingBatch { batch, len_bytes: records.len(), uses, end: None };
        self.sources.entry(from).or_default().push_back(pending);
        self.release(now);
        // The rest of its credit is needed until what is sent now is settled.
        if self.pending_bytes(from) >= SOURCE_BYTES {
            for (key, stream) in &mut self.streams {
                stream.hurry(*key, Some(from), &mut self.queue);
            }
        }
        if !self.ended_jobs.is_empty() {
            self.forget_ended();
        }
    }

    /// The same for records of this node.
    pub(crate) fn add_own(&mut self, number: u64, records: &[u8]) {
        let node = self.tree.node;
        self.add(node, MergeBatch { message: None, counts: vec![(node.0, number)] }, records);
    }

    fn pass_whole(
        &mut self,
        from: NodeId,
        key: (Stream, u32),
        record: &OutputRecord<'_>,
        uses: &Rc<()>,
    ) {
        self.stream(key);
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let encoded = || {
            let mut bytes = Vec::new();
            record.append(&mut bytes);
            EncodedRecord { bytes, _use: Rc::clone(uses) }
        };
        if !stream.collapse.follow(from.0, encoded) {
            self.queue.put(record);
        }
    }

    /// Lines of a stream of a job, created if these are the first.
    fn stream(&mut self, key: (Stream, u32)) -> &mut StreamMerge {
        let Self { tree, wait, jobs, children, lost, streams, .. } = self;
        streams.entry(key).or_insert_with(|| {
            let mut stream = StreamMerge::new(*wait);
            if let Some(job) = jobs.get(&key.1) {
                let sources = children.iter().copied().chain([tree.node]);
                sources.for_each(|source| stream.expect(source, job, (tree, lost)));
            }
            stream
        })
    }

    /// Bytes of a source that are not settled because a record waits: those of the first batch with such a
    /// record, and of all behind it.
    fn pending_bytes(&self, source: NodeId) -> usize {
        let batches = self.sources.get(&source).into_iter().flatten();
        batches.skip_while(|pending| !pending.waits()).map(|pending| pending.len_bytes).sum()
    }

    /// Passes on what need not wait any longer.
    pub(crate) fn release(&mut self, now: Instant) {
        for (key, stream) in &mut self.streams {
            stream.collapse.release(now, |group| pass(*key, group, &mut self.queue));
        }
    }

    /// Time of the next [`release`](Self::release) without new records.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.streams.values().filter_map(|stream| stream.collapse.deadline()).min()
    }

    /// The next records to send; `None` if there are none.
    pub(crate) fn take(&mut self) -> Option<MergedOutput> {
        let end = self.queue.end();
        let batches = self.sources.values_mut();
        for passed in batches.flat_map(|all| all.iter_mut().take_while(|one| !one.waits())) {
            passed.end.get_or_insert(end);
        }
        let records = self.queue.take();
        let taken = self.queue.taken();
        let (mut messages, mut counts) = (Vec::new(), BTreeMap::new());
        // Records of batches that end here are in these records, or in earlier ones.
        for batches in self.sources.values_mut() {
            while batches.front().and_then(|first| first.end).is_some_and(|end| end <= taken)
                && let Some(PendingBatch { batch, .. }) = batches.pop_front()
            {
                messages.extend(batch.message);
                counts.extend(batch.counts);
            }
        }
        self.sources.retain(|_, batches| !batches.is_empty());
        if records.is_empty() && messages.is_empty() && counts.is_empty() {
            return None;
        }
        Some(MergedOutput { messages, counts: counts.into_iter().collect(), records })
    }
}

impl PendingBatch {
    /// True if one of its records waits for lines of other sources.
    fn waits(&self) -> bool {
        Rc::strong_count(&self.uses) > 1
    }
}

impl MergedJob {
    /// Ranks that write, of a node.
    fn ranks_of(&self, node: NodeId) -> impl Iterator<Item = u32> {
        let ranks = node.0.checked_sub(1).map(|host| self.hosts.map.ranks_of(host));
        ranks.into_iter().flatten().filter(|rank| *rank < self.started)
    }

    /// The node of a rank that writes.
    fn node_of(&self, rank: u32) -> Option<NodeId> {
        let host = self.hosts.map.node_of(rank).filter(|_| rank < self.started);
        host.map(|host| NodeId(host + 1))
    }
}

impl StreamMerge {
    fn new(wait: Option<Duration>) -> Self {
        Self { collapse: Collapse::new(0, wait), open: BTreeMap::new(), ended: BTreeSet::new() }
    }

    /// Waits for lines of a source, if it has ranks of the job that may write some.
    fn expect(
        &mut self,
        source: NodeId,
        job: &MergedJob,
        (tree, lost): (&TreeConfig, &BTreeSet<NodeId>),
    ) {
        let hosts = 1..=job.hosts.map.nodes();
        let nodes = hosts.map(NodeId).filter(|node| is_of(source, *node, tree));
        let nodes = nodes.filter(|node| !lost.contains(node));
        let ranks = nodes.flat_map(|node| job.ranks_of(node));
        let open = ranks.filter(|rank| !self.ended.contains(rank)).count();
        if open > 0 && !self.collapse.has(source.0) {
            self.collapse.open(source.0);
        }
        if let Ok(open @ 1..) = u32::try_from(open) {
            self.open.insert(source, open);
        }
    }

    /// The stream of a rank has ended.
    fn end(&mut self, rank: u32, job: &MergedJob, tree: &TreeConfig) {
        let Some(node) = job.node_of(rank).filter(|_| self.ended.insert(rank)) else { return };
        for (source, open) in self.open.iter_mut().filter(|(of, _)| is_of(**of, node, tree)) {
            *open -= 1;
            if *open == 0 {
                self.collapse.close(source.0);
            }
        }
        self.open.retain(|_, open| *open > 0);
    }

    /// True if lines wait, or ranks may write more.
    fn is_expected(&self) -> bool {
        !self.open.is_empty() || !self.collapse.is_empty()
    }

    /// Queues a line of a source.
    fn push(&mut self, from: NodeId, line: (&[u8], MergedLine), since: Instant) {
        if !self.collapse.has(from.0) {
            self.collapse.open(from.0);
        }
        self.collapse.push(from.0, line, since);
        if !self.open.contains_key(&from) {
            self.collapse.close(from.0);
        }
    }

    /// Passes on all that a source has in its queue, or all sources.
    fn hurry(&mut self, key: (Stream, u32), from: Option<NodeId>, queue: &mut RecordQueue) {
        match from {
            Some(from) => self.collapse.release_source(from.0, |group| pass(key, group, queue)),
            None => self.collapse.release_all(|group| pass(key, group, queue)),
        }
    }
}

/// Passes on a line of one or several sources, and the records behind it up to the next line of each.
fn pass(
    (stream, job): (Stream, u32),
    group: Group<MergedLine, EncodedRecord>,
    queue: &mut RecordQueue,
) {
    let mut all = Vec::new();
    for MergedLine { places, offset, .. } in &group.data {
        let moved = |TextPlace { at, ranks }: &TextPlace| TextPlace {
            at: at.saturating_add(*offset),
            ranks: ranks.clone(),
        };
        all.extend(places.iter().map(moved));
    }
    queue.put_line((job, stream), TextPlace::united(all), (&group.line, group.since));
    for (_, EncodedRecord { bytes, .. }) in &group.followers {
        queue.put_bytes(bytes);
    }
}

/// True if output of `node` comes from `source`: from the node itself, or from one that is above it.
fn is_of(source: NodeId, node: NodeId, tree: &TreeConfig) -> bool {
    node == source || (source != tree.node && node.is_below(source, tree.radix))
}

/// With this much of a source waiting, its lines go on without waiting for equal ones: less than half of what
/// may be under way on an edge.
const SOURCE_BYTES: usize = 96 * 1024;

#[cfg(test)]
mod tests;
