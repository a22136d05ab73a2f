//! Entry of the program where the C library passes the command line to the standard library by itself.
//!
//! The start of the standard library prepares a message for a stack that overflows: it reads the map of the
//! process and makes a second stack, some 25 system calls. This program ends by the signal then. What a
//! launcher needs of that start is here.

use nix::libc::{c_char, c_int};
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use std::io::Write;
use std::process::ExitCode;

#[allow(unsafe_code, reason = "the C library calls it by this name")]
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    open_closed_streams();
    ignore_broken_pipes();
    let code = super::start();
    let _ = std::io::stdout().flush();
    let is_it = |one: &u8| ExitCode::from(*one) == code;
    (0..=u8::MAX).find(is_it).map_or(1, c_int::from)
}

/// Opens the null device for each standard stream that is closed: no other file may get its number.
fn open_closed_streams() {
    let (input, output, errors) =
        (rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr());
    let mut streams = [&input, &output, &errors].map(|one| PollFd::new(one, PollFlags::empty()));
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut streams, Some(&at_once)).is_ok_and(|count| count > 0) {
        for stream in &streams {
            if stream.revents().contains(PollFlags::NVAL)
                && let Ok(null) = open(c"/dev/null", OFlags::RDWR, Mode::empty())
            {
                // It has the lowest number that is free, that of the stream.
                std::mem::forget(null);
            }
        }
    }
}

/// Makes a write to a pipe without a reader an error instead of a signal, as in all Rust programs.
#[allow(unsafe_code, reason = "an action for a signal may be a function, which this one is not")]
fn ignore_broken_pipes() {
    // SAFETY: the signal is ignored, and no handler is called.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
}
