//! Recording of messages: always the last ones in memory, and all of them in a file on request.
//!
//! A message is recorded when the server receives or sends it, whole, with the bytes of the wire. The ring
//! keeps these bytes; its record is encoded only for the file and for observers, or when the ring is read.

mod file;
mod message_lines;
mod redact;
mod ring;
mod tap;
mod unsent;

pub(crate) use file::TraceFile;
pub(crate) use redact::redacted;
pub(crate) use ring::{Last, Ring};
pub(crate) use tap::Tap;

use message_lines::MessageLines;
use pmi_host_os::clock;
use unsent::UnsentRecords;

use crate::launch::plan::job::Plan;
use crate::settings;
use nix::time::{ClockId, clock_gettime};
use pmi_trace::file::{write_head, write_record};
use pmi_trace::record::PMIX_SESSION;
use pmi_trace::stream::Splitter;
use pmi_trace::{Content, Direction, Head, JobFacts, Record};
use std::time::{Duration, Instant, SystemTime};

/// Recorder of messages and events.
#[derive(Debug)]
pub struct Tracer {
    /// Start of the run.
    zero: Instant,
    /// The same, by [`monotonic_ns`].
    zero_ns: u64,
    head: Head,
    ring: Ring,
    /// Time of the last message, since the start of the run.
    last_message_ns: Option<u64>,
    file: Option<TraceFile>,
    /// By session, then by PMIx connection: the start of an incomplete message.
    streams: [Vec<Splitter>; 2],
    /// Records for observers, or for the head of a run on several nodes.
    unsent: Option<UnsentRecords>,
    /// Messages to be shown to the user; `None` unless requested.
    shown: Option<MessageLines>,
    /// The record being encoded.
    frame: Vec<u8>,
    /// True if messages may contain proofs, which are left out.
    hides_proofs: bool,
    /// A message without its proofs.
    shown_of: Vec<u8>,
}

/// Subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSource {
    /// Number of the job.
    pub job: u32,
    /// The rank, if known.
    pub rank: Option<u32>,
    /// Number of the connection, if the record is about one.
    pub session: Option<u32>,
}

impl TraceSource {
    /// A rank, with any connection.
    pub(crate) const fn rank(job: u32, rank: u32) -> Self {
        Self { job, rank: Some(rank), session: None }
    }

    /// A PMIx connection; these have numbers of their own.
    pub(crate) const fn pmix(job: u32, rank: Option<u32>, connection: u32) -> Self {
        Self { job, rank, session: Some(connection | PMIX_SESSION) }
    }

    /// A job as a whole.
    pub(crate) const fn job(job: u32) -> Self {
        Self { job, rank: None, session: None }
    }
}

impl Tracer {
    /// Starts the clock of the records. The ring has room for `ring` messages of usual length.
    pub fn new(ring: usize) -> Self {
        Self {
            zero: clock::now(),
            zero_ns: monotonic_ns(),
            head: Head::default(),
            ring: Ring::new(ring),
            last_message_ns: None,
            file: None,
            streams: Default::default(),
            unsent: None,
            shown: None,
            frame: Vec::new(),
            hides_proofs: false,
            shown_of: Vec::new(),
        }
    }

    /// Sets whether ids, nonces and proofs are left out of records: without a secret an id is just a
    /// rank.
    pub(crate) fn hide_proofs(&mut self, hides_proofs: bool) {
        self.hides_proofs = hides_proofs;
    }

    /// Sets the facts about the run, and opens the file if one is requested. Later records are written to
    /// it.
    ///
    /// # Errors
    ///
    /// The file cannot be written; a message for the user, with the remedy.
    pub fn start(&mut self, settings: &settings::Tracing, head: Head) -> Result<(), String> {
        let mut start = Vec::new();
        write_head(&head, &mut start);
        self.head = head;
        self.shown = settings.shows_messages.then(MessageLines::default);
        self.file =
            settings.file.as_deref().map(|path| TraceFile::create(path, &start)).transpose()?;
        Ok(())
    }

    /// Adds a job. Its ranks are `spawned` by another's, or present from the start.
    pub fn add_job(&mut self, facts: JobFacts, spawned: bool) {
        self.ring.add_job(facts.job, facts.ranks);
        if spawned {
            self.event(TraceSource::job(facts.job), Content::Spawned(facts));
        }
    }

    /// Drops the last messages of the ranks of a job.
    pub(crate) fn remove_job(&mut self, job: u32) {
        self.ring.remove_job(job);
    }

    /// Records an event other than a message.
    pub(crate) fn event(&mut self, subject: TraceSource, what: Content) {
        if let (Content::Connected { .. }, Some(session)) = (&what, subject.session) {
            // The number may be reused from a connection that closed within a message.
            *stream(&mut self.streams, session) = Splitter::default();
        }
        let time_ns = self.now_ns();
        self.record(subject, time_ns, what);
    }

    /// Wraps a machine so that its messages are recorded, as of `now`.
    pub fn tap<M>(&mut self, machine: M, subject: TraceSource, now: Instant) -> Tap<'_, M> {
        let time_ns = self.ns_at(now);
        Tap::new(machine, self, subject, time_ns)
    }

    /// Records the complete messages in input of a client.
    fn received(&mut self, subject: TraceSource, time_ns: u64, bytes: &[u8]) {
        let Some(session) = subject.session else { return };
        if stream(&mut self.streams, session).is_one_message(bytes) {
            return self.message(subject, time_ns, Direction::ToServer, bytes);
        }
        self.split(session, (subject, time_ns), Direction::ToServer, bytes);
    }

    /// Records output of the server: one whole message, or a piece of a PMIx message.
    ///
    /// The clock is read again for readers, to whom a response in the turn of its request would seem to have
    /// taken no time.
    fn sent(&mut self, subject: TraceSource, time_ns: u64, bytes: &[u8]) {
        let Some(session) = subject.session else { return };
        let time_ns = if self.has_readers() { self.now_ns().max(time_ns) } else { time_ns };
        if session & PMIX_SESSION != 0 {
            return self.split(session, (subject, time_ns), Direction::ToClient, bytes);
        }
        stream(&mut self.streams, session).note_reply(bytes);
        self.message(subject, time_ns, Direction::ToClient, bytes);
    }

    fn split(
        &mut self,
        session: u32,
        (subject, time_ns): (TraceSource, u64),
        direction: Direction,
        bytes: &[u8],
    ) {
        let mut splitter = std::mem::take(stream(&mut self.streams, session));
        splitter.push(direction, bytes, |message| {
            self.message(subject, time_ns, direction, message);
        });
        *stream(&mut self.streams, session) = splitter;
    }

    fn message(&mut self, subject: TraceSource, time_ns: u64, direction: Direction, bytes: &[u8]) {
        // An identified rank sends no further proofs, and most messages come from such ranks.
        if self.hides_proofs && subject.rank.is_none() {
            let mut room = std::mem::take(&mut self.shown_of);
            self.keep(subject, time_ns, direction, redacted(bytes, &mut room));
            self.shown_of = room;
        } else {
            self.keep(subject, time_ns, direction, bytes);
        }
    }

    fn keep(&mut self, subject: TraceSource, time_ns: u64, direction: Direction, bytes: &[u8]) {
        self.last_message_ns = Some(time_ns);
        if let Some(rank) = subject.rank {
            self.ring.note((subject.job, rank), Last::new(time_ns, direction, bytes));
        }
        if let Some(shown) = &mut self.shown {
            shown.push(subject, direction, bytes);
        }
        self.ring.push_message(subject, time_ns, direction, bytes);
        if self.file.is_some() || self.unsent.is_some() {
            self.encode(subject, time_ns, Content::Message { direction, bytes });
            self.pass_on();
        }
    }

    /// Adds a record that another node has made.
    pub(crate) fn add_record(&mut self, subject: TraceSource, time_ns: u64, what: Content) {
        if let (Some(shown), Content::Message { direction, bytes }) = (&mut self.shown, &what) {
            shown.push(subject, *direction, bytes);
        }
        self.record(subject, time_ns, what);
    }

    fn record(&mut self, subject: TraceSource, time_ns: u64, what: Content) {
        self.encode(subject, time_ns, what);
        self.ring.push_encoded(&self.frame);
        self.pass_on();
    }

    fn encode<B: AsRef<[u8]>>(&mut self, subject: TraceSource, time_ns: u64, what: Content<B>) {
        let TraceSource { job, rank, session } = subject;
        self.frame.clear();
        write_record(&Record { time_ns, job, rank, session, what }, &mut self.frame);
    }

    /// Hands the encoded record to the readers other than the ring.
    fn pass_on(&mut self) {
        if let Some(file) = &mut self.file {
            file.push(&self.frame);
        }
        if let Some(unsent) = &mut self.unsent {
            unsent.push(&self.frame);
        }
    }

    /// Hands records to the thread of the file, without blocking. Returns a failure for the user, once.
    pub fn flush(&mut self) -> Option<String> {
        let now_ns = self.file.as_ref().map(|_| self.now_ns())?;
        let trouble = self.file.as_mut()?.flush(now_ns)?;
        self.file = None;
        Some(trouble)
    }

    /// Records the end of the run, and waits until the file is written. Returns a failure for the user.
    pub(crate) fn finish(&mut self, code: u8) -> Option<String> {
        self.event(TraceSource { job: 0, rank: None, session: None }, Content::Ended { code });
        self.file.take()?.finish(self.now_ns())
    }

    /// The last message of a rank, or to it.
    pub(crate) fn last(&self, job: u32, rank: u32) -> Option<&Last> {
        self.ring.last(job, rank)
    }

    /// Time of the last message of any rank, or to it.
    pub(crate) fn last_message(&self) -> Option<Instant> {
        self.last_message_ns.map(|time_ns| self.zero + Duration::from_nanos(time_ns))
    }

    /// Messages since the last call, each as a line for the user, if they were requested. `is_read` is
    /// true if the reader has taken everything so far.
    pub(crate) fn take_shown(&mut self, is_read: bool) -> Vec<String> {
        self.shown.as_mut().map_or_else(Vec::new, |shown| shown.drain(is_read))
    }

    /// Starts or stops keeping records for [`take_unsent`](Self::take_unsent).
    pub(crate) fn keep_unsent(&mut self, keeps: bool) {
        match keeps {
            true => drop(self.unsent.get_or_insert_default()),
            false => self.unsent = None,
        }
    }

    /// True if records go to a file, an observer or the user, who wait for them.
    pub(crate) fn has_readers(&self) -> bool {
        self.file.is_some() || self.unsent.is_some() || self.shown.is_some()
    }

    /// True if there are records to take.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent.as_ref().is_some_and(|unsent| !unsent.is_empty())
    }

    /// The oldest whole records that were not taken yet, in the order in which they were made.
    pub(crate) fn take_unsent(&mut self) -> Option<Vec<u8>> {
        let now_ns = self.now_ns();
        let unsent = self.unsent.as_mut()?;
        unsent.take().or_else(|| {
            let count = unsent.take_lost()?;
            let mut frame = Vec::new();
            write_record(&file::lost(now_ns, count), &mut frame);
            Some(frame)
        })
    }

    /// The last messages of all ranks, as a trace that other programs read.
    pub(crate) fn recent(&self) -> Vec<u8> {
        let mut trace = Vec::new();
        write_head(&self.head, &mut trace);
        self.ring.write_to(&mut trace);
        trace
    }

    /// Time since the start of the run.
    ///
    /// Units: nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.ns_at(clock::now())
    }

    /// The same at a moment.
    fn ns_at(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.zero).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Start of the run, by [`monotonic_ns`].
    pub(crate) const fn zero_ns(&self) -> u64 {
        self.zero_ns
    }
}

/// Time of the monotonic clock, which all processes of a machine share.
///
/// Units: nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    // Linux always has this clock, which counts from the start of the system. The function of the C library
    // works under valgrind, too.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Facts about a run whose first job is the one described.
pub(crate) fn head(plan: &Plan, facts: JobFacts) -> Head {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Head {
        started_unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        recorder: concat!("pmi-host ", env!("CARGO_PKG_VERSION")).into(),
        host: plan.host.clone(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        jobs: vec![facts],
    }
}

fn stream(streams: &mut [Vec<Splitter>; 2], session: u32) -> &mut Splitter {
    let streams = &mut streams[usize::from(session & PMIX_SESSION != 0)];
    let place = usize::try_from(session & !PMIX_SESSION).unwrap_or(usize::MAX);
    if streams.len() <= place {
        streams.resize_with(place + 1, Splitter::default);
    }
    &mut streams[place]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_trace::file;

    const SUBJECT: TraceSource = TraceSource { job: 0, rank: Some(1), session: Some(7) };

    fn tracer(ring: usize) -> Tracer {
        let mut tracer = Tracer::new(ring);
        let facts = JobFacts { job: 0, name: "kvs".into(), ranks: 2, spawner: None };
        tracer.start(&settings::Tracing::default(), Head::default()).unwrap();
        tracer.add_job(facts, false);
        tracer
    }

    fn messages(tracer: &Tracer) -> Vec<String> {
        let read = file::read(&tracer.recent()).unwrap();
        assert_eq!(read.damage, None);
        read.trace.messages().map(|(.., bytes)| bytes.escape_ascii().to_string()).collect()
    }

    #[test]
    fn messages_are_recorded_whole_however_they_arrive() {
        let mut tracer = tracer(16);
        for piece in b"cmd=init pmi_version=2 pmi_subversion=0\n".chunks(7) {
            tracer.received(SUBJECT, 0, piece);
        }
        assert_eq!(tracer.last(0, 1).map(Last::name), Some("init".into()));
        tracer.sent(SUBJECT, 0, b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n");
        tracer.received(SUBJECT, 0, b"    23cmd=fullinit;pmirank=1;    14cmd=kvs-f");
        tracer.received(SUBJECT, 0, b"ence;");
        assert_eq!(
            messages(&tracer),
            [
                "cmd=init pmi_version=2 pmi_subversion=0\\n",
                "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\\n",
                "    23cmd=fullinit;pmirank=1;",
                "    14cmd=kvs-fence;"
            ]
        );
        let last = *tracer.last(0, 1).unwrap();
        assert_eq!((last.name().as_str(), last.direction), ("kvs-fence", Direction::ToServer));
        assert!(tracer.last(0, 0).is_none() && tracer.last(3, 1).is_none());
    }

    #[test]
    fn connection_that_takes_an_old_number_starts_afresh() {
        let mut tracer = tracer(16);
        tracer.received(SUBJECT, 0, b"cmd=ini");
        tracer.event(SUBJECT, Content::Closed);
        tracer.event(SUBJECT, Content::Connected { from: None });
        tracer.received(SUBJECT, 0, b"cmd=get_maxes\n");
        assert_eq!(messages(&tracer), ["cmd=get_maxes\\n"]);
    }

    #[test]
    fn response_in_the_turn_of_its_request_has_a_later_time_for_readers() {
        let mut tracer = tracer(16);
        tracer.keep_unsent(true);
        tracer.received(SUBJECT, 0, b"cmd=get_maxes\n");
        tracer.sent(SUBJECT, 0, b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
        let read = file::read(&tracer.recent()).unwrap();
        let times: Vec<u64> = read.trace.messages().map(|(_, record, ..)| record.time_ns).collect();
        assert!(matches!(times[..], [0, reply] if reply > 0), "{times:?}");
    }

    #[test]
    fn without_a_ring_the_last_messages_are_still_known() {
        let mut tracer = tracer(0);
        tracer.received(SUBJECT, 0, b"cmd=get_maxes\n");
        assert_eq!(messages(&tracer), [""; 0]);
        assert_eq!(tracer.last(0, 1).map(Last::name), Some("get_maxes".into()));
    }
}
