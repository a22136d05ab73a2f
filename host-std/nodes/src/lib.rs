//! Node servers: one on each host of a run, connected as a tree with the launcher as its root, the head.
//!
//! ```text
//! settings   how node servers are started, and how they connect
//! starter    commands that run a node server on another host, and their processes
//! key        key of the run, and what is derived from it
//! handshake  mutual proof of a key                        > record   encrypted content, by pmi-host-noise
//! edge       socket, handshake and records of one connection; peer_host: whether its other host answers
//! greeting   messages of a connection before it is an edge of the tree; resources: what a node offers
//! network    listener, places, edges, and the machine of the tree
//! start      starters and network of the head, until all nodes are in the tree; hosts that are added
//! failed_host  hosts without a node server
//! node       the command of the node server
//! stage      programs that the head sends to the hosts
//! awake      clock that stands still while this process is stopped
//! clock      difference between the clocks of two nodes
//! check      'pmi-host doctor --hosts'
//! relay      connections of a host that does not reach the head, over the pipes of its starter
//! addresses  addresses and ports of this machine
//! ```
//!
//! Messages between a run and its nodes are bytes here: `pmi-host` knows their meaning, and serves the ranks.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "pmi-host runs on Linux only; pmi-core, pmi-link, pmi-sim and the playground build on this system"
);

mod addresses;
mod awake;
pub mod check;
mod check_program;
pub mod clock;
pub mod edge;
pub mod failed_host;
pub mod greeting;
pub mod handshake;
pub mod key;
pub mod network;
pub mod node;
mod peer_host;
pub mod record;
mod relay;
pub mod resources;
pub mod settings;
pub mod stage;
pub mod start;
pub mod starter;
