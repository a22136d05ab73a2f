//! Rule: a get sees every put that happened before it, and no overwritten value.
//!
//! "Before" is an order that ranks make among themselves: what a rank did comes before what it does
//! next, and what a rank did before it entered a fence comes before what others do after they left
//! it. Each rank carries a clock of how many puts of every rank lie before it.

use super::clocks::{Clock, Clocks, join};
use super::fences::Passage;
use super::jobs::{ConnectionState, JobRules};
use super::{Census, Finding};
use crate::event::{Received, SimEvent};
use crate::ranks::index;
use crate::scenario::{RankRequest, Scenario};
use litemap::LiteMap;

/// Puts and gets.
#[derive(Clone, Debug)]
pub(super) struct Values {
    clocks: Clocks,
    /// Clock of all ranks that have left a fence of a job.
    shown: Vec<Clock>,
    /// By job and key.
    puts: LiteMap<(usize, Vec<u8>), Vec<Put>>,
    /// Spawns that were requested and not refused.
    spawns: Vec<Spawn>,
    /// Gets without an answer, by rank and number.
    asked: LiteMap<(u32, u32), PendingGet>,
}

/// A spawn, and the preput values of its job.
#[derive(Clone, Debug)]
struct Spawn {
    rank: u32,
    number: u32,
    job: String,
    preputs: Pairs,
}

/// Keys and their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A pending get, as of its request.
#[derive(Clone, Debug)]
struct PendingGet {
    /// Job of the key-value space.
    job: usize,
    /// Its clock.
    clock: Clock,
    /// For another job, the state of the connection to it.
    reach: Option<ConnectionState>,
}

/// A put.
#[derive(Clone, Debug)]
struct Put {
    rank: u32,
    number: u32,
    value: Vec<u8>,
    /// 1-based index among the rank's acknowledged puts.
    index: Option<u32>,
    /// Its clock.
    clock: Clock,
    /// True if it is a preput of the job.
    is_first: bool,
}

impl Values {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let ranks = usize::try_from(scenario.ranks).unwrap_or(0);
        Self {
            clocks: Clocks::new(scenario.ranks),
            shown: vec![vec![0; ranks]; scenario.all_jobs().count()],
            puts: LiteMap::new(),
            spawns: Vec::new(),
            asked: LiteMap::new(),
        }
    }

    pub(super) fn observe(
        &mut self,
        event: &SimEvent,
        passage: Option<Passage>,
        (census, jobs): (&Census, &JobRules),
        found: &mut Vec<Finding>,
    ) {
        match event {
            SimEvent::Asked { rank, number, ask } => {
                self.ask(*rank, *number, ask, jobs);
                self.clocks.pass(*rank, passage);
            }
            SimEvent::Answered { rank, number, ask, got } => {
                if let Some(clock) = self.clocks.pass(*rank, passage) {
                    join(&mut self.shown[jobs.of(*rank)], clock);
                }
                self.answer((*rank, *number), ask, got, (census, jobs), found);
            }
            SimEvent::Spawned { rank, job } => self.begin(*rank, job, jobs),
            _ => {}
        }
    }

    fn ask(&mut self, rank: u32, number: u32, ask: &RankRequest, jobs: &JobRules) {
        let clock = self.clocks.of(rank).clone();
        match ask {
            RankRequest::Put { node: false, key, value } => {
                let (value, index) = (value.clone(), None);
                let put = Put { rank, number, value, index, clock, is_first: false };
                self.puts.entry((jobs.of(rank), key.clone())).or_default().push(put);
            }
            RankRequest::Get { node: false, of, .. } => {
                let own = jobs.of(rank);
                let job = of.as_ref().map_or(Some(own), |name| jobs.named(name));
                let Some(job) = job else { return };
                let asked = match job == own {
                    true => PendingGet { job, clock, reach: None },
                    false => PendingGet {
                        job,
                        clock: self.shown[job].clone(),
                        reach: Some(jobs.reach(rank, job)),
                    },
                };
                self.asked.insert((rank, number), asked);
            }
            RankRequest::Spawn { job, preputs, .. } => {
                let (job, preputs) = (job.clone(), preputs.clone());
                self.spawns.push(Spawn { rank, number, job, preputs });
            }
            _ => {}
        }
    }

    /// Starts a job with its preput values.
    fn begin(&mut self, rank: u32, job: &str, jobs: &JobRules) {
        let at = self.spawns.iter().position(|spawn| spawn.rank == rank && spawn.job == job);
        let (Some(at), Some(job)) = (at, jobs.named(job)) else { return };
        let Spawn { preputs, .. } = self.spawns.remove(at);
        for (key, value) in preputs {
            let clock = vec![0; self.shown[job].len()];
            let put = Put { rank, number: 0, value, index: None, clock, is_first: true };
            self.puts.entry((job, key)).or_default().push(put);
        }
    }

    fn answer(
        &mut self,
        (rank, number): (u32, u32),
        ask: &RankRequest,
        got: &Received,
        (census, jobs): (&Census, &JobRules),
        found: &mut Vec<Finding>,
    ) {
        match ask {
            RankRequest::Put { node: false, key, .. } => {
                let own = |put: &Put| put.rank == rank && put.number == number && !put.is_first;
                let Some(puts) = self.puts.get_mut(&(jobs.of(rank), key.clone())) else { return };
                // A rank that receives changed bytes does not know the result of its put.
                if census.of(rank).is_tainted() {
                    return;
                }
                if !got.is_success() {
                    puts.retain(|put| !own(put));
                } else if let Some(put) = puts.iter_mut().find(|put| own(put)) {
                    let clock = self.clocks.own(rank);
                    *clock += 1;
                    put.index = Some(*clock);
                }
            }
            RankRequest::Spawn { .. } if !got.is_success() => {
                self.spawns.retain(|spawn| (spawn.rank, spawn.number) != (rank, number));
            }
            RankRequest::Get { node: false, key, .. } => {
                let Some(asked) = self.asked.remove(&(rank, number)) else { return };
                // Values of the process manager have no put.
                if key.starts_with(b"PMI_") || census.of(rank).is_tainted() {
                    return;
                }
                let PendingGet { job, clock, reach } = asked;
                let found_now = match reach.map(|then| (then, jobs.reach(rank, job))) {
                    Some((then, now)) if got.value().is_some() && !then.may_be_until(now) => {
                        let (key, job) = (key.escape_ascii(), jobs.name(job));
                        let what =
                            format!("rank {rank} read `{key}` of {job}, which is not connected");
                        (!census.is_wild).then_some(("apart", what))
                    }
                    // The state of the connection is uncertain.
                    Some((then, now)) if got.value().is_none() && !then.is_sure_until(now) => None,
                    _ => self.judge(rank, (job, key), &clock, got, census),
                };
                found.extend(found_now);
            }
            _ => {}
        }
    }

    fn judge(
        &self,
        rank: u32,
        (job, key): (usize, &[u8]),
        before: &Clock,
        got: &Received,
        census: &Census,
    ) -> Option<Finding> {
        let puts = self.puts.get(&(job, key.to_vec())).map_or(&[][..], |puts| puts);
        // Bytes that were changed in transit may have any content.
        let lies_before = |put: &Put, clock: &Clock| {
            let counts = census.of(put.rank).speaks_true();
            let is_in = |index| clock[self::index(put.rank)] >= index;
            counts && (put.is_first || put.index.is_some_and(is_in))
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
            later.any(|later| !std::ptr::eq(put, later) && lies_before(put, &later.clock))
        };
        let is_fine = puts.iter().any(|put| put.value == value && !is_over(put));
        let value = value.escape_ascii();
        let what =
            format!("rank {rank} found `{value}` under `{text}`, which no rank can have put");
        (!is_fine && !census.is_wild).then_some(("value", what))
    }
}
