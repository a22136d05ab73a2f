//! Start of a program in the session of the launcher, with a process group of its own.
//!
//! A signal that stops the launcher's process group must not stop the child before it has become the
//! program: the launcher would wait for it inside the system, and could neither stop itself nor be
//! continued. `posix_spawn` restores the signal mask before the exec, and a stop signal that came before the
//! child had a group of its own is pending then. So the child is made here as `posix_spawn` makes it, and
//! discards such signals in between: they were for the launcher's group. The other way, executing the
//! [`trampoline`](super::trampoline) first, costs 0.5 ms of processor time for each rank.

use nix::libc::{self, c_char, c_int, c_void};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;
use rustix::fd::RawFd;
use rustix::io::Errno;
use rustix::process::{WaitOptions, waitpid};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals of a program that is started in a process group of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupStart {
    /// Signals that it blocks.
    pub(super) mask: SigSet,
    /// Signals for which it has the default action.
    pub(super) defaults: SigSet,
    /// Signals that stop a process group.
    pub(super) stops: SigSet,
}

/// Arguments of the child, prepared by its parent: in the child nothing may allocate.
struct GroupChild<'a> {
    path: &'a CStr,
    words: &'a [*const c_char],
    environment: &'a [*const c_char],
    /// Descriptors, each with the number at which the program finds it.
    files: &'a [(RawFd, RawFd)],
    signals: &'a GroupStart,
    /// Number of the error if the exec or a call before it fails.
    failure: AtomicI32,
}

impl GroupStart {
    /// Starts the program at `path`, which finds each of the `files` at the number beside it.
    ///
    /// # Errors
    ///
    /// Those of the system, also those of the exec.
    #[allow(unsafe_code, reason = "a process is made by clone alone")]
    pub(super) fn start<'a>(
        &self,
        path: &CStr,
        words: impl Iterator<Item = &'a CStr>,
        environment: impl Iterator<Item = &'a CStr>,
        files: &[(RawFd, RawFd)],
    ) -> Result<Pid, Errno> {
        let pointers = |texts: &mut dyn Iterator<Item = &'a CStr>| -> Vec<*const c_char> {
            texts.map(CStr::as_ptr).chain([ptr::null()]).collect()
        };
        let (mut words, mut environment) = (words, environment);
        let (words, environment) = (pointers(&mut words), pointers(&mut environment));
        let failure = AtomicI32::new(0);
        let (words, environment) = (&words[..], &environment[..]);
        let child = GroupChild { path, words, environment, files, signals: self, failure };
        let mut stack = vec![0_u8; STACK_BYTES];
        // A handler of the launcher must not run in the child, which has its memory.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(errno)?;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let argument = ptr::from_ref(&child).cast_mut().cast();
        // SAFETY: the child has a stack of its own, which grows down from an aligned end, and this thread
        // waits until the child has executed a program or exited. Until then the child makes system calls
        // only, and changes nothing in memory but `failure`.
        let pid = unsafe {
            let end = stack.as_mut_ptr_range().end;
            let end = end.sub(end.addr() % STACK_ALIGN);
            libc::clone(run, end.cast(), flags, argument)
        };
        let pid = nix::errno::Errno::result(pid).map(Pid::from_raw);
        let restored = mask.thread_set_mask();
        let pid = pid.map_err(errno)?;
        restored.map_err(errno)?;
        match child.failure.load(Ordering::Relaxed) {
            0 => Ok(pid),
            code => {
                let _ = waitpid(rustix::process::Pid::from_raw(pid.as_raw()), WaitOptions::empty());
                Err(Errno::from_raw_os_error(code))
            }
        }
    }
}

/// The child of a parent that has passed its [`GroupChild`].
#[allow(unsafe_code, reason = "the system passes an address")]
extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: the parent keeps it for as long as this process uses it.
    let child = unsafe { &*child.cast_const().cast::<GroupChild<'_>>() };
    child.failure.store(child.become_program(), Ordering::Relaxed);
    // SAFETY: it terminates the child, and runs no handlers, which are those of its parent.
    unsafe { libc::_exit(c_int::from(u8::MAX)) }
}

impl GroupChild<'_> {
    /// Executes the program. Returns the number of the error if that fails.
    #[allow(unsafe_code, reason = "the safe forms of these calls allocate, or own descriptors")]
    fn become_program(&self) -> c_int {
        let Self { path, words, environment, files, signals, .. } = self;
        // SAFETY: these calls change this process alone, whose descriptors, actions and mask are its own, and
        // take pointers to texts and lists that end with a null and outlive the call.
        unsafe {
            if libc::setpgid(0, 0) != 0 {
                return last_error();
            }
            for signal in signals.defaults.iter() {
                // Fails for the signals that have no other action.
                libc::signal(signal as c_int, libc::SIG_DFL);
            }
            for &(file, number) in *files {
                let is_done = match file == number {
                    // It stays open across the exec.
                    true => libc::fcntl(number, libc::F_SETFD, 0) == 0,
                    false => libc::dup2(file, number) >= 0,
                };
                if !is_done {
                    return last_error();
                }
            }
            discard_pending(&signals.stops);
            if libc::pthread_sigmask(libc::SIG_SETMASK, signals.mask.as_ref(), ptr::null_mut()) != 0
            {
                return libc::EINVAL;
            }
            libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr());
        }
        last_error()
    }
}

/// Discards those of `signals` that are pending. They are blocked.
#[allow(unsafe_code, reason = "the crate has no form of the call that does not wait")]
fn discard_pending(signals: &SigSet) {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the time are those of the caller, and no description is requested.
    while unsafe { libc::sigtimedwait(signals.as_ref(), ptr::null_mut(), &at_once) } > 0 {}
}

/// Number of the last error of this thread.
fn last_error() -> c_int {
    nix::errno::Errno::last_raw()
}

fn errno(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

/// Alignment of a stack, on all machines.
const STACK_ALIGN: usize = 16;

/// Size of the stack of a child, which makes few calls.
const STACK_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal, raise};
    use rustix::fd::AsRawFd;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;
    use std::io::Read;

    fn signals(mask: &[Signal]) -> GroupStart {
        let stops = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU].into_iter().collect();
        GroupStart { mask: mask.iter().copied().collect(), defaults: SigSet::all(), stops }
    }

    #[test]
    fn program_has_a_group_its_mask_and_its_files() {
        let (read, written) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // A shell would clear its mask. The last file is there if the program has the descriptor.
        let own = [c"/proc/self/stat", c"/proc/self/status", c"/proc/self/environ"];
        let words = [c"cat"].into_iter().chain(own).chain([c"/proc/self/fdinfo/7"]);
        let files = [(written.as_raw_fd(), 1), (written.as_raw_fd(), 7)];
        let environment = [c"WORD=of its own"].into_iter();
        let started = signals(&[Signal::SIGUSR1]).start(c"/bin/cat", words, environment, &files);
        let pid = started.unwrap();
        drop(written);
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        waitpid(rustix::process::Pid::from_raw(pid.as_raw()), WaitOptions::empty()).unwrap();
        let fields: Vec<_> = text.split_once(") ").unwrap().1.split(' ').collect();
        let session = nix::unistd::getsid(None).unwrap();
        assert_eq!(fields[2..4], [pid.to_string(), session.to_string()]);
        let set = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        assert_eq!(set("SigBlk:"), 1 << (Signal::SIGUSR1 as u32 - 1));
        // Rust programs ignore this one.
        assert_eq!(set("SigIgn:") & 1 << (Signal::SIGPIPE as u32 - 1), 0);
        assert!(text.contains("\nWORD=of its own\0pos:"), "{text}");
        // The mask of this thread is as before.
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR1));
    }

    #[test]
    fn missing_program_is_an_error_and_leaves_no_process() {
        let none = || [c""; 0].into_iter();
        let started = signals(&[]).start(c"/nonexistent/program", none(), none(), &[]);
        assert_eq!(started, Err(Errno::NOENT));
        let started = signals(&[]).start(c"/bin/true", none(), none(), &[(-1, 1)]);
        assert_eq!(started, Err(Errno::BADF));
    }

    #[test]
    fn pending_stop_signals_are_discarded() {
        let stops = signals(&[]).stops;
        let mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap();
        raise(Signal::SIGTSTP).unwrap();
        raise(Signal::SIGTTOU).unwrap();
        discard_pending(&stops);
        // Unblocked now, a pending one would stop this process.
        mask.thread_set_mask().unwrap();
    }
}
