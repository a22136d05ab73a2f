//! Programs that the tools start as ranks, each in a process group of its own.

use pmi_host_base::env;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Command of a rank that inherits no variable of an outer job.
pub(crate) fn command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env::inherited(std::env::vars_os()));
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// A connection to a rank: the end of the server, not blocking, and the one that a program inherits. No other
/// process is to be started before the second one is closed.
pub(crate) fn socket_pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
    Ok((ours, theirs))
}

/// Signals the process group of a program, which may have exited by now.
pub(crate) fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

/// Exit code as a shell reports it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
