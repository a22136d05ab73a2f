//! Process of a starter.

use super::StarterCommand;
use super::table::is_option_of_srun;
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal as NixSignal};
use pmi_host_base::variables::IS_PASSED_ON;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A starter that was not waited for, so that its number is not used again.
#[derive(Debug)]
pub(super) struct StarterChild {
    /// Its number.
    pub(super) pid: Pid,
}

impl StarterChild {
    /// Executes `command`, the first word of which is found in `PATH`. A link of its name to this program is
    /// skipped there.
    ///
    /// It leads a session: signals of the terminal are for the head, which ends its nodes in order, and where
    /// the kernel divides time by session, each starter has a share of its own. The head has blocked the
    /// signals that it reads; a starter blocks none, or nothing but a kill would end it.
    pub(super) fn spawn(
        command: &StarterCommand,
        input: impl AsFd,
        output: impl AsFd,
        errors: impl AsFd,
    ) -> io::Result<Self> {
        let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| ErrorKind::InvalidInput);
        let words = command.words.iter().map(|word| text(word.clone().into_bytes()));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let program = other_program(words.first().ok_or(ErrorKind::InvalidInput)?)?;
        let is_hidden = |name: &OsString| command.is_srun && is_option_of_srun(name.as_bytes());
        let mark = command.is_srun.then(|| (IS_PASSED_ON.into(), "1".into()));
        let variables = std::env::vars_os()
            .filter(|(name, _)| !is_hidden(name))
            .chain(mark)
            .map(|(name, value)| text([name.into_vec(), b"=".to_vec(), value.into_vec()].concat()));
        let variables = variables.collect::<Result<Vec<_>, _>>()?;
        let mut actions = PosixSpawnFileActions::init()?;
        actions.add_dup2(input.as_fd().as_raw_fd(), 0)?;
        actions.add_dup2(output.as_fd().as_raw_fd(), 1)?;
        actions.add_dup2(errors.as_fd().as_raw_fd(), 2)?;
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_sigmask(&SigSet::empty())?;
        // The runtime of Rust ignores it.
        let broken_pipe: SigSet = [NixSignal::SIGPIPE].into_iter().collect();
        attributes.set_sigdefault(&broken_pipe)?;
        let signals =
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
        attributes.set_flags(signals | SETSID)?;
        let mut pid = posix_spawn(program.as_c_str(), &actions, &attributes, &words, &variables);
        if matches!(pid, Err(Errno::EPERM | Errno::ENOSYS)) {
            // Where a sandbox refuses sessions, a group is enough to end it.
            attributes.set_flags(signals | PosixSpawnFlags::POSIX_SPAWN_SETPGROUP)?;
            pid = posix_spawn(program.as_c_str(), &actions, &attributes, &words, &variables);
        }
        let pid = pid?;
        let pid = Pid::from_raw(pid.as_raw()).ok_or(ErrorKind::NotFound)?;
        Ok(Self { pid })
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Status of a process that has ended, which is not to be asked again.
    pub(super) fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        let ended = waitpid(Some(self.pid), WaitOptions::NOHANG)?;
        Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())))
    }

    /// Sends a signal to the starter and to the processes in its group.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Waits for the end.
    pub(super) fn wait(&self) {
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Path of the program `name`, which is not this one under another name: a user may have linked it as `srun`.
///
/// # Errors
///
/// There is none, or it cannot be executed.
fn other_program(name: &CString) -> io::Result<CString> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.clone());
    }
    let own = fs::metadata("/proc/self/exe").map(|own| (own.dev(), own.ino())).ok();
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut error = ErrorKind::NotFound;
    for directory in std::env::split_paths(&search) {
        let path = directory.join(OsStr::from_bytes(name.as_bytes()));
        let Ok(file) = fs::metadata(&path) else { continue };
        if !file.is_file() || own == Some((file.dev(), file.ino())) {
            continue;
        }
        match access(&path, Access::EXEC_OK) {
            Ok(()) => {
                return CString::new(path.into_os_string().into_vec()).map_err(io::Error::from);
            }
            Err(_) => error = ErrorKind::PermissionDenied,
        }
    }
    Err(error.into())
}

/// Begins a session. The crate has no name for the flag, which is the same in every C library of Linux.
const SETSID: PosixSpawnFlags = PosixSpawnFlags::from_bits_retain(0x80);
