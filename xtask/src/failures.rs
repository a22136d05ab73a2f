//! What test programs print about their failures, repeated at the end of a run: a reader of a long output
//! often has only its end.

use std::sync::{Mutex, PoisonError};

static ALL: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects the failures of one `cargo test` or `node --test`.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Lines of libtest since its line `failures:`.
    block: Option<Vec<String>>,
    found: Vec<String>,
    /// Names of failed tests.
    tests: Vec<String>,
}

impl Failures {
    /// Reads a line of the run.
    ///
    /// libtest prints what failed tests have printed between `failures:` and a line of the same text, then
    /// their names, and the result. Node prints `not ok 3 - name`.
    pub(crate) fn read(&mut self, line: &str) {
        // cargo-nextest names a failed test once more at the end.
        if let Some(test) = failed_test(line)
            && !self.tests.iter().any(|known| known == test)
        {
            self.tests.push(test.to_owned());
        }
        if line.trim_start().starts_with("not ok ") {
            self.found.push(line.trim().to_owned());
        } else if line == "failures:" {
            self.finish();
            self.block = Some(Vec::new());
        } else if line.starts_with("test result: ") {
            self.finish();
        } else if let Some(block) = &mut self.block {
            block.push(line.to_owned());
        }
    }

    /// Adds the failures to those of the run, and returns the names of the failed tests.
    pub(crate) fn publish(mut self) -> Vec<String> {
        self.finish();
        self.found.into_iter().for_each(note);
        self.tests
    }

    fn finish(&mut self) {
        let Some(mut block) = self.block.take() else { return };
        let len = block.len();
        if len > LINES_MAX {
            let omitted = format!("[{} lines]", len - LINES_MAX);
            block.splice(LINES_MAX / 2..len - LINES_MAX / 2, [omitted]);
        }
        self.found.extend(block.into_iter().filter(|line| !line.trim().is_empty()));
    }
}

/// The test of which a line says that it has failed: `test NAME ... FAILED` of libtest, where the name in an
/// example of the documentation has blanks, or `FAIL [   0.126s] (5/5) BINARY NAME` of cargo-nextest.
fn failed_test(line: &str) -> Option<&str> {
    if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"))
    {
        return Some(name.strip_suffix(" - should panic").unwrap_or(name));
    }
    let (word, rest) = line.trim_start().split_once(" [")?;
    let is_failure = word == "FAIL" || word == "TIMEOUT" || word.starts_with("SIG");
    rest.rsplit_once(' ').filter(|_| is_failure).map(|(_, name)| name)
}

/// Adds a line about a failure to those of the run.
pub(crate) fn note(line: String) {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Removes and returns the failures of the run.
pub(crate) fn take() -> Vec<String> {
    std::mem::take(&mut ALL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Longest block of one test program that is repeated as a whole.
const LINES_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &str) -> Vec<String> {
        let mut failures = Failures::default();
        lines.lines().for_each(|line| failures.read(line));
        failures.finish();
        failures.found
    }

    #[test]
    fn output_and_names_of_failed_tests_are_repeated() {
        let lines = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n\
                     \nthread 'b' panicked at b.rs:1:\nno\n\nfailures:\n    b\n\n\
                     test result: FAILED. 1 passed; 1 failed\n\nrunning 1 test\ntest c ... ok\n";
        let expected = ["---- b stdout ----", "thread 'b' panicked at b.rs:1:", "no", "    b"];
        assert_eq!(found(lines), expected);
        assert!(found("running 1 test\ntest c ... ok\n\ntest result: ok. 1 passed").is_empty());
        assert_eq!(found("ok 1 - a\n    not ok 2 - b\n"), ["not ok 2 - b"]);
    }

    #[test]
    fn names_of_failed_tests_are_kept_once() {
        let mut failures = Failures::default();
        for line in [
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test a::d - should panic ... FAILED",
            "test src/lib.rs - a (line 3) ... FAILED",
            "        PASS [   0.010s] (2/5) xtask::bin/xtask tally::e",
            "        FAIL [   0.126s] (5/5) xtask::bin/xtask tally::f",
            "     SIGABRT [   0.126s] (5/5) pmi-core::limits g",
            "        FAIL [   0.126s] (5/5) xtask::bin/xtask tally::f",
            "     Summary [   0.127s] 5 tests run: 4 passed, 1 failed, 212 skipped",
        ] {
            failures.read(line);
        }
        assert_eq!(failures.tests, ["a::c", "a::d", "src/lib.rs - a (line 3)", "tally::f", "g"]);
    }

    #[test]
    fn long_output_is_repeated_in_part() {
        let lines: Vec<String> = (0..1000).map(|line| line.to_string()).collect();
        let found = found(&format!("failures:\n{}\n", lines.join("\n")));
        assert_eq!(found.len(), LINES_MAX + 1);
        assert_eq!(found[LINES_MAX / 2], "[940 lines]");
        assert_eq!(found.last().unwrap(), "999");
    }
}
