//! `pmi-host trace`: views of a trace, by any recorder.

use crate::import::{self, Imported};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use pmi_host_base::exit::{FAILED, complain, line, print, print_bytes, refuse};
use pmi_host_base::user_file::{self, Readers};
use pmi_trace::view::{chrome, diff, stats, svg, text};
use pmi_trace::{Trace, file, json};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Command line of `trace`.
pub fn define() -> Command {
    let file =
        || Arg::new(FILE).value_parser(value_parser!(PathBuf)).required(true).help(FILE_HELP);
    let ranks = || {
        Arg::new(RANKS)
            .long("rank")
            .value_name("RANKS")
            .value_delimiter(',')
            .value_parser(ranks)
            .action(ArgAction::Append)
            .help("only these ranks, as in '0,4-7'")
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("trace")
        .about("Show, count, compare and export messages that any launcher recorded")
        .subcommand_required(true)
        .subcommand(
            Command::new("show")
                .about("Print the messages, one line each")
                .arg(ranks())
                .arg(flag(RAW, "print messages in their wire form"))
                .arg(flag(LONG, "print values in full length"))
                .arg(file()),
        )
        .subcommand(
            Command::new("stats")
                .about("Count messages and bytes, and measure the time to each reply")
                .arg(file()),
        )
        .subcommand(
            Command::new("diff")
                .about(
                    "Find the first relevant difference between two runs; the exit code is \
                       then 1",
                )
                .arg(flag(VALUES, "compare the values of keys too"))
                .arg(file())
                .arg(
                    Arg::new(OTHER)
                        .value_parser(value_parser!(PathBuf))
                        .required(true)
                        .help(FILE_HELP),
                ),
        )
        .subcommand(
            Command::new("export")
                .about("Convert a trace to another format")
                .arg(
                    Arg::new(FORMAT)
                        .long(FORMAT)
                        .value_parser(PossibleValuesParser::new(FORMATS))
                        .required(true)
                        .help("format: text, JSON lines, trace, Chrome and Perfetto, or picture"),
                )
                .arg(
                    Arg::new(OUTPUT)
                        .long(OUTPUT)
                        .short('o')
                        .value_name("FILE")
                        .value_parser(value_parser!(PathBuf))
                        .help("output file; standard output by default"),
                )
                .arg(ranks().help("only these ranks, as in '0,4-7', in text and picture"))
                .arg(file()),
        )
}

/// Runs the command line `words`.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let mut command = define().no_binary_name(true).bin_name("pmi-host trace");
    let matches = match command.try_get_matches_from_mut(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(error) => return refuse(&first_line(&error.to_string())),
    };
    let (name, matches) = matches.subcommand().expect("clap has required it");
    match perform(name, matches) {
        Ok(code) => code,
        Err(what) => complain(&what, FAILED),
    }
}

fn perform(name: &str, matches: &ArgMatches) -> Result<ExitCode, String> {
    let read = |name| load(matches.get_one::<PathBuf>(name).expect("clap has required it"));
    let trace = read(FILE)?;
    let ranks: Vec<u32> = matches
        .try_get_many::<Vec<u32>>(RANKS)
        .ok()
        .flatten()
        .into_iter()
        .flatten()
        .flatten()
        .copied()
        .collect();
    Ok(match name {
        "show" => {
            let (is_raw, is_long) = (matches.get_flag(RAW), matches.get_flag(LONG));
            print(&text::write(&trace, &text::TextOptions { ranks, is_raw, is_long }))
        }
        "stats" => print(&stats::write(&trace)),
        "diff" => {
            let options = diff::DiffOptions { values: matches.get_flag(VALUES) };
            match diff::diff(&trace, &read(OTHER)?, options) {
                Some(difference) => {
                    print(&format!("{difference}\n"));
                    ExitCode::from(FAILED)
                }
                None => {
                    print(match options.values {
                        true => "no difference\n",
                        false => "no difference, values of keys aside (--values compares them)\n",
                    });
                    ExitCode::SUCCESS
                }
            }
        }
        _ => {
            let format = matches.get_one::<String>(FORMAT).expect("clap has required it");
            let bytes = export(&trace, format, ranks);
            match matches.get_one::<PathBuf>(OUTPUT) {
                Some(path) => user_file::write(path, &bytes, Readers::Usual)
                    .map_err(|error| format!("'{}' cannot be written ({error})", path.display()))?,
                None => return Ok(print_bytes(&bytes)),
            }
            ExitCode::SUCCESS
        }
    })
}

fn export(trace: &Trace, format: &str, ranks: Vec<u32>) -> Vec<u8> {
    match format {
        "text" => text::write(trace, &text::TextOptions { ranks, ..text::TextOptions::default() })
            .into_bytes(),
        "json" => json::write(trace).into_bytes(),
        "chrome" => chrome::write(trace).into_bytes(),
        "svg" => svg::write(trace, &svg::SvgOptions { ranks }).into_bytes(),
        _ => file::write(trace),
    }
}

/// Reads a trace of any form; remarks on it for the user go to standard error.
///
/// # Errors
///
/// A message for the user.
pub(crate) fn load(path: &Path) -> Result<Trace, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().read_to_end(&mut bytes).map(drop),
        false => user_file::read(path).map(|all| bytes = all),
    };
    read.map_err(|error| format!("'{shown}' cannot be read ({error})"))?;
    let Imported { trace, notes, .. } =
        import::read(&bytes).map_err(|error| format!("'{shown}' cannot be shown: {error}"))?;
    for note in notes {
        let _ = io::stderr().write_all(line(format_args!("'{shown}': {note}")).as_bytes());
    }
    Ok(trace)
}

/// One rank, or a range of them.
fn ranks(text: &str) -> Result<Vec<u32>, String> {
    let parse = |text: &str| text.parse::<u32>().map_err(|_| format!("'{text}' is not a rank"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (parse(first)?, parse(last)?);
    if last.saturating_sub(first) >= RANGE_MAX {
        return Err(format!("'{text}' names more ranks than there can be"));
    }
    Ok((first..=last).collect())
}

/// Error messages of clap have several lines with colons; the first one names the error.
pub(crate) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

const FILE: &str = "FILE";
const OTHER: &str = "OTHER";
const FILE_HELP: &str =
    "a trace, JSON lines of one, or a log of Hydra or Flux; '-' is standard input";
const RANKS: &str = "ranks";
const RAW: &str = "raw";
const LONG: &str = "long";
const VALUES: &str = "values";
const FORMAT: &str = "format";
const OUTPUT: &str = "output";
const FORMATS: [&str; 5] = ["text", "json", "trace", "chrome", "svg"];

/// More ranks than any job has.
const RANGE_MAX: u32 = 1 << 20;
