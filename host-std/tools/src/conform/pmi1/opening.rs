//! Opening of a session: identity, versions and limits.

use super::super::case::{Case, CaseResult, ExpectedExit};
use super::super::rank_client::RankClient;
use super::super::raw_connection::Reply;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::raw_pmi1("pmi1-init-1.1", 1, "init for 1.1, as every client does", |client| {
        judged(&client.init(1, 1)?, 1)
    }),
    Case::raw_pmi1("pmi1-init-1.0", 1, "init for 1.0", |client| judged(&client.init(1, 0)?, 0)),
    Case::raw_pmi1("pmi1-init-1.2", 1, "init for 1.2", |client| judged(&client.init(1, 2)?, 2)),
    Case::raw_pmi1("pmi1-init-2.0", 1, "init for 2.0", init_2_0).expecting(ExpectedExit::Any),
    Case::raw_pmi1("pmi1-init-3.0", 1, "init for 3.0, which no server speaks", init_3_0)
        .expecting(ExpectedExit::Any),
    Case::raw_pmi1("pmi1-init-old", 1, "init as before 1.0: pmi_version=1.1", init_old)
        .expecting(ExpectedExit::Any),
    Case::raw_pmi1("pmi1-init-swapped", 1, "init with its fields in the other order", init_swapped),
    Case::raw_pmi1("pmi1-init-extra", 1, "init with an unknown field", init_extra),
    Case::raw_pmi1("pmi1-init-twice", 1, "init a second time", init_twice),
    Case::raw_pmi1("pmi1-before-init", 1, "get_maxes before init", before_init)
        .expecting(ExpectedExit::Any),
    Case::pmi1("pmi1-maxes", 1, "get_maxes", maxes),
    Case::pmi1("pmi1-appnum", 1, "get_appnum", appnum),
    Case::pmi1("pmi1-universe", 2, "get_universe_size", universe),
    Case::pmi1("pmi1-kvsname", 2, "get_my_kvsname is the same in all ranks", kvsname),
];

fn version(reply: &Reply) -> Option<(i64, i64)> {
    Some((reply.number("pmi_version")?, reply.number("pmi_subversion")?))
}

/// Judges an answer to a request for 1.`minor`, which must name a version 1 that the client knows.
fn judged(reply: &Reply, minor: i64) -> CaseResult {
    Ok(reply.judged(match version(reply) {
        _ if reply.number("rc").is_none() => Wrong,
        _ if !reply.is_good() => Refused,
        // There is no 1.0 on the wire that differs from 1.1, and all servers answer it so.
        Some((1, answered)) if answered <= minor.max(1) => AsSpecified,
        // Newer than requested: clients that know only the requested version fail here.
        Some((1, _)) => Tolerated,
        Some(_) | None => Wrong,
    }))
}

fn init_2_0(client: &mut RankClient) -> CaseResult {
    let reply = client.init(2, 0)?;
    Ok(reply.judged(match version(&reply) {
        Some((2, 0)) if reply.number("rc") == Some(0) => AsSpecified,
        _ if !reply.is_good() => Refused,
        _ => Wrong,
    }))
}

fn init_3_0(client: &mut RankClient) -> CaseResult {
    let reply = client.init(3, 0)?;
    Ok(reply.judged(match version(&reply) {
        _ if !reply.is_good() => AsSpecified,
        // The highest version of both sides would be right too, but no client that asks for 3.0 is known.
        Some((1 | 2, _)) => Tolerated,
        _ => Wrong,
    }))
}

fn init_old(client: &mut RankClient) -> CaseResult {
    let reply = client.line_reply("cmd=init pmi_version=1.1", "response_to_init")?;
    Ok(reply.judged(if reply.is_good() { Tolerated } else { AsSpecified }))
}

fn init_swapped(client: &mut RankClient) -> CaseResult {
    judged(&client.line_reply("cmd=init pmi_subversion=1 pmi_version=1", "response_to_init")?, 1)
}

fn init_extra(client: &mut RankClient) -> CaseResult {
    let line = "cmd=init pmi_version=1 pmi_subversion=1 colour=blue";
    judged(&client.line_reply(line, "response_to_init")?, 1)
}

fn init_twice(client: &mut RankClient) -> CaseResult {
    client.init(1, 1)?;
    // The documents are silent: a second answer and a refusal are both an answer.
    Ok(client.init(1, 1)?.judged(AsSpecified))
}

fn before_init(client: &mut RankClient) -> CaseResult {
    client.connection.send(b"cmd=get_maxes\n")?;
    let reply = client.connection.recv_line()?;
    Ok(match reply.is_good() {
        // A refusal may have another name: no answer is specified before `init`.
        false => reply.judged(Refused),
        true => reply.expect("maxes")?.judged(AsSpecified),
    })
}

fn maxes(client: &mut RankClient) -> CaseResult {
    let reply = client.line_reply("cmd=get_maxes", "maxes")?;
    let sizes = ["kvsname_max", "keylen_max", "vallen_max"].map(|name| reply.number(name));
    Ok(reply.judged(match sizes {
        // MPICH needs 64, 64 and 1024; with less it splits its values into more keys.
        [Some(name), Some(key), Some(value)] if name >= 64 && key >= 64 && value >= 1024 => {
            AsSpecified
        }
        [Some(_), Some(_), Some(_)] => Tolerated,
        _ => Wrong,
    }))
}

fn appnum(client: &mut RankClient) -> CaseResult {
    let reply = client.line_reply("cmd=get_appnum", "appnum")?;
    Ok(reply.judged(match reply.number("appnum") {
        Some(0) => AsSpecified,
        Some(-1) => Tolerated,
        _ => Wrong,
    }))
}

fn universe(client: &mut RankClient) -> CaseResult {
    let reply = client.line_reply("cmd=get_universe_size", "universe_size")?;
    Ok(reply.judged(match reply.number("size") {
        // -1 stands for "unknown".
        Some(size) if size == -1 || size >= i64::from(client.size) => AsSpecified,
        Some(_) | None => Wrong,
    }))
}

fn kvsname(client: &mut RankClient) -> CaseResult {
    let own = client.space.clone();
    // If the names differed, this exchange would fail too.
    client.exchange("name", |_| own.clone())?;
    Ok(AsSpecified.on("one name for all"))
}
