//! Output of all ranks, from their pipes to the places where it goes.

use super::files::{self, FileError};
use super::gather::Gather;
use super::label::Labels;
use super::lines::Lines;
use super::outlet::{Flushed, Writer};
use super::pattern::{Pattern, PatternError};
use super::place::Place;
use super::target::{Target, streams_are_one};
use super::{Seat, Stream, index, number};
use crate::report;
use crate::server::ready::{Interest, Poller, Token};
use crate::settings::Output;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The pipes of all ranks and the places they lead to.
#[derive(Debug)]
pub struct Outputs {
    labels: Labels,
    /// For our own streams, if lines are to be gathered.
    gather: Option<Gather>,
    are_one: bool,
    /// By stream.
    file_patterns: [Option<Pattern>; 2],
    /// Where files are; none for one that is complete and closed.
    files: BTreeMap<PathBuf, Option<u32>>,
    /// By number, which is never used again.
    places: BTreeMap<u32, Place>,
    next_place: u32,
    /// Our own place for each stream.
    ours: [u32; 2],
    /// Places with something to write.
    pending: BTreeSet<u32>,
    /// Something was lost, and that was said.
    has_failed: bool,
    /// By number of the process, then by stream.
    pipes: Vec<[Option<Pipe>; 2]>,
    open_count: usize,
    /// What all unfinished lines hold together.
    held_bytes: usize,
    /// Unfinished lines that somebody looks at, with the moment at which they are shown.
    unfinished: BTreeSet<(Instant, u32, Stream)>,
    /// One buffer to read into, lent to whichever pipe is read. Of its memory only what output has once
    /// filled is ever touched.
    scratch: Vec<u8>,
}

/// The reading end of a pipe and its unfinished line.
#[derive(Debug)]
struct Pipe {
    fd: OwnedFd,
    place: u32,
    seat: Seat,
    /// Empty if there is none, or if it has to be made anew each time.
    label: Box<[u8]>,
    lines: Lines,
    is_gathered: bool,
    /// When its unfinished line is shown, if it is to be.
    shown_at: Option<Instant>,
}

/// What became of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Some,
    Later,
    End,
}

impl Outputs {
    /// Prepares our own ends for ranks on `host`.
    ///
    /// Errors: [`PatternError`].
    pub fn new(settings: &Output, host: &str) -> Result<Self, PatternError> {
        let pattern = |text: &Option<String>| text.as_deref().map(Pattern::parse).transpose();
        let ours = if streams_are_one() { [0, 0] } else { [0, 1] };
        let places = Stream::BOTH
            .into_iter()
            .zip(ours)
            .rev()
            .map(|(stream, place)| (place, Place::new(Target::ours(stream))));
        Ok(Self {
            labels: Labels::new(settings, host)?,
            gather: settings.collapse.then(|| Gather::new(settings, host)).transpose()?,
            are_one: Self::are_one(settings),
            file_patterns: [pattern(&settings.out_files)?, pattern(&settings.error_files)?],
            files: BTreeMap::new(),
            places: places.collect(),
            next_place: 2,
            ours,
            pending: BTreeSet::new(),
            has_failed: false,
            pipes: Vec::new(),
            open_count: 0,
            held_bytes: 0,
            unfinished: BTreeSet::new(),
            scratch: Vec::with_capacity(SCRATCH),
        })
    }

    /// True when both streams of a rank lead to the same place. They must be one pipe then, which keeps what
    /// the rank writes to both in order.
    pub fn are_one(settings: &Output) -> bool {
        match (&settings.out_files, &settings.error_files) {
            (None, None) => streams_are_one(),
            (out, err) => out == err,
        }
    }

    /// Opens the files of the ranks of a job, if they write to files.
    ///
    /// Errors: [`FileError`]; nothing was opened then.
    pub fn prepare(&mut self, group: u32, ranks: u32) -> Result<(), FileError> {
        let mut uses: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let streams = if self.are_one { &Stream::BOTH[..1] } else { &Stream::BOTH[..] };
        for &stream in streams {
            for seat in (0..ranks).map(|rank| Seat { group, rank }) {
                if let Some(name) = self.file_of(stream, seat) {
                    *uses.entry(name).or_default() += 1;
                }
            }
            if let (Some(gather), None) = (&mut self.gather, &self.file_patterns[stream.index()]) {
                gather.expect(stream, group, ranks);
            }
        }
        let (known, new): (Vec<PathBuf>, _) =
            uses.keys().cloned().partition(|name| self.files.contains_key(name));
        for (name, fd) in new.iter().zip(files::open_all(&new)?) {
            self.add_file(name, fd);
        }
        for name in known {
            if self.files.get(&name) == Some(&None) {
                let fd = files::open_again(&name)?;
                self.add_file(&name, fd);
            }
        }
        for (name, count) in uses {
            if let Some(place) = self.files.get(&name).copied().flatten()
                && let Some(place) = self.places.get_mut(&place)
            {
                place.uses += count;
            }
        }
        Ok(())
    }

    /// Takes over a pipe of a rank that was started.
    ///
    /// Errors: those of the system.
    pub fn add(
        &mut self,
        (process, seat): (u32, Seat),
        stream: Stream,
        fd: OwnedFd,
        poller: &Poller,
    ) -> io::Result<()> {
        let file =
            self.file_of(stream, seat).and_then(|name| self.files.get(&name).copied().flatten());
        let place = file.unwrap_or(self.ours[stream.index()]);
        if self.places.get(&place).is_none_or(|place| place.is_closed) {
            return Ok(());
        }
        poller.add(Token::Output(stream, process), &fd, Interest::Read)?;
        let needed = self.pipes.len().max(index(process) + 1);
        self.pipes.resize_with(needed, || [None, None]);
        let label = match self.labels.tell_time() {
            true => String::new(),
            false => self.labels.text(seat.group, &seat.rank.to_string(), Instant::now()),
        };
        let label = label.into_bytes().into();
        let gather = self.gather.as_mut().filter(|_| file.is_none());
        let is_gathered = gather.is_some();
        if let Some(gather) = gather {
            gather.open(stream, seat);
        }
        let lines = Lines::default();
        let pipe = Pipe { fd, place, seat, label, lines, is_gathered, shown_at: None };
        self.pipes[index(process)][stream.index()] = Some(pipe);
        self.open_count += 1;
        Ok(())
    }

    /// Reads what a rank has written, once. What is left is told again.
    pub fn read(&mut self, stream: Stream, process: u32) {
        self.read_once(stream, process);
    }

    /// Reads all that a rank has written so far, so that its last words come before ours.
    pub fn drain(&mut self, process: u32) {
        for stream in Stream::BOTH {
            while self.has_something(stream, process)
                && self.read_once(stream, process) == Read::Some
            {}
            self.hurry(stream, process);
        }
    }

    /// Adds a line of our own to standard error.
    pub fn say(&mut self, what: impl std::fmt::Display) {
        let place = self.ours[Stream::Err.index()];
        if let Some(Place { outlet, .. }) = self.places.get_mut(&place) {
            outlet.put(Writer::Launcher, b"", report::line(what).as_bytes());
            self.pending.insert(place);
        }
    }

    /// When to call [`tick`](Self::tick) next.
    pub fn deadline(&self) -> Option<Instant> {
        let shown_at = self.unfinished.first().map(|(at, ..)| *at);
        shown_at.into_iter().chain(self.gather.as_ref().and_then(Gather::deadline)).min()
    }

    /// Shows unfinished lines whose time has come (a person may be asked something there) and lines that
    /// have waited long enough for others like them.
    pub fn tick(&mut self, now: Instant) {
        while let Some(&(at, process, stream)) = self.unfinished.first()
            && at <= now
        {
            self.let_go(stream, process, true);
        }
        let Some(gather) = &mut self.gather else { return };
        for (stream, place) in Stream::BOTH.into_iter().zip(self.ours) {
            if let Some(Place { outlet, .. }) = self.places.get_mut(&place)
                && gather.tick(stream, now, outlet)
            {
                self.pending.insert(place);
            }
        }
    }

    /// Ranks of a job (of all, if none is named) that were not started yet will not be.
    pub fn expect_nobody_else(&mut self, group: Option<u32>) {
        if let Some(gather) = &mut self.gather {
            gather.expect_nobody_else(group);
        }
    }

    /// Writes what our readers take, and lets ranks wait while they take too little.
    ///
    /// Errors: those of the system's readiness calls; trouble with the places is not among them.
    pub fn flush(&mut self, poller: &mut Poller) -> io::Result<()> {
        let mut has_said = false;
        for number in std::mem::take(&mut self.pending) {
            let Some(place) = self.places.get_mut(&number) else { continue };
            let flushed = place.outlet.flush();
            let is_waiting = flushed == Flushed::Waiting;
            place.watch(number, is_waiting, poller)?;
            if is_waiting {
                self.pending.insert(number);
            }
            let closes =
                flushed == Flushed::Closed && !std::mem::replace(&mut place.is_closed, true);
            let lost = match flushed {
                Flushed::Failed(why) => {
                    let is_news = !std::mem::replace(&mut place.failure_said, true);
                    is_news.then(|| report::output_lost(place.file.as_deref(), why))
                }
                _ => None,
            };
            let full = place.outlet.is_full();
            if std::mem::replace(&mut place.is_held_up, full) != full {
                self.hold_up(number, full, poller)?;
            }
            if closes {
                self.close(number);
            }
            if let Some(sentence) = lost {
                self.has_failed = true;
                self.say(sentence);
                has_said = true;
            }
            self.look_whether_complete(number);
        }
        if has_said { self.flush(poller) } else { Ok(()) }
    }

    /// True when nothing more can come and everything that came is written.
    pub fn is_done(&self) -> bool {
        let waits = self.gather.as_ref().is_some_and(|gather| !gather.is_empty());
        self.open_count == 0 && !waits && self.is_flushed()
    }

    /// True when everything that came so far is written.
    pub fn is_flushed(&self) -> bool {
        self.pending.is_empty()
    }

    /// True when ranks still can write.
    pub fn is_open(&self) -> bool {
        self.open_count > 0
    }

    /// True when writing to a place failed for another reason than that its reader has gone.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// True when a reader of ours has gone, so that ranks may be ended by writing.
    pub fn has_closed(&self) -> bool {
        self.places.values().any(|place| place.is_closed)
    }

    /// Stops reading everywhere. Unfinished lines go out as they are.
    pub fn close_all(&mut self) {
        for process in 0..self.pipes.len() {
            Stream::BOTH.into_iter().for_each(|stream| self.end(stream, process));
        }
    }

    /// Closes our ends of all pipes that lead to a place: who writes on is told by the system, just as if the
    /// rank had written to our reader itself.
    fn close(&mut self, place: u32) {
        for process in 0..self.pipes.len() {
            for stream in Stream::BOTH {
                let pipe = &self.pipes[process][stream.index()];
                if pipe.as_ref().is_some_and(|pipe| pipe.place == place) {
                    self.end(stream, process);
                }
            }
        }
    }

    /// Lets go of a pipe and of its unfinished line.
    fn end(&mut self, stream: Stream, process: usize) {
        self.let_go(stream, number(process), false);
        let Some(pipe) = self.pipes[process][stream.index()].take() else { return };
        self.open_count -= 1;
        if let Some(place) = self.places.get_mut(&pipe.place) {
            place.uses = place.uses.saturating_sub(1);
            if let Some(gather) = self.gather.as_mut().filter(|_| pipe.is_gathered) {
                gather.close(stream, pipe.seat, &mut place.outlet);
                self.pending.insert(pipe.place);
            }
        }
        self.look_whether_complete(pipe.place);
    }

    fn read_once(&mut self, stream: Stream, process: u32) -> Read {
        let Some(pipe) = &mut self.pipes[index(process)][stream.index()] else {
            return Read::Later;
        };
        let Some(Place { outlet, is_terminal, .. }) = self.places.get_mut(&pipe.place) else {
            return Read::Later;
        };
        if outlet.is_full() && outlet.flush() == Flushed::Waiting && outlet.is_full() {
            return Read::Later;
        }
        self.scratch.clear();
        match rustix::io::read(&pipe.fd, spare_capacity(&mut self.scratch)) {
            Ok(count) if count > 0 => {}
            Err(Errno::INTR | Errno::AGAIN) => return Read::Later,
            // A pipe has no other errors; should there be one, nothing more can come.
            Ok(_) | Err(_) => {
                self.end(stream, index(process));
                return Read::End;
            }
        }
        self.held_bytes -= pipe.lines.held_bytes();
        let seat = pipe.seat;
        match self.gather.as_mut().filter(|_| pipe.is_gathered) {
            Some(gather) => {
                pipe.lines.take(&self.scratch, |piece| gather.take(stream, seat, piece, outlet));
            }
            None => {
                let (label, writer) =
                    (label(&self.labels, seat, &pipe.label), Writer::Rank(seat, stream));
                pipe.lines.take(&self.scratch, |piece| outlet.put(writer, &label, piece));
            }
        }
        let held = pipe.lines.held_bytes();
        self.held_bytes += held;
        self.pending.insert(pipe.place);
        if let Some(at) = pipe.shown_at.take() {
            self.unfinished.remove(&(at, process, stream));
        }
        if held > LINE_MAX || self.held_bytes > HELD_MAX {
            self.let_go(stream, process, true);
        } else if held > 0 && *is_terminal {
            let at = Instant::now() + QUIET;
            pipe.shown_at = Some(at);
            self.unfinished.insert((at, process, stream));
        }
        Read::Some
    }

    /// Passes an unfinished line on as far as it has come; it may go on or not.
    fn let_go(&mut self, stream: Stream, process: u32, goes_on: bool) {
        let Some(pipe) = &mut self.pipes[index(process)][stream.index()] else { return };
        if let Some(at) = pipe.shown_at.take() {
            self.unfinished.remove(&(at, process, stream));
        }
        let Some(Place { outlet, .. }) = self.places.get_mut(&pipe.place) else { return };
        self.held_bytes -= pipe.lines.held_bytes();
        self.pending.insert(pipe.place);
        let seat = pipe.seat;
        match self.gather.as_mut().filter(|_| pipe.is_gathered) {
            Some(gather) if goes_on => {
                pipe.lines.let_go(|rest| gather.show(stream, seat, rest, outlet));
            }
            Some(gather) => pipe.lines.let_go(|rest| gather.take(stream, seat, rest, outlet)),
            None => {
                let label = label(&self.labels, seat, &pipe.label);
                pipe.lines.let_go(|rest| outlet.put(Writer::Rank(seat, stream), &label, rest));
            }
        }
    }

    /// Passes on what waits for lines of other ranks.
    fn hurry(&mut self, stream: Stream, process: u32) {
        let pipe = self.pipes.get(index(process)).and_then(|pipes| pipes[stream.index()].as_ref());
        if let (Some(pipe), Some(gather)) = (pipe.filter(|pipe| pipe.is_gathered), &mut self.gather)
            && let Some(Place { outlet, .. }) = self.places.get_mut(&pipe.place)
        {
            gather.hurry(stream, pipe.seat, outlet);
            self.pending.insert(pipe.place);
        }
    }

    /// Stops or resumes reading what leads to a place.
    fn hold_up(&mut self, place: u32, hold: bool, poller: &mut Poller) -> io::Result<()> {
        for stream in Stream::BOTH {
            // Where nothing leads to files, all pipes of a stream lead to one place.
            if self.ours[stream.index()] == place && self.file_patterns[stream.index()].is_none() {
                poller.pause(stream, hold)?;
            }
        }
        if self.ours.contains(&place) {
            return Ok(());
        }
        for (process, pipes) in self.pipes.iter().enumerate() {
            for (pipe, stream) in pipes.iter().zip(Stream::BOTH) {
                let token = Token::Output(stream, number(process));
                match pipe.as_ref().filter(|pipe| pipe.place == place) {
                    Some(pipe) if hold => poller.remove(token, &pipe.fd)?,
                    Some(pipe) => poller.add(token, &pipe.fd, Interest::Read)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Closes a file to which nobody will write any more.
    fn look_whether_complete(&mut self, number: u32) {
        if self.pending.contains(&number) {
            return;
        }
        if let Some(Place { file: Some(name), uses: 0, .. }) = self.places.get(&number) {
            self.files.insert(name.clone(), None);
            self.places.remove(&number);
        }
    }

    fn add_file(&mut self, name: &Path, fd: OwnedFd) {
        let place = Place { file: Some(name.to_owned()), ..Place::new(Target::file(fd)) };
        self.places.insert(self.next_place, place);
        self.files.insert(name.to_owned(), Some(self.next_place));
        self.next_place += 1;
    }

    /// The file for one stream of a rank.
    fn file_of(&self, stream: Stream, seat: Seat) -> Option<PathBuf> {
        let pattern = self.file_patterns[stream.index()].as_ref()?;
        Some(PathBuf::from(self.labels.fill_in(pattern, seat)))
    }

    fn has_something(&self, stream: Stream, process: u32) -> bool {
        let pipes = self.pipes.get(index(process));
        let Some(pipe) = pipes.and_then(|pipes| pipes[stream.index()].as_ref()) else {
            return false;
        };
        let mut wanted = [PollFd::new(&pipe.fd, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// The label of the next line of a rank.
fn label<'a>(labels: &Labels, Seat { group, rank }: Seat, made: &'a [u8]) -> Cow<'a, [u8]> {
    match labels.tell_time() {
        true => labels.text(group, &rank.to_string(), Instant::now()).into_bytes().into(),
        false => Cow::Borrowed(made),
    }
}

/// What a pipe of the system holds at most, unless somebody changed that.
const SCRATCH: usize = 64 * 1024;

/// A line is held until it ends, up to this length. Beyond it goes out in pieces, and stays whole as long as
/// nobody else writes meanwhile.
const LINE_MAX: usize = 1 << 20;

/// All unfinished lines together may hold this much; beyond it the next one goes out in pieces.
const HELD_MAX: usize = 32 << 20;

/// On a terminal a line that does not go on for this long is shown as far as it has come. Shorter than
/// anybody who is asked something would notice, longer than a program takes to write a line in two pieces.
const QUIET: Duration = Duration::from_millis(100);
