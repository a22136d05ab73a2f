//! Options of the end of a run.

use super::value::{choice, chosen, path, put, seconds, shown_path, shown_seconds, text};
use super::{Opt, Topic::Ending};
use crate::launch::signal;
use crate::settings::ending::OnExitError;
use std::ffi::OsStr;

pub(super) const ROWS: &[Opt] = &[
    Opt::value(
        Ending,
        "timeout",
        "SECONDS",
        "end the run when it takes longer, with code 124",
        |settings, value| put(&mut settings.ending.timeout, seconds(value)),
        |settings| shown_seconds(settings.ending.timeout),
    )
    .common(),
    Opt::value(
        Ending,
        "on-exit-error",
        "WHAT",
        "when a rank fails: kill (default) ends the others, ignore lets them go on",
        |settings, value| put(&mut settings.ending.on_exit_error, choice(value, ON_EXIT_ERROR)),
        |settings| chosen(&settings.ending.on_exit_error, ON_EXIT_ERROR),
    ),
    Opt::value(
        Ending,
        "exit-timeout",
        "SECONDS",
        "how long ranks may run on after the first one has ended well (default: for ever)",
        |settings, value| put(&mut settings.ending.exit_timeout, seconds(value)),
        |settings| shown_seconds(settings.ending.exit_timeout),
    ),
    Opt::switch(
        Ending,
        "print-all-exitcodes",
        "say at the end how every rank ended",
        |settings, on| settings.ending.print_all_codes = on,
        |settings| settings.ending.print_all_codes,
    ),
    Opt::value(
        Ending,
        "result",
        "FILE",
        "write a report for programs to this file, as JSON",
        |settings, value| put(&mut settings.ending.result, path(value).map(Some)),
        |settings| shown_path(settings.ending.result.as_ref()),
    ),
    Opt::value(
        Ending,
        "forward-signals",
        "LIST",
        "pass these on to the ranks too, as SIGUSR1,SIGWINCH (default: SIGUSR2 and what ends the run)",
        |settings, value| put(&mut settings.ending.forward_signals, signals(value)),
        |settings| {
            let numbers = settings.ending.forward_signals.iter();
            let names: Vec<String> = numbers.map(|number| signal::short_name(*number)).collect();
            Some(names.join(",")).filter(|shown| !shown.is_empty())
        },
    ),
];

fn signals(value: &OsStr) -> Result<Vec<i32>, String> {
    let list = text(value);
    if list == "none" {
        return Ok(Vec::new());
    }
    let numbers = list.split(',').map(|name| match signal::named(name) {
        Some(signal) if signal::can_forward(signal.as_raw()) => Ok(signal.as_raw()),
        Some(_) => Err(format!("'{name}' cannot be passed on; try 'SIGUSR1,SIGUSR2'")),
        None => Err(format!("'{name}' is no signal; try 'SIGUSR1,SIGUSR2'")),
    });
    numbers.collect()
}

const ON_EXIT_ERROR: &[(&str, OnExitError)] =
    &[("kill", OnExitError::Kill), ("ignore", OnExitError::Ignore)];
