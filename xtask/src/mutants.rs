//! `cargo xtask mutants`: whether the tests of an item of `docs/coverage.txt` fail when its code is broken.
//!
//! Each mutant of `xtask/mutants.txt` replaces one text. It must compile, and a suite with a test of its item
//! must fail; then the file gets its old text back. Suites of `pmi-core` alone are run. The command is no
//! part of `test`, since each mutant compiles the crate again.

use crate::args;
use crate::random::SplitMix;
use crate::tree::{self, File};
use crate::{coverage, process, report};
use lexopt::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// One change that a test of an item must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mutant<'a> {
    item: &'a str,
    path: &'a str,
    original: &'a str,
    replacement: &'a str,
}

/// A changed file, which gets its old text back.
struct Changed {
    path: PathBuf,
    text: String,
}

const SOURCE: &str = "xtask/mutants.txt";

/// Number of mutants without an option.
const COUNT: usize = 30;

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let (mut count, mut seed, mut items) = (COUNT, now, Vec::new());
    args::read(arguments, "cargo xtask mutants [--count N] [--seed N] [ITEM...]", |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("count") => count = parser.value()?.parse()?,
                Long("seed") => seed = parser.value()?.parse()?,
                Value(item) => items.push(item.string()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    let files = tree::files()?;
    let table = files.iter().find(|file| file.path == SOURCE).map_or("", |file| &file.text);
    let all = parse(table)?;
    let mut chosen: Vec<Mutant<'_>> = match items.is_empty() {
        true => shuffled(all, seed),
        false => all.into_iter().filter(|one| items.iter().any(|item| item == one.item)).collect(),
    };
    chosen.truncate(count);
    println!("{} mutants of seed {seed}", chosen.len());
    let mut findings = Vec::new();
    for mutant in &chosen {
        findings.extend(survival(mutant, &files)?);
    }
    Ok(report("mutants", &findings))
}

/// The finding of a mutant that no test of its item detects.
fn survival(mutant: &Mutant<'_>, files: &[File]) -> Result<Option<String>, String> {
    let Mutant { item, path, original, replacement } = mutant;
    println!("\n{item}: {path}: {original}\n  becomes {replacement}");
    let suites = suites(&coverage::places(files, item));
    if suites.is_empty() {
        return Ok(Some(format!("{SOURCE}: {item} has no test in pmi-core")));
    }
    let _changed = Changed::new(mutant).map_err(|error| format!("{path}: {error}"))?;
    for suite in &suites {
        if !process::succeeds(test(suite).arg("--no-run")) {
            return Ok(Some(format!("{SOURCE}: the mutant of {item} does not compile")));
        }
        if !process::succeeds(&mut test(suite)) {
            return Ok(None);
        }
    }
    Ok(Some(format!("{path}: no test of {item} fails when '{original}' becomes '{replacement}'")))
}

fn test(suite: &[String]) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["test", "--quiet", "--package", "pmi-core", "--features", "pmix"]).args(suite);
    cargo
}

/// Options of `cargo test` that select the suites of these files.
fn suites(places: &BTreeSet<String>) -> BTreeSet<Vec<String>> {
    let suite = |path: &str| {
        let words: &[&str] = match path.strip_prefix("core/")?.split_once('/')? {
            ("src", _) => &["--lib"],
            ("vectors", _) => &["--test", "vectors", "--test", "machines"],
            ("tests", name) => &["--test", name.strip_suffix(".rs")?],
            _ => return None,
        };
        Some(words.iter().map(|word| (*word).to_owned()).collect())
    };
    places.iter().filter_map(|path| suite(path)).collect()
}

/// Reads the mutants, as the head of the file describes them.
fn parse(text: &str) -> Result<Vec<Mutant<'_>>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    let read_all = lines.chunks(3).map(|lines| {
        read(lines).ok_or_else(|| format!("{SOURCE}: no mutant in {:?}", lines.join("\n")))
    });
    read_all.collect()
}

fn read<'a>(lines: &[&'a str]) -> Option<Mutant<'a>> {
    let [head, original, replacement] = lines else { return None };
    let (item, path) = head.split_once(' ')?;
    let original = original.strip_prefix("- ")?;
    Some(Mutant { item, path, original, replacement: replacement.strip_prefix("+ ")? })
}

/// Texts of mutants that do not stand once in their file.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == SOURCE) else { return Vec::new() };
    let mutants = match parse(&table.text) {
        Ok(mutants) => mutants,
        Err(why) => return vec![why],
    };
    let finding = |mutant: &Mutant<'_>| {
        let file = files.iter().find(|file| file.path == mutant.path);
        let count = file.map_or(0, |file| file.text.matches(mutant.original).count());
        (count != 1).then(|| {
            format!("{SOURCE}: '{}' stands {count} times in {}", mutant.original, mutant.path)
        })
    };
    mutants.iter().filter_map(finding).collect()
}

/// The mutants in an order that follows from the seed.
fn shuffled(mut mutants: Vec<Mutant<'_>>, seed: u64) -> Vec<Mutant<'_>> {
    let mut random = SplitMix::new(seed);
    mutants.sort_by_cached_key(|_| random.next());
    mutants
}

impl Changed {
    fn new(mutant: &Mutant<'_>) -> io::Result<Self> {
        let path = process::root().join(mutant.path);
        let text = fs::read_to_string(&path)?;
        if text.matches(mutant.original).count() != 1 {
            return Err(io::Error::other(format!("'{}' must stand there once", mutant.original)));
        }
        fs::write(&path, text.replacen(mutant.original, mutant.replacement, 1))?;
        Ok(Self { path, text })
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.text) {
            println!("{}: {error}; 'git checkout' restores it", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "# mutants\n\nA-1 core/src/a.rs\n- a == b\n+ a != b\nA-2 core/src/b.rs\n- 1\n+ 2\n";

    #[test]
    fn mutants_are_read_and_drawn_by_seed() {
        let all = parse(TABLE).unwrap();
        let first = Mutant {
            item: "A-1",
            path: "core/src/a.rs",
            original: "a == b",
            replacement: "a != b",
        };
        assert_eq!((all.len(), all[0]), (2, first));
        assert!(parse("A-1 core/src/a.rs\n- x\n").is_err());
        let orders: BTreeSet<String> =
            (0..9).map(|seed| shuffled(all.clone(), seed)[0].item.to_owned()).collect();
        assert_eq!(orders.len(), 2);
        assert_eq!(shuffled(all.clone(), 7), shuffled(all, 7));
    }

    #[test]
    fn text_of_a_mutant_stands_once_in_its_file() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files =
            [file(SOURCE, TABLE), file("core/src/a.rs", "a == b"), file("core/src/b.rs", "11")];
        assert_eq!(check(&files), [format!("{SOURCE}: '1' stands 2 times in core/src/b.rs")]);
    }

    #[test]
    fn suites_of_an_item_are_those_of_its_tests() {
        let places = ["core/src/auth.rs", "core/tests/limits.rs", "host-std/tests/x.rs"];
        let places = BTreeSet::from(places.map(str::to_owned));
        let found: Vec<Vec<String>> = suites(&places).into_iter().collect();
        assert_eq!(
            found,
            [vec!["--lib".to_owned()], vec!["--test".to_owned(), "limits".to_owned()]]
        );
    }
}
