//! A reply that outlives its buffer.

use pmi_core::command::{Answer, Identity, Maxes, Pair, ProcessCodes, Reply, Text, Verb};
use pmi_core::error::Code;

use crate::owned::owned;

/// One reply.
#[derive(Debug)]
pub(super) struct OwnedReply {
    to: Verb,
    code: Code,
    answer: OwnedAnswer,
}

/// Content of the answer, as far as calls read it.
#[derive(Debug)]
enum OwnedAnswer {
    Nothing,
    Value(Vec<u8>),
    Name(Vec<u8>),
    Number(i32),
    Maxes(Maxes),
    Challenge(Vec<u8>),
    Identity(Identity<'static>, Option<Vec<u8>>),
    CopyNeeded,
    Count(u32),
    Pair(Vec<u8>, Vec<u8>),
    Ring(u32, Vec<u8>, Vec<u8>),
    Spawned(Option<Vec<u8>>, Option<Vec<u8>>),
}

impl OwnedReply {
    pub(super) fn new(reply: &Reply<'_>) -> Self {
        let answer = match reply.answer {
            Answer::Value(text) => OwnedAnswer::Value(owned(text)),
            Answer::Name(text) => OwnedAnswer::Name(owned(text)),
            Answer::Number(number) => OwnedAnswer::Number(number),
            Answer::Maxes(maxes) => OwnedAnswer::Maxes(maxes),
            Answer::Challenge(nonce) => OwnedAnswer::Challenge(owned(nonce)),
            Answer::Identity(identity) => {
                let spawner = identity.spawner.map(owned);
                let Identity { rank, size, appnum, is_debugged, is_verbose, .. } = identity;
                let identity =
                    Identity { rank, size, appnum, spawner: None, is_debugged, is_verbose };
                OwnedAnswer::Identity(identity, spawner)
            }
            Answer::CopyNeeded => OwnedAnswer::CopyNeeded,
            Answer::Count(count) => OwnedAnswer::Count(count),
            Answer::Pair(pair) => OwnedAnswer::Pair(owned(pair.key), owned(pair.value)),
            Answer::Ring { count, left, right } => {
                OwnedAnswer::Ring(count, owned(left), owned(right))
            }
            Answer::Spawned { job, codes } => {
                OwnedAnswer::Spawned(job.map(owned), codes.map(|codes| codes.bytes().collect()))
            }
            _ => OwnedAnswer::Nothing,
        };
        Self { to: reply.to, code: reply.code, answer }
    }

    /// True if more replies follow for the same request.
    pub(super) const fn has_more(&self) -> bool {
        matches!(self.answer, OwnedAnswer::Count(_) | OwnedAnswer::Pair(..))
    }

    /// The reply as it was received.
    pub(super) fn lend(&self) -> Reply<'_> {
        let answer = match &self.answer {
            OwnedAnswer::Nothing => Answer::Nothing,
            OwnedAnswer::Value(value) => Answer::Value(Text::plain(value)),
            OwnedAnswer::Name(name) => Answer::Name(Text::plain(name)),
            OwnedAnswer::Number(number) => Answer::Number(*number),
            OwnedAnswer::Maxes(maxes) => Answer::Maxes(*maxes),
            OwnedAnswer::Challenge(nonce) => Answer::Challenge(Text::plain(nonce)),
            OwnedAnswer::Identity(identity, spawner) => {
                let spawner = spawner.as_deref().map(Text::plain);
                Answer::Identity(Identity { spawner, ..*identity })
            }
            OwnedAnswer::CopyNeeded => Answer::CopyNeeded,
            OwnedAnswer::Count(count) => Answer::Count(*count),
            OwnedAnswer::Pair(key, value) => {
                Answer::Pair(Pair { key: Text::plain(key), value: Text::plain(value) })
            }
            OwnedAnswer::Ring(count, left, right) => {
                Answer::Ring { count: *count, left: Text::plain(left), right: Text::plain(right) }
            }
            OwnedAnswer::Spawned(job, codes) => Answer::Spawned {
                job: job.as_deref().map(Text::plain),
                codes: codes.as_deref().map(|codes| ProcessCodes::List(Text::plain(codes))),
            },
        };
        Reply { to: self.to, tag: b"", code: self.code, answer }
    }
}
