//! Keys and values.

use super::super::case::{Case, Played};
use super::super::frames::{Frames, found};
use super::super::player::{LATE, micros};
use super::super::space::{Kept, Space};
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::frames("pmi2-put-get", 2, "put, fence, get of everybody's key", put_get),
    Case::frames("pmi2-fence", 3, "a fence waits for all, or the gets behind it do", fence),
    Case::frames("pmi2-fence-again", 2, "twenty fences in a row", again),
    Case::frames("pmi2-own-early", 1, "get of an own key before the fence", own_early),
    Case::frames("pmi2-missing", 1, "get of a key that nobody put", missing),
    Case::frames("pmi2-missing-early", 1, "the same before any fence", missing_early),
    Case::frames("pmi2-put-twice", 1, "the same key twice: the last holds", put_twice),
    Case::frames("pmi2-no-jobid", 1, "get without jobid and srcid", no_jobid),
    Case::frames("pmi2-other-job", 1, "get from a job that is none", other_job),
    Case::frames("pmi2-empty-value", 1, "put of an empty value", |frames| keeps(frames, b"")),
    Case::frames("pmi2-value-signs", 1, "a value with = and all kinds of signs", |frames| {
        keeps(frames, b"a=b=,:(w)[0]{}<>\"q\"'#$%&*+-./?@^_`~!")
    }),
    Case::frames("pmi2-value-blanks", 1, "a value with blanks, a tab and a line feed", |frames| {
        keeps(frames, b"a b\tc\nd")
    }),
    Case::frames("pmi2-value-utf8", 1, "a value in UTF-8", |frames| {
        keeps(frames, "h\u{e9}llo-\u{4e16}".as_bytes())
    }),
    Case::frames("pmi2-value-bytes", 1, "a value with bytes that are no UTF-8", |frames| {
        keeps(frames, b"\x80\xc3\xff\x01")
    }),
    Case::frames("pmi2-value-semicolon", 1, "a value with ; written as ;;", semicolon),
    Case::frames("pmi2-key-63", 1, "the longest key that C can hold", |frames| key(frames, 63)),
    Case::frames("pmi2-key-64", 1, "a key one byte over", |frames| key(frames, 64)),
    Case::frames("pmi2-value-1023", 1, "the longest value that C can hold", |frames| {
        value(frames, 1023)
    }),
    Case::frames("pmi2-value-1024", 1, "a value one byte over", |frames| value(frames, 1024)),
    Case::frames("pmi2-value-2000", 1, "a value of 2000 bytes", |frames| value(frames, 2000)),
];

fn put_get(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.exchange("card", |rank| format!("here#{rank}"))?;
    Ok(AsSpecified.on("all are there"))
}

fn fence(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.fence()?;
    if frames.rank == 0 {
        std::thread::sleep(LATE);
    }
    frames.put_well(&format!("entered-{}", frames.rank), micros().to_string().as_bytes())?;
    frames.fence()?;
    let left = micros();
    let mut has_waited = true;
    for other in 0..frames.size {
        let found = frames.get(&format!("entered-{other}"))?.unwrap_or_default();
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

fn again(frames: &mut Frames) -> Played {
    frames.open()?;
    for turn in 0..20 {
        frames.exchange(&format!("turn-{turn}"), |rank| format!("{turn}.{rank}"))?;
    }
    Ok(AsSpecified.on("every one of them shows what was put before"))
}

fn own_early(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.put_well("early", b"v")?;
    Ok(match frames.get("early")?.as_deref() {
        Some(b"v") => AsSpecified.on("visible at once"),
        None => AsSpecified.on("visible after the fence"),
        Some(other) => Wrong.on(other.escape_ascii().to_string()),
    })
}

fn missing(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.fence()?;
    missing_now(frames)
}

fn missing_early(frames: &mut Frames) -> Played {
    frames.open()?;
    missing_now(frames)
}

fn missing_now(frames: &mut Frames) -> Played {
    let reply = frames.get_reply("nosuchkey")?;
    Ok(match found(&reply)? {
        Some(_) => reply.judged(Wrong),
        None if reply.field("found").is_some() => reply.judged(AsSpecified),
        // A return code alone is an error to older clients.
        None => reply.judged(Tolerated),
    })
}

fn put_twice(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.put_well("twice", b"first")?;
    match frames.keep("twice", b"last")? {
        Kept::Changed(found) if found == b"first" => Ok(Tolerated.on("the first holds")),
        kept => kept.judged(),
    }
}

fn no_jobid(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.put_well("k", b"v")?;
    frames.fence()?;
    let reply = frames.ask("kvs-get;key=k;")?;
    Ok(reply.judged(match found(&reply)? {
        Some(b"v") => AsSpecified,
        _ => Wrong,
    }))
}

fn other_job(frames: &mut Frames) -> Played {
    frames.open()?;
    frames.put_well("k", b"v")?;
    frames.fence()?;
    let reply = frames.ask("kvs-get;jobid=nosuchjob;srcid=-1;key=k;")?;
    Ok(match found(&reply)? {
        None => reply.judged(AsSpecified),
        Some(_) => Tolerated.on("found: jobid is not looked at"),
    })
}

fn keeps(frames: &mut Frames, value: &[u8]) -> Played {
    frames.open()?;
    frames.keep("key", value)?.judged()
}

fn semicolon(frames: &mut Frames) -> Played {
    frames.open()?;
    // The clients that double it align their lengths to the left.
    let put = "cmd=kvs-put;key=key;value=a;;b;";
    frames.talk.send(format!("{:<6}{put}", put.len()).as_bytes())?;
    let reply = frames.hear(b"kvs-put;")?;
    if !reply.is_good() {
        return Ok(reply.judged(Refused));
    }
    frames.fence()?;
    let get = format!("cmd=kvs-get;jobid={};srcid=-1;key=key;", frames.job);
    frames.talk.send(format!("{:<6}{get}", get.len()).as_bytes())?;
    let reply = frames.hear(b"kvs-get;")?;
    Ok(match reply.rest("value") {
        Some(rest) if rest.starts_with(b"a;;b;") => AsSpecified.on("comes back as a;;b"),
        Some(rest) if rest.starts_with(b"a;b;") => Tolerated.on("comes back as a;b, not doubled"),
        Some(rest) if rest.starts_with(b"a;") => Tolerated.on("cut at the ;"),
        _ => reply.judged(Wrong),
    })
}

fn key(frames: &mut Frames, len: usize) -> Played {
    frames.open()?;
    let kept = frames.keep(&"k".repeat(len), b"v")?;
    if len > 63 { kept.judged_over(AsSpecified) } else { kept.judged() }
}

fn value(frames: &mut Frames, len: usize) -> Played {
    frames.open()?;
    let kept = frames.keep("key", &b"v".repeat(len))?;
    match len {
        ..=1023 => kept.judged(),
        1024 => kept.judged_over(AsSpecified),
        _ => kept.judged_over(Tolerated),
    }
}
