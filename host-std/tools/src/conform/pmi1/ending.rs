//! Finalize, abort, and ranks that exit without either.

use super::super::case::{Case, CaseResult, ExpectedExit};
use super::super::player::LATE;
use super::super::rank_client::RankClient;
use super::super::shared::{abort, finalize};
use super::super::verdict::Verdict::{AsSpecified, NoAnswer, Wrong};
use std::time::Instant;

pub(super) const CASES: &[Case] = &[
    Case::pmi1("pmi1-finalize", 2, "finalize is answered, and the launcher exits with 0", finalize),
    Case::pmi1(
        "pmi1-finalize-alone",
        2,
        "finalize is answered while another rank continues",
        alone,
    ),
    Case::pmi1("pmi1-abort", 2, "abort exitcode=37", |client| {
        abort(client, b"cmd=abort exitcode=37\n")
    })
    .expecting(ExpectedExit::Code(37)),
    Case::pmi1("pmi1-abort-text", 2, "abort with a text, and finalize behind it", |client| {
        abort(client, b"cmd=abort exitcode=38 message=bye bye\ncmd=finalize\n")
    })
    .expecting(ExpectedExit::Code(38)),
    Case::pmi1("pmi1-abort-bare", 2, "abort without a code", |client| {
        abort(client, b"cmd=abort\n")
    })
    .expecting(ExpectedExit::Failure),
    Case::pmi1("pmi1-leave", 2, "a rank exits with 0 before finalize, the other waits", leave)
        .expecting(ExpectedExit::Unspecified),
];

fn alone(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    if client.rank == 0 {
        std::thread::sleep(2 * LATE);
        return Ok(AsSpecified.on("continues"));
    }
    let started = Instant::now();
    let reply = client.finalize()?;
    let is_prompt = started.elapsed() < LATE;
    client.has_finalized = true;
    Ok(if is_prompt {
        reply.judged(AsSpecified)
    } else {
        NoAnswer.on("before all ranks have sent it")
    })
}

fn leave(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    if client.rank == 1 {
        return Ok(AsSpecified.on("left"));
    }
    match client.fence() {
        // An error reply is as good as the end of the job.
        Ok(reply) if !reply.is_good() => Ok(reply.judged(AsSpecified)),
        Ok(reply) => Ok(reply.judged(Wrong)),
        Err(finding) if finding.verdict == NoAnswer => {
            Ok(NoAnswer.on("the other rank waits indefinitely"))
        }
        Err(_) => Ok(AsSpecified.on("ended")),
    }
}
