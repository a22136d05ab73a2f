//! Published names, spawn, connected jobs, the ring.

use super::super::case::{Case, CaseResult};
use super::super::codes;
use super::super::rank_client::RankClient;
use super::super::raw_connection::Reply;
use super::super::verdict::Finding;
use super::super::verdict::Verdict::{self, AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-publish", 1, "name-publish", publish),
    Case::pmi2("pmi2-lookup", 2, "name-lookup of what another rank published", lookup),
    Case::pmi2("pmi2-publish-twice", 1, "name-publish of a name that exists", publish_twice),
    Case::pmi2("pmi2-unpublish", 1, "name-unpublish, then name-lookup", unpublish),
    Case::pmi2("pmi2-lookup-missing", 1, "name-lookup of nothing", lookup_missing),
    Case::pmi2("pmi2-spawn", 1, "spawn of one process", |client| spawn(client, 1)),
    Case::pmi2("pmi2-spawn-two", 1, "spawn of two programs with arguments and info", |client| {
        spawn(client, 2)
    }),
    Case::pmi2(
        "pmi2-spawn-codes",
        1,
        "a successful spawn reports a code for every process, or for none",
        |client| Ok(codes::judged_good(&start(client, &[("/bin/true", 2)])?, 2)),
    ),
    Case::pmi2("pmi2-spawn-one-bad", 1, "a spawn whose second program is missing", |client| {
        let reply = start(client, &[("/bin/true", 1), ("/no/such/program", 1)])?;
        Ok(codes::judged_bad(&reply, &[0], 2))
    }),
    Case::pmi2("pmi2-connect", 1, "job-connect to a job that is none", |client| {
        refused(client, "job-connect;jobid=nosuchjob;")
    }),
    Case::pmi2("pmi2-disconnect", 1, "job-disconnect from a job that is none", |client| {
        refused(client, "job-disconnect;jobid=nosuchjob;")
    }),
    Case::pmi2("pmi2-ring", 3, "ring, Slurm's extension", ring),
    Case::pmi2("pmi2-getall", 1, "kvs-getall, which is in the document only", getall),
];

fn publish(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("name-publish;name=s1;port=p#1$;infokeycount=0;")?;
    Ok(reply.judged(success(&reply)))
}

fn success(reply: &Reply) -> Verdict {
    if reply.is_good() { AsSpecified } else { Refused }
}

fn lookup(client: &mut RankClient) -> CaseResult {
    if client.rank == 0 {
        let reply = client.frame_reply("name-publish;name=s2;port=p#2$;infokeycount=0;")?;
        if !reply.is_good() {
            return Err(reply.judged(Refused));
        }
    }
    client.fence()?;
    // If a fence does not wait, the name may not be there yet; a get of a key that was put before the
    // fence does wait.
    if client.rank == 0 {
        client.must_put("published", b"1")?;
    }
    client.fence()?;
    client.get("published")?;
    let reply = client.frame_reply("name-lookup;name=s2;infokeycount=0;")?;
    let fields = (reply.field("port"), reply.field("value"));
    Ok(reply.judged(match fields {
        _ if !reply.is_good() => Refused,
        // Some clients read one of the two fields, and some the other.
        (Some(b"p#2$"), Some(b"p#2$")) => AsSpecified,
        (Some(b"p#2$"), None) | (None, Some(b"p#2$")) => Tolerated,
        _ => Wrong,
    }))
}

fn publish_twice(client: &mut RankClient) -> CaseResult {
    client.frame_reply("name-publish;name=s3;port=first;infokeycount=0;")?;
    let reply = client.frame_reply("name-publish;name=s3;port=second;infokeycount=0;")?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

fn unpublish(client: &mut RankClient) -> CaseResult {
    client.frame_reply("name-publish;name=s4;port=p#4$;infokeycount=0;")?;
    let reply = client.frame_reply("name-unpublish;name=s4;infokeycount=0;")?;
    let after = client.frame_reply("name-lookup;name=s4;infokeycount=0;")?;
    Ok(if after.is_good() { after.judged(Wrong) } else { reply.judged(success(&reply)) })
}

fn lookup_missing(client: &mut RankClient) -> CaseResult {
    let reply = client.frame_reply("name-lookup;name=nosuch;infokeycount=0;")?;
    Ok(reply.judged(if reply.is_good() { Wrong } else { AsSpecified }))
}

/// Requests a spawn of these programs, each with its number of processes.
fn start(client: &mut RankClient, programs: &[(&str, u32)]) -> Result<Reply, Finding> {
    let count = programs.len();
    let mut request =
        format!("spawn;ncmds={count};preputcount=1;ppkey0=PARENT_ROOT_PORT_NAME;ppval0=tag#0$;");
    for (program, processes) in programs {
        request.push_str(&format!(
            "subcmd={program};maxprocs={processes};argc=1;argv0=a b=c;infokeycount=1;\
             infokey0=wdir;infoval0=/;"
        ));
    }
    client.frame_reply(&request)
}

fn spawn(client: &mut RankClient, programs: usize) -> CaseResult {
    let reply = start(client, &[("/bin/true", 1); 2][..programs])?;
    Ok(reply.judged(match (reply.is_good(), reply.field("jobid")) {
        (false, _) => Refused,
        (true, Some(job)) if !job.is_empty() => AsSpecified,
        // Clients take a missing id for a failure of the whole call.
        (true, _) => Tolerated,
    }))
}

fn refused(client: &mut RankClient, request: &str) -> CaseResult {
    let reply = client.frame_reply(request)?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

fn ring(client: &mut RankClient) -> CaseResult {
    let RankClient { rank, size, .. } = *client;
    let reply =
        client.frame_reply(&format!("ring;ring-count=1;ring-left=l{rank};ring-right=r{rank};"))?;
    let left = format!("r{}", (rank + size - 1) % size);
    let right = format!("l{}", (rank + 1) % size);
    let is_right = reply.text("ring-left") == Some(left) && reply.text("ring-right") == Some(right);
    Ok(reply.judged(match (reply.is_good(), is_right) {
        (false, _) => Refused,
        (true, true) if reply.number("ring-count") == Some(rank.into()) => AsSpecified,
        (true, true) => Tolerated,
        (true, false) => Wrong,
    }))
}

fn getall(client: &mut RankClient) -> CaseResult {
    client.must_put("k", b"v")?;
    client.fence()?;
    let request = format!("cmd=kvs-getall;jobid={};", client.space);
    let frame = format!("{:6}{request}", request.len());
    client.connection.send(frame.as_bytes())?;
    let first = client.connection.recv_frame()?;
    let Some(count) = first.number("npair") else {
        return Ok(first.judged(if first.is_good() { Wrong } else { Refused }));
    };
    let mut is_there = false;
    for _ in 0..count {
        let pair = client.connection.recv_frame()?.expect("kvs-getall-pair-response")?;
        is_there |= pair.field("key") == Some(b"k") && pair.field("val") == Some(b"v");
    }
    let last = client.connection.recv_frame()?.expect("kvs-getall-response")?;
    Ok(if is_there {
        last.judged(success(&last))
    } else {
        Wrong.on(format!("{count} pairs without k"))
    })
}
