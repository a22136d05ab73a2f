//! Options of node servers: their starters and connections.

use super::OptionSpec;
use super::Topic::Nodes;
use super::value::{choice, chosen, path, put, seconds, shown_path, shown_seconds, text};
use crate::settings::job::FenceData;
use pmi_nodes::settings::{MANUAL, PortRange, STARTERS, StarterFanout, StarterName};
use std::ffi::OsStr;
use std::time::Duration;

pub(super) const ROWS: &[OptionSpec] = &[
    Nodes.value(
        "starter",
        "NAME",
        "start node servers by: ssh, rsh, srun, flux, blaunch, qrsh, oarsh, manual, local for this \
         machine, or local:N for N of them on it (default: as the batch system suggests, else ssh)",
        |settings, value| put(&mut settings.nodes.starter, starter(value).map(Some)),
        |settings| settings.nodes.starter.as_ref().map(shown_starter),
    ),
    Nodes.value(
        "starter-cmd",
        "TEMPLATE",
        "start the node server of each host by this command, as 'kubectl exec -i {host} -- {cmd}'; its \
         standard input has to reach {cmd}",
        |settings, value| put(&mut settings.nodes.template, Ok(Some(text(value)))),
        |settings| settings.nodes.template.clone(),
    ),
    Nodes.value(
        "starter-exec",
        "FILE",
        "program of the starter in place of its own, which then gets no options but those of --starter-args",
        |settings, value| put(&mut settings.nodes.program, Ok(Some(text(value)))),
        |settings| settings.nodes.program.clone(),
    ),
    Nodes.value(
        "starter-args",
        "ARGS",
        "further arguments of the starter, in front of the host, as '-p 2222'",
        |settings, value| put(&mut settings.nodes.arguments, words(value).map(Some)),
        |settings| settings.nodes.arguments.clone(),
    ),
    Nodes.value(
        "starter-fanout",
        "N",
        "number of hosts whose node servers this launcher starts; these start the others (default: all, or \
         32 of 128 and more hosts by ssh)",
        |settings, value| put(&mut settings.nodes.start.fanout, fanout(value)),
        |settings| match settings.nodes.start.fanout {
            StarterFanout::Auto => None,
            StarterFanout::All => Some(StarterFanout::ALL.to_owned()),
            StarterFanout::Hosts(count) => Some(count.to_string()),
        },
    ),
    Nodes.value(
        "start-timeout",
        "SECONDS",
        "time without a further host after which the start of the others has failed (default: 60); with \
         --min-nodes these join the run when they come",
        |settings, value| put(&mut settings.nodes.start.timeout, start_timeout(value)),
        |settings| Some(settings.nodes.start.timeout.as_secs_f64().to_string()),
    ),
    Nodes.value(
        "node-timeout",
        "SECONDS",
        "time without a sign of life after which a node is lost (default: 5; within a batch system 30)",
        |settings, value| put(&mut settings.nodes.timeout, timeout(value).map(Some)),
        |settings| shown_seconds(settings.nodes.timeout),
    ),
    Nodes.value(
        "pause-timeout",
        "SECONDS",
        "time for which a node may be paused, as by a batch system, before it is lost (default: never)",
        |settings, value| put(&mut settings.watching.pause_timeout, seconds(value)),
        |settings| shown_seconds(settings.watching.pause_timeout),
    ),
    Nodes.value(
        "node-interface",
        "NAME",
        "interface, or address, at which node servers connect to this launcher (default: any)",
        |settings, value| put(&mut settings.nodes.interface, Ok(Some(text(value)))),
        |settings| settings.nodes.interface.clone(),
    ),
    Nodes.value(
        "node-ports",
        "FIRST-LAST",
        "ports at which this launcher and node servers accept each other, for firewalls (default: any)",
        |settings, value| put(&mut settings.nodes.ports, ports(value).map(Some)),
        |settings| settings.nodes.ports.map(|ports| ports.to_string()),
    ),
    Nodes.value(
        "tree-radix",
        "N",
        "number of nodes below each node of the tree (default: 4)",
        |settings, value| put(&mut settings.nodes.radix, radix(value)),
        |settings| Some(settings.nodes.radix.to_string()),
    ),
    Nodes.switch(
        "stage",
        "send the program to each host, where it need not be installed; it is removed after the run",
        |settings, is_on| settings.nodes.staging.has_programs = is_on,
        |settings| settings.nodes.staging.has_programs,
    ),
    Nodes.switch(
        "stage-launcher",
        "send pmi-host itself to each host through its starter, where it need not be installed; it is \
         removed after the run",
        |settings, is_on| settings.nodes.staging.has_launcher = is_on,
        |settings| settings.nodes.staging.has_launcher,
    ),
    Nodes.switch(
        "plain",
        "do not encrypt messages between nodes, and protect them by nothing after the proof of the key: for \
         networks that no other user can reach",
        |settings, is_on| settings.nodes.links.is_plain = is_on,
        |settings| settings.nodes.links.is_plain,
    ),
    Nodes.switch(
        "node-relay",
        "carry connections of hosts that cannot reach this launcher over standard input and output of \
         their starters",
        |settings, is_on| settings.nodes.links.is_relayed = is_on,
        |settings| settings.nodes.links.is_relayed,
    ),
    Nodes.value(
        "name-server",
        "HOST:PORT",
        "server of published names that several launchers share ('pmi-host name-server' prints its address); \
         by default each launcher holds those of its run",
        |settings, value| put(&mut settings.names.server, name_server(value).map(Some)),
        |settings| settings.names.server.clone(),
    ),
    Nodes.value(
        "name-key",
        "FILE",
        "file of the key of the name server (default: name-server.key beside the settings file)",
        |settings, value| put(&mut settings.names.key_file, path(value).map(Some)),
        |settings| shown_path(settings.names.key_file.as_ref()),
    ),
    Nodes.value(
        "fence",
        "HOW",
        "way of committed PMIx data to other nodes: push with each fence, pull when a rank gets it, or \
         auto (default): push what ranks request with a fence, and little data",
        |settings, value| put(&mut settings.job.fence, choice(value, FENCE_DATA)),
        |settings| chosen(&settings.job.fence, FENCE_DATA),
    ),
];

fn starter(value: &OsStr) -> Result<StarterName, String> {
    let got = text(value);
    if got == MANUAL {
        return Ok(StarterName::Manual);
    }
    if got == HERE {
        return Ok(StarterName::Here);
    }
    if let Some(nodes) = got.strip_prefix(LOCAL) {
        return match nodes.parse() {
            Ok(nodes) if (1..=LOCAL_MAX).contains(&nodes) => Ok(StarterName::Local(nodes)),
            _ => Err(format!("'{nodes}' is not a number of node servers; try 'local:4'")),
        };
    }
    match STARTERS.iter().find(|name| **name == got) {
        Some(name) => Ok(StarterName::Row(name)),
        None => Err(format!("that is not one of {}, manual, local, local:N", STARTERS.join(", "))),
    }
}

fn shown_starter(starter: &StarterName) -> String {
    match starter {
        StarterName::Row(name) => (*name).to_owned(),
        StarterName::Local(nodes) => format!("{LOCAL}{nodes}"),
        StarterName::Here => HERE.to_owned(),
        StarterName::Manual => MANUAL.to_owned(),
    }
}

/// Text that a shell would split into words.
fn words(value: &OsStr) -> Result<String, String> {
    let got = text(value);
    match shlex::split(&got) {
        Some(_) => Ok(got),
        None => Err("a quotation mark is missing".to_owned()),
    }
}

fn name_server(value: &OsStr) -> Result<String, String> {
    let got = text(value);
    match got.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) =>
        {
            Ok(got)
        }
        _ => Err("the name server has a host and a port; try 'node1:7700'".to_owned()),
    }
}

fn fanout(value: &OsStr) -> Result<StarterFanout, String> {
    match (text(value).as_str(), text(value).parse()) {
        (StarterFanout::ALL, _) => Ok(StarterFanout::All),
        (_, Ok(count)) if count > 0 => Ok(StarterFanout::Hosts(count)),
        _ => Err(format!("that is no number of hosts; try '32', or '{}'", StarterFanout::ALL)),
    }
}

fn radix(value: &OsStr) -> Result<u32, String> {
    match text(value).parse() {
        Ok(radix) if (2..=RADIX_MAX).contains(&radix) => Ok(radix),
        _ => Err("a node has 2 to 1024 nodes below it; try '4'".to_owned()),
    }
}

fn timeout(value: &OsStr) -> Result<Duration, String> {
    match seconds(value)? {
        Some(time) if (TIMEOUT_MIN..=TIMEOUT_MAX).contains(&time) => Ok(time),
        _ => Err("a node is lost after 1 to 3600 seconds; try '5'".to_owned()),
    }
}

fn start_timeout(value: &OsStr) -> Result<Duration, String> {
    match seconds(value)? {
        Some(time) if (TIMEOUT_MIN..=START_TIMEOUT_MAX).contains(&time) => Ok(time),
        _ => Err("a start is slow after 1 to 86400 seconds; try '60'".to_owned()),
    }
}

fn ports(value: &OsStr) -> Result<PortRange, String> {
    let range = PortRange::parse(&text(value));
    range.ok_or_else(|| "that is not a range of ports; try '5000-5100'".to_owned())
}

const FENCE_DATA: &[(&str, FenceData)] =
    &[("auto", FenceData::Auto), ("push", FenceData::Push), ("pull", FenceData::Pull)];

const HERE: &str = "local";
const LOCAL: &str = "local:";

/// Most node servers on one machine; each is a process.
const LOCAL_MAX: u32 = 4096;

/// Most nodes below one: each is a connection.
const RADIX_MAX: u32 = 1024;

/// Shortest and longest time: the system probes a silent connection once a second.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Longest `--start-timeout`, a day.
const START_TIMEOUT_MAX: Duration = Duration::from_secs(86400);
