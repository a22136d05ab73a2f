//! Places of ranks for people: a table, and a picture.

use crate::memory_first::RankPlace;
use crate::model::NodeHardware;

/// A rank, and its place.
#[derive(Clone, Debug)]
pub struct PlacedRank<'a> {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: &'a str,
    /// Hardware of the host.
    pub hardware: &'a NodeHardware,
    /// The place.
    pub place: RankPlace,
}

/// A table with a line for each rank: host, memory domains, cores, threads and devices.
pub fn table(ranks: &[PlacedRank<'_>]) -> String {
    let _ = ranks;
    String::new()
}

/// A picture: the processors, domains and devices of each host, each with its ranks.
pub fn svg(ranks: &[PlacedRank<'_>]) -> String {
    let _ = ranks;
    String::new()
}
