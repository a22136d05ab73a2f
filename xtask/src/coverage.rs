//! `cargo xtask coverage`: tables of what specifications require and batch systems do, and of the tests that
//! prove it.
//!
//! The one source of the items is `docs/coverage.txt`. A test carries the numbers of its items: in Rust in a
//! comment `// Coverage: W2-1, W2-2` above it, in a transcript in a line `# coverage: W2-1` behind the name
//! of the scenario. `--write` puts the tables into the pages, all between one pair of marks or each between a
//! pair of its own; without it the command, as `cargo xtask tidy`, fails if a page is out of date, if an item
//! that is covered has no test, or if a test names no item.

use crate::args;
use crate::tree::{self, File};
use crate::{page, process, report};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// One item of a specification.
#[derive(Debug, PartialEq, Eq)]
struct Item<'a> {
    number: &'a str,
    verdict: Verdict,
    section: &'a str,
    what: &'a str,
    /// Why it deviates or is not complete.
    reason: &'a str,
}

/// How far an item is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Yes,
    Deviates,
    Partly,
    Missing,
}

/// The items of one specification, in the order of its text.
#[derive(Debug, PartialEq, Eq)]
struct Specification<'a> {
    page: &'a str,
    title: &'a str,
    /// Headings of the columns for sections and items.
    columns: [&'a str; 2],
    items: Vec<Item<'a>>,
}

/// Places of tests, by the number of an item.
type Tests<'a> = BTreeMap<&'a str, BTreeSet<String>>;

const SOURCE: &str = "docs/coverage.txt";
const MARKS: [&str; 2] =
    ["<!-- coverage: written by `cargo xtask coverage --write` -->", "<!-- end of coverage -->"];
const IN_RUST: &str = "// Coverage: ";
const IN_TRANSCRIPT: &str = "# coverage: ";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let [is_write] = args::flags(arguments, "cargo xtask coverage [--write]", ["write"])?;
    let files = tree::files()?;
    if is_write {
        for (path, tables) in pages(&files)? {
            page::write_all(&path, MARKS, &tables)?;
        }
    }
    Ok(report("coverage", &check(&tree::files()?)))
}

/// Findings in the items, in the marks of tests and in the pages.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let Some(source) = files.iter().find(|file| file.path == SOURCE) else { return Vec::new() };
    let specifications = match parse(&source.text) {
        Ok(specifications) => specifications,
        Err(why) => return vec![why],
    };
    let tests = tests(files);
    let items = specifications.iter().flat_map(|specification| &specification.items);
    let mut findings = judge(&items.collect::<Vec<_>>(), &tests);
    for (path, tables) in pages(files).unwrap_or_default() {
        let document = files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
        match page::replace_all(document, MARKS, &tables) {
            Ok(new) if new == document => {}
            Ok(_) => findings.push(format!("{path}: run `cargo xtask coverage --write`")),
            Err(why) => findings.push(format!("{path}: {why}")),
        }
    }
    findings
}

/// Items and marks that do not fit each other.
fn judge(items: &[&Item<'_>], tests: &Tests<'_>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    for item in items {
        let Item { number, verdict, reason, .. } = item;
        if !known.insert(*number) {
            findings.push(format!("{SOURCE}: {number} stands twice"));
        }
        let is_tested = tests.contains_key(number);
        match verdict {
            Verdict::Yes | Verdict::Deviates if !is_tested => {
                findings.push(format!("{SOURCE}: no test names {number}"));
            }
            Verdict::Missing if is_tested => {
                findings.push(format!("{SOURCE}: {number} is missing, but has a test"));
            }
            _ => {}
        }
        if (*verdict == Verdict::Yes) != reason.is_empty() {
            findings.push(format!("{SOURCE}: {number}: a reason belongs to each verdict but yes"));
        }
    }
    for (number, places) in tests.iter().filter(|(number, _)| !known.contains(*number)) {
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        findings.push(format!("{}: no item has the number {number}", places.join(", ")));
    }
    findings
}

/// Reads the items, as the head of the file describes them.
fn parse(text: &str) -> Result<Vec<Specification<'_>>, String> {
    let mut all: Vec<Specification<'_>> = Vec::new();
    for (at, line) in (1..).zip(text.lines()) {
        let invalid = || format!("{SOURCE}:{at}: neither a title nor an item");
        if let Some(head) = line.strip_prefix("@ ") {
            let (page, title) = head.split_once(' ').ok_or_else(invalid)?;
            let fields: Vec<&str> = title.split('|').map(str::trim).collect();
            let (title, columns) = match fields[..] {
                [title] => (title, ["section", "item"]),
                [title, section, item] => (title, [section, item]),
                _ => return Err(invalid()),
            };
            all.push(Specification { page, title, columns, items: Vec::new() });
        } else if !line.is_empty() && !line.starts_with('#') {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [number, verdict, section, what, reason] = fields[..] else {
                return Err(invalid());
            };
            let verdict = Verdict::of(verdict).ok_or_else(invalid)?;
            let last = all.last_mut().ok_or_else(invalid)?;
            last.items.push(Item { number, verdict, section, what, reason });
        }
    }
    Ok(all)
}

/// Files with tests of an item.
pub(crate) fn places(files: &[File], item: &str) -> BTreeSet<String> {
    let tests = tests(files);
    let found = tests.get(item).into_iter().flatten();
    found.filter_map(|place| Some(place.strip_prefix('`')?.split_once('`')?.0.to_owned())).collect()
}

/// The tests that carry numbers.
fn tests(files: &[File]) -> Tests<'_> {
    let mut tests = Tests::new();
    for file in files {
        let marks = match file.path.rsplit_once('.') {
            Some((_, "rs")) => rust_marks(&file.text),
            Some((_, "pmi")) => transcript_marks(&file.text),
            _ => continue,
        };
        for (numbers, name) in marks {
            for number in numbers.trim_end_matches('.').split(", ") {
                tests.entry(number).or_default().insert(format!("`{}` {name}", file.path));
            }
        }
    }
    tests
}

/// Numbers, and the function below them. A mark that stands above no test names itself.
fn rust_marks(text: &str) -> Vec<(&str, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let marks = (0..).zip(&lines).filter_map(|(at, line)| Some((at, line.strip_prefix(IN_RUST)?)));
    marks
        .map(|(at, numbers): (usize, _)| {
            let below = lines.iter().skip(at + 1).take(4);
            let name = below.clone().find_map(|line| line.strip_prefix("fn "));
            let is_test = below.clone().any(|line| *line == "#[test]");
            let name = name.filter(|_| is_test).and_then(|name| name.split('(').next());
            name.map_or(("?", numbers.to_owned()), |name| (numbers, format!("`{name}`")))
        })
        .collect()
}

/// Numbers, and the scenario that they stand in.
fn transcript_marks(text: &str) -> Vec<(&str, String)> {
    let mut scenario = "";
    let mut marks = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            scenario = name;
        } else if let Some(numbers) = line.strip_prefix(IN_TRANSCRIPT) {
            marks.push((numbers, format!("*{scenario}*")));
        }
    }
    marks
}

/// The tables of each page, each below its title.
fn pages(files: &[File]) -> Result<BTreeMap<String, Vec<String>>, String> {
    let source = files.iter().find(|file| file.path == SOURCE);
    let source =
        source.ok_or_else(|| format!("{SOURCE}: missing in {}", process::root().display()))?;
    let tests = tests(files);
    let mut pages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for specification in parse(&source.text)? {
        let tables = pages.entry(specification.page.to_owned()).or_default();
        let text = format!("{}:\n\n{}", specification.title, table(&specification, &tests));
        tables.push(text);
    }
    Ok(pages)
}

fn table(specification: &Specification<'_>, tests: &Tests<'_>) -> String {
    let rows = specification.items.iter().map(|item| {
        let places = tests.get(item.number).into_iter().flatten();
        let places: Vec<&str> = places.map(String::as_str).collect();
        let verdict = match item.reason {
            "" => item.verdict.word().to_owned(),
            reason => format!("{}: {reason}", item.verdict.word()),
        };
        [item.number, item.section, item.what, &verdict, &places.join(", ")]
            .map(str::to_owned)
            .to_vec()
    });
    let [section, item] = specification.columns;
    let header = ["number", section, item, "verdict", "tests"];
    page::table(&header, ["---", "---"], &rows.collect::<Vec<_>>())
}

impl Verdict {
    fn of(word: &str) -> Option<Self> {
        let all = [Self::Yes, Self::Deviates, Self::Partly, Self::Missing];
        all.into_iter().find(|verdict| verdict.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Deviates => "deviates",
            Self::Partly => "partly",
            Self::Missing => "missing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: &str =
        "# items\n@ docs/a.md A Title\nA-1 | yes | S | one |\nA-2 | missing | S | two | why\n";
    const TEST: &str = "#[test]\nfn subject_does_it() {}\n";

    fn tree(items: &str, marked: &str, page: &str) -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        vec![file(SOURCE, items), file("t/x.rs", marked), file("docs/a.md", page)]
    }

    /// A page that is up to date with these items and this test.
    fn written(items: &str, marked: &str) -> String {
        let empty = format!("head\n{}\n{}\n", MARKS[0], MARKS[1]);
        let texts = pages(&tree(items, marked, &empty)).unwrap();
        page::replace_all(&empty, MARKS, &texts["docs/a.md"]).unwrap()
    }

    #[test]
    fn pages_that_are_written_have_no_findings() {
        let marked = format!("{IN_RUST}A-1\n{TEST}");
        let page = written(ITEMS, &marked);
        assert!(page.contains("| A-1 | S | one | yes | `t/x.rs` `subject_does_it` |"), "{page}");
        assert!(page.contains("| A-2 | S | two | missing: why |  |"), "{page}");
        assert_eq!(check(&tree(ITEMS, &marked, &page)), [""; 0]);
        assert_eq!(check(&tree(ITEMS, &marked, "head\n")).len(), 1);
        assert_eq!(check(&tree(ITEMS, &marked, &page.replace("one", "1"))).len(), 1);
    }

    #[test]
    fn items_without_tests_and_tests_without_items_are_found() {
        let second = ITEMS.replace("A-2 | missing", "A-1 | partly");
        let no_reason = ITEMS.replace("why", "");
        for (items, marks, finding) in [
            (ITEMS, String::new(), "no test names A-1"),
            (ITEMS, format!("{IN_RUST}A-1, A-2\n{TEST}"), "A-2 is missing, but has a test"),
            (ITEMS, format!("{IN_RUST}A-1, A-3\n{TEST}"), "no item has the number A-3"),
            (ITEMS, format!("{IN_RUST}A-1\nfn helper() {{}}\n"), "no test names A-1"),
            (&second, format!("{IN_RUST}A-1\n{TEST}"), "A-1 stands twice"),
            (
                &no_reason,
                format!("{IN_RUST}A-1\n{TEST}"),
                "a reason belongs to each verdict but yes",
            ),
        ] {
            let findings = check(&tree(items, &marks, &written(items, &marks)));
            assert!(
                findings.iter().any(|found| found.contains(finding)),
                "{finding}: {findings:?}"
            );
        }
        assert!(parse("A-1 | yes | S | before a title |\n").is_err());
        assert!(parse("@ docs/a.md T\nA-1 | perhaps | S | x |\n").is_err());
        assert!(parse("@ docs/a.md T | one\n").is_err());
    }

    #[test]
    fn tables_of_a_page_stand_together_or_each_in_a_place_of_its_own() {
        let items = format!("{ITEMS}@ docs/a.md B Title\nB-1 | missing | S | three | why\n");
        let marked = format!("{IN_RUST}A-1\n{TEST}");
        let page = written(&items, &marked);
        assert_eq!(check(&tree(&items, &marked, &page)), [""; 0]);
        let place = format!("{}\n{}\n", MARKS[0], MARKS[1]);
        let texts = pages(&tree(&items, &marked, "")).unwrap();
        let apart = format!("{place}between\n{place}");
        let page = page::replace_all(&apart, MARKS, &texts["docs/a.md"]).unwrap();
        let [first, second] = page.split("between").collect::<Vec<_>>()[..] else {
            panic!("{page}");
        };
        assert!(first.contains("| A-1 |") && second.contains("| B-1 |"), "{page}");
        assert_eq!(check(&tree(&items, &marked, &page)), [""; 0]);
        let findings = check(&tree(&items, &marked, &format!("{page}{place}")));
        assert!(findings[0].contains("3 places for 2 tables"), "{findings:?}");
    }

    #[test]
    fn table_has_the_columns_of_its_title() {
        let items = ITEMS.replace("A Title", "A Title | event | answer");
        let marked = format!("{IN_RUST}A-1\n{TEST}");
        let page = written(&items, &marked);
        assert!(
            page.contains("A Title:\n\n| number | event | answer | verdict | tests |"),
            "{page}"
        );
    }

    #[test]
    fn scenario_of_a_transcript_is_named() {
        let marks = transcript_marks("== one\nC>S a\n== two\n# coverage: A-1, A-2\n");
        assert_eq!(marks, [("A-1, A-2", "*two*".to_owned())]);
    }
}
