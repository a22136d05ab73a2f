//! The step between the launcher and a rank in the launcher's process group, or one that a debugger controls.
//!
//! `posix_spawn` lends the memory of this process to the child and waits inside the system until the
//! child has become another program. Ctrl-Z, and reading or writing a terminal from the background, stop
//! a whole process group. Were the child stopped before the exec, this process would wait for it and
//! could neither stop itself, as the shell expects, nor be continued or terminated.
//!
//! Ranks in sessions of their own are out of reach of these signals, and ranks that share the launcher's
//! session discard them: see [`child_start`](super::child_start). The rank that reads the launcher's
//! terminal must not, so its stop signals are blocked across the exec. The exec keeps the mask, and the rank
//! has to run with the mask of its user, so the first program is this one: it restores the mask and becomes
//! the rank. A pending signal then stops a process for which no other process waits. A rank with a process
//! group of its own, which a debugger controls, discards it: the signal was for the launcher's group, and the
//! one that continues that group would not reach the rank.
//!
//! A rank that a debugger controls permits that to all processes of its user ([`DebugHold::Traceable`]):
//! where the system restricts debuggers to ancestors (`kernel.yama.ptrace_scope` is 1), a daemon of a
//! debugger is none. One that stops on exec asks its parent to trace it, too: see
//! [`exec_stop`](super::exec_stop).

use super::child_start;
use super::exec_stop;
use super::script;
use super::start_error::{explained, start_code};
use crate::launch::plan::directives::DebugHold;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{execv, getpgrp, getpid};
use pmi_host_base::exit::complain;
use pmi_host_os::host_name;
use signal_hook::consts::SIGPIPE;
use std::convert::Infallible;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::sync::Arc;

/// The command word of the trampoline; only a launcher starts it.
pub(crate) const TRAMPOLINE: &str = "trampoline";

/// Program to execute for the trampoline: this one.
pub(crate) const PROGRAM: &CStr = c"/proc/self/exe";

/// Signals that stop a process group and can be blocked.
const STOPS: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Stop signals that `mask` does not block.
pub(crate) fn stops_outside(mask: &SigSet) -> SigSet {
    STOPS.into_iter().filter(|stop| !mask.contains(*stop)).collect()
}

/// Arguments with which [`PROGRAM`] unblocks `stops`, prepares for a debugger, and executes the program at
/// `path` with its `words`.
pub(crate) fn words(
    stops: &SigSet,
    hold: DebugHold,
    path: &CStr,
    words: &[CString],
) -> Vec<CString> {
    let numbers: Vec<String> = stops.iter().map(|stop| (stop as i32).to_string()).collect();
    let command = ["pmi-host", TRAMPOLINE, &numbers.join(","), hold.word()];
    let command = command.into_iter().map(|word| CString::new(word).unwrap_or_default());
    command.chain([path.to_owned()]).chain(words.iter().cloned()).collect()
}

/// Unblocks the signals listed in the first word, prepares for the debugger of the second, and executes the
/// program named by the others.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| CString::new(word.into_vec()));
    let Ok(words) = words.collect::<Result<Vec<_>, _>>() else { return ExitCode::FAILURE };
    let [stops, hold, path, words @ ..] = &words[..] else { return ExitCode::FAILURE };
    let name = path.to_string_lossy();
    if let Err(error) = exec_stop::prepare(DebugHold::of_word(hold)) {
        let what = format!(
            "{name} cannot stop for a debugger: the system refuses ptrace ({error}); see \
             /proc/sys/kernel/yama/ptrace_scope"
        );
        return complain(&what, UNTRACEABLE);
    }
    let Err(error) = become_program(stops, path, words);
    complain(&format!("{name} cannot be started: {error}"), start_code(&error))
}

fn become_program(stops: &CStr, path: &CStr, words: &[CString]) -> io::Result<Infallible> {
    let numbers =
        stops.to_str().unwrap_or_default().split(',').filter_map(|number| number.parse().ok());
    let stops: SigSet = numbers.filter_map(|number: i32| Signal::try_from(number).ok()).collect();
    // Rust programs ignore this signal, and an exec keeps ignored signals; it resets those with a
    // handler.
    signal_hook::flag::register(SIGPIPE, Arc::default())?;
    if getpgrp() == getpid() {
        child_start::discard_pending(&stops);
    }
    stops.thread_unblock()?;
    let error = match execv(path, words) {
        Err(Errno::ENOEXEC) => match script::by_shell(path, words) {
            Some(words) => execv(script::SHELL, &words),
            None => Err(Errno::ENOEXEC),
        },
        other => other,
    };
    error.map_err(|error| {
        let host = host_name::own();
        explained(rustix::io::Errno::from_raw_os_error(error as i32), path, &host)
    })
}

/// Exit code of a rank that could not stop for a debugger, as of one that cannot be executed.
const UNTRACEABLE: u8 = 126;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_were_not_blocked_are_unblocked() {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTTIN);
        mask.add(Signal::SIGUSR1);
        let stops = stops_outside(&mask);
        let of_rank = [c"echo".into(), c"a b".into()];
        let words = words(&stops, DebugHold::None, c"/bin/echo", &of_rank);
        let expected = [c"pmi-host", c"trampoline", c"20,22", c"", c"/bin/echo", c"echo", c"a b"];
        assert_eq!(words, expected.map(CStr::to_owned));
    }

    #[test]
    fn preparation_for_a_debugger_is_read_as_it_was_written() {
        for hold in [DebugHold::None, DebugHold::Traceable, DebugHold::StoppedOnExec] {
            let words = words(&SigSet::empty(), hold, c"/bin/true", &[]);
            assert_eq!(DebugHold::of_word(&words[3]), hold);
        }
    }
}
