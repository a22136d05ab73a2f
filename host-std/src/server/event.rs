//! Events of the protocol server for the rest of the launcher.

use super::pmix::heap::PmixHeap;
use super::service::Service;
use super::{changes, fetches, operations};
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::operation::OperationRequest;
use crate::server::dial_in_peer::IDENTIFY_WITHIN;
use crate::verdict::Failure;
use pmi_core::auth::Nonce;
use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::limits::PMI2_MAX_VALLEN;
use pmi_core::server::{Event, Server};
use pmi_core::time::Duration;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::storage::Heap;
use pmi_host_os::admission::Socket;
use pmi_host_os::admission::munge::CredentialRequest;
use std::net::SocketAddr;

/// Event of the protocol server for the rest of the launcher.
#[derive(Debug)]
pub(crate) enum ServerEvent {
    /// A rank caused or requested the end of the run.
    Failed {
        /// Job of the rank.
        job: JobId,
        /// Cause.
        failure: Failure,
    },
    /// A rank has aborted itself alone.
    AbortedSelf {
        /// Job of the rank.
        job: JobId,
        /// Its abort.
        failure: Failure,
    },
    /// A peer that wants to be a rank has given a credential of munge.
    CredentialGiven {
        /// Request to answer.
        request: CredentialRequest,
        /// The credential.
        credential: Vec<u8>,
        /// Nonce that it must carry.
        nonce: Nonce,
    },
    /// A rank has closed its connection.
    Closed {
        /// Job of the rank.
        job: JobId,
        /// Rank of the closed connection.
        rank: u32,
    },
    /// A rank requests new processes.
    Spawn {
        /// Job of the requesting rank.
        job: JobId,
        /// Requesting rank.
        rank: u32,
        /// Requested processes.
        request: SpawnRequest,
        /// Request to answer.
        asked: PendingSpawn,
    },
    /// All ranks of this node are in the fence of their job, which has ranks on other nodes.
    FenceHandedUp {
        /// The job.
        job: JobId,
        /// Number of the fence.
        generation: u32,
    },
    /// Operation of ranks on several nodes, for the head; or the reason for which it cannot be handed up, as
    /// a part of a sentence.
    Operation(Result<OperationRequest, &'static str>),
    /// Two ranks have put the same key.
    PutTwice {
        /// Job of both ranks.
        job: JobId,
        /// Key of both puts.
        key: String,
        /// Rank of the first put, and rank of the one that holds.
        ranks: [u32; 2],
    },
    /// A rank has requested a connect with a job of another launcher, and no name server is known.
    OtherLauncher {
        /// Job of the rank.
        job: JobId,
        /// The rank.
        rank: u32,
        /// Namespace of the other job.
        nspace: String,
    },
    /// The process mapping of a job is longer than a value may be.
    MappingOmitted {
        /// The job.
        job: JobId,
        /// Length of the mapping.
        len_bytes: usize,
    },
    /// An expected rank has connected.
    Joined,
    /// A connection was rejected; it belongs to no rank, so no job is affected.
    Refused {
        /// Address of the connection.
        from: SocketAddr,
        /// Cause, as the predicate of a message.
        why: String,
    },
    /// A PMIx connection was rejected before it was authenticated.
    PmixRefused {
        /// Address of the connection.
        from: SocketAddr,
        /// Socket at its other end.
        socket: Socket,
        /// Cause, as the predicate of a message.
        why: String,
    },
    /// A PMIx connection claims to be a rank, and waits for the decision.
    PmixDialled {
        /// Session that waits.
        session: SessionId,
        /// Job it claims to belong to.
        job: JobId,
        /// Rank it claims to be.
        rank: u32,
    },
    /// A PMIx tool connects, and waits for the decision.
    ToolDialled {
        /// Session that waits.
        session: SessionId,
    },
    /// A monitored PMIx client missed its heartbeat.
    PmixSilent {
        /// Job of the client.
        job: JobId,
        /// Rank of the client.
        rank: u32,
        /// Status code for the notification of others.
        code: Status,
        /// Time since its last heartbeat.
        after: Duration,
    },
    /// A PMIx client waits for a debugger.
    PmixStopped {
        /// Job of the client.
        job: JobId,
        /// Rank of the client.
        rank: u32,
        /// Name of the place where it waits.
        breakpoint: String,
    },
    /// A PMIx client sent a request that only the launcher can serve.
    PmixHostRequest {
        /// Session of the client.
        session: SessionId,
        /// Pending reply to complete.
        exchange: usize,
    },
    /// A rank received a notice on its second connection, and wants this signal after it.
    Signal {
        /// Job of the rank.
        job: JobId,
        /// Rank that wants the signal.
        rank: u32,
        /// Name of the signal.
        name: String,
    },
}

/// A spawn request that waits for its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingSpawn {
    /// Session of the client.
    pub(crate) session: SessionId,
    /// Pending reply of the session.
    pub(crate) exchange: usize,
}

/// Converts an event of the server; `text` is that of an abort whose session is closed.
pub(super) fn translate_event(
    service: &mut Service,
    event: Event,
    text: Option<Vec<u8>>,
) -> Option<ServerEvent> {
    match event {
        Event::Aborted { job, rank, code, world, message } => {
            let whole = text.or_else(|| service.abort_message(job, rank));
            let message = whole.unwrap_or_else(|| message.as_bytes().to_vec());
            let (rank, code) = (rank.0, code.unwrap_or(ABORT_CODE));
            let failure = Failure::Abort { rank, code, message: printable(&message) };
            Some(match world {
                true => ServerEvent::Failed { job, failure },
                false => ServerEvent::AbortedSelf { job, failure },
            })
        }
        Event::FenceStuck { job, gone } => {
            service.suspects.push((job, gone));
            None
        }
        Event::Spawn { session, exchange } => {
            let request =
                service.server.spawn_request(session).map(SpawnRequest::read).unwrap_or_default();
            service.server.spawn_read(session);
            let (job, rank) = service.server.peer(session)?;
            let asked = PendingSpawn { session, exchange };
            Some(ServerEvent::Spawn { job, rank: rank?.0, request, asked })
        }
        Event::PutTwice { job, key, first, second } => {
            let key = printable(key.as_bytes());
            Some(ServerEvent::PutTwice { job, key, ranks: [first.0, second.0] })
        }
        Event::UnknownJobConnected { job, rank, nspace } => {
            let is_first = !std::mem::replace(&mut service.pmix.has_unknown_connect, true);
            let (rank, nspace) = (rank.0, printable(nspace.as_bytes()));
            is_first.then_some(ServerEvent::OtherLauncher { job, rank, nspace })
        }
        Event::Joined { job, rank } => service.handle_joined(job, rank),
        Event::Signal { job, rank, signal } => {
            Some(ServerEvent::Signal { job, rank: rank.0, name: printable(signal.as_bytes()) })
        }
        // The number that a peer claims for its user may be one of another user namespace; the kernel has
        // named the user of its socket.
        Event::AdmissionRequested { session, job, rank, .. } => {
            Some(ServerEvent::PmixDialled { session, job, rank: rank.0 })
        }
        Event::ToolAdmissionRequested { session, .. } => Some(ServerEvent::ToolDialled { session }),
        Event::AdmissionInvalid { session, status, why } => {
            let refused = service.refused_pmix(session, nonsense(why, b""));
            service.refuse_pmix(session, status);
            refused
        }
        Event::CredentialGiven { session, exchange, .. } => {
            // Its verification may take longer than the rest of the time for an identification.
            let deadline = service.clock.now().plus(IDENTIFY_WITHIN);
            service.server.set_credential_deadline(session, deadline).ok()?;
            let given = service.server.credential(session)?;
            let request = CredentialRequest { session, exchange };
            let (credential, nonce) = (given.text.bytes().collect(), given.nonce);
            Some(ServerEvent::CredentialGiven { request, credential, nonce })
        }
        Event::HeartbeatLost { job, rank, code, after } => {
            Some(ServerEvent::PmixSilent { job, rank: rank.0, code, after })
        }
        Event::ReadyForDebug { job, rank, breakpoint } => {
            let breakpoint = String::from_utf8_lossy(breakpoint.as_bytes()).into_owned();
            Some(ServerEvent::PmixStopped { job, rank: rank.0, breakpoint })
        }
        Event::HostRequest { session, exchange } => {
            match operations::take_pmix_name(service, session, exchange) {
                Some(request) => Some(ServerEvent::Operation(Ok(request))),
                None => Some(ServerEvent::PmixHostRequest { session, exchange }),
            }
        }
        Event::GroupHandedUp { job, number, tag } => {
            let part = operations::group_part(service, job, (number, tag));
            Some(ServerEvent::Operation(Ok(part)))
        }
        Event::RingHandedUp { job, generation } => {
            let part = operations::ring_part(service, job, generation);
            Some(ServerEvent::Operation(Ok(part)))
        }
        Event::NameRequested { session, exchange } => {
            let request = operations::name_request(service, session, exchange)?;
            Some(ServerEvent::Operation(Ok(request)))
        }
        Event::FenceHandedUp { job, generation } => {
            Some(ServerEvent::FenceHandedUp { job, generation })
        }
        Event::CollectiveHandedUp { number } => {
            Some(ServerEvent::Operation(operations::collective_part(service, number)))
        }
        Event::CollectiveWithdrawn { number } => {
            Some(ServerEvent::Operation(Ok(OperationRequest::Withdrawn { number })))
        }
        Event::ConnectRequested { session, exchange, job, other, is_connect } => {
            let jobs = (job, other);
            let request = changes::connection(service, (session, exchange), jobs, is_connect)?;
            Some(ServerEvent::Operation(Ok(request)))
        }
        Event::PairRequested { session, exchange, job, is_first } => {
            let request = changes::take_pair(service, (session, exchange), job, is_first)?;
            Some(ServerEvent::Operation(Ok(request)))
        }
        Event::ModexRequested { session } => {
            let request = fetches::take_request(service, session)?;
            Some(ServerEvent::Operation(Ok(request)))
        }
        Event::ModexCommitted { job, rank } => {
            fetches::answer_waiting(service, job, rank);
            None
        }
        Event::RequestForwarded { session } => {
            let request = operations::take_forwarded(service, session)?;
            Some(ServerEvent::Operation(Ok(request)))
        }
        _ => None,
    }
}

/// Describes a protocol violation of a peer, as the predicate of a message.
pub(super) fn nonsense(error: PeerError, input: &[u8]) -> String {
    // First record of a TLS handshake, whose version bytes have not changed for decades.
    if input.starts_with(b"\x16\x03") {
        return SPEAKS_TLS.to_owned();
    }
    let mut why = match error {
        PeerError::Malformed(_) | PeerError::MessageTooLong { .. } => {
            format!("sent bytes that are not PMI: {error}")
        }
        _ => format!("cannot be served: {error}"),
    };
    if !input.is_empty() {
        why.push_str(&format!(", in '{}'", input.escape_ascii()));
    }
    why
}

/// Describes a reply that the server cannot send, as the predicate of a message about its rank.
pub(super) fn unanswerable(reply_bytes: usize) -> String {
    format!(
        "cannot be answered: the reply has {reply_bytes} bytes, and the server can send no longer one"
    )
}

/// The next fence that cannot complete because a rank will certainly not enter it.
pub(super) fn disconnect_event(service: &mut Service) -> Option<ServerEvent> {
    let suspects = service.suspects.iter();
    let at = { suspects }.position(|(job, rank)| service.has_left(*job, rank.0))?;
    let (id, rank) = service.suspects.remove(at);
    let job = service.server.job(id)?;
    let has_left = |rank: &Rank| service.has_left(id, rank.0);
    let mut gone: Vec<u32> = match job.fence().inside() {
        0 => Vec::new(),
        _ => job.missing().filter(has_left).map(|rank| rank.0).collect(),
    };
    if gone.is_empty() {
        // The server does not report the members of a group fence that are missing; the known one has to
        // do.
        gone.push(rank.0);
    }
    let failure = Failure::Missing {
        gone_count: gone.len(),
        gone: gone.into_iter().take(NAMED_MAX).collect(),
        waiting_count: usize::try_from(job.fence().inside()).unwrap_or(usize::MAX).max(1),
    };
    Some(ServerEvent::Failed { job: id, failure })
}

/// Text of a rank, safe to print on a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

const SPEAKS_TLS: &str = "speaks TLS, which this job does not; leave its PMI_SOCKTYPE unset, or start the \
                          job with '--tls'";

/// Exit code of an abort that names none.
const ABORT_CODE: i32 = 1;

/// Maximum number of missing ranks in a message; more would not be read.
const NAMED_MAX: usize = 8;

/// Text of the abort that a session has sent, up to the length of a value.
pub(super) fn abort_message(
    server: &Server<Heap<PmixHeap>>,
    session: SessionId,
) -> Option<Vec<u8>> {
    let text = server.abort_message(session)?;
    Some(text.bytes().take(PMI2_MAX_VALLEN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_rank_is_made_harmless() {
        assert_eq!(printable(b" bye\x1b[2J\nbye \n"), "bye [2J bye");
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
