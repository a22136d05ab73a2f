//! Debuggers for ranks that have stopped at their first instruction (`--gdb`), in panes of tmux.
//!
//! A rank keeps its streams, its process id and its exit code: gdb attaches to it, and has a terminal of its
//! own. Inside tmux that is a window beside the one of the launcher; elsewhere a server of tmux of its own,
//! which the user attaches to from another terminal, and which ends with the run. Without tmux the user
//! starts gdb.
//!
//! A process that was stopped when a debugger attached stops again when that detaches. So `SIGCONT` ends the
//! stop as soon as gdb holds the process, which hides that signal from its user.

use super::trampoline;
use crate::launch::plan::directives::DebugHold;
use nix::sys::signal::SigSet;
use pmi_host_base::program::{Program, ProgramError};
use pmi_host_os::cleanup::guard_protocol::RUN;
use pmi_host_os::clock;
use std::ffi::{CString, OsStr};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// A rank that has stopped for its debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldRank {
    /// The rank.
    pub(crate) rank: u32,
    /// Its process.
    pub(crate) pid: i32,
}

/// Place of the debuggers.
#[derive(Debug)]
pub(crate) enum GdbPanes {
    /// A window of the tmux in which the launcher runs; it lasts until the user ends its debuggers.
    Window,
    /// A server of tmux with this name, which ends when this value is dropped.
    Server(String),
}

impl GdbPanes {
    /// Opens a pane with gdb for each of these ranks of the run with this `mark`.
    ///
    /// # Errors
    ///
    /// The reason for which there is none, for the user.
    pub(crate) fn open(ranks: &[HeldRank], mark: Option<&str>) -> Result<Self, String> {
        let panes = match std::env::var_os("TMUX").is_some_and(|name| !name.is_empty()) {
            true => Self::Window,
            false => Self::Server(format!("pmi-host-{}", std::process::id())),
        };
        let Ok(mut command) = tmux(panes.words(ranks)) else {
            return Err("tmux is not installed".to_owned());
        };
        // Its server outlives this command, and belongs to the run.
        if let (Self::Server(_), Some(mark)) = (&panes, mark) {
            command.env(RUN, mark);
        }
        let failed = |why: &str| format!("tmux cannot show gdb ({})", why.trim());
        match finished(&mut command) {
            Ok((status, _)) if status.success() => Ok(panes),
            Ok((_, message)) => Err(failed(&message)),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Way to the debuggers, for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Window => format!("the window '{WINDOW}' of tmux has a gdb for each"),
            Self::Server(name) => {
                format!("'tmux -L {name} attach' in another terminal shows a gdb for each")
            }
        }
    }

    /// Arguments of tmux that open the panes.
    fn words(&self, ranks: &[HeldRank]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        for (place, HeldRank { rank, pid }) in ranks.iter().enumerate() {
            if place > 0 {
                add(&[";"]);
            }
            match self {
                Self::Server(name) if place == 0 => {
                    add(&["-L", name, "new-session", "-d", "-s", WINDOW, "-n", WINDOW]);
                    add(&["-x", "200", "-y", "50"]);
                }
                _ if place.is_multiple_of(PANES_MAX) => add(&["new-window", "-n", WINDOW]),
                _ => add(&["split-window"]),
            }
            add(&[GDB, "-q", "-iex", "handle SIGCONT nostop noprint pass", "-p", &pid.to_string()]);
            add(&["-ex", &format!("shell kill -CONT {pid}")]);
            // It names each pane, and leaves room for the next.
            add(&[";", "select-pane", "-T", &format!("rank {rank}")]);
            add(&[";", "set-option", "-w", "pane-border-status", "top"]);
            add(&[";", "select-layout", "tiled"]);
        }
        words
    }
}

impl Drop for GdbPanes {
    /// Ends an own server, whose debuggers have no process left.
    fn drop(&mut self) {
        if let Self::Server(name) = self {
            // It may have ended with its last debugger.
            let words = ["-L", name, "kill-server"].map(str::to_owned);
            let _ = tmux(words.into()).map(|mut command| finished(&mut command));
        }
    }
}

/// The command of tmux with these arguments, by the [`trampoline`]: the signals that the launcher blocks are
/// among those that a debugger waits for.
fn tmux(words: Vec<String>) -> Result<Command, ProgramError> {
    let path = Program::find(OsStr::new(TMUX), None, None)?;
    let text = |text: &OsStr| CString::new(text.as_bytes()).unwrap_or_default();
    let words: Vec<CString> =
        [TMUX.to_owned()].iter().chain(&words).map(|word| text(OsStr::new(word))).collect();
    let blocked = SigSet::thread_get_mask().unwrap_or_else(|_| SigSet::empty());
    let all = trampoline::words(&blocked, DebugHold::None, &text(path.as_os_str()), &words);
    let mut command = Command::new(OsStr::from_bytes(trampoline::PROGRAM.to_bytes()));
    command.args(all.iter().skip(1).map(|word| OsStr::from_bytes(word.to_bytes())));
    Ok(command)
}

/// Runs a command of tmux, which ends at once unless its server hangs, and returns its message.
fn finished(command: &mut Command) -> io::Result<(ExitStatus, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let until = clock::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if clock::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end"));
        }
        thread::sleep(LOOK_EVERY);
    };
    let mut message = Vec::new();
    if let (false, Some(stderr)) = (status.success(), child.stderr.take()) {
        stderr.take(MESSAGE_MAX).read_to_end(&mut message)?;
    }
    Ok((status, String::from_utf8_lossy(&message).into_owned()))
}

/// Program of the debuggers.
pub(crate) const GDB: &str = "gdb";

const TMUX: &str = "tmux";

/// Name of the windows, and of the session of an own server.
const WINDOW: &str = "ranks";

/// Panes in a window; each further one would have too few lines.
const PANES_MAX: usize = 6;

/// Time in which tmux answers on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Length of a message of tmux that is shown.
const MESSAGE_MAX: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(panes: &GdbPanes, ranks: u32) -> String {
        let held = |rank: u32| HeldRank { rank, pid: 100 + i32::try_from(rank).unwrap() };
        let ranks: Vec<HeldRank> = (0..ranks).map(held).collect();
        panes.words(&ranks).join(" ")
    }

    #[test]
    fn ranks_share_a_window_until_it_is_full() {
        let title = |rank| {
            format!(
                "; select-pane -T rank {rank} ; set-option -w pane-border-status top ; select-layout tiled"
            )
        };
        let gdb = |pid| {
            format!(
                "gdb -q -iex handle SIGCONT nostop noprint pass -p {pid} -ex shell kill -CONT {pid}"
            )
        };
        assert_eq!(
            words(&GdbPanes::Window, 2),
            format!(
                "new-window -n ranks {} {} ; split-window {} {}",
                gdb(100),
                title(0),
                gdb(101),
                title(1)
            )
        );
        let many = words(&GdbPanes::Window, 8);
        assert_eq!(many.matches("new-window").count(), 2);
        assert!(many.contains(&format!("new-window -n ranks {} ", gdb(106))));
    }

    #[test]
    fn server_of_its_own_has_a_size_before_a_terminal_shows_it() {
        // Nothing is started, so nothing is to be ended.
        let server = std::mem::ManuallyDrop::new(GdbPanes::Server("a".to_owned()));
        let one = words(&server, 1);
        assert!(one.starts_with("-L a new-session -d -s ranks -n ranks -x 200 -y 50 gdb -q "));
        assert_eq!(server.hint(), "'tmux -L a attach' in another terminal shows a gdb for each");
    }
}
