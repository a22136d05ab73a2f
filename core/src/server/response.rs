//! What a session owes its peer: a few bytes, from which the answer is rendered when there is room.

use crate::command::{CodeRun, Notice, Reason, Verb, Version};
use crate::error::{Code, Misuse};
use crate::ids::{JobId, Key, Rank, Tag, Word};
use crate::limits::SPAWN_RUNS;
use crate::store::EntryId;
use crate::wire::Dialect;

/// A question that has not been answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReply {
    /// What was asked.
    pub header: RequestHeader,
    /// What is owed.
    pub response: Response,
}

/// As much of a question as its answer must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// What was asked.
    pub verb: Verb,
    /// What the client calls it.
    pub tag: Tag,
    /// How it was asked, so how it is answered.
    pub dialect: Dialect,
}

/// What is owed, and until when it must wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// "It worked."
    Done,
    /// The version that was agreed on.
    Version(Version),
    /// Who the client is.
    Identity,
    /// The nonce that a caller must answer.
    Challenge,
    /// The longest name, key and value.
    Maxes,
    /// Which program of the launch.
    AppNum,
    /// How many processes there could be.
    UniverseSize,
    /// The name of the job's space.
    KvsName,
    /// The value of an entry of the job.
    Value(EntryId),
    /// The value of an entry of a connected job.
    Foreign(JobId, EntryId),
    /// The port of a published name.
    Port(EntryId),
    /// "There is no such key."
    Missing,
    /// "No", and why; the word is what the reason is about.
    Refused(Reason<'static>, Word),
    /// The end of the job's fence with this number.
    Fence(u32),
    /// The end of a fence of a group.
    Group(GroupFence),
    /// The group's fence has ended.
    Released(u32),
    /// An attribute of a node that nobody has put yet.
    Attribute(u32, Key),
    /// A whole space, pair by pair.
    All(KvsListing),
    /// The neighbours' values, when the ring with this number is complete.
    Ring(u32),
    /// What the server says unasked.
    Notice(Notice),
    /// What becomes of the spawn with this number.
    Spawn(u32),
    /// What became of it: the job that was spawned, or why there is none.
    Spawned(u32, Result<JobId, Code>, SpawnCodes),
}

/// The codes of all processes of a spawn, in stretches; those behind the last have a count of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnCodes([CodeRun; SPAWN_RUNS]);

/// How far the listing of a space has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsListing {
    /// Whose space.
    pub job: JobId,
    /// As whom the space is seen.
    pub rank: Rank,
    /// How many fences had ended when it was asked for; what came later is not in it.
    pub fences: u32,
    /// How many pairs are still owed.
    pub left: u32,
    /// Whether their number was told.
    pub count_sent: bool,
    /// The pair that was told last.
    pub last: Option<EntryId>,
}

/// A fence of some members, told apart by who takes part and by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFence {
    /// Who takes part: a sum over the ranks, so that the order of a list does not matter.
    pub members: u64,
    /// Who may take part: one bit for the ranks with the same remainder by 64.
    pub ranks: u64,
    /// How many take part.
    pub size: u32,
    /// Tells several fences of the same group apart.
    pub tag: u32,
}

impl RequestHeader {
    /// A question that could not be read, or that nobody asked.
    pub const fn unread(verb: Verb, dialect: Dialect) -> Self {
        Self { verb, tag: Tag::EMPTY, dialect }
    }
}

impl Response {
    /// A refusal whose reason needs no word of the peer's.
    pub fn refused(reason: Reason<'static>) -> Self {
        Self::Refused(reason, Word::default())
    }

    /// Turns what is owed into a refusal whose reason needs no word of the peer's.
    pub(super) fn refuse(&mut self, reason: &Reason<'static>) {
        self.refuse_about(reason, b"");
    }

    /// Turns what is owed into a refusal, and keeps what of the peer's own word the reason is about.
    #[inline(never)]
    pub(super) fn refuse_about(&mut self, reason: &Reason<'static>, own: &[u8]) {
        *self = Self::Refused(*reason, Word::new(own));
    }
}

impl SpawnCodes {
    /// Copies them.
    ///
    /// Errors: [`Misuse::NoRoom`] for more than [`SPAWN_RUNS`].
    pub(super) fn new(runs: &[CodeRun]) -> Result<Self, Misuse> {
        let mut codes = [CodeRun { count: 0, code: Code::SUCCESS }; SPAWN_RUNS];
        let places = codes.get_mut(..runs.len()).ok_or(Misuse::NoRoom { what: "codes" })?;
        places.copy_from_slice(runs);
        Ok(Self(codes))
    }

    pub(super) const fn runs(&self) -> &[CodeRun] {
        &self.0
    }
}

impl GroupFence {
    /// A group without ranks.
    pub(super) const fn empty(tag: u32) -> Self {
        Self { members: 0, ranks: 0, size: 0, tag }
    }

    /// The same with one rank more.
    pub(super) const fn with(self, rank: u32) -> Self {
        Self {
            members: self.members.wrapping_add(spread(rank)),
            ranks: self.ranks | bit(rank),
            size: self.size + 1,
            ..self
        }
    }

    /// Tells it apart from the other fences of groups of its job.
    pub(super) fn key(&self) -> [u8; 12] {
        let mut key = [0; 12];
        let (tag, members) = (self.tag.to_be_bytes(), self.members.to_be_bytes());
        key.iter_mut().zip(tag.iter().chain(&members)).for_each(|(to, from)| *to = *from);
        key
    }

    /// Whether `rank` may take part; certain in a job of up to 64.
    pub(super) const fn may_have(&self, rank: u32) -> bool {
        self.ranks & bit(rank) != 0
    }

    /// Whether `rank` is all that `inside` lacks to be this group.
    pub(super) const fn lacks_only(&self, inside: &Self, rank: u32) -> bool {
        inside.size + 1 == self.size && inside.members.wrapping_add(spread(rank)) == self.members
    }
}

/// A rank over 64 bits, so that sums of different groups differ.
const fn spread(rank: u32) -> u64 {
    (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(rank % 64)
}

const fn bit(rank: u32) -> u64 {
    1 << (rank % 64)
}
