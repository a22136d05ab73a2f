//! Options of signs of life.

use super::OptionSpec;
use super::Topic::Watching;
use super::value::{put, seconds, shown_seconds};

pub(super) const ROWS: &[OptionSpec] = &[
    Watching.value(
        "stall-report",
        "SECONDS",
        "report ranks that wait, and the ranks they wait for, after this time without progress \
        (default: 10; 0: never)",
        |settings, value| put(&mut settings.watching.stall_report, seconds(value)),
        |settings| shown_seconds(settings.watching.stall_report).or_else(|| Some("0".to_owned())),
    ),
    Watching.value(
        "stall-abort",
        "SECONDS",
        "terminate the run after this time without progress (default: never)",
        |settings, value| put(&mut settings.watching.stall_abort, seconds(value)),
        |settings| shown_seconds(settings.watching.stall_abort),
    ),
    Watching.switch(
        "progress",
        "show a line on a terminal while a start or an end takes long",
        |settings, on| settings.watching.progress = on,
        |settings| settings.watching.progress,
    ),
    Watching.switch(
        "control",
        "let 'pmi-host ps' query the run",
        |settings, on| settings.watching.control = on,
        |settings| settings.watching.control,
    ),
];
