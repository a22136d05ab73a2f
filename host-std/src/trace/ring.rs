//! The last messages of all ranks, in memory that does not grow.
//!
//! The ring holds the newest records of all ranks. A message is kept as its bytes and encoded only when the
//! records are read, which happens rarely, while messages come all the time. A rank that the others wait for
//! has usually been silent for long, so the start of each rank's last message is kept separately.

use super::TraceSource;
use crate::numbers::index;
use pmi_trace::file::write_record;
use pmi_trace::message::name;
use pmi_trace::{Content, Direction, Record};
use std::collections::VecDeque;

/// The newest records.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The oldest first.
    entries: VecDeque<RingEntry>,
    entries_max: usize,
    /// Their bytes, in the same order. They wrap around at the end.
    bytes: Vec<u8>,
    /// Offset behind the newest byte.
    end: usize,
    /// Number of bytes of all entries.
    held_bytes: usize,
    /// By job, then by rank.
    lasts: Vec<Vec<Option<Last>>>,
}

/// A record whose bytes are in the ring.
#[derive(Clone, Copy, Debug)]
struct RingEntry {
    time_ns: u64,
    job: u32,
    /// [`ABSENT`] if it is not known.
    rank: u32,
    /// [`ABSENT`] for a record without a connection.
    session: u32,
    len_bytes: u32,
    kind: EntryKind,
}

/// Form of the bytes of a record.
#[derive(Clone, Copy, Debug)]
enum EntryKind {
    /// A message in this direction.
    Message(Direction),
    /// A record as in a file.
    Encoded,
}

/// The last message of a rank, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    /// Time of the message.
    ///
    /// Units: nanoseconds since the start of the run.
    pub(crate) time_ns: u64,
    /// Direction.
    pub(crate) direction: Direction,
    /// Its length.
    pub(crate) len_bytes: usize,
    start: [u8; START_BYTES],
}

impl Ring {
    /// Creates a ring for `entries_max` records of usual length; fewer if they are long.
    pub(crate) fn new(entries_max: usize) -> Self {
        let usual_bytes = entries_max.saturating_mul(RECORD_BYTES);
        Self::with_room(
            entries_max,
            if entries_max == 0 { 0 } else { usual_bytes.max(ROOM_MIN_BYTES) },
        )
    }

    /// Creates a ring for `entries_max` records of `room_bytes` together.
    fn with_room(entries_max: usize, room_bytes: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(entries_max),
            entries_max,
            // Allocated at once: untouched pages cost nothing.
            bytes: vec![0; room_bytes],
            end: 0,
            held_bytes: 0,
            lasts: Vec::new(),
        }
    }

    /// Makes room for the last messages of the ranks of a job.
    pub(crate) fn add_job(&mut self, job: u32, ranks: u32) {
        let place = index(job);
        self.lasts.resize_with(self.lasts.len().max(place + 1), Vec::new);
        self.lasts[place] = vec![None; index(ranks)];
    }

    /// Forgets the last messages of the ranks of a job.
    pub(crate) fn remove_job(&mut self, job: u32) {
        if let Some(lasts) = self.lasts.get_mut(index(job)) {
            *lasts = Vec::new();
        }
    }

    /// Adds a message, and drops the oldest records for it. One longer than the ring is left out.
    pub(crate) fn push_message(
        &mut self,
        subject: TraceSource,
        time_ns: u64,
        direction: Direction,
        bytes: &[u8],
    ) {
        self.push(subject, time_ns, EntryKind::Message(direction), bytes);
    }

    /// Adds a record that is encoded as in a file.
    pub(crate) fn push_encoded(&mut self, frame: &[u8]) {
        let subject = TraceSource { job: 0, rank: None, session: None };
        self.push(subject, 0, EntryKind::Encoded, frame);
    }

    fn push(&mut self, subject: TraceSource, time_ns: u64, kind: EntryKind, bytes: &[u8]) {
        let Ok(len_bytes) = u32::try_from(bytes.len()) else { return };
        let all_bytes = self.bytes.len();
        if bytes.len() > all_bytes {
            return;
        }
        while self.entries.len() >= self.entries_max || self.held_bytes + bytes.len() > all_bytes {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.held_bytes -= index(oldest.len_bytes);
        }
        let (front, wrapped) = bytes.split_at(bytes.len().min(all_bytes - self.end));
        self.bytes[self.end..self.end + front.len()].copy_from_slice(front);
        self.bytes[..wrapped.len()].copy_from_slice(wrapped);
        self.end = if wrapped.is_empty() { self.end + front.len() } else { wrapped.len() };
        self.held_bytes += bytes.len();
        let TraceSource { job, rank, session } = subject;
        let (rank, session) = (rank.unwrap_or(ABSENT), session.unwrap_or(ABSENT));
        self.entries.push_back(RingEntry { time_ns, job, rank, session, len_bytes, kind });
    }

    /// Keeps the last message of a rank.
    pub(crate) fn note(&mut self, (job, rank): (u32, u32), last: Last) {
        let lasts = self.lasts.get_mut(index(job));
        if let Some(place) = lasts.and_then(|lasts| lasts.get_mut(index(rank))) {
            *place = Some(last);
        }
    }

    /// The last message of a rank, or to it.
    pub(crate) fn last(&self, job: u32, rank: u32) -> Option<&Last> {
        self.lasts.get(index(job))?.get(index(rank))?.as_ref()
    }

    /// Appends all records as in a file, the oldest first.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let mut at = match self.end.checked_sub(self.held_bytes) {
            Some(at) => at,
            None => self.end + self.bytes.len() - self.held_bytes,
        };
        let mut joined = Vec::new();
        for entry in &self.entries {
            let len = index(entry.len_bytes);
            let front = &self.bytes[at..self.bytes.len().min(at + len)];
            let wrapped = &self.bytes[..len - front.len()];
            let bytes = match wrapped {
                [] => front,
                _ => {
                    joined.clear();
                    joined.extend_from_slice(front);
                    joined.extend_from_slice(wrapped);
                    &joined
                }
            };
            at = if wrapped.is_empty() { at + len } else { wrapped.len() };
            match entry.kind {
                EntryKind::Encoded => out.extend_from_slice(bytes),
                EntryKind::Message(direction) => {
                    write_record(&entry.message(direction, bytes), out)
                }
            }
        }
    }
}

impl RingEntry {
    /// The record of a message.
    fn message<'a>(&self, direction: Direction, bytes: &'a [u8]) -> Record<&'a [u8]> {
        let known = |number: u32| (number != ABSENT).then_some(number);
        let (rank, session) = (known(self.rank), known(self.session));
        let what = Content::Message { direction, bytes };
        Record { time_ns: self.time_ns, job: self.job, rank, session, what }
    }
}

impl Last {
    /// Copies the start of a message.
    pub(crate) fn new(time_ns: u64, direction: Direction, message: &[u8]) -> Self {
        let mut start = [0; START_BYTES];
        let len = message.len().min(START_BYTES);
        start[..len].copy_from_slice(&message[..len]);
        Self { time_ns, direction, len_bytes: message.len(), start }
    }

    /// The command of the message, safe to show on a terminal.
    pub(crate) fn name(&self) -> String {
        let start = self.start.get(..self.len_bytes).unwrap_or(&self.start);
        name(self.direction, start, self.len_bytes).escape_ascii().to_string()
    }
}

/// Size of a usual record. Values of keys are longer, and leave room for fewer records.
const RECORD_BYTES: usize = 64;

/// Room of the smallest ring, which holds a message of any length of PMI-1 and PMI-2.
const ROOM_MIN_BYTES: usize = 16 << 10;

/// Longer than every command with its prefix.
const START_BYTES: usize = 40;

/// No rank and no session has this number.
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_trace::file::RecordReader;

    const SUBJECT: TraceSource = TraceSource { job: 2, rank: Some(1), session: None };

    fn push(ring: &mut Ring, number: u64, bytes: &[u8]) {
        ring.push_message(SUBJECT, number, Direction::ToServer, bytes);
    }

    /// Times and bytes of the messages that the ring holds.
    fn kept(ring: &Ring) -> Vec<(u64, Vec<u8>)> {
        let mut out = Vec::new();
        ring.write_to(&mut out);
        let records = RecordReader::of_records(&out).map(|record| match record.what {
            Content::Message { bytes, .. } => {
                assert_eq!((record.job, record.rank, record.session), (2, Some(1), None));
                (record.time_ns, bytes)
            }
            _ => (record.time_ns, Vec::new()),
        });
        records.collect()
    }

    #[test]
    fn newest_records_are_kept_in_memory_that_does_not_grow() {
        let mut ring = Ring::with_room(4, 1024);
        let capacity = (ring.bytes.capacity(), ring.entries.capacity());
        for number in 0..=200u8 {
            push(&mut ring, number.into(), &[number; 10]);
        }
        let expected: Vec<_> =
            (197..=200u8).map(|number| (number.into(), vec![number; 10])).collect();
        assert_eq!(kept(&ring), expected);
        // Everything but the last record is dropped for a long one, and one that is too long for all is left
        // out.
        push(&mut ring, 201, &[1; 1024 - 15]);
        assert_eq!(kept(&ring), [(200, vec![200; 10]), (201, vec![1; 1024 - 15])]);
        push(&mut ring, 202, &[2; 1024 + 1]);
        assert_eq!(kept(&ring)[0], (200, vec![200; 10]));
        assert_eq!((ring.bytes.capacity(), ring.entries.capacity()), capacity);
    }

    #[test]
    fn records_are_whole_wherever_they_wrap_around() {
        for first_bytes in 1..300 {
            let mut ring = Ring::with_room(4, 1024);
            push(&mut ring, 0, &vec![0; first_bytes]);
            for number in 1..40u8 {
                let bytes: Vec<u8> = (0..251).map(|byte| byte ^ number).collect();
                push(&mut ring, number.into(), &bytes);
            }
            let mut frame = Vec::new();
            let what: Content = Content::Ended { code: 0 };
            let ended = Record { time_ns: 77, job: 0, rank: None, session: None, what };
            write_record(&ended, &mut frame);
            ring.push_encoded(&frame);
            let kept = kept(&ring);
            let times: Vec<_> = kept.iter().map(|(time, _)| *time).collect();
            assert_eq!(times, [37, 38, 39, 77]);
            for (number, bytes) in &kept[..3] {
                let is_whole =
                    (0..251).zip(bytes).all(|(at, byte)| u64::from(at ^ byte) == *number);
                assert!(is_whole && bytes.len() == 251, "{number} after {first_bytes}");
            }
        }
    }

    #[test]
    fn ring_without_room_keeps_nothing() {
        let mut ring = Ring::new(0);
        push(&mut ring, 0, b"message");
        push(&mut ring, 0, b"");
        assert_eq!(kept(&ring), []);
    }

    #[test]
    fn last_message_of_a_rank_outlives_the_ring() {
        let mut ring = Ring::new(1);
        ring.add_job(2, 3);
        let last = Last::new(5, Direction::ToServer, b"cmd=barrier_in\n");
        ring.note((2, 1), last);
        for _ in 0..10 {
            push(&mut ring, 0, b"another");
        }
        assert_eq!(ring.last(2, 1), Some(&last));
        assert_eq!((last.name().as_str(), last.len_bytes), ("barrier_in", 15));
        // Absent for an unknown rank and for a removed job.
        ring.note((2, 3), last);
        ring.note((9, 0), last);
        assert_eq!((ring.last(2, 3), ring.last(9, 0)), (None, None));
        ring.remove_job(2);
        assert_eq!(ring.last(2, 1), None);
    }

    #[test]
    fn name_is_safe_to_show() {
        for (message, name) in [
            (&b"mcmd=spawn\nnprocs=1\n"[..], "spawn"),
            (b"    14cmd=kvs-fence;", "kvs-fence"),
            (b"cmd=\x1b[2J\n", "\\x1b[2J"),
            (b"GET / HTTP", ""),
            (b"", ""),
        ] {
            assert_eq!(Last::new(0, Direction::ToServer, message).name(), name);
        }
    }
}
