//! The shortest useful rank: puts its card, fences, and reads all cards.
//!
//! `pmi-host run -n 4 cards` does it with blocking calls, `pmi-host run -n 4 cards async` with futures, and
//! `pmi-host run --pmi x -n 4 cards pmix` over PMIx. All print the table that nodes without an operating
//! system print (`examples/bare-metal/guest`), so processes and such nodes can be in one job.
#![forbid(unsafe_code)]

mod futures;
mod pmix;

use pmi_std::Member;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("async") => futures::run(),
        Some("pmix") => pmix::run(),
        _ => run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cards: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let Some(Member { rank, size, mut pmi, .. }) = pmi_std::connect()? else {
        return Err(ALONE.into());
    };
    pmi.put(key_of(rank).as_bytes(), card_of(rank).as_bytes())?;
    pmi.fence()?;
    for peer in 0..size {
        let card = pmi.get(key_of(peer).as_bytes())?.ok_or("a card is missing")?;
        print(rank, size, peer, &card);
    }
    Ok(pmi.finalize()?)
}

fn key_of(rank: u32) -> String {
    format!("card-{rank}")
}

fn card_of(rank: u32) -> String {
    format!("rank-{rank}@linux")
}

fn print(rank: u32, size: u32, peer: u32, card: &[u8]) {
    println!("rank {rank} of {size}: {} = {}", key_of(peer), String::from_utf8_lossy(card));
}

const ALONE: &str = "no launcher has started this process as a rank; try 'pmi-host run -n 4 cards'";
