//! `pmi-host pmix`: a PMIx tool for any launcher of this user that admits tools.
//!
//! ```text
//! ps      processes of all jobs              PMIx_Query_info, process tables
//! query   values of any keys                 PMIx_Query_info
//! attrs   supported attributes of a spawn    PMIx_Query_info
//! lookup  published texts                    PMIx_Lookup
//! event   notifies processes of an event     PMIx_Notify_event
//! ctrl    pauses or terminates processes     PMIx_Job_control
//! ```

mod value;

use crate::trace::first_line;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use pmi_host_base::usage::UsageError;
use pmi_std::pmix::tool::{self, ToolError, ToolServer};
use pmi_std::pmix::{
    Attribute, CallError, Datum, Infos, Pmix, Proc, ProcInfo, Status, Type, WILDCARD, keys,
    proc_state, range,
};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Command line of `pmix`.
pub fn define() -> Command {
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let server = || value(SERVER, "WHERE", SERVER_HELP);
    let job = || value(JOB, "NAMESPACE", "the job, by its name as in 'pmi-host pmix ps'");
    let rank =
        || value(RANK, "R", "only this rank of it").value_parser(value_parser!(u32)).requires(JOB);
    let keys = |help| Arg::new(KEYS).value_name("KEY").num_args(1..).required(true).help(help);
    Command::new("pmix")
        .about("Ask and control running jobs as a PMIx tool, under any launcher")
        .subcommand_required(true)
        .subcommand(
            Command::new("ps")
                .about("Print the processes of all jobs, with their states")
                .arg(job())
                .arg(server()),
        )
        .subcommand(
            Command::new("query")
                .about("Print the values of keys, as in 'pmix.job.size'")
                .args([job(), rank(), value(HOST, "HOST", "about this host"), server()])
                .arg(keys("a key of a query or of the description of a job")),
        )
        .subcommand(
            Command::new("attrs").about("Print the attributes that a spawn supports").arg(server()),
        )
        .subcommand(
            Command::new("lookup")
                .about("Print published texts")
                .arg(
                    value(WAIT, "SECONDS", "wait so long for each to be published")
                        .value_parser(value_parser!(u32).range(1..)),
                )
                .arg(server())
                .arg(keys("the key under which the text is published")),
        )
        .subcommand(
            Command::new("event")
                .about("Notify processes of an event")
                .args([job(), server()])
                .arg(
                    Arg::new(CODE)
                        .required(true)
                        .allow_negative_numbers(true)
                        .help("number of the event, or its name in the standard without 'PMIX_'"),
                )
                .after_help("With '--job' the processes of that job are notified, otherwise all."),
        )
        .subcommand(
            Command::new("ctrl")
                .about("Pause, resume, signal or terminate the processes of a job")
                .args([job().required(true), rank(), server()])
                .arg(
                    Arg::new(ACTION)
                        .required(true)
                        .action(ArgAction::Set)
                        .help("pause, resume, terminate, kill, or the number of a signal"),
                ),
        )
}

/// Connects to the server, executes the command, and returns the exit code: 1 if the server has refused it.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let mut command = define().no_binary_name(true).bin_name("pmi-host pmix");
    let matches = match command.try_get_matches_from_mut(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(error) => return refuse(&misuse(&error)),
    };
    let Some((name, matches)) = matches.subcommand() else { return ExitCode::from(FAILED) };
    let action = match PmixAction::read(name, matches) {
        Ok(action) => action,
        Err(error) => return refuse(&error),
    };
    let mut pmix = match tool::connect(&server(matches)) {
        Ok(pmix) => pmix,
        Err(error) => return complain(&unconnected(&error), FAILED),
    };
    let mut output = ToolOutput::default();
    let done = action.perform(&mut pmix, &mut output);
    // The end of the connection says the same.
    let _ = pmix.finalize();
    let printed = print(&output.text);
    match done {
        Err(error) => complain(&action.explain(&error), FAILED),
        Ok(()) if output.unknown.is_empty() => printed,
        Ok(()) => complain(&no_value(&output.unknown), FAILED),
    }
}

/// Output of a command, also of one that fails later.
#[derive(Debug, Default)]
struct ToolOutput {
    text: String,
    /// Keys without a value.
    unknown: Vec<String>,
}

/// One command with its arguments.
#[derive(Debug, PartialEq, Eq)]
enum PmixAction {
    Ps { job: Option<String> },
    Query { keys: Vec<String>, job: Option<String>, rank: Option<u32>, host: Option<String> },
    Lookup { keys: Vec<String>, wait: Option<Duration> },
    Event { code: Status, job: Option<String> },
    Control { key: &'static [u8], signal: Option<i32>, job: String, rank: Option<u32> },
}

impl PmixAction {
    fn read(name: &str, matches: &ArgMatches) -> Result<Self, UsageError> {
        let text = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
        let number = |name: &str| matches.try_get_one::<u32>(name).ok().flatten().copied();
        let listed = || matches.get_many::<String>(KEYS).into_iter().flatten().cloned().collect();
        let (job, rank) = (text(JOB), number(RANK));
        Ok(match name {
            "ps" => Self::Ps { job },
            "query" => Self::Query { keys: listed(), job, rank, host: text(HOST) },
            "attrs" => {
                let keys = vec![String::from_utf8_lossy(keys::QUERY_SPAWN_SUPPORT).into_owned()];
                Self::Query { keys, job: None, rank: None, host: None }
            }
            "lookup" => {
                let wait = number(WAIT).map(|seconds| Duration::from_secs(seconds.into()));
                Self::Lookup { keys: listed(), wait }
            }
            "event" => Self::Event { code: event_code(&text(CODE).unwrap_or_default())?, job },
            _ => {
                let (key, signal) = operation(&text(ACTION).unwrap_or_default())?;
                Self::Control { key, signal, job: job.unwrap_or_default(), rank }
            }
        })
    }

    /// Executes the command.
    fn perform(&self, pmix: &mut Pmix, output: &mut ToolOutput) -> Result<(), CallError> {
        match self {
            Self::Ps { job } => output.text = ps(pmix, job.as_deref())?,
            Self::Query { keys, job, rank, host } => {
                let mut qualifiers = Vec::new();
                if let Some(job) = job {
                    qualifiers.push(Attribute::new(keys::NSPACE, Datum::Text(job.as_bytes())));
                }
                if let Some(rank) = rank {
                    qualifiers.push(Attribute::new(keys::RANK, Datum::Rank(*rank)));
                }
                if let Some(host) = host {
                    qualifiers.push(Attribute::new(keys::HOSTNAME, Datum::Text(host.as_bytes())));
                }
                let asked: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
                let known = pmix.query(&asked, &qualifiers)?;
                value::write_infos(&mut output.text, &known.list(), 0);
                let is_unknown = |key: &&String| known.find(key.as_bytes()).is_none();
                output.unknown = keys.iter().filter(is_unknown).cloned().collect();
            }
            Self::Lookup { keys, wait } => {
                for key in keys {
                    let found = match wait {
                        Some(time) => pmix.lookup_within(key.as_bytes(), *time),
                        None => pmix.lookup(key.as_bytes()),
                    };
                    let found = match found {
                        Err(error) if has_nothing(&error) => None,
                        found => found?,
                    };
                    match found {
                        Some(text) => {
                            let text = value::printable(&text);
                            output.text.push_str(&format!("{key}: {text}\n"));
                        }
                        None => output.unknown.push(key.clone()),
                    }
                }
            }
            Self::Event { code, job: None } => pmix.notify(*code, range::SESSION, &[])?,
            Self::Event { code, job: Some(job) } => {
                let nspace = Proc { nspace: job.as_bytes(), rank: WILDCARD };
                let target = [Attribute::new(keys::EVENT_CUSTOM_RANGE, Datum::Proc(nspace))];
                pmix.notify(*code, range::CUSTOM, &target)?;
            }
            Self::Control { key, signal, job, rank } => {
                let target = [Proc { nspace: job.as_bytes(), rank: rank.unwrap_or(WILDCARD) }];
                let value = signal.map_or(Datum::Bool(true), Datum::Int);
                let directive = [Attribute::new(key, value).required()];
                let reported = pmix.job_control(&target, &directive)?;
                value::write_infos(&mut output.text, &reported.list(), 0);
            }
        }
        Ok(())
    }

    /// The message for the user about a failure; of a missing job or value it has the name.
    fn explain(&self, error: &CallError) -> String {
        let status = match error {
            CallError::Refused { status, .. } => Some(*status),
            _ => None,
        };
        let is_missing = status == Some(Status::NOT_FOUND);
        match self {
            Self::Ps { job: Some(job) } | Self::Control { job, rank: None, .. } if is_missing => {
                format!("the PMIx server knows no job '{job}'{LISTED}")
            }
            Self::Control { job, rank: Some(rank), .. } if is_missing => {
                format!("the PMIx server knows no rank {rank} of a job '{job}'{LISTED}")
            }
            // The server knows no such key.
            Self::Query { keys, .. } if status == Some(Status::NOT_SUPPORTED) => no_value(keys),
            Self::Query { keys, job: None, .. } if is_missing => no_value(keys),
            Self::Query { keys, job: Some(job), rank, .. } if is_missing => {
                let rank = rank.map_or_else(String::new, |rank| format!("rank {rank} of "));
                format!("{} for {rank}the job '{job}'{LISTED}", no_value(keys))
            }
            _ => error.to_string(),
        }
    }
}

/// Message about keys without a value.
fn no_value(keys: &[String]) -> String {
    format!("the PMIx server has no value of {}", keys.join(", "))
}

/// True if a lookup has found nothing, at once or within its time.
const fn has_nothing(error: &CallError) -> bool {
    matches!(error, CallError::Refused { status: Status::NOT_FOUND | Status::TIMEOUT, .. })
}

/// Table of the processes of one job or of all.
fn ps(pmix: &mut Pmix, job: Option<&str>) -> Result<String, CallError> {
    let jobs: Vec<Vec<u8>> = match job {
        Some(job) => vec![job.into()],
        None => {
            let known = pmix.query(&[keys::QUERY_NAMESPACES], &[])?;
            let names = known.find(keys::QUERY_NAMESPACES).and_then(|names| names.text());
            let own = pmix.nspace();
            let names = names.unwrap_or_default().split(|byte| *byte == b',');
            names.filter(|name| !name.is_empty() && *name != own).map(<[u8]>::to_vec).collect()
        }
    };
    let mut rows = vec![["job", "rank", "state", "pid", "host", "program"].map(String::from)];
    for name in jobs {
        let of = [Attribute::new(keys::NSPACE, Datum::Text(&name))];
        match pmix.query(&[keys::QUERY_PROC_TABLE], &of) {
            Ok(known) => rows.extend(table(&known)),
            // A job may have ended since it was listed, and other tools have no processes.
            Err(CallError::Refused { .. }) if job.is_none() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(value::columns(&rows))
}

/// Rows of a process table.
fn table(known: &Infos) -> Vec<[String; 6]> {
    let table = known.find(keys::QUERY_PROC_TABLE).and_then(|table| table.array());
    let procs = table.into_iter().flat_map(|table| table.each(Type::PROC_INFO, ProcInfo::read));
    let row = |proc: ProcInfo<'_>| {
        let state = proc_state::name(proc.state).map_or_else(|| proc.state.to_string(), Into::into);
        [
            value::printable(proc.of.nspace),
            value::rank(proc.of.rank),
            state,
            proc.pid.to_string(),
            value::printable(proc.host),
            value::printable(proc.program),
        ]
    };
    procs.map(row).collect()
}

fn server(matches: &ArgMatches) -> ToolServer {
    let Some(place) = matches.get_one::<String>(SERVER) else { return ToolServer::SystemFirst };
    match place.parse() {
        Ok(pid) => ToolServer::Pid(pid),
        Err(_) if place == "system" => ToolServer::System,
        Err(_) if place.contains(';') || place.starts_with("file:") => {
            ToolServer::Uri(place.clone())
        }
        Err(_) => ToolServer::Nspace(place.clone()),
    }
}

/// Error in the words of the command line.
fn misuse(error: &clap::Error) -> UsageError {
    let what = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => format!("'{}' is missing", missing.join("' and '")),
        _ => first_line(&error.to_string()),
    };
    UsageError::Other { what: format!("pmix: {what}") }
}

fn unconnected(error: &ToolError) -> String {
    let remedy = match error {
        ToolError::NotFound { .. } => {
            "; start a run, set PMIX_SYSTEM_TMPDIR to the directory that it uses, or give its address \
             with '--server'"
        }
        ToolError::Several { .. } => " with '--server PID'",
        _ => "",
    };
    format!("{error}{remedy}")
}

/// The number of an event, or its name.
fn event_code(text: &str) -> Result<Status, UsageError> {
    let name = text.strip_prefix("PMIX_").unwrap_or(text);
    let named = || {
        let mut codes = (NAMED_CODE_MIN..0).map(Status);
        codes.find(|code| {
            let known = code.name().unwrap_or_default();
            known == name || known.strip_prefix("EVENT_") == Some(name)
        })
    };
    text.parse().ok().map(Status).or_else(named).ok_or_else(|| UsageError::Value {
        given: text.into(),
        why: "it is neither a number nor the name of an event, as in 'EVENT_NODE_DOWN'".into(),
    })
}

/// Directive of an operation on processes, and the signal to send.
fn operation(text: &str) -> Result<(&'static [u8], Option<i32>), UsageError> {
    Ok(match text {
        "pause" => (keys::CONTROL_PAUSE, None),
        "resume" => (keys::CONTROL_RESUME, None),
        "terminate" => (keys::CONTROL_TERMINATE, None),
        "kill" => (keys::CONTROL_KILL, None),
        number => match number.parse() {
            Ok(signal) if (1..=SIGNAL_MAX).contains(&signal) => {
                (keys::CONTROL_SIGNAL, Some(signal))
            }
            _ => {
                let why = "use pause, resume, terminate, kill, or the number of a signal".into();
                return Err(UsageError::Value { given: text.into(), why });
            }
        },
    })
}

/// Remedy of a wrong name of a job.
const LISTED: &str = "; 'pmi-host pmix ps' lists the jobs and their ranks";
const SERVER: &str = "server";
const SERVER_HELP: &str = "the launcher: its process, one of its jobs, its address (also 'file:PATH'), or \
                           'system'; otherwise the system server or the only one";
const JOB: &str = "job";
const RANK: &str = "rank";
const HOST: &str = "node";
const WAIT: &str = "wait";
const KEYS: &str = "KEYS";
const CODE: &str = "CODE";
const ACTION: &str = "ACTION";
/// The codes of the standard are above this one.
const NAMED_CODE_MIN: i32 = -1000;
/// Greatest number of a signal on Linux.
const SIGNAL_MAX: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::pmix::names::Command as PmixCommand;

    fn read(words: &[&str]) -> Result<PmixAction, UsageError> {
        let matches = define().no_binary_name(true).try_get_matches_from(words).unwrap();
        let (name, matches) = matches.subcommand().unwrap();
        PmixAction::read(name, matches)
    }

    #[test]
    fn events_are_named_by_number_or_name() {
        let code = |text| {
            read(&["event", text]).map(|action| match action {
                PmixAction::Event { code, job: None } => code.0,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(code("-231"), Ok(-231));
        assert_eq!(code("EVENT_NODE_DOWN"), Ok(-231));
        assert_eq!(code("PMIX_EVENT_NODE_DOWN"), Ok(-231));
        assert_eq!(code("NODE_DOWN"), Ok(-231));
        assert!(code("NODE_UP").is_err());
    }

    #[test]
    fn operations_are_named_by_word_or_signal() {
        let control = |action| read(&["ctrl", "--job", "j", action]);
        let job = || "j".to_owned();
        let pause =
            PmixAction::Control { key: keys::CONTROL_PAUSE, signal: None, job: job(), rank: None };
        assert_eq!(control("pause"), Ok(pause));
        let key = keys::CONTROL_SIGNAL;
        let signal = PmixAction::Control { key, signal: Some(10), job: job(), rank: None };
        assert_eq!(control("10"), Ok(signal));
        for wrong in ["65", "0", "stop"] {
            assert!(control(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_of_a_lookup_is_not_zero() {
        let matched = |time| {
            define().no_binary_name(true).try_get_matches_from(["lookup", "--wait", time, "ocean"])
        };
        // The server would wait without a limit.
        assert!(matched("0").is_err() && matched("1").is_ok());
    }

    #[test]
    fn missing_job_or_value_is_named() {
        let explained = |words: &[&str], status| {
            let error = CallError::Refused { command: PmixCommand::QUERY, status };
            read(words).unwrap().explain(&error)
        };
        let missing = |words: &[&str]| explained(words, Status::NOT_FOUND);
        let server = "the PMIx server";
        assert_eq!(missing(&["ps", "--job", "j"]), format!("{server} knows no job 'j'{LISTED}"));
        assert_eq!(
            missing(&["ctrl", "--job", "j", "kill"]),
            format!("{server} knows no job 'j'{LISTED}")
        );
        assert_eq!(
            missing(&["ctrl", "--job", "j", "--rank", "7", "kill"]),
            format!("{server} knows no rank 7 of a job 'j'{LISTED}")
        );
        assert_eq!(missing(&["query", "a", "b"]), format!("{server} has no value of a, b"));
        assert_eq!(
            missing(&["query", "--job", "j", "--rank", "7", "a"]),
            format!("{server} has no value of a for rank 7 of the job 'j'{LISTED}")
        );
        let unknown = explained(&["query", "--job", "j", "a"], Status::NOT_SUPPORTED);
        assert_eq!(unknown, format!("{server} has no value of a"));
        let refused = explained(&["ps", "--job", "j"], Status::NOT_SUPPORTED);
        assert!(refused.starts_with("the PMIx server refused QUERY: NOT_SUPPORTED"), "{refused}");
    }

    #[test]
    fn place_of_the_server_has_several_forms() {
        for (place, expected) in [
            ("4711", ToolServer::Pid(4711)),
            ("system", ToolServer::System),
            ("file:/tmp/uri", ToolServer::Uri("file:/tmp/uri".into())),
            ("a.0;tcp4://127.0.0.1:1", ToolServer::Uri("a.0;tcp4://127.0.0.1:1".into())),
            ("kvs_n1_4711_0", ToolServer::Nspace("kvs_n1_4711_0".into())),
        ] {
            let words = ["ps", "--server", place];
            let matches = define().no_binary_name(true).try_get_matches_from(words).unwrap();
            assert_eq!(server(matches.subcommand().unwrap().1), expected);
        }
    }
}
