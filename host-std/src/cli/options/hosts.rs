//! Options of hosts, and of the order in which they take ranks.

use super::OptionSpec;
use super::Topic::Hosts;
use super::value::{numbers, path, put, ranks, text};
use crate::placement::{HostList, RankMap};
use crate::settings::hosts::HostSource;
use pmi_host_base::ranges::Ranks;
use std::ffi::OsStr;

pub(super) const ROWS: &[OptionSpec] = &[
    Hosts
        .value(
            "hosts",
            "LIST",
            "hosts of the ranks, as node1,node2:4,n[001-128]:2, with the number of ranks of each (default: \
             1); -host and -H are the same",
            |settings, value| {
                let list = HostList::parse(&text(value)).map(HostSource::List);
                put(&mut settings.hosts.source, list.map(Some))
            },
            |settings| match &settings.hosts.source {
                Some(HostSource::List(list)) => Some(list.to_string()),
                _ => None,
            },
        )
        .common()
        .of_part(),
    Hosts
        .value(
            "hostfile",
            "FILE",
            "the same in a file, with a host on each line, as node1:4, or node1 slots=4 max_slots=8; -f and \
             -machinefile are the same",
            |settings, value| {
                let file = path(value).map(HostSource::File);
                put(&mut settings.hosts.source, file.map(Some))
            },
            |settings| match &settings.hosts.source {
                Some(HostSource::File(file)) => Some(file.display().to_string()),
                _ => None,
            },
        )
        .of_part(),
    Hosts
        .value(
            "het-group",
            "LIST",
            "the same of these components of a heterogeneous job of Slurm, as 0 or 0-2,4; all components by \
             default",
            |settings, value| {
                let numbers = numbers(&text(value)).map(HostSource::Components);
                let wrong = || "that is no list of components; try '0' or '0-1'".to_owned();
                put(&mut settings.hosts.source, numbers.ok_or_else(wrong).map(Some))
            },
            |settings| match &settings.hosts.source {
                Some(HostSource::Components(numbers)) => {
                    Some(numbers.iter().copied().collect::<Ranks>().to_string())
                }
                _ => None,
            },
        )
        .of_part(),
    Hosts.switch(
        "allocation",
        "use the hosts that Slurm, Flux, PBS, LSF, OAR, Grid Engine or Cobalt has allocated (mpiexec does by \
         default)",
        |settings, on| settings.hosts.allocation = on,
        |settings| settings.hosts.allocation,
    ),
    Hosts.value(
        "exclude-hosts",
        "LIST",
        "hosts of the list or the allocation that are not used, as n7,n[12-14]; others may be named, too",
        |settings, value| put(&mut settings.hosts.excluded, HostList::parse(&text(value)).map(Some)),
        |settings| settings.hosts.excluded.as_ref().map(ToString::to_string),
    ),
    Hosts.value(
        "nodes",
        "N",
        "use the first N hosts only of the list or the allocation (default: all)",
        |settings, value| put(&mut settings.hosts.nodes, nodes(value).map(Some)),
        |settings| settings.hosts.nodes.map(|nodes| nodes.to_string()),
    ),
    Hosts.switch(
        "local",
        "place ranks on this host, too, if the list or the allocation has it",
        |settings, on| settings.hosts.local = on,
        |settings| settings.hosts.local,
    ),
    Hosts.value(
        "ppn",
        "N",
        "number of ranks of each host before the next one has its turn, in place of that of the list; \
         -perhost and -npernode are the same",
        |settings, value| put(&mut settings.hosts.ppn, per_host(value).map(Some)),
        |settings| settings.hosts.ppn.map(|ranks| ranks.to_string()),
    ),
    Hosts.value(
        "rankmap",
        "MAP",
        "number of the host of each rank, as 0,1,1,0, or (0,2,4) for 4 ranks on each of hosts 0 and 1",
        |settings, value| put(&mut settings.hosts.rank_map, RankMap::parse(&text(value)).map(Some)),
        |settings| settings.hosts.rank_map.as_ref().map(ToString::to_string),
    ),
    Hosts.switch(
        "oversubscribe",
        "place more ranks on a host than it has slots",
        |settings, on| settings.hosts.oversubscribe = on,
        |settings| settings.hosts.oversubscribe,
    ),
    Hosts.value(
        "min-nodes",
        "N",
        "leave out hosts on which no node server can be started, as long as N hosts are left",
        |settings, value| put(&mut settings.hosts.min_nodes, nodes(value).map(Some)),
        |settings| settings.hosts.min_nodes.map(|nodes| nodes.to_string()),
    ),
    Hosts.switch(
        "start-early",
        "start the ranks of each host as soon as it has joined the run; hosts whose start is slow join later",
        |settings, on| settings.hosts.starts_early = on,
        |settings| settings.hosts.starts_early,
    ),
    Hosts.switch(
        "all-hosts",
        "let hosts without ranks take part in the run, for spawned ranks, and spawns add further ones",
        |settings, on| settings.hosts.all_hosts = on,
        |settings| settings.hosts.all_hosts,
    ),
];

fn nodes(value: &OsStr) -> Result<u32, String> {
    let number = text(value).parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "that is not a number of hosts; try '2'".to_owned())
}

fn per_host(value: &OsStr) -> Result<u32, String> {
    ranks(value).map_err(|_| "that is not a number of ranks for each host; try '4'".to_owned())
}
