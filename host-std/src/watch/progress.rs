//! Progress line for a long start or a long end, on a terminal.
//!
//! The line is written like all output of the launcher. Thus a blocked terminal does not block the launcher,
//! and output of ranks never follows the line directly.

use std::time::{Duration, Instant};

/// A task with a progress line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressTask {
    /// Starting ranks.
    Start,
    /// Waiting for ranks to terminate.
    End,
}

/// The progress line and its timing.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    task: Option<ProgressTask>,
    /// Number of ranks of the task.
    all: u64,
    draw_at: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Creates a progress line that is not shown.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Time of the next [`look`](Self::look).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.draw_at
    }

    /// Updates the line at `now`: a task, with the number of ranks done and left. Returns a new line, or
    /// no line where one was; `None` if nothing changes.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        task: Option<(ProgressTask, u64, u64)>,
    ) -> Option<Option<String>> {
        let Some((task, done, left)) = task else {
            (self.task, self.draw_at) = (None, None);
            return std::mem::take(&mut self.is_shown).then_some(None);
        };
        if self.task != Some(task) {
            (self.task, self.all, self.draw_at) = (Some(task), 0, Some(now + MOMENT));
        }
        self.all = self.all.max(done + left);
        self.draw_at.filter(|at| now >= *at)?;
        self.draw_at = Some(now + BETWEEN);
        self.is_shown = true;
        Some(Some(self.draw(task, self.all.saturating_sub(left))))
    }

    fn draw(&self, task: ProgressTask, done: u64) -> String {
        let what = match task {
            ProgressTask::Start => "starting ranks",
            ProgressTask::End => "waiting for ranks to end",
        };
        let share = done.min(self.all).saturating_mul(BAR) / self.all.max(1);
        let length = usize::try_from(share).unwrap_or_default();
        let mut bar = "=".repeat(length);
        if share < BAR {
            bar.push('>');
        }
        let width = usize::try_from(BAR).unwrap_or_default();
        format!("{what} [{bar:width$}] {done} of {}", self.all)
    }
}

/// A shorter delay is not noticed and needs no line.
const MOMENT: Duration = Duration::from_millis(500);

/// Redraw interval.
const BETWEEN: Duration = Duration::from_millis(100);

/// Width of the bar. The line is narrower than any terminal.
const BAR: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::clock;

    #[test]
    fn short_steps_are_not_shown() {
        let (mut progress, start) = (Progress::new(), clock::now());
        assert_eq!(progress.check(start, Some((ProgressTask::Start, 0, 100))), None);
        assert_eq!(progress.check(start + MOMENT / 2, Some((ProgressTask::Start, 50, 50))), None);
        assert_eq!(progress.check(start + MOMENT / 2, None), None);
        assert_eq!(progress.deadline(), None);
    }

    #[test]
    fn long_steps_are_shown_until_they_are_over() {
        let (mut progress, start) = (Progress::new(), clock::now());
        assert_eq!(progress.check(start, Some((ProgressTask::Start, 0, 100))), None);
        let later = progress.deadline().unwrap();
        let shown = progress.check(later, Some((ProgressTask::Start, 40, 60))).unwrap().unwrap();
        let bar = format!("{}>{}", "=".repeat(12), " ".repeat(19));
        assert_eq!(shown, format!("starting ranks [{bar}] 40 of 100"));
        assert_eq!(progress.check(later, Some((ProgressTask::Start, 41, 59))), None);
        assert_eq!(progress.check(later, None), Some(None));
        assert_eq!(progress.check(later, None), None);
        // For an end, only the number of remaining ranks is known, not the total.
        assert_eq!(progress.check(later, Some((ProgressTask::End, 0, 8))), None);
        let later = progress.deadline().unwrap();
        let shown = progress.check(later, Some((ProgressTask::End, 0, 2))).unwrap().unwrap();
        let bar = format!("{}>{}", "=".repeat(24), " ".repeat(7));
        assert_eq!(shown, format!("waiting for ranks to end [{bar}] 6 of 8"));
        let all = Progress { all: 8, ..Progress::new() }.draw(ProgressTask::Start, 8);
        assert_eq!(all, format!("starting ranks [{}] 8 of 8", "=".repeat(32)));
    }
}
