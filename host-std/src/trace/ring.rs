//! The last messages of all ranks, in memory that does not grow.
//!
//! The ring holds the newest records of all ranks, encoded as in a file. A rank that the others wait for
//! has usually been silent for long, so the start of each rank's last message is kept separately.

use crate::numbers::index;
use pmi_trace::Direction;
use pmi_trace::message::name;
use std::collections::VecDeque;

/// The newest records.
#[derive(Debug)]
pub(crate) struct Ring {
    frames: VecDeque<u8>,
    /// Length of each of them, the oldest first.
    lens: VecDeque<u32>,
    frames_max: usize,
    /// By job, then by rank.
    lasts: Vec<Vec<Option<Last>>>,
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
    /// Creates a ring for `frames_max` records of usual length; fewer if they are long.
    pub(crate) fn new(frames_max: usize) -> Self {
        // Allocated at once: untouched pages cost nothing.
        let bytes_max = frames_max.saturating_mul(FRAME_BYTES);
        Self {
            frames: VecDeque::with_capacity(bytes_max),
            lens: VecDeque::with_capacity(frames_max),
            frames_max,
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

    /// Adds a record, and drops the oldest ones for it. A record longer than the ring is left out.
    pub(crate) fn push(&mut self, frame: &[u8]) {
        let bytes_max = self.frames_max.saturating_mul(FRAME_BYTES);
        let Ok(len) = u32::try_from(frame.len()) else { return };
        if frame.len() > bytes_max {
            return;
        }
        while self.lens.len() >= self.frames_max || self.frames.len() + frame.len() > bytes_max {
            let Some(oldest) = self.lens.pop_front() else { return };
            self.frames.drain(..index(oldest));
        }
        self.frames.extend(frame);
        self.lens.push_back(len);
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

    /// Appends all records, the oldest first.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let (front, back) = self.frames.as_slices();
        out.extend(front);
        out.extend(back);
    }
}

impl Last {
    /// Copies the start of a message.
    pub(crate) fn new(time_ns: u64, direction: Direction, message: &[u8]) -> Self {
        let mut start = [0; START_BYTES];
        start.iter_mut().zip(message).for_each(|(to, byte)| *to = *byte);
        Self { time_ns, direction, len_bytes: message.len(), start }
    }

    /// The command of the message, safe to show on a terminal.
    pub(crate) fn name(&self) -> String {
        let start = self.start.get(..self.len_bytes).unwrap_or(&self.start);
        name(self.direction, start, self.len_bytes).escape_ascii().to_string()
    }
}

/// Average size of a record; most are shorter, and values of keys are longer.
const FRAME_BYTES: usize = 256;

/// Longer than every command with its prefix.
const START_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(ring: &Ring) -> Vec<u8> {
        let mut out = Vec::new();
        ring.write_to(&mut out);
        out
    }

    #[test]
    fn newest_records_are_kept_in_memory_that_does_not_grow() {
        let mut ring = Ring::new(4);
        let capacity = (ring.frames.capacity(), ring.lens.capacity());
        for number in 0..=200u8 {
            ring.push(&[number; 10]);
        }
        let expected: Vec<u8> = (197..=200u8).flat_map(|number| [number; 10]).collect();
        assert_eq!(kept(&ring), expected);
        ring.push(&[1; 4 * FRAME_BYTES - 15]);
        assert_eq!(kept(&ring).len(), 4 * FRAME_BYTES - 5);
        ring.push(&[2; 4 * FRAME_BYTES + 1]);
        assert_eq!(kept(&ring)[..10], [200; 10]);
        assert_eq!((ring.frames.capacity(), ring.lens.capacity()), capacity);
    }

    #[test]
    fn last_message_of_a_rank_outlives_the_ring() {
        let mut ring = Ring::new(1);
        ring.add_job(2, 3);
        let last = Last::new(5, Direction::ToServer, b"cmd=barrier_in\n");
        ring.note((2, 1), last);
        for _ in 0..10 {
            ring.push(b"another");
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
