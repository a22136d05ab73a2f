//! A build that keeps one processor busy for minutes, started beside the steps before its own.
//!
//! It prints nothing: the step that needs the result runs the same command after [`EarlyBuild::wait`], and
//! reports what has failed. Cargo locks the directory of a profile, so debug builds go on meanwhile.

use crate::process;
use crate::processes::MARK;
use std::process::{Child, Stdio};

pub(crate) struct EarlyBuild {
    child: Child,
}

impl EarlyBuild {
    /// Starts cargo with the words of `line`; `None` if it does not start, which its step will report.
    pub(crate) fn start(line: &str) -> Option<Self> {
        let mut cargo = process::cargo();
        cargo.args(line.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        // Marked processes are terminated at the end of each step.
        let child = cargo.env_remove(MARK).spawn().ok()?;
        println!("meanwhile: cargo {line}");
        Some(Self { child })
    }

    /// Waits until the build has ended, whatever its result.
    pub(crate) fn wait(mut self) {
        let _ = self.child.wait();
    }
}
