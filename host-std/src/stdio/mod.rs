//! Forwarding between the pipes of ranks and the launcher's own standard streams.
//!
//! ```text
//! outputs     pipes of all ranks, and the way of text from them to places
//! places      the launcher's streams, and files: one for each rank or for several
//! lines       input bytes, cut into whole lines
//! label       text in front of a line, from a pattern
//! collapse    equal lines of several sources, merged
//! gather      ... of the ranks of this process, on their way to a place
//! outlet      one destination of lines, with a queue
//! files       opens files before anything starts
//! inputs      readers of standard input; feed, source: several readers
//! pty         a terminal for one rank
//! record      output of ranks on its way from another node
//! merge       ... of several nodes, on their way to the node above; record_queue: sends them
//! ```
//!
//! Every destination guarantees: lines are whole, those of one rank come in the order in which it wrote
//! them, nothing is added to them but requested labels, and nothing is kept in memory that could as well
//! wait in the rank. Only input that a rank has read is taken from standard input.

pub(crate) mod collapse;
pub(crate) mod feed;
pub(crate) mod files;
pub(crate) mod forward;
pub(crate) mod gather;
pub(crate) mod inputs;
pub(crate) mod interrupt_keys;
pub(crate) mod label;
pub(crate) mod line_buffer;
pub(crate) mod merge;
pub(crate) mod outlet;
pub(crate) mod outputs;
pub(crate) mod pattern;
pub(crate) mod places;
pub(crate) mod pty;
pub(crate) mod pushed;
pub(crate) mod record;
pub(crate) mod record_queue;
pub(crate) mod source;

/// Job and rank, as patterns use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamOwner {
    /// The number of its job; 0 for the first.
    pub(crate) group: u32,
    /// Its rank there.
    pub(crate) rank: u32,
}
