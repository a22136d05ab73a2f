//! Tables as Markdown, and the places of documents that commands write.

use crate::process;
use std::fs;

/// A table; `marks` align the first column and all others.
pub(crate) fn table(header: &[impl AsRef<str>], marks: [&str; 2], rows: &[Vec<String>]) -> String {
    let header: Vec<&str> = header.iter().map(AsRef::as_ref).collect();
    let others = format!(" {} |", marks[1]).repeat(header.len().saturating_sub(1));
    let rows = rows.iter().map(|cells| format!("| {} |\n", cells.join(" | ")));
    format!("| {} |\n| {} |{others}\n{}", header.join(" | "), marks[0], rows.collect::<String>())
}

/// Puts `text` into the document `path`, between two marks.
///
/// # Errors
///
/// The document cannot be read or written, or lacks a mark.
pub(crate) fn write(path: &str, marks: [&str; 2], text: &str) -> Result<(), String> {
    write_all(path, marks, &[text.to_owned()])
}

/// Puts `texts` into the document `path`, as [`replace_all`] does.
///
/// # Errors
///
/// The document cannot be read or written, or lacks a mark.
pub(crate) fn write_all(path: &str, marks: [&str; 2], texts: &[String]) -> Result<(), String> {
    println!("writing {path}");
    let file = process::root().join(path);
    let document = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
    let document = replace_all(&document, marks, texts).map_err(|why| format!("{path}: {why}"))?;
    fs::write(&file, document).map_err(|error| format!("{path}: {error}"))
}

/// The document with `texts` between its only pair of marks, or with each text between a pair of its own.
///
/// # Errors
///
/// A mark is missing, or the number of pairs is neither 1 nor that of the texts.
pub(crate) fn replace_all(
    document: &str,
    marks: [&str; 2],
    texts: &[String],
) -> Result<String, String> {
    let places = document.matches(marks[0]).count();
    if places <= 1 {
        return replace(document, marks, &texts.join("\n"));
    }
    if places != texts.len() {
        return Err(format!("there are {places} places for {} tables", texts.len()));
    }
    // Each piece after the first one begins with a mark.
    let mut pieces = document.split(marks[0]);
    let mut replaced = pieces.next().unwrap_or_default().to_owned();
    for (piece, text) in pieces.zip(texts) {
        replaced += &replace(&format!("{}{piece}", marks[0]), marks, text)?;
    }
    Ok(replaced)
}

/// The document with `text` between two marks, instead of what was there.
///
/// # Errors
///
/// A mark is missing.
pub(crate) fn replace(document: &str, marks: [&str; 2], text: &str) -> Result<String, String> {
    let [start, end] = marks;
    let missing = || format!("there are no lines {start} and {end}");
    let [before, _, after] = split(document, marks).ok_or_else(missing)?;
    Ok(format!("{before}{start}\n\n{text}\n{end}{after}"))
}

/// The parts of a document before, between and behind two marks; `None` without these.
pub(crate) fn split<'a>(document: &'a str, [start, end]: [&str; 2]) -> Option<[&'a str; 3]> {
    let (before, rest) = document.split_once(start)?;
    let (between, after) = rest.split_once(end)?;
    Some([before, between, after])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_header_and_its_rows() {
        let rows = [vec!["1".to_owned(), "2".to_owned()]];
        assert_eq!(
            table(&["a", "b"], [":--", "--:"], &rows),
            "| a | b |\n| :-- | --: |\n| 1 | 2 |\n"
        );
    }

    #[test]
    fn only_the_text_between_the_marks_is_replaced_and_again_gives_the_same() {
        let page = "head\n<!-- a -->\nold\n<!-- end a -->\n<!-- b -->\n<!-- end b -->\ntail\n";
        let marks = ["<!-- a -->", "<!-- end a -->"];
        let once = replace(page, marks, "new\n").unwrap();
        assert_eq!(
            once,
            "head\n<!-- a -->\n\nnew\n\n<!-- end a -->\n<!-- b -->\n<!-- end b -->\ntail\n"
        );
        assert_eq!(replace(&once, marks, "new\n"), Ok(once.clone()));
        assert!(replace(page, ["<!-- c -->", "<!-- end c -->"], "").is_err());
    }
}
