//! Tables with their targets, and their places in `docs/performance.md`.

use super::Comparison;
use crate::page;

/// The table and, below it, which targets were met.
pub(super) fn render(table: &Comparison) -> String {
    let mut text = page::table(&table.header, ["--:", "--:"], &table.rows);
    let met = table.targets.iter().filter(|target| target.is_met).count();
    for note in &table.notes {
        text += &format!("\n{note}\n");
    }
    if table.targets.is_empty() {
        return text;
    }
    text += &format!("\nTargets met: {met} of {}.", table.targets.len());
    for missed in table.targets.iter().filter(|target| !target.is_met) {
        text += &format!(" Missed: {}.", missed.what);
    }
    text + "\n"
}

/// Lines as a Markdown list.
pub(super) fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}\n")).collect()
}

/// Puts `text` where the page has room for `name`.
///
/// # Errors
///
/// The page cannot be read or written, or has no such place.
pub(super) fn write(name: &str, text: &str) -> Result<(), String> {
    page::write(PAGE, marks(name).each_ref().map(String::as_str), text)
}

/// What stands in the place of `name` in the text of a page.
///
/// # Errors
///
/// It has no such place.
pub(super) fn section<'a>(text: &'a str, name: &str) -> Result<&'a str, String> {
    let marks = marks(name);
    let [_, section, _] = page::split(text, marks.each_ref().map(String::as_str))
        .ok_or_else(|| format!("{PAGE} has no place for {name}"))?;
    Ok(section.trim())
}

/// Header and rows of the table of `name` in the text of a page; `None` if it has none.
pub(super) fn rows<'a>(text: &'a str, name: &str) -> Option<(Vec<&'a str>, Vec<Vec<&'a str>>)> {
    let mut lines = section(text, name).ok()?.lines().skip_while(|line| !line.starts_with('|'));
    let header = cells(lines.next()?);
    // The line below the header aligns the columns.
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    Some((header, rows.collect()))
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The text of the page.
///
/// # Errors
///
/// It cannot be read.
pub(super) fn read() -> Result<String, String> {
    std::fs::read_to_string(crate::process::root().join(PAGE))
        .map_err(|error| format!("{PAGE}: {error}"))
}

fn marks(name: &str) -> [String; 2] {
    [format!("<!-- bench {name} -->"), format!("<!-- end {name} -->")]
}

const PAGE: &str = "docs/performance.md";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_rendered_with_its_verdict() {
        let mut table = Comparison::new(&["a", "b"]);
        table.rows.push(vec!["1".into(), "2".into()]);
        table.judge("x", 1.0, 2.0);
        table.judge("y", 3.0, 2.0);
        assert_eq!(
            render(&table),
            "| a | b |\n| --: | --: |\n| 1 | 2 |\n\nTargets met: 1 of 2. Missed: y: 3.00, at most 2.\n"
        );
    }

    #[test]
    fn page_has_a_place_for_every_section() {
        let document = read().unwrap();
        for name in super::super::SECTIONS.iter().map(|(name, ..)| *name).chain(["machine"]) {
            let marks = marks(name);
            assert!(page::replace(&document, marks.each_ref().map(String::as_str), "").is_ok());
        }
    }
}
