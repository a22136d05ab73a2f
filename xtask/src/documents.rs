//! Examples and commands in README.md and the pages of `docs`, checked as a part of `cargo xtask tidy`.
//!
//! A Rust example has to stand in a test or in an example of the workspace, line by line: there it is
//! compiled and run, as are the examples of a page that is the documentation of its crate. A command of this
//! program has to exist. Options of `pmi-host` are checked by a test of the launcher, which can ask it.

use crate::tree::File;

/// Findings in the documents among `files`, a line each.
pub(crate) fn check(files: &[File], commands: &[&str]) -> Vec<String> {
    let sources: Vec<String> = files
        .iter()
        .filter(|file| is_tried(&file.path))
        .map(|file| unindented(&file.text))
        .collect();
    let mut findings = Vec::new();
    for document in files.iter().filter(|file| file.path.ends_with(".md")) {
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn command_exists() {
        assert_eq!(
            found("`cargo xtask test`, cargo xtask bare-metal --guests 2, `cargo xtask` alone\n"),
            [""; 0]
        );
        assert_eq!(found("\n`cargo xtask fly`\n"), ["docs/a.md:2: no command `fly`"]);
    }
}
