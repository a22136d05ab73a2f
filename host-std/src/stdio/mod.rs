//! Standard streams of ranks, between their pipes and our own.
//!
//! ```text
//! outputs     pipes of all ranks, and how text gets from them to places
//! places      our own streams, and files: one for each rank or for several
//! lines       what was read, cut into whole lines
//! label       what stands in front of a line, from a pattern
//! gather      lines that several ranks write alike, written once; collapse: how they find each other
//! outlet      one place where lines go, with what waits for it; target: how to write there
//! files       opens files before anything starts
//! inputs      who reads our standard input; feed, source: how several do
//! pty         a terminal for one rank; console: our own meanwhile
//! ```
//!
//! What holds for every place: lines are whole, those of one rank come in the order in which it wrote
//! them, nothing is added to them but what was asked for, and nothing is kept in memory that could as well
//! wait in the rank. Of our input nothing is taken that no rank has read.

pub mod collapse;
pub mod console;
pub mod feed;
pub mod files;
pub mod gather;
pub mod inputs;
pub mod label;
pub mod lines;
pub mod outlet;
pub mod outputs;
pub mod pattern;
pub mod places;
pub mod pty;
pub mod source;
pub mod target;

/// A number as a place in a table, which is smaller than the number of things in it.
pub fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A place in a table of processes as their number.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Where a rank stands: what a pattern can say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// The number of its job; 0 for the first.
    pub group: u32,
    /// Its number there.
    pub rank: u32,
}
