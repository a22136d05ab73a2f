//! Stacks of the ranks with a report of no progress.

use std::process::{Child, Command, Stdio};

/// The command `pmi-host stack` about the own run, with its output on standard error.
#[derive(Debug, Default)]
pub(crate) struct StackReport {
    /// The last one, which may still run.
    child: Option<Child>,
}

impl StackReport {
    /// Starts the command, unless the previous one still runs. A failure to start it is not reported: the
    /// table of the ranks has been printed, and stacks are an addition to it.
    pub(crate) fn start(&mut self) {
        // If the launcher has reaped it with others, the state is unknown, and it has ended.
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if !self.child.as_mut().is_none_or(has_ended) {
            return;
        }
        let Ok(error) = rustix::io::dup(rustix::stdio::stderr()) else { return };
        let mut command = Command::new(OWN_PROGRAM);
        command.arg("stack").arg(std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(error);
        self.child = command.spawn().ok();
    }
}

/// This program, even if its file has been replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";
