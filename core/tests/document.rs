//! Checks `docs/pmi1.md` and `docs/pmi2.md` against the code: their examples are messages, and the
//! files and quirks that they name exist.

mod meaning;
mod transcript;
mod wording;

use std::collections::BTreeMap;
use std::path::Path;
use transcript::{Voice, escaped};

/// A page, and the prefix of its transcripts' names.
struct Page {
    file: &'static str,
    text: &'static str,
    transcripts: &'static str,
    /// Least numbers of examples, names of files and quirks.
    counts: [usize; 3],
}

const PAGES: [Page; 2] = [
    Page {
        file: "docs/pmi1.md",
        text: include_str!("../../docs/pmi1.md"),
        transcripts: "pmi1-",
        counts: [50, 40, 8],
    },
    Page {
        file: "docs/pmi2.md",
        text: include_str!("../../docs/pmi2.md"),
        transcripts: "pmi2-",
        counts: [70, 50, 10],
    },
];

#[test]
fn examples_are_messages_and_bear_a_star_in_the_codecs_own_form() {
    for Page { file, text, counts, .. } in PAGES {
        let mut streams: BTreeMap<Voice, Vec<u8>> = BTreeMap::new();
        let mut messages = 0;
        for (number, line) in (1..).zip(text.lines()) {
            if !line.starts_with("C>S") && !line.starts_with("S>C") {
                continue;
            }
            let label = format!("{file}:{number}");
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
        assert!(streams.values().all(Vec::is_empty), "an example in {file} does not end");
        assert!(messages > counts[0], "{messages} examples in {file}");
    }
}

#[test]
fn named_files_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let directories = ["core/", "host-std/", "transports/", "docs/"];
    for Page { file, text, counts, .. } in PAGES {
        let names = quoted(text).filter(|name| directories.iter().any(|f| name.starts_with(f)));
        let mut count = 0;
        for name in names {
            assert!(root.join(name).exists(), "{file} names {name}, which is not there");
            count += 1;
        }
        assert!(count > counts[1], "{count} files are named in {file}");
    }
}

#[test]
fn linked_places_exist() {
    let places = |text: &str| -> Vec<String> {
        let heads = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
        heads.map(|head| head.to_lowercase().replace([',', ':'], "").replace(' ', "-")).collect()
    };
    let mut count = 0;
    for Page { file, text, .. } in PAGES {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((page, place)) = link.split_once('#') else { continue };
            let page = if page.is_empty() { file.trim_start_matches("docs/") } else { page };
            let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
            let target =
                std::fs::read_to_string(docs.join(page)).expect("a page of the documentation");
            let found = places(&target).iter().any(|head| head == place);
            assert!(found, "{file} links to {link}");
            count += 1;
        }
    }
    assert!(count > 20, "{count} links");
}

#[test]
fn transcripts_are_in_the_table_of_coverage_or_named_for_their_kind() {
    let transcripts = transcript::all();
    for Page { file, text, transcripts: prefix, .. } in PAGES {
        let (_, table) = text.split_once("## What is covered").expect("a table of coverage");
        let words = table.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        for word in words.filter(|word| word.starts_with(prefix)) {
            let name = format!("{word}.pmi");
            let found = transcripts.iter().any(|t| t.file == name);
            assert!(found, "{file} names {name}, which is not there");
        }
        for transcript in transcripts.iter().filter(|t| t.file.starts_with(prefix)) {
            let name = transcript.file.trim_end_matches(".pmi");
            let kind = name.trim_start_matches(prefix);
            // Transcripts of unrecorded servers and of quirks have other places.
            let has_place = matches!(kind, "others" | "quirks") || table.contains(name);
            assert!(has_place, "{name} is in no row of {file}");
        }
    }
}

#[test]
fn quirks_are_in_their_table_with_their_scenarios() {
    let quirks = include_str!("../src/wire/quirks.rs");
    let constants = quirks.lines().filter_map(|line| line.strip_prefix("pub const "));
    let names: Vec<_> = constants.filter_map(|line| line.split(':').next()).collect();
    let tests = || quirks.lines().filter(|line| line.starts_with("/// Test: "));
    assert_eq!(names.len(), tests().count(), "each constant names its test");
    for Page { file, text, transcripts, counts } in PAGES {
        let mut of_page = 0;
        for (name, test) in names.iter().zip(tests()).filter(|(_, t)| t.contains(transcripts)) {
            let row = text.lines().find(|line| line.contains(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{name} has no row in {file}"));
            let scenario = test.split('"').nth(1).or(test.split('/').nth(4)).unwrap_or_default();
            let scenario = scenario.trim_end_matches(['`', '.']);
            assert!(row.contains(scenario), "the row of {name} does not name {scenario:?}");
            of_page += 1;
        }
        assert!(of_page > counts[2], "{of_page} quirks in {file}");
    }
}

/// Texts between backticks.
fn quoted(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}
