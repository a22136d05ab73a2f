//! Lines with contents, and their words.

use crate::rng::{Percent, Span};
use crate::scenario::ScenarioError;
use crate::scenario::words::{Phrase, Word, split};

/// The lines with contents, one after the other.
pub(in crate::scenario) struct ScenarioLines<'a> {
    pub(in crate::scenario) lines: std::str::Lines<'a>,
    pub(in crate::scenario) number: usize,
}

impl ScenarioLines<'_> {
    pub(in crate::scenario) fn next(&mut self) -> Result<Option<Line>, ScenarioError> {
        for text in self.lines.by_ref() {
            self.number += 1;
            let words = split(text).map_err(|what| ScenarioError { line: self.number, what })?;
            if !words.is_empty() {
                return Ok(Some(Line { words: words.into_iter().peekable() }));
            }
        }
        Ok(None)
    }
}

/// The words of a line, from the left.
pub(in crate::scenario) struct Line {
    pub(in crate::scenario) words: std::iter::Peekable<std::vec::IntoIter<Word>>,
}

impl Line {
    /// The words of `text`.
    pub(in crate::scenario) fn new(text: &str) -> Result<Self, String> {
        Ok(Self { words: split(text)?.into_iter().peekable() })
    }

    /// Takes the next word if it is this one.
    pub(in crate::scenario) fn is(&mut self, wanted: &str) -> bool {
        self.words.next_if(|word| word.plain() == Some(wanted)).is_some()
    }

    /// The next word, which must be a keyword and not quoted.
    pub(in crate::scenario) fn word(&mut self, what: &str) -> Result<String, String> {
        let word = self.words.next().ok_or_else(|| format!("{what} is missing"))?;
        word.plain().map(str::to_owned).ok_or_else(|| format!("{what} is not in quotes"))
    }

    pub(in crate::scenario) fn phrase(&mut self, what: &str) -> Result<Phrase, String> {
        let word = self.words.next().ok_or_else(|| format!("{what} is missing"))?;
        Ok(Phrase(word.bytes))
    }

    pub(in crate::scenario) fn number<N: std::str::FromStr>(
        &mut self,
        what: &str,
    ) -> Result<N, String> {
        let word = self.word(what)?;
        word.parse().map_err(|_| format!("{what} is a number, not `{word}`"))
    }

    pub(in crate::scenario) fn span(&mut self, what: &str) -> Result<Span, String> {
        let word = self.word(what)?;
        let number =
            |text: &str| text.parse().map_err(|_| format!("{what} is `7` or `3..9`, not `{word}`"));
        match word.split_once("..") {
            None => Ok(Span::just(number(&word)?)),
            Some((from, to)) => {
                let span = Span::new(number(from)?, number(to)?);
                if span.from > span.to {
                    return Err(format!("{what} `{word}` runs backwards"));
                }
                Ok(span)
            }
        }
    }

    pub(in crate::scenario) fn percent(&mut self, what: &str) -> Result<Percent, String> {
        let word = self.word(what)?;
        let percent = word.strip_suffix('%').and_then(|number| number.parse().ok());
        let percent = percent.filter(|percent| *percent <= 100);
        percent.map(Percent).ok_or_else(|| format!("{what} is `0%` to `100%`, not `{word}`"))
    }

    pub(in crate::scenario) fn end(&mut self) -> Result<(), String> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => {
                let word = word.bytes.escape_ascii().to_string();
                Err(format!("`{word}` is one word too many"))
            }
        }
    }
}
