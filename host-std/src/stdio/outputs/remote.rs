//! Output between two nodes: its queue on the node of a rank, and its arrival at the head of the run.

use super::super::StreamOwner;
use super::super::gather::{Gather, NodeGather};
use super::super::label::Labels;
use super::super::merge::LineMerge;
use super::super::outlet::{TextPositions, Writer};
use super::super::places::Places;
use super::{LineTreatment, Outputs, Pipes, SCRATCH, gathered};
use crate::numbers::index;
use crate::placement::PlacedHosts;
use pmi_host_os::stream::Stream;
use pmi_tree::TreeConfig;
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Output of the ranks of a node on its way to the head, which decides when unfinished lines are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeOutput {
    /// True if both output streams of a rank are one pipe, which keeps the order of writes to both.
    pub(crate) are_one: bool,
    /// Lines that are gathered before.
    pub(crate) gather: Option<NodeGather>,
}

impl Outputs {
    /// Prepares the output of a node of this tree, whose lines go to the head of the run.
    pub(crate) fn of_node(output: NodeOutput, tree: TreeConfig) -> Self {
        let NodeOutput { are_one, gather } = output;
        let positions = gather.map(|_| TextPositions::new(tree.node.0));
        Self {
            labels: Labels::none(),
            gather: gather.map(|gather| Gather::of_node(gather.at_rank(&tree))),
            merge: gather.map(|gather| LineMerge::new(tree, gather.at_node(&tree))),
            places: Places::of_node(are_one, positions),
            pipes: Pipes::default(),
            open_count: 0,
            held_bytes: 0,
            unfinished: BTreeSet::new(),
            open_lines: BTreeMap::new(),
            closed_descriptors: BTreeSet::new(),
            scratch: Vec::with_capacity(SCRATCH),
            tapped: None,
            wanted: Vec::new(),
        }
    }

    /// Expects output of a rank that was started on another node, which [`receive`](Self::receive) takes.
    pub(crate) fn add_remote(&mut self, (process, seat): (u32, StreamOwner)) {
        for stream in self.places.streams() {
            if let Some((place, way)) = self.treatment(stream, seat) {
                self.insert((process, stream), (place, seat), None, way);
            }
        }
    }

    /// The same for a rank with a terminal, whose output is copied to standard output unchanged.
    pub(crate) fn add_remote_terminal(&mut self, (process, seat): (u32, StreamOwner)) {
        if let Some(gather) = &mut self.gather {
            Stream::BOTH.into_iter().for_each(|stream| gather.skip(stream, seat));
        }
        let place = self.places.ours(Stream::Out);
        self.insert((process, Stream::Out), (place, seat), None, LineTreatment::Raw);
    }

    /// Takes text that several ranks of a job have written, and that has waited on their node for this time.
    pub(crate) fn receive_shared(
        &mut self,
        (stream, processes): (Stream, &[u32]),
        text: &[u8],
        held: Duration,
    ) {
        for process in processes {
            self.take_text((stream, *process), text, held);
        }
        // All of them are of one job.
        processes.first().iter().for_each(|process| gathered::release(self, stream, **process));
    }

    /// Streams of ranks whose nodes are to be asked for the rest of a line, since the last call.
    pub(crate) fn take_wanted(&mut self) -> Vec<(u32, Stream)> {
        std::mem::take(&mut self.wanted)
    }

    /// Ends the unfinished line of a rank whose node has said that all of it so far has arrived.
    pub(crate) fn end_wanted(&mut self, stream: Stream, process: u32) {
        let pipe = self.pipes.get_mut(process, stream);
        let Some(pipe) = pipe.filter(|pipe| pipe.is_wanted) else { return };
        pipe.is_wanted = false;
        let writer = Writer::Rank(pipe.seat, stream);
        for place in [Some(pipe.place), pipe.copy].into_iter().flatten() {
            let outlet = self.places.outlet(place);
            let waiting = outlet.filter(|outlet| outlet.begun_by() == Some(writer));
            if let Some(outlet) = waiting.filter(|outlet| outlet.deferred_until().is_some()) {
                outlet.end_line();
            }
        }
    }

    /// Reads what a rank of this node has written, and passes it on, also without the end of its line; the
    /// head knows then that it has all of it.
    pub(crate) fn bring_up_to_date(&mut self, stream: Stream, process: u32, owner: StreamOwner) {
        if self.has(stream, process, PollFlags::IN) {
            self.read_now(stream, process);
        }
        if self.pipes.get(process, stream).is_some() {
            self.let_go(stream, process, true);
        }
        if let Some(outlet) = self.places.outlet(self.places.ours(stream)) {
            outlet.put_up_to_date(owner, stream);
        }
    }

    /// Ends a stream of a rank of another node.
    pub(crate) fn end_remote(&mut self, stream: Stream, process: u32) {
        if index(process) < self.pipes.len() {
            self.end(stream, index(process));
        }
    }

    /// Further ranks of a job (of all, if `None`) will not be started.
    pub(crate) fn expect_no_more(&mut self, group: Option<u32>) {
        if let Some(gather) = &mut self.gather {
            gather.expect_no_more(group);
        }
        if let Some(merge) = &mut self.merge {
            merge.end_job(group);
        }
    }

    /// Takes the queued output of a node, to send it to the head.
    pub(crate) fn take_records(&mut self) -> Vec<u8> {
        self.places.take_records()
    }

    /// Prepares for the lines of a job on these hosts, of which ranks below `started` write, if equal ones
    /// are written once.
    pub(crate) fn merge_job(&mut self, group: u32, hosts: &Rc<PlacedHosts>, started: u32) {
        if let Some(merge) = &mut self.merge {
            merge.add_job(group, Rc::clone(hosts), started);
        }
    }

    /// Adds queued output of this node to what is merged, as batch `number`. Returns true if there was any.
    pub(crate) fn merge_own(&mut self, number: u64) -> bool {
        let Some(merge) = self.merge.as_mut().filter(|merge| merge.takes_own()) else {
            return false;
        };
        let records = self.places.take_records();
        if !records.is_empty() {
            merge.add_own(number, &records);
        }
        !records.is_empty()
    }

    /// The lines of this node and of those below, if equal ones are written once.
    pub(crate) fn merge(&mut self) -> Option<&mut LineMerge> {
        self.merge.as_mut()
    }

    /// True if equal lines of several ranks are written once.
    pub(crate) const fn is_gathering(&self) -> bool {
        self.gather.is_some()
    }

    /// True if output of ranks has to wait for a slow reader.
    pub(crate) fn is_any_full(&self) -> bool {
        self.places.is_any_full()
    }

    /// Stops reading a stream of all ranks, whose reader has gone: those that continue to write get the
    /// error of the system.
    pub(crate) fn close_stream(&mut self, stream: Stream) {
        for process in 0..self.pipes.len() {
            self.end(stream, process);
        }
    }

    /// True if the launcher's own `stream` has no reader any more, and ranks write to it.
    pub(crate) fn is_closed(&self, stream: Stream) -> bool {
        self.places.is_ours(stream) && self.places.is_closed(self.places.ours(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stdio::record::OutputRecord;
    use pmi_host_os::poller::Poller;
    use pmi_tree::NodeId;
    use rustix::event::{PollFd, poll};
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::os::fd::OwnedFd;

    /// A pipe, and a copy of its end for reading, which shows whether a writer is left.
    fn pipe() -> (OwnedFd, OwnedFd, OwnedFd) {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let copy = reader.try_clone().unwrap();
        (reader, writer, copy)
    }

    /// Closes a pipe for writing. A process that another test starts just now may have it for a moment.
    fn close(writer: OwnedFd, copy: &OwnedFd) {
        drop(writer);
        poll(&mut [PollFd::new(copy, PollFlags::empty())], None).unwrap();
    }

    /// Records of a node of eight ranks, which have written these lines one after the other and ended.
    fn records(gather: Option<NodeGather>, lines: impl Fn(u32) -> String) -> Vec<u8> {
        let poller = Poller::new().unwrap();
        let output = NodeOutput { are_one: false, gather };
        let mut outputs = Outputs::of_node(output, TREE);
        outputs.prepare(0, 8).unwrap();
        let mut records = Vec::new();
        let mut writers = Vec::new();
        for rank in 0..8 {
            for stream in Stream::BOTH {
                let (reader, writer, copy) = pipe();
                let owner = StreamOwner { group: 0, rank };
                outputs.add((rank, owner), stream, reader, &poller).unwrap();
                writers.push((rank, stream, writer, copy));
            }
        }
        for (rank, stream, writer, copy) in writers {
            if stream == Stream::Out {
                rustix::io::write(&writer, lines(rank).as_bytes()).unwrap();
                outputs.read(stream, rank);
            }
            close(writer, &copy);
            outputs.read(stream, rank);
            records.extend(outputs.take_records());
        }
        assert!(outputs.is_done() || !outputs.is_open());
        records
    }

    /// Texts with the numbers of their ranks, and the number of ends, each of which is behind all texts of
    /// its rank.
    fn read(mut records: &[u8]) -> (Vec<(Vec<u32>, String)>, usize) {
        let (mut texts, mut ended) = (Vec::new(), BTreeSet::new());
        while let Some(record) = OutputRecord::next(&mut records) {
            let (ranks, text) = match record {
                OutputRecord::Text { rank, text, .. } => (vec![rank], text),
                OutputRecord::Shared { places, text, .. } => {
                    let ranks = places.iter().flat_map(|place| place.ranks.iter());
                    let mut ranks: Vec<u32> = ranks.collect();
                    ranks.sort_unstable();
                    (ranks, text)
                }
                OutputRecord::Ended { rank, stream, .. } => {
                    assert!(ended.insert((rank, stream)), "the end of {rank} twice");
                    continue;
                }
                OutputRecord::Message { .. } | OutputRecord::UpToDate { .. } => {
                    panic!("no rank has written it")
                }
            };
            assert!(ranks.iter().all(|rank| !ended.contains(&(*rank, Stream::Out))), "{ranks:?}");
            texts.push((ranks, String::from_utf8(text.to_vec()).unwrap()));
        }
        assert!(records.is_empty());
        (texts, ended.len())
    }

    const TREE: TreeConfig = TreeConfig::new(NodeId(1), 2);

    const GATHER: NodeGather = NodeGather { streams: [true; 2], wait: None };

    #[test]
    fn node_sends_equal_lines_of_its_ranks_once() {
        let lines = |_| "a line that all ranks write\n".repeat(20);
        let (one, each) = (records(Some(GATHER), lines), records(None, lines));
        let all: Vec<u32> = (0..8).collect();
        let (texts, ends) = read(&one);
        assert_eq!(texts, [(all, lines(0))]);
        assert_eq!((ends, read(&each).1), (16, 16));
        assert!(one.len() * 7 < each.len(), "{} bytes instead of {}", one.len(), each.len());
    }

    #[test]
    fn lines_that_differ_keep_their_order_in_each_rank() {
        let lines = |rank| format!("first\nof {}\nlast", rank % 2);
        let (texts, ends) = read(&records(Some(GATHER), lines));
        let (even, odd) = (vec![0, 2, 4, 6], vec![1, 3, 5, 7]);
        let all: Vec<u32> = (0..8).collect();
        let expected = [(&all, "first\n"), (&even, "of 0\n"), (&odd, "of 1\n"), (&all, "last")];
        assert_eq!(texts, expected.map(|(ranks, text)| (ranks.clone(), text.to_owned())));
        assert_eq!(ends, 16);
    }

    #[test]
    fn text_without_line_end_is_sent_at_once() {
        let poller = Poller::new().unwrap();
        let mut outputs = Outputs::of_node(NodeOutput { are_one: false, gather: None }, TREE);
        outputs.prepare(0, 2).unwrap();
        let (reader, writer, _) = pipe();
        let owner = StreamOwner { group: 0, rank: 0 };
        outputs.add((0, owner), Stream::Out, reader, &poller).unwrap();
        for text in ["steps", "? ", "one\nname? "] {
            rustix::io::write(&writer, text.as_bytes()).unwrap();
            outputs.read(Stream::Out, 0);
            let (texts, _) = read(&outputs.take_records());
            assert_eq!(texts, [(vec![0], text.to_owned())]);
        }
    }

    #[test]
    fn lines_of_a_rank_that_starts_after_the_end_of_all_others_are_sent() {
        let poller = Poller::new().unwrap();
        let node = NodeOutput { are_one: true, gather: Some(GATHER) };
        let mut outputs = Outputs::of_node(node, TREE);
        outputs.prepare(0, 2).unwrap();
        outputs.expect_no_more(None);
        for rank in 0..2 {
            let (reader, writer, copy) = pipe();
            let owner = StreamOwner { group: 0, rank };
            outputs.add((rank, owner), Stream::Out, reader, &poller).unwrap();
            rustix::io::write(&writer, b"last\n").unwrap();
            close(writer, &copy);
            outputs.read(Stream::Out, rank);
            outputs.read(Stream::Out, rank);
            let (texts, ends) = read(&outputs.take_records());
            assert_eq!((texts, ends), (vec![(vec![rank], "last\n".to_owned())], 1));
        }
    }

    #[test]
    fn stream_that_goes_to_files_is_not_gathered() {
        let gather = NodeGather { streams: [false, true], ..GATHER };
        let (texts, ends) = read(&records(Some(gather), |_| "same\n".to_owned()));
        assert_eq!((texts.len(), ends), (8, 16));
        let wait = NodeGather { wait: Some(Duration::ZERO), ..GATHER };
        // Nothing waits: each line is one record.
        let (texts, ends) = read(&records(Some(wait), |_| "same\n".to_owned()));
        assert_eq!((texts.len(), ends), (8, 16));
    }
}
