//! The figure of modules that depend on each other in a cycle.

use super::{Count, Source};
use crate::modules::root_uses;
use std::collections::{BTreeMap, BTreeSet};

/// Modules at the root of a package that reach themselves through the modules they use.
pub(super) fn cycle(sources: &[&Source<'_>]) -> Count {
    let packages: BTreeSet<&str> = sources.iter().map(|source| source.package).collect();
    let of = |package: &str| cycle_of(sources.iter().filter(|one| one.package == package));
    Count::of(packages.into_iter().flat_map(of).collect())
}

fn cycle_of<'s, 'a: 's>(sources: impl Iterator<Item = &'s &'s Source<'a>>) -> Vec<String> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let Some(path) = module_path(source) else { continue };
        if matches!(path.as_slice(), ["lib" | "main"]) {
            continue; // the root declares modules and may name all of them
        }
        let used = root_uses(&source.tokens, path.len());
        uses.entry(path[0]).or_default().extend(used.iter().map(|token| token.text));
    }
    let in_cycle = uses.keys().filter(|module| reaches(&uses, module, module));
    in_cycle.map(|module| format!("{module}: {}", known_uses(&uses, module))).collect()
}

/// Names from the root of the crate down to the file.
fn module_path<'a>(source: &Source<'a>) -> Option<Vec<&'a str>> {
    let place = source.path.strip_prefix(source.package)?.strip_prefix("/src/")?;
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
    use crate::source::tokens;

    fn source<'a>(path: &'a str, text: &'a str) -> Source<'a> {
        Source {
            path,
            package: "host-std",
            lines: Vec::new(),
            tokens: tokens(text),
            texts: Vec::new(),
        }
    }

    #[test]
    fn modules_in_a_cycle_are_found_through_others() {
        let a = source("host-std/src/a.rs", "use crate::b::X; use crate::a::Y;");
        let b = source("host-std/src/b/mod.rs", "use super::c::X;");
        let c = source("host-std/src/b/deep.rs", "use crate::c::X;");
        let d = source("host-std/src/c.rs", "use crate::a;");
        let e = source("host-std/src/e.rs", "use crate::a::X; use crate::e::Y;");
        let root = source("host-std/src/lib.rs", "use crate::e;");
        let found = cycle(&[&a, &b, &c, &d, &e, &root]).places;
        assert_eq!(found, ["a: b", "b: c", "c: a"]);
    }

    #[test]
    fn modules_of_one_name_in_two_packages_are_two_modules() {
        let (a, b) = ("use crate::b::X;", "use crate::a::X;");
        let outer = [source("host-std/src/a.rs", a), source("host-std/src/b.rs", "")];
        let of_tools = |path, text| Source { package: "host-std/tools", ..source(path, text) };
        let inner = of_tools("host-std/tools/src/b.rs", b);
        assert_eq!(cycle(&[&outer[0], &outer[1], &inner]).value, 0.0);
        let other = of_tools("host-std/tools/src/a.rs", a);
        assert_eq!(cycle(&[&outer[0], &outer[1], &inner, &other]).places, ["a: b", "b: a"]);
    }
}
