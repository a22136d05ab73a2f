//! Encoding of due responses.

use super::job::Job;
use super::member::Member;
use super::response::{KvsListing, PendingReply, RequestHeader, Response};
use crate::command::{Answer, Identity, LimitedField, Maxes, Pair, Place, Reason, Reply, Text};
use crate::error::{Code, Full};
use crate::ids::Rank;
use crate::limits::{PMI1_MAX_KEYLEN, PMI1_MAX_KVSNAME, PMI1_MAX_VALLEN, REPLY_BYTES};
use crate::parts;
use crate::store::{EntryId, Kvs};
use crate::wire::{Dialect, quirks};

/// State from which a reply is rendered.
pub(super) struct ReplyContext<'a, K, M> {
    pub(super) job: &'a Job<K, M>,
    pub(super) names: &'a K,
    /// Rank of the peer; `None` until it has introduced itself.
    pub(super) rank: Option<Rank>,
    pub(super) nonce: &'a [u8],
    pub(super) has_tags: bool,
    /// Job that the answer is about, if not that of the peer.
    pub(super) other: Option<&'a Job<K, M>>,
}

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> ReplyContext<'_, K, M> {
    /// True if the response can be sent now.
    pub(super) fn is_due(&self, response: &Response) -> bool {
        match response {
            Response::Fence(generation) => self.job.fence().has_ended(*generation),
            Response::Ring(generation) if parts::CONNECT => self.job.ring_has_ended(*generation),
            Response::Group(_) | Response::Spawn(_) => false,
            Response::Verdict(_) if parts::LISTEN => false,
            Response::Head(_) | Response::GroupHandedUp(..) if parts::NODES => false,
            Response::Attribute(_, key) if parts::PMI2 => self.attribute(key.as_bytes()).is_some(),
            _ => true,
        }
    }

    /// Writes the answer, whole or not at all; a refusal if it is longer than any reply may be.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room; nothing was written.
    pub(super) fn write(&self, exchange: &PendingReply, out: &mut [u8]) -> Result<usize, Full> {
        let RequestHeader { verb, tag, dialect } = &exchange.header;
        let (code, answer) = (Code::SUCCESS, self.answer(&exchange.response));
        let mut reply = Reply { to: *verb, tag: tag.as_bytes(), code, answer };
        reply.code = match (&reply.answer, &exchange.response) {
            (Answer::Missing, _) => quirks::MISSING_IN_LINES,
            (Answer::Refused(reason), _) => reason.code(),
            (_, Response::Spawned(_, Err(code), _)) if parts::SPAWN => *code,
            _ => Code::SUCCESS,
        };
        if parts::PMI2 && matches!(dialect, Dialect::Frames(_)) && reply.code < Code::SUCCESS {
            reply.code = quirks::WITHOUT_NUMBER;
        }
        let word: &[u8] = match &exchange.response {
            Response::Refused(Reason::NotSupported { .. }, word) => word.as_bytes(),
            _ => b"",
        };
        dialect.write_reply(&reply, word, out).or_else(|full| {
            let Full { needed: len_bytes } = full;
            // Values are limited wherever they come from, so that this is a fault of this end. A board has
            // no memory for such values.
            if !parts::SPAWN || len_bytes <= REPLY_BYTES || out.len() < REPLY_BYTES {
                return Err(full);
            }
            let (what, limit_bytes) = (LimitedField::Reply, REPLY_BYTES);
            let rank = self.rank.map_or(0, |rank| rank.0);
            let reason = Reason::Length { what, key: b"", len_bytes, limit_bytes, rank };
            let (code, answer) = (reason.code(), Answer::Refused(reason));
            dialect.write_reply(&Reply { code, answer, ..reply }, b"", out)
        })
    }

    fn answer<'o>(&'o self, response: &'o Response) -> Answer<'o> {
        match response {
            Response::Version(version) => Answer::Version(*version),
            Response::Identity if parts::LISTEN || parts::PMI2 => match self.rank {
                Some(rank) => Answer::Identity(self.identity(rank)),
                None => Answer::Nothing,
            },
            Response::Challenge if parts::LISTEN => Answer::Challenge(Text::plain(self.nonce)),
            Response::Proof(proof) if parts::LISTEN => {
                Answer::Challenge(Text::plain(proof.as_bytes()))
            }
            Response::Maxes => Answer::Maxes(MAXES),
            Response::AppNum => Answer::Number(self.appnum()),
            Response::UniverseSize => Answer::Number(self.job.universe_size()),
            Response::KvsName => Answer::Name(Text::plain(self.job.name().as_bytes())),
            Response::Value(id) => value(&self.job.kvs, Some(*id)),
            Response::Foreign(_, id) if parts::CONNECT => match self.other {
                Some(job) => value(&job.kvs, Some(*id)),
                None => Answer::Missing,
            },
            Response::Port(id) if parts::NAMES => match value(self.names, Some(*id)) {
                // The name was unpublished meanwhile.
                Answer::Missing => Answer::Refused(Reason::NoSuch { what: "service" }),
                port => port,
            },
            Response::Attribute(_, key) if parts::PMI2 => {
                value(&self.job.kvs, self.attribute(key.as_bytes()))
            }
            Response::Missing => Answer::Missing,
            Response::Refused(reason, own) => Answer::Refused(about(*reason, own.as_bytes())),
            // Since 1.2 a fence without a tag has the tag 0.
            Response::Fence(_) | Response::Group(_) => {
                Answer::Released { tag: self.has_tags.then_some(0) }
            }
            Response::Released(tag) if parts::GROUPS => Answer::Released { tag: Some(*tag) },
            Response::Ring(generation) if parts::CONNECT => {
                let Some(rank) = self.rank else { return Answer::Nothing };
                let [left, right] = self.job.neighbours(rank, *generation).map(Text::plain);
                Answer::Ring { count: rank.0, left, right }
            }
            Response::Notice(notice) if parts::LISTEN => Answer::Notice(*notice),
            Response::All(listing) if parts::CONNECT => self.listing_answer(listing),
            Response::Spawned(.., codes) if parts::SPAWN => {
                let job = self.other.map(|job| Text::plain(job.name().as_bytes()));
                Answer::Made { job, codes: codes.runs() }
            }
            _ => Answer::Nothing,
        }
    }

    /// The response that remains after the reply was written; most requests have one reply.
    pub(super) fn rest(&self, exchange: &PendingReply) -> Option<Response> {
        let Response::All(listing) = &exchange.response else { return None };
        if !listing.count_sent {
            return Some(Response::All(KvsListing { count_sent: true, ..*listing }));
        }
        let last = self.pair(listing).filter(|_| listing.left > 0)?;
        // Otherwise the listing has ended with a refusal: an omitted pair would look like one that
        // was never put.
        let is_told = exchange.header.dialect.carries(&self.pair_answer(last)?);
        is_told.then_some(Response::All(KvsListing {
            left: listing.left - 1,
            last: Some(last),
            ..*listing
        }))
    }

    fn listing_answer(&self, listing: &KvsListing) -> Answer<'_> {
        if !listing.count_sent {
            return Answer::Count(listing.left);
        }
        if listing.left == 0 {
            return Answer::Nothing;
        }
        // Fewer than announced: a pair was replaced meanwhile, and its new value is not visible
        // yet.
        let fewer = Answer::Refused(Reason::NoSuch { what: "pair any more" });
        self.pair(listing).and_then(|id| self.pair_answer(id)).unwrap_or(fewer)
    }

    fn pair_answer(&self, id: EntryId) -> Option<Answer<'_>> {
        let entry = self.other?.kvs.entry(id)?;
        let [key, value] = [entry.key, entry.value].map(Text::plain);
        Some(Answer::Pair(Pair { key, value }))
    }

    fn pair(&self, listing: &KvsListing) -> Option<EntryId> {
        self.other?.next_pair(listing.last, listing.reader, listing.fences)
    }

    fn identity(&self, rank: Rank) -> Identity<'_> {
        Identity {
            rank: rank.0,
            size: self.job.size(),
            appnum: self.appnum(),
            spawner: self.job.spawner().map(|name| Text::plain(name.as_bytes())),
            is_debugged: self.job.is_debugged,
            is_verbose: self.job.is_verbose,
        }
    }

    fn appnum(&self) -> i32 {
        self.rank.and_then(|rank| self.job.member(rank)).map_or(-1, |member| member.appnum)
    }

    fn attribute(&self, key: &[u8]) -> Option<EntryId> {
        self.job.look_up(self.rank, Place::Node, key)
    }
}

fn value<K: Kvs>(kvs: &K, id: Option<EntryId>) -> Answer<'_> {
    let entry = id.and_then(|id| kvs.entry(id));
    entry.map_or(Answer::Missing, |entry| Answer::Value(Text::plain(entry.value)))
}

/// Completes a reason with the quoted word of the request.
const fn about<'a>(mut reason: Reason<'a>, own: &'a [u8]) -> Reason<'a> {
    if let Reason::Length { key: word, .. } | Reason::NotSupported { word } = &mut reason {
        *word = own;
    }
    reason
}

#[allow(clippy::cast_possible_truncation, reason = "three small constants")]
const MAXES: Maxes = Maxes {
    kvsname: PMI1_MAX_KVSNAME as u32,
    key: PMI1_MAX_KEYLEN as u32,
    value: PMI1_MAX_VALLEN as u32,
};
