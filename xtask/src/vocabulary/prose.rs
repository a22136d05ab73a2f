//! Figures of comments and lines.

use super::{Count, Source};

/// Words for unnamed persons.
pub(crate) const PERSONS: &[&str] = &[
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

/// Files in which those words stand for themselves: the lists, and the former names of the glossary.
const QUOTING: &[&str] =
    &["docs/glossary.md", "xtask/src/vocabulary.rs", "xtask/src/vocabulary/prose.rs"];

/// Lines that contain a word for an unnamed person, per 1,000 comment lines.
pub(super) fn persons(sources: &[&Source<'_>]) -> Count {
    per_thousand(sources, |comment| words(comment).any(|word| PERSONS.contains(&&*word)))
}

/// String literals with such a word, per 1,000 literals of several words.
pub(super) fn persons_of_texts(sources: &[&Source<'_>]) -> Count {
    let texts = sources
        .iter()
        .flat_map(|source| source.texts.iter().map(|text| (source.path, text.line, text.text)))
        .filter(|(_, _, text)| words(text).nth(1).is_some() && text.contains(' '));
    persons_per_thousand(texts)
}

/// Lines with such a word, per 1,000 lines of documents.
pub(super) fn persons_of_pages(sources: &[&Source<'_>]) -> Count {
    let lines = sources
        .iter()
        .flat_map(|source| source.lines.iter().map(|(number, line)| (source.path, *number, *line)));
    persons_per_thousand(lines.filter(|(_, _, line)| !line.trim().is_empty()))
}

fn persons_per_thousand<'a>(all: impl Iterator<Item = (&'a str, usize, &'a str)>) -> Count {
    let (mut count, mut places) = (0_u32, Vec::new());
    for (path, number, text) in all.filter(|(path, ..)| !QUOTING.contains(path)) {
        count += 1;
        if words(text).any(|word| PERSONS.contains(&&*word)) {
            places.push(format!("{path}:{number}: {}", text.trim()));
        }
    }
    share(places, count)
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
    let mut comments = 0_u32;
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
    share(places, comments)
}

/// Number of `places` per 1,000 of `count`, to one digit.
fn share(places: Vec<String>, count: u32) -> Count {
    let value = places.len() as f64 * 1000.0 / f64::from(count.max(1));
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
        let texts = crate::source::texts(text);
        Source { path: "a.rs", package: "", lines, tokens: Vec::new(), texts }
    }

    #[test]
    fn persons_are_counted_by_line_and_outside_code() {
        let text = source("/// Nobody and nobody.\nfn nobody() {}\n// The peer.\n//! `nobody`\n");
        assert_eq!(persons(&[&text]).value, 333.3);
    }

    #[test]
    fn persons_of_texts_are_counted_in_literals_of_several_words() {
        let text = source("a(\"Nobody waits\", \"nobody\", \"a rank waits\"); // nobody waits\n");
        assert_eq!(persons_of_texts(&[&text]).value, 500.0);
    }

    #[test]
    fn persons_of_pages_are_counted_by_line_except_in_pages_that_quote_them() {
        let page = source("Nobody waits.\n\nA rank waits for `nobody`.\n");
        assert_eq!(persons_of_pages(&[&page]).value, 500.0);
        assert_eq!(persons_of_pages(&[&Source { path: QUOTING[0], ..page }]).value, 0.0);
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
