//! Ends of runs: exit codes, signals, what is left.

#[path = "../common/mod.rs"]
mod common;

#[path = "../cleanup.rs"]
mod cleanup;
#[path = "../ending.rs"]
mod ending;
#[path = "../exhaustion.rs"]
mod exhaustion;
#[path = "../exit_codes.rs"]
mod exit_codes;
#[path = "../leftovers.rs"]
mod leftovers;
#[path = "../stops.rs"]
mod stops;
