//! The first line, then the first frame, in the forms that known clients send.

use super::super::case::{Case, Played};
use super::super::frames::Frames;
use super::super::space::Space;
use super::super::talk::Reply;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::frames("pmi2-init", 1, "the init line", init),
    Case::frames("pmi2-fullinit", 2, "fullinit as Slurm's client sends it", |frames| {
        let job = std::env::var("PMI_JOBID").unwrap_or_else(|_| "x".to_owned());
        fullinit(frames, &format!("pmijobid={job};"), "threaded=FALSE;")
    }),
    Case::frames("pmi2-fullinit-threaded", 2, "fullinit as MPICH up to 4.0 sends it", |frames| {
        fullinit(frames, "", "threaded=TRUE;")
    }),
    Case::frames(
        "pmi2-fullinit-short",
        2,
        "fullinit as MPICH from 4.1 sends it: pmirank only",
        |frames| fullinit(frames, "", ""),
    ),
    Case::frames("pmi2-before-fullinit", 1, "job-getid before fullinit", before),
    Case::frames("pmi2-getid", 2, "job-getid is the same in all ranks", getid),
];

fn init(frames: &mut Frames) -> Played {
    let reply = frames.init()?;
    let is_two = reply.number("pmi_version") == Some(2);
    let finding = reply.judged(if is_two { AsSpecified } else { Tolerated });
    frames.ask(&format!("fullinit;pmijobid=x;pmirank={};threaded=FALSE;", frames.rank))?;
    Ok(finding)
}

fn fullinit(frames: &mut Frames, before: &str, behind: &str) -> Played {
    frames.init()?;
    let request = format!("fullinit;{before}pmirank={};{behind}", frames.rank);
    let reply = frames.ask(&request)?;
    Ok(answered(frames, &reply))
}

fn answered(frames: &Frames, reply: &Reply) -> super::super::verdict::Finding {
    let who = (reply.number("rank"), reply.number("size"));
    let is_me = who == (Some(frames.rank.into()), Some(frames.size.into()));
    // Clients up to MPICH 4.0 and Slurm's fail without the versions and `rc`, and read only these
    // two words as truth values.
    let truth = |name| matches!(reply.field(name), None | Some(b"TRUE" | b"FALSE"));
    let suits_old = reply.number("rc").is_some()
        && reply.number("pmi-version").is_some()
        && reply.number("pmi-subversion").is_some()
        && truth("debugged")
        && truth("pmiverbose");
    reply.judged(match (reply.is_good(), is_me && reply.number("appnum").is_some()) {
        (false, _) => Refused,
        (true, false) => Wrong,
        (true, true) if suits_old => AsSpecified,
        (true, true) => Tolerated,
    })
}

fn before(frames: &mut Frames) -> Played {
    frames.init()?;
    // An answer or a refusal; the documents do not specify which.
    let finding = frames.ask("job-getid;")?.judged(AsSpecified);
    frames.ask(&format!("fullinit;pmijobid=x;pmirank={};threaded=FALSE;", frames.rank))?;
    Ok(finding)
}

fn getid(frames: &mut Frames) -> Played {
    frames.open()?;
    let own = frames.job.clone();
    frames.exchange("job", |_| own.clone())?;
    Ok(AsSpecified.on("one id for all"))
}
