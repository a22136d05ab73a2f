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
pub struct PumpState<I, O = I> {
    /// What the machine has not taken.
    unconsumed: I,
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
    state: &mut PumpState<I, O>,
    scratch: &mut [u8],
) -> Result<Progress, PumpError> {
    drive(now, machine, link, state, scratch, true)
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
    state: &mut PumpState<I, O>,
    scratch: &mut [u8],
) -> Result<Progress, PumpError> {
    drive(now, machine, link, state, scratch, false)
}

impl<I: Buffer, O: Buffer> PumpState<I, O> {
    /// Makes the memory of one session; both buffers are empty.
    pub const fn new(unconsumed: I, unsent: O) -> Self {
        Self { unconsumed, unsent, ended: false, fault: None, broken: None }
    }

    /// How many bytes the machine has not taken.
    pub fn unconsumed_bytes(&self) -> usize {
        self.unconsumed.as_slice().len()
    }

    /// How many bytes the link has not taken.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.as_slice().len()
    }

    /// Whether more may be read.
    fn can_read(&self) -> bool {
        !self.ended && self.fault.is_none() && self.unconsumed_bytes() == 0
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
    state: &mut PumpState<I, O>,
    scratch: &mut [u8],
    mut reads: bool,
) -> Result<Progress, PumpError> {
    let (input, output) = scratch.split_at_mut(scratch.len() / 2);
    let mut turn =
        PumpTurn { link, state, progress: Progress::default(), fresh_bytes: 0, received_bytes: 0 };
    let mut reads_left = READS_MAX;
    loop {
        while turn.answer(now, machine, input, output)? {}
        // Whoever cannot be told anything may still have said why.
        reads |= turn.state.broken.is_some();
        if !reads || !turn.state.can_read() {
            break;
        }
        if reads_left == 0 {
            turn.progress.again = true;
            break;
        }
        reads_left -= 1;
        match turn.recv(input)? {
            ReadOutcome::Nothing => break,
            ReadOutcome::Bytes { is_all } => reads = !is_all,
            ReadOutcome::End => turn.state.fault = machine.handle_end(now).err(),
        }
    }
    turn.report(machine.is_finished())
}

/// One call of a driver.
struct PumpTurn<'a, L, I, O> {
    link: &'a mut L,
    state: &'a mut PumpState<I, O>,
    progress: Progress,
    /// How many bytes at the front of the input were read and not yet shown to the machine.
    fresh_bytes: usize,
    /// How many of them it was shown when it found the fault.
    received_bytes: usize,
}

/// What came of reading.
enum ReadOutcome {
    Nothing,
    /// `is_all` if the link is empty now.
    Bytes {
        is_all: bool,
    },
    End,
}

impl<L: Link, I: Buffer, O: Buffer> PumpTurn<'_, L, I, O> {
    /// Shows the machine what it has not taken, sends what it owes, and says whether it owes more
    /// that there is room for.
    fn answer(
        &mut self,
        now: Instant,
        machine: &mut impl Machine,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<bool, PumpError> {
        let state = &mut *self.state;
        state.send_kept(self.link, &mut self.progress);
        let room_bytes = state.room_bytes(output.len());
        let out = output.get_mut(..room_bytes).unwrap_or(&mut []);
        let is_kept = state.unconsumed_bytes() > 0;
        let fresh = input.get(..self.fresh_bytes).unwrap_or(b"");
        let source = if is_kept { state.unconsumed.as_slice() } else { fresh };
        let exchanged = exchange(now, machine, source, out, state.fault);
        if is_kept {
            state.unconsumed.drop_front(exchanged.consumed_bytes);
        } else if exchanged.fault.is_none() {
            // There is room: no more was read than could be kept.
            let rest = fresh.get(exchanged.consumed_bytes..).unwrap_or(b"");
            state.unconsumed.extend(rest).map_err(PumpError::TooSmall)?;
        }
        if exchanged.fault.is_some() && state.fault.is_none() {
            state.fault = exchanged.fault;
            self.received_bytes = self.fresh_bytes;
        }
        self.fresh_bytes = 0;
        let rendered = output.get(..exchanged.out_bytes).unwrap_or(b"");
        state.send(self.link, rendered, &mut self.progress);
        match exchanged.full {
            Some(full) if exchanged.out_bytes == 0 && room_bytes > 0 => {
                Err(PumpError::TooSmall(full))
            }
            full => Ok(full.is_some() && state.room_bytes(output.len()) > 0),
        }
    }

    /// Reads what is there, as far as all of it could be kept.
    fn recv(&mut self, input: &mut [u8]) -> Result<ReadOutcome, PumpError> {
        let asked_bytes = input.len().min(self.state.unconsumed.room());
        let asked = input.get_mut(..asked_bytes).unwrap_or(&mut []);
        Ok(match self.link.try_read(asked).map_err(PumpError::Link)? {
            Read::Bytes(len) => {
                self.fresh_bytes = len.min(asked_bytes);
                self.progress.read_bytes += self.fresh_bytes;
                ReadOutcome::Bytes { is_all: self.fresh_bytes < asked_bytes }
            }
            Read::NotNow => ReadOutcome::Nothing,
            Read::End => {
                self.state.ended = true;
                ReadOutcome::End
            }
        })
    }

    fn report(self, is_finished: bool) -> Result<Progress, PumpError> {
        let Self { state, mut progress, received_bytes, .. } = self;
        let is_sent = state.unsent_bytes() == 0;
        match (state.fault, state.broken) {
            (Some(error), _) if is_sent => return Err(PumpError::Peer { error, received_bytes }),
            (None, Some(error)) if !progress.again => return Err(PumpError::Link(error)),
            _ => {}
        }
        progress.ended = state.ended;
        progress.held = state.unconsumed_bytes() > 0;
        progress.wants_write = !is_sent;
        progress.wants_read = state.can_read();
        progress.finished = is_sent && is_finished;
        Ok(progress)
    }
}

/// What came of letting a machine answer and listen in turn.
struct Exchanged {
    consumed_bytes: usize,
    out_bytes: usize,
    /// It owes more than there was room for.
    full: Option<Full>,
    fault: Option<PeerError>,
}

/// Lets `machine` render into `out` and take from `bytes`, in turn, until neither goes on.
///
/// So what was sent in one segment is answered in one, even by a machine that holds back what it
/// hears while it owes an answer. After a fault it is only asked what it owes.
fn exchange(
    now: Instant,
    machine: &mut impl Machine,
    bytes: &[u8],
    out: &mut [u8],
    fault: Option<PeerError>,
) -> Exchanged {
    let mut exchanged = Exchanged { consumed_bytes: 0, out_bytes: 0, full: None, fault };
    loop {
        let before = (exchanged.consumed_bytes, exchanged.out_bytes);
        exchanged.full = None;
        loop {
            match machine.poll_transmit(out.get_mut(exchanged.out_bytes..).unwrap_or(&mut [])) {
                Ok(Some(len)) => exchanged.out_bytes += len,
                Ok(None) => break,
                Err(full) => {
                    exchanged.full = Some(full);
                    break;
                }
            }
        }
        if exchanged.fault.is_some() {
            return exchanged;
        }
        match machine.handle_input(now, bytes.get(exchanged.consumed_bytes..).unwrap_or(b"")) {
            Ok(len) => exchanged.consumed_bytes += len,
            Err(error) => {
                exchanged.fault = Some(error);
                continue;
            }
        }
        if before == (exchanged.consumed_bytes, exchanged.out_bytes) {
            return exchanged;
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
const READS_MAX: usize = 16;
