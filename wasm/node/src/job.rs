//! A job whose ranks are workers, and a rank of a job that a launcher runs.

use js_sys::Array;
use pmi_core::command::Version;
use pmi_core::ids::{KvsName, Rank};
use pmi_core::server::{Event, JobSpec, Member, Peer, Phase};
use pmi_link::task::{AsyncPmi, Opening};
use pmi_wasm::{AsyncLink, LinkStream, Port, PortServer, PortServerEvent, Socket};
use std::fmt::Display;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

/// Serves a job with a rank at the other end of each of `ports`, until all have finalized. Returns
/// notable events, a line for each.
///
/// # Errors
///
/// A job that cannot be created.
#[wasm_bindgen]
pub async fn serve(ports: Array) -> Result<String, String> {
    let mut server = PortServer::new();
    let spec = JobSpec {
        name: KvsName::new(b"workers").map_err(said)?,
        spawner: None,
        universe_size: None,
        size: None,
        has_uplink: false,
    };
    let members = ports.iter().map(|_| Member::new(0, 0)).collect();
    let job = server.add_job(spec, members, 64 * 1024).map_err(said)?;
    for (rank, port) in (0..).map(Rank).zip(ports.iter()) {
        server.add(Peer::Member { job, rank }, Port::new(port)).map_err(said)?;
    }
    let mut told = Vec::new();
    server.poll(|_, notice| told.push(notice));
    while !server.is_idle() {
        server.changed().await;
        server.poll(|server, notice| {
            if let PortServerEvent::Closed { job, rank: Some(rank), .. } = notice
                && server.job(job).is_some_and(|job| job.member(rank).is_some_and(has_failed))
            {
                // Its worker no longer exists, so no rank must wait for it.
                server.member_gone(job, rank);
            }
            told.push(notice);
        });
    }
    let lines = told.iter().filter_map(line);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Runs a rank that stores its card and reads that of its neighbour: puts, fences, gets and
/// finalizes in version `major`. Returns the card that it has read.
///
/// # Errors
///
/// The cause, as text.
#[wasm_bindgen]
pub async fn worker(port: JsValue, rank: u32, size: u32, major: u32) -> Result<String, String> {
    let mut pmi = AsyncPmi::new(LinkStream::new(Port::new(port)));
    open(&mut pmi, rank, major).await?;
    exchange(pmi, rank, size).await
}

/// Runs rank `rank` of a job that listens at `socket`, with process id `id`.
///
/// # Errors
///
/// As above.
#[wasm_bindgen]
pub async fn caller(socket: JsValue, id: u64, rank: u32, size: u32) -> Result<String, String> {
    let mut pmi = AsyncPmi::new(LinkStream::new(Socket::new(socket)));
    pmi.greet(id).await.map_err(said)?;
    open(&mut pmi, rank, 1).await?;
    exchange(pmi, rank, size).await
}

/// Opens a session, and closes the link without finalize.
///
/// # Errors
///
/// As above.
#[wasm_bindgen]
pub async fn leaver(port: JsValue) -> Result<(), String> {
    let mut pmi = AsyncPmi::new(LinkStream::new(Port::new(port)));
    open(&mut pmi, 0, 1).await
}

async fn open<L: AsyncLink>(
    pmi: &mut AsyncPmi<LinkStream<L>>,
    rank: u32,
    major: u32,
) -> Result<(), String> {
    let version = if major == 1 { Version::V1_1 } else { Version::V2_0 };
    let mut opening = Opening::new(version);
    opening.rank = Some(rank);
    pmi.open(&opening, &mut []).await.map_err(said)?;
    pmi.kvsname().await.map(drop).map_err(said)
}

async fn exchange<L: AsyncLink>(
    mut pmi: AsyncPmi<LinkStream<L>>,
    rank: u32,
    size: u32,
) -> Result<String, String> {
    let (own, next) = (format!("card-{rank}"), format!("card-{}", (rank + 1) % size));
    let card = format!("card-of-rank-{rank}");
    pmi.put(own.as_bytes(), card.as_bytes()).await.map_err(said)?;
    pmi.fence().await.map_err(said)?;
    let mut value = [0; 64];
    let len = pmi.get(next.as_bytes(), &mut value).await.map_err(said)?;
    let read = len.and_then(|len| value.get(..len)).ok_or("there is no card")?;
    pmi.finalize().await.map_err(said)?;
    String::from_utf8(read.to_vec()).map_err(said)
}

fn has_failed(member: &Member) -> bool {
    member.phase() != Phase::Finalized
}

fn line(notice: &PortServerEvent) -> Option<String> {
    match notice {
        PortServerEvent::Event(Event::FenceStuck { gone, .. }) => {
            Some(format!("a fence waits for rank {}, which is gone", gone.0))
        }
        PortServerEvent::Closed { rank: Some(rank), error: Some(error), .. } => {
            Some(format!("rank {}: {error}", rank.0))
        }
        _ => None,
    }
}

fn said(what: impl Display) -> String {
    what.to_string()
}
