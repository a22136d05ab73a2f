//! Lines that arrive in pieces, in batches, or in unusual forms.

use super::super::case::{Case, Played};
use super::super::lines::Lines;
use super::super::space::Space;
use super::super::verdict::Verdict::{AsSpecified, Tolerated, Wrong};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::lines("pmi1-order", 1, "put with its fields in another order", order),
    Case::lines("pmi1-extra-pair", 1, "a field that nobody knows", extra_pair),
    Case::lines("pmi1-bare-key", 1, "a field without =", bare_key),
    Case::lines("pmi1-two-blanks", 1, "two blanks between fields", two_blanks),
    Case::lines("pmi1-trailing-blank", 1, "a blank before the end of the line", trailing_blank),
    Case::lines("pmi1-leading-blank", 1, "a blank before cmd=", leading_blank),
    Case::lines("pmi1-cr", 1, "CR before LF", carriage_return),
    Case::lines("pmi1-empty-line", 1, "an empty line between requests", empty_line),
    Case::lines("pmi1-cut", 1, "a request in three pieces", cut),
    Case::lines("pmi1-several", 1, "three requests in one segment", several),
    Case::lines("pmi1-unknown", 1, "a command that nobody knows", unknown),
];

/// Requests the limits by `line`, which is unusual but unambiguous.
fn sizes(lines: &mut Lines, line: &[u8]) -> Played {
    lines.open()?;
    let reply = lines.ask_bytes(line, "maxes")?;
    Ok(reply.judged(if reply.number("keylen_max").is_some() { AsSpecified } else { Wrong }))
}

fn order(lines: &mut Lines) -> Played {
    lines.open()?;
    let line = format!("cmd=put value=v1 key=k1 kvsname={}", lines.kvs);
    lines.ask(&line, "put_result")?;
    lines.fence()?;
    Ok(match lines.get("k1")?.as_deref() {
        Some(b"v1") => AsSpecified.on("it is stored as v1"),
        Some(other) => Wrong.on(format!("it is stored as {}", other.escape_ascii())),
        None => Wrong.on("nothing is stored"),
    })
}

fn extra_pair(lines: &mut Lines) -> Played {
    sizes(lines, b"cmd=get_maxes colour=blue")
}

fn bare_key(lines: &mut Lines) -> Played {
    sizes(lines, b"cmd=get_maxes colour")
}

fn two_blanks(lines: &mut Lines) -> Played {
    sizes(lines, b"cmd=get_maxes  colour=blue")
}

fn trailing_blank(lines: &mut Lines) -> Played {
    sizes(lines, b"cmd=get_maxes ")
}

fn leading_blank(lines: &mut Lines) -> Played {
    sizes(lines, b" cmd=get_maxes")
}

fn carriage_return(lines: &mut Lines) -> Played {
    sizes(lines, b"cmd=get_maxes\r")
}

fn empty_line(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.talk.send(b"\n")?;
    let reply = lines.ask("cmd=get_maxes", "maxes")?;
    Ok(reply.judged(AsSpecified))
}

fn cut(lines: &mut Lines) -> Played {
    lines.open()?;
    for piece in [&b"cm"[..], b"d=get_max"] {
        lines.talk.send(piece)?;
        std::thread::sleep(BETWEEN_PIECES);
    }
    let reply = lines.ask("es", "maxes")?;
    Ok(reply.judged(AsSpecified))
}

fn several(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.talk.send(b"cmd=get_maxes\ncmd=get_appnum\ncmd=get_universe_size\n")?;
    for reply in ["maxes", "appnum", "universe_size"] {
        lines.talk.line()?.expect(reply)?;
    }
    Ok(AsSpecified.on("three answers in order"))
}

fn unknown(lines: &mut Lines) -> Played {
    lines.open()?;
    lines.talk.send(b"cmd=frobnicate a=b\n")?;
    let reply = lines.talk.line()?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

/// Pause between pieces, long enough that no server reads two of them at once.
const BETWEEN_PIECES: Duration = Duration::from_millis(60);
