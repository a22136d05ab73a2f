//! What the protocol server tells, as far as the rest of the launcher must know it.

use super::service::Service;
use crate::admission::Socket;
use crate::launch::order::Order;
use crate::verdict::Failure;
use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::server::Event;
use pmi_core::server::pmix::ConnectionId;
use pmi_core::time::Duration;
use pmi_core::wire::pmix::names::Status;
use std::net::SocketAddr;

/// What the rest of the launcher must know.
#[derive(Debug)]
pub enum News {
    /// A rank did, or wants, what ends everything.
    Failed {
        /// Its job.
        job: JobId,
        /// What it did.
        failure: Failure,
    },
    /// A rank has closed its connection.
    Closed {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: u32,
    },
    /// A rank wants new processes.
    Spawn {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: u32,
        /// What it wants.
        order: Order,
        /// To answer with.
        asked: Asked,
    },
    /// Two ranks have put the same key.
    PutTwice {
        /// Their job.
        job: JobId,
        /// The key.
        key: String,
        /// Who put it first, and who put the value that holds.
        ranks: [u32; 2],
    },
    /// A rank has dialled in.
    Joined {
        /// The rank.
        rank: u32,
        /// Where from.
        from: SocketAddr,
    },
    /// Somebody dialled in and was sent away; it is no rank, so no job suffers.
    Refused {
        /// Where from.
        from: SocketAddr,
        /// What it did, as the rest of a sentence about it.
        why: String,
    },
    /// Somebody has dialled in as PMIx clients do, and was sent away before it was anybody.
    PmixRefused {
        /// Where from.
        from: SocketAddr,
        /// The socket there.
        socket: Socket,
        /// What it did, as the rest of a sentence about it.
        why: String,
    },
    /// Somebody claims to be a rank, and waits.
    PmixDialled {
        /// The connection.
        connection: ConnectionId,
        /// The job it claims to be of.
        job: JobId,
        /// The rank it claims to be.
        rank: u32,
        /// The user it claims to run as, if it says so.
        user: Option<u32>,
    },
    /// A PMIx client was not heard for as long as it wanted to be watched for.
    PmixSilent {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: u32,
        /// What others shall be told.
        code: Status,
        /// How long it was not heard.
        after: Duration,
    },
    /// A PMIx client asks for what only the launcher can do.
    PmixAsked {
        /// Who asks.
        connection: ConnectionId,
        /// To answer with.
        pending: usize,
    },
    /// A rank was told something on its second connection, and wants this signal after it.
    Signal {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: u32,
        /// The name of the signal.
        name: String,
    },
}

/// A spawn that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A PMI client.
    Pmi {
        /// Who waits.
        session: SessionId,
        /// Where.
        exchange: usize,
    },
    /// A PMIx client.
    Pmix {
        /// Who waits.
        connection: ConnectionId,
        /// Where.
        pending: usize,
    },
}

/// Reads one event of the server.
pub(super) fn event_news(service: &mut Service, event: Event) -> Option<News> {
    match event {
        Event::Aborted { job, rank, code, message, .. } => {
            let failure = Failure::Abort {
                rank: rank.0,
                code: code.unwrap_or(ABORT_CODE),
                message: printable(message.as_bytes()),
            };
            Some(News::Failed { job, failure })
        }
        Event::FenceStuck { job, gone } => {
            service.suspects.push((job, gone));
            None
        }
        Event::Spawn { session, exchange } => {
            let order = service.server.spawn_request(session).map(Order::read).unwrap_or_default();
            service.server.spawn_read(session);
            let (job, rank) = service.server.peer(session)?;
            let asked = Asked::Pmi { session, exchange };
            Some(News::Spawn { job, rank: rank?.0, order, asked })
        }
        Event::PutTwice { job, key, first, second } => {
            let key = printable(key.as_bytes());
            Some(News::PutTwice { job, key, ranks: [first.0, second.0] })
        }
        Event::Joined { job, rank } => service.take_joined(job, rank),
        Event::Signal { job, rank, signal } => {
            Some(News::Signal { job, rank: rank.0, name: printable(signal.as_bytes()) })
        }
        // There are no other nodes.
        _ => None,
    }
}

/// What a peer did, as the rest of a sentence about it.
pub(super) fn nonsense(error: PeerError, heard: &[u8]) -> String {
    // The first record of a handshake, whose version bytes have not changed for decades.
    if heard.starts_with(b"\x16\x03") {
        return SPEAKS_TLS.to_owned();
    }
    let mut why = match error {
        PeerError::Malformed(_) | PeerError::MessageTooLong { .. } => {
            format!("sent something that is not PMI: {error}")
        }
        _ => format!("cannot be served: {error}"),
    };
    if !heard.is_empty() {
        why.push_str(&format!(", in '{}'", heard.escape_ascii()));
    }
    why
}

/// The next fence that cannot end because of a rank that certainly will not come.
pub(super) fn stuck_news(service: &mut Service) -> Option<News> {
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
        // Nobody can be asked who waits in the fence of a group; the one who is known has to do.
        gone.push(rank.0);
    }
    let failure = Failure::Missing {
        gone_count: gone.len(),
        gone: gone.into_iter().take(NAMED_MAX).collect(),
        waiting_count: usize::try_from(job.fence().inside()).unwrap_or(usize::MAX).max(1),
    };
    Some(News::Failed { job: id, failure })
}

/// What a rank says, safe to show on a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

const SPEAKS_TLS: &str = "speaks TLS, which this job does not; leave its PMI_SOCKTYPE unset, or start the \
                          job with '--tls'";

/// The exit code of an abort that names none.
const ABORT_CODE: i32 = 1;

/// How many missing ranks are named; more would not be read.
const NAMED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_says_is_made_harmless() {
        assert_eq!(printable(b" bye\x1b[2J\nbye \n"), "bye [2J bye");
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
