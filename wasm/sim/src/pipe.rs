//! One direction of a link: bytes in transit, bytes that have arrived, and an end.

use std::collections::VecDeque;

/// Bytes from one end to the other, in order, up to a bound.
#[derive(Clone, Debug)]
pub struct Pipe {
    room: usize,
    flying: VecDeque<Segment>,
    landed: Vec<u8>,
    /// Number of bytes in transit and of bytes that have arrived.
    held: usize,
    /// Nothing arrives before this time, or before what was sent earlier.
    not_before: u64,
    is_finished: bool,
    has_ended: bool,
    is_unread: bool,
}

/// Bytes that arrive together, or the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Time of arrival.
    pub at: u64,
    /// The bytes; none stand for the end.
    pub bytes: Vec<u8>,
}

impl Pipe {
    /// An empty pipe that holds `room` bytes.
    pub fn new(room: u32) -> Self {
        Self {
            room: usize::try_from(room).unwrap_or(usize::MAX),
            flying: VecDeque::new(),
            landed: Vec::new(),
            held: 0,
            not_before: 0,
            is_finished: false,
            has_ended: false,
            is_unread: false,
        }
    }

    /// Number of bytes that can be written now.
    pub fn space(&self) -> usize {
        // Bytes without a reader need no room, and do not delay the writer.
        if self.is_unread || self.is_finished { usize::MAX } else { self.room - self.held }
    }

    /// Adds bytes that arrive at `at`, or after later arrivals; returns their time. `joins` appends
    /// them to the last ones, if those have not arrived.
    pub fn put(&mut self, at: u64, bytes: &[u8], joins: bool) -> Option<u64> {
        if self.is_unread || self.is_finished || bytes.is_empty() {
            return None;
        }
        self.held += bytes.len();
        if joins && let Some(last) = self.flying.back_mut() {
            last.bytes.extend_from_slice(bytes);
            return None;
        }
        Some(self.send(at, bytes.into()))
    }

    /// Marks the end of the stream; returns the time of its arrival.
    pub fn finish(&mut self, at: u64) -> Option<u64> {
        if self.is_finished || self.is_unread {
            self.is_finished = true;
            return None;
        }
        self.is_finished = true;
        Some(self.send(at, Vec::new()))
    }

    fn send(&mut self, at: u64, bytes: Vec<u8>) -> u64 {
        self.not_before = self.not_before.max(at);
        self.flying.push_back(Segment { at: self.not_before, bytes });
        self.not_before
    }

    /// Removes the reader: bytes in the pipe are lost, and later ones too.
    pub fn abandon(&mut self) {
        self.flying.clear();
        self.landed = Vec::new();
        self.held = 0;
        self.is_unread = true;
    }

    /// Drops all bytes in transit; the end follows at once.
    pub fn break_off(&mut self, at: u64) -> Option<u64> {
        if self.is_unread {
            return None;
        }
        self.flying.clear();
        self.landed.clear();
        self.held = 0;
        self.is_finished = true;
        self.has_ended = false;
        self.not_before = 0;
        Some(self.send(at, Vec::new()))
    }

    /// Delays all bytes in transit until `until`; returns the time of their arrival.
    pub fn stall(&mut self, until: u64) -> Option<u64> {
        self.not_before = self.not_before.max(until);
        self.flying.iter_mut().for_each(|segment| segment.at = segment.at.max(until));
        self.flying.back().map(|last| last.at)
    }

    /// Marks the bytes that have arrived by `now`; true if there are any.
    pub fn land(&mut self, now: u64) -> bool {
        let mut has_landed = false;
        while self.flying.front().is_some_and(|segment| segment.at <= now)
            && let Some(segment) = self.flying.pop_front()
        {
            has_landed = true;
            match segment.bytes.is_empty() {
                true => self.has_ended = true,
                false => self.landed.extend_from_slice(&segment.bytes),
            }
        }
        has_landed
    }

    /// Takes up to `most` of the bytes that have arrived.
    pub fn take(&mut self, most: usize) -> Vec<u8> {
        let len = most.min(self.landed.len());
        self.held -= len;
        if len == self.landed.len() {
            return std::mem::take(&mut self.landed);
        }
        self.landed.drain(..len).collect()
    }

    /// Bytes that have arrived and have not been read.
    pub fn landed(&self) -> &[u8] {
        &self.landed
    }

    /// Bytes in transit.
    pub fn flying(&self) -> impl Iterator<Item = &Segment> {
        self.flying.iter()
    }

    /// True without a reader.
    pub const fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// True if all bytes were read and no more will arrive.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.landed.is_empty()
    }

    /// True if there are bytes or an end to read.
    pub fn is_readable(&self) -> bool {
        !self.landed.is_empty() || self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_when_they_should() {
        let mut pipe = Pipe::new(10);
        assert_eq!(pipe.put(50, b"abc", false), Some(50));
        // Sent later, but faster: it waits for the earlier bytes.
        assert_eq!(pipe.put(20, b"de", false), Some(50));
        assert_eq!(pipe.put(20, b"fg", true), None);
        assert_eq!((pipe.space(), pipe.land(49)), (3, false));
        assert!(pipe.land(50));
        assert_eq!((pipe.take(2), pipe.space()), (b"ab".to_vec(), 5));
        assert_eq!(pipe.finish(60), Some(60));
        assert_eq!((pipe.put(70, b"x", false), pipe.is_over()), (None, false));
        assert!(pipe.land(60) && !pipe.is_over());
        assert_eq!(pipe.take(99), b"cdefg");
        assert!(pipe.is_over() && pipe.is_readable());
    }

    #[test]
    fn stall_holds_up_and_a_break_loses() {
        let mut pipe = Pipe::new(10);
        pipe.put(5, b"ab", false);
        assert_eq!(pipe.stall(100), Some(100));
        assert_eq!(pipe.put(6, b"c", false), Some(100));
        assert!(!pipe.land(99));
        assert_eq!(pipe.break_off(120), Some(120));
        assert!(pipe.land(120));
        assert_eq!((pipe.take(9), pipe.is_over()), (vec![], true));
    }

    #[test]
    fn bytes_without_a_reader_vanish() {
        let mut pipe = Pipe::new(4);
        pipe.put(5, b"abcd", false);
        pipe.abandon();
        assert_eq!((pipe.space(), pipe.put(6, b"abcdefgh", false)), (usize::MAX, None));
        assert_eq!((pipe.finish(7), pipe.land(99)), (None, false));
    }
}
