//! Allowed dependencies, by directory: the crates of the workspace, and foreign packages that
//! belong to one place.

use crate::{cycles, modules, process, report, tree};
use serde::Deserialize;
use std::process::ExitCode;

/// A directory of crates and the directories it may use. The longest directory that fits a crate decides.
struct CrateLayer {
    directory: &'static str,
    uses: &'static [&'static str],
}

const LAYERS: &[CrateLayer] = &[
    CrateLayer { directory: "core", uses: &[] },
    CrateLayer { directory: "core/testkit", uses: &["core", "transports/link"] },
    CrateLayer { directory: "transports/link", uses: &["core"] },
    CrateLayer { directory: "transports", uses: &["core", "transports/link"] },
    CrateLayer { directory: "transports/trace", uses: &["core"] },
    CrateLayer { directory: "transports/tree", uses: &["core"] },
    CrateLayer { directory: "wasm/sim", uses: &["core", "transports/link", "transports/tree"] },
    CrateLayer {
        directory: "wasm",
        uses: &["core", "transports/link", "transports/trace", "transports/wasm", "wasm/sim"],
    },
    CrateLayer {
        directory: "host-std",
        uses: &[
            "core",
            "transports/link",
            "transports/std",
            "transports/trace",
            "transports/tree",
            "host-std/base",
            "host-std/hardware",
            "host-std/nodes",
            "host-std/os",
            "host-std/tools",
        ],
    },
    CrateLayer { directory: "host-std/base", uses: &["core", "transports/link", "transports/std"] },
    CrateLayer {
        directory: "host-std/nodes",
        uses: &[
            "core",
            "transports/std",
            "transports/tree",
            "host-std/base",
            "host-std/noise",
            "host-std/os",
        ],
    },
    CrateLayer { directory: "host-std/hardware", uses: &["host-std/base"] },
    CrateLayer { directory: "host-std/noise", uses: &[] },
    CrateLayer { directory: "host-std/os", uses: &["core", "transports/std", "host-std/base"] },
    CrateLayer {
        directory: "host-std/tools",
        uses: &["core", "transports/link", "transports/std", "transports/trace", "host-std/base"],
    },
    CrateLayer {
        directory: "host-std/capi",
        uses: &["core", "transports/link", "transports/std", "host-std/capi"],
    },
    CrateLayer { directory: HOST_TESTKIT, uses: &[] },
    CrateLayer { directory: "examples", uses: &["core", "transports", "wasm", "host-std/capi"] },
    CrateLayer { directory: "xtask", uses: &[HOST_TESTKIT] },
];

/// Shared parts of tests: any crate may use them in its tests, and no product elsewhere.
const TESTKITS: [&str; 2] = ["core/testkit", HOST_TESTKIT];

/// Hosts for tests of the launcher; benchmarks use them, too.
const HOST_TESTKIT: &str = "host-std/testkit";

/// Foreign packages that stop at the bindings; everything above and below speaks of `Link` only.
const BOUND: &[&str] = &[
    "embedded-io",
    "embedded-io-async",
    "embedded-io-adapters",
    "futures-lite",
    "smoltcp",
    "wasm-bindgen",
    "wasm-bindgen-futures",
    "js-sys",
];
const BINDINGS: &[&str] = &["transports", "wasm", "examples"];

/// All that core's product code may take from outside.
const CORE_PACKAGES: &[&str] =
    &["heapless", "postcard", "serde", "defmt", "sha2", "subtle", "memchr"];

pub(crate) fn command(_: &[String]) -> Result<ExitCode, String> {
    Ok(report("layers", &check()?))
}

/// Forbidden edges between crates and inside core, and cycles of modules.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let mut findings = check_packages(&workspace()?);
    let files = tree::files()?;
    findings.extend(modules::check(&files));
    findings.extend(cycles::check(&files));
    Ok(findings)
}

/// The crates of the workspace.
pub(crate) fn workspace() -> Result<Vec<Package>, String> {
    let mut cargo = process::cargo();
    packages(&process::output(cargo.args(["metadata", "--no-deps", "--format-version", "1"]))?)
}

/// A crate of the workspace.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its directory; in the output of cargo, the path of its manifest.
    #[serde(rename = "manifest_path")]
    pub(crate) directory: String,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    name: String,
    /// Its directory, if it is in the workspace.
    #[serde(rename = "path")]
    pub(crate) directory: Option<String>,
    /// `dev` if it is for tests, examples and benches only.
    kind: Option<String>,
}

/// A library, program or test of a crate.
#[derive(Debug, Default, Deserialize)]
struct Target {
    /// True if the examples in its documentation are run.
    doctest: bool,
}

/// The part of `cargo metadata` that is read.
#[derive(Deserialize)]
struct Metadata {
    workspace_root: String,
    packages: Vec<Package>,
}

pub(crate) fn packages(json: &str) -> Result<Vec<Package>, String> {
    let Metadata { workspace_root, mut packages } =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    let inside =
        |path: &str| Some(path.strip_prefix(&workspace_root)?.trim_matches('/').to_owned());
    for package in &mut packages {
        package.directory = inside(package.directory.trim_end_matches("Cargo.toml"))
            .ok_or("a member outside the workspace")?;
        for dependency in &mut package.dependencies {
            dependency.directory = dependency.directory.as_deref().and_then(inside);
        }
    }
    Ok(packages)
}

impl Package {
    /// True if the examples in its documentation are run.
    pub(crate) fn has_examples(&self) -> bool {
        self.targets.iter().any(|target| target.doctest)
    }
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

fn check_packages(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(layer) = layer_of(&package.directory) else {
            findings.push(format!(
                "{}: `{}` has no row in xtask/src/layers.rs",
                package.name, package.directory
            ));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(why) = objection(package, layer, dependency) {
                findings.push(format!("{} must not use {}: {why}", package.name, dependency.name));
            }
        }
    }
    findings
}

fn objection(package: &Package, layer: &CrateLayer, dependency: &Dependency) -> Option<String> {
    if let Some(directory) = &dependency.directory {
        if TESTKITS.contains(&directory.as_str()) && !layer.uses.contains(&directory.as_str()) {
            return (!dependency.is_dev()).then(|| "it is for `dev-dependencies` only".into());
        }
        let allowed =
            *directory == package.directory || layer.uses.iter().any(|used| is_in(directory, used));
        return (!allowed).then(|| format!("`{}` may use {:?} only", layer.directory, layer.uses));
    }
    let name = dependency.name.as_str();
    if BOUND.contains(&name)
        && !BINDINGS.iter().any(|directory| is_in(&package.directory, directory))
    {
        return Some(format!("it stops at {BINDINGS:?}"));
    }
    if layer.directory == "core" && !dependency.is_dev() && !CORE_PACKAGES.contains(&name) {
        return Some(format!("core takes {CORE_PACKAGES:?} only"));
    }
    None
}

fn layer_of(directory: &str) -> Option<&'static CrateLayer> {
    LAYERS
        .iter()
        .filter(|layer| is_in(directory, layer.directory))
        .max_by_key(|layer| layer.directory.len())
}

pub(crate) fn is_in(directory: &str, outer: &str) -> bool {
    directory.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(directory: &str, dependencies: Vec<Dependency>) -> Package {
        Package {
            name: directory.replace('/', "-"),
            directory: directory.into(),
            dependencies,
            ..Package::default()
        }
    }

    fn ours(directory: &str) -> Dependency {
        Dependency {
            name: directory.replace('/', "-"),
            directory: Some(directory.into()),
            kind: None,
        }
    }

    fn foreign(name: &str, dev: bool) -> Dependency {
        Dependency { name: name.into(), directory: None, kind: dev.then(|| "dev".into()) }
    }

    fn findings(directory: &str, dependency: Dependency) -> Vec<String> {
        check_packages(&[package(directory, vec![dependency])])
    }

    #[test]
    fn edges_of_the_picture_are_allowed() {
        for (directory, used) in [
            ("transports/link", "core"),
            ("transports/std", "transports/link"),
            ("transports/tree", "core"),
            ("wasm/sim", "transports/tree"),
            ("wasm/sim", "core"),
            ("wasm", "wasm/sim"),
            ("wasm", "transports/wasm"),
            ("host-std", "transports/std"),
            ("host-std", "host-std/tools"),
            ("host-std", "host-std/nodes"),
            ("host-std/nodes", "host-std/os"),
            ("host-std/os", "host-std/base"),
            ("host-std/tools", "host-std/base"),
            ("host-std/capi/pmi2", "host-std/capi/shared"),
            ("examples/tiny-server", "transports/smoltcp"),
        ] {
            assert_eq!(findings(directory, ours(used)), [""; 0], "{directory} -> {used}");
        }
    }

    #[test]
    fn edge_against_the_layers_is_found() {
        for (directory, used) in [
            ("core", "transports/link"),
            ("transports/link", "transports/std"),
            ("transports/smoltcp", "transports/std"),
            ("transports/tree", "transports/link"),
            ("wasm/sim", "wasm"),
            ("wasm", "transports/std"),
            ("host-std", "wasm/sim"),
            ("host-std", "host-std/capi/pmi"),
            ("host-std/capi/pmi", "host-std"),
            ("host-std", "host-std/noise"),
            ("host-std/nodes", "host-std"),
            ("host-std/os", "host-std/nodes"),
            ("host-std/os", "transports/tree"),
            ("host-std/tools", "host-std"),
            ("host-std/base", "host-std/tools"),
            ("host-std/base", "transports/trace"),
            ("examples/tiny-server", "host-std"),
            ("examples/tiny-server", "xtask"),
            ("xtask", "core"),
        ] {
            let found = findings(directory, ours(used));
            assert_eq!(found.len(), 1, "{directory} -> {used}");
            assert!(found[0].contains("must not use"), "{found:?}");
        }
    }

    #[test]
    fn test_kit_is_for_tests_only() {
        for directory in ["core", "transports/std", "host-std", "wasm/sim", "examples/tiny-server"]
        {
            for kit in TESTKITS {
                let for_tests = Dependency { kind: Some("dev".into()), ..ours(kit) };
                assert_eq!(findings(directory, for_tests), [""; 0], "{directory}");
                let found = findings(directory, ours(kit));
                assert!(
                    found.len() == 1 && found[0].contains("`dev-dependencies` only"),
                    "{found:?}"
                );
            }
        }
        assert_eq!(findings("core/testkit", ours("transports/link")), [""; 0]);
        assert_eq!(findings("core/testkit", ours("transports/std")).len(), 1);
        assert_eq!(findings("xtask", ours(HOST_TESTKIT)), [""; 0]);
        assert_eq!(findings("xtask", ours("core/testkit")).len(), 1);
        assert_eq!(findings(HOST_TESTKIT, ours("host-std")).len(), 1);
    }

    #[test]
    fn foreign_packages_stay_in_their_place() {
        assert_eq!(findings("transports/link", foreign("embedded-io", false)), [""; 0]);
        assert_eq!(findings("core", foreign("embedded-io", true)).len(), 1);
        assert_eq!(findings("host-std", foreign("smoltcp", false)).len(), 1);
        assert_eq!(findings("core", foreign("heapless", false)), [""; 0]);
        assert_eq!(findings("core", foreign("libc", false)).len(), 1);
        assert_eq!(findings("core", foreign("proptest", true)), [""; 0]);
    }

    #[test]
    fn crate_in_a_new_place_needs_a_row() {
        assert!(findings("somewhere", ours("core"))[0].contains("has no row"));
        assert!(findings("core-extra", ours("core"))[0].contains("has no row"));
    }

    #[test]
    fn metadata_is_read_as_cargo_writes_it() {
        let json = r#"{"workspace_root": "/w", "packages": [{"name": "pmi-core",
            "manifest_path": "/w/core/Cargo.toml", "dependencies": [
                {"name": "pmi-std", "kind": null, "path": "/w/transports/std"},
                {"name": "proptest", "kind": "dev"}]}]}"#;
        let packages = packages(json).unwrap();
        assert_eq!(packages[0].directory, "core");
        assert!(packages[0].dependencies[1].is_dev());
        assert_eq!(check_packages(&packages).len(), 1);
        assert!(super::packages("{}").is_err());
    }
}
