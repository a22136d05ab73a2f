//! The rank: the same source on every board. A board has a serial line that implements the traits of
//! `embedded-io-async`, and an executor; see `bin` for two of them.
#![no_std]

use embedded_io_async::{Read, Write};
use pmi_core::command::Version;
use pmi_core::wire::Writer;
use pmi_link::CallError;
use pmi_link::task::AsyncPmi1;

/// The card of a rank, as another one has read it.
#[derive(Clone, Copy, Debug)]
pub struct Card<'a> {
    /// The reader.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// The rank whose card this is.
    pub peer: u32,
    /// Its text.
    pub text: &'a [u8],
}

/// Takes part in a job: puts a card that names the board, and gives those of all ranks to `remember`.
///
/// Shape: `id` is the rank, or the number that `pmi-host pmiid` prints for it. The future may be dropped at
/// any time, as by a time-out.
///
/// # Errors
///
/// Those of the line and of the server.
pub async fn exchange_cards<L: Read + Write>(
    line: L,
    id: u64,
    board: &[u8],
    mut remember: impl FnMut(Card<'_>),
) -> Result<(), CallError<L::Error>> {
    let mut pmi = AsyncPmi1::new(line);
    let me = pmi.greet(id).await?;
    let (rank, size) = (me.rank, me.size);
    pmi.init(Version::V1_1).await?;
    pmi.kvsname().await?;
    let (mut key, mut card) = ([0; 16], [0; 64]);
    let own = numbered(b"card-", rank, b"", &mut key);
    let len = Writer::new(&mut card).bytes(b"rank-").number(rank).bytes(b"@").bytes(board).len();
    pmi.put(own, card.get(..len).unwrap_or(b"")).await?;
    pmi.fence().await?;
    for peer in 0..size {
        let key = numbered(b"card-", peer, b"", &mut key);
        let len = pmi.get(key, &mut card).await?.unwrap_or(0);
        remember(Card { rank, size, peer, text: card.get(..len).unwrap_or(b"") });
    }
    pmi.finalize().await
}

/// Writes a text with a number inside, and returns it; nothing if there is no room for it.
pub fn numbered<'a>(before: &[u8], number: u32, behind: &[u8], out: &'a mut [u8]) -> &'a [u8] {
    let len = Writer::new(out).bytes(before).number(number).bytes(behind).len();
    out.get(..len).unwrap_or(b"")
}
