//! Start of a program that leads a session, or a process group in the session of the launcher.
//!
//! The child is made as `posix_spawn` makes it, with two differences. It sets the action of one signal in
//! place of 64, since the launcher ignores no other by itself: an exec resets all that are handled. And a
//! signal that stops the launcher's process group must not stop the child before it has become the program:
//! the launcher would wait for it inside the system, and could neither stop itself nor be continued.
//! `posix_spawn` restores the signal mask before the exec, and a stop signal that came before the child had
//! a group of its own is pending then. A child that stays in the launcher's session discards such signals
//! in between: they were for the launcher's group. The other way, executing the
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

/// Way to start programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildStart {
    /// Signals that they block.
    pub(super) mask: SigSet,
    pub(super) leads: Leads,
}

/// What a program leads when it is started.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leads {
    /// A session, and its process group.
    Session,
    /// A process group in the session of the launcher.
    Group {
        /// Signals that stop the group of the launcher.
        stops: SigSet,
    },
}

/// Files of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct ChildFiles<'a> {
    /// Terminal that it opens as its standard input, by its name: only so does it become the controlling
    /// terminal of a session.
    pub(super) terminal: Option<&'a CStr>,
    /// Descriptors, each with the number at which the program finds it.
    pub(super) descriptors: Vec<(RawFd, RawFd)>,
}

/// Arguments of the child, prepared by its parent: in the child nothing may allocate.
struct Child<'a> {
    path: &'a CStr,
    words: &'a [*const c_char],
    environment: &'a [*const c_char],
    files: &'a ChildFiles<'a>,
    start: &'a ChildStart,
    /// Number of the error if the exec or a call before it fails.
    failure: AtomicI32,
}

/// Why no program was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildError {
    /// There is no process.
    Process(Errno),
    /// The process could not execute the program.
    Program(Errno),
}

impl ChildStart {
    /// Starts the program at `path`.
    ///
    /// # Errors
    ///
    /// That of the clone, or of a call of the child, the exec among them.
    #[allow(unsafe_code, reason = "a process is made by clone alone")]
    pub(super) fn start<'a>(
        &self,
        path: &CStr,
        words: impl Iterator<Item = &'a CStr>,
        environment: impl Iterator<Item = &'a CStr>,
        files: &ChildFiles<'_>,
    ) -> Result<Pid, ChildError> {
        let pointers = |texts: &mut dyn Iterator<Item = &'a CStr>| -> Vec<*const c_char> {
            texts.map(CStr::as_ptr).chain([ptr::null()]).collect()
        };
        let (mut words, mut environment) = (words, environment);
        let (words, environment) = (pointers(&mut words), pointers(&mut environment));
        let failure = AtomicI32::new(0);
        let (words, environment) = (&words[..], &environment[..]);
        let child = Child { path, words, environment, files, start: self, failure };
        let mut stack = Box::<[u8]>::new_uninit_slice(STACK_BYTES);
        // A handler of the launcher must not run in the child, which has its memory.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let mask = mask.map_err(|error| ChildError::Process(errno(error)))?;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let argument = ptr::from_ref(&child).cast_mut().cast();
        // SAFETY: the child has a stack of its own, which grows down from an aligned end, and this thread
        // waits until the child has executed a program or exited. Until then the child makes system calls
        // only, and changes nothing in memory but `failure`.
        let pid = unsafe {
            let end = stack.as_mut_ptr_range().end;
            let end = end.cast::<u8>().sub(end.addr() % STACK_ALIGN);
            libc::clone(run, end.cast(), flags, argument)
        };
        let pid = nix::errno::Errno::result(pid).map(Pid::from_raw);
        let restored = mask.thread_set_mask();
        let pid = pid.map_err(|error| ChildError::Process(errno(error)))?;
        restored.map_err(|error| ChildError::Process(errno(error)))?;
        match child.failure.load(Ordering::Relaxed) {
            0 => Ok(pid),
            code => {
                let _ = waitpid(rustix::process::Pid::from_raw(pid.as_raw()), WaitOptions::empty());
                Err(ChildError::Program(Errno::from_raw_os_error(code)))
            }
        }
    }
}

/// The child of a parent that has passed its [`Child`].
#[allow(unsafe_code, reason = "the system passes an address")]
extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: the parent keeps it for as long as this process uses it.
    let child = unsafe { &*child.cast_const().cast::<Child<'_>>() };
    child.failure.store(child.become_program(), Ordering::Relaxed);
    // SAFETY: it terminates the child, and runs no handlers, which are those of its parent.
    unsafe { libc::_exit(c_int::from(u8::MAX)) }
}

impl Child<'_> {
    /// Executes the program. Returns the number of the error if that fails.
    #[allow(unsafe_code, reason = "the safe forms of these calls allocate, or own descriptors")]
    fn become_program(&self) -> c_int {
        let Self { path, words, environment, files, start, .. } = self;
        // SAFETY: these calls change this process alone, whose descriptors, actions and mask are its own, and
        // take pointers to texts and lists that end with a null and outlive the call.
        unsafe {
            let leads = match start.leads {
                // A group is enough to end it, where a sandbox refuses sessions.
                Leads::Session if libc::setsid() >= 0 => 0,
                Leads::Session => libc::setpgid(0, 0),
                Leads::Group { .. } => libc::setpgid(0, 0),
            };
            if leads < 0 {
                return last_error();
            }
            // The launcher ignores it, as all Rust programs do.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            if let Some(terminal) = files.terminal {
                let opened = libc::open(terminal.as_ptr(), libc::O_RDWR);
                if opened < 0 || opened > 0 && libc::dup2(opened, 0) < 0 {
                    return last_error();
                }
                if opened > 0 {
                    libc::close(opened);
                }
            }
            for &(file, number) in &files.descriptors {
                let is_done = match file == number {
                    // It stays open across the exec.
                    true => libc::fcntl(number, libc::F_SETFD, 0) == 0,
                    false => libc::dup2(file, number) >= 0,
                };
                if !is_done {
                    return last_error();
                }
            }
            if let Leads::Group { stops } = &start.leads {
                discard_pending(stops);
            }
            if libc::pthread_sigmask(libc::SIG_SETMASK, start.mask.as_ref(), ptr::null_mut()) != 0 {
                return libc::EINVAL;
            }
            libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr());
        }
        last_error()
    }
}

/// Discards those of `signals` that are pending. They are blocked.
#[allow(unsafe_code, reason = "the crate has no form of the call that does not wait")]
pub(super) fn discard_pending(signals: &SigSet) {
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

    fn stops() -> SigSet {
        [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU].into_iter().collect()
    }

    fn start(leads: Leads) -> ChildStart {
        ChildStart { mask: [Signal::SIGUSR1].into_iter().collect(), leads }
    }

    #[test]
    fn program_has_a_group_or_a_session_its_mask_and_its_files() {
        for leads in [Leads::Session, Leads::Group { stops: stops() }] {
            check(leads);
        }
    }

    fn check(leads: Leads) {
        let (read, written) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // A shell would clear its mask. The last file is there if the program has the descriptor.
        let own = [c"/proc/self/stat", c"/proc/self/status", c"/proc/self/environ"];
        let words = [c"cat"].into_iter().chain(own).chain([c"/proc/self/fdinfo/7"]);
        let descriptors = vec![(written.as_raw_fd(), 1), (written.as_raw_fd(), 7)];
        let files = ChildFiles { terminal: Some(c"/dev/null"), descriptors };
        let environment = [c"WORD=of its own"].into_iter();
        let started = start(leads).start(c"/bin/cat", words, environment, &files);
        let pid = started.unwrap();
        drop(written);
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        waitpid(rustix::process::Pid::from_raw(pid.as_raw()), WaitOptions::empty()).unwrap();
        let fields: Vec<_> = text.split_once(") ").unwrap().1.split(' ').collect();
        let session = match leads {
            Leads::Session => pid,
            Leads::Group { .. } => nix::unistd::getsid(None).unwrap(),
        };
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
        let fails = |path: &CStr, files: ChildFiles<'_>| {
            start(Leads::Session).start(path, none(), none(), &files).unwrap_err()
        };
        let program = |error| ChildError::Program(error);
        assert_eq!(fails(c"/nonexistent/program", ChildFiles::default()), program(Errno::NOENT));
        let descriptors = vec![(-1, 1)];
        let files = ChildFiles { terminal: None, descriptors };
        assert_eq!(fails(c"/bin/true", files), program(Errno::BADF));
        let terminal = Some(c"/no/such/terminal");
        let files = ChildFiles { terminal, descriptors: vec![] };
        assert_eq!(fails(c"/bin/true", files), program(Errno::NOENT));
    }

    #[test]
    fn pending_stop_signals_are_discarded() {
        let stops = stops();
        let mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap();
        raise(Signal::SIGTSTP).unwrap();
        raise(Signal::SIGTTOU).unwrap();
        discard_pending(&stops);
        // Unblocked now, a pending one would stop this process.
        mask.thread_set_mask().unwrap();
    }
}
