//! Options of standard streams.

use super::OptionSpec;
use super::Topic::Output;
use super::value::{numbers, path, put, seconds, shown_path, shown_seconds, text};
use crate::settings::output::StdinTo;
use crate::stdio::pattern::Pattern;
use pmi_host_base::ranges::ranges;
use std::ffi::OsStr;

pub(super) const ROWS: &[OptionSpec] = &[
    Output.switch(
        "label",
        "put the rank in front of every line, as '[3] '",
        |settings, on| {
            let label = &mut settings.output.label;
            match on {
                // A format that the user has set is kept.
                true => drop(label.get_or_insert_with(|| LABEL.to_owned())),
                false => *label = None,
            }
        },
        |settings| settings.output.label.is_some(),
    )
    .with_letter('l')
    .common(),
    Output.value(
        "label-format",
        "PATTERN",
        "put this in front of every line: %r rank, %R the same with leading zeros, %g number of the \
         job, %j the same from 1, %p number of the node, %h its name, %t seconds since the start, %% a \
         percent sign",
        |settings, value| put(&mut settings.output.label, pattern(value)),
        |settings| settings.output.label.clone(),
    ),
    Output.switch(
        "timestamps",
        "put the time since the start in front of every line",
        |settings, on| settings.output.timestamps = on,
        |settings| settings.output.timestamps,
    ),
    Output.switch(
        "collapse",
        "write a line that several ranks write once, as '[0-63] text'",
        |settings, on| settings.output.collapse = on,
        |settings| settings.output.collapse,
    ),
    Output.value(
        "collapse-wait",
        "SECONDS",
        "time to wait for other ranks that write the same line (default: 0.5; 0: unlimited)",
        |settings, value| put(&mut settings.output.collapse_wait, seconds(value)),
        |settings| shown_seconds(settings.output.collapse_wait).or_else(|| Some("0".to_owned())),
    ),
    Output.value(
        "stdout-to",
        "PATTERN",
        "write the standard output of each rank to a file of its own, as 'out.%r'",
        |settings, value| put(&mut settings.output.out_files, pattern(value)),
        |settings| settings.output.out_files.clone(),
    ),
    Output.value(
        "stderr-to",
        "PATTERN",
        "the same for standard error",
        |settings, value| put(&mut settings.output.error_files, pattern(value)),
        |settings| settings.output.error_files.clone(),
    ),
    Output.value(
        "output-dir",
        "DIR",
        "write the streams of each rank to DIR/1/rank.0/stdout, stderr and so on, in new directories",
        |settings, value| put(&mut settings.output.directory, path(value).map(Some)),
        |settings| shown_path(settings.output.directory.as_ref()),
    ),
    Output.switch(
        "copy-output",
        "write output that goes to files to the streams of the launcher, too",
        |settings, on| settings.output.copies = on,
        |settings| settings.output.copies,
    ),
    Output.switch(
        "merge-stderr",
        "write the standard error of each rank where its standard output goes",
        |settings, on| settings.output.merges_errors = on,
        |settings| settings.output.merges_errors,
    ),
    Output.switch(
        "unbuffered",
        "pass on what ranks write at once, in lines or not, also while lines of other ranks are unfinished",
        |settings, on| settings.output.unbuffered = on,
        |settings| settings.output.unbuffered,
    ),
    Output.value(
        "stdin",
        "RANKS",
        "ranks that read standard input: all, none, or a list as '0-3,8' (default: rank 0)",
        |settings, value| put(&mut settings.output.stdin, stdin(value)),
        |settings| {
            Some(match &settings.output.stdin {
                StdinTo::First => "0".to_owned(),
                StdinTo::All => "all".to_owned(),
                StdinTo::NoRank => "none".to_owned(),
                StdinTo::Ranks(ranks) => ranges(ranks, ","),
            })
        },
    ),
    Output.value(
        "stdin-file",
        "FILE",
        "read standard input from this file, and not from that of the launcher",
        |settings, value| put(&mut settings.output.stdin_file, path(value).map(Some)),
        |settings| shown_path(settings.output.stdin_file.as_ref()),
    ),
    Output.value(
        "pty",
        "RANK",
        "give this rank a terminal of its own",
        |settings, value| {
            let rank = text(value).parse();
            let rank = rank.map_err(|_| "that is not the number of a rank; try '0'".to_owned());
            put(&mut settings.output.pty, rank.map(Some))
        },
        |settings| settings.output.pty.map(|rank| rank.to_string()),
    ),
];

/// Pattern as text, whose letters are known.
fn pattern(value: &OsStr) -> Result<Option<String>, String> {
    let text = text(value);
    Pattern::parse(&text).map_err(|error| error.to_string())?;
    Ok(Some(text))
}

fn stdin(value: &OsStr) -> Result<StdinTo, String> {
    match text(value).as_str() {
        "all" => Ok(StdinTo::All),
        "none" => Ok(StdinTo::NoRank),
        "0" => Ok(StdinTo::First),
        list => numbers(list).map(StdinTo::Ranks).ok_or_else(|| {
            "that is neither 'all' nor 'none' nor a list of ranks as '0-3,8'".to_owned()
        }),
    }
}

/// Label that `-l` puts in front of lines.
const LABEL: &str = "[%r] ";
