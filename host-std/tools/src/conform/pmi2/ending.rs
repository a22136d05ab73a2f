//! Finalize, abort, and ranks that exit without either.

use super::super::case::{Case, Ends, Played};
use super::super::frames::{Frames, framed};
use super::super::space::Space;
use super::super::verdict::Verdict::{AsSpecified, NoAnswer, Refused, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::frames(
        "pmi2-finalize",
        2,
        "finalize is answered, and the launcher exits with 0",
        finalize,
    ),
    Case::frames(
        "pmi2-abort",
        2,
        "abort as MPICH up to 4.0 and Slurm's client send it",
        |frames| abort(frames, b"abort;isworld=TRUE;msg=bye;"),
    )
    .ending(Ends::Badly),
    Case::frames(
        "pmi2-abort-code",
        2,
        "abort as MPICH from 4.1 sends it, with exitcode=5",
        |frames| abort(frames, b"abort;exitcode=5;message=bye bye;"),
    )
    .ending(Ends::Code(5)),
    Case::frames("pmi2-leave", 2, "a rank exits with 0 before finalize, the other waits", leave)
        .ending(Ends::Somehow),
];

fn finalize(frames: &mut Frames) -> Played {
    frames.open()?;
    let reply = frames.bye()?;
    frames.is_gone = true;
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

fn abort(frames: &mut Frames, request: &[u8]) -> Played {
    frames.open()?;
    frames.fence()?;
    if frames.rank == 1 {
        frames.talk.send(&framed(request))?;
    }
    if frames.talk.is_ended() {
        return Ok(AsSpecified.on("ended"));
    }
    // A rank that is still running now was not asked to end.
    Ok(NoAnswer.on("still running long after the abort"))
}

fn leave(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.fence()?;
    if frames.rank == 1 {
        return Ok(AsSpecified.on("left"));
    }
    let mut waited = frames.fence();
    if waited.is_ok() {
        // If the fence does not wait, the get does.
        waited = frames.get_reply("what-rank-1-put");
    }
    match waited {
        Ok(reply) if reply.is_good() && reply.field("value").is_some() => Ok(reply.judged(Wrong)),
        Ok(reply) => Ok(reply.judged(AsSpecified)),
        Err(finding) if finding.verdict == NoAnswer => {
            Ok(NoAnswer.on("the other rank waits for ever"))
        }
        Err(_) => Ok(AsSpecified.on("ended")),
    }
}
