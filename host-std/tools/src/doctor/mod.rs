//! `pmi-host doctor`: the environment of a rank under any launcher, and a check of it.
//!
//! ```text
//! rank_environment  variables, by launcher; the descriptor; the processes above
//! session           a real PMI session: init, a card of each rank, fence, mapping, finalize
//! limits            limits of the system
//! advice            problems in all that, and their fixes: rules without system calls
//! ```
//!
//! It is started in the place of a program, `mpiexec -n 4 pmi-host doctor ./a.out`. If the ranks can talk,
//! rank 0 prints for all; if not, each prints for itself.

pub(crate) mod advice;
pub(crate) mod limits;
pub(crate) mod rank_environment;
pub(crate) mod session;

use advice::{Advice, Facts};
use clap::{Arg, Command};
use pmi_host_base::exit::{print, refuse};
use pmi_host_base::host_name;
use pmi_host_base::library::Libraries;
use pmi_host_base::program::Program;
use pmi_host_base::ranges::Ranks;
use pmi_host_base::usage::UsageError;
use rank_environment::RankEnvironment;
use session::{DoctorCard, SessionFacts, SessionResult};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Defines the command and its arguments.
pub fn define() -> Command {
    Command::new("doctor")
        .about("Check what ranks find under any launcher, and report problems")
        .arg(
            Arg::new(PROGRAM)
                .value_parser(clap::value_parser!(OsString))
                .value_hint(clap::ValueHint::CommandName)
                .help("a program to check for the MPI library that it links"),
        )
}

/// Examines this process and its surroundings, prints what it finds, and gives the exit code: 1 if
/// something is wrong.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match define().no_binary_name(true).try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(_) => {
            let why = "at most one program can be specified".to_owned();
            return refuse(&UsageError::Value { given: "doctor".to_owned(), why });
        }
    };
    let environment = RankEnvironment::of_this_process();
    let program = matches.get_one::<OsString>(PROGRAM).map(|name| {
        let path = Program::find(name, None, None).unwrap_or_else(|_| PathBuf::from(name));
        let libraries = Libraries::of(&path);
        advice::CheckedProgram {
            name: name.to_string_lossy().into_owned(),
            exists: path.is_file(),
            libraries,
        }
    });
    let mut facts =
        Facts { environment, program, limits: limits::read(), outcome: SessionResult::Singleton };
    // Problems that are known before the session go to the other ranks on the card.
    let card = DoctorCard::new(advice::before_session(&facts).first());
    facts.outcome = session::session(&card);
    let all = advice::of(&facts);
    let is_well = !all.iter().any(|one| one.is_problem)
        && facts.outcome.cards().all(|card| card.problem.is_none());
    // If the session succeeds, rank 0 prints for all. A launcher ends the job when one rank fails, so no
    // other rank may fail before rank 0 has printed.
    if !facts.outcome.reports_itself() {
        return ExitCode::SUCCESS;
    }
    print(&report(&facts, &all));
    ExitCode::from(u8::from(!is_well))
}

fn report(facts: &Facts, all: &[Advice]) -> String {
    let mut text = headline(facts);
    let mut line = |name: &str, what: &str| text.push_str(&format!("  {name:<11} {what}\n"));
    line("variables", &facts.environment.shown());
    if let Some(descriptor) = &facts.environment.descriptor {
        line("descriptor", &descriptor.to_string());
    }
    line("protocol", &facts.outcome.to_string());
    if let SessionResult::SessionFacts(SessionFacts { mapping, size, .. }) = &facts.outcome {
        line("mapping", &session::mapping(mapping.as_deref(), *size));
    }
    if let Some(program) = &facts.program {
        line("program", &program.to_string());
    }
    for (name, what) in facts.limits.shown() {
        line(name, &what);
    }
    for advice in all {
        let kind = if advice.is_problem { "wrong" } else { "note" };
        text.push_str(&format!("{kind}: {}\n", advice.text));
    }
    text.push_str(&others(facts, all));
    text
}

fn headline(facts: &Facts) -> String {
    let pid = std::process::id();
    let host = host_name::own();
    let by = match &facts.environment.parents[..] {
        [] => String::new(),
        parents => format!(", started by {}", parents.join(" below ")),
    };
    match &facts.outcome {
        SessionResult::SessionFacts(SessionFacts { rank, size, .. }) => {
            format!("rank {rank} of {size} on {host} (pid {pid}){by}\n")
        }
        _ => match facts.environment.place() {
            Some((rank, size, _)) => {
                format!("task {rank} of {size} on {host} (pid {pid}){by}\n")
            }
            None => format!("process {pid} on {host}{by}\n"),
        },
    }
}

/// Report on the other ranks from their cards; ranks with the same problem share a line.
fn others(facts: &Facts, all: &[Advice]) -> String {
    let is_well = !all.iter().any(|advice| advice.is_problem);
    let mut by_problem: BTreeMap<Option<&str>, Ranks> = BTreeMap::new();
    let mut hosts: BTreeMap<&str, Ranks> = BTreeMap::new();
    for (rank, card) in (0..).zip(facts.outcome.cards()) {
        by_problem.entry(card.problem.as_deref()).or_default().push(rank);
        hosts.entry(&card.host).or_default().push(rank);
    }
    let mut text = String::new();
    for (host, ranks) in &hosts {
        text.push_str(&format!("{} on {host}\n", ranks.named()));
    }
    for (problem, ranks) in &by_problem {
        match problem {
            Some(problem) => text.push_str(&format!("wrong on {}: {problem}\n", ranks.named())),
            None => text.push_str(&format!("nothing is wrong on {}\n", ranks.named())),
        }
    }
    if by_problem.is_empty() && is_well {
        text.push_str("nothing is wrong\n");
    }
    text
}

/// Name of the argument with the program.
pub const PROGRAM: &str = "PROGRAM";
