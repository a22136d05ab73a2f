//! The programs of a test run that take longest, by what libtest prints.

use std::cmp::Reverse;
use std::time::Duration;

/// Programs of tests with their times.
#[derive(Debug, Default)]
pub(crate) struct TestTimes {
    /// The program that runs, as far as it is known.
    running: Option<String>,
    all: Vec<(Duration, String)>,
}

impl TestTimes {
    /// Reads a line of a run; `running` names the test program that runs, if one can be seen.
    pub(crate) fn read(&mut self, line: &str, running: impl FnOnce() -> Option<String>) {
        if is_begin(line) {
            // A program that has ended already takes no time worth a line.
            self.running = running();
        } else if let Some(time) = end(line)
            && let Some(name) = self.running.take()
        {
            self.all.push((time, name));
        }
    }

    /// One line about the slowest; none if there are no programs of a second.
    pub(crate) fn line(mut self) -> Option<String> {
        self.all.retain(|(time, _)| time.as_secs() > 0);
        self.all.sort_by_key(|(time, _)| Reverse(*time));
        let shown: Vec<String> = self
            .all
            .iter()
            .take(SHOWN_MAX)
            .map(|(time, name)| format!("{name} {:.1}", time.as_secs_f64()))
            .collect();
        (!shown.is_empty()).then(|| format!("slowest, in seconds: {}", shown.join(", ")))
    }
}

/// True for `running 3 tests`.
fn is_begin(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|rest| rest.split_once(' '));
    count.is_some_and(|(count, word)| {
        count.parse::<u64>().is_ok() && matches!(word, "test" | "tests")
    })
}

/// The time in `test result: ok. 3 passed; …; finished in 0.02s`.
fn end(line: &str) -> Option<Duration> {
    let (_, time) = line.strip_prefix("test result: ")?.rsplit_once("finished in ")?;
    Duration::try_from_secs_f64(time.strip_suffix('s')?.parse().ok()?).ok()
}

/// Number of programs in the line.
const SHOWN_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn result(seconds: &str) -> String {
        format!("test result: ok. 1 passed; 0 failed; 0 filtered out; finished in {seconds}s")
    }

    #[test]
    fn slowest_programs_are_named_the_longest_first() {
        let mut times = TestTimes::default();
        for (name, seconds) in [("short", "0.99"), ("long", "12.04"), ("longer", "52.56")] {
            times.read("running 3 tests", || Some(name.into()));
            times.read("test a ... ok", || panic!("no program begins here"));
            times.read(&result(seconds), || panic!("no program begins here"));
        }
        // A program that has not been seen, and the summary of one within another.
        times.read("running 1 test", || None);
        times.read(&result("70.00"), || None);
        times.read(&result("80.00"), || None);
        assert_eq!(times.line().unwrap(), "slowest, in seconds: longer 52.6, long 12.0");
        assert_eq!(TestTimes::default().line(), None);
    }
}
