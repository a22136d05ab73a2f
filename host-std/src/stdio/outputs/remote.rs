//! Output between two nodes: its queue on the node of a rank, and its arrival at the head of the run.

use super::super::StreamOwner;
use super::super::label::Labels;
use super::super::places::Places;
use super::{LineTreatment, Outputs, SCRATCH};
use crate::numbers::index;
use crate::stream::Stream;
use std::collections::BTreeSet;

impl Outputs {
    /// Prepares the output of a node whose lines go to the head of the run. With `are_one`, both streams of a
    /// rank are one pipe. An unfinished line is sent after a while if it `shows_prompts`.
    pub(crate) fn of_node(are_one: bool, shows_prompts: bool) -> Self {
        Self {
            labels: Labels::none(),
            gather: None,
            places: Places::of_node(are_one, shows_prompts),
            pipes: Vec::new(),
            open_count: 0,
            held_bytes: 0,
            unfinished: BTreeSet::new(),
            scratch: Vec::with_capacity(SCRATCH),
            tapped: None,
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

    /// Ends a stream of a rank of another node.
    pub(crate) fn end_remote(&mut self, stream: Stream, process: u32) {
        if index(process) < self.pipes.len() {
            self.end(stream, index(process));
        }
    }

    /// Takes the queued output of a node, to send it to the head.
    pub(crate) fn take_records(&mut self) -> Vec<u8> {
        self.places.take_records()
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
