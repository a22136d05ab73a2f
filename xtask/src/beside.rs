//! A part of the steps in a process of its own, beside those of this one.
//!
//! What it prints about a step comes in one piece when the step has ended, so that two steps do not mix.

use crate::process;
use crate::processes::MARK;
use crate::tally::Tally;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::AddAssign;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

/// A run of `cargo xtask test` for some steps.
pub(crate) struct Beside {
    child: Child,
    reader: JoinHandle<Summary>,
}

/// What a run prints at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Names of steps, each with its seconds.
    pub(crate) durations: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) total: Tally,
}

impl Beside {
    /// Starts the steps of these names, with the least share of the processors: tests of this process depend
    /// on time.
    ///
    /// # Errors
    ///
    /// A message, if the program cannot be started.
    pub(crate) fn start(steps: &[&str]) -> Result<Self, String> {
        let own = env::current_exe().map_err(|error| error.to_string())?;
        let mut nice = process::command("nice");
        nice.args(["-n", "19"]).arg(own).arg("test").args(steps).stdout(Stdio::piped());
        // Marked processes are terminated at the end of each step of this process.
        nice.env_remove(MARK);
        let mut child = nice.spawn().map_err(|error| format!("nice: {error}"))?;
        let Some(out) = child.stdout.take() else { return Err("nice has no output".into()) };
        let reader = thread::spawn(move || read(out, &mut io::stdout()));
        Ok(Self { child, reader })
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Summary {
        let mut summary = self.reader.join().unwrap_or_default();
        let has_succeeded = self.child.wait().is_ok_and(|status| status.success());
        if !has_succeeded && summary.total.failed == 0 {
            summary.notes.push("the steps beside the others ended without a result".into());
            summary.total += Tally::FAILED;
        }
        summary
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.durations.extend(other.durations);
        self.notes.extend(other.notes);
        self.total += other.total;
    }
}

/// Copies what a run prints, step by step, up to its summary.
fn read(from: impl Read, out: &mut impl Write) -> Summary {
    let mut block = Vec::new();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut summary = None;
    while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line);
        if let Some(durations) = text.strip_prefix(DURATIONS) {
            let durations = durations.trim().split(", ").map(str::to_owned).collect();
            summary = Some(Summary { durations, ..Summary::default() });
        } else if let Some(summary) = &mut summary {
            match Tally::of_closing_line(text.trim_end()) {
                Some(total) => summary.total = total,
                None => summary.notes.push(text.trim_end().to_owned()),
            }
        } else {
            if text.starts_with(HEADING) {
                print(&mut block, out);
            }
            block.extend_from_slice(&line);
        }
        line.clear();
    }
    print(&mut block, out);
    summary.unwrap_or_default()
}

/// Prints what is known of a step. A reader that is gone changes no result.
fn print(block: &mut Vec<u8>, out: &mut impl Write) {
    let _ = out.write_all(block).and_then(|()| out.flush());
    block.clear();
}

/// Begin of the line that heads a step.
pub(crate) const HEADING: &str = "== ";

/// Begin of the line that begins a summary.
pub(crate) const DURATIONS: &str = "seconds: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_copied_and_the_summary_is_read() {
        let said = "\n== one: first\n5 passed, 1 failed\n-- one\n\n== two: second\n-- two\n\n\
                    seconds: one 3, two 10\none: 5 passed, 1 failed\n6 passed, 1 failed, 2 skipped\n";
        let mut out = Vec::new();
        let summary = read(said.as_bytes(), &mut out);
        let total = Tally { passed: 6, failed: 1, skipped: 2 };
        let durations = vec!["one 3".to_owned(), "two 10".to_owned()];
        let notes = vec!["one: 5 passed, 1 failed".to_owned()];
        assert_eq!(summary, Summary { durations, notes, total });
        let (steps, _) = said.split_once("seconds").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), steps);
    }

    #[test]
    fn step_is_copied_when_the_next_one_begins() {
        struct Pieces(Vec<Vec<u8>>);
        impl Write for Pieces {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.to_vec());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Pieces(Vec::new());
        read(&b"== one: a\nx\n== two: b\ny\n"[..], &mut out);
        let expected: [&[u8]; 2] = [b"== one: a\nx\n", b"== two: b\ny\n"];
        assert_eq!(out.0.iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn run_without_a_summary_has_no_result() {
        assert_eq!(read(&b"== one: a\n"[..], &mut Vec::new()), Summary::default());
    }
}
