//! `cargo xtask bench`: `pmi-host` beside Hydra of MPICH 5 and 4, Intel's launcher, both of Open MPI's, and
//! programs that do the least which the task needs.
//!
//! Contestants take turns (A B C A B C …), so that other load of the machine affects all alike;
//! figures are medians, and a ratio is the median of the ratios within one turn. A slow result is
//! no failure: the table shows which target was met.

mod against;
mod capi;
mod init;
mod kvs;
mod launch;
mod memory;
mod nodes;
mod open_mpi;
mod output;
mod oversubscribe;
mod page;
mod plot;
mod pmix;
mod run;
mod spinners;
mod start;
mod stats;
mod tools;

pub(crate) use start::check_simulated;

use crate::args;
use lexopt::prelude::*;
use spinners::Spinners;
use start::{START_USAGE, StartOptions};
use std::fs;
use std::process::ExitCode;
use tools::Tools;

/// One comparison with a table of its own: its name, its subject, and the measurement.
type Section = (&'static str, &'static str, fn(&Tools) -> Result<Comparison, String>);

/// Result of a comparison.
#[derive(Debug, Default)]
struct Comparison {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    targets: Vec<Target>,
    /// Conditions of this comparison, below the table.
    notes: Vec<String>,
    /// Files besides the page, and their texts.
    files: Vec<(&'static str, String)>,
}

/// A promise and whether it was kept.
#[derive(Debug)]
struct Target {
    what: String,
    is_met: bool,
}

const SECTIONS: &[Section] = &[
    ("launch", "start and end of a program that does nothing", launch::measure),
    ("init", "start until all ranks are initialized, and large jobs", init::measure),
    ("kvs", "put, get and fence, per operation", kvs::measure),
    ("pmi2", "the same in PMI-2", kvs::measure_pmi2),
    ("capi", "the whole exchange through libpmi, with values in shared memory", capi::measure),
    ("work", "processor time of the server for puts, gets and fences", memory::measure_work),
    ("memory", "memory of all processes of a launcher", memory::measure),
    ("output", "forwarding the output of ranks", output::measure),
    ("pmix", "PMIx: init, put, fence and get, per operation, beside Open MPI", pmix::measure),
    ("pmix-memory", "peak memory of the PMIx server", pmix::measure_memory),
    (
        "oversubscribe",
        "barrier and allreduce of MPI libraries, more ranks than processors",
        oversubscribe::measure,
    ),
    ("nodes", "eight hosts, beside ssh, Hydra, prterun and srun", nodes::measure),
    ("nodes-64", "64 hosts, beside ssh and Hydra", nodes::measure_many),
    ("start", "costs of the parts of a start, for the simulator", start::measure),
];

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let BenchPlan { sections, write, is_busy, against, is_plot, is_simulated, start } =
        parse(arguments)?;
    if is_plot {
        plot::write_all()?;
    }
    match (is_simulated, start) {
        (true, None) => start::write_simulated()?,
        (true, Some(start)) => print!("{}", start.simulate()?),
        (false, _) => {}
    }
    if is_plot || is_simulated {
        return Ok(ExitCode::SUCCESS);
    }
    let against = against.map(|path| {
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok::<_, String>((path, text))
    });
    let against = against.transpose()?;
    let tools = Tools::prepare(is_busy)?;
    let _spinners = match is_busy {
        true => Some(Spinners::start()?),
        false => None,
    };
    for line in tools.facts() {
        println!("{line}");
    }
    for (name, about, measure) in sections {
        println!("\n== {name}: {about}");
        let table = measure(&tools)?;
        let text = page::render(&table);
        println!("\n{text}");
        let place = if is_busy { format!("{name}-busy") } else { name.to_string() };
        if let Some((path, earlier)) = &against {
            match against::compare(&table, &place, earlier) {
                Some(changes) => println!("Compared with {path}:\n\n{changes}"),
                None => println!("{path} has no table of this section with these columns."),
            }
        }
        if write {
            page::write(&place, &text)?;
            for (path, text) in &table.files {
                println!("writing {path}");
                let written = fs::write(crate::process::root().join(path), text);
                written.map_err(|error| format!("{path}: {error}"))?;
            }
            if *name == "start" {
                start::write_simulated()?;
            }
        }
    }
    if write {
        plot::write_all()?;
    }
    if write && !is_busy {
        page::write("machine", &page::list(&tools.facts()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The parsed command line.
#[derive(Debug, Default)]
struct BenchPlan {
    sections: Vec<&'static Section>,
    /// True if to write the tables into the page.
    write: bool,
    /// True if two processes for each processor spin meanwhile.
    is_busy: bool,
    /// A page with tables of another revision, to compare with.
    against: Option<String>,
    /// True if only to draw the plots of the tables of the page.
    is_plot: bool,
    /// True if only to simulate starts: those of the page, which are written into it, or the one below.
    is_simulated: bool,
    /// A start that is simulated and printed.
    start: Option<StartOptions>,
}

fn parse(arguments: &[String]) -> Result<BenchPlan, String> {
    let usage = format!(
        "cargo xtask bench [--write] [--busy] [--against FILE] [SECTION...], bench --plot or \
         bench --simulate {START_USAGE}"
    );
    let mut plan = BenchPlan::default();
    let mut names = Vec::new();
    args::read(arguments, &usage, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("write") => plan.write = true,
                Long("busy") => plan.is_busy = true,
                Long("against") => plan.against = Some(parser.value()?.string()?),
                Long("plot") => plan.is_plot = true,
                Long("simulate") => plan.is_simulated = true,
                Value(name) => names.push(name.string()?),
                Long(option) => {
                    let option = option.to_owned();
                    if !plan.start.get_or_insert_default().read(&option, parser)? {
                        return Err(Long(&option).unexpected());
                    }
                }
                other @ Short(_) => return Err(other.unexpected()),
            }
        }
        match plan.start {
            Some(_) if !plan.is_simulated => Err("options of a start need --simulate".into()),
            _ => Ok(()),
        }
    })?;
    let known: Vec<_> = SECTIONS.iter().map(|(name, ..)| *name).collect();
    if let Some(other) = names.iter().find(|name| *name != "all" && !known.contains(&name.as_str()))
    {
        return Err(format!("{other:?} is not one of all, {}", known.join(", ")));
    }
    let is_named = |section: &str| names.iter().any(|name| name == section);
    let is_all = names.is_empty() || is_named("all");
    let is_chosen = |(name, ..): &&Section| match is_all {
        true => !plan.is_busy || BUSY.contains(name),
        false => is_named(name),
    };
    plan.sections = SECTIONS.iter().filter(is_chosen).collect();
    Ok(plan)
}

/// Sections with a second table, of a busy machine.
const BUSY: [&str; 3] = ["launch", "init", "kvs"];

impl Comparison {
    fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    /// Adds a row, and prints it with the number of its turns.
    fn add(&mut self, row: Vec<String>, turns: usize) {
        println!("{}  ({turns} turns)", row.join("  "));
        self.rows.push(row);
    }

    /// Notes a promise, kept when `found` is at most `limit`, and gives the words for the table.
    fn judge(&mut self, what: &str, found: f64, limit: f64) -> String {
        let is_met = found <= limit;
        let verdict = if is_met { "met" } else { "missed" };
        self.targets.push(Target { what: format!("{what}: {found:.2}, at most {limit}"), is_met });
        format!("≤ {limit}: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 14] = [
        "launch",
        "init",
        "kvs",
        "pmi2",
        "capi",
        "work",
        "memory",
        "output",
        "pmix",
        "pmix-memory",
        "oversubscribe",
        "nodes",
        "nodes-64",
        "start",
    ];

    fn names(arguments: &[&str]) -> Result<(Vec<&'static str>, bool), String> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let plan = parse(&arguments)?;
        Ok((plan.sections.iter().map(|(name, ..)| *name).collect(), plan.write))
    }

    #[test]
    fn sections_are_chosen_by_name_and_all_when_none_is_named() {
        assert_eq!(names(&[]), Ok((ALL.to_vec(), false)));
        assert_eq!(names(&["all", "--write"]), Ok((ALL.to_vec(), true)));
        assert_eq!(names(&["--write", "memory"]), Ok((vec!["memory"], true)));
        assert_eq!(names(&["--busy"]), Ok((BUSY.to_vec(), false)));
        assert!(names(&["lunch"]).is_err_and(|why| why.contains("launch")));
    }

    #[test]
    fn target_is_met_up_to_its_limit() {
        let mut table = Comparison::default();
        assert_eq!(table.judge("a", 0.8, 0.8), "≤ 0.8: met");
        assert_eq!(table.judge("b", 0.81, 0.8), "≤ 0.8: missed");
        assert_eq!(table.targets.iter().filter(|target| target.is_met).count(), 1);
    }
}
