//! The command: maps results to exit codes and does nothing else.

use pmi_host::cli::args::{self, Command};
use pmi_host::cli::{config::Config, help};
use pmi_host::server::gate;
use pmi_host::{conform, demo, job, report};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Command::Run(args)) => match Config::resolve(args) {
            Ok(config) => ExitCode::from(job::run(config)),
            Err(error) => complain(&error, error.exit_code()),
        },
        Ok(Command::DemoRank) => match demo::run_rank(&mut std::io::stdout()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(&error, FAILED),
        },
        Ok(Command::Conform(words)) => conform::run(words),
        Ok(Command::ConformRank(words)) => conform::run_rank(words),
        Ok(Command::Identity { secret_file, rank }) => match gate::read_secret(&secret_file) {
            Ok(secret) => print(&format!("{}\n", gate::identity(&secret, rank))),
            Err(error) => complain(&error, FAILED),
        },
        Ok(Command::Help) => print(&help::text()),
        Ok(Command::Version) => print(&help::version()),
        Err(error) => {
            complain(&format_args!("{error}; 'pmi-host help' lists what there is"), USAGE)
        }
    }
}

/// Whoever reads help into `head` has got what they wanted: a closed pipe is no failure.
fn print(text: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn complain(what: &dyn std::fmt::Display, code: u8) -> ExitCode {
    let _ = std::io::stderr().write_all(report::line(what).as_bytes());
    ExitCode::from(code)
}

/// Something is wrong here, and the command line is not.
const FAILED: u8 = 1;

/// Wrong usage, as most programs have it.
const USAGE: u8 = 2;
