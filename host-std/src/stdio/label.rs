//! Labels in front of lines.

use super::StreamOwner;
use super::pattern::{Pattern, PatternError, PatternValues};
use crate::settings::Output;
use std::time::Instant;

/// Labels of all ranks.
#[derive(Debug)]
pub(crate) struct Labels {
    pattern: Option<Pattern>,
    timestamps: bool,
    host: String,
    started: Instant,
}

impl Labels {
    /// Creates the labels of `settings` for ranks on `host`. Time counts from now.
    ///
    /// # Errors
    ///
    /// [`PatternError`].
    pub(crate) fn new(settings: &Output, host: &str) -> Result<Self, PatternError> {
        Ok(Self {
            pattern: settings.label.as_deref().map(Pattern::parse).transpose()?,
            timestamps: settings.timestamps,
            host: host.to_owned(),
            started: Instant::now(),
        })
    }

    /// The label of a line that `rank` (one, or several as a text) wrote at `now`; empty if there is none.
    pub(crate) fn text(&self, group: u32, rank: &str, now: Instant) -> String {
        let since = now.saturating_duration_since(self.started);
        let time = match self.timestamps {
            true => format!("{:.6} ", since.as_secs_f64()),
            false => String::new(),
        };
        let facts = PatternValues { rank, group, host: &self.host, secs: since.as_secs() };
        match &self.pattern {
            Some(pattern) => time + &pattern.filled_in(facts),
            None => time,
        }
    }

    /// Text of `pattern` for a rank at this moment.
    pub(crate) fn fill_in(
        &self,
        pattern: &Pattern,
        StreamOwner { group, rank }: StreamOwner,
    ) -> String {
        let secs = self.started.elapsed().as_secs();
        pattern.filled_in(PatternValues { rank: &rank.to_string(), group, host: &self.host, secs })
    }

    /// True if labels depend on the time, so that they must be made for each line.
    pub(crate) fn shows_time(&self) -> bool {
        self.timestamps || self.pattern.as_ref().is_some_and(Pattern::shows_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn label(label: Option<&str>, timestamps: bool) -> String {
        let settings = Output { label: label.map(str::to_owned), timestamps, ..Output::default() };
        let labels = Labels::new(&settings, "node1").unwrap();
        assert_eq!(labels.shows_time(), timestamps);
        labels.text(1, "7", labels.started + Duration::from_millis(12_345))
    }

    #[test]
    fn time_stands_before_the_rank() {
        assert_eq!(label(None, false), "");
        assert_eq!(label(Some("[%r] "), false), "[7] ");
        assert_eq!(label(Some("%h:%g "), true), "12.345000 node1:1 ");
    }
}
