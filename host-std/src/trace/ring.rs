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

/// The newest records.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Records, each with its [`RingHeader`] in front. They wrap around at the end.
    bytes: Vec<u8>,
    /// Offset behind the newest record.
    end: usize,
    /// Number of bytes of all records.
    held_bytes: usize,
    /// Number of records.
    count: usize,
    count_max: usize,
    /// By job, then by rank.
    lasts: Vec<Vec<Option<Last>>>,
}

/// Description of a record, in front of its bytes.
///
/// Shape: the number of bytes behind it with the kind in the highest two bits, job, rank and session in 32
/// bits each, and the time in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingHeader {
    len_bytes: u32,
    kind: EntryKind,
    time_ns: u64,
    subject: TraceSource,
}

/// Form of the bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Creates a ring for `count_max` records of usual length; fewer if they are long.
    pub(crate) fn new(count_max: usize) -> Self {
        let usual_bytes = count_max.saturating_mul(RECORD_BYTES);
        Self::with_room(count_max, if count_max == 0 { 0 } else { usual_bytes.max(ROOM_MIN_BYTES) })
    }

    /// Creates a ring for `count_max` records, which take `room_bytes` with their headers.
    fn with_room(count_max: usize, room_bytes: usize) -> Self {
        Self {
            // Allocated at once: untouched pages cost nothing.
            bytes: vec![0; room_bytes],
            end: 0,
            held_bytes: 0,
            count: 0,
            count_max,
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
        let room_bytes = self.bytes.len();
        let record_bytes = HEADER_BYTES + bytes.len();
        let Ok(len_bytes) = u32::try_from(bytes.len()) else { return };
        if record_bytes > room_bytes || len_bytes > LEN_MAX_BYTES || self.count_max == 0 {
            return;
        }
        while self.count >= self.count_max || self.held_bytes + record_bytes > room_bytes {
            self.held_bytes -= HEADER_BYTES + self.len_at(self.start());
            self.count -= 1;
        }
        self.append(&RingHeader { len_bytes, kind, time_ns, subject }.encode());
        self.append(bytes);
        self.count += 1;
    }

    /// Appends bytes, for which there is room.
    fn append(&mut self, bytes: &[u8]) {
        let (front, wrapped) = bytes.split_at(bytes.len().min(self.bytes.len() - self.end));
        self.bytes[self.end..self.end + front.len()].copy_from_slice(front);
        self.bytes[..wrapped.len()].copy_from_slice(wrapped);
        self.end = if wrapped.is_empty() { self.end + front.len() } else { wrapped.len() };
        self.held_bytes += bytes.len();
    }

    /// Offset of the oldest record.
    fn start(&self) -> usize {
        match self.end.checked_sub(self.held_bytes) {
            Some(start) => start,
            None => self.end + self.bytes.len() - self.held_bytes,
        }
    }

    /// Number of bytes behind the header at an offset.
    fn len_at(&self, at: usize) -> usize {
        index(u32::from_le_bytes(self.bytes_at(at)) & LEN_MAX_BYTES)
    }

    /// Bytes at an offset, from which they may wrap around.
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        match self.bytes[at..].first_chunk() {
            Some(bytes) => *bytes,
            None => std::array::from_fn(|place| self.bytes[(at + place) % self.bytes.len()]),
        }
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
        let (mut at, mut bytes) = (self.start(), Vec::new());
        for _ in 0..self.count {
            let header = RingHeader::decode(&self.bytes_at(at));
            let (before, behind) = self.bytes.split_at(at);
            let record = behind.iter().chain(before).skip(HEADER_BYTES);
            bytes.clear();
            bytes.extend(record.take(index(header.len_bytes)));
            at = (at + HEADER_BYTES + bytes.len()) % self.bytes.len();
            match header.kind {
                EntryKind::Encoded => out.extend_from_slice(&bytes),
                EntryKind::Message(direction) => {
                    let TraceSource { job, rank, session } = header.subject;
                    let what = Content::Message { direction, bytes: &bytes };
                    write_record(
                        &Record { time_ns: header.time_ns, job, rank, session, what },
                        out,
                    );
                }
            }
        }
    }
}

impl RingHeader {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let TraceSource { job, rank, session } = self.subject;
        let kind = match self.kind {
            EntryKind::Message(Direction::ToServer) => TO_SERVER,
            EntryKind::Message(Direction::ToClient) => TO_CLIENT,
            EntryKind::Encoded => ENCODED,
        };
        let (rank, session) = (rank.unwrap_or(ABSENT), session.unwrap_or(ABSENT));
        let words = [self.len_bytes | kind, job, rank, session];
        let mut bytes = [0; HEADER_BYTES];
        let (numbers, time) = bytes.split_at_mut(HEADER_BYTES - size_of::<u64>());
        for (place, word) in numbers.chunks_exact_mut(size_of::<u32>()).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        time.copy_from_slice(&self.time_ns.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |place: usize| {
            let word = bytes[place * size_of::<u32>()..].first_chunk();
            u32::from_le_bytes(word.copied().unwrap_or_default())
        };
        let known = |number: u32| (number != ABSENT).then_some(number);
        let time_ns = bytes.last_chunk().copied().map_or(0, u64::from_le_bytes);
        let kind = match word(0) & !LEN_MAX_BYTES {
            TO_SERVER => EntryKind::Message(Direction::ToServer),
            TO_CLIENT => EntryKind::Message(Direction::ToClient),
            _ => EntryKind::Encoded,
        };
        let subject = TraceSource { job: word(1), rank: known(word(2)), session: known(word(3)) };
        Self { len_bytes: word(0) & LEN_MAX_BYTES, kind, time_ns, subject }
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

/// Size of a usual record with its header. Values of keys are longer, and leave room for fewer records.
const RECORD_BYTES: usize = 48;

/// Room of the smallest ring, which holds a message of any length of PMI-1 and PMI-2.
const ROOM_MIN_BYTES: usize = 16 << 10;

/// Longer than every command with its prefix.
const START_BYTES: usize = 40;

/// Size of a header.
const HEADER_BYTES: usize = 24;

/// Bits of the length of a record; the others have its kind.
const LEN_MAX_BYTES: u32 = u32::MAX >> 2;
const TO_SERVER: u32 = 0;
const TO_CLIENT: u32 = 1 << 30;
const ENCODED: u32 = 2 << 30;

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
        let capacity = ring.bytes.capacity();
        for number in 0..=200u8 {
            push(&mut ring, number.into(), &[number; 10]);
        }
        let expected: Vec<_> =
            (197..=200u8).map(|number| (number.into(), vec![number; 10])).collect();
        assert_eq!(kept(&ring), expected);
        // Everything but the last record is dropped for a long one, and one that is too long for all is left
        // out.
        let room = 1024 - 2 * HEADER_BYTES - 10;
        push(&mut ring, 201, &vec![1; room]);
        assert_eq!(kept(&ring), [(200, vec![200; 10]), (201, vec![1; room])]);
        push(&mut ring, 202, &[2; 1024]);
        assert_eq!(kept(&ring)[0], (200, vec![200; 10]));
        push(&mut ring, 203, &vec![3; room + 1]);
        assert_eq!(kept(&ring), [(203, vec![3; room + 1])]);
        assert_eq!(ring.bytes.capacity(), capacity);
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
    fn headers_are_read_as_they_were_written() {
        let known = [None, Some(0), Some(1 << 31), Some(u32::MAX - 1)];
        for (rank, session) in known.into_iter().zip(known.into_iter().rev()) {
            for kind in [
                EntryKind::Message(Direction::ToServer),
                EntryKind::Message(Direction::ToClient),
                EntryKind::Encoded,
            ] {
                let subject = TraceSource { job: 77, rank, session };
                let (len_bytes, time_ns) = (LEN_MAX_BYTES - 9, u64::MAX - 3);
                let header = RingHeader { len_bytes, kind, time_ns, subject };
                assert_eq!(RingHeader::decode(&header.encode()), header);
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
