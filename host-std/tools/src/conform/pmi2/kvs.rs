//! Keys and values.

use super::super::case::{Case, CaseResult};
use super::super::player::{LATE, micros};
use super::super::rank_client::{RankClient, found};
use super::super::shared::{again, own_early, put_get, put_twice, round_trips};
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-put-get", 2, "put, fence, get of the key of every rank", put_get),
    Case::pmi2("pmi2-fence", 3, "a fence waits for all, or the gets behind it do", fence),
    Case::pmi2("pmi2-fence-again", 2, "twenty fences in a row", again),
    Case::pmi2("pmi2-own-early", 1, "get of an own key before the fence", own_early),
    Case::pmi2("pmi2-missing", 1, "get of a key that no rank put", missing),
    Case::pmi2("pmi2-missing-early", 1, "the same before any fence", missing_now),
    Case::pmi2("pmi2-put-twice", 1, "the same key twice: the last holds", put_twice),
    Case::pmi2("pmi2-no-jobid", 1, "get without jobid and srcid", no_jobid),
    Case::pmi2("pmi2-other-job", 1, "get from a job that is none", other_job),
    Case::pmi2("pmi2-empty-value", 1, "put of an empty value", |client| round_trips(client, b"")),
    Case::pmi2("pmi2-value-signs", 1, "a value with = and all kinds of signs", |client| {
        round_trips(client, b"a=b=,:(w)[0]{}<>\"q\"'#$%&*+-./?@^_`~!")
    }),
    Case::pmi2("pmi2-value-blanks", 1, "a value with blanks, a tab and a line feed", |client| {
        round_trips(client, b"a b\tc\nd")
    }),
    Case::pmi2("pmi2-value-utf8", 1, "a value in UTF-8", |client| {
        round_trips(client, "h\u{e9}llo-\u{4e16}".as_bytes())
    }),
    Case::pmi2("pmi2-value-bytes", 1, "a value with bytes that are no UTF-8", |client| {
        round_trips(client, b"\x80\xc3\xff\x01")
    }),
    Case::pmi2("pmi2-value-semicolon", 1, "a value with ; written as ;;", semicolon),
    Case::pmi2("pmi2-key-63", 1, "the longest key that C can hold", |client| key(client, 63)),
    Case::pmi2("pmi2-key-64", 1, "a key one byte over", |client| key(client, 64)),
    Case::pmi2("pmi2-value-1023", 1, "the longest value that C can hold", |client| {
        value(client, 1023)
    }),
    Case::pmi2("pmi2-value-1024", 1, "a value one byte over", |client| value(client, 1024)),
    Case::pmi2("pmi2-value-2000", 1, "a value of 2000 bytes", |client| value(client, 2000)),
];

fn fence(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    if client.rank == 0 {
        std::thread::sleep(LATE);
    }
    client.must_put(&format!("entered-{}", client.rank), micros().to_string().as_bytes())?;
    client.fence()?;
    let left = micros();
    let mut has_waited = true;
    for other in 0..client.size {
        let found = client.get(&format!("entered-{other}"))?.unwrap_or_default();
        match String::from_utf8_lossy(&found).parse::<u128>() {
            Ok(entered) => has_waited &= entered <= left,
            Err(_) => return Ok(Wrong.on(format!("what rank {other} put is not there"))),
        }
    }
    // Hydra answers at once and lets the gets wait: a program that puts, fences and gets sees no
    // difference, but one that uses the fence as a barrier does.
    Ok(if has_waited {
        AsSpecified.on("all waited for rank 0")
    } else {
        Tolerated.on("the fence ends at once, and the gets wait")
    })
}

fn missing(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    missing_now(client)
}

fn missing_now(client: &mut RankClient) -> CaseResult {
    let reply = client.get_reply("nosuchkey")?;
    Ok(match found(&reply)? {
        Some(_) => reply.judged(Wrong),
        None if reply.field("found").is_some() => reply.judged(AsSpecified),
        // A return code alone is an error to older clients.
        None => reply.judged(Tolerated),
    })
}

fn no_jobid(client: &mut RankClient) -> CaseResult {
    client.must_put("k", b"v")?;
    client.fence()?;
    let reply = client.frame_reply("kvs-get;key=k;")?;
    Ok(reply.judged(match found(&reply)? {
        Some(b"v") => AsSpecified,
        _ => Wrong,
    }))
}

fn other_job(client: &mut RankClient) -> CaseResult {
    client.must_put("k", b"v")?;
    client.fence()?;
    let reply = client.frame_reply("kvs-get;jobid=nosuchjob;srcid=-1;key=k;")?;
    Ok(match found(&reply)? {
        None => reply.judged(AsSpecified),
        Some(_) => Tolerated.on("found: jobid is ignored"),
    })
}

fn semicolon(client: &mut RankClient) -> CaseResult {
    // The clients that double it align their lengths to the left.
    let put = "cmd=kvs-put;key=key;value=a;;b;";
    client.connection.send(format!("{:<6}{put}", put.len()).as_bytes())?;
    let reply = client.recv(b"kvs-put;")?;
    if !reply.is_good() {
        return Ok(reply.judged(Refused));
    }
    client.fence()?;
    let get = format!("cmd=kvs-get;jobid={};srcid=-1;key=key;", client.space);
    client.connection.send(format!("{:<6}{get}", get.len()).as_bytes())?;
    let reply = client.recv(b"kvs-get;")?;
    Ok(match reply.rest("value") {
        Some(rest) if rest.starts_with(b"a;;b;") => AsSpecified.on("is returned as a;;b"),
        Some(rest) if rest.starts_with(b"a;b;") => Tolerated.on("is returned as a;b, not doubled"),
        Some(rest) if rest.starts_with(b"a;") => Tolerated.on("cut at the ;"),
        _ => reply.judged(Wrong),
    })
}

fn key(client: &mut RankClient, len: usize) -> CaseResult {
    let round_trip = client.round_trip(&"k".repeat(len), b"v")?;
    if len > 63 { round_trip.judged_over(AsSpecified) } else { round_trip.judged() }
}

fn value(client: &mut RankClient, len: usize) -> CaseResult {
    let round_trip = client.round_trip("key", &b"v".repeat(len))?;
    match len {
        ..=1023 => round_trip.judged(),
        1024 => round_trip.judged_over(AsSpecified),
        _ => round_trip.judged_over(Tolerated),
    }
}
