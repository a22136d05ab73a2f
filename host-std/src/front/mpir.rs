//! The MPIR process acquisition interface, by which debuggers find the ranks of a job.
//!
//! A debugger that starts the launcher sets [`MPIR_being_debugged`], and a breakpoint at
//! [`MPIR_Breakpoint`]. The launcher starts all ranks before it serves any of them, so that each waits
//! for the response to its first request; then it fills the table and calls that function. When the
//! debugger lets it return, the ranks are served. One that attaches to a running launcher reads the table
//! at any time.
//!
//! Spec: The MPIR Process Acquisition Interface, version 1.1.
#![allow(unsafe_code, reason = "a debugger reads and writes these variables by their names")]
#![allow(non_upper_case_globals, non_snake_case, reason = "the specification gives the names")]

use crate::run::PartProcesses;
use std::ffi::{CString, c_char, c_int};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A process of the job, in the layout of the specification's `MPIR_PROCDESC`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ProcessDescriptor {
    host_name: *const c_char,
    executable_name: *const c_char,
    pid: c_int,
}

/// 1 if a debugger has started the launcher; the debugger sets it.
#[unsafe(no_mangle)]
pub(crate) static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);

/// State of the job: 0 before its start, 1 when all ranks were started, 2 if it was aborted.
#[unsafe(no_mangle)]
pub(crate) static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);

/// The processes of the job, in the order of ranks.
#[unsafe(no_mangle)]
pub(crate) static MPIR_proctable: AtomicPtr<ProcessDescriptor> = AtomicPtr::new(ptr::null_mut());

/// Length of the table.
#[unsafe(no_mangle)]
pub(crate) static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);

/// Shows that ranks need no signal to continue: they continue with the launcher.
#[unsafe(no_mangle)]
pub(crate) static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Called when the debugger has something to do; it sets a breakpoint here.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn MPIR_Breakpoint() {
    // The function keeps a body of its own, and is called.
    black_box(&MPIR_debug_state);
}

/// True if a debugger has started the launcher.
pub(crate) fn is_being_debugged() -> bool {
    MPIR_being_debugged.load(Ordering::Relaxed) != 0
}

/// Publishes the processes of the job, and lets the debugger stop the launcher, if one has started it.
pub(crate) fn publish(parts: &[PartProcesses]) {
    let text = |text: &str| CString::new(text).unwrap_or_default().into_raw().cast_const();
    let mut table = Vec::new();
    for part in parts {
        let (host_name, executable_name) = (text(&part.host), text(&part.program));
        let of_part = part.pids.iter();
        table.extend(of_part.map(|pid| ProcessDescriptor {
            host_name,
            executable_name,
            pid: *pid,
        }));
    }
    MPIR_proctable_size
        .store(c_int::try_from(table.len()).unwrap_or(c_int::MAX), Ordering::Relaxed);
    // A debugger may read it as long as the process exists, so it is never freed.
    MPIR_proctable.store(Vec::leak(table).as_mut_ptr(), Ordering::Release);
    enter(SPAWNED);
}

/// Lets the debugger know that the job was aborted.
pub(crate) fn abort() {
    enter(ABORTING);
}

fn enter(state: c_int) {
    MPIR_debug_state.store(state, Ordering::Release);
    if is_being_debugged() {
        MPIR_Breakpoint();
    }
}

/// `MPIR_DEBUG_SPAWNED`.
const SPAWNED: c_int = 1;

/// `MPIR_DEBUG_ABORTING`.
const ABORTING: c_int = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn table_has_the_processes_in_the_order_of_ranks() {
        let part = |host: &str, program: &str, pids: &[i32]| PartProcesses {
            host: host.to_owned(),
            program: program.to_owned(),
            pids: pids.to_vec(),
        };
        publish(&[part("here", "./a", &[7]), part("there", "./b", &[9, 8])]);
        assert_eq!(MPIR_debug_state.load(Ordering::Relaxed), SPAWNED);
        let len = usize::try_from(MPIR_proctable_size.load(Ordering::Relaxed)).unwrap();
        // SAFETY: the table has that length, and is never freed.
        let table =
            unsafe { std::slice::from_raw_parts(MPIR_proctable.load(Ordering::Relaxed), len) };
        let rows = table.iter().map(|row| {
            // SAFETY: both are C strings that are never freed.
            let [host, program] =
                [row.host_name, row.executable_name].map(|text| unsafe { CStr::from_ptr(text) });
            (host.to_str().unwrap(), program.to_str().unwrap(), row.pid)
        });
        assert!(rows.eq([("here", "./a", 7), ("there", "./b", 9), ("there", "./b", 8)]));
        abort();
        assert_eq!(MPIR_debug_state.load(Ordering::Relaxed), ABORTING);
    }
}
