//! Output of many ranks to one place.

use super::StreamOwner;
use super::record::{OutputRecord, TEXT_BYTES, TextPlace};
use pmi_host_base::exit;
use pmi_host_base::ranges::Ranks;
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_host_os::target::Target;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A place with its queue of unwritten text.
///
/// Texts of two writers never share a line: text of another writer waits until an unfinished line ends. A
/// line that takes longer than the patience of the place is ended there, and its writer continues on a line
/// of its own.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// `None` on a node that sends its output to the head: text is queued as records then.
    target: Option<Target>,
    waiting: Vec<u8>,
    written: usize,
    state: OutletState,
    /// Writer of the last line, if that is unfinished.
    begun_by: Option<Writer>,
    /// True if that writer will not continue the line.
    is_abandoned: bool,
    /// Time for which an unfinished line keeps text of other writers waiting.
    patience: Duration,
    /// Text that waits for the end of the unfinished line.
    deferred: VecDeque<DeferredText>,
    deferred_bytes: usize,
    /// Time of the first deferred text, and time at which the unfinished line is ended.
    deferred_since: Option<Instant>,
    deferred_until: Option<Instant>,
    /// True if that line ends with a carriage return, behind which its label is repeated.
    has_returned: bool,
    /// Writer that the terminal is in raw mode for: the terminal does not translate line ends then.
    raw_for: Option<Writer>,
    /// The last line is only a status line, and is erased before other output.
    has_status: bool,
    /// Bytes written since the last call of [`take_written`](Self::take_written).
    newly_written: u64,
    /// Lines of the launcher that were dropped because too much was waiting.
    dropped_count: u64,
    /// On a node, lines of several ranks at the end of the queue, to which others may be added.
    shared: Option<SharedText>,
    /// On a node of a run in which equal lines are written once: positions of the next texts.
    positions: Option<TextPositions>,
}

/// Positions of texts in the streams of the ranks of a node.
#[derive(Debug)]
pub(crate) struct TextPositions {
    /// Number of the node in the tree.
    node: u32,
    /// Lines of the node so far.
    messages_count: u64,
    /// Bytes so far, by job, stream and rank.
    bytes: BTreeMap<(u32, Stream, u32), u64>,
}

impl TextPositions {
    /// At the start of all streams.
    pub(crate) const fn new(node: u32) -> Self {
        Self { node, messages_count: 0, bytes: BTreeMap::new() }
    }

    /// Numbers of the node and of its next own line.
    const fn next_message(&mut self) -> (u32, u64) {
        self.messages_count += 1;
        (self.node, self.messages_count)
    }

    /// Places of a text of these ranks, in ascending order; the next one follows it.
    fn advance(
        &mut self,
        (job, stream): (u32, Stream),
        ranks: &[u32],
        len: usize,
    ) -> Vec<TextPlace> {
        let mut places: BTreeMap<u64, Ranks> = BTreeMap::new();
        for rank in ranks {
            let at = self.bytes.entry((job, stream, *rank)).or_default();
            places.entry(*at).or_default().push(*rank);
            *at = at.saturating_add(len as u64);
        }
        places.into_iter().map(|(at, ranks)| TextPlace { at, ranks }).collect()
    }
}

/// Lines that several ranks have written.
#[derive(Debug)]
struct SharedText {
    /// Job and stream.
    of: (u32, Stream),
    ranks: Vec<u32>,
    /// Time at which the first of them has written the first line.
    since: Instant,
    text: Vec<u8>,
}

/// Text of a rank that waits for the end of a line of another one.
#[derive(Debug)]
struct DeferredText {
    writer: Writer,
    label: Vec<u8>,
    text: Vec<u8>,
    /// True if its writer continues it no more.
    is_last: bool,
}

/// Source of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The launcher itself.
    Launcher,
    /// A rank, on this stream.
    Rank(StreamOwner, Stream),
}

/// Result of [`Outlet::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is written.
    All,
    /// The reader is slow; call again when [`Outlet::source`] takes more.
    Waiting,
    /// The reader has gone, now or earlier; what was to be written is dropped.
    Closed,
    /// Writing failed for this reason, now or earlier; as for `Closed`.
    Failed(Errno),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutletState {
    Open,
    Closed,
    Failed(Errno),
}

impl Outlet {
    /// Creates an outlet with an empty queue, in which text waits up to `patience` for the end of an
    /// unfinished line of another writer.
    pub(crate) const fn new(target: Target, patience: Duration) -> Self {
        Self::with(Some(target), None, patience)
    }

    /// Creates an outlet whose queue is sent to the head of the run; with positions, if equal lines are
    /// written once there.
    pub(crate) const fn of_node(positions: Option<TextPositions>) -> Self {
        Self::with(None, positions, Duration::ZERO)
    }

    const fn with(
        target: Option<Target>,
        positions: Option<TextPositions>,
        patience: Duration,
    ) -> Self {
        Self {
            target,
            waiting: Vec::new(),
            written: 0,
            state: OutletState::Open,
            begun_by: None,
            is_abandoned: false,
            patience,
            deferred: VecDeque::new(),
            deferred_bytes: 0,
            deferred_since: None,
            deferred_until: None,
            has_returned: false,
            raw_for: None,
            has_status: false,
            newly_written: 0,
            dropped_count: 0,
            shared: None,
            positions,
        }
    }

    /// Adds a line of the launcher. Ranks wait for a slow reader and the launcher does not, so beyond
    /// `OWN_MAX` its lines are dropped, and the next one that finds room includes their number.
    pub(crate) fn write_message(&mut self, what: impl std::fmt::Display) {
        if self.waiting.len() - self.written > OWN_MAX {
            self.dropped_count += 1;
            return;
        }
        if let count @ 1.. = std::mem::take(&mut self.dropped_count) {
            let dropped = exit::line(sentences_dropped(count));
            self.put(Writer::Launcher, b"", dropped.as_bytes());
        }
        let line = match self.target {
            Some(_) => exit::line(what),
            // The head adds the name of the program.
            None => what.to_string(),
        };
        self.put(Writer::Launcher, b"", line.as_bytes());
    }

    /// Drops waiting and later text, as if the reader had gone.
    pub(crate) fn discard(&mut self) {
        self.state = OutletState::Closed;
        self.waiting = Vec::new();
        self.shared = None;
        self.written = 0;
        self.drop_deferred();
    }

    /// Number of bytes that the reader has taken since the last call.
    pub(crate) fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.newly_written)
    }

    /// Queues `text` of `writer`, with `label` in front of each line. Nothing is written before
    /// [`flush`](Self::flush), so that many lines need one system call.
    pub(crate) fn put(&mut self, writer: Writer, label: &[u8], text: &[u8]) {
        if text.is_empty() || self.state != OutletState::Open {
            return;
        }
        if self.target.is_none() {
            return self.put_records(writer, text);
        }
        if writer == Writer::Launcher {
            // What ranks have written before precedes a message about them.
            while !self.deferred.is_empty() {
                self.end_line();
            }
        }
        if self.has_to_wait(writer) {
            return self.defer(writer, label, text);
        }
        let end_of_line = memchr::memchr(b'\n', text).filter(|_| !self.deferred.is_empty());
        match end_of_line {
            Some(at) => {
                let (end, rest) = text.split_at(at + 1);
                self.put_now(writer, label, end);
                self.put_deferred();
                self.put(writer, label, rest);
            }
            None => self.put_now(writer, label, text),
        }
    }

    /// True if another writer may still continue its unfinished line.
    fn has_to_wait(&self, writer: Writer) -> bool {
        let is_begun = self.begun_by.is_some_and(|begun_by| begun_by != writer);
        let is_patient = self.patience > Duration::ZERO && writer != Writer::Launcher;
        is_begun && is_patient && !self.is_abandoned
    }

    fn defer(&mut self, writer: Writer, label: &[u8], text: &[u8]) {
        let now = clock::now();
        self.deferred_since.get_or_insert(now);
        self.deferred_until.get_or_insert(now + self.patience);
        self.deferred_bytes += text.len();
        match self.deferred.back_mut() {
            Some(last) if last.writer == writer && last.label == label => {
                last.text.extend_from_slice(text);
            }
            _ => {
                let (label, text) = (label.to_vec(), text.to_vec());
                self.deferred.push_back(DeferredText { writer, label, text, is_last: false });
            }
        }
        if self.deferred_bytes > DEFERRED_MAX {
            self.end_line();
        }
    }

    /// Queues deferred text up to the next unfinished line.
    fn put_deferred(&mut self) {
        loop {
            // A writer continues its own line at any time.
            let at = match self.begun_by.filter(|_| !self.is_abandoned) {
                Some(writer) => self.deferred.iter().position(|text| text.writer == writer),
                None => Some(0),
            };
            let Some(DeferredText { writer, label, text, is_last }) =
                at.and_then(|at| self.deferred.remove(at))
            else {
                break;
            };
            self.deferred_bytes -= text.len();
            self.put_now(writer, &label, &text);
            self.is_abandoned = is_last;
        }
        let begun_at = (!self.deferred.is_empty()).then(clock::now);
        self.deferred_since = begun_at;
        self.deferred_until = begun_at.map(|now| now + self.patience);
    }

    fn drop_deferred(&mut self) {
        self.deferred = VecDeque::new();
        self.deferred_bytes = 0;
        self.deferred_since = None;
        self.deferred_until = None;
    }

    /// Waits no longer for the end of the unfinished line.
    pub(crate) fn end_line(&mut self) {
        self.is_abandoned = true;
        self.put_deferred();
    }

    /// Notes that a writer, whose stream has ended, continues no line.
    fn end_writer(&mut self, writer: Writer) {
        if self.begun_by == Some(writer) {
            self.end_line();
        } else if let Some(last) = self.deferred.iter_mut().rev().find(|text| text.writer == writer)
        {
            last.is_last = true;
        }
    }

    /// Time at which the unfinished line is ended, since text of other writers waits for its end.
    pub(crate) const fn deferred_until(&self) -> Option<Instant> {
        self.deferred_until
    }

    /// Extends this time by the patience of the place, up to a limit. Returns false if that is reached.
    pub(crate) fn extend_deferral(&mut self, now: Instant) -> bool {
        let patience = self.patience;
        self.defer_until(now, |_| now + patience)
    }

    /// Extends this time to its limit, since the rest of the line may be on its way. Returns false if it is
    /// reached.
    pub(crate) fn extend_deferral_to_limit(&mut self, now: Instant) -> bool {
        self.defer_until(now, |limit| limit)
    }

    /// Sets this time by its limit. Returns false if that is reached.
    fn defer_until(&mut self, now: Instant, until: impl FnOnce(Instant) -> Instant) -> bool {
        let limit = self.deferred_since.map(|since| since + DEFERRAL_MAX);
        let Some(limit) = limit.filter(|limit| now < *limit) else { return false };
        self.deferred_until = Some(until(limit));
        true
    }

    /// Writer of the last line, if that is unfinished.
    pub(crate) const fn begun_by(&self) -> Option<Writer> {
        self.begun_by
    }

    fn put_now(&mut self, writer: Writer, label: &[u8], text: &[u8]) {
        let Some(last) = text.last() else { return };
        self.wipe();
        let mut goes_on = self.begun_by == Some(writer);
        if self.begun_by.is_some() && !goes_on {
            self.waiting.extend_from_slice(if self.raw_for.is_some() { b"\r\n" } else { b"\n" });
        }
        let is_raw = self.raw_for.is_some_and(|raw| raw != writer);
        let mut returned = std::mem::replace(&mut self.has_returned, *last == b'\r') && goes_on;
        self.begun_by = (*last != b'\n').then_some(writer);
        self.is_abandoned = false;
        if label.is_empty() && !is_raw {
            return self.waiting.extend_from_slice(text);
        }
        let mut start = 0;
        while start < text.len() {
            let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
            let line = &text[start..end];
            let is_labelled = !std::mem::take(&mut goes_on);
            if is_labelled || (std::mem::take(&mut returned) && line != b"\n") {
                self.waiting.extend_from_slice(label);
            }
            match line.strip_suffix(b"\n") {
                Some(line) if is_raw => {
                    self.put_pieces(label, line);
                    self.waiting.extend_from_slice(b"\r\n");
                }
                _ => self.put_pieces(label, line),
            }
            start = end;
        }
    }

    /// Queues a line. A terminal overwrites what precedes a carriage return, so the label is repeated behind
    /// it.
    fn put_pieces(&mut self, label: &[u8], line: &[u8]) {
        let mut start = 0;
        for at in memchr::memchr_iter(b'\r', line) {
            if line.get(at + 1).is_some_and(|next| !b"\r\n".contains(next)) {
                self.waiting.extend_from_slice(&line[start..=at]);
                self.waiting.extend_from_slice(label);
                start = at + 1;
            }
        }
        self.waiting.extend_from_slice(&line[start..]);
    }

    fn put_records(&mut self, writer: Writer, text: &[u8]) {
        self.put_open();
        for text in text.chunks(TEXT_BYTES) {
            let record = match (writer, &mut self.positions) {
                (Writer::Launcher, positions) => {
                    let next = positions.as_mut().map(TextPositions::next_message);
                    let (node, number) = next.unwrap_or_default();
                    OutputRecord::Message { node, number, text }
                }
                (Writer::Rank(StreamOwner { group: job, rank }, stream), None) => {
                    OutputRecord::Text { job, rank, stream, text }
                }
                (Writer::Rank(StreamOwner { group: job, rank }, stream), Some(positions)) => {
                    let places = positions.advance((job, stream), &[rank], text.len());
                    let (held_ms, is_whole) = (0, false);
                    OutputRecord::Shared { job, stream, held_ms, is_whole, places, text }
                }
            };
            record.append(&mut self.waiting);
        }
    }

    /// True if the queue is sent to the head.
    pub(crate) const fn is_of_node(&self) -> bool {
        self.target.is_none()
    }

    /// Queues a line of several ranks, which is sent to the head once, with others of the same ranks.
    pub(crate) fn put_shared(
        &mut self,
        of: (u32, Stream),
        ranks: &[u32],
        (line, since): (&[u8], Instant),
    ) {
        if self.state != OutletState::Open {
            return;
        }
        if let Some(open) = &mut self.shared
            && open.of == of
            && open.ranks == ranks
            && open.text.len() + line.len() <= SHARED_BYTES
        {
            open.text.extend_from_slice(line);
            return;
        }
        self.put_open();
        self.shared = Some(SharedText { of, ranks: ranks.to_vec(), since, text: line.to_vec() });
    }

    /// Queues the record of lines of several ranks that is not complete.
    fn put_open(&mut self) {
        let Some(SharedText { of: (job, stream), ranks, since, text }) = self.shared.take() else {
            return;
        };
        let Some(positions) = &mut self.positions else { return };
        let held_ms = u32::try_from(clock::since(since).as_millis()).unwrap_or(u32::MAX);
        let is_whole = text.len() <= TEXT_BYTES;
        for text in text.chunks(TEXT_BYTES) {
            let places = positions.advance((job, stream), &ranks, text.len());
            OutputRecord::Shared { job, stream, held_ms, is_whole, places, text }
                .append(&mut self.waiting);
        }
    }

    /// Notes the end of a stream of a rank. The queue of a node has a record for it.
    pub(crate) fn put_end(&mut self, owner: StreamOwner, stream: Stream) {
        if self.target.is_some() {
            return self.end_writer(Writer::Rank(owner, stream));
        }
        self.put_open();
        let StreamOwner { group: job, rank } = owner;
        OutputRecord::Ended { job, rank, stream }.append(&mut self.waiting);
    }

    /// Notes that all text of a rank so far is in the queue of a node.
    pub(crate) fn put_up_to_date(&mut self, owner: StreamOwner, stream: Stream) {
        let StreamOwner { group: job, rank } = owner;
        OutputRecord::UpToDate { job, rank, stream }.append(&mut self.waiting);
    }

    /// Takes all queued records, to send them to the head.
    pub(crate) fn take_records(&mut self) -> Vec<u8> {
        self.put_open();
        let records = std::mem::take(&mut self.waiting);
        self.newly_written += u64::try_from(records.len()).unwrap_or(u64::MAX);
        records
    }

    /// Adds a carriage return to later line ends, except for those of `writer`; `None` stops that.
    pub(crate) const fn set_raw(&mut self, writer: Option<Writer>) {
        self.raw_for = writer;
    }

    /// Shows a line, shorter than a terminal is wide, until other output comes or this is called again;
    /// or removes it. It is not shown after an unfinished line.
    pub(crate) fn set_status(&mut self, status: Option<&str>) {
        self.wipe();
        let is_free =
            self.begun_by.is_none() && self.raw_for.is_none() && self.state == OutletState::Open;
        if let Some(text) = status.filter(|_| is_free && !self.is_full()) {
            self.waiting.extend_from_slice(text.as_bytes());
            self.has_status = true;
        }
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.has_status) {
            // Carriage return, and erase to the end of the line.
            self.waiting.extend_from_slice(b"\r\x1b[K");
        }
    }

    /// True if the next text of `writer` continues its unfinished line.
    pub(crate) fn goes_on(&self, writer: Writer) -> bool {
        let mut deferred = self.deferred.iter().rev();
        let last = deferred.find(|text| text.writer == writer);
        self.begun_by == Some(writer) || last.is_some_and(|last| !last.text.ends_with(b"\n"))
    }

    /// Writes as much as the reader takes.
    pub(crate) fn flush(&mut self) -> Flushed {
        if self.is_of_node() {
            self.put_open();
        }
        let Some(target) = &self.target else {
            return if self.waiting.is_empty() { Flushed::All } else { Flushed::Waiting };
        };
        while self.written < self.waiting.len() && self.state == OutletState::Open {
            match target.write(&self.waiting[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.newly_written += u64::try_from(count).unwrap_or(u64::MAX);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.waiting.drain(..self.written);
                    self.written = 0;
                    return Flushed::Waiting;
                }
                Err(Errno::PIPE) => self.state = OutletState::Closed,
                Err(error) => self.state = OutletState::Failed(error),
            }
        }
        self.written = 0;
        self.waiting.clear();
        self.waiting.shrink_to(FULL);
        if self.state != OutletState::Open {
            self.drop_deferred();
        }
        match self.state {
            OutletState::Open => Flushed::All,
            OutletState::Closed => Flushed::Closed,
            OutletState::Failed(error) => Flushed::Failed(error),
        }
    }

    /// True if so much is waiting that nothing should be added before some is written.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() - self.written >= FULL
    }

    /// Descriptor that becomes writable when the reader takes more; `None` for the queue of a node.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.target.as_ref().map(Target::fd)
    }
}

/// With this much waiting, output of ranks stays in their pipes: the default capacity of a pipe.
const FULL: usize = 64 * 1024;

/// Maximum length of lines of several ranks in one record. Each of the ranks has as much at the head, until
/// all ranks have written it.
pub(crate) const SHARED_BYTES: usize = 1024;

/// With this much waiting, lines of the launcher are dropped: more than any sensible run reports.
const OWN_MAX: usize = 1 << 20;

/// Maximum size of text that waits for the end of a line of another rank: more than ranks write while one of
/// them waits for a processor.
const DEFERRED_MAX: usize = 32 << 20;

/// Maximum time for which it waits for a rank that continues its line without an end.
const DEFERRAL_MAX: Duration = Duration::from_secs(10);

/// Message if lines of the launcher itself were dropped.
fn sentences_dropped(count: u64) -> String {
    format!("{count} lines of the launcher were dropped here because standard error was not read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::OwnedFd;
    use std::fs::File;

    const A: Writer = Writer::Rank(StreamOwner { group: 0, rank: 0 }, Stream::Out);
    const B: Writer = Writer::Rank(StreamOwner { group: 0, rank: 1 }, Stream::Out);
    const C: Writer = Writer::Rank(StreamOwner { group: 0, rank: 2 }, Stream::Out);

    fn outlet_with(patience: Duration) -> Outlet {
        let null = OwnedFd::from(File::open("/dev/null").unwrap());
        Outlet::new(Target::file(null), patience)
    }

    /// Expected output after all `texts` were put.
    fn put(texts: &[(Writer, &str, &str)]) -> String {
        let mut outlet = outlet_with(Duration::ZERO);
        for (writer, label, text) in texts {
            outlet.put(*writer, label.as_bytes(), text.as_bytes());
        }
        String::from_utf8(outlet.waiting).unwrap()
    }

    #[test]
    fn label_is_repeated_where_a_line_overwrites_itself() {
        assert_eq!(put(&[(A, "[0] ", "\r10%\r20%\r\n")]), "[0] \r[0] 10%\r[0] 20%\r\n");
        assert_eq!(put(&[(A, "[0] ", "10%\r"), (A, "[0] ", "20%\n")]), "[0] 10%\r[0] 20%\n");
        assert_eq!(put(&[(A, "[0] ", "10%\r"), (A, "[0] ", "\nx")]), "[0] 10%\r\n[0] x");
        assert_eq!(put(&[(A, "[0] ", "1\r"), (B, "[1] ", "2")]), "[0] 1\r\n[1] 2");
        assert_eq!(put(&[(A, "", "1\r2")]), "1\r2");
    }

    #[test]
    fn sign_of_life_is_gone_before_anything_else_comes() {
        let shown = |outlet: Outlet| String::from_utf8(outlet.waiting).unwrap();
        let mut outlet = outlet_with(Duration::ZERO);
        outlet.set_status(Some("1 of 2"));
        outlet.set_status(Some("2 of 2"));
        outlet.put(A, b"", b"text\n");
        outlet.set_status(None);
        assert_eq!(shown(outlet), "1 of 2\r\x1b[K2 of 2\r\x1b[Ktext\n");
        let mut outlet = outlet_with(Duration::ZERO);
        outlet.put(A, b"", b"name? ");
        outlet.set_status(Some("1 of 2"));
        assert_eq!(shown(outlet), "name? ");
    }

    #[test]
    fn sentences_of_the_launcher_are_bounded_and_dropped_ones_are_counted() {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut outlet = Outlet::new(Target::file(writer), Duration::ZERO);
        let sentence = "x".repeat(1000);
        for _ in 0..5000 {
            outlet.write_message(&sentence);
            assert_ne!(outlet.flush(), Flushed::Closed);
        }
        assert!(outlet.waiting.len() < OWN_MAX + 2 * sentence.len(), "{}", outlet.waiting.len());
        let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        let mut last_is_said = false;
        while let Ok(len @ 1..) = rustix::io::read(&reader, &mut piece) {
            all.extend_from_slice(&piece[..len]);
            if outlet.flush() == Flushed::All && !std::mem::replace(&mut last_is_said, true) {
                outlet.write_message("the last one");
                outlet.flush();
            }
        }
        let text = String::from_utf8(all).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let whole = lines.iter().filter(|line| line.ends_with(&sentence)).count();
        let [.., dropped, last] = &lines[..] else { panic!("{text}") };
        assert!(dropped.contains(&format!("{} ", 5000 - whole)), "{dropped}");
        assert_eq!(*last, "pmi-host: the last one");
    }

    #[test]
    fn label_stands_in_front_of_every_line() {
        assert_eq!(put(&[(A, "[0] ", "a\n\nb\n"), (B, "", "c\nd")]), "[0] a\n[0] \n[0] b\nc\nd");
    }

    #[test]
    fn line_goes_on_where_no_other_output_came_between() {
        let label = "[0] ";
        assert_eq!(put(&[(A, label, "name? "), (A, label, "Ann\nb")]), "[0] name? Ann\n[0] b");
    }

    /// Output of an outlet with patience after these texts.
    fn put_patiently(texts: &[(Writer, &str, &str)]) -> Outlet {
        let mut outlet = outlet_with(Duration::from_secs(60));
        for (writer, label, text) in texts {
            outlet.put(*writer, label.as_bytes(), text.as_bytes());
        }
        outlet
    }

    fn waiting(outlet: &Outlet) -> &str {
        std::str::from_utf8(&outlet.waiting).unwrap()
    }

    #[test]
    fn text_of_others_waits_for_the_end_of_an_unfinished_line() {
        let texts = [(A, "[0] ", "a"), (B, "[1] ", "b\n"), (C, "[2] ", "c"), (B, "[1] ", "d\n")];
        let mut outlet = put_patiently(&texts);
        assert_eq!(waiting(&outlet), "[0] a");
        assert!(outlet.deferred_until().is_some() && outlet.goes_on(C) && !outlet.goes_on(B));
        // The end of one line, and the begin of the next.
        outlet.put(A, b"[0] ", b" end\nnext");
        assert_eq!(waiting(&outlet), "[0] a end\n[1] b\n[2] c");
        outlet.put(C, b"[2] ", b" end\n");
        assert_eq!(waiting(&outlet), "[0] a end\n[1] b\n[2] c end\n[1] d\n[0] next");
        assert_eq!(outlet.deferred_until(), None);
    }

    #[test]
    fn unfinished_line_is_ended_when_its_writer_or_the_patience_is_at_its_end() {
        let texts = [(A, "", "a"), (B, "", "b\n")];
        let mut outlet = put_patiently(&texts);
        outlet.put_end(StreamOwner { group: 0, rank: 0 }, Stream::Out);
        assert_eq!((waiting(&outlet), outlet.deferred_until()), ("a\nb\n", None));
        // Text of a writer that has ended waits for others, and others do not wait for it.
        let mut outlet = put_patiently(&[(A, "", "a"), (B, "", "b"), (A, "", " end\nnext")]);
        outlet.put_end(StreamOwner { group: 0, rank: 0 }, Stream::Out);
        assert_eq!(waiting(&outlet), "a end\nb");
        outlet.put(B, b"", b" end\n");
        outlet.put(C, b"", b"c\n");
        assert_eq!((waiting(&outlet), outlet.deferred_until()), ("a end\nb end\nnext\nc\n", None));
        let mut outlet = put_patiently(&texts);
        outlet.end_line();
        outlet.put(A, b"", b" end\n");
        assert_eq!(waiting(&outlet), "a\nb\n end\n");
        // Text of ranks precedes a message about them.
        let mut outlet = put_patiently(&texts);
        outlet.put(Writer::Launcher, b"", b"!\n");
        assert_eq!(waiting(&outlet), "a\nb\n!\n");
        let mut outlet = put_patiently(&texts);
        outlet.put(B, b"", "x\n".repeat(DEFERRED_MAX / 2).as_bytes());
        assert!(waiting(&outlet).starts_with("a\nb\nx\n"));
        let now = clock::now();
        let mut outlet = put_patiently(&texts);
        assert!(outlet.extend_deferral(now) && !outlet.extend_deferral(now + 2 * DEFERRAL_MAX));
    }

    #[test]
    fn line_of_one_ends_where_a_line_of_another_begins() {
        let texts =
            [(A, "", "name? "), (B, "", "b\n"), (A, "", "Ann\n"), (B, "", "c"), (A, "", "")];
        assert_eq!(put(&texts), "name? \nb\nAnn\nc");
        let label = "[0] ";
        assert_eq!(
            put(&[(A, label, "x"), (Writer::Launcher, "", "!\n"), (A, label, "y")]),
            "[0] x\n!\n[0] y"
        );
    }
}
