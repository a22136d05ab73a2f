//! Finalize, abort, and ranks that exit without either.

use super::super::case::{Case, Ends, Played};
use super::super::lines::Lines;
use super::super::player::LATE;
use super::super::space::Space;
use super::super::verdict::Verdict::{AsSpecified, NoAnswer, Refused, Wrong};
use std::time::Instant;

pub(super) const CASES: &[Case] = &[
    Case::lines(
        "pmi1-finalize",
        2,
        "finalize is answered, and the launcher exits with 0",
        finalize,
    ),
    Case::lines("pmi1-finalize-alone", 2, "finalize is answered while another rank goes on", alone),
    Case::lines("pmi1-abort", 2, "abort exitcode=37", |lines| {
        abort(lines, "cmd=abort exitcode=37\n")
    })
    .ending(Ends::Code(37)),
    Case::lines("pmi1-abort-text", 2, "abort with a text, and finalize behind it", |lines| {
        abort(lines, "cmd=abort exitcode=38 message=bye bye\ncmd=finalize\n")
    })
    .ending(Ends::Code(38)),
    Case::lines("pmi1-abort-bare", 2, "abort without a code", |lines| abort(lines, "cmd=abort\n"))
        .ending(Ends::Badly),
    Case::lines("pmi1-leave", 2, "a rank exits with 0 before finalize, the other waits", leave)
        .ending(Ends::Somehow),
];

fn finalize(lines: &mut Lines) -> Played {
    lines.open()?;
    let reply = lines.bye()?;
    lines.is_gone = true;
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

fn alone(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.fence()?;
    if lines.rank == 0 {
        std::thread::sleep(2 * LATE);
        return Ok(AsSpecified.on("goes on"));
    }
    let started = Instant::now();
    let reply = lines.bye()?;
    let is_prompt = started.elapsed() < LATE;
    lines.is_gone = true;
    Ok(if is_prompt { reply.judged(AsSpecified) } else { NoAnswer.on("before all have said it") })
}

fn abort(lines: &mut Lines, line: &str) -> Played {
    lines.open()?;
    lines.fence()?;
    if lines.rank == 1 {
        lines.talk.send(line.as_bytes())?;
    }
    if lines.talk.is_ended() {
        return Ok(AsSpecified.on("ended"));
    }
    // A rank that is still running now was not asked to end.
    Ok(NoAnswer.on("still running long after the abort"))
}

fn leave(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.fence()?;
    if lines.rank == 1 {
        return Ok(AsSpecified.on("left"));
    }
    match lines.fence() {
        // An error reply is as good as the end of the job.
        Ok(reply) if !reply.is_good() => Ok(reply.judged(AsSpecified)),
        Ok(reply) => Ok(reply.judged(Wrong)),
        Err(finding) if finding.verdict == NoAnswer => {
            Ok(NoAnswer.on("the other rank waits for ever"))
        }
        Err(_) => Ok(AsSpecified.on("ended")),
    }
}
