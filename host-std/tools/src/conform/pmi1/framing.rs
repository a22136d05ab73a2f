//! Lines that arrive in pieces, in batches, or in unusual forms.

use super::super::case::{Case, CaseResult};
use super::super::rank_client::RankClient;
use super::super::verdict::Verdict::{AsSpecified, Tolerated, Wrong};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::pmi1("pmi1-order", 1, "put with its fields in another order", order),
    Case::pmi1("pmi1-extra-pair", 1, "an unknown field", |client| {
        sizes(client, b"cmd=get_maxes colour=blue")
    }),
    Case::pmi1("pmi1-bare-key", 1, "a field without =", |client| {
        sizes(client, b"cmd=get_maxes colour")
    }),
    Case::pmi1("pmi1-two-blanks", 1, "two blanks between fields", |client| {
        sizes(client, b"cmd=get_maxes  colour=blue")
    }),
    Case::pmi1("pmi1-trailing-blank", 1, "a blank before the end of the line", |client| {
        sizes(client, b"cmd=get_maxes ")
    }),
    Case::pmi1("pmi1-leading-blank", 1, "a blank before cmd=", |client| {
        sizes(client, b" cmd=get_maxes")
    }),
    Case::pmi1("pmi1-cr", 1, "CR before LF", |client| sizes(client, b"cmd=get_maxes\r")),
    Case::pmi1("pmi1-empty-line", 1, "an empty line between requests", empty_line),
    Case::pmi1("pmi1-cut", 1, "a request in three pieces", cut),
    Case::pmi1("pmi1-several", 1, "three requests in one segment", several),
    Case::pmi1("pmi1-unknown", 1, "an unknown command", unknown),
];

/// Requests the limits by `line`, which is unusual but unambiguous.
fn sizes(client: &mut RankClient, line: &[u8]) -> CaseResult {
    let reply = client.line_bytes_reply(line, "maxes")?;
    Ok(reply.judged(if reply.number("keylen_max").is_some() { AsSpecified } else { Wrong }))
}

fn order(client: &mut RankClient) -> CaseResult {
    let line = format!("cmd=put value=v1 key=k1 kvsname={}", client.space);
    client.line_reply(&line, "put_result")?;
    client.fence()?;
    Ok(match client.get("k1")?.as_deref() {
        Some(b"v1") => AsSpecified.on("it is stored as v1"),
        Some(other) => Wrong.on(format!("it is stored as {}", other.escape_ascii())),
        None => Wrong.on("nothing is stored"),
    })
}

fn empty_line(client: &mut RankClient) -> CaseResult {
    client.connection.send(b"\n")?;
    let reply = client.line_reply("cmd=get_maxes", "maxes")?;
    Ok(reply.judged(AsSpecified))
}

fn cut(client: &mut RankClient) -> CaseResult {
    for piece in [&b"cm"[..], b"d=get_max"] {
        client.connection.send(piece)?;
        std::thread::sleep(BETWEEN_PIECES);
    }
    let reply = client.line_reply("es", "maxes")?;
    Ok(reply.judged(AsSpecified))
}

fn several(client: &mut RankClient) -> CaseResult {
    client.connection.send(b"cmd=get_maxes\ncmd=get_appnum\ncmd=get_universe_size\n")?;
    for reply in ["maxes", "appnum", "universe_size"] {
        client.connection.recv_line()?.expect(reply)?;
    }
    Ok(AsSpecified.on("three answers in order"))
}

fn unknown(client: &mut RankClient) -> CaseResult {
    client.connection.send(b"cmd=frobnicate a=b\n")?;
    let reply = client.connection.recv_line()?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

/// Pause between pieces, long enough that no server reads two of them at once.
const BETWEEN_PIECES: Duration = Duration::from_millis(60);
