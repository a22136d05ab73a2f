//! Events for the owner of a server.

use crate::auth::Nonce;
use crate::command::Text;
use crate::ids::{Excerpt, JobId, Key, Rank, SessionId, Word};
#[cfg(feature = "pmix")]
use crate::{error::PeerError, time::Duration, wire::pmix::names::Status};

/// Credential of a peer that has not identified itself.
#[derive(Clone, Copy, Debug)]
pub struct GivenCredential<'a> {
    /// The credential, as the peer sent it.
    pub text: Text<'a>,
    /// Nonce that was sent to this peer.
    pub nonce: Nonce,
}

/// Event for the owner of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Event {
    /// A peer has identified itself.
    Joined {
        /// Its job.
        job: JobId,
        /// Its rank.
        rank: Rank,
    },
    /// A peer that claims a rank has sent a credential which another service verifies: read
    /// [`credential`](super::Server::credential), and call
    /// [`answer_credential`](super::Server::answer_credential); the peer waits for that until its
    /// deadline, or a [new one](super::Server::set_credential_deadline).
    CredentialGiven {
        /// The session.
        session: SessionId,
        /// Number of the request, to be passed back with the answer.
        exchange: usize,
        /// Job of the claimed rank.
        job: JobId,
        /// Claimed rank.
        rank: Rank,
    },
    /// A member aborts the job. Kill it at once: there is no answer, or it was given.
    Aborted {
        /// The job.
        job: JobId,
        /// The rank that called abort.
        rank: Rank,
        /// Exit code requested for the job.
        code: Option<i32>,
        /// True if the whole job is meant, false for the member alone.
        world: bool,
        /// Message of the rank.
        message: Excerpt,
    },
    /// Two members put the same key between two fences; the later value holds.
    PutTwice {
        /// The job.
        job: JobId,
        /// The key.
        key: Key,
        /// Writer of the first value.
        first: Rank,
        /// Writer of the second value.
        second: Rank,
    },
    /// A member requests new processes: read [`spawn_request`](super::Server::spawn_request), then call
    /// [`spawn_read`](super::Server::spawn_read), and
    /// [`answer_spawn`](super::Server::answer_spawn) when it is done.
    Spawn {
        /// The session of the rank.
        session: SessionId,
        /// Number of the spawn, to be passed back with the answer.
        exchange: usize,
    },
    /// A member of a job on several nodes, or of one whose
    /// [names are handed up](super::Server::hand_names_up), requests something about a published name: read
    /// [`name_request`](super::Server::name_request), have the head execute it
    /// ([`serve_name`](super::Server::serve_name)), and call
    /// [`answer_name`](super::Server::answer_name).
    NameRequested {
        /// The session of the rank.
        session: SessionId,
        /// Number of the request, to be passed back with the answer.
        exchange: usize,
    },
    /// A member of a job on several nodes requests that its job is connected with another one, or that their
    /// connection ends: have all nodes do that ([`connect_jobs`](super::Server::connect_jobs)), then call
    /// [`answer_change`](super::Server::answer_change).
    ConnectRequested {
        /// The session of the rank.
        session: SessionId,
        /// Number of the request, to be passed back with the answer.
        exchange: usize,
        /// Its job.
        job: JobId,
        /// The other job.
        other: JobId,
        /// False for the end of the connection.
        is_connect: bool,
    },
    /// A member puts several pairs at once into the space of a job on several nodes; this is one of them:
    /// read [`pair_request`](super::Server::pair_request), and call
    /// [`spawn_read`](super::Server::spawn_read). After the last one, have all nodes add them
    /// ([`add_pairs`](super::Server::add_pairs)), then call
    /// [`answer_change`](super::Server::answer_change).
    PairRequested {
        /// The session of the rank.
        session: SessionId,
        /// For the last pair, the number of the request, to be passed back with the answer.
        exchange: Option<usize>,
        /// Job of the space.
        job: JobId,
        /// True for the first pair; those of an earlier put without a last one are dropped.
        is_first: bool,
    },
    /// All members here are in the fence: send [`fence_puts`](super::Server::fence_puts) to the other nodes,
    /// pass theirs to [`add_remote`](super::Server::add_remote), and call
    /// [`end_fence`](super::Server::end_fence) when their members are inside too.
    FenceHandedUp {
        /// The job.
        job: JobId,
        /// Number of the fence.
        generation: u32,
    },
    /// All members here of a group are in its fence, and other nodes have members too: send
    /// [`group_ranks`](super::Server::group_ranks) and [`group_puts`](super::Server::group_puts), and call
    /// [`end_group`](super::Server::end_group) when all members are inside.
    GroupHandedUp {
        /// The job.
        job: JobId,
        /// Number of the fence.
        number: u32,
        /// Tag that distinguishes fences of the group.
        tag: u32,
    },
    /// All members here are in the ring: send [`ring_values`](super::Server::ring_values), and call
    /// [`end_ring`](super::Server::end_ring) with those of all nodes when their members are inside too.
    RingHandedUp {
        /// The job.
        job: JobId,
        /// Number of the ring.
        generation: u32,
    },
    /// A notice was sent to a member that requested a signal after each.
    Signal {
        /// The job.
        job: JobId,
        /// The member.
        rank: Rank,
        /// Name of the signal, as the member sent it.
        signal: Word,
    },
    /// A fence, or a ring, has members inside and can never end, because another one is gone.
    FenceStuck {
        /// The job.
        job: JobId,
        /// The rank that is gone.
        gone: Rank,
    },
    /// A PMIx client claims a rank, which the protocol does not prove. Verify the claim and call
    /// [`admit`](super::pmix::PmixServer::admit) or [`refuse`](super::pmix::PmixServer::refuse); the peer
    /// waits for that.
    #[cfg(feature = "pmix")]
    AdmissionRequested {
        /// The session.
        session: SessionId,
        /// Job of the claimed rank.
        job: JobId,
        /// Claimed rank.
        rank: Rank,
        /// The user that the peer claims to run as, if any.
        user: Option<u32>,
    },
    /// A PMIx tool connects. Verify its user, add a job of one member with the
    /// [identity that the tool brings](super::pmix::PmixServerRef::tool_identity), or with a new one, and
    /// call [`admit_tool`](super::pmix::PmixServer::admit_tool); or call
    /// [`refuse`](super::pmix::PmixServer::refuse). The tool waits for that, and its job is to be removed
    /// when its session is closed.
    #[cfg(feature = "pmix")]
    ToolAdmissionRequested {
        /// The session.
        session: SessionId,
        /// The user that the tool claims to run as, if any.
        user: Option<u32>,
    },
    /// An invalid greeting of a PMIx client. Call [`refuse`](super::pmix::PmixServer::refuse) with this
    /// status; the peer waits for that.
    #[cfg(feature = "pmix")]
    AdmissionInvalid {
        /// The session.
        session: SessionId,
        /// Status for the peer.
        status: Status,
        /// Cause of the rejection.
        why: PeerError,
    },
    /// No heartbeat of a PMIx client within the interval that it requested.
    #[cfg(feature = "pmix")]
    HeartbeatLost {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Code of the event for other processes.
        code: Status,
        /// Length of the interval.
        after: Duration,
    },
    /// A PMIx client has requested a connect with a job that the server does not know, mostly one of another
    /// run. The request has failed.
    #[cfg(feature = "pmix")]
    UnknownJobConnected {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Start of the namespace of the other job.
        nspace: Excerpt,
    },
    /// A PMIx client waits for a debugger.
    #[cfg(feature = "pmix")]
    ReadyForDebug {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Name of the place where it waits, as the client sent it.
        breakpoint: Excerpt,
    },
    /// A collective of PMIx clients is complete on this node, and other nodes may take part: hand
    /// [`collective_part`](super::pmix::PmixServerRef::collective_part) up, in place of a former part with
    /// this number, and call
    /// [`end_remote_collective`](super::pmix::PmixServer::end_remote_collective) when the parts of all nodes
    /// are there.
    #[cfg(feature = "pmix")]
    CollectiveHandedUp {
        /// Number of the collective among those of this node.
        number: u32,
    },
    /// A collective has timed out on this node, after it was handed up.
    #[cfg(feature = "pmix")]
    CollectiveWithdrawn {
        /// Number of the collective.
        number: u32,
    },
    /// A request of a PMIx client that was handled here, and that the servers of other nodes handle as well:
    /// send [`forwarded`](super::pmix::PmixServerRef::forwarded) to them for
    /// [`handle_forwarded`](super::pmix::PmixServer::handle_forwarded), then call
    /// [`request_read`](super::pmix::PmixServer::request_read).
    #[cfg(feature = "pmix")]
    RequestForwarded {
        /// The session.
        session: SessionId,
    },
    /// A get of a PMIx client waits for data of a rank on another node: read
    /// [`modex_request`](super::pmix::PmixServerRef::modex_request), call
    /// [`request_read`](super::pmix::PmixServer::request_read), fetch the data from the server of the rank
    /// ([`committed`](super::pmix::PmixServer::committed)), and pass it to
    /// [`add_fetched`](super::pmix::PmixServer::add_fetched) or call
    /// [`fail_fetches`](super::pmix::PmixServer::fail_fetches).
    #[cfg(feature = "pmix")]
    ModexRequested {
        /// The session.
        session: SessionId,
    },
    /// A rank whose data other nodes have requested has committed data, or is gone: repeat the requests that
    /// wait for it.
    #[cfg(feature = "pmix")]
    ModexCommitted {
        /// Job of the rank.
        job: JobId,
        /// The rank.
        rank: Rank,
    },
    /// A request of a PMIx client that only the owner can answer: read
    /// [`request`](super::pmix::PmixServerRef::request), then call
    /// [`request_read`](super::pmix::PmixServer::request_read), and
    /// [`answer`](super::pmix::PmixServer::answer) with the result.
    #[cfg(feature = "pmix")]
    HostRequest {
        /// The session.
        session: SessionId,
        /// Number of the request, to be passed back with the answer.
        exchange: usize,
    },
}
