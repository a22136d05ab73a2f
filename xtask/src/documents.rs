//! Examples and commands in README.md and the pages of `docs`, checked as a part of `cargo xtask tidy`.
//!
//! A Rust example has to stand in a test or in an example of the workspace, line by line: there it is
//! compiled and run, as are the examples of a page that is the documentation of its crate. A command of this
//! program has to exist. Options of `pmi-host` are checked by a test of the launcher, which can ask it.
//!
//! An example in a chapter of the book that the playground can play is followed by a run of the playground,
//! or by the reason why there is none. The tests of the page open each run, and look for the messages of
//! the example in it.

use crate::book::{chapter, played_run};
use crate::tree::File;

/// Findings in the documents among `files`, a line each.
pub(crate) fn check(files: &[File], commands: &[&str]) -> Vec<String> {
    let sources: Vec<String> = files
        .iter()
        .filter(|file| is_tried(&file.path))
        .map(|file| unindented(&file.text))
        .collect();
    let chapters = chapters(files);
    let mut findings = Vec::new();
    for document in files.iter().filter(|file| file.path.ends_with(".md")) {
        if chapters.contains(&document.path) {
            findings.extend(unplayed(document));
        }
        let is_crate_page = is_crate_page(document, files);
        for (line, info, block) in blocks(&document.text) {
            let at = format!("{}:{line}", document.path);
            if info.contains("ignore") || info.contains("no_run") {
                findings.push(format!("{at}: `{info}`: an example is compiled and run"));
            } else if info == "rust"
                && !is_crate_page
                && !sources.iter().any(|s| s.contains(&unindented(&block)))
            {
                findings.push(format!("{at}: no test and no example has these lines"));
            }
        }
        for (number, line) in (1..).zip(document.text.lines()) {
            let named = line.split("cargo xtask ").skip(1).filter_map(command);
            let unknown = named.filter(|name| !commands.contains(name));
            findings.extend(
                unknown.map(|name| format!("{}:{number}: no command `{name}`", document.path)),
            );
        }
    }
    findings
}

/// The paths of the chapters of the book.
fn chapters(files: &[File]) -> Vec<String> {
    let summary = files.iter().find(|file| file.path == chapter::SUMMARY);
    let targets = summary.into_iter().flat_map(|file| chapter::targets(&file.text));
    targets.filter_map(|target| chapter::resolve(chapter::SUMMARY, target)).collect()
}

/// Examples that the playground could play and that have neither a run nor a reason behind them, and
/// malformed runs.
fn unplayed(document: &File) -> Vec<String> {
    let lines: Vec<&str> = document.text.lines().collect();
    let mut findings = Vec::new();
    for (line, info, block) in blocks(&document.text) {
        let end = line + block.lines().count() + 1;
        let mut behind = lines.iter().skip(end).skip_while(|line| line.is_empty());
        let next = behind.next().copied().unwrap_or_default();
        let reason =
            next.strip_prefix("<!-- not played: ").and_then(|rest| rest.strip_suffix(" -->"));
        let at = format!("{}:{line}", document.path);
        match reason {
            Some(reason) if !UNPLAYED.contains(&reason) => {
                findings.push(format!("{at}: `{reason}` is no reason of docs/CONTRIBUTING.md"));
            }
            None if is_playable(info, &block) && !played_run::is_start(next) => {
                findings
                    .push(format!("{at}: a run of the playground is missing behind the example"));
            }
            _ => {}
        }
    }
    let mut rest = document.text.split_inclusive('\n');
    let mut number = 0;
    while let Some(line) = rest.next() {
        number += 1;
        if !played_run::is_start(line) {
            continue;
        }
        let comment = played_run::comment(line, &mut rest);
        if played_run::PlayedRun::read(&comment).is_none() {
            let line = line.trim_end();
            findings.push(format!(
                "{}:{number}: `{line}` describes no run of the playground",
                document.path
            ));
        }
        number += comment.lines().count() - 1;
    }
    findings
}

/// True for an exchange, a job, a report about one, and a program with a fence.
fn is_playable(info: &str, block: &str) -> bool {
    let is_example = |line: &str| PLAYABLE.iter().any(|start| line.starts_with(start));
    info != "sh" && block.lines().any(|line| is_example(line) || line.contains("fence("))
}

/// True if rustdoc runs the examples of this document, because it is the page of the crate beside
/// it.
fn is_crate_page(document: &File, files: &[File]) -> bool {
    let Some(crate_root) = document.path.strip_suffix("README.md") else { return false };
    let page = files.iter().find(|file| file.path == format!("{crate_root}src/lib.rs"));
    page.is_some_and(|lib| lib.text.contains("#![doc = include_str!(\"../README.md\")]"))
}

/// True if the tests run the contents of this file.
fn is_tried(path: &str) -> bool {
    path.ends_with(".rs") && path.split('/').any(|part| ["tests", "examples"].contains(&part))
}

/// The word at the start of a text, if it is one: not a placeholder, nor the end of a sentence.
fn command(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(text.len());
    text.get(..end).filter(|word| !word.is_empty() && !word.starts_with('-'))
}

/// The fenced blocks of a document: the line of the fence, what stands behind it, and the text.
fn blocks(text: &str) -> Vec<(usize, &str, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((number, info.trim(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, _, block))) => *block += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

/// The lines without the blanks in front of them.
fn unindented(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim())).collect()
}

/// Starts of lines that the playground can show.
const PLAYABLE: [&str; 6] =
    ["C>S", "S>C", "$ pmi-host run", "pmi-host run", "pmi-host: rank", "pmi-host: no progress"];

/// Reasons why such a line is not shown; `docs/CONTRIBUTING.md` explains each.
const UNPLAYED: [&str; 6] = [
    "other servers",
    "a shared secret",
    "a singleton",
    "shared memory",
    "a second connection",
    "a tool",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::fs;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    fn found(document: &str) -> Vec<String> {
        let source = "mod a {\n    fn f() {\n        g(1);\n    }\n}\n";
        let files = [file("docs/a.md", document), file("examples/x/src/main.rs", source)];
        check(&files, &["test", "bare-metal"])
    }

    #[test]
    fn example_stands_in_a_file_that_is_run() {
        assert_eq!(found("```rust\nfn f() {\n    g(1);\n}\n```\n```text\nnothing\n```\n"), [""; 0]);
        assert_eq!(
            found("x\n```rust\ng(2);\n```\n"),
            ["docs/a.md:2: no test and no example has these lines"]
        );
        assert_eq!(found("```rust,ignore\n```\n").len(), 1);
        // What is only a part of the library is not run as it stands.
        let page = file("x/README.md", "```rust\nf();\n```\n");
        let lib = file("x/src/lib.rs", "#![doc = include_str!(\"../README.md\")]\n");
        assert_eq!(check(&[page, lib], &[]), [""; 0]);
        let files = [file("a.md", "```rust\nf();\n```\n"), file("core/src/a.rs", "f();\n")];
        assert_eq!(check(&files, &[]).len(), 1);
    }

    /// Findings in a chapter of the book.
    fn found_in_chapter(text: &str) -> Vec<String> {
        let summary = file(chapter::SUMMARY, "- [A](a.md)\n");
        check(&[summary, file("docs/a.md", text), file("docs/b.md", "```text\nC>S a\n```\n")], &[])
    }

    #[test]
    fn example_that_can_be_played_has_a_run_or_a_reason() {
        for example in [
            "C>S* cmd=init\\n",
            "$ pmi-host run -n 2 ./a",
            "pmi-host: no progress for 10 s",
            "pmi.fence()?;",
        ] {
            let block = format!("Text.\n```text\nfirst\n{example}\n```\n");
            let missing = "docs/a.md:2: a run of the playground is missing behind the example";
            assert_eq!(found_in_chapter(&block), [missing], "{example}");
            assert_eq!(
                found_in_chapter(&format!("{block}Text.\n\n<!-- play scenario=a: A -->\n")),
                [missing]
            );
            for run in [
                "<!-- play scenario=a: A -->",
                "<!-- play it: A\nranks 1\n-->",
                "<!-- not played: a tool -->",
            ] {
                assert_eq!(found_in_chapter(&format!("{block}\n{run}\n")), [""; 0], "{run}");
            }
        }
        assert_eq!(
            found_in_chapter("```text\na grammar\n```\n```sh\npmi-host run ./a\n```\n"),
            [""; 0]
        );
        let reason = "```text\nC>S\n```\n<!-- not played: too long -->\n";
        assert_eq!(
            found_in_chapter(reason),
            ["docs/a.md:1: `too long` is no reason of docs/CONTRIBUTING.md"]
        );
        let run = "\n<!-- play it: A -->\n";
        assert_eq!(
            found_in_chapter(run),
            ["docs/a.md:2: `<!-- play it: A -->` describes no run of the playground"]
        );
    }

    #[test]
    fn reasons_are_explained() {
        let page = fs::read_to_string(process::root().join("docs/CONTRIBUTING.md")).unwrap();
        for reason in UNPLAYED {
            assert!(page.contains(&format!("| `{reason}` |")), "{reason}");
        }
    }

    #[test]
    fn command_exists() {
        assert_eq!(
            found("`cargo xtask test`, cargo xtask bare-metal --guests 2, `cargo xtask` alone\n"),
            [""; 0]
        );
        assert_eq!(found("\n`cargo xtask fly`\n"), ["docs/a.md:2: no command `fly`"]);
    }
}
