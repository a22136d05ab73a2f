//! The decision what a check runs, by the paths that have changed. Pure: the files are not read.

use super::host_tests::{self, HostTests};
use super::task::{Runner, Scope, Task, Tests};
use crate::layers::{Package, is_in};
use crate::test;
use std::collections::BTreeSet;

/// All that a plan depends on besides the changed paths.
pub(super) struct Facts {
    pub(super) crates: Vec<Package>,
    pub(super) host_tests: HostTests,
    pub(super) runner: Runner,
    /// Paths that have changed and do not exist any more.
    pub(super) deleted: BTreeSet<String>,
}

/// What a check runs and leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
    /// Remarks on changes whose tests are not run.
    pub(super) notes: Vec<String>,
    /// Steps of the gate that check more of these changes.
    pub(super) steps: BTreeSet<&'static str>,
}

/// Plans the check of changes.
pub(super) fn plan<'a>(paths: impl IntoIterator<Item = &'a str>, facts: &Facts) -> Plan {
    let mut changes = Changes::new(facts);
    for path in paths {
        changes.add(path);
    }
    changes.plan()
}

/// Changes, by what has to be run for them.
struct Changes<'a> {
    facts: &'a Facts,
    paths: BTreeSet<String>,
    has_rust: bool,
    /// Crates that are linted and tested, by their directories.
    tested: BTreeSet<&'a str>,
    /// Crates whose users are checked as well.
    products: BTreeSet<&'a str>,
    host: HostChanges,
    pages: Vec<String>,
    scripts: Vec<String>,
    notes: BTreeSet<String>,
    steps: BTreeSet<&'static str>,
}

/// Changes of the launcher.
#[derive(Default)]
struct HostChanges {
    lints: Lints,
    units: Units,
    /// Test files to run.
    tests: BTreeSet<String>,
}

/// The programs of the workspace that are linted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Lints {
    #[default]
    None,
    Tests,
    All,
}

/// The unit tests of the launcher that are run.
enum Units {
    /// Those of these modules.
    Modules(BTreeSet<String>),
    All,
}

impl Default for Units {
    fn default() -> Self {
        Self::Modules(BTreeSet::new())
    }
}

impl<'a> Changes<'a> {
    fn new(facts: &'a Facts) -> Self {
        Self {
            facts,
            paths: BTreeSet::new(),
            has_rust: false,
            tested: BTreeSet::new(),
            products: BTreeSet::new(),
            host: HostChanges::default(),
            pages: Vec::new(),
            scripts: Vec::new(),
            notes: BTreeSet::new(),
            steps: BTreeSet::new(),
        }
    }

    fn add(&mut self, path: &str) {
        self.paths.insert(path.to_owned());
        self.has_rust |=
            [".rs", "Cargo.toml", "rustfmt.toml"].iter().any(|ending| path.ends_with(ending));
        let is_deleted = self.facts.deleted.contains(path);
        if path.ends_with(".md") || is_in(path, "docs") {
            self.steps.extend(DOCUMENT_STEPS);
            if path.ends_with(".md") && !is_deleted {
                self.pages.push(path.to_owned());
            }
        } else if is_script(path) || PAGE.iter().any(|place| is_in(path, place)) {
            if is_script(path) && !is_deleted {
                self.scripts.push(path.to_owned());
            }
            self.add_steps(path);
        } else if WHOLE_WORKSPACE.contains(&path) {
            self.host.lints = Lints::All;
            self.add_steps(path);
        } else if let Some(place) = OTHER_WORKSPACES.iter().find(|place| is_in(path, place)) {
            self.notes
                .insert(format!("{place}: a workspace of its own, which the gate alone builds"));
            self.add_steps(path);
        } else if let Some(package) = self.package(path) {
            match path.strip_prefix(HOST).and_then(|rest| rest.strip_prefix('/')) {
                Some(inside) if package.directory == HOST => self.add_to_host(path, inside),
                _ => self.add_to_library(path, &package.directory),
            }
        } else {
            self.add_steps(path);
        }
    }

    /// The crate that a file belongs to.
    fn package(&self, path: &str) -> Option<&'a Package> {
        let around = self.facts.crates.iter().filter(|package| is_in(path, &package.directory));
        around.max_by_key(|package| package.directory.len())
    }

    fn add_to_library(&mut self, path: &str, directory: &'a str) {
        self.tested.insert(directory);
        let inside = path[directory.len()..].trim_start_matches('/');
        if is_product(inside) {
            self.products.insert(directory);
        }
        // Crates of the launcher are tested by it as well.
        let module = host_tests::module(path);
        if let Some(files) = module.and_then(|module| host_tests::concerned(&module)) {
            self.host.tests.extend(files.iter().map(ToString::to_string));
        }
        let is_test = ["tests", "benches"].iter().any(|place| is_in(inside, place));
        if !(is_test && path.ends_with(".rs")) {
            self.add_steps(path);
        }
    }

    /// Adds the file `inside` the directory of the launcher.
    fn add_to_host(&mut self, path: &str, inside: &str) {
        if let Some(source) = inside.strip_prefix("src/") {
            self.host.lints = Lints::All;
            self.add_steps(path);
            self.add_host_source(path, source);
        } else if let Some(file) = inside.strip_prefix("tests/") {
            self.add_host_test(path, file);
        } else if is_product(inside) {
            self.host.lints = Lints::All;
            self.host.units = Units::All;
            self.add_steps(path);
        } else {
            if inside.ends_with(".rs") || inside == "clippy.toml" {
                self.host.lints = Lints::All;
            }
            self.add_steps(path);
        }
    }

    fn add_host_source(&mut self, path: &str, source: &str) {
        let module = source.strip_suffix(".rs").unwrap_or(source);
        if ["lib", "main"].contains(&module) {
            self.host.units = Units::All;
            return;
        }
        let module = module.strip_suffix("/mod").unwrap_or(module);
        if let Units::Modules(modules) = &mut self.host.units {
            let outermost = module.split('/').next().unwrap_or(module);
            modules.insert(format!("{outermost}::"));
        }
        match host_tests::concerned(module) {
            Some(files) => self.host.tests.extend(files.iter().map(ToString::to_string)),
            None => {
                self.notes.insert(format!(
                    "{path}: no row of xtask/src/check/host_tests.rs names tests of the whole launcher for it"
                ));
            }
        }
    }

    fn add_host_test(&mut self, path: &str, file: &str) {
        let name = file.strip_suffix(".rs").filter(|name| !name.contains('/'));
        if let Some(name) = name {
            self.host.lints = self.host.lints.max(Lints::Tests);
            self.host.tests.insert(name.to_owned());
        } else if is_in(file, "common") || is_in(file, "suites") {
            self.host.lints = self.host.lints.max(Lints::Tests);
            self.notes.insert(format!("{path}: the tests that use it are linted, and not run"));
            self.add_steps(path);
        } else if is_in(file, "conform") || file == "command-lines.txt" {
            let test = if file == "command-lines.txt" { "command_lines" } else { "conform" };
            self.host.tests.insert(test.into());
        } else {
            self.notes.insert(format!("{path}: the tests that use it are not run"));
            self.add_steps(path);
        }
    }

    /// Adds the steps of the gate for a path: those of the longest row that fits.
    fn add_steps(&mut self, path: &str) {
        let row = STEPS
            .iter()
            .filter(|(place, _)| is_in(path, place))
            .max_by_key(|(place, _)| place.len());
        self.steps.extend(row.into_iter().flat_map(|(_, steps)| *steps));
    }

    fn plan(self) -> Plan {
        if self.paths.is_empty() {
            return Plan::default();
        }
        let mut tasks = vec![Task::Tidy(self.paths.clone())];
        if !self.pages.is_empty() {
            tasks.push(Task::Links(self.pages.clone()));
        }
        if !self.scripts.is_empty() {
            tasks.push(Task::Scripts(self.scripts.clone()));
        }
        if self.has_rust {
            tasks.push(Task::Cargo(test::FORMAT.into()));
            tasks.push(Task::Layers);
        }
        tasks.extend(self.lints());
        tasks.extend(self.library_tests());
        tasks.extend(self.host_tests());
        Plan { tasks, notes: self.notes.into_iter().collect(), steps: self.steps }
    }

    /// Lints of the changed crates, and checks of the crates that use them. Lints of the whole workspace,
    /// which a change of the launcher needs, make both superfluous.
    fn lints(&self) -> Vec<Task> {
        if self.host.lints == Lints::All {
            return vec![Task::Cargo(test::WORKSPACE_LINTS.into())];
        }
        let packages = |directories: &BTreeSet<&str>| {
            let names =
                directories.iter().map(|directory| format!(" --package {}", self.name(directory)));
            names.collect::<String>()
        };
        let lint = |directory: &&str| {
            format!("clippy --package {} --all-targets -- -D warnings", self.name(directory))
        };
        let mut lines: Vec<String> = self.tested.iter().map(lint).collect();
        let Users { products, tests } = self.users();
        if !products.is_empty() {
            lines.push(format!("check{}", packages(&products)));
        }
        if !tests.is_empty() {
            lines.push(format!("check --tests{}", packages(&tests)));
        }
        if self.host.lints == Lints::Tests {
            lines.push(test::WORKSPACE_LINTS.replace("--all-targets", "--tests"));
        }
        lines.into_iter().map(Task::Cargo).collect()
    }

    fn library_tests(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for package in self.tested.iter().filter_map(|directory| self.at(directory)) {
            let mut add = |runner, scope| {
                let filters = Vec::new();
                tasks.push(Task::Tests(Tests {
                    runner,
                    package: package.name.clone(),
                    scope,
                    filters,
                }));
            };
            add(self.facts.runner, Scope::Package);
            if self.facts.runner == Runner::Nextest && package.has_examples() {
                add(Runner::Cargo, Scope::Examples);
            }
        }
        tasks
    }

    fn host_tests(&self) -> Vec<Task> {
        let tests = |programs: &str, filters: Vec<String>| {
            Task::Tests(Tests {
                runner: self.facts.runner,
                package: self.name(HOST).to_owned(),
                scope: Scope::Workspace(programs.into()),
                filters,
            })
        };
        let mut tasks = Vec::new();
        match &self.host.units {
            Units::All => tasks.push(tests("--lib", Vec::new())),
            Units::Modules(modules) if modules.is_empty() => {}
            Units::Modules(modules) => {
                tasks.push(tests("--lib", modules.iter().cloned().collect()))
            }
        }
        let (mut suites, mut modules, mut programs) = (BTreeSet::new(), Vec::new(), String::new());
        for file in self.host.tests.iter().filter(|file| self.facts.host_tests.contains(file)) {
            match self.facts.host_tests.suite(file) {
                Some(suite) => {
                    suites.insert(suite);
                    modules.push(format!("{file}::"));
                }
                None => programs.push_str(&format!(" --test {file}")),
            }
        }
        if !suites.is_empty() {
            let suites: String = suites.iter().map(|suite| format!(" --test {suite}")).collect();
            tasks.push(tests(suites.trim_start(), modules));
        }
        if !programs.is_empty() {
            tasks.push(tests(programs.trim_start(), Vec::new()));
        }
        tasks
    }

    /// The crates that use the changed ones.
    fn users(&self) -> Users<'a> {
        let mut changed = self.products.clone();
        let users = |changed: &BTreeSet<&str>, is_dev: bool| -> BTreeSet<&'a str> {
            let uses = |package: &&Package| {
                package.dependencies.iter().any(|dependency| {
                    let directory = dependency.directory.as_deref();
                    dependency.is_dev() == is_dev
                        && directory.is_some_and(|directory| changed.contains(directory))
                })
            };
            let users = self.facts.crates.iter().filter(uses);
            users.map(|package| package.directory.as_str()).collect()
        };
        loop {
            let above = users(&changed, false);
            if above.is_subset(&changed) {
                break;
            }
            changed.extend(above);
        }
        let tests = users(&changed, true);
        let products = changed.difference(&self.tested).copied().collect();
        let is_checked = |directory: &&&str| {
            !changed.contains(**directory) && !self.tested.contains(**directory)
        };
        Users { tests: tests.iter().filter(is_checked).copied().collect(), products }
    }

    fn at(&self, directory: &str) -> Option<&'a Package> {
        self.facts.crates.iter().find(|package| package.directory == directory)
    }

    fn name(&self, directory: &str) -> &'a str {
        self.at(directory).map_or("", |package| &package.name)
    }
}

/// Directories of crates that use the changed ones, without these.
struct Users<'a> {
    products: BTreeSet<&'a str>,
    /// Crates whose tests alone use them.
    tests: BTreeSet<&'a str>,
}

/// True for files of a crate on which the crates that use it depend.
fn is_product(inside: &str) -> bool {
    is_in(inside, "src") || ["Cargo.toml", "build.rs"].contains(&inside)
}

/// True for a script of the page or of tests by Node.
fn is_script(path: &str) -> bool {
    [".js", ".mjs"].iter().any(|ending| path.ends_with(ending))
}

const HOST: &str = "host-std";

/// Files of the page and its tests, besides scripts.
const PAGE: &[&str] = &["wasm/www", "wasm/tests", "wasm/package.json", "wasm/package-lock.json"];

/// Files that concern each crate.
const WHOLE_WORKSPACE: &[&str] = &["Cargo.lock", "Cargo.toml", ".cargo/config.toml"];

/// Workspaces of their own inside this one.
const OTHER_WORKSPACES: &[&str] = &["core/fuzz", "examples/bare-metal"];

/// Steps of the gate that check documents further: links to headings, examples of crate pages, options.
const DOCUMENT_STEPS: [&str; 2] = ["tests", "book"];

/// Directories and files, and the steps of the gate that check a change in them further.
const STEPS: &[(&str, &[&str])] = &[
    (".ci", &["tests"]),
    ("Cargo.lock", &["package", "tests"]),
    ("Cargo.toml", &["package", "tests"]),
    (
        "core",
        &[
            "doc",
            "tests",
            "instructions",
            "sweep",
            "bare",
            "sizes",
            "guests",
            "wasm",
            "node",
            "playground",
        ],
    ),
    ("core/fuzz", &["tests"]),
    ("core/testkit", &["tests"]),
    ("core/vectors", &["tests", "book"]),
    ("deny.toml", &["package"]),
    ("examples", &["doc", "tests"]),
    ("examples/bare-metal", &["sizes", "guests"]),
    ("host-std", &["plain", "doc", "dist", "tests", "faults"]),
    ("host-std/capi", &["doc", "capi", "dist", "tests"]),
    ("host-std/dist", &["dist", "tests"]),
    ("host-std/hardware", &["doc", "tests", "hardware"]),
    ("host-std/src/launch/topology", &["plain", "doc", "tests", "hardware"]),
    ("host-std/testkit", &["tests"]),
    ("host-std/tests", &["tests"]),
    ("transports", &["doc", "tests"]),
    ("transports/capi", &["doc", "tests", "bare"]),
    ("transports/link", &["doc", "tests", "sweep", "bare", "sizes", "guests", "wasm", "node"]),
    ("transports/smoltcp", &["doc", "bare", "guests"]),
    ("transports/std", &["plain", "doc", "capi", "tests"]),
    ("transports/trace", &["doc", "tests", "playground"]),
    ("transports/tree", &["doc", "tests", "sweep", "playground"]),
    ("transports/wasm", &["doc", "wasm", "node"]),
    ("wasm", &["doc", "playground"]),
    ("wasm/node", &["node"]),
    ("wasm/package-lock.json", &["playground"]),
    ("wasm/package.json", &["playground"]),
    ("wasm/sim", &["doc", "sweep", "node", "playground"]),
    ("wasm/tests", &["playground"]),
    ("wasm/www", &["playground"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers;
    use serde_json::{Value, json};

    /// The crates of a workspace, each with those it uses; `dev:` marks one for tests only.
    const CRATES: &[(&str, &[&str])] = &[
        ("core", &["dev:core/testkit"]),
        ("core/testkit", &["core"]),
        ("transports/link", &["core", "dev:core/testkit"]),
        ("transports/trace", &["core"]),
        (
            "host-std",
            &["core", "transports/link", "transports/trace", "host-std/base", "host-std/os"],
        ),
        ("host-std/base", &["core", "transports/link"]),
        ("host-std/os", &["core", "host-std/base"]),
        ("wasm", &["core", "transports/trace"]),
        ("xtask", &[]),
    ];

    /// The crates, as cargo describes them; each has examples.
    fn crates() -> Vec<Package> {
        let dependency = |used: &&str| {
            let (kind, path) =
                used.strip_prefix("dev:").map_or((None, *used), |path| (Some("dev"), path));
            json!({ "name": path, "kind": kind, "path": format!("/w/{path}") })
        };
        let package = |(directory, uses): &(&str, &[&str])| {
            json!({
                "name": directory.replace('/', "-"),
                "manifest_path": format!("/w/{directory}/Cargo.toml"),
                "dependencies": uses.iter().map(dependency).collect::<Vec<_>>(),
                "targets": [{ "doctest": true }],
            })
        };
        let packages: Vec<Value> = CRATES.iter().map(package).collect();
        let metadata = json!({ "workspace_root": "/w", "packages": packages });
        layers::packages(&metadata.to_string()).unwrap()
    }

    fn facts(runner: Runner) -> Facts {
        let suite =
            "#[path = \"../output.rs\"]\nmod output;\n#[path = \"../input.rs\"]\nmod input;";
        let files = ["input", "keys", "output", "terminal", "unread", "written_files", "trace"];
        let host_tests = HostTests::of(files, [("streams", suite)]);
        Facts { crates: crates(), host_tests, runner, deleted: BTreeSet::new() }
    }

    fn planned(paths: &[&str]) -> Plan {
        plan(paths.iter().copied(), &facts(Runner::Cargo))
    }

    fn tidy(paths: &[&str]) -> Task {
        Task::Tidy(paths.iter().map(ToString::to_string).collect())
    }

    /// The command lines behind the checks of this program.
    fn lines(paths: &[&str]) -> Vec<String> {
        let tasks = planned(paths).tasks;
        assert_eq!(tasks[0], tidy(paths));
        tasks
            .iter()
            .skip(1)
            .filter(|task| **task != Task::Layers)
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn change_of_core_is_tested_and_the_crates_above_it_are_checked() {
        assert_eq!(
            lines(&["core/src/lib.rs"]),
            [
                "cargo fmt --all --check",
                "cargo clippy --package core --all-targets -- -D warnings",
                "cargo check --package core-testkit --package host-std --package host-std-base \
                 --package host-std-os --package transports-link --package transports-trace --package wasm",
                "cargo test --package core --no-fail-fast",
            ]
        );
        assert!(planned(&["core/src/lib.rs"]).steps.contains("sweep"));
    }

    #[test]
    fn change_of_a_library_has_the_crates_that_use_it_checked() {
        assert_eq!(
            lines(&["transports/trace/src/a.rs", "transports/trace/tests/b.rs"]),
            [
                "cargo fmt --all --check",
                "cargo clippy --package transports-trace --all-targets -- -D warnings",
                "cargo check --package host-std --package wasm",
                "cargo test --package transports-trace --no-fail-fast",
            ]
        );
    }

    #[test]
    fn change_of_tests_of_a_library_concerns_no_other_crate() {
        let lines = lines(&["transports/link/tests/pair.rs"]);
        assert!(!lines.iter().any(|line| line.starts_with("cargo check")), "{lines:?}");
        assert_eq!(planned(&["transports/link/tests/pair.rs"]).steps, BTreeSet::new());
    }

    #[test]
    fn change_of_a_test_kit_has_the_tests_checked_that_use_it() {
        let lines = lines(&["core/testkit/src/lib.rs"]);
        assert!(
            lines.contains(&"cargo check --tests --package core --package transports-link".into())
        );
    }

    #[test]
    fn examples_of_a_library_are_run_beside_nextest() {
        let tasks = plan(["core/tests/a.rs"], &facts(Runner::Nextest)).tasks;
        let lines: Vec<String> = tasks.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines[lines.len() - 2..],
            [
                "cargo nextest run --package core --no-fail-fast --no-tests=pass --status-level=slow",
                "cargo test --package core --doc --no-fail-fast",
            ]
        );
    }

    #[test]
    fn change_of_the_launcher_runs_unit_tests_of_its_module_and_the_tests_that_concern_it() {
        let tests = test::WORKSPACE_TESTS;
        assert_eq!(
            lines(&["host-std/src/stdio/merge.rs", "host-std/src/trace/mod.rs"]),
            [
                "cargo fmt --all --check".to_owned(),
                format!("cargo {}", test::WORKSPACE_LINTS),
                format!("cargo {tests} --lib --no-fail-fast -- stdio:: trace::"),
                format!("cargo {tests} --test streams --no-fail-fast -- input:: output::"),
                format!(
                    "cargo {tests} --test keys --test terminal --test trace --test unread \
                     --test written_files --no-fail-fast"
                ),
            ]
        );
    }

    #[test]
    fn change_of_a_crate_of_the_launcher_runs_the_tests_that_concern_it_as_well() {
        assert_eq!(
            lines(&["host-std/os/src/poller.rs"]),
            [
                "cargo fmt --all --check".to_owned(),
                "cargo clippy --package host-std-os --all-targets -- -D warnings".to_owned(),
                "cargo check --package host-std".to_owned(),
                "cargo test --package host-std-os --no-fail-fast".to_owned(),
                format!(
                    "cargo {} --test streams --no-fail-fast -- input:: output::",
                    test::WORKSPACE_TESTS
                ),
            ]
        );
    }

    #[test]
    fn change_of_the_launcher_and_of_a_library_is_linted_once() {
        let lines = lines(&["host-std/src/trace/mod.rs", "core/src/lib.rs"]);
        let lints: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains("clippy") || line.contains("check -"))
            .collect();
        assert_eq!(lints, [&format!("cargo {}", test::WORKSPACE_LINTS)]);
        assert!(lines.contains(&"cargo test --package core --no-fail-fast".into()));
    }

    #[test]
    fn change_of_the_root_of_the_launcher_runs_all_its_unit_tests() {
        for path in ["host-std/src/lib.rs", "host-std/Cargo.toml", "host-std/build.rs"] {
            let expected = format!("cargo {} --lib --no-fail-fast", test::WORKSPACE_TESTS);
            assert!(lines(&[path]).contains(&expected), "{path}");
        }
    }

    #[test]
    fn module_without_a_row_is_named() {
        let plan = planned(&["host-std/src/new_part.rs"]);
        assert!(plan.notes[0].starts_with("host-std/src/new_part.rs: no row"), "{:?}", plan.notes);
    }

    #[test]
    fn changed_test_file_is_run_itself() {
        let tests = test::WORKSPACE_TESTS;
        let lints = test::WORKSPACE_LINTS.replace("--all-targets", "--tests");
        let expected = |selected: &str| {
            let run = format!("cargo {tests} {selected}");
            vec!["cargo fmt --all --check".to_owned(), format!("cargo {lints}"), run]
        };
        assert_eq!(
            lines(&["host-std/tests/output.rs"]),
            expected("--test streams --no-fail-fast -- output::")
        );
        assert_eq!(lines(&["host-std/tests/trace.rs"]), expected("--test trace --no-fail-fast"));
        assert_eq!(lines(&["host-std/tests/deleted.rs"]), expected("")[..2]);
    }

    #[test]
    fn change_of_common_parts_of_tests_is_linted_and_said() {
        let path = "host-std/tests/common/mod.rs";
        let lints = test::WORKSPACE_LINTS.replace("--all-targets", "--tests");
        assert_eq!(
            lines(&[path]),
            ["cargo fmt --all --check".to_owned(), format!("cargo {lints}")]
        );
        let Plan { notes, steps, .. } = planned(&[path]);
        assert_eq!(notes, [format!("{path}: the tests that use it are linted, and not run")]);
        assert!(steps.contains("tests"));
    }

    #[test]
    fn change_of_documents_compiles_nothing() {
        let paths = ["README.md", "docs/coverage.txt", "core/README.md"];
        let plan = planned(&paths);
        let pages = vec!["README.md".to_owned(), "core/README.md".to_owned()];
        assert_eq!(plan.tasks, [tidy(&paths), Task::Links(pages)]);
        assert!(plan.steps.contains("book"));
    }

    #[test]
    fn change_of_the_page_is_left_to_a_browser() {
        let paths = ["wasm/www/style.css", "wasm/www/app/act.js"];
        let plan = planned(&paths);
        assert_eq!(plan.tasks, [tidy(&paths), Task::Scripts(vec!["wasm/www/app/act.js".into()])]);
        assert_eq!(plan.steps, BTreeSet::from(["playground"]));
    }

    #[test]
    fn change_of_a_script_for_node_compiles_nothing() {
        let paths = ["wasm/node/tests/frames.test.mjs"];
        let plan = planned(&paths);
        assert_eq!(plan.tasks, [tidy(&paths), Task::Scripts(vec![paths[0].into()])]);
        assert_eq!(plan.steps, BTreeSet::from(["node"]));
    }

    #[test]
    fn change_of_the_workspace_lints_all_of_it() {
        assert!(lines(&["Cargo.toml"]).contains(&format!("cargo {}", test::WORKSPACE_LINTS)));
    }

    #[test]
    fn change_of_another_workspace_is_left_to_the_gate() {
        let paths = ["core/fuzz/corpus/seed", "core/fuzz/src/lib.rs"];
        let plan = planned(&paths);
        let format = Task::Cargo(test::FORMAT.into());
        assert_eq!(plan.tasks, [tidy(&paths), format, Task::Layers]);
        assert_eq!(plan.steps, BTreeSet::from(["tests"]));
        assert_eq!(plan.notes.len(), 1);
    }

    #[test]
    fn no_change_has_an_empty_plan() {
        assert_eq!(planned(&[]), Plan::default());
    }

    #[test]
    fn steps_of_the_table_are_steps_of_the_gate() {
        let named = STEPS.iter().flat_map(|(_, steps)| *steps).chain(&DOCUMENT_STEPS);
        for step in named {
            assert!(test::steps().any(|(name, _)| name == *step), "{step}");
        }
        for (place, _) in STEPS {
            assert!(crate::process::root().join(place).exists(), "{place}");
        }
    }

    #[test]
    fn crates_of_the_workspace_have_a_place_in_the_plan() {
        let crates = layers::workspace().unwrap();
        let facts = Facts { crates, ..facts(Runner::Cargo) };
        for package in &facts.crates {
            let path = format!("{}/src/lib.rs", package.directory);
            let tasks = plan([path.as_str()], &facts).tasks;
            assert!(tasks.iter().any(|task| task.to_string().contains("clippy")), "{path}");
        }
    }
}
