//! Patterns of labels and of file names.

use std::fmt::{self, Write};

/// A text with placeholders, in the notation of Hydra:
///
/// | letters | value |
/// |---|---|
/// | `%r` | rank in its own job |
/// | `%R` | the same with leading zeros, all ranks of the job alike |
/// | `%g` | number of the job: 0 for the first, spawned ones count on |
/// | `%j` | number of the job, from 1, as in Open MPI |
/// | `%p` | number of the node, which is that of Hydra's proxy |
/// | `%h` | name of the node |
/// | `%t` | whole seconds since the launcher started |
/// | `%%` | a percent sign |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<PatternPart>,
}

/// Values for the placeholders of a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternValues<'a> {
    /// The rank, or several of them.
    pub(crate) rank: &'a str,
    /// Number of digits of the number of ranks.
    pub(crate) width: usize,
    /// The number of the job.
    pub(crate) group: u32,
    /// Number of the node, or of several.
    pub(crate) node: &'a str,
    /// Name of the node, or of several.
    pub(crate) host: &'a str,
    /// Whole seconds since the start.
    pub(crate) secs: u64,
}

/// A pattern with an unknown placeholder. The text ends with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternError {
    /// The pattern.
    pub(crate) pattern: String,
    /// The letter after the percent sign; `None` at the end of the text.
    pub(crate) letter: Option<char>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    Text(String),
    Rank,
    PaddedRank,
    Group,
    GroupFromOne,
    Node,
    Host,
    Seconds,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// [`PatternError`] for a percent sign with an unknown letter or none.
    pub(crate) fn parse(pattern: &str) -> Result<Self, PatternError> {
        let (mut parts, mut text, mut letters) = (Vec::new(), String::new(), pattern.chars());
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            let part = match letters.next() {
                Some('%') => {
                    text.push('%');
                    continue;
                }
                Some('r') => PatternPart::Rank,
                Some('R') => PatternPart::PaddedRank,
                Some('g') => PatternPart::Group,
                Some('j') => PatternPart::GroupFromOne,
                Some('p') => PatternPart::Node,
                Some('h') => PatternPart::Host,
                Some('t') => PatternPart::Seconds,
                letter => return Err(PatternError { pattern: pattern.to_owned(), letter }),
            };
            if !text.is_empty() {
                parts.push(PatternPart::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
        }
        if !text.is_empty() {
            parts.push(PatternPart::Text(text));
        }
        Ok(Self { parts })
    }

    /// The text with all placeholders replaced.
    pub(crate) fn filled_in(&self, facts: PatternValues<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let written = match part {
                PatternPart::Text(fixed) => text.write_str(fixed),
                PatternPart::Rank => text.write_str(facts.rank),
                PatternPart::PaddedRank => write!(text, "{:0>1$}", facts.rank, facts.width),
                PatternPart::GroupFromOne => write!(text, "{}", facts.group.saturating_add(1)),
                PatternPart::Group => write!(text, "{}", facts.group),
                PatternPart::Node => text.write_str(facts.node),
                PatternPart::Host => text.write_str(facts.host),
                PatternPart::Seconds => write!(text, "{}", facts.secs),
            };
            // Writing to a string does not fail.
            debug_assert!(written.is_ok());
        }
        text
    }

    /// True if the text depends on the time.
    pub(crate) fn shows_time(&self) -> bool {
        self.parts.contains(&PatternPart::Seconds)
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, letter } = self;
        match letter {
            Some(letter) => write!(f, "'%{letter}' in the pattern '{pattern}' is undefined")?,
            None => write!(f, "the pattern '{pattern}' ends with a lone '%'")?,
        }
        f.write_str(
            "; there are %r and %R (rank), %g and %j (job), %p (node), %h (name of the node), %t (seconds) \
             and %% (a percent sign)",
        )
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled_in(pattern: &str) -> Result<String, Option<char>> {
        let (rank, host, node) = ("0-3", "node1", "0");
        let facts = PatternValues { rank, width: 5, group: 2, node, host, secs: 71 };
        let pattern = Pattern::parse(pattern).map_err(|error| error.letter)?;
        Ok(pattern.filled_in(facts))
    }

    #[test]
    fn letters_stand_for_the_values_of_hydra() {
        assert_eq!(filled_in("[%r] ").unwrap(), "[0-3] ");
        assert_eq!(filled_in("%g.%p.%h.%t.%%r").unwrap(), "2.0.node1.71.%r");
        assert_eq!(filled_in("%j/rank.%R").unwrap(), "3/rank.000-3");
        assert_eq!(filled_in("").unwrap(), "");
        assert_eq!(filled_in("é%r%ré").unwrap(), "é0-30-3é");
    }

    #[test]
    fn unknown_letters_are_named() {
        assert_eq!(filled_in("out.%x"), Err(Some('x')));
        assert_eq!(filled_in("100%"), Err(None));
        let error = Pattern::parse("a%é").unwrap_err().to_string();
        assert!(error.starts_with("'%é' in the pattern 'a%é' is undefined; there are %r"));
    }

    #[test]
    fn only_seconds_tell_the_time() {
        assert!(Pattern::parse("%r %t").unwrap().shows_time());
        assert!(!Pattern::parse("%r %%t").unwrap().shows_time());
    }
}
