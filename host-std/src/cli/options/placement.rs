//! Options of the order of ranks, and of their processors, memory and devices.

use super::OptionSpec;
use super::Topic::Placement;
use super::value::{choice, chosen, numbers, path, put, ranks, shown_path, text};
use crate::placement::HostOrder;
use crate::settings::Settings;
use crate::settings::placement::{
    BindTo, Display, GpuBind, GpuExpose, GpuUnit, LauncherBinding, LauncherGpus, MapBy, MapDevice,
    MemoryBinding, Unit, Units,
};
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
         among hosts; hwthread, core, l2cache, l3cache, numa or socket (default: as --bind-to) within each; \
         gpu or nic binds ranks near each device in turn; auto chooses memory first, then processors and \
         GPUs near it",
        map_by,
        |settings| match settings.hosts.order {
            HostOrder::Slot => settings.placement.map_by.and_then(shown_map_by),
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
        "place ranks without regard to processors and GPUs that other runs of this user have or will have",
        |settings, on| settings.placement.overlaps = on,
        |settings| settings.placement.overlaps,
    ),
    Placement.value(
        "threads-per-rank",
        "N",
        "threads of each rank: sets OMP_NUM_THREADS and OMP_PLACES, and the number of pieces that \
         --bind-to gives each rank",
        |settings, value| {
            put(&mut settings.placement.threads, number(value, "threads").map(Some))
        },
        |settings| settings.placement.threads.map(|threads| threads.to_string()),
    ),
    Placement.value(
        "mem-bind",
        "WHAT",
        "memory of each rank: none (default), local for the domains of its processors, preferred for the \
         same until they are full, interleave, hbm for high bandwidth memory near it, or list:LIST with \
         the domains of each (as list:0,1+2)",
        |settings, value| put(&mut settings.placement.memory, mem_bind(value)),
        |settings| shown_mem_bind(settings.placement.memory.as_ref()),
    ),
    Placement.value(
        "gpus-per-rank",
        "N",
        "assign N GPUs, or parts of GPUs that can be used alone, to each rank",
        |settings, value| {
            put(&mut settings.placement.gpus.per_rank, number(value, "GPUs").map(Some))
        },
        |settings| settings.placement.gpus.per_rank.map(|gpus| gpus.to_string()),
    ),
    Placement.value(
        "gpu-bind",
        "WHAT",
        "assign the closest GPUs to the processors of each rank (default), packed for consecutive ones, \
         list:LIST with the GPUs of each (as list:0+1,2+3), or as:hydra, as:intel, as:slurm",
        |settings, value| put(&mut settings.placement.gpus.bind, gpu_bind(value)),
        |settings| shown_gpu_bind(&settings.placement.gpus.bind),
    ),
    Placement.value(
        "gpu-expose",
        "HOW",
        "mask hides other GPUs from each rank (default), order shows its own GPUs first, env only names them",
        |settings, value| put(&mut settings.placement.gpus.expose, choice(value, EXPOSE)),
        |settings| chosen(&settings.placement.gpus.expose, EXPOSE),
    ),
    Placement.value(
        "gpu-share",
        "N",
        "let up to N ranks have the same GPU (default: 1)",
        |settings, value| put(&mut settings.placement.gpus.share, number(value, "ranks")),
        |settings| Some(settings.placement.gpus.share.to_string()),
    ),
    Placement.value(
        "gpu-unit",
        "WHAT",
        "what counts as one GPU: part (default), as a tile or a MIG instance, or device, all tiles of a GPU",
        |settings, value| put(&mut settings.placement.gpus.unit, choice(value, GPU_UNITS)),
        |settings| chosen(&settings.placement.gpus.unit, GPU_UNITS),
    ),
    Placement.value(
        "nics-per-rank",
        "N",
        "name the N nearest network cards to the libraries of each rank (default: 0, they choose)",
        |settings, value| {
            let cards = text(value).parse();
            let wrong = |_| "that is not a number of network cards; try '1'".to_owned();
            put(&mut settings.placement.nics, cards.map_err(wrong))
        },
        |settings| Some(settings.placement.nics.to_string()),
    ),
    Placement.value(
        "topology",
        "FILE",
        "take processors, memory and devices of each host from its FILE, as 'pmi-host topology --of xml' \
         writes it",
        |settings, value| put(&mut settings.placement.topology, path(value).map(Some)),
        |settings| shown_path(settings.placement.topology.as_ref()),
    ),
    Placement.value(
        "display",
        "map",
        "show the place of each rank before the start on standard error; map=svg draws a picture",
        |settings, value| put(&mut settings.placement.display, choice(value, DISPLAY).map(Some)),
        |settings| chosen(&settings.placement.display?, DISPLAY),
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
            let words = MAP_BY.iter().find(|(word, _)| *word == got).map(|(_, map_by)| *map_by);
            let others = format!("'{SLOT}', '{NODE}', 'ppr:N:{NODE}', 'gpu', 'nic' or 'auto'");
            let units = || units(value).map_err(|why| format!("{why}, nor {others}"));
            (HostOrder::Slot, Some(words.map_or_else(|| units().map(MapBy::Units), Ok)?))
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

/// Number of things that a rank has: one at least.
fn number(value: &OsStr, what: &str) -> Result<u32, String> {
    match text(value).parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("that is not a number of {what}; try '2'")),
    }
}

fn mem_bind(value: &OsStr) -> Result<Option<MemoryBinding>, String> {
    let got = text(value);
    match got.strip_prefix(LIST) {
        Some(list) => user(list).map(|sets| Some(MemoryBinding::List(sets))).ok_or_else(|| {
            "that is not a list of memory domains for each rank; try 'list:0,1', or 'list:0+1'"
                .to_owned()
        }),
        None => {
            choice(value, MEMORY).map_err(|why| format!("{why}, and does not start with '{LIST}'"))
        }
    }
}

fn gpu_bind(value: &OsStr) -> Result<GpuBind, String> {
    let got = text(value);
    if let Some(name) = got.strip_prefix(AS) {
        return choice(name.as_ref(), GPU_LAUNCHERS).map(GpuBind::Launcher);
    }
    match got.strip_prefix(LIST) {
        Some(list) => user(list).map(GpuBind::List).ok_or_else(|| {
            "that is not a list of GPUs for each rank; try 'list:0,1', or 'list:0+1,2+3'".to_owned()
        }),
        None => choice(value, GPU_BIND)
            .map_err(|why| format!("{why}, and does not start with '{LIST}'")),
    }
}

/// Parses one set of numbers for each rank, separated by commas; `+` separates the pieces of a set.
fn user(list: &str) -> Option<Vec<Vec<u32>>> {
    let sets = list.split(',').map(|set| numbers(&set.replace('+', ",")));
    sets.collect()
}

fn shown_bind_to(bind_to: &BindTo) -> Option<String> {
    match bind_to {
        BindTo::Nothing => Some(NOTHING.to_owned()),
        BindTo::Units(units) => shown_units(*units),
        BindTo::User(sets) => Some(format!("{USER}{}", shown_sets(sets))),
        BindTo::Launcher(launcher) => chosen(launcher, LAUNCHERS).map(|name| format!("{AS}{name}")),
    }
}

fn shown_map_by(map_by: MapBy) -> Option<String> {
    match map_by {
        MapBy::Units(units) => shown_units(units),
        MapBy::Device(_) | MapBy::Auto => chosen(&map_by, MAP_BY),
    }
}

fn shown_mem_bind(memory: Option<&MemoryBinding>) -> Option<String> {
    match memory {
        Some(MemoryBinding::List(sets)) => Some(format!("{LIST}{}", shown_sets(sets))),
        word => chosen(&word.cloned(), MEMORY),
    }
}

fn shown_gpu_bind(bind: &GpuBind) -> Option<String> {
    match bind {
        GpuBind::List(sets) => Some(format!("{LIST}{}", shown_sets(sets))),
        GpuBind::Launcher(launcher) => {
            chosen(launcher, GPU_LAUNCHERS).map(|name| format!("{AS}{name}"))
        }
        word => chosen(word, GPU_BIND),
    }
}

/// Inverse of [`user`].
fn shown_sets(sets: &[Vec<u32>]) -> String {
    let sets: Vec<String> = sets.iter().map(|set| ranges(set, "+")).collect();
    sets.join(",")
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
const LIST: &str = "list:";

const MAP_BY: &[(&str, MapBy)] = &[
    ("gpu", MapBy::Device(MapDevice::Gpu)),
    ("nic", MapBy::Device(MapDevice::Nic)),
    ("auto", MapBy::Auto),
];

const MEMORY: &[(&str, Option<MemoryBinding>)] = &[
    (NOTHING, None),
    ("local", Some(MemoryBinding::Local)),
    ("preferred", Some(MemoryBinding::Preferred)),
    ("interleave", Some(MemoryBinding::Interleave)),
    ("hbm", Some(MemoryBinding::HighBandwidth)),
];

const DISPLAY: &[(&str, Display)] = &[("map", Display::Table), ("map=svg", Display::Picture)];

const GPU_BIND: &[(&str, GpuBind)] = &[("closest", GpuBind::Closest), ("packed", GpuBind::Packed)];

const GPU_LAUNCHERS: &[(&str, LauncherGpus)] = &[
    ("hydra", LauncherGpus::Hydra),
    ("intel", LauncherGpus::Intel),
    ("slurm", LauncherGpus::Slurm),
];

const GPU_UNITS: &[(&str, GpuUnit)] = &[("part", GpuUnit::Part), ("device", GpuUnit::Device)];

const EXPOSE: &[(&str, GpuExpose)] =
    &[("mask", GpuExpose::Mask), ("order", GpuExpose::Order), ("env", GpuExpose::Env)];

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
