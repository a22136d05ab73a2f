//! Responses of a session: a few bytes each, rendered as a reply when there is room.

use crate::auth::Proof;
use crate::command::{CodeRun, Notice, Reason, Verb, Version};
use crate::error::{Code, Misuse};
use crate::ids::{JobId, Key, Rank, Tag, Word};
use crate::limits::SPAWN_RUNS;
use crate::parts::{ListenOption, PartOption, Pmi2Option};
use crate::store::EntryId;
use crate::wire::Dialect;

/// A request without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReply {
    /// Identity of the request.
    pub header: RequestHeader,
    /// The response, due now or later.
    pub response: Response,
}

/// Parts of a request that its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Kind of the request.
    pub verb: Verb,
    /// Tag that the client gave the request.
    pub tag: Tag,
    /// Dialect of the request, and so of the reply.
    pub dialect: Dialect,
}

/// Content of a reply, and the condition under which it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Success, without data.
    Done,
    /// The negotiated version.
    Version(Version),
    /// Rank, size and application of the client.
    Identity,
    /// The nonce that the peer must answer.
    Challenge,
    /// Answer of the server in a method of authentication with several rounds.
    Proof(PendingProof),
    /// The longest name, key and value.
    Maxes,
    /// Number of the application in the launch.
    AppNum,
    /// Upper bound of the number of processes.
    UniverseSize,
    /// Name of the key-value space of the job.
    KvsName,
    /// The value of an entry of the job.
    Value(EntryId),
    /// The value of an entry of a connected job.
    Foreign(JobId, EntryId),
    /// The port of a published name.
    Port(EntryId),
    /// Refusal: no such key.
    Missing,
    /// Refusal with a reason, and the word that it is about.
    Refused(Reason<'static>, Word),
    /// The end of the job's fence with this number.
    Fence(u32),
    /// The end of a fence of a group.
    Group(GroupFence),
    /// The same, after all members of this node are inside and it was handed up with this number.
    GroupHandedUp(GroupFence, u32),
    /// The group's fence has ended.
    Released(u32),
    /// An attribute of a node that does not exist yet.
    Attribute(u32, AttributeKey),
    /// A whole key-value space, pair by pair.
    All(KvsListing),
    /// The neighbours' values, when the ring with this number is complete.
    Ring(u32),
    /// Message of the server without a request.
    Notice(Notice),
    /// Result of the spawn with this number.
    Spawn(u32),
    /// Answer of the head to the request with this number: about a published name, or for a change of jobs.
    Head(u32),
    /// Verdict of the owner on the credential with this number.
    Verdict(u32),
    /// Result of a spawn: the new job or an error code, and the codes of its processes.
    Spawned(u32, Result<JobId, Code>, SpawnCodes),
}

/// Key of an attribute, which a build without attributes has no memory for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeKey(Pmi2Option<Key>);

/// Answer of the server to a proof, which a build without authentication has no memory for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingProof(ListenOption<Proof>);

/// Codes of all processes of a spawn, in runs; unused runs have a count of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnCodes([CodeRun; SPAWN_RUNS]);

/// Progress of a listing of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvsListing {
    /// Job of the listed keyspace.
    pub job: JobId,
    /// Rank of the job whose view of the keyspace is listed; `None` for a process of another job.
    pub reader: Option<Rank>,
    /// Number of fences completed at the request; later values are not listed.
    pub fences: u32,
    /// Number of pairs to send.
    pub left: u32,
    /// True after the number of pairs was sent.
    pub count_sent: bool,
    /// The last pair sent.
    pub last: Option<EntryId>,
}

/// A fence of some members, identified by its members and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFence {
    /// Sum over the ranks, independent of the order of a list.
    pub members: u64,
    /// Possible members: one bit for the ranks with the same remainder by 64.
    pub ranks: u64,
    /// Number of members.
    pub size: u32,
    /// Number of members on this node.
    pub local: u32,
    /// Distinguishes fences of the same group.
    pub tag: u32,
}

impl RequestHeader {
    /// Header of a request that could not be read, or of a message without a request.
    pub const fn unread(verb: Verb, dialect: Dialect) -> Self {
        Self { verb, tag: Tag::EMPTY, dialect }
    }
}

impl Response {
    /// A refusal whose reason quotes nothing of the request.
    pub fn refused(reason: Reason<'static>) -> Self {
        Self::Refused(reason, Word::default())
    }

    /// Replaces the response with a refusal whose reason quotes nothing of the request.
    pub(super) fn refuse(&mut self, reason: &Reason<'static>) {
        self.refuse_about(reason, b"");
    }

    /// Replaces the response with a refusal whose reason quotes a word of the request.
    #[inline(never)]
    pub(super) fn refuse_about(&mut self, reason: &Reason<'static>, own: &[u8]) {
        *self = Self::Refused(*reason, Word::new(own));
    }
}

impl AttributeKey {
    pub(super) fn new(key: Key) -> Self {
        Self(PartOption::keep(Some(key)))
    }

    pub(super) const fn get(&self) -> Option<&Key> {
        self.0.as_ref()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.get().map_or(b"", Key::as_bytes)
    }
}

impl PendingProof {
    pub(super) fn new(proof: Proof) -> Self {
        Self(PartOption::keep(Some(proof)))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(b"", Proof::as_bytes)
    }
}

impl SpawnCodes {
    /// Copies the codes.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] for more than [`SPAWN_RUNS`].
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
        Self { members: 0, ranks: 0, size: 0, local: 0, tag }
    }

    /// The same group with one more rank.
    pub(super) const fn with(self, rank: u32) -> Self {
        Self {
            members: self.members.wrapping_add(spread(rank)),
            ranks: self.ranks | bit(rank),
            size: self.size + 1,
            ..self
        }
    }

    /// True if other nodes have members.
    pub(super) const fn is_over_nodes(&self) -> bool {
        self.size > self.local
    }

    /// True if the members are those of `other`.
    pub(super) const fn has_members_of(&self, other: &Self) -> bool {
        self.members == other.members && self.size == other.size
    }

    /// The ranks below 64 that are members, in a job of up to 64 ranks.
    pub(super) fn small_ranks(&self) -> impl Iterator<Item = u32> + use<> {
        let ranks = self.ranks;
        (0..u64::BITS).filter(move |rank| ranks >> rank & 1 == 1)
    }

    /// Key that distinguishes it from the other group fences of the job.
    pub(super) fn key(&self) -> [u8; 12] {
        let mut key = [0; 12];
        let (tag, members) = (self.tag.to_be_bytes(), self.members.to_be_bytes());
        key.iter_mut().zip(tag.iter().chain(&members)).for_each(|(to, from)| *to = *from);
        key
    }

    /// True if `rank` may be a member; exact in a job of up to 64 ranks.
    pub(super) const fn may_have(&self, rank: u32) -> bool {
        self.ranks & bit(rank) != 0
    }

    /// True if `rank` is the only member that `inside` lacks.
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
