//! Load of a busy machine.

use crate::process;
use std::process::{Child, Stdio};
use std::thread;

/// Two spinning processes for each processor, each in a session of its own; they end with this value.
pub(super) struct Spinners(Vec<Child>);

impl Spinners {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// A process cannot be started.
    pub(super) fn start() -> Result<Self, String> {
        let count = 2 * thread::available_parallelism().map_or(1, usize::from);
        let mut spinners = Self(Vec::new());
        for _ in 0..count {
            let mut command = process::command("setsid");
            command.args(["sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            let child = command.spawn().map_err(|error| format!("setsid: {error}"))?;
            spinners.0.push(child);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process that has ended already is no failure.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinners_end_with_their_value() {
        let spinners = Spinners::start().unwrap();
        let pids: Vec<u32> = spinners.0.iter().map(Child::id).collect();
        assert!(pids.len() >= 2);
        drop(spinners);
        assert!(pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
    }
}
