//! Requests of PMIx ranks about names, programs and other jobs, and their replies.

use super::client::SLOTS;
use crate::event::ReplyBody;
use crate::scenario::Ask;
use crate::storage::Bytes;
use pmi_core::client::pmix::{PmixAnswer, PmixClient, PmixRequest, PmixTicket};
use pmi_core::error::Misuse;
use pmi_core::wire::pmix::names::Status;
use pmi_core::wire::pmix::{Proc, WILDCARD};

/// Starts a request, if it is one of these.
pub(super) fn start(
    client: &mut PmixClient<Bytes, SLOTS>,
    ask: &Ask,
) -> Option<Result<PmixTicket, Misuse>> {
    let own = client.identity().nspace.clone();
    Some(match ask {
        Ask::Publish { service, port } => {
            client.start(&PmixRequest::Publish { key: service, text: port })
        }
        Ask::Lookup { service, wait, .. } => {
            client.start(&PmixRequest::Lookup { key: service, wait: *wait, timeout_s: None })
        }
        Ask::Unpublish { service } => client.start(&PmixRequest::Unpublish { key: service }),
        Ask::Spawn { preputs, .. } if !preputs.is_empty() => {
            Err(Misuse::NotSayable { what: "values for a job that is spawned in PMIx" })
        }
        Ask::Spawn { job, size, .. } => {
            client.start(&PmixRequest::Spawn { command: job.as_bytes(), processes: *size })
        }
        Ask::Connect { job } => {
            let procs = both(own.as_bytes(), job.as_bytes());
            client.start(&PmixRequest::Connect { procs: &procs, timeout_s: None })
        }
        Ask::Disconnect { job } => {
            let procs = both(own.as_bytes(), job.as_bytes());
            client.start(&PmixRequest::Disconnect { procs: &procs, timeout_s: None })
        }
        _ => return None,
    })
}

/// All processes of two jobs, in the order of their names.
fn both<'a>(own: &'a [u8], other: &'a [u8]) -> [Proc<'a>; 2] {
    [own.min(other), own.max(other)].map(|nspace| Proc { nspace, rank: WILDCARD })
}

/// The contents of a reply.
pub(super) fn said(ask: &Ask, status: Status, answer: &PmixAnswer<'_>) -> ReplyBody {
    match ask {
        Ask::Lookup { .. } => match answer.published().next() {
            Some(published) => ReplyBody::Text(published.value.text().unwrap_or_default().into()),
            None => ReplyBody::Missing,
        },
        Ask::Spawn { .. } if status == Status::SUCCESS => {
            ReplyBody::Spawned { job: answer.nspace().map(<[u8]>::to_vec), codes: None }
        }
        Ask::Connect { .. } => {
            let jobs = answer.jobs().filter_map(|job| {
                Some(format!("{} {}", job.nspace()?.escape_ascii(), job.size()?))
            });
            ReplyBody::Other(jobs.collect::<Vec<_>>().join(" "))
        }
        _ => ReplyBody::Nothing,
    }
}
