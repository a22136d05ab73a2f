//! Times that the steps of the last run took, kept in cargo's target directory.

use crate::toolchain;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Times by the names of steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StepTimes {
    seconds: BTreeMap<String, u64>,
}

impl StepTimes {
    /// Those of the last run; none if there was no run.
    pub(crate) fn read() -> Self {
        Self::parse(fs::read_to_string(path()).unwrap_or_default().lines())
    }

    /// Reads `NAME SECONDS`, one for each step.
    pub(crate) fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let read = |line: &str| {
            let (name, seconds) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        Self { seconds: lines.into_iter().filter_map(read).collect() }
    }

    /// Replaces the times of these steps, for the next run. A directory that cannot be written costs a hint.
    pub(crate) fn write(mut self, newer: Self) {
        self.seconds.extend(newer.seconds);
        let lines: Vec<String> =
            self.seconds.iter().map(|(name, seconds)| format!("{name} {seconds}\n")).collect();
        let _ = fs::write(path(), lines.concat());
    }

    /// What a heading says of the first of these steps: its last time, and the time left with the others.
    pub(crate) fn hint(&self, steps: &[&str]) -> String {
        let times: Vec<u64> =
            steps.iter().filter_map(|step| self.seconds.get(*step)).copied().collect();
        let Some(own) = steps.first().and_then(|step| self.seconds.get(*step)) else {
            return String::new();
        };
        let left = Duration::from_secs(times.iter().sum());
        format!(" [last time {own} s; about {} min left here]", left.as_secs().div_ceil(60))
    }
}

/// Processor time of all processes that this one has started and waited for; zero where the system does not
/// say.
pub(crate) fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    of_children(&stat).unwrap_or_default()
}

/// User and system time of children in a line of `/proc/PID/stat`.
fn of_children(stat: &str) -> Option<Duration> {
    // The name of the program may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let times = fields.split(' ').skip(13).take(2).map(str::parse::<u64>);
    let ticks = times.sum::<Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Unit of the times in `/proc`, the same for all programs.
const TICKS_PER_SECOND: u64 = 100;

fn path() -> PathBuf {
    toolchain::target_directory().join("xtask-step-times")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children_is_that_of_user_and_system() {
        let fields: Vec<String> = (3..52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b) {}\n", fields.join(" "));
        assert_eq!(of_children(&stat), Some(Duration::from_millis((16 + 17) * 10)));
        assert_eq!(of_children("7 (a) R 1"), Some(Duration::ZERO));
        assert_eq!(of_children(""), None);
    }

    #[test]
    fn hint_has_the_last_time_and_that_of_the_steps_that_follow() {
        let times = StepTimes::parse(["fmt 3", "clippy 100", "tests 600", "odd"]);
        assert_eq!(
            times.hint(&["clippy", "new", "tests"]),
            " [last time 100 s; about 12 min left here]"
        );
        assert_eq!(times.hint(&["new", "tests"]), "");
        assert_eq!(StepTimes::default().hint(&["fmt"]), "");
    }
}
