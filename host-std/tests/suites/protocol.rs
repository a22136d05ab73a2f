//! PMI on sockets of all kinds, from friends and others.

#[path = "../common/mod.rs"]
mod common;

#[path = "../bridge.rs"]
mod bridge;
#[path = "../conform.rs"]
mod conform;
#[path = "../dial.rs"]
mod dial;
#[path = "../identity.rs"]
mod identity;
#[path = "../kvs_limits.rs"]
mod kvs_limits;
#[path = "../misbehaviour.rs"]
mod misbehaviour;
#[path = "../pmi_port.rs"]
mod pmi_port;
#[path = "../singleton.rs"]
mod singleton;
#[path = "../spawn.rs"]
mod spawn;
#[path = "../tls.rs"]
mod tls;
#[path = "../unauthenticated.rs"]
mod unauthenticated;
