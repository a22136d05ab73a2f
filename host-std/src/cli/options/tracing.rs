//! Options of records of messages.

use super::OptionSpec;
use super::Topic::Tracing;
use super::value::{path, put, shown_path, text};

pub(super) const ROWS: &[OptionSpec] = &[
    Tracing
        .value(
            "trace",
            "FILE",
            "record every message between ranks and server in this file",
            |settings, value| put(&mut settings.tracing.file, path(value).map(Some)),
            |settings| shown_path(settings.tracing.file.as_ref()),
        )
        .common(),
    Tracing.switch(
        "show-messages",
        "write every message between ranks and server to standard error at once",
        |settings, on| settings.tracing.shows_messages = on,
        |settings| settings.tracing.shows_messages,
    ),
    Tracing.value(
        "trace-ring",
        "N",
        "number of the latest messages that are kept in memory for tables (default: 4096)",
        |settings, value| {
            let messages = text(value).parse::<u32>().ok().and_then(|n| usize::try_from(n).ok());
            let why = || "that is not a number of messages; try '4096'".to_owned();
            put(&mut settings.tracing.ring, messages.ok_or_else(why))
        },
        |settings| Some(settings.tracing.ring.to_string()),
    ),
];
