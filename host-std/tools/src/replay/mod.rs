//! `pmi-host replay`: one side of a recorded exchange, played again.
//!
//! Without a program, all clients of the record are played against the server of this program, which shows
//! in which answers it differs from the recorded server. With a program, the recorded server is played
//! against it, which shows in which requests the program differs from the recorded one.

mod client_replay;
mod initial_state;
mod pmix_record;
mod pmix_replay;
mod record;
mod server_replay;

use crate::trace::{first_line, load};
use clap::{Arg, Command, value_parser};
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Defines the command and its arguments.
pub fn define() -> Command {
    Command::new("replay")
        .about("Replay one side of a recorded exchange against a program or this server")
        .arg(
            Arg::new(TIMEOUT)
                .long(TIMEOUT)
                .value_name("SECS")
                .value_parser(value_parser!(u64).range(1..=86_400))
                .default_value("30")
                .help("time after which a program without messages is terminated"),
        )
        .arg(
            Arg::new(FILE).value_parser(value_parser!(PathBuf)).required(true).help(
                "a trace, JSON lines of one, or a log of Hydra or Flux; '-' is standard input",
            ),
        )
        .arg(
            Arg::new(PROGRAM)
                .value_parser(value_parser!(OsString))
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .help(
                    "program to start once for each recorded rank; without it, this server is \
                      checked",
                ),
        )
}

/// Runs the command. The exit code is 0 if all went as recorded, and 1 if not.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let mut command = define().no_binary_name(true).bin_name("pmi-host replay");
    let matches = match command.try_get_matches_from_mut(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(error) => return refuse(&first_line(&error.to_string())),
    };
    let file = matches.get_one::<PathBuf>(FILE).expect("clap has required it");
    let timeout = *matches.get_one::<u64>(TIMEOUT).expect("it has a default");
    let words: Vec<OsString> = matches.get_many(PROGRAM).into_iter().flatten().cloned().collect();
    let trace = match load(file) {
        Ok(trace) => trace,
        Err(why) => return complain(&why, FAILED),
    };
    let outcome = match words.split_first() {
        None => client_replay::replay(&trace),
        Some((name, args)) => {
            server_replay::replay(&trace, name, args, Duration::from_secs(timeout))
        }
    };
    match outcome {
        Ok(ReplayReport { text, code }) => {
            print(&text);
            ExitCode::from(code)
        }
        Err(why) => complain(&why, FAILED),
    }
}

/// Result of a replay.
#[derive(Debug)]
struct ReplayReport {
    /// Report for the user: the first deviation, or that there is none.
    text: String,
    code: u8,
}

const TIMEOUT: &str = "timeout";
const FILE: &str = "FILE";
const PROGRAM: &str = "PROGRAM";
