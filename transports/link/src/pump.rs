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

/// State of a connection between two calls of [`pump`].
///
/// Shape: both buffers are nearly always empty. `I` bounds the size of one read, since all of it
/// may have to be kept; `O` bounds the size of one write, and has room for the longest message.
#[derive(Debug)]
pub struct PumpState<I, O = I> {
    /// Input that the machine has not consumed.
    unconsumed: I,
    /// Output that the link has not accepted.
    unsent: O,
    /// The peer sends no more.
    ended: bool,
    /// Error of the peer; reported after all responses are sent.
    fault: Option<PeerError>,
    /// Error of the output direction; reported after all input is read.
    broken: Option<LinkError>,
}

/// Bytes moved by one call, and the conditions for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Progress {
    /// Number of bytes read from the link.
    pub read_bytes: usize,
    /// Number of bytes written to the link.
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
    /// All responses are sent and the session is over: close the link.
    pub finished: bool,
}

/// Moves bytes: sends the responses of `machine`, reads input, lets the machine process it, and
/// repeats.
///
/// Shape: one half of `scratch` is for reading and one for writing; its former contents are lost.
/// Responses that are due at the same time are written together. A read that returned less than
/// requested has drained the link, which saves another read. A machine that consumes nothing stops
/// the reading, and a link that accepts nothing stops the rendering.
///
/// # Errors
///
/// [`PumpError`] is final: close the link. Responses that were due before have been sent as far as
/// the link accepted them.
pub fn pump<I: Buffer, O: Buffer>(
    now: Instant,
    machine: &mut impl Machine,
    link: &mut impl Link,
    state: &mut PumpState<I, O>,
    scratch: &mut [u8],
) -> Result<Progress, PumpError> {
    drive(now, machine, link, state, scratch, true)
}

/// Sends the responses of `machine` and lets it process buffered input, without reading.
///
/// For a session that has become ready through a message of another session; reading from its link
/// would be a wasted call.
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

    /// Number of bytes that the machine has not consumed.
    pub fn unconsumed_bytes(&self) -> usize {
        self.unconsumed.as_slice().len()
    }

    /// Number of bytes that the link has not accepted.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.as_slice().len()
    }

    /// True if more may be read.
    fn can_read(&self) -> bool {
        !self.ended && self.fault.is_none() && self.unconsumed_bytes() == 0
    }

    /// True if nothing is kept, and input may come.
    fn is_empty(&self) -> bool {
        self.can_read() && self.unsent_bytes() == 0
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

    /// Writes `bytes`, of which there are at most `room_bytes`.
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

    /// Number of bytes that may be rendered so that all of them can be kept.
    fn room_bytes(&self, out_bytes: usize) -> usize {
        match (self.broken, self.unsent_bytes()) {
            // The output is discarded, but pending responses must not block the remaining input.
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
    // With nothing kept, responses that are due already are rendered together with those to the input.
    if !reads || !turn.state.is_empty() {
        while turn.answer(now, machine, input, output)? {}
    }
    loop {
        // A peer that no longer receives may still have sent its reason.
        reads |= turn.state.broken.is_some();
        if !reads || !turn.state.can_read() {
            break;
        }
        if reads_left == 0 {
            turn.progress.again = true;
            break;
        }
        reads_left -= 1;
        let received = turn.recv(input);
        match received {
            Ok(ReadOutcome::Nothing) | Err(_) => reads = false,
            Ok(ReadOutcome::Bytes { is_all }) => reads = !is_all,
            Ok(ReadOutcome::End) => turn.state.fault = machine.handle_end(now).err(),
        }
        while turn.answer(now, machine, input, output)? {}
        if matches!(received?, ReadOutcome::Nothing) {
            break;
        }
    }
    turn.report(machine.is_finished())
}

/// One call of a driver.
struct PumpTurn<'a, L, I, O> {
    link: &'a mut L,
    state: &'a mut PumpState<I, O>,
    progress: Progress,
    /// Number of bytes at the front of the input that the machine has not seen yet.
    fresh_bytes: usize,
    /// Number of those bytes when the machine found the error.
    received_bytes: usize,
}

/// Result of a read.
#[derive(Clone, Copy)]
enum ReadOutcome {
    Nothing,
    /// `is_all` if the link is empty now.
    Bytes {
        is_all: bool,
    },
    End,
}

impl<L: Link, I: Buffer, O: Buffer> PumpTurn<'_, L, I, O> {
    /// Passes pending input to the machine, sends its responses, and returns true if more of them
    /// are due and there is room.
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

/// Result of [`exchange`].
struct Exchanged {
    consumed_bytes: usize,
    out_bytes: usize,
    /// It has more to transmit than there was room for.
    full: Option<Full>,
    fault: Option<PeerError>,
}

/// Lets `machine` render into `out` and consume `bytes`, in turn, until neither makes progress.
///
/// Requests of one segment are thereby answered in one segment, even by a machine that consumes no
/// input while a response is due. After an error the machine only renders.
fn exchange(
    now: Instant,
    machine: &mut impl Machine,
    bytes: &[u8],
    out: &mut [u8],
    fault: Option<PeerError>,
) -> Exchanged {
    let mut exchanged = Exchanged { consumed_bytes: 0, out_bytes: 0, full: None, fault };
    let mut is_idle = false;
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
        // Without a response since it took nothing, it would take nothing again.
        if exchanged.fault.is_some() || (is_idle && before.1 == exchanged.out_bytes) {
            return exchanged;
        }
        let rest = bytes.get(exchanged.consumed_bytes..).unwrap_or(b"");
        if rest.is_empty() && !machine.holds_input() {
            return exchanged;
        }
        match machine.handle_input(now, rest) {
            Ok(len) => {
                exchanged.consumed_bytes += len;
                is_idle = len == 0;
            }
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

/// Largest number of reads in one call, so that a peer that never pauses does not delay all others.
const READS_MAX: usize = 16;
