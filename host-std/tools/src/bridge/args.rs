//! `pmi-host bridge --serial DEVICE|pty [--baud N] --to ADDR:PORT`

use clap::{Arg, Command, value_parser};
use pmi_host_base::usage::UsageError;
use std::ffi::OsString;

/// Arguments of the command line.
#[derive(Debug)]
pub(super) struct BridgeArgs {
    /// Device, or `pty`.
    pub(super) serial: String,
    /// Bits per second.
    pub(super) baud: u32,
    /// Address of the server.
    pub(super) to: String,
}

/// Defines the command and its arguments.
pub fn define() -> Command {
    Command::new("bridge")
        .about("Connect a rank that has only a serial line to a process manager")
        .arg(Arg::new(SERIAL).long(SERIAL).value_name("DEVICE|pty").required(true).help(
            "serial line, as /dev/ttyUSB0; 'pty' creates a pseudo-terminal and prints \
                      its name",
        ))
        .arg(
            Arg::new(BAUD)
                .long(BAUD)
                .value_name("N")
                .value_parser(value_parser!(u32).range(50..))
                .default_value("115200")
                .help("bits per second; 8 data bits, no parity, one stop bit"),
        )
        .arg(Arg::new(TO).long(TO).value_name("ADDR:PORT").required(true).help(
            "address for ranks that connect over TCP, as 'pmi-host run --listen' prints \
                      it",
        ))
}

/// Parses the arguments; the inner error is the requested help text.
///
/// # Errors
///
/// [`UsageError`].
pub(super) fn read(args: Vec<OsString>) -> Result<Result<BridgeArgs, String>, UsageError> {
    let mut command = define().no_binary_name(true);
    let matches = match command.try_get_matches_from_mut(args) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return Ok(Err(error.to_string())),
        Err(error) => {
            let text = error.to_string();
            // The first paragraph of the message names the error; the others are for a screen of help.
            let lines = text.trim_start_matches("error: ").lines().map(str::trim);
            let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let why = lines.join(" ");
            return Err(UsageError::Value { given: "bridge".into(), why });
        }
    };
    let text = |name| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let baud = matches.get_one::<u32>(BAUD).copied().unwrap_or_default();
    Ok(Ok(BridgeArgs { serial: text(SERIAL), baud, to: text(TO) }))
}

const SERIAL: &str = "serial";
const BAUD: &str = "baud";
const TO: &str = "to";
