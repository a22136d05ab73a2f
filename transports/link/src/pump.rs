//! The one driver loop: moves bytes between a machine and its link until both have had enough.
//!
//! It is the run loop of [`pmi_core`] without its last steps: events and waiting stay with the
//! owner, who looks at [`Progress`] to know what to wait for.

use pmi_core::error::{Full, PeerError};
use pmi_core::machine::Machine;
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;

use crate::link::{Link, Read, Wrote};
use crate::{LinkError, PumpError};

/// What a session keeps between two calls of [`pump`].
///
/// Shape: both buffers are empty nearly always. `I` bounds how much is read at once, since all of
/// it may have to be kept; `O` bounds how much is written at once, and has room for the longest
/// message.
#[derive(Debug)]
pub struct Carry<I, O = I> {
    /// What the machine has not taken.
    untaken: I,
    /// What the link has not taken.
    unsent: O,
    /// The peer sends no more.
    ended: bool,
    /// What the peer did. What is owed is sent before it is told.
    fault: Option<PeerError>,
    /// Nothing can be written any more. What is there is read before it is told.
    broken: Option<LinkError>,
}

/// What one call has moved, and what to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many bytes were read from the link.
    pub read_bytes: usize,
    /// How many bytes were written to the link.
    pub sent_bytes: usize,
    /// More can be done at once: the call has stopped because others wait too.
    pub again: bool,
    /// Call again when the link can be read.
    pub wants_read: bool,
    /// Call again when the link can be written.
    pub wants_write: bool,
    /// The machine takes nothing more before its owner has acted: poll its events, then call again.
    pub held: bool,
    /// The peer sends no more.
    pub ended: bool,
    /// Everything was said and sent: close the link.
    pub finished: bool,
}

/// Moves bytes: sends what `machine` owes, reads what is there, lets it answer, and again.
///
/// Shape: one half of `scratch` is for reading and one for writing; what it held is lost. Messages
/// that are owed at the same time are written at once. A read that gave less than was asked for
/// has emptied the link, and saves asking again. A machine that holds back stops the reading, and
/// a link that holds back stops the rendering.
///
/// # Errors
///
/// [`PumpError`] is final: close the link. The machine has had its say before, as far as
/// the link took it.
pub fn pump<I: Buffer, O: Buffer>(
    now: Instant,
    machine: &mut impl Machine,
    link: &mut impl Link,
    carry: &mut Carry<I, O>,
    scratch: &mut [u8],
) -> Result<Progress, PumpError> {
    drive(now, machine, link, carry, scratch, true)
}

/// Sends what `machine` owes and lets it go on with what it holds, without reading.
///
/// This is for a session that somebody else's message has given something to say; asking its link
/// for input then would be a call for nothing.
/// Shape: as for [`pump`].
///
/// # Errors
///
/// As for [`pump`].
pub fn flush<I: Buffer, O: Buffer>(
    now: Instant,
    machine: &mut impl Machine,
    link: &mut impl Link,
    carry: &mut Carry<I, O>,
    scratch: &mut [u8],
) -> Result<Progress, PumpError> {
    drive(now, machine, link, carry, scratch, false)
}

impl<I: Buffer, O: Buffer> Carry<I, O> {
    /// Makes the memory of one session; both buffers are empty.
    pub const fn new(untaken: I, unsent: O) -> Self {
        Self { untaken, unsent, ended: false, fault: None, broken: None }
    }

    /// How many bytes the machine has not taken.
    pub fn untaken_bytes(&self) -> usize {
        self.untaken.as_slice().len()
    }

    /// How many bytes the link has not taken.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.as_slice().len()
    }

    /// Whether more may be read.
    fn is_listening(&self) -> bool {
        !self.ended && self.fault.is_none() && self.untaken_bytes() == 0
    }

    /// Writes on with what the link did not take before.
    fn send_kept(&mut self, link: &mut impl Link, progress: &mut Progress) {
        if self.unsent_bytes() == 0 {
            return;
        }
        let len = write(link, self.unsent.as_slice(), &mut self.broken);
        progress.sent_bytes += len;
        self.unsent.drop_front(if self.broken.is_some() { usize::MAX } else { len });
    }

    /// Writes `bytes`, of which there are no more than `room_bytes` has said.
    fn send(&mut self, link: &mut impl Link, bytes: &[u8], progress: &mut Progress) {
        if bytes.is_empty() || self.broken.is_some() {
            return;
        }
        let len = write(link, bytes, &mut self.broken);
        progress.sent_bytes += len;
        if self.broken.is_none() && self.unsent.extend(bytes.get(len..).unwrap_or(b"")).is_err() {
            self.broken = Some(LinkError::Failed(0));
        }
    }

    /// How much may be rendered so that all of it could be kept.
    fn room_bytes(&self, out_bytes: usize) -> usize {
        match (self.broken, self.unsent_bytes()) {
            // Nobody hears it, but what is owed must be out of the way of what is still read.
            (Some(_), _) => out_bytes,
            (None, 0) => out_bytes.min(self.unsent.room()),
            (None, _) => 0,
        }
    }
}

impl Progress {
    /// True if any byte has moved.
    pub const fn has_moved(&self) -> bool {
        self.read_bytes > 0 || self.sent_bytes > 0
    }
}

fn drive<I: Buffer, O: Buffer>(
    now: Instant,
    machine: &mut impl Machine,
    link: &mut impl Link,
    carry: &mut Carry<I, O>,
    scratch: &mut [u8],
    mut reads: bool,
) -> Result<Progress, PumpError> {
    let (input, output) = scratch.split_at_mut(scratch.len() / 2);
    let mut turn =
        Turn { link, carry, progress: Progress::default(), fresh_bytes: 0, heard_bytes: 0 };
    let mut turns_left = TURNS_MAX;
    loop {
        while turn.answer(now, machine, input, output)? {}
        // Whoever cannot be told anything may still have said why.
        reads |= turn.carry.broken.is_some();
        if !reads || !turn.carry.is_listening() {
            break;
        }
        if turns_left == 0 {
            turn.progress.again = true;
            break;
        }
        turns_left -= 1;
        match turn.hear(input)? {
            Heard::Nothing => break,
            Heard::Bytes { is_all } => reads = !is_all,
            Heard::End => turn.carry.fault = machine.handle_end(now).err(),
        }
    }
    turn.report(machine.is_finished())
}

/// One call of a driver.
struct Turn<'a, L, I, O> {
    link: &'a mut L,
    carry: &'a mut Carry<I, O>,
    progress: Progress,
    /// How many bytes at the front of the input were read and not yet shown to the machine.
    fresh_bytes: usize,
    /// How many of them it was shown when it found the fault.
    heard_bytes: usize,
}

/// What came of reading.
enum Heard {
    Nothing,
    /// `is_all` if the link is empty now.
    Bytes {
        is_all: bool,
    },
    End,
}

impl<L: Link, I: Buffer, O: Buffer> Turn<'_, L, I, O> {
    /// Shows the machine what it has not taken, sends what it owes, and says whether it owes more
    /// that there is room for.
    fn answer(
        &mut self,
        now: Instant,
        machine: &mut impl Machine,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<bool, PumpError> {
        let carry = &mut *self.carry;
        carry.send_kept(self.link, &mut self.progress);
        let room_bytes = carry.room_bytes(output.len());
        let out = output.get_mut(..room_bytes).unwrap_or(&mut []);
        let is_kept = carry.untaken_bytes() > 0;
        let fresh = input.get(..self.fresh_bytes).unwrap_or(b"");
        let source = if is_kept { carry.untaken.as_slice() } else { fresh };
        let talk = converse(now, machine, source, out, carry.fault);
        if is_kept {
            carry.untaken.drop_front(talk.taken_bytes);
        } else if talk.fault.is_none() {
            // There is room: no more was read than could be kept.
            let rest = fresh.get(talk.taken_bytes..).unwrap_or(b"");
            carry.untaken.extend(rest).map_err(PumpError::TooSmall)?;
        }
        if talk.fault.is_some() && carry.fault.is_none() {
            carry.fault = talk.fault;
            self.heard_bytes = self.fresh_bytes;
        }
        self.fresh_bytes = 0;
        let rendered = output.get(..talk.out_bytes).unwrap_or(b"");
        carry.send(self.link, rendered, &mut self.progress);
        match talk.full {
            Some(full) if talk.out_bytes == 0 && room_bytes > 0 => Err(PumpError::TooSmall(full)),
            full => Ok(full.is_some() && carry.room_bytes(output.len()) > 0),
        }
    }

    /// Reads what is there, as far as all of it could be kept.
    fn hear(&mut self, input: &mut [u8]) -> Result<Heard, PumpError> {
        let asked_bytes = input.len().min(self.carry.untaken.room());
        let asked = input.get_mut(..asked_bytes).unwrap_or(&mut []);
        Ok(match self.link.try_read(asked).map_err(PumpError::Link)? {
            Read::Bytes(len) => {
                self.fresh_bytes = len.min(asked_bytes);
                self.progress.read_bytes += self.fresh_bytes;
                Heard::Bytes { is_all: self.fresh_bytes < asked_bytes }
            }
            Read::NotNow => Heard::Nothing,
            Read::End => {
                self.carry.ended = true;
                Heard::End
            }
        })
    }

    fn report(self, is_finished: bool) -> Result<Progress, PumpError> {
        let Self { carry, mut progress, heard_bytes, .. } = self;
        let is_sent = carry.unsent_bytes() == 0;
        match (carry.fault, carry.broken) {
            (Some(error), _) if is_sent => return Err(PumpError::Peer { error, heard_bytes }),
            (None, Some(error)) if !progress.again => return Err(PumpError::Link(error)),
            _ => {}
        }
        progress.ended = carry.ended;
        progress.held = carry.untaken_bytes() > 0;
        progress.wants_write = !is_sent;
        progress.wants_read = carry.is_listening();
        progress.finished = is_sent && is_finished;
        Ok(progress)
    }
}

/// What came of letting a machine answer and listen in turn.
struct Talk {
    taken_bytes: usize,
    out_bytes: usize,
    /// It owes more than there was room for.
    full: Option<Full>,
    fault: Option<PeerError>,
}

/// Lets `machine` render into `out` and take from `bytes`, in turn, until neither goes on.
///
/// So what was sent in one segment is answered in one, even by a machine that holds back what it
/// hears while it owes an answer. After a fault it is only asked what it owes.
fn converse(
    now: Instant,
    machine: &mut impl Machine,
    bytes: &[u8],
    out: &mut [u8],
    fault: Option<PeerError>,
) -> Talk {
    let mut talk = Talk { taken_bytes: 0, out_bytes: 0, full: None, fault };
    loop {
        let before = (talk.taken_bytes, talk.out_bytes);
        talk.full = None;
        loop {
            match machine.poll_transmit(out.get_mut(talk.out_bytes..).unwrap_or(&mut [])) {
                Ok(Some(len)) => talk.out_bytes += len,
                Ok(None) => break,
                Err(full) => {
                    talk.full = Some(full);
                    break;
                }
            }
        }
        if talk.fault.is_some() {
            return talk;
        }
        match machine.handle_input(now, bytes.get(talk.taken_bytes..).unwrap_or(b"")) {
            Ok(len) => talk.taken_bytes += len,
            Err(error) => {
                talk.fault = Some(error);
                continue;
            }
        }
        if before == (talk.taken_bytes, talk.out_bytes) {
            return talk;
        }
    }
}

/// Writes what the link takes at once; a link that takes less than all is full.
fn write(link: &mut impl Link, bytes: &[u8], broken: &mut Option<LinkError>) -> usize {
    match link.try_write(bytes) {
        Ok(Wrote::Bytes(len)) => len.min(bytes.len()),
        Ok(Wrote::NotNow) => 0,
        Err(error) => {
            *broken = Some(error);
            0
        }
    }
}

/// How often one call reads, so that one peer that never stops does not keep all others waiting.
const TURNS_MAX: usize = 16;
