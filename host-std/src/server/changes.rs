//! Changes of jobs that all nodes make at the request of a rank: connections of jobs, and puts of several
//! pairs at once.

use super::nodes::block;
use super::service::Service;
use crate::operation::{Asker, JobChange, OperationRequest};
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::server::{ChangeAnswer, RemoteError};
use pmi_core::store::{BlockError, BlockRecord};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Pairs of puts that are not complete, as blocks. A put that is too large has none.
#[derive(Debug, Default)]
pub(crate) struct PutPairs(BTreeMap<SessionId, Option<Vec<u8>>>);

/// The request for a connection of two jobs, or for its end.
pub(super) fn connection(
    service: &Service,
    (session, exchange): (SessionId, usize),
    (one, other): (JobId, JobId),
    is_connect: bool,
) -> Option<OperationRequest> {
    let change = JobChange::Connect { one: one.0, other: other.0, is_connect };
    request(service, (session, exchange), change)
}

/// Takes a pair of a session, which goes on. Returns the request for all of them after the last one.
pub(super) fn take_pair(
    service: &mut Service,
    (session, exchange): (SessionId, Option<usize>),
    job: JobId,
    is_first: bool,
) -> Option<OperationRequest> {
    let Service { server, rank_conns, .. } = service;
    let PutPairs(pairs) = &mut rank_conns.pairs;
    // Sessions that have ended leave what they have begun.
    pairs.retain(|of, _| server.peer(*of).is_some() && !(is_first && *of == session));
    let writer = server.peer(session).and_then(|(_, rank)| rank).unwrap_or(Rank(0));
    let pair = server.pair_request(session);
    let pair = pair.map(|(key, value)| (key.bytes().collect(), value.bytes().collect()));
    server.spawn_read(session);
    let (key, value): (Vec<u8>, Vec<u8>) = pair?;
    let record = block(std::iter::once(BlockRecord::Pair { writer, key: &key, value: &value }));
    let all = pairs.entry(session).or_insert_with(|| Some(Vec::new()));
    *all = all.take().filter(|all| all.len() + record.len() <= PAIRS_BYTES).map(|mut all| {
        all.extend(record);
        all
    });
    let exchange = exchange?;
    match pairs.remove(&session).flatten() {
        Some(block) => {
            request(service, (session, exchange), JobChange::PutAll { job: job.0, block })
        }
        None => {
            // The session has just been there.
            let _ = service.server.answer_change(session, exchange, ChangeAnswer::NoRoom);
            None
        }
    }
}

fn request(
    service: &Service,
    (session, exchange): (SessionId, usize),
    change: JobChange,
) -> Option<OperationRequest> {
    let (job, rank) = service.server.peer(session)?;
    let asker = Asker { session: session.0, exchange: u64::try_from(exchange).unwrap_or(u64::MAX) };
    Some(OperationRequest::Change { asker, by: (job.0, rank?.0), change })
}

/// Makes a change.
///
/// # Errors
///
/// The reason for which it is none, as a part of a sentence.
pub(crate) fn make(service: &mut Service, change: &JobChange) -> Result<ChangeAnswer, String> {
    let server = &mut service.server;
    match change {
        JobChange::Connect { one, other, is_connect } => {
            Ok(server.connect_jobs(JobId(*one), JobId(*other), *is_connect))
        }
        JobChange::PutAll { job, block } => {
            match server.add_pairs(JobId(*job), &Rc::from(block.as_slice())) {
                Ok(()) => Ok(ChangeAnswer::Done),
                Err(RemoteError::Block(BlockError::NoRoom)) => Ok(ChangeAnswer::NoRoom),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

/// Ends the connections of a job whose ranks have ended with other jobs, which have room for new ones then.
pub(crate) fn disconnect(service: &mut Service, job: JobId) {
    service.server.disconnect_job(job);
}

/// Answers the request of a rank; it may be gone.
pub(super) fn answer(service: &mut Service, asker: Asker, answer: ChangeAnswer) {
    let exchange = usize::try_from(asker.exchange).unwrap_or(usize::MAX);
    let _ = service.server.answer_change(SessionId(asker.session), exchange, answer);
}

/// Bytes of the pairs of one put, at most. A message of the tree has up to 16 MiB.
const PAIRS_BYTES: usize = 8 << 20;
