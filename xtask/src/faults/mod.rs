//! `cargo xtask faults`: faults injected into runs of `pmi-host` and of other launchers, by seed.
//!
//! A case is a fault, a phase and a number of ranks, with parameters drawn from a seed. The list of cases of
//! a seed is the same everywhere. Each case is played by a process of its own, which starts the launcher with
//! ranks that do what it orders (`rank.c`), brings the run into the phase, lets the fault happen, lets the
//! survivors go on, and looks at what is left:
//!
//! * **hang**: the launcher runs and there was no event for 10 s. An event is a report of a rank, output, an
//!   end of a rank, or what is done to the run from outside;
//! * **orphan**: a process of the run is alive 2 s after the launcher has ended, 10 s if it or its guard was
//!   killed; [`detect`] says which processes belong to the run;
//! * **wrong exit code**: another one than [`table::expected_code`] says;
//! * **lost data**: a line that a rank had written before the fault did not come out, or was torn;
//! * **foreign process killed**: one that the launcher had not started;
//! * **file left**: anything in the directories for temporary files and for shared memory, which the
//!   processes of a case have for themselves where root plays it ([`hosts`]);
//! * **key shown**: a piece of the key of a run over hosts, in any output.

mod case;
mod control;
mod detect;
mod hosts;
mod inject;
mod launcher;
mod outcome;
mod output;
mod play;
mod pool;
mod report;
mod table;

use crate::args;
use crate::toolchain;
use case::{Selection, list};
use launcher::Launcher;
use lexopt::prelude::*;
use pool::{PoolState, Settings};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, thread};
use table::{FAULTS, HOST_FAULTS, NODE_FAULTS, PHASES, SIZES, name, named};

/// The command line, parsed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    selection: Selection,
    /// Command lines of other launchers.
    against: Vec<String>,
    /// Only they take part.
    is_without_ours: bool,
    /// Our launcher, already built.
    ours: Option<String>,
    resume: Option<PathBuf>,
    jobs: Option<usize>,
    time: Option<Duration>,
    does_list: bool,
    /// State files that are made into one report; nothing is run.
    report: Vec<PathBuf>,
    writes: bool,
}

const USAGE: &str = "usage: cargo xtask faults [OPTION...]

  --seed N           the seed of the list of cases (1)
  --cases N          number of cases (every combination of fault, phase and size once)
  --size N           a number of ranks, at least 2; may be repeated (2, 16, 128)
  --nodes N          over node servers on this machine, with the faults of nodes; pmi-host only
  --hosts N          the same over hosts in network and mount name spaces, with the faults of starts; for root
  --fault NAME       only this fault; may be repeated
  --phase NAME       only this phase; may be repeated
  --against COMMAND  another launcher beside pmi-host; may be repeated
  --only-against     without pmi-host
  --launcher PATH    pmi-host that is built already
  --jobs N           cases at a time (as many as cores)
  --seconds N        begin no case after this time
  --resume FILE      continue with this state file; it contains the other options about cases
  --list             print faults, phases and cases, and run nothing
  --report FILE      print the tables of this state file, and run nothing; may be repeated
  --write            put the tables into docs/reliability.md";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    if arguments == [pool::PLAY] {
        return pool::play_one().map(|()| ExitCode::SUCCESS);
    }
    if arguments.iter().any(|word| word == "--help") {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let wish = parse(arguments)?;
    if wish.does_list {
        print_list(&wish.selection);
        return Ok(ExitCode::SUCCESS);
    }
    if !wish.report.is_empty() {
        let states: Result<Vec<_>, _> =
            wish.report.iter().map(|path| PoolState::read(path)).collect();
        let states = states?;
        println!("{}", report::render(&states));
        if wish.writes {
            report::write(&states)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (state, ours) = run(&wish)?;
    let states = std::slice::from_ref(&state);
    println!("\n{}", report::render(states));
    if wish.writes {
        report::write(states)?;
    }
    let bad = ours.map_or(0, |label| report::bad(&state, &label));
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the cases; gives the outcomes and the label of our launcher.
fn run(wish: &Wish) -> Result<(PoolState, Option<String>), String> {
    let mut launchers = Vec::new();
    if !wish.is_without_ours {
        launchers.push(Launcher::ours(wish.ours.as_deref(), &wish.selection)?);
    }
    let ours = launchers.first().map(|launcher| launcher.label.clone());
    for line in &wish.against {
        launchers.push(Launcher::peer(line)?);
    }
    let labels: Vec<_> = launchers.iter().map(|launcher| launcher.label.clone()).collect();
    let fresh = PoolState { selection: wish.selection.clone(), labels, ..PoolState::default() };
    let (mut state, file) = match &wish.resume {
        Some(path) if path.exists() => (PoolState::read(path)?, path.clone()),
        Some(path) => (fresh, path.clone()),
        None => (fresh, state_file(&wish.selection)?),
    };
    for launcher in &launchers {
        if !state.labels.contains(&launcher.label) {
            state.labels.push(launcher.label.clone());
        }
    }
    println!("state file: {}", file.display());
    let jobs = wish.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    pool::run(&mut state, &launchers, &Settings { jobs, time: wish.time, file })?;
    Ok((state, ours))
}

fn state_file(selection: &Selection) -> Result<PathBuf, String> {
    let directory = toolchain::target_directory().join("faults");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let nodes = match (selection.nodes, selection.has_hosts) {
        (0, _) => String::new(),
        (nodes, false) => format!("-nodes-{nodes}"),
        (nodes, true) => format!("-hosts-{nodes}"),
    };
    Ok(directory.join(format!("seed-{}{nodes}.jsonl", selection.seed)))
}

/// The step of `cargo xtask test`: some cases with our launcher, which is built already, on one node and over
/// several.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let ours = toolchain::target_directory().join("release/pmi-host");
    let of = |nodes, cases, seconds| Wish {
        selection: Selection {
            seed: 1,
            cases: Some(cases),
            sizes: vec![2, 5],
            nodes,
            ..Selection::default()
        },
        ours: Some(ours.to_string_lossy().into_owned()),
        resume: None,
        time: Some(Duration::from_secs(seconds)),
        ..Wish::default()
    };
    let mut bad = Vec::new();
    for wish in [of(0, 80, 45), of(3, 40, 30)] {
        let (state, _) = run(&wish)?;
        println!("{} cases", state.done.len());
        for ((label, _), (case, outcome)) in
            state.done.iter().filter(|(_, (_, outcome))| !outcome.is_good())
        {
            let (id, fault, phase, ranks) =
                (case.id, name(case.fault), name(case.phase), case.ranks);
            let what = outcome.describe(case);
            bad.push(format!("{label}: case {id} ({fault} {phase}, {ranks} ranks): {what}"));
        }
    }
    Ok(bad)
}

fn print_list(selection: &Selection) {
    println!("faults:\n");
    for (fault, about) in FAULTS.iter().chain(NODE_FAULTS).chain(HOST_FAULTS) {
        println!("  {:<21} {about}", name(fault));
    }
    println!("\nphases:\n");
    for (phase, about) in PHASES {
        println!("  {:<21} {about}", name(phase));
    }
    println!("\ncases of seed {}:\n", selection.seed);
    for case in list(selection) {
        println!("  {} -> {}", serde_json::json!(case), case.expected());
    }
}

fn parse(arguments: &[String]) -> Result<Wish, String> {
    let (mut hosts, mut nodes): (Option<u32>, Option<u32>) = (None, None);
    let mut wish = Wish::default();
    wish.selection.seed = 1;
    args::read(arguments, "cargo xtask faults --help", |parser| {
        let selection = &mut wish.selection;
        while let Some(arg) = parser.next()? {
            match arg {
                Long("seed") => selection.seed = parser.value()?.parse()?,
                Long("cases") => selection.cases = Some(parser.value()?.parse()?),
                Long("size") => selection.sizes.push(parser.value()?.parse()?),
                Long("nodes") => nodes = Some(parser.value()?.parse()?),
                Long("hosts") => hosts = Some(parser.value()?.parse()?),
                Long("fault") => selection.faults.push(parser.value()?.parse_with(of_list)?),
                Long("phase") => selection.phases.push(parser.value()?.parse_with(of_list)?),
                Long("against") => wish.against.push(parser.value()?.string()?),
                Long("only-against") => wish.is_without_ours = true,
                Long("launcher") => wish.ours = Some(parser.value()?.string()?),
                Long("jobs") => wish.jobs = Some(parser.value()?.parse()?),
                Long("seconds") => {
                    wish.time = Some(parser.value()?.parse().map(Duration::from_secs)?)
                }
                Long("resume") => wish.resume = Some(parser.value()?.into()),
                Long("list") => wish.does_list = true,
                Long("report") => wish.report.push(parser.value()?.into()),
                Long("write") => wish.writes = true,
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    wish.selection.nodes = hosts.or(nodes).unwrap_or(0);
    wish.selection.has_hosts = hosts.is_some();
    if wish.selection.sizes.is_empty() {
        wish.selection.sizes = SIZES.to_vec();
    }
    if wish.selection.sizes.iter().any(|size| *size < 2) {
        return Err("a case needs two ranks".into());
    }
    if wish.selection.nodes > 0 && !wish.against.is_empty() {
        return Err("--nodes and --hosts are for pmi-host alone".into());
    }
    if nodes.is_some() && hosts.is_some() {
        return Err("--hosts says the number of nodes".into());
    }
    if hosts.is_some_and(|hosts| !(1..=200).contains(&hosts)) {
        return Err("--hosts needs a number from 1 to 200".into());
    }
    if hosts.is_some() && !rustix::process::geteuid().is_root() {
        return Err("--hosts makes name spaces, which only root may".into());
    }
    if wish.is_without_ours && wish.against.is_empty() {
        return Err("--only-against needs an --against".into());
    }
    Ok(wish)
}

/// The fault or phase of this name.
fn of_list<T: DeserializeOwned>(name: &str) -> Result<T, &'static str> {
    named(name).ok_or("--list prints all")
}

#[cfg(test)]
mod tests {
    use super::table::Fault;
    use super::*;

    fn words(line: &str) -> Result<Wish, String> {
        parse(
            &line.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn command_line_is_read() {
        let wish = words("--seed_7_--cases_20_--size_2_--size_16_--fault_exit_--against_hydra -x")
            .unwrap();
        let selection = Selection {
            seed: 7,
            cases: Some(20),
            sizes: vec![2, 16],
            nodes: 0,
            has_hosts: false,
            faults: vec![Fault::Exit],
            phases: vec![],
        };
        assert_eq!((wish.selection, wish.against), (selection, vec!["hydra -x".to_owned()]));
        assert_eq!(words("").unwrap().selection.sizes, SIZES);
        assert_eq!(words("--nodes_3").unwrap().selection.nodes, 3);
    }

    #[test]
    fn senseless_arguments_are_rejected() {
        for line in [
            "--nodes_3_--against_x",
            "--nodes_3_--hosts_3",
            "--hosts_0",
            "--seed",
            "--seed_x",
            "--size_1",
            "--fault_none",
            "--only-against",
            "--typo",
        ] {
            assert!(words(line).is_err(), "{line}");
        }
    }
}
