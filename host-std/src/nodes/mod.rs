//! Node servers: one on each host of a run, connected as a tree with the launcher as its root, the head.
//!
//! ```text
//! starter    commands that run a node server on another host, and their processes
//! key        key of the run, and what is derived from it
//! handshake  mutual proof of a key                        > record   encrypted content, by pmi-host-noise
//! edge       socket, handshake and records of one connection; peer_host: whether its other host answers
//! greeting   messages of a connection before it is an edge of the tree
//! network    listener, places, edges, and the machine of the tree
//! start      starters and network of the head, until all nodes are in the tree
//! failed_host  hosts without a node server
//! node       the command of the node server
//! message    messages between the head and its nodes; job_message: the job;
//!            spawn_message: spawned jobs; node_report: state of its ranks
//! stage      programs that the head sends to the hosts
//! awake      clock that stands still while this process is stopped
//! clock      difference between the clocks of two nodes
//! check      'pmi-host doctor --hosts'
//! relay      connections of a host that does not reach the head, over the pipes of its starter
//! names      server of published names for several launchers
//! addresses  addresses and ports of this machine
//! ```

mod addresses;
mod awake;
pub(crate) mod check;
mod check_program;
pub(crate) mod clock;
mod edge;
pub(crate) mod failed_host;
pub(crate) mod greeting;
mod growth;
mod handshake;
pub(crate) mod job_message;
mod key;
pub(crate) mod message;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod node_report;
mod peer_host;
mod record;
mod relay;
pub(crate) mod spawn_message;
pub(crate) mod stage;
pub(crate) mod start;
mod start_progress;
pub(crate) mod starter;
