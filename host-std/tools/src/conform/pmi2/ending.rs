//! Finalize, abort, and ranks that exit without either.

use super::super::case::{Case, CaseResult, ExpectedExit};
use super::super::rank_client::{RankClient, framed};
use super::super::shared::{abort, finalize};
use super::super::verdict::Verdict::{AsSpecified, NoAnswer, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-finalize", 2, "finalize is answered, and the launcher exits with 0", finalize),
    Case::pmi2("pmi2-abort", 2, "abort as MPICH up to 4.0 and Slurm's client send it", |client| {
        abort(client, &framed(b"abort;isworld=TRUE;msg=bye;"))
    })
    .expecting(ExpectedExit::Failure),
    Case::pmi2(
        "pmi2-abort-code",
        2,
        "abort as MPICH from 4.1 sends it, with exitcode=5",
        |client| abort(client, &framed(b"abort;exitcode=5;message=bye bye;")),
    )
    .expecting(ExpectedExit::Code(5)),
    Case::pmi2("pmi2-leave", 2, "a rank exits with 0 before finalize, the other waits", leave)
        .expecting(ExpectedExit::Unspecified),
];

fn leave(client: &mut RankClient) -> CaseResult {
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
