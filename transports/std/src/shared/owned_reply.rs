//! An answer that outlives its buffer, and its conversions for the calls.

use std::io;

use pmi_core::command::{Answer, Maxes, Reply, Text, Verb};
use pmi_core::error::{Code, PeerError};
use pmi_link::{CallError, SpawnError};

use super::{Neighbours, Spawned};

type CallResult<T> = Result<T, CallError<io::Error>>;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// One answer.
#[derive(Debug)]
pub(super) struct OwnedReply {
    to: Verb,
    code: Code,
    answer: OwnedAnswer,
}

/// Content of the answer.
#[derive(Debug)]
enum OwnedAnswer {
    Nothing,
    Value(Vec<u8>),
    Number(i32),
    Maxes(Maxes),
    Challenge(Vec<u8>),
    Spawner(Option<Vec<u8>>),
    Count,
    Pair(Pair),
    Ring(Neighbours),
    Spawned(Spawned),
}

impl OwnedReply {
    pub(super) fn new(reply: &Reply<'_>) -> Self {
        let answer = match reply.answer {
            Answer::Value(text) => OwnedAnswer::Value(bytes(text)),
            Answer::Number(number) => OwnedAnswer::Number(number),
            Answer::Maxes(maxes) => OwnedAnswer::Maxes(maxes),
            Answer::Challenge(nonce) => OwnedAnswer::Challenge(bytes(nonce)),
            Answer::Identity(who) => OwnedAnswer::Spawner(who.spawner.map(bytes)),
            Answer::Count(_) => OwnedAnswer::Count,
            Answer::Pair(pair) => OwnedAnswer::Pair((bytes(pair.key), bytes(pair.value))),
            Answer::Ring { count, left, right } => OwnedAnswer::Ring(Neighbours {
                place: count,
                left: bytes(left),
                right: bytes(right),
            }),
            Answer::Spawned { job, codes } => OwnedAnswer::Spawned(Spawned {
                job: job.map(bytes),
                codes: codes.map_or(Vec::new(), |list| self::codes(&bytes(list))),
            }),
            _ => OwnedAnswer::Nothing,
        };
        Self { to: reply.to, code: reply.code, answer }
    }

    /// True if more replies follow for the same request.
    pub(super) const fn has_more(&self) -> bool {
        matches!(self.answer, OwnedAnswer::Count | OwnedAnswer::Pair(_))
    }

    pub(super) fn done(self) -> CallResult<()> {
        if self.code.is_success() { Ok(()) } else { Err(self.refused()) }
    }

    pub(super) fn value(self) -> CallResult<Option<Vec<u8>>> {
        match self.answer {
            OwnedAnswer::Value(value) if self.code.is_success() => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    pub(super) fn numbers(self) -> CallResult<Option<Vec<i32>>> {
        let verb = self.to;
        let Some(value) = self.value()? else { return Ok(None) };
        let numbers = list(&value).map(|number| number.ok_or(CallError::Unreadable { verb }));
        numbers.collect::<CallResult<_>>().map(Some)
    }

    pub(super) fn number(self) -> CallResult<Option<u32>> {
        match self.answer {
            OwnedAnswer::Number(number) => Ok(u32::try_from(number).ok()),
            _ => Err(self.refused()),
        }
    }

    pub(super) fn maxes(self) -> CallResult<Maxes> {
        match self.answer {
            OwnedAnswer::Maxes(maxes) => Ok(maxes),
            _ => Err(self.refused()),
        }
    }

    pub(super) fn pair(self) -> Option<Pair> {
        match self.answer {
            OwnedAnswer::Pair(pair) => Some(pair),
            _ => None,
        }
    }

    pub(super) fn ring(self) -> CallResult<Neighbours> {
        match self.answer {
            OwnedAnswer::Ring(ring) if self.code.is_success() => Ok(ring),
            _ => Err(self.refused()),
        }
    }

    pub(super) fn spawned(self) -> Result<Spawned, SpawnError<Vec<Code>, io::Error>> {
        let Self { code, answer, .. } = self;
        match answer {
            OwnedAnswer::Spawned(spawned) if code.is_success() => Ok(spawned),
            OwnedAnswer::Spawned(Spawned { codes, .. }) => Err(SpawnError::Refused { code, codes }),
            _ => Err(SpawnError::Refused { code, codes: Vec::new() }),
        }
    }

    /// The nonce of a challenge, or the job that has spawned this one.
    pub(super) fn opening(self) -> CallResult<HandshakeStep> {
        match self.answer {
            OwnedAnswer::Challenge(nonce) => Ok(HandshakeStep::Challenged(nonce)),
            OwnedAnswer::Spawner(spawner) => Ok(HandshakeStep::By(spawner)),
            _ => Err(CallError::Peer(PeerError::Refused(self.code))),
        }
    }

    const fn refused(&self) -> CallError<io::Error> {
        CallError::Refused { verb: self.to, code: self.code }
    }
}

/// Progress of a handshake.
pub(super) enum HandshakeStep {
    Challenged(Vec<u8>),
    By(Option<Vec<u8>>),
}

fn bytes(text: Text<'_>) -> Vec<u8> {
    text.bytes().collect()
}

fn codes(bytes: &[u8]) -> Vec<Code> {
    list(bytes).map(|code| code.map_or(Code::FAIL, Code)).collect()
}

/// Comma-separated numbers; an empty text is an empty list.
fn list(bytes: &[u8]) -> impl Iterator<Item = Option<i32>> {
    let pieces = bytes.split(|b| *b == b',').take(if bytes.is_empty() { 0 } else { usize::MAX });
    pieces.map(|piece| Text::plain(piece.trim_ascii()).signed().and_then(|n| i32::try_from(n).ok()))
}
