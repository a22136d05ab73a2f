//! Node attributes, which the ranks of a node exchange, and job attributes, which the launcher sets.

use super::super::case::{Case, CaseResult};
use super::super::mapping;
use super::super::player::LATE;
use super::super::rank_client::{RankClient, found, framed};
use super::super::raw_connection::Reply;
use super::super::verdict::Verdict::{self, AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-node-attr", 1, "putnodeattr, then getnodeattr", node_attr),
    Case::pmi2("pmi2-node-attr-missing", 1, "getnodeattr of nothing, without wait", |client| {
        missing(client, "info-getnodeattr;key=nosuch;wait=FALSE;")
    }),
    Case::pmi2("pmi2-node-attr-wait", 2, "getnodeattr waits until another rank puts", wait),
    Case::pmi2("pmi2-node-attr-twice", 1, "the same attribute twice: the last holds", twice),
    Case::pmi2(
        "pmi2-mapping",
        2,
        "getjobattr PMI_process_mapping covers all ranks",
        process_mapping,
    ),
    Case::pmi2("pmi2-universe", 2, "getjobattr universeSize", universe),
    Case::pmi2("pmi2-has-names", 1, "getjobattr hasNameServ", has_names),
    Case::pmi2("pmi2-job-attr-missing", 1, "getjobattr of nothing", |client| {
        missing(client, "info-getjobattr;key=nosuch;")
    }),
];

fn node_attr(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("info-putnodeattr;key=a;value=1;")?;
    if !reply.is_good() {
        return Ok(reply.judged(Refused));
    }
    let reply = client.frame_reply("info-getnodeattr;key=a;wait=FALSE;")?;
    Ok(reply.judged(if found(&reply)? == Some(b"1") { AsSpecified } else { Wrong }))
}

/// Verdict on an answer without a value: `rc=0` and `found=FALSE`. A bare `rc=1` is an error to older
/// clients.
fn nothing(reply: &Reply) -> Verdict {
    match (reply.is_good(), reply.field("found")) {
        (true, Some(b"FALSE")) => AsSpecified,
        (true, _) => Wrong,
        (false, _) => Tolerated,
    }
}

fn missing(client: &mut RankClient, request: &str) -> CaseResult {
    let reply = client.frame_reply(request)?;
    Ok(reply.judged(nothing(&reply)))
}

fn wait(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    if client.rank == 1 {
        std::thread::sleep(LATE);
        let reply = client.frame_reply("info-putnodeattr;key=later;value=v;")?;
        return Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }));
    }
    client.connection.send(&framed(b"info-getnodeattr;key=later;wait=TRUE;"))?;
    let reply = client.recv(b"info-getnodeattr;")?;
    Ok(reply.judged(if found(&reply)? == Some(b"v") { AsSpecified } else { Wrong }))
}

fn twice(client: &mut RankClient) -> CaseResult {
    client.frame_reply("info-putnodeattr;key=a;value=1;")?;
    let second = client.frame_reply("info-putnodeattr;key=a;value=2;")?;
    let reply = client.frame_reply("info-getnodeattr;key=a;wait=FALSE;")?;
    Ok(match (found(&reply)?, second.is_good()) {
        (Some(b"2"), true) => reply.judged(AsSpecified),
        (Some(b"1"), true) => Tolerated.on("the first holds"),
        (Some(b"1"), false) => second.judged(Refused),
        _ => reply.judged(Wrong),
    })
}

fn process_mapping(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("info-getjobattr;key=PMI_process_mapping;")?;
    match found(&reply)? {
        Some(value) => Ok(mapping::judged(value, client.size)),
        None => Ok(reply.judged(Refused)),
    }
}

fn universe(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("info-getjobattr;key=universeSize;")?;
    let Some(value) = found(&reply)? else {
        return Ok(reply.judged(nothing(&reply).max(Tolerated)));
    };
    let size: Option<i64> = String::from_utf8_lossy(value).parse().ok();
    Ok(reply.judged(match size {
        Some(size) if size == -1 || size >= i64::from(client.size) => AsSpecified,
        _ => Wrong,
    }))
}

fn has_names(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("info-getjobattr;key=hasNameServ;")?;
    Ok(reply.judged(match found(&reply)? {
        Some(b"TRUE" | b"FALSE") => AsSpecified,
        Some(_) => Wrong,
        None => nothing(&reply).max(Tolerated),
    }))
}
