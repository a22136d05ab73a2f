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

/// Says whether any child but `guard` is left, after forgetting those that have ended.
///
/// To be asked only when no rank runs any more: it takes the exit codes of all children.
pub fn any_left(guard: Option<Pid>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) if guard.is_some() => return children().any(|pid| Some(pid) != guard),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Sends `signal` to all children there are but `guard`.
pub fn signal(signal: Signal, guard: Option<Pid>) {
    for pid in children().filter(|pid| Some(*pid) != guard) {
        // Not waited for, so the number is still that process's, alive or not.
        let _ = kill_process(pid, signal);
    }
}

fn children() -> impl Iterator<Item = Pid> {
    // The system lists children by the thread that started or took them in; all of ours do so in one.
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let pids: Vec<i32> = children.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    pids.into_iter().filter_map(Pid::from_raw)
}
