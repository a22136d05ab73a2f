//! Counting: how many checks passed, failed or were skipped.

use std::fmt;
use std::ops::AddAssign;

/// Counts of finished checks; a test of a test binary and a whole step count the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    pub(crate) const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    pub(crate) const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    pub(crate) const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// One check, by its result.
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Self::PASSED } else { Self::FAILED }
    }

    /// Reads the summary line of one test binary: `test result: ok. 3 passed; 0 failed; 1 ignored;
    /// 0 measured; 0 filtered out; finished in 0.00s`.
    ///
    /// Node prints three lines: `# pass 3`, `# fail 0` and `# skipped 1`. cargo-nextest prints one for all
    /// test binaries, `Summary [   0.011s] 4 tests run: 3 passed, 1 failed, 5 skipped`, where the skipped
    /// ones are left out by a filter.
    pub(crate) fn of_result_line(line: &str) -> Option<Self> {
        if let Some((word, count)) = line.strip_prefix("# ").and_then(|line| line.split_once(' ')) {
            let (none, count) = (Self::default(), count.parse().ok()?);
            return match word {
                "pass" => Some(Self { passed: count, ..none }),
                "fail" | "cancelled" => Some(Self { failed: count, ..none }),
                "skipped" => Some(Self { skipped: count, ..none }),
                _ => None,
            };
        }
        if let Some(summary) = line.trim_start().strip_prefix("Summary [") {
            return Self::of_nextest(summary);
        }
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut counts = counts.split("; ");
        let mut next = |word: &str| counts.next()?.strip_suffix(word)?.trim().parse().ok();
        Some(Self { passed: next("passed")?, failed: next("failed")?, skipped: next("ignored")? })
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn of_closing_line(line: &str) -> Option<Self> {
        let mut counts = line.split(", ");
        let mut next = |word: &str| counts.next()?.strip_suffix(word)?.trim().parse().ok();
        let (passed, failed) = (next("passed")?, next("failed")?);
        let skipped = next("skipped").unwrap_or_default();
        Some(Self { passed, failed, skipped })
    }

    fn of_nextest(summary: &str) -> Option<Self> {
        let (_, counts) = summary.split_once(" run: ")?;
        let mut tally = Self::default();
        for count in counts.split(", ") {
            // A count may have a remark: `3 passed (1 slow)`.
            let (count, word) = count.split(" (").next()?.split_once(' ')?;
            let count: u64 = count.parse().ok()?;
            match word {
                "passed" => tally.passed += count,
                "failed" | "timed out" | "exec failed" => tally.failed += count,
                _ => {}
            }
        }
        Some(tally)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The form of the last line of `cargo xtask test`; other programs read it.
impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(out, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_of_test_binaries_are_read() {
        let good = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
                    finished in 0.02s";
        let bad = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(Tally::of_result_line(good), Some(Tally { passed: 12, failed: 0, skipped: 1 }));
        assert_eq!(Tally::of_result_line(bad), Some(Tally { passed: 1, failed: 2, skipped: 0 }));
    }

    #[test]
    fn summary_lines_of_node_are_read() {
        let none = Tally::default();
        assert_eq!(Tally::of_result_line("# pass 12"), Some(Tally { passed: 12, ..none }));
        assert_eq!(Tally::of_result_line("# fail 1"), Some(Tally { failed: 1, ..none }));
        assert_eq!(Tally::of_result_line("# skipped 2"), Some(Tally { skipped: 2, ..none }));
        for line in ["# tests 3", "# Subtest: pass 3", "# pass", "# pass three"] {
            assert_eq!(Tally::of_result_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn summary_line_of_nextest_is_read() {
        let tally = |passed, failed| Some(Tally { passed, failed, skipped: 0 });
        for (line, expected) in [
            ("     Summary [   0.011s] 3 tests run: 2 passed, 1 failed, 5 skipped", tally(2, 1)),
            ("     Summary [   1.2s] 1 test run: 1 passed (1 slow), 0 skipped", tally(1, 0)),
            ("Summary [   2s] 3/9 tests run: 1 passed, 1 timed out, 1 exec failed", tally(1, 2)),
            ("     Summary [   0.000s] 0 tests run: 0 passed, 7 skipped", tally(0, 0)),
            ("     Summary [   0.011s", None),
        ] {
            assert_eq!(Tally::of_result_line(line), expected, "{line:?}");
        }
    }

    #[test]
    fn other_lines_are_not_taken_for_a_summary() {
        for line in [
            "",
            "test a ... ok",
            "test result: ok.",
            "test result: ok. 1 passed",
            "running 3 tests",
        ] {
            assert_eq!(Tally::of_result_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn skipped_is_named_only_when_there_is_some() {
        let mut tally = Tally::PASSED;
        tally += Tally::FAILED;
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
        tally += Tally::SKIPPED;
        assert_eq!(tally.to_string(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(Tally::of_closing_line(&tally.to_string()), Some(tally));
        assert_eq!(
            Tally::of_closing_line("1 passed, 1 failed"),
            Some(Tally { skipped: 0, ..tally })
        );
        assert_eq!(Tally::of_closing_line("a: 1 passed, 1 failed"), None);
    }
}
