//! `pmi-host doctor`, and its option for the hosts of a run.

use crate::cli::hosts::numbered_hosts;
use crate::cli::layers;
use crate::cli::options::{self, Topic};
use crate::placement::HostList;
use crate::settings::Settings;
use clap::{Arg, ArgMatches, Command};
use pmi_host_base::exit::{print, refuse};
use pmi_host_base::usage::UsageError;
use pmi_host_tools::doctor as tool;
use pmi_nodes::check;
use pmi_nodes::settings::StarterName;
use std::ffi::OsString;
use std::process::ExitCode;

/// Defines the command: that of the tools, with options for hosts.
pub(super) fn define() -> Command {
    let hosts = Arg::new(HOSTS)
        .long(HOSTS)
        .value_name("LIST")
        .help("check that these hosts can take part in a run, and that they have the program");
    options().fold(tool::define().arg(hosts), |command, option| {
        let argument = Arg::new(option.name)
            .long(option.name)
            .value_parser(clap::value_parser!(OsString))
            .help(option.help);
        command.arg(match option.effect {
            options::OptionEffect::Value { name, .. } => argument.value_name(name),
            // A value follows '=' only: the next word is another argument.
            options::OptionEffect::Switch { .. } => {
                let switch = argument.value_name("BOOL").num_args(0..=1).require_equals(true);
                switch.default_missing_value("true")
            }
        })
    })
}

/// Runs the command with the words after its name.
pub(super) fn run(words: Vec<OsString>) -> ExitCode {
    match define().no_binary_name(true).try_get_matches_from(&words) {
        Ok(matches) if is_about_hosts(&matches) => of_hosts(&matches),
        Err(error) if !error.use_stderr() => print(&error.to_string()),
        _ => tool::run(words),
    }
}

fn is_about_hosts(matches: &ArgMatches) -> bool {
    matches.contains_id(HOSTS) || options().any(|option| matches.contains_id(option.name))
}

fn of_hosts(matches: &ArgMatches) -> ExitCode {
    let settings = match settings(matches) {
        Ok(settings) => settings,
        Err(error) => return refuse(&error),
    };
    let list = matches.get_one::<String>(HOSTS);
    let hosts: Vec<String> = match list.map(|list| HostList::parse(list)).transpose() {
        Ok(list) => {
            let hosts = list.iter().flat_map(|list| list.hosts());
            hosts.map(|host| host.name.clone()).collect()
        }
        Err(why) => {
            let given = format!("--{HOSTS} {}", list.map_or("", String::as_str));
            return refuse(&UsageError::Value { given, why });
        }
    };
    let is_local = matches!(settings.nodes.starter, Some(StarterName::Local(_)));
    if hosts.is_empty() && !is_local {
        return refuse(&UsageError::Alone { option: "--starter", other: "--hosts" });
    }
    let program = matches.get_one::<OsString>(tool::PROGRAM).cloned();
    check::run(hosts, &settings.nodes, program, numbered_hosts)
}

/// Settings from all sources, of which the command line has precedence.
fn settings(matches: &ArgMatches) -> Result<Settings, UsageError> {
    let variables: Vec<_> = std::env::vars_os().collect();
    let mut settings = Settings::default();
    for given in layers::given(None, &variables)? {
        given.apply(&mut settings)?;
    }
    for option in options() {
        if let Some(value) = matches.get_one::<OsString>(option.name) {
            let invalid = |why| UsageError::Value {
                given: format!("--{} {}", option.name, value.display()),
                why,
            };
            option.set(&mut settings, value).map_err(invalid)?;
        }
    }
    Ok(settings)
}

/// Options of node servers.
fn options() -> impl Iterator<Item = &'static options::OptionSpec> {
    options::all().filter(|option| option.topic == Topic::Nodes)
}

const HOSTS: &str = "hosts";
