//! State of runs: what people watch, and reports of ranks that wait; apart from suites that keep processors
//! busy.

#[path = "../common/mod.rs"]
mod common;

#[path = "../ps.rs"]
mod ps;
#[path = "../stack.rs"]
mod stack;
#[path = "../stalls.rs"]
mod stalls;
#[path = "../topology.rs"]
mod topology;
#[path = "../trace.rs"]
mod trace;
#[path = "../watch.rs"]
mod watch;
