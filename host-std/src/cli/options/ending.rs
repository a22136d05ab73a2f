//! Options of the end of a run.

use super::OptionSpec;
use super::Topic::Ending;
use super::value::{choice, chosen, path, put, seconds, shown_path, shown_seconds, text};
use crate::launch::signal;
use crate::settings::ending::{OnExitError, OnSingletons};
use std::ffi::OsStr;

pub(super) const ROWS: &[OptionSpec] = &[
    Ending
        .value(
            "timeout",
            "SECONDS",
            "terminate the run after this time, as 60, 1m or 2h, with exit code 124",
            |settings, value| put(&mut settings.ending.timeout, seconds(value)),
            |settings| shown_seconds(settings.ending.timeout),
        )
        .common(),
    Ending.value(
        "on-exit-error",
        "WHAT",
        "when a rank fails: kill (default) terminates the others, ignore lets them continue",
        |settings, value| put(&mut settings.ending.on_exit_error, choice(value, ON_EXIT_ERROR)),
        |settings| chosen(&settings.ending.on_exit_error, ON_EXIT_ERROR),
    ),
    Ending.value(
        "on-singletons",
        "WHAT",
        "when every rank calls MPI_Init without this launcher, as rank 0 of 1: fail (default) reports that \
        and exits with 1, ignore accepts it",
        |settings, value| put(&mut settings.ending.on_singletons, choice(value, ON_SINGLETONS)),
        |settings| chosen(&settings.ending.on_singletons, ON_SINGLETONS),
    ),
    Ending.value(
        "exit-timeout",
        "SECONDS",
        "terminate ranks that still run this long after the first one exited with 0 (default: \
        never)",
        |settings, value| put(&mut settings.ending.exit_timeout, seconds(value)),
        |settings| shown_seconds(settings.ending.exit_timeout),
    ),
    Ending.switch(
        "print-all-exitcodes",
        "report at the end how every rank ended",
        |settings, on| settings.ending.print_all_codes = on,
        |settings| settings.ending.print_all_codes,
    ),
    Ending.switch(
        "summary",
        "sum the run up in one line at the end",
        |settings, on| settings.ending.has_summary = on,
        |settings| settings.ending.has_summary,
    ),
    Ending.value(
        "result",
        "FILE",
        "write a report of the run to this file, as JSON, or as JUnit's XML if it ends in .xml",
        |settings, value| put(&mut settings.ending.result, path(value).map(Some)),
        |settings| shown_path(settings.ending.result.as_ref()),
    ),
    Ending.value(
        "forward-signals",
        "LIST",
        "forward these signals to the ranks too, as SIGUSR1,SIGWINCH (default: SIGUSR2 and those \
        that terminate the run; as mpiexec, mpirun, prterun and srun also SIGUSR1, SIGALRM, SIGURG)",
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
        Some(_) => Err(format!("'{name}' cannot be forwarded; try 'SIGUSR1,SIGUSR2'")),
        None => Err(format!("'{name}' is not a signal; try 'SIGUSR1,SIGUSR2'")),
    });
    numbers.collect()
}

const ON_EXIT_ERROR: &[(&str, OnExitError)] =
    &[("kill", OnExitError::Kill), ("ignore", OnExitError::Ignore)];
const ON_SINGLETONS: &[(&str, OnSingletons)] =
    &[("fail", OnSingletons::Fail), ("ignore", OnSingletons::Ignore)];
