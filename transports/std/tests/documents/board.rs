//! The example of README.md for a board, as it stands there. It is a file of its own, so that `documents.rs` can
//! also build it in a package with the dependencies that README.md names.

use embedded_io::{Read, Write};
use pmi_core::command::Version;
use pmi_link::{CallError, blocking::Pmi1};

/// Exchanges cards with all other ranks, and gives each to `remember`.
pub fn exchange_cards<L: Read + Write>(
    line: L,
    id: u64,
    mut remember: impl FnMut(u8, &[u8]),
) -> Result<(), CallError<L::Error>> {
    let mut pmi = Pmi1::new(line); // 1.8 KiB, and nothing else in RAM
    let me = pmi.greet(id)?; // rank and size
    pmi.init(Version::V1_1)?;
    pmi.kvsname()?;
    let mut card = *b"card-0"; // one digit: up to ten ranks
    card[5] += me.rank as u8;
    pmi.put(&card, b"left-switch,port-3")?;
    pmi.fence()?; // every rank has put its card
    for peer in 0..me.size as u8 {
        card[5] = b'0' + peer;
        let mut room = [0; 64];
        let len = pmi.get(&card, &mut room)?.unwrap_or(0);
        remember(peer, &room[..len]);
    }
    pmi.finalize()
}
