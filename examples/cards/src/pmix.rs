//! The same rank over PMIx, under any launcher that speaks it: `pmi-host run --pmi x -n 4 cards pmix`,
//! `mpirun -n 4 cards pmix`.

use pmi_std::pmix::{self, Datum, Scope};
use std::error::Error;

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let mut pmix = pmix::connect()?.ok_or("no PMIx launcher has started this process")?;
    let (rank, size) = (pmix.rank(), pmix.size());
    pmix.put(Scope::Global, b"card", Datum::Text(super::card_of(rank).as_bytes()))?;
    pmix.commit()?;
    pmix.fence()?;
    for peer in 0..size {
        let card = pmix.get(peer, b"card")?.and_then(|value| value.text());
        super::print(rank, size, peer, card.ok_or("a card is missing")?);
    }
    Ok(pmix.finalize()?)
}
