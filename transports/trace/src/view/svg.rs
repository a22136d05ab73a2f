//! A sequence diagram: a lane for the server and one for each rank, an arrow for each message, a bar for
//! each fence.
//!
//! Time goes down, in steps and not to scale: what takes long says how long. Ranks that ask the same one
//! after the other share a step. A rank that waits in a fence has a stripe down its lane, which ends in the
//! bar of the fence; a stripe that ends nowhere is a rank that was never let out. Light and dark follow the
//! reader's choice, and every mark says what it is when it is pointed at.

mod draw;
mod steps;

use crate::record::Trace;
use draw::Drawing;
use steps::Steps;

/// What is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only these ranks, if any are given.
    pub ranks: Vec<u32>,
}

/// Draws a trace.
///
/// Shape: at most [`LANES_MAX`] ranks and [`STEPS_MAX`] steps; what is left out is said at the foot.
pub fn write(trace: &Trace, options: &Options) -> String {
    Drawing::new(trace, &Steps::of(trace, options)).finish()
}

/// Number of ranks have a lane of their own.
pub const LANES_MAX: usize = 64;

/// Number of steps are drawn; a picture that is longer helps nobody.
pub const STEPS_MAX: usize = 1000;
