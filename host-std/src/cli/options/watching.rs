//! Options of signs of life.

use super::OptionSpec;
use super::Topic::Watching;
use super::value::{numbers, path, put, seconds, shown_path, shown_seconds, text};
use crate::settings::DebuggedRanks;
use pmi_host_base::ranges::ranges;
use std::ffi::OsStr;

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
        "stall-stacks",
        "show with such a report in which calls the ranks are, as 'pmi-host stack' does",
        |settings, on| settings.watching.stall_stacks = on,
        |settings| settings.watching.stall_stacks,
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
    Watching.value(
        "report-pid",
        "WHERE",
        "write the process id of the launcher to standard output (-), standard error (+) or a file",
        |settings, value| put(&mut settings.watching.report_pid, path(value).map(Some)),
        |settings| shown_path(settings.watching.report_pid.as_ref()),
    ),
    Watching.value(
        "report-uri",
        "WHERE",
        "write the address of the run for PMIx tools to standard output (-), standard error (+) or a file, \
         which only this user may read",
        |settings, value| put(&mut settings.watching.report_uri, path(value).map(Some)),
        |settings| shown_path(settings.watching.report_uri.as_ref()),
    ),
    Watching.switch(
        "tools",
        "let PMIx tools and debuggers of the same user connect to the run",
        |settings, on| settings.watching.tools = on,
        |settings| settings.watching.tools,
    ),
    Watching.switch(
        "system-server",
        "be the one PMIx server of this host that tools find first",
        |settings, on| settings.watching.is_system_server = on,
        |settings| settings.watching.is_system_server,
    ),
    Watching.value(
        "gdb",
        "RANKS",
        "stop these ranks at their first instruction and open a gdb for each, in panes of tmux where that is \
         installed: all, or a list as '0-3,8'",
        |settings, value| put(&mut settings.watching.gdb, debugged(value).map(Some)),
        |settings| {
            settings.watching.gdb.as_ref().map(|debugged| match debugged {
                DebuggedRanks::All => "all".to_owned(),
                DebuggedRanks::Listed(list) => ranges(list, ","),
            })
        },
    ),
];

fn debugged(value: &OsStr) -> Result<DebuggedRanks, String> {
    match text(value).as_str() {
        "all" => Ok(DebuggedRanks::All),
        list => numbers(list).map(DebuggedRanks::Listed).ok_or_else(|| {
            "that is neither 'all' nor a list of ranks; try '0' or '0-3,8'".to_owned()
        }),
    }
}
