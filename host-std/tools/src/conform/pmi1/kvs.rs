//! Keys and values.

use super::super::case::{Case, CaseResult};
use super::super::rank_client::{RankClient, RoundTrip, value_of};
use super::super::raw_connection::Reply;
use super::super::shared::{own_early, put_get, put_twice, round_trips};
use super::super::verdict::Finding;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi1("pmi1-put-get", 2, "put, barrier, get of the key of every rank", put_get),
    Case::pmi1("pmi1-own-early", 1, "get of an own key before the barrier", own_early),
    Case::pmi1("pmi1-others-early", 2, "get of another's key before the barrier", others_early),
    Case::pmi1("pmi1-missing", 1, "get of a key that no rank put", missing),
    Case::pmi1("pmi1-put-twice", 1, "the same key twice: the last holds", put_twice),
    Case::pmi1("pmi1-empty-value", 1, "put of an empty value", empty_value),
    Case::pmi1("pmi1-value-signs", 1, "a value with = and all kinds of signs", |client| {
        round_trips(client, b"a=b=,;:(w)[0]{}<>\"q\"'#$%&*+-./?@^_`~!")
    }),
    Case::pmi1("pmi1-value-utf8", 1, "a value in UTF-8", |client| {
        round_trips(client, "h\u{e9}llo-\u{4e16}".as_bytes())
    }),
    Case::pmi1("pmi1-value-bytes", 1, "a value with bytes that are no UTF-8", |client| {
        round_trips(client, b"\x80\xc3\xff\x01")
    }),
    Case::pmi1("pmi1-value-backslash", 1, "a value with backslashes", |client| {
        round_trips(client, br"a\b\\c\n")
    }),
    Case::pmi1("pmi1-value-blank", 1, "a value with a blank", blank),
    Case::pmi1("pmi1-put-other-space", 1, "put with the name of no space", put_other_space),
    Case::pmi1("pmi1-get-other-space", 1, "get with the name of no space", get_other_space),
    Case::pmi1("pmi1-get-no-space", 1, "get without the name of a space", get_no_space),
    Case::pmi1("pmi1-put-no-value", 1, "put without a value", put_no_value),
];

pub(super) const LIMITS: &[Case] = &[
    Case::pmi1("pmi1-key-1", 1, "a key one byte below the longest", |client| key(client, -1)),
    Case::pmi1("pmi1-key-0", 1, "the longest key: keylen_max less the terminator", |client| {
        key(client, 0)
    }),
    Case::pmi1("pmi1-key+1", 1, "a key one byte over", |client| key(client, 1)),
    Case::pmi1("pmi1-value-1", 1, "a value one byte below the longest", |client| value(client, -1)),
    Case::pmi1("pmi1-value-0", 1, "the longest value: vallen_max less the terminator", |client| {
        value(client, 0)
    }),
    Case::pmi1("pmi1-value+1", 1, "a value one byte over", |client| value(client, 1)),
    Case::pmi1("pmi1-value-2000", 1, "a value of 2000 bytes", value_2000),
];

fn others_early(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    client.must_put(&format!("early-{}", client.rank), b"v")?;
    let early = client.get(&format!("early-{}", (client.rank + 1) % client.size))?;
    client.fence()?;
    let late = client.get(&format!("early-{}", (client.rank + 1) % client.size))?;
    Ok(match (early.as_deref(), late.as_deref()) {
        (Some(b"v") | None, Some(b"v")) => AsSpecified.on("answered before, there after"),
        _ => Wrong.on("not there after the barrier"),
    })
}

fn missing(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    let reply = client.get_reply("nosuchkey")?;
    Ok(reply.judged(match value_of(&reply)? {
        Some(_) => Wrong,
        // Success and an empty value: a client that checks only `rc` accepts it as a value.
        None if reply.is_good() => Tolerated,
        None => AsSpecified,
    }))
}

fn empty_value(client: &mut RankClient) -> CaseResult {
    let round_trip = client.round_trip("empty", b"")?;
    // No client in use sends one, so the loss affects none.
    if round_trip == RoundTrip::Missing {
        Ok(Tolerated.on("put with success, then not found"))
    } else {
        round_trip.judged()
    }
}

fn blank(client: &mut RankClient) -> CaseResult {
    let start = format!("cmd=put kvsname={} key=k value=a b", client.space);
    client.line_reply(&start, "put_result")?;
    client.fence()?;
    let reply = client.get_reply("k")?;
    Ok(match reply.rest("value") {
        Some(b"a b") => AsSpecified.on("taken to the end of the line"),
        // In the grammar of most servers, a value ends at the first blank.
        Some(value) if value.split(|b| *b == b' ').next() == Some(b"a") => {
            Tolerated.on("cut at the blank")
        }
        _ => reply.judged(Wrong),
    })
}

/// Any valid answer is right if the documents specify none.
fn answered(reply: &Reply) -> Finding {
    reply.judged(AsSpecified)
}

fn put_other_space(client: &mut RankClient) -> CaseResult {
    Ok(answered(&client.line_reply("cmd=put kvsname=nosuch key=k value=v", "put_result")?))
}

fn get_other_space(client: &mut RankClient) -> CaseResult {
    client.must_put("k", b"v")?;
    client.fence()?;
    let reply = client.line_reply("cmd=get kvsname=nosuch key=k", "get_result")?;
    Ok(match value_of(&reply)? {
        None => answered(&reply),
        Some(_) => Tolerated.on("found: the name is ignored"),
    })
}

fn get_no_space(client: &mut RankClient) -> CaseResult {
    client.must_put("k", b"v")?;
    client.fence()?;
    Ok(answered(&client.line_reply("cmd=get key=k", "get_result")?))
}

fn put_no_value(client: &mut RankClient) -> CaseResult {
    let line = format!("cmd=put kvsname={} key=k", client.space);
    let reply = client.line_reply(&line, "put_result")?;
    // Success would invent a value.
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

/// Length of the longest key or value of a C client, plus `by`.
fn longest(client: &mut RankClient, name: &str, by: i64) -> Result<usize, Finding> {
    let reply = client.line_reply("cmd=get_maxes", "maxes")?;
    let with_terminator = reply.number(name).filter(|max| (2..1 << 16).contains(max));
    let max = with_terminator.ok_or_else(|| reply.judged(Wrong))?;
    usize::try_from(max - 1 + by).map_err(|_| reply.judged(Wrong))
}

fn limited(client: &mut RankClient, by: i64, key: &str, value: &[u8]) -> CaseResult {
    let round_trip = client.round_trip(key, value)?;
    // One byte more than C can hold is within the advertised limit, read literally.
    if by > 0 { round_trip.judged_over(AsSpecified) } else { round_trip.judged() }
}

fn key(client: &mut RankClient, by: i64) -> CaseResult {
    let len = longest(client, "keylen_max", by)?;
    limited(client, by, &"k".repeat(len), b"v")
}

fn value(client: &mut RankClient, by: i64) -> CaseResult {
    let len = longest(client, "vallen_max", by)?;
    limited(client, by, "key", &b"v".repeat(len))
}

fn value_2000(client: &mut RankClient) -> CaseResult {
    let max = longest(client, "vallen_max", 0)?;
    let round_trip = client.round_trip("key", &[b'v'; 2000])?;
    match round_trip {
        RoundTrip::Refused(reply) if max >= 2000 => Ok(reply.judged(Refused)),
        round_trip => round_trip.judged_over(Tolerated),
    }
}
