//! One part of a check: what it runs, and how it is run.

use crate::book::chapter;
use crate::process::{self, ReportStream};
use crate::tally::Tally;
use crate::{files, layers, test, tidy};
use std::collections::BTreeSet;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// `cargo xtask tidy`, with examples and coverage; of rules for single files in these alone.
    Tidy(BTreeSet<String>),
    /// `cargo xtask layers`.
    Layers,
    /// Links of these pages to other files.
    Links(Vec<String>),
    /// Syntax of these scripts, by Node.
    Scripts(Vec<String>),
    /// A command of cargo.
    Cargo(String),
    Tests(Tests),
}

/// Tests that one command builds and runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tests {
    pub(super) runner: Runner,
    pub(super) package: String,
    pub(super) scope: Scope,
    /// Parts of the names of the tests to run; all tests if there is none.
    pub(super) filters: Vec<String>,
}

/// The program that runs tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    Cargo,
    /// cargo-nextest, which runs no examples of the documentation.
    Nextest,
}

/// The tests that are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of the package, which is built alone.
    Package,
    /// The examples in the documentation of the package.
    Examples,
    /// Programs that these options select, in the build of the workspace.
    Workspace(String),
}

/// Result of a task, with a line for each failure: what has failed, and the command that runs it alone.
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) failed: Vec<String>,
}

impl Task {
    pub(super) fn run(&self) -> Outcome {
        let tally = match self {
            Self::Tidy(files) => test::findings(tidy::check_files(|path| files.contains(path))),
            Self::Layers => test::findings(layers::check()),
            Self::Links(pages) => test::findings(dead_links(pages)),
            Self::Scripts(scripts) => check_scripts(scripts),
            Self::Cargo(words) => {
                Tally::of(process::succeeds(process::cargo().args(words.split(' '))))
            }
            Self::Tests(tests) => return tests.run(),
        };
        let failed = if tally.failed > 0 { vec![self.to_string()] } else { Vec::new() };
        Outcome { tally, failed }
    }
}

/// The command line, or what stands for it.
impl fmt::Display for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tidy(_) => write!(out, "cargo xtask tidy"),
            Self::Layers => write!(out, "cargo xtask layers"),
            Self::Links(pages) => write!(out, "links to files in {}", pages.join(" ")),
            Self::Scripts(scripts) => {
                let commands: Vec<String> =
                    scripts.iter().map(|script| format!("node --check {script}")).collect();
                write!(out, "{}", commands.join("; "))
            }
            Self::Cargo(words) => write!(out, "cargo {words}"),
            Self::Tests(tests) => write!(out, "{}", tests.line()),
        }
    }
}

impl Tests {
    fn run(&self) -> Outcome {
        let (reported, threads) = match self.runner {
            Runner::Cargo => (ReportStream::Output, "RUST_TEST_THREADS"),
            Runner::Nextest => (ReportStream::Error, "NEXTEST_TEST_THREADS"),
        };
        let mut cargo = process::cargo();
        cargo.args(self.words()).env(threads, test::test_threads().to_string());
        let run = process::run_tests(&mut cargo, reported);
        let mut failed: Vec<String> =
            run.failed.iter().map(|test| format!("{test}: {}", self.alone(test))).collect();
        if run.tally.failed > 0 && failed.is_empty() {
            failed.push(self.line());
        }
        Outcome { tally: run.tally, failed }
    }

    /// The command line, as a shell reads it.
    fn line(&self) -> String {
        let words: Vec<String> = self.words().iter().map(|word| process::quoted(word)).collect();
        format!("cargo {}", words.join(" "))
    }

    fn words(&self) -> Vec<String> {
        let mut words = self.scoped();
        words.push("--no-fail-fast".into());
        if self.runner == Runner::Nextest {
            words.extend(["--no-tests=pass", "--status-level=slow"].map(str::to_owned));
            if matches!(self.scope, Scope::Workspace(_)) {
                words.extend(["-E".into(), format!("package({})", self.package)]);
            }
        }
        if !self.filters.is_empty() {
            words.push("--".into());
            words.extend_from_slice(&self.filters);
        }
        words
    }

    /// The command line that runs one of the tests alone.
    fn alone(&self, test: &str) -> String {
        let words = self.scoped().join(" ");
        match (self.runner, &self.scope) {
            (Runner::Nextest, _) => format!("cargo {words} -E 'test(={test})'"),
            // A name such as `src/lib.rs - a (line 3)`, after which others may begin.
            (Runner::Cargo, _) if test.contains(' ') => {
                format!("cargo test --package {} --doc -- --exact '{test}'", self.package)
            }
            (Runner::Cargo, _) => format!("cargo {words} -- --exact {test}"),
        }
    }

    fn scoped(&self) -> Vec<String> {
        let command = match self.runner {
            Runner::Cargo => "test",
            Runner::Nextest => "nextest run",
        };
        let line = match &self.scope {
            Scope::Package => format!("{command} --package {}", self.package),
            Scope::Examples => format!("{command} --package {} --doc", self.package),
            Scope::Workspace(programs) => {
                let workspace = test::WORKSPACE_TESTS.trim_start_matches("test ");
                format!("{command} {workspace} {programs}")
            }
        };
        line.split(' ').map(str::to_owned).collect()
    }
}

/// Links of pages to files that do not exist.
fn dead_links(pages: &[String]) -> Result<Vec<String>, String> {
    let root = process::root();
    let mut findings = Vec::new();
    for page in pages {
        let text = files::read(&root.join(page))?;
        let is_dead = |target: &&str| {
            chapter::resolve(page, target).is_none_or(|path| !root.join(path).exists())
        };
        let dead = chapter::targets(&text).filter(is_dead);
        findings.extend(dead.map(|target| format!("{page}: dead link {target}")));
    }
    Ok(findings)
}

fn check_scripts(scripts: &[String]) -> Tally {
    if process::output(process::node().arg("--version")).is_err() {
        println!("not run: node; on Debian: apt-get install nodejs");
        return Tally::SKIPPED;
    }
    let check =
        |script: &String| Tally::of(process::succeeds(process::node().args(["--check", script])));
    scripts.iter().map(check).fold(Tally::default(), |mut total, tally| {
        total += tally;
        total
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(runner: Runner, scope: Scope, filters: &[&str]) -> Tests {
        let filters = filters.iter().map(ToString::to_string).collect();
        Tests { runner, package: "pmi-host".into(), scope, filters }
    }

    #[test]
    fn tests_of_the_launcher_are_built_as_the_gate_builds_them() {
        let suite = || Scope::Workspace("--test streams".into());
        let line = |tests| Task::Tests(tests).to_string();
        assert_eq!(
            line(tests(Runner::Cargo, suite(), &["output::", "input::"])),
            format!(
                "cargo {} --test streams --no-fail-fast -- output:: input::",
                test::WORKSPACE_TESTS
            )
        );
        assert_eq!(
            line(tests(Runner::Nextest, suite(), &["output::"])),
            "cargo nextest run --workspace --exclude xtask-bindgen --features pmi-std/tls --test streams \
             --no-fail-fast --no-tests=pass --status-level=slow -E 'package(pmi-host)' -- output::"
        );
        assert_eq!(
            line(tests(Runner::Cargo, Scope::Package, &[])),
            "cargo test --package pmi-host --no-fail-fast"
        );
    }

    #[test]
    fn test_alone_is_selected_by_its_whole_name() {
        let suite = || Scope::Workspace("--test streams".into());
        assert_eq!(
            tests(Runner::Cargo, suite(), &["output::"]).alone("output::a"),
            format!("cargo {} --test streams -- --exact output::a", test::WORKSPACE_TESTS)
        );
        assert_eq!(
            tests(Runner::Nextest, Scope::Package, &[]).alone("a::b"),
            "cargo nextest run --package pmi-host -E 'test(=a::b)'"
        );
        for scope in [Scope::Package, Scope::Examples] {
            assert_eq!(
                tests(Runner::Cargo, scope, &[]).alone("src/lib.rs - a (line 3)"),
                "cargo test --package pmi-host --doc -- --exact 'src/lib.rs - a (line 3)'"
            );
        }
    }

    #[test]
    fn links_of_pages_lead_to_files() {
        let pages = ["README.md", "docs/CONTRIBUTING.md"].map(str::to_owned);
        assert_eq!(dead_links(&pages), Ok(Vec::new()));
        assert!(dead_links(&["no-such-page.md".into()]).is_err());
    }
}
