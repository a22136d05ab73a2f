//! Progress line for a long start or a long end, on a terminal.
//!
//! The line is drawn in memory and written like all output of the launcher. Thus a blocked terminal does
//! not block the launcher, and output of ranks never follows the line directly.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::io;
use std::sync::{Arc, Mutex};
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
#[derive(Debug)]
pub(crate) struct Progress {
    task: Option<ProgressTask>,
    /// Number of ranks of the task.
    all: u64,
    draw_at: Option<Instant>,
    is_shown: bool,
    bar: ProgressBar,
    sheet: Sheet,
}

impl Progress {
    /// Creates a progress line that is not shown.
    pub(crate) fn new() -> Self {
        let sheet = Sheet::default();
        let target = ProgressDrawTarget::term_like(Box::new(sheet.clone()));
        let bar = ProgressBar::with_draw_target(Some(0), target);
        // The template is a constant and valid.
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:32}] {pos} of {len}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { task: None, all: 0, draw_at: None, is_shown: false, bar, sheet }
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
        self.bar.set_length(self.all);
        self.bar.set_position(done);
        self.bar.set_message(match task {
            ProgressTask::Start => "starting ranks",
            ProgressTask::End => "waiting for ranks to end",
        });
        self.sheet.wipe();
        self.bar.tick();
        self.sheet.text()
    }
}

/// Target of the drawing: a string.
#[derive(Clone, Debug, Default)]
struct Sheet(Arc<Mutex<String>>);

impl Sheet {
    fn wipe(&self) {
        self.with(String::clear);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.with(|drawn| text = drawn.trim().to_owned());
        text
    }

    fn with(&self, change: impl FnOnce(&mut String)) {
        // The mutex is used by one thread only, so it is never poisoned.
        if let Ok(mut text) = self.0.lock() {
            change(&mut text);
        }
    }
}

impl TermLike for Sheet {
    fn width(&self) -> u16 {
        WIDTH
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.with(|drawn| drawn.push_str(text));
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.wipe();
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A shorter delay is not noticed and needs no line.
const MOMENT: Duration = Duration::from_millis(500);

/// Redraw interval.
const BETWEEN: Duration = Duration::from_millis(100);

/// Narrower than any terminal.
const WIDTH: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_steps_are_not_shown() {
        let (mut progress, start) = (Progress::new(), Instant::now());
        assert_eq!(progress.check(start, Some((ProgressTask::Start, 0, 100))), None);
        assert_eq!(progress.check(start + MOMENT / 2, Some((ProgressTask::Start, 50, 50))), None);
        assert_eq!(progress.check(start + MOMENT / 2, None), None);
        assert_eq!(progress.deadline(), None);
    }

    #[test]
    fn long_steps_are_shown_until_they_are_over() {
        let (mut progress, start) = (Progress::new(), Instant::now());
        assert_eq!(progress.check(start, Some((ProgressTask::Start, 0, 100))), None);
        let later = progress.deadline().unwrap();
        let shown = progress.check(later, Some((ProgressTask::Start, 40, 60))).unwrap().unwrap();
        assert!(shown.starts_with("starting ranks [====="), "{shown}");
        assert!(shown.ends_with("] 40 of 100") && shown.len() < 80, "{shown}");
        assert_eq!(progress.check(later, Some((ProgressTask::Start, 41, 59))), None);
        assert_eq!(progress.check(later, None), Some(None));
        assert_eq!(progress.check(later, None), None);
        // For an end, only the number of remaining ranks is known, not the total.
        assert_eq!(progress.check(later, Some((ProgressTask::End, 0, 8))), None);
        let later = progress.deadline().unwrap();
        let shown = progress.check(later, Some((ProgressTask::End, 0, 2))).unwrap().unwrap();
        assert!(
            shown.starts_with("waiting for ranks to end [") && shown.ends_with("6 of 8"),
            "{shown}"
        );
    }
}
