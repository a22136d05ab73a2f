//! A sequence diagram: a lane for the server and one for each rank, an arrow for each message, a
//! bar for each fence.
//!
//! Time goes down, in steps and not to scale: long exchanges are labelled with their duration.
//! Ranks with the same request in succession share a step. A rank that waits in a fence has a
//! stripe down its lane, which ends in the bar of the fence; a stripe without an end is a rank that
//! was never released. Light and dark follow the reader's choice, and every mark has a tooltip.

mod draw;
mod steps;

use crate::record::Trace;
use draw::Drawing;
use steps::Steps;

/// Parts of the diagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SvgOptions {
    /// Only these ranks, if any are given.
    pub ranks: Vec<u32>,
}

/// Draws a trace.
///
/// Shape: at most [`LANES_MAX`] ranks and [`STEPS_MAX`] steps; a line at the foot lists the
/// omissions.
pub fn write(trace: &Trace, options: &SvgOptions) -> String {
    Drawing::new(trace, &Steps::of(trace, options)).finish()
}

/// Largest number of ranks with a lane of their own.
pub const LANES_MAX: usize = 64;

/// Largest number of steps in a diagram.
pub const STEPS_MAX: usize = 1000;
