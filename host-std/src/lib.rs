//! Starts the ranks of an MPI program on this machine and serves them PMI.
//!
//! ```text
//! main        exit codes only
//! front       once in a process: commands, one row for each, with help, completions and man pages; the loop
//!             of a launcher (served_run) with its signals, terminal, standard input, debugger and last lines
//! cli         options (the table) > args, mpiexec (parsers) > layers (variables, file) > config (resolved)
//! settings    user settings, in groups of plain values
//! placement   hosts, allocations of batch systems, the node of every rank
//! run         jobs of a launcher: spawn, failure, exit code, tables, output, tools, trace
//! node        ranks of a host: processes, streams, the server that they speak to
//! link        all that passes between a run and its nodes, and the messages
//! listeners   for ranks that connect by themselves, for PMIx clients, for pages
//! requests    requests of PMIx clients that run and node answer alike
//! launch      topology, cleanup, plan, environment, start; preview, signal
//! io          all streams of a run or a node; delivery: the time that readers get at the end
//! stdio       input and output of ranks: lines, labels, files, outputs
//! server      service (the protocol server and its links), event
//! names       server of published names for several launchers
//! operation   messages about operations of ranks on several nodes
//! control     status queries to a running launcher: 'pmi-host ps'
//! watch       state of a run: running ranks, waiting ranks, runs without progress
//! trace       the last messages in memory, all of them in a file
//! run_report  end of every rank, for users and for programs
//! verdict     outcome of a job: rules without system calls; termination: the first failure, interrupts
//! report      every message of this program
//! demo_rank   the built-in client that runs when no program is named
//! ```
//!
//! Node servers on hosts are in `pmi-nodes`, and what the launcher asks of Linux is in `pmi-host-os`.
//!
//! One thread, one readiness loop. It never blocks on a rank, a client or a reader of the output: each
//! descriptor is used only when the poller reports it ready. Regular files have no readiness, so a trace
//! file is written by a thread of its own.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "pmi-host runs on Linux only; pmi-core, pmi-link, pmi-sim and the playground build on this system"
);

mod cli;
mod control;
mod demo_rank;
mod front;
mod install;
mod io;
mod launch;
mod link;
mod listeners;
mod names;
mod node;
mod numbers;
mod operation;
mod other_runs;
mod placement;
mod rank_sets;
mod report;
mod requests;
mod run;
mod run_report;
mod server;
mod settings;
mod stdio;
mod termination;
mod trace;
mod verdict;
mod watch;
mod web;

pub use front::main;
// For readers of the status that `pmi-host ps --json` prints.
pub use pmi_host_base::ranges::Ranks;
pub use watch::process::State;
pub use watch::table;
// For `benches/trace.rs`.
pub use settings::Tracing;
pub use trace::{TraceSource, Tracer};
