//! Ranks that stop at their first instruction, until a debugger attaches or continues them.
//!
//! The [`trampoline`](super::trampoline) asks to be traced ([`prepare`]) and executes the program. The
//! system stops the process behind that exec and reports it to the tracer: the *thread* that has started
//! the process, which alone may detach ([`leave_stopped`]). It does so with `SIGSTOP`, which leaves the
//! process stopped and without a tracer: every debugger that the system permits can attach, and `SIGCONT`
//! continues it.

use crate::launch::plan::directives::DebugHold;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal as NixSignal;
use nix::unistd::Pid as NixPid;
use rustix::io::retry_on_intr;
use rustix::process::{
    PTracer, Pid, Signal, WaitId, WaitIdOptions, kill_process, set_ptracer, waitid,
};

/// Permits debuggers, and requests the stop; both hold across the exec.
pub(super) fn prepare(hold: DebugHold) -> nix::Result<()> {
    if hold != DebugHold::None {
        // A system that knows no such restriction fails here.
        let _ = set_ptracer(PTracer::Any);
    }
    match hold {
        DebugHold::StoppedOnExec => ptrace::traceme(),
        DebugHold::None | DebugHold::Traceable => Ok(()),
    }
}

/// Waits until a process that this thread has started as [`DebugHold::StoppedOnExec`] has executed its
/// program, and leaves it stopped there. No effect on one that has exited before: its exit is handled as that
/// of any rank.
pub(super) fn leave_stopped(pid: Pid) {
    let traced = NixPid::from_raw(pid.as_raw_nonzero().get());
    while let Some(signal) = next_stop(pid) {
        let signal = NixSignal::try_from(signal).ok();
        let done = match signal {
            Some(NixSignal::SIGTRAP) => ptrace::detach(traced, NixSignal::SIGSTOP),
            // One that has arrived before, which it handles as without a tracer.
            other => ptrace::cont(traced, other),
        };
        match done {
            Ok(()) if signal == Some(NixSignal::SIGTRAP) => {
                // It stops as soon as it has a processor. A debugger that attached before would find two
                // stops.
                let _ = next_stop(pid);
                return;
            }
            // It was killed meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(_) => {
                // A process that stays in the hands of this thread could never continue.
                let _ = kill_process(pid, Signal::KILL);
                return;
            }
        }
    }
}

/// Waits until a child stops, and returns the signal; `None` if it has exited, which the launcher still
/// sees.
fn next_stop(pid: Pid) -> Option<i32> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    let status = retry_on_intr(|| waitid(WaitId::Pid(pid), options)).ok().flatten()?;
    status.trapping_signal().or_else(|| status.stopping_signal())
}
