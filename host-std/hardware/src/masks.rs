//! Variables by which a rank's libraries know its devices and threads.

use crate::memory_first::RankPlace;
use crate::model::NodeHardware;

/// How a rank sees the GPUs of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expose {
    /// Its own only.
    Mask,
    /// All, its own first and then the nearest.
    Order,
    /// All as they are, and a variable that tells which are its own.
    Env,
}

/// The variables of a rank at a place of this node.
pub fn variables(
    hardware: &NodeHardware,
    place: &RankPlace,
    expose: Expose,
    ours: &dyn Fn(&str) -> Option<String>,
) -> Vec<(&'static str, String)> {
    let _ = (hardware, place, expose, ours);
    Vec::new()
}
