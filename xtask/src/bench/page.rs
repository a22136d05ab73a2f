//! Tables as Markdown, and their places in `docs/performance.md`.

use super::Comparison;
use crate::process;
use std::fs;

/// The table and, below it, which targets were met.
pub(super) fn render(table: &Comparison) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = row(&table.header);
    text += &format!("|{}\n", " --: |".repeat(table.header.len()));
    for cells in &table.rows {
        text += &row(cells);
    }
    let met = table.targets.iter().filter(|target| target.is_met).count();
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
    let path = process::root().join(PAGE);
    let page = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let page = replace(&page, name, text)?;
    fs::write(&path, page).map_err(|error| format!("{PAGE}: {error}"))
}

fn replace(page: &str, name: &str, text: &str) -> Result<String, String> {
    let (start, end) = (format!("<!-- bench {name} -->\n"), format!("<!-- end {name} -->"));
    let lost = || format!("{PAGE} has no lines {} and {end}", start.trim_end());
    let (before, rest) = page.split_once(&start).ok_or_else(lost)?;
    let (_, after) = rest.split_once(&end).ok_or_else(lost)?;
    Ok(format!("{before}{start}\n{text}\n{end}{after}"))
}

const PAGE: &str = "docs/performance.md";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_rendered_with_its_verdict() {
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
    fn only_the_place_of_that_name_is_replaced_and_again_gives_the_same() {
        let page =
            "head\n<!-- bench a -->\nold\n<!-- end a -->\n<!-- bench b -->\n<!-- end b -->\ntail\n";
        let once = replace(page, "a", "new\n").unwrap();
        assert_eq!(
            once,
            "head\n<!-- bench a -->\n\nnew\n\n<!-- end a -->\n<!-- bench b -->\n<!-- end b -->\ntail\n"
        );
        assert_eq!(replace(&once, "a", "new\n"), Ok(once.clone()));
        assert!(replace(page, "c", "").is_err());
    }

    #[test]
    fn the_page_has_a_place_for_every_section() {
        let page = fs::read_to_string(process::root().join(PAGE)).unwrap();
        for name in super::super::SECTIONS.iter().map(|section| section.name).chain(["machine"]) {
            assert!(replace(&page, name, "").is_ok(), "{name}");
        }
    }
}
