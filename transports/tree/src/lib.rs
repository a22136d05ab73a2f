#![no_std]
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]
//!
//! # Run loop
//!
//! 1. Hand bytes of connections to [`receive`](TreeNode::receive), their ends to
//!    [`disconnected`](TreeNode::disconnected), and the time to
//!    [`handle_timeout`](TreeNode::handle_timeout) when [`poll_timeout`](TreeNode::poll_timeout) is due.
//! 2. Act on all events of [`poll_event`](TreeNode::poll_event).
//! 3. For each peer of [`next_ready`](TreeNode::next_ready), send what
//!    [`transmit`](TreeNode::transmit) returns until that is nothing.
//!
//! # Parts
//!
//! | module | subject |
//! |---|---|
//! | `place` | parents and children, from numbers alone |
//! | `node` | the machine and the calls of its owner |
//! | `edge`, `lane`, `transmit` | framing, queues with credit, the order of frames |
//! | `messages` | messages: numbered, kept until settled, accepted once |
//! | `gather`, `collectives` | contributions up, results down |
//! | `healing`, `head` | loss of edges and nodes |
//! | `growth` | nodes that join later |

extern crate alloc;
#[cfg(test)]
extern crate std;

mod awake;
mod collectives;
mod edge;
mod error;
mod event;
mod gather;
mod growth;
mod head;
mod healing;
mod lane;
mod messages;
mod node;
mod place;
mod source;
mod transmit;

pub use awake::AwakeClock;
pub use collectives::CONTRIBUTION_BYTES_MAX;
pub use error::TreeError;
pub use event::{
    ChildMessage, Class, CloseReason, CollectiveId, Contribution, Destination, EdgeLoss, Silence,
    TreeEvent,
};
pub use growth::TreeStart;
pub use lane::MESSAGE_BYTES_MAX;
pub use node::{TreeConfig, TreeNode};
pub use place::NodeId;

/// Output of one node that may be under way; less gives no throughput on long ways, more only delays a rank
/// whose output is not read.
pub const OUTPUT_BYTES: usize = 256 * 1024;
