//! Processes that ranks leave behind when a job is ended by force.
//!
//! A rank is often a script, and ending the script does not end the program it runs. While a failed
//! job is taken down this process therefore takes in what its ranks leave (it becomes their
//! "subreaper"), and ends those too. A job that ends well is none of its business.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use std::fs;

/// From now on children of ranks that end become our children.
pub fn take_in() {
    // Kernels before 3.4 cannot; such orphans then go to the system's first process, as ever.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Says whether any child is left, after forgetting those that have ended.
///
/// To be asked only when no rank runs any more: it takes the exit codes of all children.
pub fn any_left() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Sends `signal` to all children there are.
pub fn signal(signal: Signal) {
    // The system lists children by the thread that started or took them in; this process has one.
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|word| word.parse().ok());
    for pid in pids.filter_map(Pid::from_raw) {
        // Not waited for, so the number is still that process's, alive or not.
        let _ = kill_process(pid, signal);
    }
}
