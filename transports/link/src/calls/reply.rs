//! The conversions of replies into results that the caller's slices hold.

use pmi_core::command::{Answer, Maxes, Pair, Reply, Text, Verb};
use pmi_core::error::{Code, Full, PeerError};

use super::ReadReply;
use crate::{CallError, SpawnError};

/// Result of reading a reply, before errors of the transport are added.
pub type ReplyResult<T> = Result<T, ReplyError>;

/// Error of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The session ended before the reply.
    Unanswered,
    /// The server refused the request.
    Refused(Verb, Code),
    /// The lent slice is too small.
    Full(Full),
    /// The value is no list of numbers.
    Unreadable(Verb),
}

/// Accepts success and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct DoneReply;

/// Returns whether processes of connected jobs have to copy their spaces.
#[derive(Clone, Copy, Debug)]
pub struct CopyReply;

/// Accepts every reply: the client itself has kept what matters.
#[derive(Clone, Copy, Debug)]
pub struct AnyReply;

/// Accepts a name, which the client itself has kept.
#[derive(Clone, Copy, Debug)]
pub struct NameReply;

/// Returns a number of the server's; `None` for a negative one, which stands for "unknown".
#[derive(Clone, Copy, Debug)]
pub struct NumberReply;

/// Returns the greatest lengths.
#[derive(Clone, Copy, Debug)]
pub struct MaxesReply;

/// Copies a value into the slice, and returns its length; `None` if there is none.
#[derive(Debug)]
pub struct ValueReply<'o>(pub &'o mut [u8]);

/// Copies a list of numbers into the slice as far as it fits, and returns the length of the list; `None` if
/// there is none.
#[derive(Debug)]
pub struct NumbersReply<'o>(pub &'o mut [i32]);

/// Copies the values of both neighbours in a ring.
#[derive(Debug)]
pub struct RingReply<'o>(pub [&'o mut [u8]; 2]);

/// Hands each pair to a function, and returns their number.
pub struct PairsReply<'f> {
    each: &'f mut (dyn FnMut(Pair<'_>) + Send),
    count: usize,
}

/// Position of a rank in a ring, and the lengths of its neighbours' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Its place, from 0.
    pub place: u32,
    /// Length of the value that the previous rank gave to its right.
    pub left_bytes: usize,
    /// Length of the value that the next rank gave to its left.
    pub right_bytes: usize,
}

/// The job that a spawn has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spawned<'s> {
    /// Its id; some servers do not report it.
    pub job: Option<&'s [u8]>,
    codes: Codes<'s>,
}

/// Codes of the processes of a spawn: the list as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes<'s>(&'s [u8]);

/// Copies the reply to a spawn: the id whole, of the codes as many as fit. A refusal has codes too.
pub(crate) struct SpawnCodes<'o>(pub(crate) &'o mut [u8]);

/// Code of a reply to a spawn, and the lengths of its copied parts.
#[derive(Clone, Copy)]
pub(crate) struct SpawnReply {
    code: Code,
    job_bytes: Option<usize>,
    codes_bytes: usize,
}

impl ReplyError {
    /// The refusal that `reply` is.
    pub const fn refused(reply: &Reply<'_>) -> Self {
        Self::Refused(reply.to, reply.code)
    }
}

impl<'f> PairsReply<'f> {
    /// Hands the pairs to `each`.
    pub fn new(each: &'f mut (dyn FnMut(Pair<'_>) + Send)) -> Self {
        Self { each, count: 0 }
    }
}

impl<'s> Spawned<'s> {
    /// One code for each process, as far as the server has sent them and there was room; none at
    /// all means success for all.
    pub fn codes(&self) -> impl Iterator<Item = Code> + Clone + use<'s> {
        self.codes.iter()
    }
}

impl<'s> Codes<'s> {
    /// One code for each process, as far as the server has sent them and there was room.
    pub fn iter(&self) -> impl Iterator<Item = Code> + Clone + use<'s> {
        let list = self.0.split(|b| *b == b',').filter(|code| !code.is_empty());
        list.map(|code| {
            let code = Text::plain(code.trim_ascii()).signed().and_then(|n| i32::try_from(n).ok());
            code.map_or(Code::FAIL, Code)
        })
    }
}

impl ReadReply for DoneReply {
    type Output = ();

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<()> {
        if reply.code.is_success() { Ok(()) } else { Err(ReplyError::refused(reply)) }
    }
}

impl ReadReply for CopyReply {
    type Output = bool;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<bool> {
        DoneReply.on_reply(reply).map(|()| reply.answer == Answer::CopyNeeded)
    }
}

impl ReadReply for AnyReply {
    type Output = ();

    fn on_reply(&mut self, _: &Reply<'_>) -> ReplyResult<()> {
        Ok(())
    }
}

impl ReadReply for NameReply {
    type Output = ();

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<()> {
        match reply.answer {
            Answer::Name(_) => Ok(()),
            _ => Err(ReplyError::refused(reply)),
        }
    }
}

impl ReadReply for NumberReply {
    type Output = Option<u32>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Option<u32>> {
        match reply.answer {
            Answer::Number(number) => Ok(u32::try_from(number).ok()),
            _ => Err(ReplyError::refused(reply)),
        }
    }
}

impl ReadReply for MaxesReply {
    type Output = Maxes;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Maxes> {
        match reply.answer {
            Answer::Maxes(maxes) => Ok(maxes),
            _ => Err(ReplyError::refused(reply)),
        }
    }
}

impl ReadReply for ValueReply<'_> {
    type Output = Option<usize>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Option<usize>> {
        match (reply.answer, reply.code.is_success()) {
            (Answer::Value(text), true) => copy(text, self.0).map(Some),
            _ => Ok(None),
        }
    }
}

impl ReadReply for NumbersReply<'_> {
    type Output = Option<usize>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Option<usize>> {
        let (Answer::Value(text), true) = (reply.answer, reply.code.is_success()) else {
            return Ok(None);
        };
        let mut out = self.0.iter_mut();
        let mut count = 0;
        let mut bytes = text.bytes().peekable();
        while bytes.peek().is_some() {
            // Eleven characters hold every number; a longer piece is none.
            let mut piece = [0; 12];
            let mut len = 0;
            for byte in
                bytes.by_ref().take_while(|b| *b != b',').filter(|b| !b.is_ascii_whitespace())
            {
                *piece.get_mut(len).ok_or(ReplyError::Unreadable(reply.to))? = byte;
                len += 1;
            }
            let number = Text::plain(piece.get(..len).unwrap_or(b"")).signed();
            let number = number.and_then(|number| i32::try_from(number).ok());
            let number = number.ok_or(ReplyError::Unreadable(reply.to))?;
            if let Some(to) = out.next() {
                *to = number;
            }
            count += 1;
        }
        Ok(Some(count))
    }
}

impl ReadReply for RingReply<'_> {
    type Output = Ring;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Ring> {
        let [left_out, right_out] = &mut self.0;
        match reply.answer {
            Answer::Ring { count, left, right } if reply.code.is_success() => {
                match (copy(left, left_out), copy(right, right_out)) {
                    (Ok(left_bytes), Ok(right_bytes)) => {
                        Ok(Ring { place: count, left_bytes, right_bytes })
                    }
                    _ => Err(ReplyError::Full(Full { needed: left.len().max(right.len()) })),
                }
            }
            _ => Err(ReplyError::refused(reply)),
        }
    }
}

impl ReadReply for PairsReply<'_> {
    type Output = usize;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<usize> {
        match reply.answer {
            Answer::Pair(pair) => {
                self.count += 1;
                (self.each)(pair);
            }
            Answer::Count(_) => {}
            _ => DoneReply.on_reply(reply)?,
        }
        Ok(self.count)
    }
}

impl ReadReply for SpawnCodes<'_> {
    type Output = SpawnReply;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<SpawnReply> {
        let code = reply.code;
        let (job, codes) = match reply.answer {
            Answer::Spawned { job, codes } => (job, codes),
            _ if code.is_success() => return Err(ReplyError::refused(reply)),
            _ => (None, None),
        };
        let job_bytes = job.map(|job| copy(job, self.0)).transpose()?;
        let out = self.0.get_mut(job_bytes.unwrap_or(0)..).unwrap_or(&mut []);
        let mut codes = codes.into_iter().flat_map(pmi_core::command::ProcessCodes::bytes);
        let mut codes_bytes = 0;
        for (to, byte) in out.iter_mut().zip(codes.by_ref()) {
            *to = byte;
            codes_bytes += 1;
        }
        if codes.next().is_some() {
            // The last one may be cut.
            let written = out.get(..codes_bytes).unwrap_or(b"");
            codes_bytes = written.iter().rposition(|b| *b == b',').unwrap_or(0);
        }
        Ok(SpawnReply { code, job_bytes, codes_bytes })
    }
}

fn copy(text: Text<'_>, out: &mut [u8]) -> ReplyResult<usize> {
    let needed = text.len();
    let out = out.get_mut(..needed).ok_or(ReplyError::Full(Full { needed }))?;
    out.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    Ok(needed)
}

/// Lends the parts that [`SpawnCodes`] has copied.
pub(crate) fn lend_spawned<E>(
    SpawnReply { code, job_bytes, codes_bytes }: SpawnReply,
    copied: &[u8],
) -> Result<Spawned<'_>, SpawnError<Codes<'_>, E>> {
    let (job, rest) = copied.split_at(job_bytes.unwrap_or(0).min(copied.len()));
    let codes = Codes(rest.get(..codes_bytes).unwrap_or(b""));
    match code.is_success() {
        true => Ok(Spawned { job: job_bytes.map(|_| job), codes }),
        false => Err(SpawnError::Refused { code, codes }),
    }
}

/// Least size of the buffer for the reply to a spawn: an id, and the codes of a few processes.
pub(crate) const SPAWNED_BYTES: usize = pmi_core::limits::KVSNAME_BYTES + 64;

impl<E> From<ReplyError> for CallError<E> {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Unanswered => Self::Peer(PeerError::LeftEarly),
            ReplyError::Refused(verb, code) => Self::Refused { verb, code },
            ReplyError::Full(full) => Self::Full(full),
            ReplyError::Unreadable(verb) => Self::Unreadable { verb },
        }
    }
}

impl core::fmt::Debug for PairsReply<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PairsReply").field("count", &self.count).finish_non_exhaustive()
    }
}
