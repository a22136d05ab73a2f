//! Connections that have not proved which rank they are.

use super::event::{nonsense, unanswerable};
use super::flush::Served;
use super::secure::Certificate;
use super::service::Service;
use crate::server::pmix::heap::PmixHeap;
use crate::trace::{TraceSource, redacted};
use pmi_core::auth::Challenge;
use pmi_core::command::Notice;
use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::server::{Job, Server};
use pmi_core::time::Duration;
use pmi_host_base::storage::Heap;
use pmi_host_os::admission::Socket;
use pmi_host_os::admission::limits::GuessLimit;
use pmi_host_os::admission::munge::{CredentialRejection, CredentialRequest};
use pmi_host_os::admission::pending::Pending;
use pmi_host_os::clock;
use pmi_std::Stream;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

/// Connection that has not proved which rank it is.
#[derive(Debug)]
pub(crate) struct DialInPeer {
    /// Its link, not blocking.
    pub(crate) link: Stream,
    /// Its address.
    pub(crate) from: SocketAddr,
    /// Socket at its end, if its user was looked up.
    pub(crate) socket: Option<Socket>,
    /// Challenge that it has to answer, if ranks must know a secret.
    pub(crate) challenge: Option<Challenge>,
    /// Certificate of the server, if the connection uses TLS.
    pub(crate) certificate: Option<Certificate>,
}

/// Limits on unauthenticated sessions.
#[derive(Debug, Default)]
pub(super) struct Unauthenticated {
    /// Sessions whose peers have not identified themselves.
    pub(super) pending: Pending<SessionId>,
    /// Delay of all of them after a wrong guess.
    pub(super) guesses: GuessLimit,
    /// Rejections of credentials whose sessions have not been served since.
    pub(super) rejections: BTreeMap<SessionId, CredentialRejection>,
}

impl Unauthenticated {
    /// Reason to reject a peer that has been served with this result; `scratch` starts with the bytes that it
    /// sent. A wrong guess delays all other unauthenticated peers.
    pub(super) fn rejection(
        &mut self,
        id: SessionId,
        served: &Served,
        scratch: &[u8],
    ) -> Option<String> {
        match *served {
            Served::Broken(PeerError::Unproven, _) => match self.rejections.remove(&id) {
                Some(CredentialRejection::Unverified(why)) => Some(why),
                rejection => {
                    self.guesses.note_wrong(clock::now());
                    match rejection {
                        Some(CredentialRejection::Invalid(why)) => Some(why),
                        _ => Some(nonsense(PeerError::Unproven, b"")),
                    }
                }
            },
            Served::Broken(error, received_bytes) => {
                let (input, mut room) = (excerpt(scratch, received_bytes), Vec::new());
                Some(nonsense(error, redacted(input, &mut room)))
            }
            Served::Plain => Some(PLAIN.to_owned()),
            Served::Untrusted => Some(UNTRUSTED.to_owned()),
            Served::Unanswerable(reply_bytes) => Some(unanswerable(reply_bytes)),
            Served::Waiting | Served::Finished | Served::Closed => None,
        }
    }

    /// Next session to serve that a wrong guess has delayed.
    pub(super) fn next_held(&mut self, now: Instant) -> Option<SessionId> {
        if self.guesses.is_paused(now) { None } else { self.pending.next_held() }
    }

    /// End of the delay, if a session waits for it.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.guesses.until().filter(|_| self.pending.has_held())
    }
}

/// Admits or rejects a peer whose credential was verified. A rejection is reported with the end of its
/// session.
pub(crate) fn answer_credential(
    service: &mut Service,
    request: CredentialRequest,
    result: Result<(), CredentialRejection>,
) {
    let CredentialRequest { session, exchange } = request;
    let now = service.clock.now();
    let answered = service.server.answer_credential(session, exchange, now, result.is_ok());
    // A peer that is gone, or whose deadline has passed, waits for no answer.
    if let (Ok(()), Err(rejection)) = (answered, result) {
        service.unauthenticated.rejections.insert(session, rejection);
    }
}

/// First bytes of a message that a peer sent, for reports.
pub(super) fn excerpt(scratch: &[u8], received_bytes: usize) -> &[u8] {
    &scratch[..received_bytes.min(EXCERPT_MAX)]
}

/// Sends a notice to all ranks that listen on a second connection. Returns the notified ranks.
pub(super) fn notify_all(server: &mut Server<Heap<PmixHeap>>, notice: Notice) -> Vec<(JobId, u32)> {
    let mut listeners = Vec::new();
    for job in Vec::from_iter(server.jobs()) {
        let ranks = 0..server.job(job).map_or(0, Job::size);
        // A rank that does not listen, or has not read the last notice, gets none.
        let listens = ranks.filter(|rank| server.notify(job, Rank(*rank), notice).is_ok());
        listeners.extend(listens.map(|rank| (job, rank)));
    }
    listeners
}

/// Job, rank and session of a connection, for records.
pub(super) fn subject(server: &Server<Heap<PmixHeap>>, session: SessionId) -> TraceSource {
    let peer = server.peer(session);
    let rank = peer.and_then(|(_, rank)| rank).map(|rank| rank.0);
    TraceSource { job: peer.map_or(0, |(job, _)| job.0), rank, session: Some(session.0) }
}

/// Rejection of a peer that requested a rank that is not free.
pub(super) const TAKEN: &str = "requested a rank that is not available: it was started here, or has \
                                already connected; each rank that connects needs a PMI_ID of its own";

/// Longest time until a new connection must have identified itself; a rank does so at once.
pub(super) const IDENTIFY_WITHIN: Duration = Duration::from_secs(5);

/// Rejection of a peer that speaks in the clear where TLS is demanded.
const PLAIN: &str =
    "does not speak TLS, which this job requires; it needs PMI_SOCKTYPE=OpenSSL and PMI_TLS_PIN";

/// Rejection of a peer that does not trust the certificate.
const UNTRUSTED: &str = "ended its TLS handshake early; PMI_TLS_PIN must be that of this job";

/// Number of bytes of an invalid message that are shown.
const EXCERPT_MAX: usize = 40;
