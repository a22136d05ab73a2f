//! From an answer to what a call gives back.

use pmi_core::command::{Answer, Maxes, Reply, Text, Verb};
use pmi_core::error::{Code, Full, PeerError};
use pmi_core::ids::KvsName;

use crate::{CallError, SpawnError};

/// Result of a call, before errors of the transport are added.
pub(super) type ReplyResult<T> = Result<T, ReplyError>;

/// Why an answer is not what the call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyError {
    /// None has come.
    Unanswered,
    Refused(Verb, Code),
    Full(Full),
    Unreadable(Verb),
}

/// The job that a spawn has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spawned<'s> {
    /// Its id; some servers do not report it.
    pub job: Option<&'s [u8]>,
    codes: Codes<'s>,
}

impl<'s> Spawned<'s> {
    /// One code for each process, as far as the server has sent them and there was room; none at
    /// all means success for all.
    pub fn codes(&self) -> impl Iterator<Item = Code> + Clone + use<'s> {
        self.codes.iter()
    }
}

/// Codes of the processes of a spawn: the list as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes<'s>(&'s [u8]);

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

/// A reply to a spawn, copied: its code, and the lengths of its parts.
#[derive(Clone, Copy)]
pub(super) struct SpawnReply {
    code: Code,
    job_bytes: Option<usize>,
    codes_bytes: usize,
}

pub(super) fn done(reply: &Reply<'_>) -> ReplyResult<()> {
    if reply.code.is_success() { Ok(()) } else { Err(refused(reply)) }
}

/// A number of the server's; negative ones stand for "unknown".
pub(super) fn number(reply: &Reply<'_>) -> ReplyResult<Option<u32>> {
    match reply.answer {
        Answer::Number(number) => Ok(u32::try_from(number).ok()),
        _ => Err(refused(reply)),
    }
}

pub(super) fn maxes(reply: &Reply<'_>) -> ReplyResult<Maxes> {
    match reply.answer {
        Answer::Maxes(maxes) => Ok(maxes),
        _ => Err(refused(reply)),
    }
}

/// The name itself is the client's to keep.
pub(super) fn name(reply: &Reply<'_>) -> ReplyResult<()> {
    match reply.answer {
        Answer::Name(_) => Ok(()),
        _ => Err(refused(reply)),
    }
}

/// Copies a value, and gives its length.
pub(super) fn value(reply: &Reply<'_>, out: &mut [u8]) -> ReplyResult<Option<usize>> {
    match (reply.answer, reply.code.is_success()) {
        (Answer::Value(text), true) => copy(text, out).map(Some),
        _ => Ok(None),
    }
}

/// Reads a value that is a list of numbers, and returns their count.
pub(super) fn numbers(reply: &Reply<'_>, out: &mut [i32]) -> ReplyResult<Option<usize>> {
    let (Answer::Value(text), true) = (reply.answer, reply.code.is_success()) else {
        return Ok(None);
    };
    let mut out = out.iter_mut();
    let mut count = 0;
    let mut bytes = text.bytes().peekable();
    while bytes.peek().is_some() {
        // Eleven characters hold every number; a longer piece is none.
        let mut piece = [0; 12];
        let mut len = 0;
        for byte in bytes.by_ref().take_while(|b| *b != b',').filter(|b| !b.is_ascii_whitespace()) {
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

/// Copies what a spawn has answered: the id whole, of the codes as many as fit. A refusal has codes too.
pub(super) fn spawned(reply: &Reply<'_>, out: &mut [u8]) -> ReplyResult<SpawnReply> {
    let code = reply.code;
    let (job, codes) = match reply.answer {
        Answer::Spawned { job, codes } => (job, codes),
        _ if code.is_success() => return Err(refused(reply)),
        _ => (None, None),
    };
    let job_bytes = job.map(|job| copy(job, out)).transpose()?;
    let out = out.get_mut(job_bytes.unwrap_or(0)..).unwrap_or(&mut []);
    let codes = codes.unwrap_or_default();
    let mut codes_bytes = 0;
    for (to, byte) in out.iter_mut().zip(codes.bytes()) {
        *to = byte;
        codes_bytes += 1;
    }
    if codes_bytes < codes.len() {
        // The last one may be cut.
        let written = out.get(..codes_bytes).unwrap_or(b"");
        codes_bytes = written.iter().rposition(|b| *b == b',').unwrap_or(0);
    }
    Ok(SpawnReply { code, job_bytes, codes_bytes })
}

pub(super) fn copy(text: Text<'_>, out: &mut [u8]) -> ReplyResult<usize> {
    let needed = text.len();
    let out = out.get_mut(..needed).ok_or(ReplyError::Full(Full { needed }))?;
    out.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    Ok(needed)
}

pub(super) const fn refused(reply: &Reply<'_>) -> ReplyError {
    ReplyError::Refused(reply.to, reply.code)
}

/// Lends the parts of what [`spawned`] has copied.
pub(super) fn lend<E>(
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
pub(super) const SPAWNED_BYTES: usize = pmi_core::limits::KVSNAME_BYTES + 64;

/// A name that the client has received_name with the answer.
pub(super) fn received_name<E>(name: Option<&KvsName>) -> Result<&KvsName, CallError<E>> {
    name.ok_or(CallError::Peer(PeerError::LeftEarly))
}

impl<E> From<ReplyError> for CallError<E> {
    fn from(unfit: ReplyError) -> Self {
        match unfit {
            ReplyError::Unanswered => Self::Peer(PeerError::LeftEarly),
            ReplyError::Refused(verb, code) => Self::Refused { verb, code },
            ReplyError::Full(full) => Self::Full(full),
            ReplyError::Unreadable(verb) => Self::Unreadable { verb },
        }
    }
}
