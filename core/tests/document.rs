//! Holds `docs/pmi1.md` to the code: its examples are messages, and what it names is there.

mod meaning;
mod transcript;
mod wording;

use std::collections::BTreeMap;
use std::path::Path;
use transcript::{Voice, escaped};

const PAGE: &str = include_str!("../../docs/pmi1.md");

#[test]
fn every_example_is_a_message_and_bears_a_star_if_we_word_it_so() {
    let mut streams: BTreeMap<Voice, Vec<u8>> = BTreeMap::new();
    let mut messages = 0;
    for (number, line) in (1..).zip(PAGE.lines()) {
        if !line.starts_with("C>S") && !line.starts_with("S>C") {
            continue;
        }
        let label = format!("docs/pmi1.md:{number}");
        let step = transcript::step(line, &label);
        let stream = streams.entry(step.from).or_default();
        stream.extend(&step.bytes);
        while let Some((bytes, unframed)) = transcript::cut(step.from, stream) {
            assert_eq!(unframed, None, "{label}");
            let means = escaped(&meaning::read(step.from, &bytes));
            assert!(!means.starts_with("malformed"), "{label}: {means}");
            assert_eq!(wording::is_ours(step.from, &bytes), step.ours, "{label}: {line}");
            messages += 1;
        }
    }
    assert!(streams.values().all(Vec::is_empty), "an example does not end");
    assert!(messages > 50, "{messages} examples");
}

#[test]
fn every_file_that_is_named_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folders = ["core/", "host-std/", "transports/", "docs/"];
    let names = quoted().filter(|name| folders.iter().any(|folder| name.starts_with(folder)));
    let mut count = 0;
    for name in names {
        assert!(root.join(name).exists(), "{name} is named and not there");
        count += 1;
    }
    assert!(count > 40, "{count} files are named");
}

#[test]
fn every_transcript_is_in_the_table_of_coverage_or_named_for_its_kind() {
    let transcripts = transcript::all();
    let (_, table) = PAGE.split_once("## What is covered").expect("a table of coverage");
    let words = table.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    for word in words.filter(|word| word.starts_with("pmi1-")) {
        let file = format!("{word}.pmi");
        assert!(transcripts.iter().any(|t| t.file == file), "{file} is named and not there");
    }
    // Those of servers that were not recorded, and of quirks, have their own places on the page.
    for transcript in transcripts.iter().filter(|t| t.file.starts_with("pmi1-")) {
        let name = transcript.file.trim_end_matches(".pmi");
        let has_place = matches!(name, "pmi1-others" | "pmi1-quirks") || table.contains(name);
        assert!(has_place, "{name} is in no row");
    }
}

#[test]
fn every_quirk_is_in_its_table_with_its_scenario() {
    let quirks = include_str!("../src/wire/quirks.rs");
    let constants = quirks.lines().filter_map(|line| line.strip_prefix("pub const "));
    let names = constants.filter_map(|line| line.split(':').next());
    let mut of_lines = 0;
    for (name, test) in names.zip(quirks.lines().filter(|line| line.starts_with("/// Test: "))) {
        // Those of other dialects have their own pages.
        if !test.contains("pmi1-") {
            continue;
        }
        let row = PAGE.lines().find(|line| line.contains(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} has no row"));
        let scenario = test.split('"').nth(1).or(test.split('/').nth(4)).unwrap_or_default();
        let scenario = scenario.trim_end_matches(['`', '.']);
        assert!(row.contains(scenario), "the row of {name} does not name {scenario:?}");
        of_lines += 1;
    }
    assert!(of_lines > 8, "{of_lines} quirks");
}

/// What stands in backticks.
fn quoted() -> impl Iterator<Item = &'static str> {
    PAGE.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}
