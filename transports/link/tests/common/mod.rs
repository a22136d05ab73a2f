//! A pipe in memory with the properties of a bad network.
#![allow(dead_code, reason = "every test takes what it needs")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pmi_link::{Link, LinkError, Read, Wrote};

/// Restrictions of a pipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Largest number of bytes that one call moves.
    pub(crate) piece_bytes: usize,
    /// Largest number of bytes in the pipe.
    pub(crate) room_bytes: usize,
    /// True if many calls find neither bytes nor room.
    pub(crate) stutters: bool,
}

pub(crate) const GOOD: Rules =
    Rules { piece_bytes: usize::MAX, room_bytes: 1 << 16, stutters: false };
pub(crate) const BYTEWISE: Rules = Rules { piece_bytes: 1, room_bytes: 16, stutters: false };
pub(crate) const STUTTERING: Rules = Rules { piece_bytes: 7, room_bytes: 30, stutters: true };
pub(crate) const ALL: [Rules; 3] = [GOOD, BYTEWISE, STUTTERING];

#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    /// Its writer is gone.
    ended: bool,
    /// Its reader is gone.
    deaf: bool,
}

/// One end of a pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    rules: Rules,
    incoming: Rc<RefCell<Way>>,
    outgoing: Rc<RefCell<Way>>,
    calls: usize,
    /// Number of read calls, and of write calls.
    pub(crate) reads: usize,
    pub(crate) writes: usize,
}

pub(crate) fn pipe(rules: Rules) -> (Pipe, Pipe) {
    let (there, back) = (Rc::<RefCell<Way>>::default(), Rc::<RefCell<Way>>::default());
    let end = |incoming: &Rc<_>, outgoing: &Rc<_>| Pipe {
        rules,
        incoming: Rc::clone(incoming),
        outgoing: Rc::clone(outgoing),
        calls: 0,
        reads: 0,
        writes: 0,
    };
    (end(&there, &back), end(&back, &there))
}

impl Pipe {
    fn is_off(&mut self) -> bool {
        // Two of three, in an order that matches the period of no loop.
        self.calls = self.calls.wrapping_mul(5).wrapping_add(3) % 256;
        self.rules.stutters && !self.calls.is_multiple_of(3)
    }

    /// Writes at once, without the restrictions.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.outgoing.borrow_mut().bytes.extend(bytes);
    }

    /// Reads everything at once, without the restrictions.
    pub(crate) fn hear(&mut self) -> String {
        let bytes = self.incoming.borrow_mut().bytes.drain(..).collect();
        String::from_utf8(bytes).unwrap()
    }

    /// Closes the sending direction, but goes on reading.
    pub(crate) fn shut(&mut self) {
        self.outgoing.borrow_mut().ended = true;
    }

    /// Closes the receiving direction, but goes on sending.
    pub(crate) fn turn_away(&mut self) {
        self.incoming.borrow_mut().deaf = true;
    }
}

impl Link for Pipe {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        self.reads += 1;
        let is_off = self.is_off();
        let way = &mut *self.incoming.borrow_mut();
        if is_off && !way.bytes.is_empty() {
            return Ok(Read::NotNow);
        }
        let len = out.len().min(way.bytes.len()).min(self.rules.piece_bytes);
        out.iter_mut().zip(way.bytes.drain(..len)).for_each(|(to, byte)| *to = byte);
        match len {
            0 if way.ended && way.bytes.is_empty() && !out.is_empty() => Ok(Read::End),
            0 => Ok(Read::NotNow),
            _ => Ok(Read::Bytes(len)),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        self.writes += 1;
        if self.outgoing.borrow().deaf {
            return Err(LinkError::Closed);
        }
        if self.is_off() {
            return Ok(Wrote::NotNow);
        }
        let way = &mut *self.outgoing.borrow_mut();
        let room = self.rules.room_bytes.saturating_sub(way.bytes.len());
        let len = bytes.len().min(room).min(self.rules.piece_bytes);
        way.bytes.extend(&bytes[..len]);
        Ok(if len == 0 { Wrote::NotNow } else { Wrote::Bytes(len) })
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.outgoing.borrow_mut().ended = true;
        self.incoming.borrow_mut().deaf = true;
    }
}
