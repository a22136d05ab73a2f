//! Tools of `pmi-host` beside the launcher: each is one command of that program.
//!
//! ```text
//! conform   checks other launchers and clients
//! replay    one side of a recorded exchange, played again
//! trace     views of a trace, by any recorder
//! doctor    checks of a rank's environment, with any launcher
//! pmix      a PMIx tool: queries, events and control of running jobs
//! bridge    connects a rank behind a serial line to a server
//!
//! import    for trace and replay: traces from the logs of other launchers
//! ```
//!
//! A tool exports the definition of its command line (`define`) and its start (`run`), which returns the
//! exit code. No tool uses the launcher's event loop or its records; replay alone uses another tool, trace,
//! for the files that it reads.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "pmi-host runs on Linux only; pmi-core, pmi-link, pmi-sim and the playground build on this system"
);

pub mod bridge;
mod child;
pub mod conform;
pub mod doctor;
pub mod import;
pub mod pmix;
pub mod replay;
pub mod trace;
