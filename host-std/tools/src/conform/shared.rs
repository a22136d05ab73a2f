//! Case bodies that PMI-1 and PMI-2 share.

use super::case::CaseResult;
use super::rank_client::{CaseProtocol, RankClient, RoundTrip};
use super::verdict::Verdict::{AsSpecified, NoAnswer, Refused, Tolerated, Wrong};

pub(super) fn put_get(client: &mut RankClient) -> CaseResult {
    client.exchange("card", |rank| format!("here#{rank}"))?;
    Ok(AsSpecified.on("all are there"))
}

/// Twenty fences in a row.
pub(super) fn again(client: &mut RankClient) -> CaseResult {
    for turn in 0..20 {
        client.exchange(&format!("turn-{turn}"), |rank| format!("{turn}.{rank}"))?;
    }
    Ok(AsSpecified.on("every one of them shows what was put before"))
}

pub(super) fn own_early(client: &mut RankClient) -> CaseResult {
    let fence = match client.protocol {
        CaseProtocol::Pmi1 => "barrier",
        CaseProtocol::Pmi2 => "fence",
    };
    client.must_put("early", b"v")?;
    Ok(match client.get("early")?.as_deref() {
        Some(b"v") => AsSpecified.on("visible at once"),
        None => AsSpecified.on(format!("visible after the {fence}")),
        Some(other) => Wrong.on(other.escape_ascii().to_string()),
    })
}

pub(super) fn put_twice(client: &mut RankClient) -> CaseResult {
    client.must_put("twice", b"first")?;
    match client.round_trip("twice", b"last")? {
        RoundTrip::Changed(found) if found == b"first" => Ok(Tolerated.on("the first holds")),
        round_trip => round_trip.judged(),
    }
}

pub(super) fn round_trips(client: &mut RankClient, value: &[u8]) -> CaseResult {
    client.round_trip("key", value)?.judged()
}

pub(super) fn finalize(client: &mut RankClient) -> CaseResult {
    let reply = client.finalize()?;
    client.has_finalized = true;
    Ok(reply.judged(if reply.is_good() { AsSpecified } else { Refused }))
}

/// Rank 1 sends `message`, an abort, and every rank waits for its end.
pub(super) fn abort(client: &mut RankClient, message: &[u8]) -> CaseResult {
    client.fence()?;
    if client.rank == 1 {
        client.connection.send(message)?;
    }
    match client.connection.wait_for_termination() {
        true => Ok(AsSpecified.on("ended")),
        false => Ok(NoAnswer.on("still running long after the abort")),
    }
}
