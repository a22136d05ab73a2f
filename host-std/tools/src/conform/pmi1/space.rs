//! Keys and values.

use super::super::case::{Case, Played};
use super::super::lines::{Lines, value_of};
use super::super::space::{Kept, Space};
use super::super::talk::Reply;
use super::super::verdict::Finding;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::lines("pmi1-put-get", 2, "put, barrier, get of everybody's key", put_get),
    Case::lines("pmi1-own-early", 1, "get of an own key before the barrier", own_early),
    Case::lines("pmi1-others-early", 2, "get of another's key before the barrier", others_early),
    Case::lines("pmi1-missing", 1, "get of a key that nobody put", missing),
    Case::lines("pmi1-put-twice", 1, "the same key twice: the last holds", put_twice),
    Case::lines("pmi1-empty-value", 1, "put of an empty value", empty_value),
    Case::lines("pmi1-value-signs", 1, "a value with = and all kinds of signs", signs),
    Case::lines("pmi1-value-utf8", 1, "a value in UTF-8", utf8),
    Case::lines("pmi1-value-bytes", 1, "a value with bytes that are no UTF-8", bytes),
    Case::lines("pmi1-value-backslash", 1, "a value with backslashes", backslash),
    Case::lines("pmi1-value-blank", 1, "a value with a blank", blank),
    Case::lines("pmi1-put-other-space", 1, "put with the name of no space", put_other_space),
    Case::lines("pmi1-get-other-space", 1, "get with the name of no space", get_other_space),
    Case::lines("pmi1-get-no-space", 1, "get without the name of a space", get_no_space),
    Case::lines("pmi1-put-no-value", 1, "put without a value", put_no_value),
];

pub(super) const LIMITS: &[Case] = &[
    Case::lines("pmi1-key-1", 1, "a key one byte below the longest", |lines| key(lines, -1)),
    Case::lines("pmi1-key-0", 1, "the longest key: keylen_max less the terminator", |lines| {
        key(lines, 0)
    }),
    Case::lines("pmi1-key+1", 1, "a key one byte over", |lines| key(lines, 1)),
    Case::lines("pmi1-value-1", 1, "a value one byte below the longest", |lines| value(lines, -1)),
    Case::lines("pmi1-value-0", 1, "the longest value: vallen_max less the terminator", |lines| {
        value(lines, 0)
    }),
    Case::lines("pmi1-value+1", 1, "a value one byte over", |lines| value(lines, 1)),
    Case::lines("pmi1-value-2000", 1, "a value of 2000 bytes", value_2000),
];

fn put_get(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.exchange("card", |rank| format!("here#{rank}"))?;
    Ok(AsSpecified.on("all are there"))
}

fn own_early(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.put_well("early", b"v")?;
    // Both are allowed: a portable program has a barrier between put and get.
    Ok(match lines.get("early")?.as_deref() {
        Some(b"v") => AsSpecified.on("visible at once"),
        None => AsSpecified.on("visible after the barrier"),
        Some(other) => Wrong.on(other.escape_ascii().to_string()),
    })
}

fn others_early(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.fence()?;
    lines.put_well(&format!("early-{}", lines.rank), b"v")?;
    let early = lines.get(&format!("early-{}", (lines.rank + 1) % lines.size))?;
    lines.fence()?;
    let late = lines.get(&format!("early-{}", (lines.rank + 1) % lines.size))?;
    Ok(match (early.as_deref(), late.as_deref()) {
        (Some(b"v") | None, Some(b"v")) => AsSpecified.on("answered before, there after"),
        _ => Wrong.on("not there after the barrier"),
    })
}

fn missing(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.fence()?;
    let line = format!("cmd=get kvsname={} key=nosuchkey", lines.kvs);
    let reply = lines.ask(&line, "get_result")?;
    Ok(reply.judged(match value_of(&reply)? {
        Some(_) => Wrong,
        // Success and an empty value: a client that checks only `rc` accepts it as a value.
        None if reply.is_good() => Tolerated,
        None => AsSpecified,
    }))
}

fn put_twice(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.put_well("twice", b"first")?;
    match lines.keep("twice", b"last")? {
        Kept::Changed(found) if found == b"first" => Ok(Tolerated.on("the first holds")),
        kept => kept.judged(),
    }
}

fn keeps(lines: &mut Lines, value: &[u8]) -> Played {
    lines.open()?;
    lines.keep("key", value)?.judged()
}

fn empty_value(lines: &mut Lines) -> Played {
    lines.open()?;
    let kept = lines.keep("empty", b"")?;
    // No client in use sends one, so the loss affects none.
    if kept == Kept::Lost {
        Ok(Tolerated.on("put with success, then not found"))
    } else {
        kept.judged()
    }
}

fn signs(lines: &mut Lines) -> Played {
    keeps(lines, b"a=b=,;:(w)[0]{}<>\"q\"'#$%&*+-./?@^_`~!")
}

fn utf8(lines: &mut Lines) -> Played {
    keeps(lines, "h\u{e9}llo-\u{4e16}".as_bytes())
}

fn bytes(lines: &mut Lines) -> Played {
    keeps(lines, b"\x80\xc3\xff\x01")
}

fn backslash(lines: &mut Lines) -> Played {
    keeps(lines, br"a\b\\c\n")
}

fn blank(lines: &mut Lines) -> Played {
    lines.open()?;
    let start = format!("cmd=put kvsname={} key=k value=a b", lines.kvs);
    lines.ask(&start, "put_result")?;
    lines.fence()?;
    let line = format!("cmd=get kvsname={} key=k", lines.kvs);
    let reply = lines.ask(&line, "get_result")?;
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

fn put_other_space(lines: &mut Lines) -> Played {
    lines.open()?;
    Ok(answered(&lines.ask("cmd=put kvsname=nosuch key=k value=v", "put_result")?))
}

fn get_other_space(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.put_well("k", b"v")?;
    lines.fence()?;
    let reply = lines.ask("cmd=get kvsname=nosuch key=k", "get_result")?;
    Ok(match value_of(&reply)? {
        None => answered(&reply),
        Some(_) => Tolerated.on("found: the name is not looked at"),
    })
}

fn get_no_space(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.put_well("k", b"v")?;
    lines.fence()?;
    Ok(answered(&lines.ask("cmd=get key=k", "get_result")?))
}

fn put_no_value(lines: &mut Lines) -> Played {
    lines.open()?;
    let line = format!("cmd=put kvsname={} key=k", lines.kvs);
    let reply = lines.ask(&line, "put_result")?;
    // Success would invent a value.
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

/// Length of the longest key or value of a C client, plus `by`.
fn longest(lines: &mut Lines, name: &str, by: i64) -> Result<usize, Finding> {
    lines.open()?;
    let reply = lines.ask("cmd=get_maxes", "maxes")?;
    let with_terminator = reply.number(name).filter(|max| (2..1 << 16).contains(max));
    let max = with_terminator.ok_or_else(|| reply.judged(Wrong))?;
    usize::try_from(max - 1 + by).map_err(|_| reply.judged(Wrong))
}

fn limited(lines: &mut Lines, by: i64, key: &str, value: &[u8]) -> Played {
    let kept = lines.keep(key, value)?;
    // One byte more than C can hold is within the advertised limit, read literally.
    if by > 0 { kept.judged_over(AsSpecified) } else { kept.judged() }
}

fn key(lines: &mut Lines, by: i64) -> Played {
    let len = longest(lines, "keylen_max", by)?;
    limited(lines, by, &"k".repeat(len), b"v")
}

fn value(lines: &mut Lines, by: i64) -> Played {
    let len = longest(lines, "vallen_max", by)?;
    limited(lines, by, "key", &b"v".repeat(len))
}

fn value_2000(lines: &mut Lines) -> Played {
    let max = longest(lines, "vallen_max", 0)?;
    let kept = lines.keep("key", &[b'v'; 2000])?;
    match kept {
        Kept::Refused(reply) if max >= 2000 => Ok(reply.judged(Refused)),
        kept => kept.judged_over(Tolerated),
    }
}
