//! From what is owed to the bytes of the answer.

use super::job::Job;
use super::member::Member;
use super::owed::{Exchange, Listing, Owed, Question};
use crate::command::{Answer, Identity, Maxes, Pair, Place, Reason, Reply, Text};
use crate::error::{Code, Full};
use crate::ids::Rank;
use crate::limits::{PMI1_MAX_KEYLEN, PMI1_MAX_KVSNAME, PMI1_MAX_VALLEN};
use crate::parts;
use crate::store::{EntryId, Kvs};
use crate::wire::quirks;

/// Where an answer takes its facts from.
pub(super) struct Facts<'a, K, M> {
    pub(super) job: &'a Job<K, M>,
    pub(super) names: &'a K,
    pub(super) rank: Rank,
    pub(super) nonce: &'a [u8],
    pub(super) has_tags: bool,
    /// The job that the answer is about besides the asker's own.
    pub(super) other: Option<&'a Job<K, M>>,
}

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Facts<'_, K, M> {
    /// Whether the answer can be given now.
    pub(super) fn is_due(&self, owed: &Owed) -> bool {
        match owed {
            Owed::Fence(generation) => self.job.fence().has_ended(*generation),
            Owed::Ring(generation) if parts::CIRCLES => self.job.ring_has_ended(*generation),
            Owed::Group(_) | Owed::Spawn(_) => false,
            Owed::Attribute(_, key) if parts::FRAMES => self.attribute(key.as_bytes()).is_some(),
            _ => true,
        }
    }

    /// Writes the answer, whole or not at all.
    ///
    /// Errors: [`Full`].
    pub(super) fn write(&self, exchange: &Exchange, out: &mut [u8]) -> Result<usize, Full> {
        let Question { verb, tag, dialect } = &exchange.question;
        let (code, answer) = (Code::SUCCESS, self.answer(&exchange.owed));
        let mut reply = Reply { to: *verb, tag: tag.as_bytes(), code, answer };
        reply.code = match (&reply.answer, &exchange.owed) {
            (Answer::Missing, _) => quirks::MISSING_IN_LINES,
            (Answer::Refused(reason), _) => reason.code(),
            (_, Owed::Spawned(_, Err(code), _)) if parts::SPAWN => *code,
            _ => Code::SUCCESS,
        };
        let word: &[u8] = match &exchange.owed {
            Owed::Refused(Reason::NotSupported { .. }, word) => word.as_bytes(),
            _ => b"",
        };
        dialect.write_reply(&reply, word, out)
    }

    fn answer<'o>(&'o self, owed: &'o Owed) -> Answer<'o> {
        match owed {
            Owed::Version(version) => Answer::Version(*version),
            Owed::Identity if parts::DIAL || parts::FRAMES => Answer::Identity(self.identity()),
            Owed::Challenge if parts::DIAL => Answer::Challenge(Text::plain(self.nonce)),
            Owed::Maxes => Answer::Maxes(MAXES),
            Owed::AppNum => Answer::Number(self.appnum()),
            Owed::UniverseSize => Answer::Number(self.job.universe_size()),
            Owed::KvsName => Answer::Name(Text::plain(self.job.name().as_bytes())),
            Owed::Value(id) => value(&self.job.kvs, Some(*id)),
            Owed::Foreign(_, id) if parts::CIRCLES => match self.other {
                Some(job) => value(&job.kvs, Some(*id)),
                None => Answer::Missing,
            },
            Owed::Port(id) if parts::NAMES => match value(self.names, Some(*id)) {
                // Unpublished in between.
                Answer::Missing => Answer::Refused(Reason::NoSuch { what: "service" }),
                port => port,
            },
            Owed::Attribute(_, key) if parts::FRAMES => {
                value(&self.job.kvs, self.attribute(key.as_bytes()))
            }
            Owed::Missing => Answer::Missing,
            Owed::Refused(reason, own) => Answer::Refused(about(*reason, own.as_bytes())),
            // Since 1.2 a fence without a tag has the tag 0.
            Owed::Fence(_) | Owed::Group(_) => Answer::Released { tag: self.has_tags.then_some(0) },
            Owed::Released(tag) if parts::GROUPS => Answer::Released { tag: Some(*tag) },
            Owed::Ring(generation) if parts::CIRCLES => {
                let [left, right] = self.job.neighbours(self.rank, *generation).map(Text::plain);
                Answer::Ring { count: self.rank.0, left, right }
            }
            Owed::Notice(notice) if parts::DIAL => Answer::Notice(*notice),
            Owed::All(listing) if parts::CIRCLES => self.listed(listing),
            Owed::Spawned(.., codes) if parts::SPAWN => {
                let job = self.other.map(|job| Text::plain(job.name().as_bytes()));
                Answer::Made { job, codes: codes.runs() }
            }
            _ => Answer::Nothing,
        }
    }

    /// What is owed when the answer was written; most questions have one answer.
    pub(super) fn rest(&self, exchange: &Exchange) -> Option<Owed> {
        let Owed::All(listing) = &exchange.owed else { return None };
        if !listing.is_announced {
            return Some(Owed::All(Listing { is_announced: true, ..*listing }));
        }
        let last = self.pair(listing).filter(|_| listing.left > 0)?;
        // Else the list has ended with a refusal: a pair left out would be taken for one that nobody put.
        let is_told = exchange.question.dialect.carries(&self.told(last)?);
        is_told.then_some(Owed::All(Listing {
            left: listing.left - 1,
            last: Some(last),
            ..*listing
        }))
    }

    fn listed(&self, listing: &Listing) -> Answer<'_> {
        if !listing.is_announced {
            return Answer::Count(listing.left);
        }
        if listing.left == 0 {
            return Answer::Nothing;
        }
        // Fewer than announced: somebody replaced a pair meanwhile, and is not seen yet.
        let fewer = Answer::Refused(Reason::NoSuch { what: "pair any more" });
        self.pair(listing).and_then(|id| self.told(id)).unwrap_or(fewer)
    }

    fn told(&self, id: EntryId) -> Option<Answer<'_>> {
        let entry = self.other?.kvs.entry(id)?;
        let [key, value] = [entry.key, entry.value].map(Text::plain);
        Some(Answer::Pair(Pair { key, value }))
    }

    fn pair(&self, listing: &Listing) -> Option<EntryId> {
        self.other?.next_pair(listing.last, listing.rank, listing.fences)
    }

    fn identity(&self) -> Identity<'_> {
        Identity {
            rank: self.rank.0,
            size: self.job.size(),
            appnum: self.appnum(),
            spawner: self.job.spawner().map(|name| Text::plain(name.as_bytes())),
        }
    }

    fn appnum(&self) -> i32 {
        self.job.member(self.rank).map_or(-1, |member| member.appnum)
    }

    fn attribute(&self, key: &[u8]) -> Option<EntryId> {
        self.job.look_up(self.rank, Place::Node, key)
    }
}

fn value<K: Kvs>(kvs: &K, id: Option<EntryId>) -> Answer<'_> {
    let entry = id.and_then(|id| kvs.entry(id));
    entry.map_or(Answer::Missing, |entry| Answer::Value(Text::plain(entry.value)))
}

/// Puts the peer's own word back into the reason.
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
