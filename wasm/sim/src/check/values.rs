//! A get sees every put that lies before it, and nothing that was overwritten.
//!
//! "Before" is an order that ranks make among themselves: what a rank did comes before what it does
//! next, and what a rank did before it entered a fence comes before what others do after they left
//! it. Each rank carries a clock of how many puts of every rank lie before it.

use super::fences::{FenceId, Passage};
use super::{Census, Found};
use crate::note::{Got, Note};
use crate::scenario::Ask;
use litemap::LiteMap;

/// What was put, published and asked for.
#[derive(Clone, Debug)]
pub(super) struct Values {
    clocks: Vec<Clock>,
    /// What lies before those who leave a fence.
    fences: LiteMap<FenceId, Clock>,
    puts: LiteMap<Vec<u8>, Vec<Put>>,
    names: LiteMap<Vec<u8>, Name>,
    /// What lay before a question when it was asked: by rank and number.
    asked: LiteMap<(u32, u32), Clock>,
    /// Lookups that were asked when the name was there.
    sure: LiteMap<(u32, u32), ()>,
}

/// How many puts of each rank lie before.
type Clock = Vec<u32>;

/// A put.
#[derive(Clone, Debug)]
struct Put {
    rank: u32,
    number: u32,
    value: Vec<u8>,
    /// The how manieth answered put of its rank, from 1.
    index: Option<u32>,
    /// What lay before it.
    clock: Clock,
}

/// A service: what was published under it, and whether it is surely there.
#[derive(Clone, Debug, Default)]
struct Name {
    ports: Vec<Vec<u8>>,
    is_published: bool,
    was_unpublished: bool,
}

impl Values {
    pub(super) fn new(ranks: u32) -> Self {
        let ranks = usize::try_from(ranks).unwrap_or(0);
        Self {
            clocks: vec![vec![0; ranks]; ranks],
            fences: LiteMap::new(),
            puts: LiteMap::new(),
            names: LiteMap::new(),
            asked: LiteMap::new(),
            sure: LiteMap::new(),
        }
    }

    pub(super) fn observe(
        &mut self,
        note: &Note,
        passage: Option<Passage>,
        census: &Census,
        found: &mut Vec<Found>,
    ) {
        match note {
            Note::Asked { rank, number, ask } => {
                self.ask(*rank, *number, ask);
                if let Some(Passage::Entered(id)) = passage {
                    let clock = self.clocks[index(*rank)].clone();
                    join(self.fences.entry(id).or_insert_with(|| vec![0; clock.len()]), &clock);
                }
            }
            Note::Answered { rank, number, ask, got } => {
                if let Some(Passage::Left(id)) = passage
                    && let Some(clock) = self.fences.get(&id)
                {
                    join(&mut self.clocks[index(*rank)], clock);
                }
                self.answer((*rank, *number), ask, got, census, found);
            }
            _ => {}
        }
    }

    fn ask(&mut self, rank: u32, number: u32, ask: &Ask) {
        let clock = self.clocks[index(rank)].clone();
        match ask {
            Ask::Put { node: false, key, value } => {
                let put = Put { rank, number, value: value.clone(), index: None, clock };
                self.puts.entry(key.clone()).or_default().push(put);
            }
            Ask::Get { node: false, .. } => {
                self.asked.insert((rank, number), clock);
            }
            Ask::Publish { service, port } => {
                self.names.entry(service.clone()).or_default().ports.push(port.clone());
            }
            Ask::Unpublish { service } => {
                self.names.entry(service.clone()).or_default().was_unpublished = true;
            }
            Ask::Lookup { service, .. } if self.is_sure(service) => {
                self.sure.insert((rank, number), ());
            }
            _ => {}
        }
    }

    fn answer(
        &mut self,
        (rank, number): (u32, u32),
        ask: &Ask,
        got: &Got,
        census: &Census,
        found: &mut Vec<Found>,
    ) {
        match ask {
            Ask::Put { node: false, key, .. } => {
                let own = |put: &Put| put.rank == rank && put.number == number;
                let Some(puts) = self.puts.get_mut(key) else { return };
                // Whoever hears changed bytes does not know what became of its put.
                if census.of(rank).is_tainted() {
                    return;
                }
                if !got.is_success() {
                    puts.retain(|put| !own(put));
                } else if let Some(put) = puts.iter_mut().find(|put| own(put)) {
                    let clock = &mut self.clocks[index(rank)][index(rank)];
                    *clock += 1;
                    put.index = Some(*clock);
                }
            }
            Ask::Get { node: false, key, .. } => {
                let Some(clock) = self.asked.remove(&(rank, number)) else { return };
                // What the process manager says itself is not put by anybody.
                if key.starts_with(b"PMI_") || census.of(rank).is_tainted() {
                    return;
                }
                found.extend(self.judge(rank, key, &clock, got, census));
            }
            Ask::Publish { service, .. } if got.is_success() => {
                self.names.entry(service.clone()).or_default().is_published = true;
            }
            Ask::Lookup { service, .. } if !census.of(rank).is_tainted() => {
                let is_sure = self.sure.remove(&(rank, number)).is_some();
                found.extend(self.judge_name(rank, service, is_sure, got, census));
            }
            _ => {}
        }
    }

    fn judge(
        &self,
        rank: u32,
        key: &[u8],
        before: &Clock,
        got: &Got,
        census: &Census,
    ) -> Option<Found> {
        let puts = self.puts.get(key).map_or(&[][..], |puts| puts);
        // Bytes that were changed on their way may have become anything.
        let lies_before = |put: &Put, clock: &Clock| {
            let counts = census.of(put.rank).speaks_true();
            counts && put.index.is_some_and(|index| clock[self::index(put.rank)] >= index)
        };
        let mut sure = puts.iter().filter(|put| lies_before(put, before));
        let text = key.escape_ascii();
        let Some(value) = got.value() else {
            let lost = sure.next()?;
            let (by, value) = (lost.rank, lost.value.escape_ascii());
            return Some((
                "value",
                format!(
                    "rank {rank} did not find `{text}`, which rank {by} had put before as `{value}`"
                ),
            ));
        };
        let is_over = |put: &Put| {
            let mut later = puts.iter().filter(|later| lies_before(later, before));
            later.any(|later| lies_before(put, &later.clock))
        };
        let is_fine = puts.iter().any(|put| put.value == value && !is_over(put));
        let value = value.escape_ascii();
        let what =
            format!("rank {rank} found `{value}` under `{text}`, which nobody can have put there");
        (!is_fine && !census.is_wild).then_some(("value", what))
    }

    fn is_sure(&self, service: &[u8]) -> bool {
        self.names.get(service).is_some_and(|name| name.is_published && !name.was_unpublished)
    }

    fn judge_name(
        &self,
        rank: u32,
        service: &[u8],
        is_sure: bool,
        got: &Got,
        census: &Census,
    ) -> Option<Found> {
        if census.is_wild {
            return None;
        }
        let text = service.escape_ascii();
        let Some(port) = got.value() else {
            let is_lost = is_sure && self.is_sure(service);
            let what = format!("rank {rank} did not find service `{text}`, which was published");
            return is_lost.then_some(("name", what));
        };
        let ports = self.names.get(service).map_or(&[][..], |name| &name.ports);
        let what = format!("rank {rank} found `{}` for service `{text}`", port.escape_ascii());
        (!ports.iter().any(|known| known == port)).then_some(("name", what))
    }
}

fn join(into: &mut Clock, other: &Clock) {
    into.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

fn index(rank: u32) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}
