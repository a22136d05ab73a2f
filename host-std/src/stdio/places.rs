//! Destinations of output: the launcher's own two streams, and files.

use super::StreamOwner;
use super::files::{self, FileError};
use super::label::Labels;
use super::outlet::{Flushed, Outlet, TextPositions, Writer};
use super::pattern::{Pattern, PatternError};
use crate::numbers::index;
use crate::settings::Output;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::stream::Stream;
use pmi_host_os::target::{Target, streams_are_one};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// All places, by numbers that are never reused.
#[derive(Debug)]
pub(crate) struct Places {
    /// Names of files, by stream.
    patterns: [Option<Pattern>; 2],
    /// True if output to files goes to the launcher's own streams, too.
    copies: bool,
    /// True if directories of files are created.
    makes_directories: bool,
    /// True if bytes of ranks are passed on as soon as they are read.
    is_unbuffered: bool,
    /// Number of digits of the number of ranks, by job.
    widths: BTreeMap<u32, usize>,
    /// True if both streams of a rank share a pipe.
    are_one: bool,
    all: BTreeMap<u32, Place>,
    /// Places of files; `None` for one that is complete and closed.
    files: BTreeMap<PathBuf, Option<u32>>,
    /// Those of the launcher's own streams.
    ours: [u32; 2],
    next: u32,
    /// Places with pending output.
    pending: BTreeSet<u32>,
    /// Places where text waits for the end of a line of another rank.
    deferring: BTreeSet<u32>,
    /// Output was lost, and that was reported.
    has_failed: bool,
    /// Number of bytes that all readers together have taken.
    written_bytes: u64,
}

/// Change of a place that its pipes must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceChange {
    /// Its reader is slow: nothing must be added.
    Full(u32),
    /// Its reader takes more again.
    Free(u32),
    /// Its reader has gone.
    Closed(u32),
}

/// Time at which an unfinished line is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassOn {
    /// As soon as its bytes are read.
    Immediately,
    /// When it has not continued for a while: it may be a prompt.
    Resting,
    /// Likewise, while no other rank has an unfinished line at the same place.
    RestingAlone,
}

/// An outlet with its state.
#[derive(Debug)]
struct Place {
    outlet: Outlet,
    /// Its name, for a file.
    file: Option<PathBuf>,
    /// Number of pipes that lead or will lead here.
    uses: usize,
    is_terminal: bool,
    pass_on: PassOn,
    /// The only writer since an unfinished text of it has rested, and was passed on.
    only_writer: Option<Writer>,
    /// The poller reports when it takes more.
    watched: Option<Interest>,
    /// Its full state was reported.
    is_full: bool,
    is_closed: bool,
    failure_reported: bool,
}

impl Places {
    /// Prepares the launcher's own streams.
    pub(crate) fn new(settings: &Output) -> Result<Self, PatternError> {
        let pattern = |text: &Option<String>| text.as_deref().map(Pattern::parse).transpose();
        let ours = if streams_are_one() { [0, 0] } else { [0, 1] };
        let places = Stream::BOTH.into_iter().zip(ours).rev();
        let [out, errors] = settings.patterns();
        let is_unbuffered = settings.unbuffered;
        Ok(Self {
            patterns: [pattern(&out)?, pattern(&errors)?],
            copies: settings.copies,
            makes_directories: settings.directory.is_some(),
            is_unbuffered,
            widths: BTreeMap::new(),
            are_one: Self::are_one(settings),
            all: places
                .map(|(stream, number)| (number, Place::new(Target::ours(stream), is_unbuffered)))
                .collect(),
            files: BTreeMap::new(),
            ours,
            next: 2,
            pending: BTreeSet::new(),
            deferring: BTreeSet::new(),
            has_failed: false,
            written_bytes: 0,
        })
    }

    /// Prepares the one place of a node whose output goes to the head, which decides when unfinished lines
    /// are passed on. With `are_one`, both streams of a rank are one pipe. With `positions`, equal lines are
    /// written once.
    pub(crate) fn of_node(are_one: bool, positions: Option<TextPositions>) -> Self {
        let place = Place { pass_on: PassOn::Immediately, ..Place::of(Outlet::of_node(positions)) };
        Self {
            patterns: [None, None],
            copies: false,
            makes_directories: false,
            is_unbuffered: true,
            widths: BTreeMap::new(),
            are_one,
            all: BTreeMap::from([(0, place)]),
            files: BTreeMap::new(),
            ours: [0, 0],
            next: 2,
            pending: BTreeSet::new(),
            deferring: BTreeSet::new(),
            has_failed: false,
            written_bytes: 0,
        }
    }

    /// True if both streams of a rank lead to the same place. Then they must be one pipe, which keeps
    /// the order of writes to both.
    pub(crate) fn are_one(settings: &Output) -> bool {
        match settings.patterns() {
            _ if settings.merges_errors => true,
            [None, None] => streams_are_one(),
            [out, err] => out == err,
        }
    }

    /// Streams of a rank with pipes of their own.
    pub(crate) fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        Stream::BOTH.into_iter().take(if self.are_one { 1 } else { 2 })
    }

    /// True if output of ranks to `stream` goes to the launcher's own stream.
    pub(crate) fn is_ours(&self, stream: Stream) -> bool {
        self.patterns[stream.index()].is_none()
    }

    /// The launcher's own place for `stream`.
    pub(crate) fn ours(&self, stream: Stream) -> u32 {
        self.ours[stream.index()]
    }

    /// Opens the files of the ranks of a job, if they write to files.
    ///
    /// # Errors
    ///
    /// [`FileError`]; no file that is new was opened then.
    pub(crate) fn prepare(
        &mut self,
        labels: &Labels,
        group: u32,
        ranks: u32,
    ) -> Result<(), FileError> {
        self.widths.insert(group, ranks.to_string().len());
        let mut uses: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for stream in self.streams() {
            if (self.is_ours(stream) || self.copies)
                && let Some(place) = self.all.get_mut(&self.ours(stream))
            {
                place.uses += index(ranks);
            }
            let seats = (0..ranks).map(|rank| StreamOwner { group, rank });
            for name in seats.filter_map(|seat| self.name(labels, stream, seat)) {
                *uses.entry(name).or_default() += 1;
            }
        }
        let (known, new): (Vec<PathBuf>, _) =
            uses.keys().cloned().partition(|name| self.files.contains_key(name));
        if self.makes_directories {
            files::make_directories(&new)?;
        }
        let opened = files::open_all(&new)?;
        for (name, fd) in new.into_iter().zip(opened) {
            self.add(name, Target::file(fd));
        }
        for name in known {
            if self.files.get(&name) == Some(&None) {
                let fd = files::open_again(&name)?;
                self.add(name, Target::file(fd));
            }
        }
        for (name, count) in uses {
            let number = self.files.get(&name).copied().flatten();
            if let Some(place) = number.and_then(|number| self.all.get_mut(&number)) {
                place.uses += count;
            }
        }
        Ok(())
    }

    /// Place for one stream of a rank; `None` if it has no reader any more.
    pub(crate) fn of(&self, labels: &Labels, stream: Stream, seat: StreamOwner) -> Option<u32> {
        let file = self.name(labels, stream, seat).and_then(|name| *self.files.get(&name)?);
        let number = file.unwrap_or(self.ours(stream));
        self.all.get(&number).is_some_and(|place| !place.is_closed).then_some(number)
    }

    /// Place of a copy of what goes to a file; `None` if there is none.
    pub(crate) fn copy_of(&self, stream: Stream) -> Option<u32> {
        let ours = self.ours(stream);
        let is_open = self.all.get(&ours).is_some_and(|place| !place.is_closed);
        Some(ours).filter(|_| self.copies && !self.is_ours(stream) && is_open)
    }

    /// Outlet of a place, marked for the next flush.
    pub(crate) fn outlet(&mut self, number: u32) -> Option<&mut Outlet> {
        self.pending.insert(number);
        self.all.get_mut(&number).map(|place| &mut place.outlet)
    }

    /// True if a place is a terminal.
    pub(crate) fn is_terminal(&self, number: u32) -> bool {
        self.all.get(&number).is_some_and(|place| place.is_terminal)
    }

    /// Time at which an unfinished line is passed on to a place.
    pub(crate) fn pass_on(&self, number: u32) -> PassOn {
        self.all.get(&number).map_or(PassOn::Resting, |place| place.pass_on)
    }

    /// True if text of a writer is passed on to a place as soon as it is read: no other writer is left, or
    /// the text is part of a conversation. Libraries write a full buffer in a multiple of `BLOCK_BYTES`, and
    /// the rest of its last line much later, which would keep others waiting.
    pub(crate) fn passes_at_once(&self, number: u32, writer: Writer, len_bytes: usize) -> bool {
        self.all.get(&number).is_some_and(|place| match place.pass_on {
            PassOn::Immediately => true,
            PassOn::Resting | PassOn::RestingAlone if place.uses <= 1 => true,
            PassOn::Resting => false,
            PassOn::RestingAlone => {
                place.only_writer == Some(writer) && !len_bytes.is_multiple_of(BLOCK_BYTES)
            }
        })
    }

    /// Notes that an unfinished text of a writer has rested, and was passed on to a place.
    pub(crate) fn note_rest(&mut self, number: u32, writer: Writer) {
        if let Some(place) = self.all.get_mut(&number) {
            place.only_writer = Some(writer);
        }
    }

    /// Notes that a writer has written something for a place.
    pub(crate) fn note_text(&mut self, number: u32, writer: Writer) {
        if let Some(place) = self.all.get_mut(&number) {
            place.only_writer = place.only_writer.filter(|only| *only == writer);
        }
    }

    /// Time of the next line that is ended because text of others waits for its end.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let places = self.deferring.iter().filter_map(|number| self.all.get(number));
        places.filter_map(|place| place.outlet.deferred_until()).min()
    }

    /// Places where such a line is due, with its writers.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<(u32, Writer)> {
        let writer_of = |number: &u32| {
            let outlet = &self.all.get(number)?.outlet;
            outlet.deferred_until().filter(|until| *until <= now)?;
            Some((*number, outlet.begun_by()?))
        };
        self.deferring.iter().filter_map(writer_of).collect()
    }

    /// Sets the writer that terminals are raw for; other text then gets a carriage return at line ends.
    pub(crate) fn set_raw(&mut self, writer: Option<Writer>) {
        for place in self.all.values_mut().filter(|place| place.is_terminal) {
            place.outlet.set_raw(writer);
        }
    }

    /// Adds a line of the launcher to standard error.
    pub(crate) fn write_message(&mut self, what: impl Display) {
        if let Some(outlet) = self.outlet(self.ours(Stream::Err)) {
            outlet.write_message(what);
        }
    }

    /// True if standard error is a terminal.
    pub(crate) fn is_watched_by_user(&self) -> bool {
        self.is_terminal(self.ours(Stream::Err))
    }

    /// Shows a line on the terminal of standard error until other output comes, or removes it.
    pub(crate) fn set_status(&mut self, status: Option<&str>) {
        if let Some(outlet) = self.outlet(self.ours(Stream::Err)) {
            outlet.set_status(status);
        }
    }

    /// Releases a place from one pipe.
    pub(crate) fn leave(&mut self, number: u32) {
        if let Some(place) = self.all.get_mut(&number) {
            place.uses = place.uses.saturating_sub(1);
            // Only a flush checks for complete files.
            self.pending.insert(number);
        }
    }

    /// Writes as much as the readers take.
    ///
    /// # Errors
    ///
    /// Those of the poller; failures of a place are reported to the user instead.
    pub(crate) fn flush(&mut self, poller: &Poller) -> io::Result<Vec<PlaceChange>> {
        let mut changes = Vec::new();
        // A report of a failure is output too, so there may be more to flush; once for each place.
        let mut waiting = BTreeSet::new();
        while let Some(number) = self.pending.pop_first() {
            let Some(place) = self.all.get_mut(&number) else { continue };
            let flushed = place.outlet.flush();
            self.written_bytes += place.outlet.take_written();
            match place.outlet.deferred_until() {
                Some(_) => self.deferring.insert(number),
                None => self.deferring.remove(&number),
            };
            let is_waiting = flushed == Flushed::Waiting;
            place.watch(number, is_waiting, poller)?;
            waiting.extend(is_waiting.then_some(number));
            let is_full = place.outlet.is_full();
            if std::mem::replace(&mut place.is_full, is_full) != is_full {
                changes.push(if is_full {
                    PlaceChange::Full(number)
                } else {
                    PlaceChange::Free(number)
                });
            }
            match flushed {
                Flushed::Closed if !std::mem::replace(&mut place.is_closed, true) => {
                    changes.push(PlaceChange::Closed(number));
                }
                Flushed::Failed(why) if !std::mem::replace(&mut place.failure_reported, true) => {
                    let sentence = output_lost(place.file.as_deref(), why);
                    self.has_failed = true;
                    self.write_message(sentence);
                }
                _ => {}
            }
            if !is_waiting && !self.deferring.contains(&number) {
                self.check_complete(number);
            }
        }
        self.pending = waiting;
        Ok(changes)
    }

    /// True if all output so far is written.
    pub(crate) fn are_flushed(&self) -> bool {
        self.pending.is_empty() && self.deferring.is_empty()
    }

    /// Number of bytes that all readers together have taken.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// True if a place has so much waiting that nothing must be added.
    pub(crate) fn is_full(&self, number: u32) -> bool {
        self.all.get(&number).is_some_and(|place| place.outlet.is_full())
    }

    /// Takes the queued output of a node, to send it to the head.
    pub(crate) fn take_records(&mut self) -> Vec<u8> {
        let outlet = self.outlet(self.ours(Stream::Out));
        outlet.map(Outlet::take_records).unwrap_or_default()
    }

    /// True if any place has so much waiting that nothing must be added.
    pub(crate) fn is_any_full(&self) -> bool {
        self.pending.iter().any(|number| self.is_full(*number))
    }

    /// Drops output that readers have not taken. Places with nothing left to write stay unchanged.
    pub(crate) fn discard(&mut self) {
        for number in &self.pending {
            if let Some(place) = self.all.get_mut(number).filter(|place| place.watched.is_some()) {
                place.outlet.discard();
            }
        }
    }

    /// True if writing to a place failed for another reason than a reader that has gone.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// True if the reader of a place has gone.
    pub(crate) fn is_closed(&self, number: u32) -> bool {
        self.all.get(&number).is_some_and(|place| place.is_closed)
    }

    /// True if a reader of any place has gone.
    pub(crate) fn has_closed(&self) -> bool {
        self.all.values().any(|place| place.is_closed)
    }

    /// Closes a file without further writers.
    fn check_complete(&mut self, number: u32) {
        if let Some(Place { file: Some(name), uses: 0, .. }) = self.all.get(&number) {
            self.files.insert(name.clone(), None);
            self.all.remove(&number);
        }
    }

    fn add(&mut self, name: PathBuf, target: Target) {
        let place = Place { file: Some(name.clone()), ..Place::new(target, self.is_unbuffered) };
        self.all.insert(self.next, place);
        self.files.insert(name, Some(self.next));
        self.next += 1;
    }

    /// File name for one stream of a rank.
    fn name(&self, labels: &Labels, stream: Stream, seat: StreamOwner) -> Option<PathBuf> {
        let pattern = self.patterns[stream.index()].as_ref()?;
        let width = self.widths.get(&seat.group).copied().unwrap_or_default();
        Some(PathBuf::from(labels.fill_in(pattern, seat, width)))
    }
}

impl Place {
    fn new(target: Target, is_unbuffered: bool) -> Self {
        let is_terminal = target.is_terminal();
        let (pass_on, patience) = match is_unbuffered {
            true => (PassOn::Immediately, BRIEF_PATIENCE),
            false if is_terminal => (PassOn::Resting, Duration::ZERO),
            false => (PassOn::RestingAlone, PATIENCE),
        };
        Self { is_terminal, pass_on, ..Self::of(Outlet::new(target, patience)) }
    }

    const fn of(outlet: Outlet) -> Self {
        Self {
            is_terminal: false,
            pass_on: PassOn::Resting,
            only_writer: None,
            outlet,
            file: None,
            uses: 0,
            watched: None,
            is_full: false,
            is_closed: false,
            failure_reported: false,
        }
    }

    fn watch(&mut self, number: u32, watch: bool, poller: &Poller) -> io::Result<()> {
        let Some(source) = self.outlet.source() else { return Ok(()) };
        let change = (&mut self.watched, watch.then_some(Interest::Write));
        poller.rewatch(Token::Outlet(number), source, change)
    }
}

/// Size of a page, and the least one of which libraries write their full buffers.
const BLOCK_BYTES: usize = 4096;

/// Time for which an unfinished line that was passed on keeps lines of other ranks waiting: long enough for
/// the rest of most lines, short enough for a reader who waits for both.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same where all bytes are passed on at once.
const BRIEF_PATIENCE: Duration = Duration::from_millis(100);

/// Message if output cannot be written, to the launcher's own streams or to a file.
fn output_lost(file: Option<&Path>, why: impl Display) -> String {
    let place = file.map(|name| format!(" to '{}'", name.display())).unwrap_or_default();
    format!("output of the ranks cannot be written{place} ({why}) and is lost from now on")
}
