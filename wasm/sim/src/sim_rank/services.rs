//! Requests of PMIx ranks about names, programs, other jobs, events and groups, and their replies.

use super::client::SLOTS;
use crate::event::ReplyBody;
use crate::scenario::RankRequest;
use crate::storage::Bytes;
use pmi_core::client::pmix::{PmixAnswer, PmixClient, PmixRequest, PmixTicket, SpawnApp};
use pmi_core::error::Misuse;
use pmi_core::wire::pmix::names::{Status, range};
use pmi_core::wire::pmix::{Proc, WILDCARD};

/// Starts a request, if it is one of these.
pub(super) fn start(
    client: &mut PmixClient<Bytes, SLOTS>,
    ask: &RankRequest,
) -> Option<Result<PmixTicket, Misuse>> {
    let own = client.identity().nspace.clone();
    Some(match ask {
        RankRequest::Publish { service, port } => {
            client.start(&PmixRequest::Publish { key: service, text: port })
        }
        RankRequest::Lookup { service, wait, .. } => {
            client.start(&PmixRequest::Lookup { key: service, wait: *wait, timeout_s: None })
        }
        RankRequest::Unpublish { service } => {
            client.start(&PmixRequest::Unpublish { key: service })
        }
        RankRequest::Spawn { preputs, .. } if !preputs.is_empty() => {
            Err(Misuse::NotRepresentable { what: "values for a job that is spawned in PMIx" })
        }
        RankRequest::Spawn { job, size, .. } => {
            let apps = [SpawnApp::new(job.as_bytes(), *size)];
            client.start(&PmixRequest::Spawn { apps: &apps, directives: &[] })
        }
        RankRequest::Connect { job } => {
            let procs = both(own.as_bytes(), job.as_bytes());
            client.start(&PmixRequest::Connect { procs: &procs, timeout_s: None })
        }
        RankRequest::Disconnect { job } => {
            let procs = both(own.as_bytes(), job.as_bytes());
            client.start(&PmixRequest::Disconnect { procs: &procs, timeout_s: None })
        }
        RankRequest::Register { code } => {
            client.start(&PmixRequest::Register { codes: &[Status(*code)], directives: &[] })
        }
        RankRequest::Notify { code } => {
            let (code, range) = (Status(*code), range::SESSION);
            client.start(&PmixRequest::Notify { code, range, attributes: &[] })
        }
        RankRequest::Group { name, members } => {
            let proc = |rank: &u32| Proc { nspace: own.as_bytes(), rank: *rank };
            let procs: Vec<Proc<'_>> = members.iter().map(proc).collect();
            client.start(&PmixRequest::GroupConstruct { name, procs: &procs, directives: &[] })
        }
        RankRequest::GroupLeave { name } => client.start(&PmixRequest::GroupLeave { name }),
        RankRequest::GroupEnd { name } => {
            client.start(&PmixRequest::GroupDestruct { name, timeout_s: None })
        }
        _ => return None,
    })
}

/// All processes of two jobs, in the order of their names.
fn both<'a>(own: &'a [u8], other: &'a [u8]) -> [Proc<'a>; 2] {
    [own.min(other), own.max(other)].map(|nspace| Proc { nspace, rank: WILDCARD })
}

/// The contents of a reply.
pub(super) fn said(ask: &RankRequest, status: Status, answer: &PmixAnswer<'_>) -> ReplyBody {
    match ask {
        RankRequest::Lookup { .. } => match answer.published().next() {
            Some(published) => ReplyBody::Text(published.value.text().unwrap_or_default().into()),
            None => ReplyBody::Missing,
        },
        RankRequest::Spawn { .. } if status == Status::SUCCESS => {
            ReplyBody::Spawned { job: answer.nspace().map(<[u8]>::to_vec), codes: None }
        }
        RankRequest::Connect { .. } => {
            let jobs = answer.jobs().filter_map(|job| {
                Some(format!("{} {}", job.nspace()?.escape_ascii(), job.size()?))
            });
            ReplyBody::Other(jobs.collect::<Vec<_>>().join(" "))
        }
        _ => ReplyBody::Nothing,
    }
}
