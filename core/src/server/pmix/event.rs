//! Events for the owner of PMIx sessions.

use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, Rank};
use crate::time::Duration;
use crate::wire::pmix::names::Status;

/// Number of a connection. Reused after the connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// Event for the owner of PMIx sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixEvent {
    /// A peer claims a rank, which the protocol does not prove. Verify the claim and call
    /// [`PmixServer::admit`](super::PmixServer::admit) or [`Pmix::refuse`](super::Pmix::refuse);
    /// the peer waits for that.
    AdmissionRequested {
        /// The connection.
        connection: ConnectionId,
        /// Job of the claimed rank.
        job: JobId,
        /// Claimed rank.
        rank: Rank,
        /// The user that the peer claims to run as, if any.
        user: Option<u32>,
    },
    /// An invalid greeting. Call [`Pmix::refuse`](super::Pmix::refuse) with this status; the peer
    /// waits for that.
    AdmissionInvalid {
        /// The connection.
        connection: ConnectionId,
        /// Status for the peer.
        status: Status,
        /// Cause of the rejection.
        why: PeerError,
    },
    /// A rank aborts its job. Its request is already answered.
    Aborted {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Exit code requested for the job.
        code: i32,
        /// Message of the rank.
        message: Excerpt,
    },
    /// No heartbeat of a rank within the interval that it requested.
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
    /// A request that only the owner can answer: read [`Pmix::request`](super::Pmix::request), then
    /// call [`Pmix::request_read`](super::Pmix::request_read), and
    /// [`Pmix::answer`](super::Pmix::answer) with the result.
    HostRequest {
        /// The connection.
        connection: ConnectionId,
        /// Number of the request, to be passed back with the answer.
        pending: usize,
    },
}
