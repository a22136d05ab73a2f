//! `pmi-sim run | sweep | shrink | replay | scale | hashes | tree`: parsed here, done by the library.

mod args;
mod cursor;
mod tree;

use self::args::{SimArgs, USAGE};
use pmi_sim::link::{RunLink, ScenarioSource};
use pmi_sim::mutant::MutantKind;
use pmi_sim::scale::{SESSION_BYTES, scale};
use pmi_sim::scenario::AS_PMIX;
use pmi_sim::shrink::shrink;
use pmi_sim::sweep::{self, BrokenRun, Case, sweep};
use pmi_sim::{Options, Scenario, World, random, shipped, trace};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::{fs, io, panic};

/// Executes the command line. The exit code is 0 if every rule held, and 1 otherwise.
pub(crate) fn run() -> ExitCode {
    let done = args::parse(lexopt::Parser::from_env()).and_then(|args| act(&args));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("pmi-sim: {what}");
            ExitCode::from(2)
        }
    }
}

/// True if every rule held.
fn act(args: &SimArgs) -> Result<bool, String> {
    let name = args.names.first().map_or("", String::as_str);
    match args.command.as_str() {
        "list" => {
            let mut list = String::new();
            for (name, text) in shipped::SHIPPED {
                let scenario: Scenario =
                    text.parse().map_err(|error| format!("{name}: {error}"))?;
                let about = scenario.about.first().map_or("", String::as_str);
                let _ = writeln!(list, "{name:22} {about}");
            }
            show(&list)
        }
        "show" => show(&scenario(name, args.seed.unwrap_or(0))?.to_string()),
        "run" => run_one(name, args),
        "sweep" => run_many(args),
        "shrink" => make_small(name, args),
        "replay" => run_again(name),
        "scale" => measure(args.ranks, args.seed.unwrap_or(0)),
        "tree" => tree::act(name, args),
        "hashes" => {
            let lines = sweep::hashes(&cases(&args.names)?, args.from, args.seeds.unwrap_or(3));
            show(&lines.map_err(|error| error.to_string())?)
        }
        _ => show(USAGE),
    }
}

fn run_one(name: &str, args: &SimArgs) -> Result<bool, String> {
    let scenario = scenario(name, args.seed.unwrap_or(0))?;
    let seed = args.seed.or(scenario.seed).unwrap_or(0);
    let options = Options { mutant: args.mutant, ..Options::default() };
    let mut world = World::with(&scenario, seed, options).map_err(|error| error.to_string())?;
    world.run(u64::MAX);
    if let Some(file) = &args.trace {
        write(file, &trace::write(&world))?;
    }
    for violation in world.violations() {
        eprintln!("at {}: {}: {}", violation.at, violation.rule, violation.what);
    }
    let finished = world.checks().census().all().filter(|(_, facts)| facts.is_finished).count();
    eprintln!(
        "{} with seed {seed}: {} steps in {} microseconds of its time, {finished} of {} ranks \
         finished, {} reports, {} rules broken.",
        scenario.name,
        world.steps(),
        world.time(),
        scenario.ranks,
        world.checks().reported().count(),
        world.violations().len()
    );
    Ok(world.violations().is_empty())
}

fn run_many(args: &SimArgs) -> Result<bool, String> {
    let SimArgs { from, mutant, .. } = *args;
    let (cases, seeds) = (cases(&args.names)?, args.seeds.unwrap_or(200));
    name_panics();
    let summary = sweep(&cases, from, seeds, mutant);
    for BrokenRun { scenario, seed, rule, what } in summary.broken.iter().take(SHOWN_MAX) {
        println!("{} with seed {seed}: {rule}: {what}", scenario.name);
    }
    if summary.broken.len() > SHOWN_MAX {
        println!("and {} more", summary.broken.len() - SHOWN_MAX);
    }
    if let Some(BrokenRun { scenario, seed, .. }) = summary.broken.first() {
        let name = if scenario.name.starts_with("random-") { "random" } else { &scenario.name };
        println!("to reduce it: pmi-sim shrink {name} --seed {seed}");
        println!("{}", to_look_at(&link(scenario, *seed), mutant));
    }
    println!(
        "{} scenarios with {seeds} seeds each from {from}: {} runs, {} steps, {} broken.",
        cases.len(),
        summary.runs,
        summary.steps,
        summary.broken.len()
    );
    Ok(summary.broken.is_empty())
}

fn make_small(name: &str, args: &SimArgs) -> Result<bool, String> {
    let (seed, mutant) = (args.seed.unwrap_or(0), args.mutant);
    let scenario = scenario(name, seed)?;
    let (Some(broken), _) = sweep::run(&scenario, seed, mutant) else {
        println!("{} with seed {seed} breaks no rule.", scenario.name);
        return Ok(true);
    };
    let small = shrink(&broken, mutant);
    let BrokenRun { scenario, seed, rule, what } = small.broken;
    let text = format!("# {rule}: {what}\n# reduced from a larger scenario\n{scenario}");
    write(args.out.as_deref().unwrap_or("-"), &text)?;
    eprintln!(
        "after {} tries: {} ranks, {} steps, seed {seed}, and still {rule}: {what}",
        small.tried,
        scenario.ranks,
        scenario.scripts.iter().map(|script| script.steps.len()).sum::<usize>()
    );
    eprintln!("{}", to_look_at(&RunLink::to(&scenario, seed), mutant));
    Ok(false)
}

fn run_again(file: &str) -> Result<bool, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let trace = trace::read(&text).map_err(|error| format!("{file}: {error}"))?;
    match trace::replay(&trace).map_err(|error| error.to_string())? {
        None => println!("{} events of {} were repeated.", trace.lines.len(), trace.scenario.name),
        Some(difference) => {
            println!("{difference}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn measure(ranks: u32, seed: u64) -> Result<bool, String> {
    let cost = scale(ranks, seed).map_err(|error| error.to_string())?;
    let per_rank = |what: u64| what / u64::from(ranks.max(1));
    println!("ranks            {}", cost.ranks);
    println!("steps            {} ({} for each rank)", cost.steps, per_rank(cost.steps));
    println!("messages         {} ({} for each rank)", cost.messages, per_rank(cost.messages));
    println!("bytes            {} ({} for each rank)", cost.bytes, per_rank(cost.bytes));
    println!(
        "server memory    {} bytes ({} for each rank, {SESSION_BYTES} of them its session)",
        cost.server_bytes,
        per_rank(cost.server_bytes)
    );
    println!(
        "client memory    {} bytes ({} for each rank)",
        cost.client_bytes,
        per_rank(cost.client_bytes)
    );
    println!("One fence of {ranks} ranks took {} messages.", cost.messages);
    Ok(true)
}

/// The scenarios named; all when none is.
fn cases(names: &[String]) -> Result<Vec<Case>, String> {
    let named = |name: &String| match name.as_str() {
        "random" => Ok(Case::Random),
        _ => scenario(name, 0).map(|scenario| Case::Fixed(Box::new(scenario))),
    };
    match names.is_empty() {
        true => Case::all().map_err(|(name, error)| format!("{name}: {error}")),
        false => names.iter().map(named).collect(),
    }
}

/// The line with the link to a run. The page plays the unmodified server.
fn to_look_at(link: &RunLink, mutant: Option<MutantKind>) -> String {
    let without = if mutant.is_some() { ", without the mutant" } else { "" };
    format!("to inspect it{without}: {}", link.address())
}

/// A link to a run: by name if the page has the scenario.
fn link(scenario: &Scenario, seed: u64) -> RunLink {
    let shipped = shipped::text(&scenario.name).and_then(|text| text.parse().ok());
    match shipped.as_ref() == Some(scenario) {
        true => RunLink::new(ScenarioSource::Name(scenario.name.clone()), seed),
        false => RunLink::to(scenario, seed),
    }
}

/// A shipped scenario, a random one, or a file.
fn scenario(name: &str, seed: u64) -> Result<Scenario, String> {
    if name == "random" {
        return Ok(random::scenario(seed));
    }
    if let Some(plain) = name.strip_suffix(AS_PMIX) {
        let of_pmi = scenario(plain, seed)?;
        return of_pmi.in_pmix().map_err(|what| format!("{plain} {what}"));
    }
    let read;
    let text = match shipped::text(name) {
        Some(text) => text,
        None => {
            let other =
                |error| format!("`{name}` is neither a built-in scenario nor a file: {error}");
            read = fs::read_to_string(name).map_err(other)?;
            &read
        }
    };
    text.parse().map_err(|error| format!("{name}: {error}"))
}

/// Writes to a file, or to standard output if it is `-`.
fn write(file: &str, text: &str) -> Result<bool, String> {
    match file {
        "-" => show(text),
        file => fs::write(file, text).map(|()| true).map_err(|error| format!("{file}: {error}")),
    }
}

/// A closed output pipe is no failure.
fn show(text: &str) -> Result<bool, String> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(true),
    }
}

/// A panic that terminates the program must still name its run.
fn name_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some((name, seed)) = sweep::running() {
            println!("{name} with seed {seed}: panic: {info}");
        }
        usual(info);
        if cfg!(panic = "abort") {
            std::process::exit(1);
        }
    }));
}

/// More would not be read.
const SHOWN_MAX: usize = 20;
