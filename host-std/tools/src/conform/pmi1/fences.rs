//! Barriers: every rank waits for all ranks of its group.
//!
//! `pmi1-barrier` is the one case that needs time: one rank enters late, and clocks are compared (so it
//! means something only if all ranks read one clock).

use super::super::case::{Case, CaseResult};
use super::super::player::{LATE, micros};
use super::super::rank_client::RankClient;
use super::super::shared::again;
use super::super::verdict::Finding;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi1("pmi1-barrier", 3, "no rank leaves a barrier before all have entered", barrier),
    Case::pmi1("pmi1-barrier-again", 2, "twenty barriers in a row", again),
    Case::raw_pmi1("pmi1-group-world", 2, "1.2: barrier_in group=WORLD:7", world),
    Case::raw_pmi1("pmi1-group-node", 2, "1.2: barrier_in group=NODE:8", node),
    Case::raw_pmi1("pmi1-group-list", 3, "1.2: ranks 0 and 1 meet without rank 2", list),
    Case::raw_pmi1(
        "pmi1-group-crossed",
        2,
        "1.2: two barriers at once, in different order",
        crossed,
    ),
];

fn barrier(client: &mut RankClient) -> CaseResult {
    client.fence()?;
    if client.rank == 0 {
        std::thread::sleep(LATE);
    }
    let entered = micros();
    client.must_put(&format!("entered-{}", client.rank), entered.to_string().as_bytes())?;
    client.fence()?;
    let left = micros();
    for other in 0..client.size {
        let found = client.get(&format!("entered-{other}"))?.unwrap_or_default();
        let entered: Option<u128> = String::from_utf8_lossy(&found).parse().ok();
        match entered {
            Some(entered) if entered <= left => {}
            Some(entered) => {
                let early = entered - left;
                return Ok(Wrong.on(format!("left {early} us before rank {other} came")));
            }
            None => return Ok(Wrong.on(format!("what rank {other} put is not there"))),
        }
    }
    Ok(AsSpecified.on("all waited for rank 0"))
}

/// Opens a session of 1.2, or ends the case: no other version has groups.
fn open(client: &mut RankClient) -> Result<(), Finding> {
    let agreed = client.open_pmi1(2)?;
    if agreed >= 2 { Ok(()) } else { Err(Refused.on(format!("it speaks 1.{agreed}"))) }
}

fn meet(client: &mut RankClient, group: &str, tag: i64) -> CaseResult {
    let reply = client.line_reply(&format!("cmd=barrier_in group={group}:{tag}"), "barrier_out")?;
    Ok(match reply.number("tag") {
        _ if !reply.is_good() => reply.judged(Refused),
        Some(given) if given == tag => reply.judged(AsSpecified),
        Some(_) => reply.judged(Wrong),
        None => reply.judged(Tolerated),
    })
}

fn world(client: &mut RankClient) -> CaseResult {
    open(client)?;
    meet(client, "WORLD", 7)
}

fn node(client: &mut RankClient) -> CaseResult {
    open(client)?;
    meet(client, "NODE", 8)
}

fn list(client: &mut RankClient) -> CaseResult {
    open(client)?;
    if client.rank == 2 {
        return Ok(AsSpecified.on("takes no part"));
    }
    meet(client, "0,1", 9)
}

fn crossed(client: &mut RankClient) -> CaseResult {
    open(client)?;
    let order = if client.rank == 0 { ["5", "6"] } else { ["6", "5"] };
    for tag in order {
        client.connection.send(format!("cmd=barrier_in group=0,1:{tag}\n").as_bytes())?;
    }
    let mut tags = Vec::new();
    for _ in order {
        tags.extend(client.connection.recv_line()?.expect("barrier_out")?.number("tag"));
    }
    tags.sort_unstable();
    Ok(if tags == [5, 6] {
        AsSpecified.on("both end, each with its tag")
    } else {
        Wrong.on(format!("tags {tags:?}"))
    })
}
