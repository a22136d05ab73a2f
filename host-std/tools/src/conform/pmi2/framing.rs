//! Frames with unusual lengths, ends and thread ids, in pieces and in batches.

use super::super::case::{Case, Ends, Played};
use super::super::frames::{Frames, framed};
use super::super::player::LATE;
use super::super::space::Space;
use super::super::talk::Reply;
use super::super::verdict::Verdict::{self, AsSpecified, Refused, Tolerated, Wrong};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::frames("pmi2-length-left", 1, "a length aligned to the left", |frames| {
        getid(frames, b"14    cmd=job-getid;", "")
    }),
    Case::frames("pmi2-length-zeros", 1, "a length with zeros in front", |frames| {
        getid(frames, b"000014cmd=job-getid;", "")
    }),
    Case::frames(
        "pmi2-stray",
        1,
        "six stray bytes behind the last ;, as MPICH 3.3 to 4.0 sends",
        |frames| getid(frames, b"20    cmd=job-getid;\0\0\0\0\0\0", ""),
    ),
    Case::frames("pmi2-stray-pairs", 1, "stray bytes that look like a field", |frames| {
        getid(frames, b"20    cmd=job-getid;k=zz;x", "")
    }),
    Case::frames("pmi2-no-last", 1, "no ; at the end", no_last).ending(Ends::Any),
    Case::frames("pmi2-thrid", 1, "thrid is given back as it came", |frames| {
        getid(frames, b"    35cmd=job-getid;thrid=0x7ffe994a9a30;", "0x7ffe994a9a30")
    }),
    Case::frames("pmi2-thrid-last", 1, "thrid as the last field", thrid_last),
    Case::frames("pmi2-cut", 1, "a frame in three pieces", cut),
    Case::frames("pmi2-several", 1, "three frames in one segment", several),
    Case::frames("pmi2-in-flight", 2, "a waiting get does not hold up other requests", in_flight),
    Case::frames("pmi2-line-inside", 1, "a line of PMI-1 between frames", line_inside),
    Case::frames("pmi2-unknown", 1, "a command that nobody knows", unknown),
];

/// Sends an unusual frame that requests the job id, and checks `thrid` in the answer.
fn getid(frames: &mut Frames, frame: &[u8], thrid: &str) -> Played {
    frames.open()?;
    frames.talk.send(frame)?;
    let reply = frames.hear(b"job-getid;")?;
    Ok(reply.judged(judged(&reply, thrid)))
}

fn no_last(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.talk.send(b"    13cmd=job-getid")?;
    let reply = frames.talk.frame()?;
    // No client sends it, so all that matters is that an answer arrives.
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

fn judged(reply: &Reply, thrid: &str) -> Verdict {
    match (reply.is_good(), reply.text("thrid")) {
        (false, _) => Refused,
        (true, _) if reply.body().last() != Some(&b';') => Wrong,
        (true, None) if thrid.is_empty() => AsSpecified,
        (true, Some(given)) if given == thrid => AsSpecified,
        // Clients match it to their only pending request.
        (true, None) => Tolerated,
        (true, Some(_)) => Wrong,
    }
}

fn thrid_last(frames: &mut Frames) -> Played {
    frames.open()?;
    let reply = frames.ask("kvs-put;key=a;value=b;thrid=5;")?;
    Ok(reply.judged(judged(&reply, "5")))
}

fn cut(frames: &mut Frames) -> Played {
    frames.open()?;
    for piece in [&b"   "[..], b" 14cmd=job"] {
        frames.talk.send(piece)?;
        std::thread::sleep(Duration::from_millis(60));
    }
    frames.talk.send(b"-getid;")?;
    Ok(frames.hear(b"job-getid;")?.judged(AsSpecified))
}

fn several(frames: &mut Frames) -> Played {
    frames.open()?;
    let requests = [
        "job-getid;thrid=1;",
        "info-getjobattr;thrid=2;key=nosuch;",
        "info-getnodeattr;thrid=3;key=nosuch;",
    ];
    let heap: Vec<u8> = requests.iter().flat_map(|request| framed(request.as_bytes())).collect();
    frames.talk.send(&heap)?;
    let mut order = Vec::new();
    for _ in requests {
        let reply = frames.talk.frame()?;
        let cmd = reply.text("cmd").unwrap_or_default();
        let answers = |request: &&str| request.split(';').next() == cmd.strip_suffix("-response");
        let Some(at) = requests.iter().position(answers) else {
            return Ok(reply.judged(Wrong));
        };
        order.push((at, reply.field("thrid").is_some()));
    }
    let in_order = order.windows(2).all(|pair| pair[0].0 < pair[1].0);
    Ok(match (in_order, order.iter().all(|(_, is_named)| *is_named)) {
        (true, _) => AsSpecified.on("three answers"),
        // Thread ids exist for this case.
        (false, true) => AsSpecified.on("three answers, in another order and with their names"),
        (false, false) => Wrong.on("three answers in another order, and without names"),
    })
}

fn in_flight(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.fence()?;
    if frames.rank == 1 {
        frames.fence()?;
        // If the fence did not wait, the put would come too early.
        std::thread::sleep(LATE);
        let reply = frames.ask("info-putnodeattr;key=later;value=v;")?;
        return Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }));
    }
    frames.talk.send(&framed(b"info-getnodeattr;thrid=1;key=later;wait=TRUE;"))?;
    frames.talk.send(&framed(b"job-getid;thrid=2;"))?;
    let other = frames.hear(b"job-getid;")?;
    frames.talk.send(&framed(b"kvs-fence;thrid=3;"))?;
    let first = frames.talk.frame()?;
    let second = frames.talk.frame()?;
    let is_put = |reply: &Reply| reply.field("value") == Some(b"v");
    Ok(match (judged(&other, "2"), is_put(&first) || is_put(&second)) {
        (verdict, true) => verdict.on("answered while a get waits"),
        (_, false) => second.judged(Wrong),
    })
}

fn line_inside(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.talk.send(b"cmd=get_maxes\n")?;
    let reply = frames.talk.line()?.expect("maxes")?;
    Ok(reply.judged(AsSpecified))
}

fn unknown(frames: &mut Frames) -> Played {
    frames.open()?;
    let reply = frames.ask("frobnicate;a=b;")?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}
