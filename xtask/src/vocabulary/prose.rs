//! Figures of comments and lines.

use super::{Count, Source};

const PERSONS: &[&str] = &[
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "nobody",
    "somebody",
    "someone",
    "whoever",
    "whom",
    "whomever",
];

const QUESTIONS: &[&str] = &["how", "what", "where", "whether", "which", "who"];

const SPEECH: &[&str] = &[
    "hear", "heard", "hears", "said", "say", "saying", "says", "tell", "telling", "tells", "told",
];

/// Lines that contain a word for an unnamed person, per 1,000 comment lines.
pub(super) fn persons(sources: &[&Source<'_>]) -> Count {
    per_thousand(sources, |comment| words(comment).any(|word| PERSONS.contains(&&*word)))
}

/// Lines that begin with a question word, per 1,000 comment lines.
pub(super) fn questions(sources: &[&Source<'_>]) -> Count {
    per_thousand(sources, |comment| {
        words(comment).next().is_some_and(|word| QUESTIONS.contains(&&*word))
    })
}

/// Lines that let a component speak, per 1,000 comment lines.
pub(super) fn speech(sources: &[&Source<'_>]) -> Count {
    per_thousand(sources, |comment| words(comment).any(|word| SPEECH.contains(&&*word)))
}

/// Lines that are neither blank nor comment.
pub(super) fn product_lines(sources: &[&Source<'_>]) -> Count {
    let mut value = 0;
    let mut places = Vec::new();
    for source in sources {
        let is_code = |line: &str| !line.trim().is_empty() && comment(line).is_none();
        let lines = source.lines.iter().filter(|(_, line)| is_code(line)).count();
        value += lines;
        places.push(format!("{lines:>5} {}", source.path));
    }
    places.sort_unstable_by(|a, b| b.cmp(a));
    Count { value: value as f64, places }
}

fn per_thousand(sources: &[&Source<'_>], holds: impl Fn(&str) -> bool) -> Count {
    let mut comments = 0;
    let mut places = Vec::new();
    for source in sources {
        for (number, line) in &source.lines {
            let Some(comment) = comment(line) else { continue };
            comments += 1;
            if holds(comment) {
                places.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    let value = places.len() as f64 * 1000.0 / f64::from(comments.max(1));
    Count { value: (value * 10.0).round() / 10.0, places }
}

/// Text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim())
}

/// Words in lower case, without marks and without what stands in backquotes.
fn words(comment: &str) -> impl Iterator<Item = String> + '_ {
    let prose = comment.split('`').step_by(2);
    prose
        .flat_map(|part| part.split(|c: char| !c.is_alphabetic()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(text: &'a str) -> Source<'a> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
        Source { path: "a.rs", package: "", lines, tokens: Vec::new() }
    }

    #[test]
    fn persons_are_counted_by_line_and_outside_code() {
        let text = source("/// Nobody and nobody.\nfn nobody() {}\n// The peer.\n//! `nobody`\n");
        assert_eq!(persons(&[&text]).value, 333.3);
    }

    #[test]
    fn questions_count_only_where_a_line_begins() {
        let text =
            source("/// What it is.\n/// It is what it is.\n/// - which one\n/// Whatever.\n");
        assert_eq!(questions(&[&text]).value, 500.0);
    }

    #[test]
    fn product_lines_are_those_with_code() {
        let text = source("//! A page.\n\nfn a() { // why\n}\n");
        assert_eq!(product_lines(&[&text]).value, 2.0);
    }
}
