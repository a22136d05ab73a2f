//! The tree of nodes in a world of its own: real [`TreeNode`](pmi_tree::TreeNode)s, simulated connections,
//! faults and time. Ranks are counts and bytes.
//!
//! | rule | meaning |
//! |---|---|
//! | `early` | no operation ends before all nodes that are not excluded have contributed |
//! | `data` | a result has the contribution of each such node once, unchanged, and its members |
//! | `same` | all nodes receive the same results in the same order |
//! | `waits` | every living node receives all results; it does not wait for lost ones |
//! | `named` | a lost node is reported by the head |
//! | `blamed` | no other node is, as long as there is but one fault; one that is only stopped never is |
//! | `paused` | the process of a node is silent for another one only while it is stopped, and its host only while it is cut off |
//! | `orphan` | a living node is attached in the end, or knows that it is not; it takes the head for lost only if it is |
//! | `once` | messages arrive once and in order, and none between living nodes is missing |
//! | `frames` | no node sends what another one refuses |
//! | `traffic` | without faults, frames and bytes of a node stay within the formula |
//!
//! The checker sees contributions, messages, events and bytes on connections, and no state of a node.

mod check;
mod connection;
mod mutant;
mod plan;
mod queue;
mod record;
mod scale;
mod scenario;
mod sweep;
mod world;

pub use check::{Traffic, TreeChecks};
pub use mutant::TreeMutant;
pub use plan::{Talk, TreeFault, TreePlan};
pub use pmi_tree::NodeId;
pub use record::{TreeEdgeWay, TreeEntry, TreeNodeLife, TreeNodeView, TreeRecord};
pub use scale::{TreeCost, TreeLinks, cost, fence_micros, memory_bytes};
pub use scenario::TreeScenario;
pub use sweep::{TreeRun, TreeSummary, run, sweep};
pub use world::TreeWorld;
