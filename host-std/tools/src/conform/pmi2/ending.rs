//! Finalize, abort, and ranks that exit without either.

use super::super::case::{Case, CaseResult, ExpectedExit};
use super::super::kvs_client::KvsClient;
use super::super::pmi2_client::{Pmi2Client, framed};
use super::super::verdict::Verdict::{AsSpecified, NoAnswer, Refused, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-finalize", 2, "finalize is answered, and the launcher exits with 0", finalize),
    Case::pmi2("pmi2-abort", 2, "abort as MPICH up to 4.0 and Slurm's client send it", |client| {
        abort(client, b"abort;isworld=TRUE;msg=bye;")
    })
    .expecting(ExpectedExit::Failure),
    Case::pmi2(
        "pmi2-abort-code",
        2,
        "abort as MPICH from 4.1 sends it, with exitcode=5",
        |client| abort(client, b"abort;exitcode=5;message=bye bye;"),
    )
    .expecting(ExpectedExit::Code(5)),
    Case::pmi2("pmi2-leave", 2, "a rank exits with 0 before finalize, the other waits", leave)
        .expecting(ExpectedExit::Unspecified),
];

fn finalize(client: &mut Pmi2Client) -> CaseResult {
    client.open()?;
    let reply = client.finalize()?;
    client.has_finalized = true;
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

fn abort(client: &mut Pmi2Client, request: &[u8]) -> CaseResult {
    client.open()?;
    client.fence()?;
    if client.rank == 1 {
        client.connection.send(&framed(request))?;
    }
    if client.connection.wait_for_termination() {
        return Ok(AsSpecified.on("ended"));
    }
    // A rank that is still running now was not asked to end.
    Ok(NoAnswer.on("still running long after the abort"))
}

fn leave(client: &mut Pmi2Client) -> CaseResult {
    client.open()?;
    client.fence()?;
    if client.rank == 1 {
        return Ok(AsSpecified.on("left"));
    }
    let mut waited = client.fence();
    if waited.is_ok() {
        // If the fence does not wait, the get does.
        waited = client.get_reply("what-rank-1-put");
    }
    match waited {
        Ok(reply) if reply.is_good() && reply.field("value").is_some() => Ok(reply.judged(Wrong)),
        Ok(reply) => Ok(reply.judged(AsSpecified)),
        Err(finding) if finding.verdict == NoAnswer => {
            Ok(NoAnswer.on("the other rank waits indefinitely"))
        }
        Err(_) => Ok(AsSpecified.on("ended")),
    }
}
