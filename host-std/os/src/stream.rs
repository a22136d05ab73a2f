//! The standard streams of a process: their names, and the descriptors that a rank starts with.

use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::ffi::CString;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Both, in the order of their descriptors.
    pub const BOTH: [Self; 2] = [Self::Out, Self::Err];

    /// 0 or 1: index in tables with one entry per stream.
    pub const fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }
}

/// Standard streams that a rank starts with.
#[derive(Debug)]
pub enum Streams {
    /// Pipes for output; this descriptor, or the null device, for input.
    Pipes(Option<OwnedFd>),
    /// The terminal with this name.
    Terminal(CString),
}
