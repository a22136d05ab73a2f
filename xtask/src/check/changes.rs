//! The files that have changed since a revision, by git.

use crate::{process, tree};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A working tree of git.
pub(super) struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The one of this project.
    ///
    /// # Errors
    ///
    /// One sentence with the remedy, if this is an unpacked archive.
    pub(super) fn open() -> Result<Self, String> {
        let root = process::root();
        if root.join(".git").exists() {
            return Ok(Self { root });
        }
        Err("this is no checkout of git, which knows the changes: run `cargo xtask test`".into())
    }

    /// Paths of the files that differ from `revision` in the working tree, uncommitted and untracked ones
    /// included.
    ///
    /// # Errors
    ///
    /// One sentence with the remedy, if there is no such revision.
    pub(super) fn since(&self, revision: Option<&str>) -> Result<BTreeSet<String>, String> {
        let base = match revision {
            Some(revision) => self.commit(revision).ok_or_else(|| unknown(revision))?,
            None => self.default_base()?,
        };
        let mut paths = self.list(&["diff", "--name-only", "-z", "--no-renames", &base, "--"])?;
        paths.extend(self.list(&["ls-files", "-z", "--others", "--exclude-standard"])?);
        Ok(paths)
    }

    /// The merge base with [`MAIN`]; on `main` itself the commit before the last one.
    fn default_base(&self) -> Result<String, String> {
        let branch = self.git(&["symbolic-ref", "--quiet", "--short", "HEAD"]).ok();
        let is_main = match branch {
            Some(branch) => branch == MAIN,
            None => self.commit("HEAD") == self.commit(MAIN),
        };
        if is_main {
            return self.commit("HEAD~1").ok_or_else(|| unknown("HEAD~1"));
        }
        self.git(&["merge-base", "HEAD", MAIN]).map_err(|_| unknown(MAIN))
    }

    /// The commit that a revision names.
    fn commit(&self, revision: &str) -> Option<String> {
        let peeled = format!("{revision}^{{commit}}");
        self.git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled]).ok()
    }

    fn list(&self, words: &[&str]) -> Result<BTreeSet<String>, String> {
        let paths = self.git(words)?;
        Ok(paths.split_terminator('\0').map(str::to_owned).collect())
    }

    fn git(&self, words: &[&str]) -> Result<String, String> {
        let output = process::output(tree::git().args(words).current_dir(&self.root))?;
        Ok(output.trim().to_owned())
    }
}

fn unknown(revision: &str) -> String {
    format!(
        "this checkout has no revision `{revision}` to compare with: name a commit, a branch or a tag that \
         `git log --all` lists, as in `cargo xtask check --since HEAD~3`"
    )
}

const MAIN: &str = "main";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    impl Repository {
        /// An empty one, on `main`.
        fn new(directory: &TempDir) -> Self {
            let repository = Self { root: directory.path().into() };
            repository.git(&["init", "--quiet", "--initial-branch", MAIN]).unwrap();
            repository
        }

        fn write(&self, file: &str) {
            fs::write(self.root.join(file), "text\n").unwrap();
        }

        /// Commits a new file.
        fn add(&self, file: &str) {
            self.write(file);
            self.git(&["add", file]).unwrap();
            let person = ["-c", "user.name=Test", "-c", "user.email=test@example.org"];
            let commit = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--message", file];
            self.git(&[&person[..], &commit].concat()).unwrap();
        }

        fn changed(&self, revision: Option<&str>) -> Vec<String> {
            self.since(revision).unwrap().into_iter().collect()
        }
    }

    #[test]
    fn changes_of_a_branch_begin_where_it_left_main() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::new(&directory);
        repository.add("first");
        repository.git(&["checkout", "--quiet", "-b", "branch"]).unwrap();
        assert_eq!(repository.changed(None), [""; 0]);
        repository.add("on branch");
        repository.write("untracked");
        fs::remove_file(directory.path().join("first")).unwrap();
        assert_eq!(repository.changed(None), ["first", "on branch", "untracked"]);
        assert_eq!(repository.changed(Some("HEAD")), ["first", "untracked"]);
    }

    #[test]
    fn changes_on_main_are_those_of_the_last_commit_and_later_ones() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::new(&directory);
        repository.add("first");
        assert!(repository.since(None).unwrap_err().contains("HEAD~1"));
        repository.add("second");
        repository.add("third");
        repository.write("untracked");
        assert_eq!(repository.changed(None), ["third", "untracked"]);
        repository.git(&["checkout", "--quiet", "--detach"]).unwrap();
        assert_eq!(repository.changed(None), ["third", "untracked"]);
    }

    #[test]
    fn revision_that_is_unknown_is_one_sentence_with_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::new(&directory);
        repository.add("first");
        for revision in ["no-such-revision", "--help", ""] {
            let why = repository.since(Some(revision)).unwrap_err();
            assert!(why.contains("--since HEAD~3") && !why.contains('\n'), "{why}");
        }
    }
}
