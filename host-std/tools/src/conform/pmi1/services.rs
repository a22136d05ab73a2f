//! Published names, spawn, and attributes of the job.

use super::super::case::{Case, Played};
use super::super::codes;
use super::super::lines::{Lines, value_of};
use super::super::mapping;
use super::super::space::Space;
use super::super::talk::Reply;
use super::super::verdict::Finding;
use super::super::verdict::Verdict::{self, AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::lines("pmi1-mapping", 2, "PMI_process_mapping covers all ranks", process_mapping),
    Case::lines("pmi1-publish", 1, "publish_name", publish),
    Case::lines("pmi1-lookup", 2, "lookup_name of what another rank published", lookup),
    Case::lines("pmi1-publish-twice", 1, "publish_name of a name that exists", publish_twice),
    Case::lines("pmi1-unpublish", 1, "unpublish_name, then lookup_name", unpublish),
    Case::lines("pmi1-lookup-missing", 1, "lookup_name of nothing", lookup_missing),
    Case::lines("pmi1-unpublish-missing", 1, "unpublish_name of nothing", unpublish_missing),
    Case::lines("pmi1-spawn", 1, "spawn of one process", |lines| spawn(lines, 1)),
    Case::lines("pmi1-spawn-two", 1, "spawn of two programs with arguments and info", |lines| {
        spawn(lines, 2)
    }),
    Case::lines(
        "pmi1-spawn-codes",
        1,
        "a spawn that works says so of every process, or of none",
        |lines| {
            let reply = start(lines, &[("/bin/true", 2)])?;
            Ok(codes::judged_good(&reply, 2))
        },
    ),
    Case::lines("pmi1-spawn-one-bad", 1, "a spawn whose second program is missing", |lines| {
        let reply = start(lines, &[("/bin/true", 1), ("/no/such/program", 1)])?;
        Ok(codes::judged_bad(&reply, &[0], 2))
    }),
];

fn process_mapping(lines: &mut Lines) -> Played {
    lines.open()?;
    let line = format!("cmd=get kvsname={} key=PMI_process_mapping", lines.kvs);
    let reply = lines.ask(&line, "get_result")?;
    match value_of(&reply)? {
        Some(value) => Ok(mapping::judged(value, lines.size)),
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

fn publish(lines: &mut Lines) -> Played {
    lines.open()?;
    let reply = lines.ask(&format!("cmd=publish_name service=s1 port={PORT}"), "publish_result")?;
    Ok(reply.judged(success(&reply)))
}

fn lookup(lines: &mut Lines) -> Played {
    lines.open()?;
    if lines.rank == 0 {
        let line = format!("cmd=publish_name service=s2 port={PORT}");
        let reply = lines.ask(&line, "publish_result")?;
        if success(&reply) == Refused {
            return Err(reply.judged(Refused));
        }
    }
    lines.fence()?;
    let reply = lines.ask("cmd=lookup_name service=s2", "lookup_result")?;
    Ok(reply.judged(match reply.field("port") {
        Some(port) if port == PORT.as_bytes() => success(&reply),
        _ if is_failure(&reply) => Refused,
        _ => Wrong,
    }))
}

fn publish_twice(lines: &mut Lines) -> Played {
    lines.open()?;
    let reply = lines.ask("cmd=publish_name service=s3 port=first", "publish_result")?;
    if success(&reply) == Refused {
        return Err(reply.judged(Refused));
    }
    let reply = lines.ask("cmd=publish_name service=s3 port=second", "publish_result")?;
    Ok(reply.judged(if is_failure(&reply) { AsSpecified } else { Tolerated }))
}

fn unpublish(lines: &mut Lines) -> Played {
    lines.open()?;
    let reply = lines.ask(&format!("cmd=publish_name service=s4 port={PORT}"), "publish_result")?;
    if success(&reply) == Refused {
        return Err(reply.judged(Refused));
    }
    let reply = lines.ask("cmd=unpublish_name service=s4", "unpublish_result")?;
    let verdict = success(&reply);
    let after = lines.ask("cmd=lookup_name service=s4", "lookup_result")?;
    Ok(if is_failure(&after) { reply.judged(verdict) } else { after.judged(Wrong) })
}

fn lookup_missing(lines: &mut Lines) -> Played {
    lines.open()?;
    let reply = lines.ask("cmd=lookup_name service=nosuch", "lookup_result")?;
    Ok(reply.judged(if is_failure(&reply) { AsSpecified } else { Wrong }))
}

fn unpublish_missing(lines: &mut Lines) -> Played {
    lines.open()?;
    let reply = lines.ask("cmd=unpublish_name service=nosuch", "unpublish_result")?;
    Ok(reply.judged(if is_failure(&reply) { AsSpecified } else { Tolerated }))
}

fn spawn(lines: &mut Lines, programs: usize) -> Played {
    let reply = start(lines, &[("/bin/true", 1); 2][..programs])?;
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

/// Requests a spawn of these programs, each with its number of processes.
fn start(lines: &mut Lines, programs: &[(&str, u32)]) -> Result<Reply, Finding> {
    lines.open()?;
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
    lines.talk.send(block.as_bytes())?;
    lines.talk.line()?.expect("spawn_result")
}

const PORT: &str = "tag#0$description#node0$port#1234$";
