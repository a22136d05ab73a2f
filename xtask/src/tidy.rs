//! House rules that no compiler checks. A rule reads one file and returns its findings with their
//! lines.

use crate::source::{Token, tokens};
use crate::tree::{self, File};
use crate::{coverage, documents, mutants, report};
use std::process::ExitCode;

/// Allowed names at the top of the tree; a trailing `*` stands for any ending.
const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-*",
    "README.md",
    "core",
    "deny.toml",
    "docs",
    "examples",
    "host-std",
    "rustfmt.toml",
    "transports",
    "wasm",
    "xtask",
];

/// Places where `unsafe` is allowed: the C ABI, and the files that call the operating system.
const UNSAFE_PLACES: &[&str] = &[
    "host-std/capi/",
    "transports/capi/",
    // A process is copied.
    "host-std/os/src/cleanup/guard.rs",
    // A process is made that has the memory of its parent until it executes a program.
    "host-std/src/launch/start/child_start.rs",
    // Scheduling of ranks, for which the C library has no functions.
    "host-std/src/launch/start/scheduling.rs",
    // Memory policies of ranks, for which the C library has no functions.
    "host-std/src/launch/topology/memory_policy.rs",
    // A debugger reads and writes variables by their names.
    "host-std/src/front/mpir.rs",
    // An option of sockets for which no library has a function.
    "host-std/nodes/src/peer_host.rs",
    // An allocator that reports a lack of memory.
    "host-std/src/allocator.rs",
    // A number from the environment becomes a descriptor, and a descriptor becomes memory.
    "transports/std/src/inherit.rs",
    // No operating system below: registers, tables and a trap handler.
    "examples/bare-metal/",
];

/// The file with members, store and fence, which is independent of the dialects.
const JOB: &str = "core/src/server/job.rs";
const DIALECT_WORDS: &[&str] = &["dialect", "pmi1", "pmi2", "pmix"];

// Spelt in pieces, so that the rules do not find themselves.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACHINE_DIRECTORIES: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Words that begin no name of a test, which begins with its subject.
const NO_SUBJECTS: &[&str] = &[
    "a", "an", "each", "every", "how", "it", "one", "the", "they", "what", "where", "whether",
    "which", "who", "whoever",
];

const SOURCES: &[&str] = &["rs", "c", "h", "js", "mjs"];
const LINE_CHARS_MAX: usize = 110;

pub(crate) fn command(_: &[String]) -> Result<ExitCode, String> {
    Ok(report("tidy", &check()?))
}

/// Everything the rules find in the tree.
pub(crate) fn check() -> Result<Vec<String>, String> {
    check_files(|_| true)
}

/// What the rules find in the files whose paths `is_read` selects, and in the tree as a whole.
pub(crate) fn check_files(is_read: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let files = tree::files()?;
    let read = files.iter().filter(|file| is_read(&file.path));
    let mut findings: Vec<String> = read.flat_map(check_file).collect();
    findings.extend(documents::check(&files, &crate::names()));
    findings.extend(coverage::check(&files));
    findings.extend(mutants::check(&files));
    let mut strangers: Vec<&str> =
        files.iter().map(|file| top(&file.path)).filter(|t| !known(t)).collect();
    strangers.dedup();
    findings.extend(
        strangers.iter().map(|name| format!("{name}: does not belong at the top of the tree")),
    );
    Ok(findings)
}

fn top(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn known(top: &str) -> bool {
    TOP.iter().any(|name| match name.strip_suffix('*') {
        Some(start) => top.starts_with(start),
        None => top == *name,
    })
}

fn check_file(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut found =
        |line: usize, what: String| findings.push(format!("{}:{line}: {what}", file.path));
    machine_directories(file, &mut found);
    if file.has_extension(SOURCES) {
        unfinished(file, &mut found);
    }
    if file.has_extension(&["rs"]) {
        let all = tokens(&file.text);
        line_length(file, &mut found);
        unsafe_outside(file, &all, &mut found);
        test_names(&all, &mut found);
        if file.path == JOB {
            dialects(&all, &mut found);
        }
    }
    findings
}

fn numbered(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn line_length(file: &File, found: &mut impl FnMut(usize, String)) {
    // A message of the protocol in a test is as long as it is.
    if file.is_test() {
        return;
    }
    for (number, line) in numbered(file) {
        let chars = line.chars().count();
        // A row of a table in a comment has no place to break.
        let is_row = ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row));
        if chars > LINE_CHARS_MAX && !is_row {
            found(number, format!("{chars} characters, at most {LINE_CHARS_MAX}"));
        }
    }
}

/// A path of one person's machine; a directory of that name inside another path is not meant.
fn machine_directories(file: &File, found: &mut impl FnMut(usize, String)) {
    for (number, line) in numbered(file) {
        for directory in MACHINE_DIRECTORIES {
            let absolute = |(at, _): (usize, &str)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && !"_-.~/*}>".contains(c))
            };
            if line.match_indices(directory).any(absolute) {
                found(number, format!("{directory} is a path of one machine"));
            }
        }
    }
}

fn unfinished(file: &File, found: &mut impl FnMut(usize, String)) {
    for (number, line) in numbered(file) {
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            if UNFINISHED.contains(&word) {
                found(number, format!("{word}: finish it or drop it"));
            }
        }
    }
}

fn unsafe_outside(file: &File, tokens: &[Token<'_>], found: &mut impl FnMut(usize, String)) {
    if UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place)) {
        return;
    }
    for token in tokens.iter().filter(|token| token.text == "unsafe") {
        found(token.line, format!("unsafe belongs to {UNSAFE_PLACES:?}"));
    }
}

fn test_names(tokens: &[Token<'_>], found: &mut impl FnMut(usize, String)) {
    let is_test =
        |start: &[Token<'_>]| start.iter().map(|token| token.text).eq(["#", "[", "test", "]"]);
    for at in (0..tokens.len()).filter(|at| tokens.get(*at..at + 4).is_some_and(is_test)) {
        // Other attributes may stand between.
        let name = tokens[at..].iter().skip_while(|token| token.text != "fn").nth(1);
        let Some(Token { text: name, line }) = name else { continue };
        let first = name.split('_').next().unwrap_or("");
        if NO_SUBJECTS.contains(&first) {
            found(
                *line,
                format!("`{name}` begins with `{first}`, not with the subject of the test"),
            );
        }
    }
}

fn dialects(tokens: &[Token<'_>], found: &mut impl FnMut(usize, String)) {
    for token in tokens {
        let word = token.text.to_lowercase();
        if DIALECT_WORDS.iter().any(|dialect| word.contains(dialect)) {
            found(token.line, format!("`{}`: a job knows no dialect", token.text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check_file(&File { path: path.into(), text: text.into() })
    }

    fn count(path: &str, text: &str) -> usize {
        findings(path, text).len()
    }

    #[test]
    fn long_lines_are_found_by_characters_not_bytes() {
        assert_eq!(count("core/src/a.rs", &"é".repeat(LINE_CHARS_MAX)), 0);
        let found = findings("core/src/a.rs", &format!("\n{}", "e".repeat(LINE_CHARS_MAX + 1)));
        assert_eq!(found, ["core/src/a.rs:2: 111 characters, at most 110"]);
        assert_eq!(count("README.md", &"e".repeat(LINE_CHARS_MAX + 1)), 0);
        assert_eq!(count("core/tests/a.rs", &"e".repeat(LINE_CHARS_MAX + 1)), 0);
        assert_eq!(count("core/src/a.rs", &format!("//! |{}", "e".repeat(LINE_CHARS_MAX))), 0);
    }

    #[test]
    fn test_names_without_a_subject_are_found() {
        let test = |name: &str| format!("#[test]\n#[ignore = \"fn a\"]\nfn {name}() {{}}");
        assert_eq!(count("core/src/a.rs", &test("fence_ends_once")), 0);
        let found = findings("core/tests/a.rs", &test("a_fence_ends"));
        assert_eq!(
            found,
            ["core/tests/a.rs:3: `a_fence_ends` begins with `a`, not with the subject of the test"]
        );
        assert_eq!(count("core/src/a.rs", &test("what_ends")), 1);
        assert_eq!(count("core/src/a.rs", "fn a_fence_ends() {}"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_any_text() {
        for directory in MACHINE_DIRECTORIES {
            assert_eq!(count("docs/a.md", &format!("see {directory}x")), 1, "{directory}");
            assert_eq!(count("docs/a.md", &format!("{directory}x")), 1, "{directory}");
            assert_eq!(
                count("docs/a.md", &format!("src{directory}x ..{directory}x")),
                0,
                "{directory}"
            );
        }
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in UNFINISHED {
            assert_eq!(count("core/src/a.rs", &format!("// {word}: later")), 1, "{word}");
            assert_eq!(count("core/src/a.rs", &format!("// {word}X {word}_")), 0, "{word}");
        }
    }

    #[test]
    fn unsafe_is_found_outside_its_places() {
        assert_eq!(count("transports/std/src/tcp.rs", "fn a() { unsafe { b() } }"), 1);
        assert_eq!(count("core/src/lib.rs", "#![forbid(unsafe_code)] // no unsafe"), 0);
        assert_eq!(count("host-std/capi/pmi/src/lib.rs", "fn a() { unsafe { b() } }"), 0);
    }

    #[test]
    fn job_that_knows_a_dialect_is_found() {
        for word in ["Dialect::Pmi1", "wire::pmi1", "Pmi2", "is_pmix"] {
            assert!(count(JOB, &format!("fn a() {{ {word} }}")) > 0, "{word}");
            assert_eq!(count("core/src/server/session.rs", &format!("fn a() {{ {word} }}")), 0);
        }
        assert_eq!(count(JOB, "/// Like a PMI-2 or pmi1 server.\nfn a() {}"), 0);
    }

    #[test]
    fn top_of_the_tree_is_closed() {
        assert!(known("LICENSE-MIT") && known("core") && known(".ci"));
        assert!(!known("LICENSE") && !known("corelib") && !known("notes.txt"));
    }
}
