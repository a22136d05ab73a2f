//! Published names, spawn, and attributes of the job.

use super::super::case::{Case, CaseResult};
use super::super::codes;
use super::super::mapping;
use super::super::rank_client::{RankClient, value_of};
use super::super::raw_connection::Reply;
use super::super::verdict::Finding;
use super::super::verdict::Verdict::{self, AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi1("pmi1-mapping", 2, "PMI_process_mapping covers all ranks", process_mapping),
    Case::pmi1("pmi1-publish", 1, "publish_name", publish),
    Case::pmi1("pmi1-lookup", 2, "lookup_name of what another rank published", lookup),
    Case::pmi1("pmi1-publish-twice", 1, "publish_name of a name that exists", publish_twice),
    Case::pmi1("pmi1-unpublish", 1, "unpublish_name, then lookup_name", unpublish),
    Case::pmi1("pmi1-lookup-missing", 1, "lookup_name of nothing", lookup_missing),
    Case::pmi1("pmi1-unpublish-missing", 1, "unpublish_name of nothing", unpublish_missing),
    Case::pmi1("pmi1-spawn", 1, "spawn of one process", |client| spawn(client, 1)),
    Case::pmi1("pmi1-spawn-two", 1, "spawn of two programs with arguments and info", |client| {
        spawn(client, 2)
    }),
    Case::pmi1(
        "pmi1-spawn-codes",
        1,
        "a successful spawn reports a code for every process, or for none",
        |client| Ok(codes::judged_good(&start(client, &[("/bin/true", 2)])?, 2)),
    ),
    Case::pmi1("pmi1-spawn-one-bad", 1, "a spawn whose second program is missing", |client| {
        let reply = start(client, &[("/bin/true", 1), ("/no/such/program", 1)])?;
        Ok(codes::judged_bad(&reply, &[0], 2))
    }),
];

fn process_mapping(client: &mut RankClient) -> CaseResult {
    let reply = client.get_reply("PMI_process_mapping")?;
    match value_of(&reply)? {
        Some(value) => Ok(mapping::judged(value, client.size)),
        None => Ok(reply.judged(Refused)),
    }
}

/// Success is `rc=0`; one server sends `info=ok` alone, which MPICH takes for a failure.
fn success(reply: &Reply) -> Verdict {
    match (reply.number("rc"), reply.field("info")) {
        (Some(0), _) => AsSpecified,
        (None, Some(b"ok")) => Tolerated,
        _ => Refused,
    }
}

fn is_failure(reply: &Reply) -> bool {
    !reply.is_good() || (reply.number("rc").is_none() && reply.field("info") == Some(b"fail"))
}

fn publish(client: &mut RankClient) -> CaseResult {
    let reply =
        client.line_reply(&format!("cmd=publish_name service=s1 port={PORT}"), "publish_result")?;
    Ok(reply.judged(success(&reply)))
}

/// Publishes a name, which must succeed for the case to go on.
fn publish_first(client: &mut RankClient, service: &str, port: &str) -> Result<(), Finding> {
    let line = format!("cmd=publish_name service={service} port={port}");
    let reply = client.line_reply(&line, "publish_result")?;
    if success(&reply) == Refused { Err(reply.judged(Refused)) } else { Ok(()) }
}

fn lookup(client: &mut RankClient) -> CaseResult {
    if client.rank == 0 {
        publish_first(client, "s2", PORT)?;
    }
    client.fence()?;
    let reply = client.line_reply("cmd=lookup_name service=s2", "lookup_result")?;
    Ok(reply.judged(match reply.field("port") {
        Some(port) if port == PORT.as_bytes() => success(&reply),
        _ if is_failure(&reply) => Refused,
        _ => Wrong,
    }))
}

fn publish_twice(client: &mut RankClient) -> CaseResult {
    publish_first(client, "s3", "first")?;
    let reply = client.line_reply("cmd=publish_name service=s3 port=second", "publish_result")?;
    Ok(reply.judged(if is_failure(&reply) { AsSpecified } else { Tolerated }))
}

fn unpublish(client: &mut RankClient) -> CaseResult {
    publish_first(client, "s4", PORT)?;
    let reply = client.line_reply("cmd=unpublish_name service=s4", "unpublish_result")?;
    let verdict = success(&reply);
    let after = client.line_reply("cmd=lookup_name service=s4", "lookup_result")?;
    Ok(if is_failure(&after) { reply.judged(verdict) } else { after.judged(Wrong) })
}

fn lookup_missing(client: &mut RankClient) -> CaseResult {
    let reply = client.line_reply("cmd=lookup_name service=nosuch", "lookup_result")?;
    Ok(reply.judged(if is_failure(&reply) { AsSpecified } else { Wrong }))
}

fn unpublish_missing(client: &mut RankClient) -> CaseResult {
    let reply = client.line_reply("cmd=unpublish_name service=nosuch", "unpublish_result")?;
    Ok(reply.judged(if is_failure(&reply) { AsSpecified } else { Tolerated }))
}

fn spawn(client: &mut RankClient, programs: usize) -> CaseResult {
    let reply = start(client, &[("/bin/true", 1); 2][..programs])?;
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

/// Requests a spawn of these programs, each with its number of processes.
fn start(client: &mut RankClient, programs: &[(&str, u32)]) -> Result<Reply, Finding> {
    let mut block = String::new();
    let count = programs.len();
    for ((program, processes), number) in programs.iter().zip(1..) {
        // Form of MPICH 4.0, which every server reads.
        block.push_str(&format!(
            "mcmd=spawn\nnprocs={processes}\nexecname={program}\ntotspawns={count}\n\
             spawnssofar={number}\narg1=a b=c\nargcnt=1\npreput_num=1\n\
             preput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$\ninfo_num=1\n\
             info_key_0=wdir\ninfo_val_0=/\nendcmd\n"
        ));
    }
    client.connection.send(block.as_bytes())?;
    client.connection.recv_line()?.expect("spawn_result")
}

const PORT: &str = "tag#0$description#node0$port#1234$";
