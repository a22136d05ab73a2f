//! The tables of `docs/switching-options.md`, which are generated from those of options.

use super::table::HydraEffect::{OfAllocation, Only, Refused};
use super::{FAMILIES, HydraOption, OWN_LINES};
use std::fmt::Write;

/// Tables of all launchers but Hydra, whose page compares more.
fn tables() -> String {
    let mut text = String::new();
    for family in FAMILIES[1..].iter().chain(OWN_LINES.iter().map(|(_, family)| family)) {
        let _ =
            write!(text, "\n## {}\n\n| option | here | verdict | what to know |\n", family.name);
        text.push_str("| --- | --- | --- | --- |\n");
        for option in family.options {
            let is_own = OWN_LINES.iter().any(|(_, own)| own.name == family.name);
            let is_long = |name: &str| is_own && name.len() > 1;
            let dashes = |name: &str| if is_long(name) { "--" } else { "-" };
            let names = option.names.iter().map(|name| format!("`{}{name}`", dashes(name)));
            let names: Vec<String> = names.collect();
            let (here, note) = match &option.effect {
                Refused(why) => ("–".to_owned(), *why),
                Only(..) => ("the default".to_owned(), option.note),
                _ => (quoted(&option.meaning()), option.note),
            };
            let _ =
                writeln!(text, "| {} | {here} | {} | {note} |", names.join(", "), verdict(option));
        }
    }
    text
}

/// `meaning` with its options as code.
fn quoted(meaning: &str) -> String {
    let end = meaning.find([',', ';']).unwrap_or(meaning.len());
    match meaning.starts_with('-') {
        true => format!("`{}`{}", &meaning[..end], &meaning[end..]),
        false => meaning.to_owned(),
    }
}

fn verdict(option: &HydraOption) -> &'static str {
    match &option.effect {
        Refused(_) => "refused",
        Only(..) | OfAllocation => "default",
        _ if option.note.is_empty() => "same",
        _ => "mapped",
    }
}

#[test]
fn page_has_the_tables_of_options() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/switching-options.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (text, old) = page.split_once(MARK).expect("a mark in front of the tables");
    let new = tables();
    if std::env::var_os("PMI_HOST_WRITE_PAGES").is_some() {
        std::fs::write(file, format!("{text}{MARK}{new}")).unwrap();
    } else if old != new {
        panic!(
            "docs/switching-options.md is out of date; PMI_HOST_WRITE_PAGES=1 and this test write it"
        );
    }
}

#[test]
fn options_are_named_once() {
    for launcher in ["mpiexec"].into_iter().chain(OWN_LINES.map(|(name, _)| name)) {
        let all = super::all(launcher).flat_map(|option| option.names);
        let mut names: Vec<&str> = all.copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{launcher}");
    }
}

const MARK: &str = "<!-- tables of options, generated -->\n";
