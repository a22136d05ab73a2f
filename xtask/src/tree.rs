//! The files of the project: those git knows, or would after `git add`.

use crate::process;
use std::fs;
use std::path::Path;
use std::process::Command;

/// One text file, named from the workspace root.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Is this the source of tests (or benches, fuzzers) only?
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/').rev();
        parts.next() == Some("tests.rs")
            || parts.any(|part| ["tests", "testkit", "benches", "fuzz"].contains(&part))
    }

    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }
}

/// All text files, in order. Files that are not UTF-8 are data.
pub(crate) fn files() -> Result<Vec<File>, String> {
    let root = process::root();
    let mut files = Vec::new();
    for path in paths(&root)? {
        let full = root.join(&path);
        if !full.is_file() {
            continue; // deleted and not yet committed, or a directory of another repository
        }
        let bytes = fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

fn paths(root: &Path) -> Result<Vec<String>, String> {
    if !root.join(".git").exists() {
        let mut found = Vec::new();
        walk(root, "", &mut found)?;
        found.sort();
        return Ok(found);
    }
    let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let list = process::output(git().args(words))?;
    let mut found: Vec<String> = list.split_terminator('\0').map(String::from).collect();
    found.sort();
    Ok(found)
}

/// git, for a checkout that may belong to another user than the one who tests it, as in containers.
pub(crate) fn git() -> Command {
    let mut git = process::command("git");
    git.arg("-c").arg(format!("safe.directory={}", process::root().display()));
    git
}

/// The same for an unpacked archive, which has no git: everything but what a build leaves behind.
fn walk(root: &Path, directory: &str, found: &mut Vec<String>) -> Result<(), String> {
    let entries =
        fs::read_dir(root.join(directory)).map_err(|error| format!("{directory}: {error}"))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{directory}: {error}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name == "target" => {}
            Ok(kind) if kind.is_dir() => walk(root, &path, found)?,
            _ => found.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: path.into(), text: String::new() }
    }

    #[test]
    fn tests_are_recognized_by_their_place() {
        for path in [
            "core/tests/limits.rs",
            "core/src/server/tests.rs",
            "core/testkit/src/server.rs",
            "core/fuzz/src/lib.rs",
        ] {
            assert!(file(path).is_test(), "{path}");
        }
        for path in ["core/src/server/job.rs", "xtask/src/test.rs", "tests"] {
            assert!(!file(path).is_test(), "{path}");
        }
    }

    #[test]
    fn both_ways_of_listing_know_this_file_and_no_build_output() {
        let root = process::root();
        let mut walked = Vec::new();
        walk(&root.join("xtask"), "", &mut walked).unwrap();
        assert!(walked.contains(&"src/tree.rs".into()));
        let listed = paths(&root).unwrap();
        assert!(listed.contains(&"xtask/src/tree.rs".into()));
        assert!(!listed.iter().any(|path| path.starts_with("target/")));
    }
}
