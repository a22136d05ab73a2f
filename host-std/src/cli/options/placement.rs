//! Options of the order of ranks and of their processors.

use super::OptionSpec;
use super::Topic::Placement;
use super::value::{choice, chosen, numbers, put, ranks, text};
use crate::placement::HostOrder;
use crate::settings::Settings;
use crate::settings::placement::{BindTo, LauncherBinding, Unit, Units};
use pmi_host_base::ranges::ranges;
use std::ffi::OsStr;

pub(super) const ROWS: &[OptionSpec] = &[
    Placement.value(
        "bind-to",
        "WHAT",
        "bind each rank to: none (default), hwthread, core, l2cache, l3cache, numa, socket, several as \
         core:2, user:LIST with the processors of each (as 0-3+8), or by default as:ompi, as:slurm",
        |settings, value| put(&mut settings.placement.bind_to, bind_to(value)),
        |settings| shown_bind_to(&settings.placement.bind_to),
    )
    .common(),
    Placement.value(
        "map-by",
        "WHAT",
        "assign consecutive ranks to consecutive: slot (default), node or ppr:N:node, which is N on each, \
         among hosts; hwthread, core, l2cache, l3cache, numa or socket (default: as --bind-to) within each",
        map_by,
        |settings| match settings.hosts.order {
            HostOrder::Slot => settings.placement.map_by.and_then(shown_units),
            HostOrder::Node => Some(NODE.to_owned()),
            HostOrder::PerNode(ranks) => Some(format!("ppr:{ranks}:{NODE}")),
        },
    ),
    Placement.value(
        "cpu-set",
        "LIST",
        "use these processors of each host only, as 0-3,8",
        |settings, value| {
            let list = numbers(&text(value));
            let list = list.ok_or_else(|| "that is no list of processors; try '0-3,8'".to_owned());
            put(&mut settings.placement.processors, list.map(Some))
        },
        |settings| settings.placement.processors.as_ref().map(|list| ranges(list, ",")),
    ),
    Placement.switch(
        "overlap",
        "bind ranks without regard to processors that other runs of this user have or will have",
        |settings, on| settings.placement.overlaps = on,
        |settings| settings.placement.overlaps,
    ),
    Placement.value(
        "display",
        "map",
        "show the host and the processors of each rank before the start",
        |settings, value| put(&mut settings.placement.display_map, choice(value, &[("map", true)])),
        |settings| settings.placement.display_map.then(|| "map".to_owned()),
    ),
];

fn bind_to(value: &OsStr) -> Result<BindTo, String> {
    let got = text(value);
    if got == NOTHING {
        return Ok(BindTo::Nothing);
    }
    if let Some(name) = got.strip_prefix(AS) {
        return choice(name.as_ref(), LAUNCHERS).map(BindTo::Launcher);
    }
    match got.strip_prefix(USER) {
        Some(list) => user(list).map(BindTo::User).ok_or_else(|| {
            "that is not a list of processors for each rank; try 'user:0-1,2-3', or 'user:0+4,1+5'"
                .to_owned()
        }),
        None => units(value)
            .map(BindTo::Units)
            .map_err(|why| format!("{why}, nor '{NOTHING}', and does not start with '{USER}'")),
    }
}

/// Sets the order among hosts, or that within a host; the last one counts.
fn map_by(settings: &mut Settings, value: &OsStr) -> Result<(), String> {
    let got = text(value);
    let (order, map_by) = match got.strip_prefix("ppr:") {
        Some(counts) => match counts.strip_suffix(":node").map(|ranks| self::ranks(ranks.as_ref()))
        {
            Some(Ok(ranks)) => (HostOrder::PerNode(ranks), None),
            _ => {
                return Err(format!(
                    "'{got}' is not a number of ranks for each host; try 'ppr:2:node'"
                ));
            }
        },
        None if got == NODE => (HostOrder::Node, None),
        None if got == SLOT => (HostOrder::Slot, None),
        None => {
            let units = units(value);
            (
                HostOrder::Slot,
                Some(
                    units.map_err(|why| {
                        format!("{why}, nor '{SLOT}', '{NODE}' or 'ppr:N:{NODE}'")
                    })?,
                ),
            )
        }
    };
    (settings.hosts.order, settings.placement.map_by) = (order, map_by);
    Ok(())
}

/// Parses a unit with a count, as in `core:2`.
fn units(value: &OsStr) -> Result<Units, String> {
    let got = text(value);
    let (name, count) = got.split_once(':').unwrap_or((&got, "1"));
    let unit = choice(name.as_ref(), UNITS)?;
    match count.parse() {
        Ok(count) if count > 0 => Ok(Units { unit, count }),
        _ => Err(format!("'{count}' is not a number of them; try '{name}:2'")),
    }
}

/// Parses one set of processors for each rank, separated by commas; `+` separates the pieces of a set.
fn user(list: &str) -> Option<Vec<Vec<u32>>> {
    let sets = list.split(',').map(|set| numbers(&set.replace('+', ",")));
    sets.collect()
}

fn shown_bind_to(bind_to: &BindTo) -> Option<String> {
    match bind_to {
        BindTo::Nothing => Some(NOTHING.to_owned()),
        BindTo::Units(units) => shown_units(*units),
        BindTo::User(sets) => {
            let sets: Vec<String> = sets.iter().map(|set| ranges(set, "+")).collect();
            Some(format!("{USER}{}", sets.join(",")))
        }
        BindTo::Launcher(launcher) => chosen(launcher, LAUNCHERS).map(|name| format!("{AS}{name}")),
    }
}

fn shown_units(Units { unit, count }: Units) -> Option<String> {
    let name = chosen(&unit, UNITS)?;
    Some(if count == 1 { name } else { format!("{name}:{count}") })
}

const NOTHING: &str = "none";
const NODE: &str = "node";
const SLOT: &str = "slot";
const USER: &str = "user:";
const AS: &str = "as:";

const LAUNCHERS: &[(&str, LauncherBinding)] = &[
    ("library", LauncherBinding::OfLibrary),
    ("ompi", LauncherBinding::OpenMpi),
    ("ompi-threads", LauncherBinding::OpenMpiThreads),
    ("ompi5", LauncherBinding::Prrte),
    ("ompi5-threads", LauncherBinding::PrrteThreads),
    ("ompi5-ordered", LauncherBinding::PrrteOrdered),
    ("intel", LauncherBinding::Intel),
    ("slurm", LauncherBinding::Slurm),
];

const UNITS: &[(&str, Unit)] = &[
    ("hwthread", Unit::HwThread),
    ("core", Unit::Core),
    ("l1cache", Unit::Cache(1)),
    ("l2cache", Unit::Cache(2)),
    ("l3cache", Unit::Cache(3)),
    ("numa", Unit::Numa),
    ("socket", Unit::Socket),
    ("machine", Unit::Machine),
];
