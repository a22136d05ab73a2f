//! Command lines of the launcher in README.md and the pages of `docs`: every command and every option exists.

use crate::common::{host, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents with command lines.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        pages.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    all.extend(
        ["README.md", "wasm/README.md", "examples/bare-metal/README.md"]
            .map(|name| root.join(name)),
    );
    all.sort();
    all
}

/// The command lines of a document: what follows the name of the launcher, to the end of the line or of the code.
fn command_lines(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for rest in line.split("pmi-host ").skip(1) {
            let end = rest.find(['`', '|', ';', '\'', '"']).unwrap_or(rest.len());
            found.push((number, rest[..end].to_owned()));
        }
    }
    found
}

/// The options among the words of a command line, without their values and the punctuation behind them.
fn options(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split_whitespace().take_while(|word| *word != "--");
    words.filter(|word| word.starts_with("--")).map(|word| {
        let end = word.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(word.len());
        &word[..end]
    })
}

#[test]
fn commands_and_options_in_the_documents_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for (number, line) in command_lines(&text) {
            let mut words = line.split_whitespace();
            let mut command = words.next().unwrap_or_default().to_owned();
            if let "pmix" | "trace" = &*command {
                command = format!("{command} {}", words.next().unwrap_or_default());
            }
            let mut options = options(&line).peekable();
            // In a sentence about the launcher any word may follow.
            if options.peek().is_none() || command.starts_with('-') {
                continue;
            }
            let help = helps.entry(command).or_insert_with_key(|command| {
                let ran = run(&mut host(command.split(' ').chain(["--help"])));
                if ran.code == 0 { ran.out } else { String::new() }
            });
            let has = |option: &str| {
                let mut words = help.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
                words.any(|word| word == option)
            };
            for option in options {
                count += 1;
                if !has(option) {
                    wrong.push(format!("{}:{number}: `{option}` in: {line}", document.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 20, "only {count} options were found; the documents are read wrongly");
}
