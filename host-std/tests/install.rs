//! Installation below a prefix, and its removal.

use crate::common::{Ran, host, run, shell};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An empty directory for one test.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn prefix(&self) -> PathBuf {
        self.0.path().join("opt/pmi host")
    }

    fn call(&self, command: &str, words: &[&str]) -> Ran {
        let mut all = host([command, "--prefix"]);
        run(all.arg(self.prefix()).args(words))
    }
}

/// Paths of all files below `root`, in order.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() && !path.is_symlink() {
                true => left.push(path),
                false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn installed_program_runs_under_its_names_and_leaves_nothing_when_it_is_removed() {
    let scratch = Scratch::new();
    let said = scratch.call("install", &[]).exits_with(0);
    assert!(said.out.contains("pmi-host, mpiexec, mpirun\n"), "{}", said.out);
    assert!(said.out.contains("PATH does not contain"), "{}", said.out);
    let found = files(&scratch.prefix());
    for path in [
        "bin/mpiexec",
        "bin/pmi-host",
        "share/bash-completion/completions/mpirun",
        "share/fish/vendor_completions.d/pmi-host.fish",
        "share/man/man1/mpiexec.1",
        "share/man/man1/pmi-host-run.1",
        "share/modulefiles/pmi-host/0.1.0",
        "share/pmi-host/installed-files",
        "share/zsh/site-functions/_mpiexec",
    ] {
        assert!(found.iter().any(|found| found == path), "no {path} in {found:?}");
    }
    // A page of a name that is not installed would describe another launcher's program.
    assert!(!found.iter().any(|found| found.ends_with("prterun.1")), "{found:?}");
    let mut mpiexec = Command::new(scratch.prefix().join("bin/mpiexec"));
    mpiexec.args(["-n", "2"]).args(shell("echo rank $PMI_RANK"));
    let mut ran =
        run(&mut mpiexec).exits_with(0).lines().iter().map(ToString::to_string).collect::<Vec<_>>();
    ran.sort();
    assert_eq!(ran, ["rank 0", "rank 1"]);
    scratch.call("install", &[]).exits_with(0);
    assert_eq!(files(&scratch.prefix()), found);
    scratch.call("uninstall", &[]).exits_with(0);
    assert_eq!(files(scratch.0.path()), Vec::<String>::new());
    let again = scratch.call("uninstall", &[]).exits_with(1);
    assert!(again.err.contains("there is no installation in"), "{}", again.err);
}

#[test]
fn files_of_others_are_neither_replaced_nor_removed() {
    let scratch = Scratch::new();
    let bin = scratch.prefix().join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("mpiexec"), "of another package").unwrap();
    let refused = scratch.call("install", &[]).exits_with(1);
    assert!(
        refused.err.contains("bin/mpiexec; nothing is installed. '--force'"),
        "{}",
        refused.err
    );
    assert_eq!(files(&scratch.prefix()), ["bin/mpiexec"]);
    scratch.call("install", &["--links", "none"]).exits_with(0);
    let page = scratch.prefix().join("share/man/man1/pmi-host.1");
    fs::write(&page, "edited").unwrap();
    let removed = scratch.call("uninstall", &[]).exits_with(0);
    assert!(removed.out.contains("changed since, and kept: "), "{}", removed.out);
    assert_eq!(files(&scratch.prefix()), ["bin/mpiexec", "share/man/man1/pmi-host.1"]);
    fs::remove_file(&page).unwrap();
    scratch.call("install", &["--force"]).exits_with(0);
    assert!(fs::read_link(bin.join("mpiexec")).is_ok_and(|target| target == Path::new("pmi-host")));
}

#[test]
fn files_of_a_package_are_put_below_another_root_and_name_the_prefix() {
    let scratch = Scratch::new();
    let mut command = host(["install", "--prefix", "/opt/pmi", "--links", "none", "--destdir"]);
    run(command.arg(scratch.0.path())).exits_with(0);
    let module = scratch.0.path().join("opt/pmi/share/modulefiles/pmi-host/0.1.0");
    assert!(fs::read_to_string(module).unwrap().contains("set root {/opt/pmi}\n"));
}

#[test]
fn libraries_beside_the_program_in_a_release_are_installed_with_it() {
    let scratch = Scratch::new();
    let release = scratch.0.path().join("release");
    let lib = release.join("lib/pmi-host");
    fs::create_dir_all(&lib).unwrap();
    fs::write(lib.join("libpmi.so.0"), "library").unwrap();
    std::os::unix::fs::symlink("libpmi.so.0", lib.join("libpmi.so")).unwrap();
    let from = release.to_str().unwrap();
    let said = scratch.call("install", &["--from", from]).exits_with(0);
    assert!(!said.out.contains("without the C libraries"), "{}", said.out);
    let installed = scratch.prefix().join("lib/pmi-host");
    assert_eq!(fs::read_to_string(installed.join("libpmi.so")).unwrap(), "library");
    // What a newer release no longer has is removed by the upgrade.
    fs::remove_file(lib.join("libpmi.so")).unwrap();
    scratch.call("install", &["--from", from]).exits_with(0);
    assert_eq!(files(&installed), ["libpmi.so.0"]);
}

#[test]
fn links_are_names_under_which_the_program_reads_another_command_line() {
    let scratch = Scratch::new();
    let refused = scratch.call("install", &["--links", "mpiexec,gcc"]).exits_with(2);
    assert!(refused.err.contains("'gcc' is none of mpiexec, mpirun"), "{}", refused.err);
    assert_eq!(files(scratch.0.path()), Vec::<String>::new());
}
