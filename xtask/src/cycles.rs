//! Modules of the launcher and its crates that depend on each other in a cycle.

use crate::modules::root_uses;
use crate::source::{Token, tokens, without_tests};
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// Packages whose modules must form a stack.
const PACKAGES: [&str; 9] = [
    "host-std",
    "host-std/base",
    "host-std/capi",
    "host-std/hardware",
    "host-std/nodes",
    "host-std/noise",
    "host-std/os",
    "host-std/testkit",
    "host-std/tools",
];

/// Modules at the root of a package that reach themselves through the modules they use.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    PACKAGES.into_iter().flat_map(|package| cycles_of(package, files)).collect()
}

fn cycles_of(package: &str, files: &[File]) -> Vec<String> {
    let mut sources: Vec<(Vec<&str>, Vec<Token<'_>>)> = Vec::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        match module_path(package, &file.path) {
            // The root declares modules and may name all of them.
            None => {}
            Some(path) if matches!(path.as_slice(), ["lib" | "main"]) => {}
            Some(path) => sources.push((path, without_tests(&tokens(&file.text)))),
        }
    }
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, tokens) in &sources {
        let used = root_uses(tokens, path.len());
        uses.entry(path[0]).or_default().extend(used.iter().map(|token| token.text));
    }
    let in_cycle = uses.keys().filter(|module| reaches(&uses, module, module));
    in_cycle
        .map(|module| {
            format!("{package}: `{module}` is in a cycle; it uses {}", known_uses(&uses, module))
        })
        .collect()
}

/// Names from the root of the crate down to the file.
fn module_path<'a>(package: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let place = path.strip_prefix(package)?.strip_prefix("/src/")?;
    Some(place.strip_suffix(".rs")?.split('/').filter(|part| *part != "mod").collect())
}

fn known_uses(uses: &BTreeMap<&str, BTreeSet<&str>>, module: &str) -> String {
    let used = uses[module].iter().filter(|used| **used != module && uses.contains_key(**used));
    used.copied().collect::<Vec<_>>().join(" ")
}

fn reaches(uses: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for used in uses.get(module).into_iter().flatten() {
            if *used == module {
                continue;
            }
            if *used == to {
                return true;
            }
            if seen.insert(*used) {
                open.push(used);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        check(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn modules_in_a_cycle_are_found_through_others() {
        let found = cycles(&[
            ("host-std/src/a.rs", "use crate::b::X; use crate::a::Y;"),
            ("host-std/src/b/mod.rs", "use super::c::X;"),
            ("host-std/src/b/deep.rs", "use crate::c::X;"),
            ("host-std/src/c.rs", "use crate::a;"),
            ("host-std/src/e.rs", "use crate::a::X; use crate::e::Y;"),
            ("host-std/src/lib.rs", "use crate::e;"),
        ]);
        assert_eq!(
            found,
            [
                "host-std: `a` is in a cycle; it uses b",
                "host-std: `b` is in a cycle; it uses c",
                "host-std: `c` is in a cycle; it uses a"
            ]
        );
    }

    #[test]
    fn modules_of_one_name_in_two_packages_are_two_modules() {
        let outer = ("host-std/src/a.rs", "use crate::b::X;");
        let inner = ("host-std/tools/src/b.rs", "use crate::a::X;");
        assert_eq!(cycles(&[outer, ("host-std/src/b.rs", ""), inner]), [""; 0]);
        assert_eq!(
            cycles(&[outer, inner, ("host-std/tools/src/a.rs", "use crate::b::X;")]).len(),
            2
        );
    }
}
