//! `cargo xtask setup`: completes the machine for steps of the tests, and runs none of them.

use crate::args;
use crate::machine::{self, Machine, Need, Permissions};
use crate::test;
use lexopt::prelude::*;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The packages of each step are listed only.
    is_list: bool,
    permissions: Permissions,
    steps: Vec<String>,
}

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let Options { is_list, permissions, steps } = options(arguments)?;
    let steps = test::needs(&steps)?;
    if is_list {
        for (step, needs) in &steps {
            println!("{}", row(step, needs));
        }
        return Ok(ExitCode::SUCCESS);
    }
    println!("{HEADING}");
    let machine =
        Machine::prepare_with(steps.into_iter().flat_map(|(_, needs)| needs), permissions);
    let is_success = machine.is_complete() || permissions.is_dry;
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A step, and the packages of its requirements.
fn row(step: &str, needs: &[Need]) -> String {
    let packages: BTreeSet<&str> =
        needs.iter().flat_map(|need| machine::packages(*need)).copied().collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    format!("{step:<12} {}", if packages.is_empty() { "-".into() } else { packages.join(" ") })
}

fn options(arguments: &[String]) -> Result<Options, String> {
    args::read(arguments, USAGE, |parser| {
        let mut options = Options::default();
        while let Some(arg) = parser.next()? {
            match arg {
                Long("list") => options.is_list = true,
                Long("dry-run") => options.permissions.is_dry = true,
                Long("no-remove") => options.permissions.is_no_remove = true,
                Value(step) => options.steps.push(step.string()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(options)
    })
}

/// Line in front of what is found and installed.
pub(crate) const HEADING: &str = "== setup: programs and packages that the steps need";

const USAGE: &str = "cargo xtask setup [--list] [--dry-run] [--no-remove] [STEP...]";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{process, toolchain};
    use std::fs;

    #[test]
    fn options_are_read() {
        let read =
            |line: &str| options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read(""), Ok(Options::default()));
        let permissions = Permissions { is_dry: true, is_no_remove: true };
        let steps = vec!["fmt".to_owned()];
        assert_eq!(
            read("--dry-run fmt --no-remove"),
            Ok(Options { is_list: false, permissions, steps })
        );
        assert!(read("--list").is_ok_and(|options| options.is_list));
        assert!(read("--force").unwrap_err().ends_with(USAGE));
    }

    #[test]
    fn image_of_a_container_names_no_package_of_the_steps() {
        let recipe = process::root().join("docs/Containerfile");
        let recipe = fs::read_to_string(recipe).unwrap();
        assert!(recipe.contains("cargo xtask setup &&"), "{recipe}");
        let needs = test::needs(&[]).unwrap().into_iter().flat_map(|(_, needs)| needs);
        let packages = needs.flat_map(machine::packages);
        let words: Vec<&str> = recipe.split_whitespace().collect();
        for package in packages.filter(|package| !toolchain::PACKAGES.contains(package)) {
            assert!(!words.contains(package), "{package}");
        }
    }

    #[test]
    fn packages_of_a_step_are_listed_once() {
        assert_eq!(
            row("dist", &[Need::Cmake, Need::Valgrind, Need::Cmake]),
            "dist         cmake valgrind"
        );
        assert_eq!(row("tidy", &[]), "tidy         -");
    }
}
