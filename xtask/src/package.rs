//! `cargo xtask package`: checks that the crates can be published and their dependencies used.
//!
//! Licences, sources and declared Rust versions of all dependencies are read from `cargo metadata` and
//! compared with `deny.toml` and with `rust-version` of the workspace. Then `cargo package` assembles every
//! crate that is published, without a registry; `--verify` also builds each from its archive: minutes.
//! Advisories are not checked here: their database needs the network (`cargo deny check advisories`).

use crate::args;
use crate::process;
use serde_json::Value;
use std::fs;
use std::process::ExitCode;

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let [is_verified] = args::flags(arguments, "cargo xtask package [--verify]", ["verify"])?;
    let findings = check()?;
    for finding in &findings {
        println!("{finding}");
    }
    let is_good = findings.is_empty() && assemble(is_verified);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Assembles the archives of all published crates.
pub(crate) fn assemble(is_verified: bool) -> bool {
    let mut cargo = process::cargo();
    cargo.args(["package", "--workspace", "--offline", "--allow-dirty", "--quiet"]);
    // It is not published, and uses a crate that has no version.
    cargo.args(["--exclude", "xtask"]);
    if !is_verified {
        cargo.arg("--no-verify");
    }
    process::succeeds(&mut cargo)
}

/// Findings about the crates and their dependencies.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let mut cargo = process::cargo();
    let host = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let json = process::output(cargo.args(["metadata", "--format-version", "1"]).args(host))?;
    let metadata: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    let deny = fs::read_to_string(process::root().join("deny.toml"));
    let allowed = allowed_licences(&deny.map_err(|error| format!("deny.toml: {error}"))?)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let own = |package: &&Value| package["source"].is_null();
    let version = packages.iter().filter(own).find_map(|package| package["rust_version"].as_str());
    let msrv = version_numbers(version.ok_or("the workspace declares no rust-version")?);
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or("?");
        let mut finding = |text: String| findings.push(format!("{name}: {text}"));
        if package["source"].is_null() {
            check_manifest(package, &mut finding);
        } else {
            check_dependency(package, &allowed, &msrv, &mut finding);
        }
    }
    Ok(findings)
}

/// Checks what crates.io requires or shows of a crate of this workspace.
fn check_manifest(package: &Value, finding: &mut dyn FnMut(String)) {
    // An empty list of registries means that the crate is not published.
    if package["publish"].as_array().is_some_and(Vec::is_empty) {
        return;
    }
    if is_testkit(&package["name"]) {
        finding("is for tests only: `publish = false`".into());
    }
    for field in ["description", "license", "readme", "rust_version", "documentation"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            finding(format!("the manifest has no `{}`", field.replace('_', "-")));
        }
    }
    for (field, most) in [("keywords", 5), ("categories", 5)] {
        let count = package[field].as_array().map_or(0, Vec::len);
        if !(1..=most).contains(&count) {
            finding(format!("{count} {field}; crates.io shows 1 to {most}"));
        }
    }
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let is_bare = dependency["req"] == "*";
        if is_bare && dependency["kind"] != "dev" {
            finding(format!("the dependency {} has no version", dependency["name"]));
        }
        // Only a dependency without a version is left out of the published manifest.
        if is_testkit(&dependency["name"]) && !is_bare {
            let name = &dependency["name"];
            finding(format!("the dependency {name} has a version, but is not published"));
        }
    }
}

fn check_dependency(
    package: &Value,
    allowed: &[String],
    msrv: &[u64],
    finding: &mut dyn FnMut(String),
) {
    if package["source"] != CRATES_IO {
        finding(format!("comes from {}, not from crates.io", package["source"]));
    }
    match package["license"].as_str() {
        Some(licence) if is_allowed(licence, allowed) => {}
        Some(licence) => finding(format!("the licence {licence} is not among those of deny.toml")),
        None => finding("declares no licence".into()),
    }
    match package["rust_version"].as_str() {
        Some(version) if version_numbers(version).as_slice() > msrv => {
            finding(format!("needs Rust {version}, newer than `rust-version` of this workspace"));
        }
        _ => {}
    }
}

/// The texts of the list `allow` in the table `licenses`.
fn allowed_licences(deny: &str) -> Result<Vec<String>, String> {
    let missing = "deny.toml has no list `allow` in `[licenses]`";
    let (_, table) = deny.split_once("[licenses]").ok_or(missing)?;
    let (_, list) = table.split_once("allow = [").ok_or(missing)?;
    let (list, _) = list.split_once(']').ok_or(missing)?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Evaluates an SPDX expression. `/` is an old form of `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_good = all_of(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        is_good |= all_of(rest, allowed);
    }
    is_good
}

fn all_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_good = one_of(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        is_good &= one_of(rest, allowed);
    }
    is_good
}

fn one_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let is_good = any_of(rest, allowed);
            *rest = rest.strip_prefix(&[")"]).unwrap_or(&[""]);
            is_good
        }
        [name, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, after @ ..] => {
            *rest = after;
            allowed.iter().any(|allowed| allowed == name)
        }
        [] => false,
    }
}

fn version_numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).chain([0]).take(2).collect()
}

fn is_testkit(name: &Value) -> bool {
    name.as_str().is_some_and(|name| TESTKITS.contains(&name))
}

/// Shared parts of tests.
const TESTKITS: [&str; 2] = ["pmi-testkit", "pmi-host-testkit"];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn licence_expression_is_evaluated_with_its_operators() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "MIT AND ISC",
            "(GPL-3.0 OR MIT) AND ISC",
            "GPL-3.0 OR MIT AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT", "MIT MIT"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn dependencies_are_rejected_for_source_licence_and_version() {
        let found = |package: Value| {
            let mut findings = Vec::new();
            check_dependency(&package, &["MIT".to_owned()], &[1, 91], &mut |text| {
                findings.push(text)
            });
            findings
        };
        let good = json!({ "source": CRATES_IO, "license": "MIT", "rust_version": "1.91.1" });
        assert_eq!(found(good), [""; 0]);
        let newer = json!({ "source": CRATES_IO, "license": "MIT", "rust_version": "1.92" });
        assert!(found(newer)[0].starts_with("needs Rust 1.92"));
        let other = found(json!({ "source": "git+https://example.org", "license": "GPL-3.0" }));
        assert_eq!(other.len(), 2, "{other:?}");
        assert_eq!(found(json!({ "source": CRATES_IO })), ["declares no licence"]);
    }

    #[test]
    fn manifest_without_the_fields_of_crates_io_is_reported() {
        let mut findings = Vec::new();
        let dependencies = json!([{ "name": "a", "req": "*", "kind": null }]);
        let bare = json!({ "description": "d", "dependencies": dependencies });
        check_manifest(&bare, &mut |text| findings.push(text));
        assert_eq!(findings.len(), 4 + 2 + 1, "{findings:?}");
        for kit in TESTKITS {
            let dependencies = json!([{ "name": kit, "req": "^0.1.0", "kind": "dev" }]);
            let kit = json!({ "name": kit, "dependencies": dependencies });
            findings.clear();
            check_manifest(&kit, &mut |text| findings.push(text));
            assert!(findings[0].contains("`publish = false`"), "{findings:?}");
            assert!(findings.last().is_some_and(|last| last.contains("a version")), "{findings:?}");
        }
        findings.clear();
        check_manifest(&json!({ "publish": [] }), &mut |text| findings.push(text));
        assert!(findings.is_empty());
    }
}
