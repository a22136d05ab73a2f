//! The tests of the launcher in `host-std/tests`: the programs that they are linked into, and the modules of
//! the launcher and its crates that each file concerns.

use crate::{files, process};
use std::collections::BTreeMap;
use std::path::Path;

/// The files in `host-std/tests`, by their names without ending.
#[derive(Debug, Default)]
pub(super) struct HostTests {
    /// The suite of each file: a program in which the file is a module; `None` for a program of its own.
    suites: BTreeMap<String, Option<String>>,
}

impl HostTests {
    /// Reads `host-std/tests`, and the suites below it.
    pub(super) fn read() -> Result<Self, String> {
        let directory = process::root().join(DIRECTORY);
        let sources = |directory: &Path| -> Result<Vec<_>, String> {
            let mut sources = files::list(directory)?;
            sources.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
            Ok(sources)
        };
        let tests = sources(&directory)?;
        let mut found = Self::of(tests.iter().filter_map(|file| stem(file)), []);
        let suites = directory.join("suites");
        if suites.is_dir() {
            for file in sources(&suites)? {
                if let Some(name) = stem(&file) {
                    found.add_suite(name, &files::read(&file)?);
                }
            }
        }
        Ok(found)
    }

    /// Test files of these names, and suites with their sources.
    pub(super) fn of<'a>(
        files: impl IntoIterator<Item = &'a str>,
        suites: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let suites_of = files.into_iter().map(|file| (file.to_owned(), None)).collect();
        let mut tests = Self { suites: suites_of };
        suites.into_iter().for_each(|(name, source)| tests.add_suite(name, source));
        tests
    }

    /// Adds a suite, whose source has a line `#[path = "../FILE.rs"]` for each file.
    fn add_suite(&mut self, name: &str, source: &str) {
        let files =
            source.split(MODULE_PATH).skip(1).filter_map(|rest| rest.split(".rs\"]").next());
        for file in files {
            if let Some(suite) = self.suites.get_mut(file) {
                *suite = Some(name.to_owned());
            }
        }
    }

    /// True if there is a test file of this name.
    pub(super) fn contains(&self, file: &str) -> bool {
        self.suites.contains_key(file)
    }

    /// The suite of a file; `None` for a program of its own.
    pub(super) fn suite(&self, file: &str) -> Option<&str> {
        self.suites.get(file)?.as_deref()
    }
}

/// The module of a source of the launcher, by its path without ending: below `host-std/src`, or behind the
/// name of the directory of its crate. `None` for other files.
pub(super) fn module(path: &str) -> Option<String> {
    let inside = path.strip_prefix("host-std/")?.strip_suffix(".rs")?;
    let module = match inside.strip_prefix("src/") {
        Some(module) => module.to_owned(),
        None => {
            let (part, module) = inside.split_once("/src/")?;
            format!("{part}/{module}")
        }
    };
    Some(module.strip_suffix("/mod").map_or(module.clone(), str::to_owned))
}

/// The test files for a [module] of the launcher: those of the longest row that fits. `None` if no row does.
pub(super) fn concerned(module: &str) -> Option<&'static [&'static str]> {
    let fits = |row: &&(&str, &[&str])| {
        module.strip_prefix(row.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let row = MODULES.iter().filter(fits).max_by_key(|(module, _)| module.len());
    row.map(|(_, files)| *files)
}

fn stem(file: &Path) -> Option<&str> {
    file.file_stem()?.to_str()
}

const DIRECTORY: &str = "host-std/tests";

const MODULE_PATH: &str = "#[path = \"../";

/// Modules of the launcher and its crates, and the test files that concern them.
const MODULES: &[(&str, &[&str])] = &[
    ("allocator", &["exhaustion"]),
    ("base/columns", &["ps", "watch"]),
    ("base/image", &["abi"]),
    ("base/library", &["abi"]),
    ("base/loader", &["abi"]),
    ("cli", &["command_lines", "documents", "peer_options", "settings", "spellings", "switching"]),
    ("cli/config", &["settings"]),
    (
        "cli/mpiexec",
        &[
            "command_lines",
            "peer_options",
            "personalities",
            "placement_spellings",
            "probes",
            "spellings",
            "switching",
        ],
    ),
    ("cli/options", &["command_lines", "documents", "settings", "switching"]),
    ("control", &["ps", "stack"]),
    ("control/rendezvous", &["pmix_tools"]),
    ("control/stack", &["stack"]),
    ("demo_rank", &["demo"]),
    ("front", &["documents", "exit_codes", "install", "pmix_command", "probes", "settings"]),
    ("front/doctor", &["doctor"]),
    ("front/mpir", &["debuggers"]),
    ("front/served_run", &["keys", "stops", "terminal", "unread"]),
    ("front/servers", &["nodes", "nodes_start"]),
    ("front/singleton", &["singleton"]),
    ("front/topology", &["topology"]),
    ("hardware", &["topology"]),
    ("install", &["install"]),
    ("io", &["input", "output", "unread"]),
    ("launch", &["cleanup", "scripts", "spawn", "surroundings"]),
    ("launch/cleanup", &["cleanup", "exhaustion", "leftovers", "sandboxes"]),
    ("launch/environment", &["abi", "pmi_port", "singleton", "surroundings", "switching"]),
    (
        "launch/plan",
        &["abi", "capi_preload", "debuggers", "pmix", "pmix_store", "spawn", "surroundings"],
    ),
    ("launch/preview", &["settings"]),
    ("launch/signal", &["exit_codes", "stops", "surroundings"]),
    (
        "launch/start",
        &["exhaustion", "gdb", "refused_calls", "sandboxes", "scripts", "stops", "surroundings"],
    ),
    ("launch/topology", &["binding", "placement", "placement_spellings", "topology"]),
    ("link", &["nodes", "nodes_spawn"]),
    ("listeners", &["dial", "identity", "pages", "pmi_port", "pmix_tools", "unauthenticated"]),
    ("names", &["nodes_names"]),
    ("node", &["cleanup", "ending", "nodes", "nodes_reports", "nodes_spawn", "spawn"]),
    ("node/lease", &["leases"]),
    ("node/pages", &["pages"]),
    ("node/pmix", &["nodes_pmix", "pmix"]),
    ("node/resources", &["leases"]),
    ("node/uplink", &["nodes", "nodes_failures"]),
    (
        "nodes",
        &[
            "nodes",
            "nodes_early",
            "nodes_encryption",
            "nodes_failures",
            "nodes_paused",
            "nodes_start",
        ],
    ),
    ("nodes/check", &["doctor", "nodes_ssh"]),
    ("nodes/check_program", &["doctor", "nodes_ssh"]),
    ("nodes/relay", &["nodes_relay"]),
    ("nodes/stage", &["nodes_stage"]),
    ("nodes/start/growth", &["nodes_added", "nodes_growth", "nodes_late"]),
    (
        "nodes/starter",
        &[
            "nodes_allocations",
            "nodes_fanout",
            "nodes_gridengine",
            "nodes_min",
            "nodes_slurm",
            "nodes_ssh",
            "nodes_start",
        ],
    ),
    ("nodes/starter/staging", &["nodes_stage"]),
    ("numbers", &["nodes", "spawn"]),
    ("operation", &["nodes", "nodes_pmix"]),
    ("os", &["cleanup", "exhaustion", "surroundings"]),
    ("os/refusal", &["refused_calls", "sandboxes"]),
    ("os/admission", &["dial", "identity", "munge", "pages", "tls", "unauthenticated"]),
    ("os/byte_vec", &["nodes"]),
    ("os/command_output", &["nodes_slurm", "stack"]),
    ("os/cleanup", &["cleanup", "exhaustion", "leftovers", "sandboxes"]),
    ("os/clock", &["exit_codes", "stops"]),
    ("os/console", &["keys", "terminal"]),
    ("os/host_name", &["host_names", "nodes_slurm"]),
    ("os/listen", &["dial", "unauthenticated"]),
    ("os/processes", &["cleanup", "identity", "leftovers"]),
    ("os/poller", &["exit_codes", "input", "output"]),
    ("os/random", &["nodes_encryption", "unauthenticated"]),
    ("os/resolver", &["host_names"]),
    ("os/runtime_dir", &["cleanup", "leases", "ps"]),
    ("os/stream", &["surroundings", "terminal"]),
    ("os/target", &["output", "unread"]),
    ("other_runs", &["nodes_names", "nodes_pmix"]),
    (
        "placement",
        &["binding", "host_names", "nodes", "nodes_allocations", "nodes_slurm", "settings"],
    ),
    ("rank_sets", &["ending", "nodes_reports"]),
    ("report", &["ending", "exit_codes", "misbehaviour"]),
    ("requests", &["nodes_tools", "pmix", "pmix_iof", "pmix_services", "pmix_tools"]),
    ("run", &["ending", "exit_codes", "nodes", "nodes_reports", "nodes_spawn", "spawn"]),
    ("run/debuggers", &["debuggers"]),
    ("run/growth", &["nodes_added", "nodes_growth", "nodes_late"]),
    ("run/input", &["input", "nodes"]),
    ("run/merge", &["nodes", "output"]),
    ("run/names", &["nodes_names"]),
    ("run/output", &["conversations", "nodes", "output", "unread"]),
    ("run/pauses", &["nodes_paused"]),
    ("run/terminal", &["keys", "terminal"]),
    ("run/tools", &["nodes_tools", "pmix_tools"]),
    ("run/trace", &["trace"]),
    ("run_report", &["ending", "nodes_reports", "written_files"]),
    ("server", &["dial", "kvs_limits", "misbehaviour", "spawn", "unauthenticated"]),
    (
        "server/pmix",
        &[
            "pmix",
            "pmix_client",
            "pmix_events",
            "pmix_groups",
            "pmix_hardware",
            "pmix_hostile",
            "pmix_iof",
            "pmix_services",
            "pmix_store",
            "pmix_tools",
        ],
    ),
    ("server/secure", &["tls"]),
    ("server/singleton", &["singleton"]),
    ("settings", &["command_lines", "settings"]),
    ("stdio", &["conversations", "input", "keys", "output", "terminal", "unread", "written_files"]),
    ("termination", &["ending", "exit_codes", "nodes_preempted", "stops"]),
    ("trace", &["trace"]),
    ("verdict", &["ending", "exit_codes"]),
    ("watch", &["nodes_reports", "ps", "stalls", "watch"]),
    ("web", &["pages"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn modules_of_the_launcher_have_rows_and_their_test_files_exist() {
        let launcher = process::root().join("host-std");
        let source = launcher.join("src");
        for directory in files::list(&source).unwrap().iter().filter(|path| path.is_dir()) {
            let name = directory.file_name().unwrap().to_str().unwrap();
            assert!(concerned(name).is_some_and(|files| !files.is_empty()), "{name} has no row");
        }
        let tests = HostTests::read().unwrap();
        let is_there = |path: &Path| path.is_dir() || path.with_extension("rs").is_file();
        for (module, files) in MODULES {
            let (part, inside) = module.split_once('/').unwrap_or((module, ""));
            let in_crate = launcher.join(part).join("src").join(inside);
            let found = is_there(&source.join(module)) || is_there(&in_crate);
            assert!(found, "no module {module}");
            for file in *files {
                assert!(tests.contains(file), "{module}: no test file {file}");
            }
        }
    }

    #[test]
    fn module_has_the_tests_of_the_longest_row() {
        assert_eq!(concerned("names/store"), Some(&["nodes_names"][..]));
        assert_eq!(concerned("os/poller"), concerned("os/poller/alarm"));
        assert_eq!(concerned("trace/ring"), Some(&["trace"][..]));
        assert_eq!(concerned("tracer"), None);
    }

    #[test]
    fn module_of_a_crate_is_behind_the_name_of_its_directory() {
        let found = |path: &str| module(path).unwrap_or_default();
        assert_eq!(found("host-std/src/trace/mod.rs"), "trace");
        assert_eq!(found("host-std/src/web/link.rs"), "web/link");
        assert_eq!(found("host-std/nodes/src/network/mod.rs"), "nodes/network");
        assert_eq!(found("host-std/os/src/poller.rs"), "os/poller");
        assert_eq!(found("host-std/tests/trace.rs"), "");
        assert_eq!(found("core/src/lib.rs"), "");
    }

    #[test]
    fn suite_of_a_test_file_is_read_from_its_source() {
        let source = "#[path = \"../output.rs\"] mod output;\n\
                      #[path = \"../input.rs\"]\nmod input;\n#[path = \"../common/mod.rs\"]\nmod common;\n";
        let tests = HostTests::of(["input", "output", "ps"], [("streams", source)]);
        assert_eq!(tests.suite("output"), Some("streams"));
        assert_eq!(tests.suite("input"), Some("streams"));
        assert_eq!(tests.suite("ps"), None);
        assert!(tests.contains("ps") && !tests.contains("common/mod"));
    }

    #[test]
    fn test_files_of_the_tree_are_found() {
        let tests = HostTests::read().unwrap();
        let files = fs::read_dir(process::root().join(DIRECTORY)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names: Vec<String> = names.collect();
        assert!(
            names.iter().filter_map(|name| name.strip_suffix(".rs")).all(|n| tests.contains(n))
        );
    }
}
