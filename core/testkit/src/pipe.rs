//! A pipe in memory with the properties of a bad network.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::string::String;

use pmi_link::{Link, LinkError, Read, Wrote};

/// Restrictions of a pipe.
#[derive(Clone, Copy, Debug)]
pub struct PipeRules {
    /// Largest number of bytes that one call moves.
    pub piece_bytes: usize,
    /// Largest number of bytes in the pipe.
    pub room_bytes: usize,
    /// True if many calls find neither bytes nor room.
    pub stutters: bool,
}

/// Moves all bytes at once.
pub const GOOD: PipeRules =
    PipeRules { piece_bytes: usize::MAX, room_bytes: 1 << 16, stutters: false };
/// Moves single bytes, and has little room.
pub const BYTEWISE: PipeRules = PipeRules { piece_bytes: 1, room_bytes: 16, stutters: false };
/// Moves few bytes, and in many calls none.
pub const STUTTERING: PipeRules = PipeRules { piece_bytes: 7, room_bytes: 30, stutters: true };
/// Every kind of pipe.
pub const ALL: [PipeRules; 3] = [GOOD, BYTEWISE, STUTTERING];

#[derive(Debug, Default)]
struct Direction {
    bytes: VecDeque<u8>,
    /// True if its writer is gone.
    is_ended: bool,
    /// True if its reader is gone.
    is_unread: bool,
}

/// One end of a pipe.
#[derive(Debug)]
pub struct Pipe {
    rules: PipeRules,
    incoming: Rc<RefCell<Direction>>,
    outgoing: Rc<RefCell<Direction>>,
    calls: usize,
    /// Number of read calls.
    pub reads: usize,
    /// Number of write calls.
    pub writes: usize,
}

/// Makes both ends of a pipe.
pub fn pipe(rules: PipeRules) -> (Pipe, Pipe) {
    let (there, back) = (Rc::<RefCell<Direction>>::default(), Rc::<RefCell<Direction>>::default());
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
    pub fn write_all(&mut self, bytes: &[u8]) {
        self.outgoing.borrow_mut().bytes.extend(bytes);
    }

    /// Reads everything at once, without the restrictions.
    pub fn read_text(&mut self) -> String {
        let bytes = self.incoming.borrow_mut().bytes.drain(..).collect();
        String::from_utf8(bytes).expect("text")
    }

    /// Closes the sending direction, but goes on reading.
    pub fn close_sending(&mut self) {
        self.outgoing.borrow_mut().is_ended = true;
    }

    /// Closes the receiving direction, but goes on sending.
    pub fn close_receiving(&mut self) {
        self.incoming.borrow_mut().is_unread = true;
    }
}

impl Link for Pipe {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        self.reads += 1;
        let is_off = self.is_off();
        let direction = &mut *self.incoming.borrow_mut();
        if is_off && !direction.bytes.is_empty() {
            return Ok(Read::NotNow);
        }
        let len = out.len().min(direction.bytes.len()).min(self.rules.piece_bytes);
        out.iter_mut().zip(direction.bytes.drain(..len)).for_each(|(to, byte)| *to = byte);
        match len {
            0 if direction.is_ended && direction.bytes.is_empty() && !out.is_empty() => {
                Ok(Read::End)
            }
            0 => Ok(Read::NotNow),
            _ => Ok(Read::Bytes(len)),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        self.writes += 1;
        if self.outgoing.borrow().is_unread {
            return Err(LinkError::Closed);
        }
        if self.is_off() {
            return Ok(Wrote::NotNow);
        }
        let direction = &mut *self.outgoing.borrow_mut();
        let room = self.rules.room_bytes.saturating_sub(direction.bytes.len());
        let len = bytes.len().min(room).min(self.rules.piece_bytes);
        direction.bytes.extend(&bytes[..len]);
        Ok(if len == 0 { Wrote::NotNow } else { Wrote::Bytes(len) })
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.outgoing.borrow_mut().is_ended = true;
        self.incoming.borrow_mut().is_unread = true;
    }
}
