//! Output of all ranks, from their pipes to its places.

mod gathered;
mod hold;
mod remote;
#[cfg(test)]
mod tests;

pub(crate) use remote::NodeOutput;

use super::StreamOwner;
use super::files::FileError;
use super::gather::Gather;
use super::label::{Labels, RankNodes};
use super::line_buffer::LineBuffer;
use super::merge::LineMerge;
use super::outlet::{Flushed, Writer};
use super::pattern::PatternError;
use super::places::{PassOn, PlaceChange, Places};
use crate::numbers::index;
use crate::numbers::number;
use crate::settings::Output;
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::stream::Stream;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// The pipes of all ranks and the places they lead to.
#[derive(Debug)]
pub(crate) struct Outputs {
    labels: Labels,
    /// For the launcher's own streams, if lines are to be gathered.
    gather: Option<Gather>,
    /// On a node that gathers lines: those of the nodes below, too.
    merge: Option<LineMerge>,
    places: Places,
    pipes: Pipes,
    open_count: usize,
    /// Total size of all unfinished lines.
    held_bytes: usize,
    /// Unfinished lines that are held, with the moment at which they are passed on.
    unfinished: BTreeSet<(Instant, u32, Stream)>,
    /// By place: pipes whose last line is unfinished, whether it is held or passed on.
    open_lines: BTreeMap<u32, BTreeSet<(u32, Stream)>>,
    /// Buffer shared by all reads. Only memory that output has once filled is ever touched.
    scratch: Vec<u8>,
    /// Processes of this node that have written that an MPI library found its descriptor closed.
    closed_descriptors: BTreeSet<u32>,
    /// Copy of the output for tools, if they are admitted: process, stream and text, which is empty at the
    /// end.
    tapped: Option<Vec<(u32, Stream, Vec<u8>)>>,
    /// Streams of ranks whose nodes are to be asked for the rest of a line.
    wanted: Vec<(u32, Stream)>,
}

/// Pipes by number of the process, then by stream.
#[derive(Debug, Default)]
struct Pipes(Vec<[Option<OutputPipe>; 2]>);

/// The reading end of a pipe and its unfinished line.
#[derive(Debug)]
struct OutputPipe {
    /// `None` for a rank of another node, whose output comes in messages.
    fd: Option<OwnedFd>,
    place: u32,
    /// Second place, where the same text goes.
    copy: Option<u32>,
    /// True while the poller does not report it, since a place is full.
    is_held: bool,
    seat: StreamOwner,
    way: LineTreatment,
    lines: LineBuffer,
    /// True if its last line is unfinished, whether it is held or passed on.
    is_unfinished: bool,
    /// Time at which its unfinished line is passed on, if at all.
    shown_at: Option<Instant>,
    /// True while its node is to say that all that belongs to the unfinished line so far has arrived.
    is_wanted: bool,
}

/// Treatment of text between a pipe and its place.
#[derive(Debug)]
enum LineTreatment {
    /// By lines, after this label. It is empty if there is none, or if it is rendered anew each time.
    Labelled(Box<[u8]>),
    /// Together with lines of other ranks.
    Gathered,
    /// Unchanged, as on a terminal.
    Raw,
}

/// Result of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Some,
    Later,
    End,
}

impl Pipes {
    fn get(&self, process: u32, stream: Stream) -> Option<&OutputPipe> {
        self.0.get(index(process))?[stream.index()].as_ref()
    }

    fn get_mut(&mut self, process: u32, stream: Stream) -> Option<&mut OutputPipe> {
        self.0.get_mut(index(process))?[stream.index()].as_mut()
    }

    fn insert(&mut self, process: u32, stream: Stream, pipe: OutputPipe) {
        let needed = self.0.len().max(index(process) + 1);
        self.0.resize_with(needed, || [None, None]);
        self.0[index(process)][stream.index()] = Some(pipe);
    }

    fn take(&mut self, process: u32, stream: Stream) -> Option<OutputPipe> {
        self.0.get_mut(index(process))?[stream.index()].take()
    }

    /// Number of processes, all of which have smaller numbers.
    fn len(&self) -> usize {
        self.0.len()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut [Option<OutputPipe>; 2]> {
        self.0.iter_mut()
    }
}

impl Outputs {
    /// Prepares the launcher's own streams for ranks on `nodes`.
    pub(crate) fn new(settings: &Output, nodes: RankNodes) -> Result<Self, PatternError> {
        Ok(Self {
            labels: Labels::new(settings, nodes.clone())?,
            gather: settings.collapse.then(|| Gather::new(settings, nodes)).transpose()?,
            merge: None,
            places: Places::new(settings)?,
            pipes: Pipes::default(),
            open_count: 0,
            held_bytes: 0,
            unfinished: BTreeSet::new(),
            open_lines: BTreeMap::new(),
            closed_descriptors: BTreeSet::new(),
            scratch: Vec::with_capacity(SCRATCH),
            tapped: None,
            wanted: Vec::new(),
        })
    }

    /// Keeps a copy of all output from now on, until [`take_tapped`](Self::take_tapped).
    pub(crate) fn tap(&mut self) {
        self.tapped.get_or_insert_default();
    }

    /// The copy so far: process, stream and text, which is empty at the end.
    pub(crate) fn take_tapped(&mut self) -> Vec<(u32, Stream, Vec<u8>)> {
        self.tapped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Prepares for the ranks of a job, and opens their files, if any.
    ///
    /// # Errors
    ///
    /// [`FileError`]; no new file was opened then.
    pub(crate) fn prepare(&mut self, group: u32, ranks: u32) -> Result<(), FileError> {
        self.places.prepare(&self.labels, group, ranks)?;
        if let Some(gather) = &mut self.gather {
            for stream in self.places.streams().filter(|stream| self.places.is_ours(*stream)) {
                gather.expect(stream, group, ranks);
            }
        }
        Ok(())
    }

    /// Takes over a pipe of a rank that was started.
    pub(crate) fn add(
        &mut self,
        (process, seat): (u32, StreamOwner),
        stream: Stream,
        fd: OwnedFd,
        poller: &Poller,
    ) -> io::Result<()> {
        let Some((place, way)) = self.treatment(stream, seat) else { return Ok(()) };
        poller.add(Token::Output(stream, process), &fd, Interest::Read)?;
        self.insert((process, stream), (place, seat), Some(fd), way);
        Ok(())
    }

    /// Place of a stream of a rank, and the treatment of its text; `None` without a reader: the rank gets the
    /// error when it writes.
    fn treatment(&mut self, stream: Stream, seat: StreamOwner) -> Option<(u32, LineTreatment)> {
        let place = self.places.of(&self.labels, stream, seat);
        let is_ours = self.places.is_ours(stream);
        let gather = self.gather.as_mut().filter(|gather| is_ours && gather.takes(stream));
        let Some(place) = place else {
            if let Some(gather) = gather {
                gather.skip(stream, seat);
            }
            return None;
        };
        let way = match gather {
            Some(gather) => {
                gather.open(stream, seat);
                LineTreatment::Gathered
            }
            None if self.labels.shows_time() => LineTreatment::Labelled(Box::default()),
            None => {
                let label = self.labels.text(seat.group, &[seat.rank], clock::now());
                LineTreatment::Labelled(label.into_bytes().into())
            }
        };
        Some((place, way))
    }

    /// Takes over the launcher's end of the terminal of a rank. Output of the rank there is copied to
    /// standard output unchanged.
    pub(crate) fn add_terminal(
        &mut self,
        (process, seat): (u32, StreamOwner),
        fd: OwnedFd,
        poller: &Poller,
    ) -> io::Result<()> {
        if let Some(gather) = &mut self.gather {
            Stream::BOTH.into_iter().for_each(|stream| gather.skip(stream, seat));
        }
        let place = self.places.ours(Stream::Out);
        poller.add(Token::Output(Stream::Out, process), &fd, Interest::Read)?;
        self.insert((process, Stream::Out), (place, seat), Some(fd), LineTreatment::Raw);
        Ok(())
    }

    /// Sets the rank for which terminals are raw, or none.
    pub(crate) fn set_raw(&mut self, seat: Option<StreamOwner>) {
        self.places.set_raw(seat.map(|seat| Writer::Rank(seat, Stream::Out)));
    }

    /// Reads from the pipe of a rank, once. The poller reports the rest again.
    pub(crate) fn read(&mut self, stream: Stream, process: u32) {
        self.read_once(stream, process);
    }

    /// Reads all that a rank has written so far, so that its last output precedes messages of the
    /// launcher.
    pub(crate) fn drain(&mut self, process: u32) {
        self.read_all(process);
        Stream::BOTH.into_iter().for_each(|stream| gathered::hurry(self, stream, process));
    }

    /// Reads all that a rank has written so far. Its lines still wait for equal ones of others.
    pub(crate) fn read_all(&mut self, process: u32) {
        for stream in Stream::BOTH {
            while self.has_something(stream, process)
                && self.read_once(stream, process) == Read::Some
            {}
        }
    }

    /// Writes `text` to the place of a rank's stream, as a line of its own after the rank's output so
    /// far; false if the place has no reader or is full.
    pub(crate) fn log(&mut self, stream: Stream, process: u32, text: &[u8]) -> bool {
        if self.has_something(stream, process) {
            self.read_once(stream, process);
        }
        let pipe = self.pipes.get(process, stream);
        let Some(OutputPipe { place, seat, way, .. }) = pipe else { return false };
        let Some(outlet) = self.places.outlet(*place).filter(|outlet| !outlet.is_full()) else {
            return false;
        };
        let line = log_line(text);
        match (way, &mut self.gather) {
            (LineTreatment::Gathered, Some(gather)) => {
                gather.push((stream, *seat), (&line, Duration::ZERO), outlet);
                gather.release((stream, seat.group), outlet);
            }
            (way, _) => {
                let label = label(&self.labels, *seat, way);
                outlet.put(Writer::Rank(*seat, stream), &label, &line);
            }
        }
        true
    }

    /// Writes `text` to the launcher's own stream, as a line without a label; false if it is full.
    pub(crate) fn log_of_tool(&mut self, stream: Stream, text: &[u8]) -> bool {
        let outlet = self.places.outlet(self.places.ours(stream));
        let Some(outlet) = outlet.filter(|outlet| !outlet.is_full()) else { return false };
        outlet.put(Writer::Launcher, b"", &log_line(text));
        true
    }

    /// Adds a line of the launcher to standard error.
    pub(crate) fn write_message(&mut self, what: impl std::fmt::Display) {
        self.places.write_message(what);
    }

    /// True if standard error is a terminal.
    pub(crate) fn is_watched_by_user(&self) -> bool {
        self.places.is_watched_by_user()
    }

    /// Shows a line on the terminal of standard error until other output comes, or removes it.
    pub(crate) fn set_status(&mut self, status: Option<&str>) {
        self.places.set_status(status);
    }

    /// True if a process of this node, or one that it started, has written that it found the descriptor of
    /// the launcher closed, as MPICH's library does.
    pub(crate) fn has_found_descriptor_closed(&self, process: u32) -> bool {
        self.closed_descriptors.contains(&process)
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let shown_at = self.unfinished.first().map(|(at, ..)| *at);
        let merge = self.merge.as_ref().and_then(LineMerge::deadline);
        let gather = self.gather.as_ref().and_then(Gather::deadline);
        [shown_at, gather, merge, self.places.deadline()].into_iter().flatten().min()
    }

    /// Passes on unfinished lines that are due (they may be prompts), and lines that have waited long enough
    /// for equal ones, or for the end of a line of another rank.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some(&(at, process, stream)) = self.unfinished.first()
            && at <= now
        {
            self.pass_on_unfinished(stream, process, now);
        }
        for (place, writer) in self.places.overdue(now) {
            self.end_line(place, writer, now);
        }
        gathered::tick(self, now);
    }

    /// Passes on the unfinished line of a rank if it rests and cannot meet that of another.
    fn pass_on_unfinished(&mut self, stream: Stream, process: u32, now: Instant) {
        let pipe = self.pipes.get_mut(process, stream);
        let Some(pipe) = pipe else { return };
        if let Some(at) = pipe.shown_at.take() {
            self.unfinished.remove(&(at, process, stream));
        }
        let (place, copy, writer) = (pipe.place, pipe.copy, Writer::Rank(pipe.seat, stream));
        if self.places.pass_on(place) == PassOn::RestingAlone {
            if !self.is_alone(place, copy) {
                // The end of the other line arms the timer again.
                return;
            }
            // A line whose rest is in the pipe does not rest.
            if self.places.is_full(place) || self.has(stream, process, PollFlags::IN) {
                return self.arm(stream, process, now);
            }
        }
        self.let_go(stream, process, true);
        for place in [Some(place), copy].into_iter().flatten() {
            self.places.note_rest(place, writer);
        }
    }

    /// Ends the unfinished line of a writer, since text of others waits for its end. The line goes on if its
    /// rest has arrived already, and may do so if its node has not said yet that there is none.
    fn end_line(&mut self, place: u32, writer: Writer, now: Instant) {
        let open_lines = self.open_lines.get(&place).into_iter().flatten().copied();
        let mut of_writer = open_lines.filter(|(process, stream)| {
            let pipe = self.pipes.get(*process, *stream);
            pipe.is_some_and(|pipe| Writer::Rank(pipe.seat, *stream) == writer)
        });
        let begun = of_writer.next();
        let continues = self.places.is_full(place)
            || begun.is_some_and(|(process, stream)| self.has(stream, process, PollFlags::IN));
        let is_asked = !continues && begun.is_some_and(|at| self.ask_for_rest(at));
        let Some(outlet) = self.places.outlet(place) else { return };
        let goes_on = match is_asked {
            true => outlet.extend_deferral_to_limit(now),
            false => continues && outlet.extend_deferral(now),
        };
        if !goes_on {
            outlet.end_line();
        }
    }

    /// Has the node of a rank asked for the rest of its line, once. False if there is none to ask.
    fn ask_for_rest(&mut self, (process, stream): (u32, Stream)) -> bool {
        let pipe = self.pipes.get_mut(process, stream);
        let is_remote = |pipe: &&mut OutputPipe| {
            pipe.fd.is_none() && matches!(pipe.way, LineTreatment::Labelled(_))
        };
        let Some(pipe) = pipe.filter(is_remote) else { return false };
        if !std::mem::replace(&mut pipe.is_wanted, true) {
            self.wanted.push((process, stream));
        }
        true
    }

    /// True if only one rank has an unfinished line at a place and at that of its copy.
    fn is_alone(&self, place: u32, copy: Option<u32>) -> bool {
        [Some(place), copy].into_iter().flatten().all(|place| {
            let count = self.open_lines.get(&place).map_or(0, BTreeSet::len);
            count <= 1 || self.places.pass_on(place) != PassOn::RestingAlone
        })
    }

    /// Notes if the last line of a rank is unfinished. The end of a line lets the only other one go on.
    fn set_unfinished(&mut self, stream: Stream, process: u32, is_unfinished: bool) {
        let pipe = self.pipes.get_mut(process, stream);
        let Some(pipe) = pipe.filter(|pipe| pipe.is_unfinished != is_unfinished) else { return };
        pipe.is_unfinished = is_unfinished;
        for place in [Some(pipe.place), pipe.copy].into_iter().flatten() {
            let at_place = self.open_lines.entry(place).or_default();
            if is_unfinished {
                at_place.insert((process, stream));
                continue;
            }
            at_place.remove(&(process, stream));
            let only = at_place.first().copied().filter(|_| at_place.len() == 1);
            if at_place.is_empty() {
                self.open_lines.remove(&place);
            }
            if let Some((process, stream)) = only {
                self.arm(stream, process, clock::now());
            }
        }
    }

    /// Has the held part of an unfinished line passed on if it rests from this time on, unless it is due
    /// already.
    fn arm(&mut self, stream: Stream, process: u32, since: Instant) {
        let Self { pipes, places, gather, unfinished, .. } = self;
        let pipe = pipes.get_mut(process, stream);
        let is_held =
            |pipe: &&mut OutputPipe| pipe.lines.held_bytes() > 0 && pipe.shown_at.is_none();
        let Some(pipe) = pipe.filter(is_held) else { return };
        let rest = match (&pipe.way, gather) {
            // It may become a line that others write, too.
            (LineTreatment::Gathered, Some(gather))
                if places.pass_on(pipe.place) == PassOn::RestingAlone =>
            {
                gather.wait()
            }
            _ => Some(QUIET),
        };
        if let Some(rest) = rest {
            let at = since + rest.max(QUIET);
            pipe.shown_at = Some(at);
            unfinished.insert((at, process, stream));
        }
    }

    /// Has the held part of an unfinished line passed on at this time.
    fn arm_at(&mut self, stream: Stream, process: u32, at: Instant) {
        let Self { pipes, unfinished, .. } = self;
        let pipe = pipes.get_mut(process, stream);
        if let Some(pipe) = pipe {
            pipe.shown_at = Some(at);
            unfinished.insert((at, process, stream));
        }
    }

    /// Writes as much as the readers take, and pauses ranks with slow readers.
    ///
    /// # Errors
    ///
    /// Those of the poller; failures of the places are not among them.
    pub(crate) fn flush(&mut self, poller: &mut Poller) -> io::Result<()> {
        for change in self.places.flush(poller)? {
            match change {
                PlaceChange::Full(place) => hold::hold_up(self, place, true, poller)?,
                PlaceChange::Free(place) => hold::hold_up(self, place, false, poller)?,
                PlaceChange::Closed(place) => {
                    hold::hold_up(self, place, false, poller)?;
                    self.close(place);
                }
            }
        }
        Ok(())
    }

    /// True if no output can follow and all of it is written.
    pub(crate) fn is_done(&self) -> bool {
        let waits = self.gather.as_ref().is_some_and(|gather| !gather.is_empty());
        self.open_count == 0 && !waits && self.is_flushed()
    }

    /// True if all output so far is written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.places.are_flushed()
    }

    /// True if ranks can still write.
    pub(crate) fn is_open(&self) -> bool {
        self.open_count > 0
    }

    /// True if writing to a place failed for another reason than a reader that has gone.
    pub(crate) fn has_failed(&self) -> bool {
        self.places.has_failed()
    }

    /// True if a reader of the launcher's output has gone, so that ranks may be terminated by writing.
    pub(crate) fn has_closed(&self) -> bool {
        self.places.has_closed()
    }

    /// Number of bytes that all readers together have taken.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.places.written_bytes()
    }

    /// Stops reading pipes that a running process still holds, and returns their number; a pipe without
    /// a writer ends by itself. A pipe that waits for a slow reader stays, unless `also_full`. Text in
    /// the others is still written.
    pub(crate) fn close_held(&mut self, also_full: bool) -> usize {
        let mut count = 0;
        for process in 0..self.pipes.len() {
            for stream in Stream::BOTH {
                let Some(pipe) = self.pipes.get(number(process), stream) else { continue };
                let is_full = self.places.is_full(pipe.place);
                if self.has(stream, number(process), PollFlags::HUP) || (is_full && !also_full) {
                    continue;
                }
                // Its writer may continue indefinitely; the present content of the pipe is all that was
                // written by now.
                let fd = pipe.fd.as_ref();
                let mut left = fd.map_or(0, |fd| rustix::io::ioctl_fionread(fd).unwrap_or(0));
                while left > 0 && !is_full && self.read_once(stream, number(process)) == Read::Some
                {
                    left = left.saturating_sub(SCRATCH as u64);
                }
                self.end(stream, process);
                count += 1;
            }
        }
        count
    }

    /// Drops output that readers have not taken, and the rest of the pipes of ranks.
    pub(crate) fn discard(&mut self) {
        self.places.discard();
        self.close_all();
        // Lines released by this may lead to a place that was free until now.
        if let Some(gather) = &mut self.gather {
            gather.expect_no_more(None);
        }
    }

    /// Closes all pipes. Unfinished lines are written unchanged.
    pub(crate) fn close_all(&mut self) {
        for process in 0..self.pipes.len() {
            Stream::BOTH.into_iter().for_each(|stream| self.end(stream, process));
        }
    }

    /// Closes the reading ends of all pipes that lead to a place: a rank that continues to write gets
    /// the error of the system, as if it had written to the reader directly.
    fn close(&mut self, place: u32) {
        for process in 0..self.pipes.len() {
            for stream in Stream::BOTH {
                let Some(pipe) = self.pipes.get_mut(number(process), stream) else { continue };
                pipe.copy = pipe.copy.filter(|copy| *copy != place);
                if pipe.place == place {
                    self.end(stream, process);
                }
            }
        }
    }

    fn insert(
        &mut self,
        (process, stream): (u32, Stream),
        (place, seat): (u32, StreamOwner),
        fd: Option<OwnedFd>,
        way: LineTreatment,
    ) {
        let copy = self.places.copy_of(stream).filter(|copy| *copy != place);
        let pipe = OutputPipe {
            fd,
            place,
            copy,
            is_held: false,
            seat,
            way,
            lines: LineBuffer::default(),
            is_unfinished: false,
            shown_at: None,
            is_wanted: false,
        };
        self.pipes.insert(process, stream, pipe);
        self.open_count += 1;
    }

    /// Closes a pipe and writes its unfinished line.
    fn end(&mut self, stream: Stream, process: usize) {
        self.let_go(stream, number(process), false);
        self.set_unfinished(stream, number(process), false);
        let Some(pipe) = self.pipes.take(number(process), stream) else { return };
        self.open_count -= 1;
        if let Some(tapped) = &mut self.tapped {
            // Where both streams are one pipe, its end is that of both.
            let is_one = self.places.streams().count() == 1;
            let ended = Stream::BOTH.into_iter().filter(|of| is_one || *of == stream);
            tapped.extend(ended.map(|of| (number(process), of, Vec::new())));
        }
        self.places.leave(pipe.place);
        if let Some(copy) = pipe.copy {
            self.places.leave(copy);
            if let Some(outlet) = self.places.outlet(copy) {
                outlet.put_end(pipe.seat, stream);
            }
        }
        let Some(outlet) = self.places.outlet(pipe.place) else { return };
        match (&pipe.way, &mut self.gather) {
            (LineTreatment::Gathered, Some(gather)) => gather.close(stream, pipe.seat, outlet),
            _ => outlet.put_end(pipe.seat, stream),
        }
    }

    fn read_once(&mut self, stream: Stream, process: u32) -> Read {
        let Self { pipes, places, .. } = self;
        let Some(pipe) = pipes.get(process, stream) else { return Read::Later };
        let Some(outlet) = places.outlet(pipe.place) else { return Read::Later };
        if outlet.is_full() && outlet.flush() == Flushed::Waiting && outlet.is_full() {
            return Read::Later;
        }
        if pipe.copy.is_some_and(|copy| places.is_full(copy)) {
            return Read::Later;
        }
        self.read_now(stream, process)
    }

    /// Reads once, even if a place is full.
    fn read_now(&mut self, stream: Stream, process: u32) -> Read {
        let Self { pipes, scratch, .. } = self;
        let Some(pipe) = pipes.get(process, stream) else { return Read::Later };
        let Some(fd) = &pipe.fd else { return Read::Later };
        scratch.clear();
        match rustix::io::read(fd, spare_capacity(scratch)) {
            Ok(count) if count > 0 => {}
            Err(Errno::INTR | Errno::AGAIN) => return Read::Later,
            // A pipe has no other errors, and a terminal has one for its end: the stream has ended.
            Ok(_) | Err(_) => {
                self.end(stream, index(process));
                return Read::End;
            }
        }
        let text = std::mem::take(scratch);
        self.receive((stream, process), &text);
        self.scratch = text;
        Read::Some
    }

    /// Takes text of a rank.
    pub(crate) fn receive(&mut self, (stream, process): (Stream, u32), text: &[u8]) {
        self.take_text((stream, process), text, Duration::ZERO);
        gathered::release(self, stream, process);
    }

    /// Takes text of a rank, which has waited on its node for this time, up to
    /// [`release`](Self::release).
    fn take_text(&mut self, (stream, process): (Stream, u32), text: &[u8], held: Duration) {
        let Self { pipes, places, labels, gather, .. } = self;
        let pipe = pipes.get_mut(process, stream);
        let Some(pipe) = pipe else { return };
        if let Some(tapped) = &mut self.tapped {
            tapped.push((process, stream, text.to_vec()));
        }
        let may_hold_errors = stream == Stream::Err || places.streams().count() == 1;
        if pipe.fd.is_some() && may_hold_errors && memchr::memmem::find(text, CLOSED).is_some() {
            self.closed_descriptors.insert(process);
        }
        let (seat, writer) = (pipe.seat, Writer::Rank(pipe.seat, stream));
        let mut passes_at_once = true;
        for place in [Some(pipe.place), pipe.copy].into_iter().flatten() {
            places.note_text(place, writer);
            passes_at_once &= places.passes_at_once(place, writer, text.len());
        }
        let Some(outlet) = places.outlet(pipe.place) else { return };
        self.held_bytes -= pipe.lines.held_bytes();
        match (&pipe.way, gather) {
            (LineTreatment::Raw, _) => outlet.put(writer, b"", text),
            (LineTreatment::Gathered, Some(gather)) => {
                pipe.lines.push(text, |piece| gather.push((stream, seat), (piece, held), outlet));
            }
            (way, _) => {
                let label = label(labels, seat, way);
                let mut copied = Vec::new();
                let put = |piece: &[u8]| {
                    outlet.put(writer, &label, piece);
                    copied.extend_from_slice(if pipe.copy.is_some() { piece } else { b"" });
                };
                match passes_at_once {
                    true => pipe.lines.pass(text, put),
                    false => pipe.lines.push(text, put),
                }
                if let Some(outlet) = pipe.copy.and_then(|copy| places.outlet(copy)) {
                    outlet.put(writer, &label, &copied);
                }
            }
        }
        let held = pipe.lines.held_bytes();
        self.held_bytes += held;
        pipe.is_wanted &= memchr::memchr(b'\n', text).is_none();
        let shown_at = pipe.shown_at.take();
        if let Some(at) = shown_at {
            self.unfinished.remove(&(at, process, stream));
        }
        if !matches!(pipe.way, LineTreatment::Raw) {
            self.set_unfinished(stream, process, !text.ends_with(b"\n"));
        }
        if held > LINE_MAX || self.held_bytes > HELD_MAX {
            self.let_go(stream, process, true);
        } else if held > 0 {
            // A line that overwrites itself, as a progress bar, may never rest.
            match shown_at.filter(|_| text.contains(&b'\r')) {
                Some(at) => self.arm_at(stream, process, at),
                None => self.arm(stream, process, clock::now()),
            }
        }
    }

    /// Writes an unfinished line as far as it has come; `goes_on` if more may follow.
    fn let_go(&mut self, stream: Stream, process: u32, goes_on: bool) {
        let Some(pipe) = self.pipes.get_mut(process, stream) else { return };
        if let Some(at) = pipe.shown_at.take() {
            self.unfinished.remove(&(at, process, stream));
        }
        if pipe.lines.held_bytes() == 0 {
            return;
        }
        let Some(outlet) = self.places.outlet(pipe.place) else { return };
        self.held_bytes -= pipe.lines.held_bytes();
        let seat = pipe.seat;
        match (&pipe.way, &mut self.gather) {
            (LineTreatment::Gathered, Some(gather)) if goes_on => {
                pipe.lines.let_go(|rest| gather.show(stream, seat, rest, outlet));
            }
            (LineTreatment::Gathered, Some(gather)) => {
                pipe.lines.let_go(|rest| {
                    gather.push((stream, seat), (rest, Duration::ZERO), outlet);
                });
                gather.release((stream, seat.group), outlet);
            }
            (way, _) => {
                let label = label(&self.labels, seat, way);
                let mut copied = Vec::new();
                pipe.lines.let_go(|rest| {
                    outlet.put(Writer::Rank(seat, stream), &label, rest);
                    copied.extend_from_slice(if pipe.copy.is_some() { rest } else { b"" });
                });
                if let Some(outlet) = pipe.copy.and_then(|copy| self.places.outlet(copy)) {
                    outlet.put(Writer::Rank(seat, stream), &label, &copied);
                }
            }
        }
    }

    fn has_something(&self, stream: Stream, process: u32) -> bool {
        self.has(stream, process, PollFlags::IN | PollFlags::HUP)
    }

    /// True if a pipe is open and in one of these states.
    fn has(&self, stream: Stream, process: u32, states: PollFlags) -> bool {
        let pipe = self.pipes.get(process, stream);
        let Some(fd) = pipe.and_then(|pipe| pipe.fd.as_ref()) else { return false };
        let mut wanted = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && wanted.iter().any(|wanted| wanted.revents().intersects(states))
    }
}

/// A log text as a line of its own.
fn log_line(text: &[u8]) -> Vec<u8> {
    [text.trim_ascii_end(), b"\n"].concat()
}

/// Label of the next line of a rank.
fn label<'a>(
    labels: &Labels,
    StreamOwner { group, rank }: StreamOwner,
    way: &'a LineTreatment,
) -> Cow<'a, [u8]> {
    match way {
        LineTreatment::Labelled(_) if labels.shows_time() => {
            labels.text(group, &[rank], clock::now()).into_bytes().into()
        }
        LineTreatment::Labelled(label) => Cow::Borrowed(label),
        LineTreatment::Gathered | LineTreatment::Raw => Cow::Borrowed(&[]),
    }
}

/// Text of MPICH's client of PMI-1 about a descriptor to which it cannot write.
const CLOSED: &[u8] = b"write_line error; fd=";

/// Default capacity of a pipe.
const SCRATCH: usize = 64 * 1024;

/// Longest line that is held until it ends. A longer one goes out in pieces, which other lines may separate.
const LINE_MAX: usize = 1 << 20;

/// Maximum size of all unfinished lines together; beyond it the next one goes out in pieces.
const HELD_MAX: usize = 32 << 20;

/// An unfinished line without further text for this long is passed on. Short enough for a prompt, long enough
/// for a program that writes a line in two pieces.
const QUIET: Duration = Duration::from_millis(100);
