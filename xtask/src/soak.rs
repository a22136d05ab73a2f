//! `cargo xtask soak`: the depth that the gate has no time for, nightly and before a release.
//!
//! Each part is a command that can be run alone. A part that fails does not keep the others from running.

use crate::args;
use crate::part::{self, PartTime};
use crate::process;
use crate::tally::Tally;
use lexopt::prelude::*;
use std::process::ExitCode;

/// A part, and the words of cargo that run it.
struct SoakPart {
    name: &'static str,
    about: &'static str,
    cargo: &'static [&'static str],
}

const PARTS: &[SoakPart] = &[
    SoakPart {
        name: "jobs",
        about: "simulated jobs with every fault, 100 times the seeds of the gate",
        cargo: &["run --release --package pmi-sim -- sweep --seeds 10000"],
    },
    SoakPart {
        name: "random",
        about: "simulated jobs of random shapes, 50 times the seeds of the gate",
        cargo: &["run --release --package pmi-sim -- sweep --seeds 100000 random"],
    },
    SoakPart {
        name: "trees",
        about: "simulated trees of nodes, 30 times the seeds of the gate",
        cargo: &[
            "run --release --package pmi-sim -- tree sweep --seeds 50000",
            "run --release --package pmi-sim -- tree scale --nodes 100000",
        ],
    },
    SoakPart {
        name: "faults",
        about: "1,000 cases of injected faults, on one host and over 8 nodes",
        cargo: &["xtask faults --cases 1000", "xtask faults --cases 1000 --nodes 8"],
    },
    SoakPart {
        name: "fuzz",
        about: "each fuzzer for ten minutes, from new seeds",
        cargo: &["xtask fuzz --seconds 600"],
    },
    SoakPart {
        name: "mutants",
        about: "300 mutants of items of the specifications",
        cargo: &["xtask mutants --count 300"],
    },
    SoakPart {
        name: "flaky",
        about: "suites that depend on time, 20 times on busy processors",
        cargo: &["xtask flaky"],
    },
    SoakPart { name: "peers", about: "statements about other launchers", cargo: &["xtask peers"] },
    SoakPart { name: "dist", about: "archives and packages of a release", cargo: &["xtask dist"] },
    SoakPart {
        name: "boards",
        about: "libraries for boards that the gate has no image for, and the image for an RP2040",
        cargo: &["xtask boards"],
    },
    SoakPart {
        name: "hardware",
        about: "the static program on emulated machines with sockets and memory domains",
        cargo: &["xtask hardware --static"],
    },
    SoakPart {
        name: "targets",
        about: "guests of every architecture, the core on an s390x, the client of pmi-std for hermit",
        cargo: &["xtask bare-metal", "xtask test big-endian hermit"],
    },
];

const USAGE: &str = "cargo xtask soak [--list] [PART...]";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let (parts, does_list) = parse(arguments)?;
    if does_list {
        for part in parts {
            println!("{:<8} {}", part.name, part.about);
            part.cargo.iter().for_each(|words| println!("         cargo {words}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut total = Tally::default();
    let mut failed = Vec::new();
    for SoakPart { name, about, cargo } in parts {
        let run = || {
            for words in *cargo {
                let mut cargo = process::cargo();
                let tally = Tally::of(process::succeeds(cargo.args(words.split(' '))));
                if tally.failed > 0 {
                    failed.push(format!("failed: cargo {words}"));
                }
                total += tally;
            }
        };
        let ((), PartTime { seconds, .. }) = part::run(format_args!("{name}: {about}"), run);
        println!("-- {name} ({seconds:.0} s)");
    }
    failed.iter().for_each(|line| println!("{line}"));
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The parts named, in the order of the table, or all; and whether to list them only.
fn parse(arguments: &[String]) -> Result<(Vec<&'static SoakPart>, bool), String> {
    let (mut names, mut does_list) = (Vec::new(), false);
    args::read(arguments, USAGE, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("list") => does_list = true,
                Value(name) => names.push(name.string()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        return Err(format!("no part {unknown:?}; see `cargo xtask soak --list`"));
    }
    let is_meant =
        |part: &&SoakPart| names.is_empty() || names.iter().any(|name| name == part.name);
    Ok((PARTS.iter().filter(is_meant).collect(), does_list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Result<Vec<&'static str>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).map(|(parts, _)| parts.iter().map(|part| part.name).collect())
    }

    #[test]
    fn parts_are_selected_by_name_in_the_order_of_the_table() {
        assert_eq!(names("").unwrap().len(), PARTS.len());
        assert_eq!(names("flaky jobs --list").unwrap(), ["jobs", "flaky"]);
        assert!(names("typo").is_err_and(|why| why.contains("typo")));
    }

    #[test]
    fn workflow_of_the_night_has_every_part() {
        let file = process::root().join(".github/workflows/soak.yml");
        let text = std::fs::read_to_string(file).unwrap();
        let all: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        assert!(text.contains(&format!("part: [{}]\n", all.join(", "))));
    }
}
