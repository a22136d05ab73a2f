//! Frames with unusual lengths, ends and thread ids, in pieces and in batches.

use super::super::case::{Case, CaseResult, ExpectedExit};
use super::super::player::LATE;
use super::super::rank_client::{RankClient, framed};
use super::super::raw_connection::Reply;
use super::super::verdict::Verdict::{self, AsSpecified, Refused, Tolerated, Wrong};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-length-left", 1, "a length aligned to the left", |client| {
        getid(client, b"14    cmd=job-getid;", "")
    }),
    Case::pmi2("pmi2-length-zeros", 1, "a length with zeros in front", |client| {
        getid(client, b"000014cmd=job-getid;", "")
    }),
    Case::pmi2(
        "pmi2-stray",
        1,
        "six stray bytes behind the last ;, as MPICH 3.3 to 4.0 sends",
        |client| getid(client, b"20    cmd=job-getid;\0\0\0\0\0\0", ""),
    ),
    Case::pmi2("pmi2-stray-pairs", 1, "stray bytes that look like a field", |client| {
        getid(client, b"20    cmd=job-getid;k=zz;x", "")
    }),
    Case::pmi2("pmi2-no-last", 1, "no ; at the end", no_last).expecting(ExpectedExit::Any),
    Case::pmi2("pmi2-thrid", 1, "thrid is returned unchanged", |client| {
        getid(client, b"    35cmd=job-getid;thrid=0x7ffe994a9a30;", "0x7ffe994a9a30")
    }),
    Case::pmi2("pmi2-thrid-last", 1, "thrid as the last field", thrid_last),
    Case::pmi2("pmi2-cut", 1, "a frame in three pieces", cut),
    Case::pmi2("pmi2-several", 1, "three frames in one segment", several),
    Case::pmi2("pmi2-in-flight", 2, "a waiting get does not hold up other requests", in_flight),
    Case::pmi2("pmi2-line-inside", 1, "a line of PMI-1 between frames", line_inside),
    Case::pmi2("pmi2-unknown", 1, "an unknown command", unknown),
];

/// Sends an unusual frame that requests the job id, and checks `thrid` in the answer.
fn getid(client: &mut RankClient, frame: &[u8], thrid: &str) -> CaseResult {
    client.connection.send(frame)?;
    let reply = client.recv(b"job-getid;")?;
    Ok(reply.judged(judged(&reply, thrid)))
}

fn no_last(client: &mut RankClient) -> CaseResult {
    client.connection.send(b"    13cmd=job-getid")?;
    let reply = client.connection.recv_frame()?;
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

fn thrid_last(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("kvs-put;key=a;value=b;thrid=5;")?;
    Ok(reply.judged(judged(&reply, "5")))
}

fn cut(client: &mut RankClient) -> CaseResult {
    for piece in [&b"   "[..], b" 14cmd=job"] {
        client.connection.send(piece)?;
        std::thread::sleep(Duration::from_millis(60));
    }
    client.connection.send(b"-getid;")?;
    Ok(client.recv(b"job-getid;")?.judged(AsSpecified))
}

fn several(client: &mut RankClient) -> CaseResult {
    let requests = [
        "job-getid;thrid=1;",
        "info-getjobattr;thrid=2;key=nosuch;",
        "info-getnodeattr;thrid=3;key=nosuch;",
    ];
    let heap: Vec<u8> = requests.iter().flat_map(|request| framed(request.as_bytes())).collect();
    client.connection.send(&heap)?;
    let mut order = Vec::new();
    for _ in requests {
        let reply = client.connection.recv_frame()?;
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

fn in_flight(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    if client.rank == 1 {
        client.fence()?;
        // If the fence did not wait, the put would come too early.
        std::thread::sleep(LATE);
        let reply = client.frame_reply("info-putnodeattr;key=later;value=v;")?;
        return Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }));
    }
    client.connection.send(&framed(b"info-getnodeattr;thrid=1;key=later;wait=TRUE;"))?;
    client.connection.send(&framed(b"job-getid;thrid=2;"))?;
    let other = client.recv(b"job-getid;")?;
    client.connection.send(&framed(b"kvs-fence;thrid=3;"))?;
    let first = client.connection.recv_frame()?;
    let second = client.connection.recv_frame()?;
    let is_put = |reply: &Reply| reply.field("value") == Some(b"v");
    Ok(match (judged(&other, "2"), is_put(&first) || is_put(&second)) {
        (verdict, true) => verdict.on("answered while a get waits"),
        (_, false) => second.judged(Wrong),
    })
}

fn line_inside(client: &mut RankClient) -> CaseResult {
    client.connection.send(b"cmd=get_maxes\n")?;
    let reply = client.connection.recv_line()?.expect("maxes")?;
    Ok(reply.judged(AsSpecified))
}

fn unknown(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("frobnicate;a=b;")?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}
