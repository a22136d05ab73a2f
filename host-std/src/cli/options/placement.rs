//! Options of places: which rank runs on which processors.

use super::value::{choice, chosen, numbers, put, shown_numbers, text};
use super::{Opt, Topic::Placement};
use crate::settings::placement::{BindTo, MapBy};
use std::ffi::OsStr;

pub(super) const ROWS: &[Opt] = &[
    Opt::value(
        Placement,
        "bind-to",
        "WHAT",
        "bind each rank to: none (default), hwthread, core, numa, socket, or user:LIST, whose items (as \
         0-3+8) are the processors of one rank each",
        |settings, value| put(&mut settings.placement.bind_to, bind_to(value)),
        |settings| shown_bind_to(&settings.placement.bind_to),
    )
    .common(),
    Opt::value(
        Placement,
        "map-by",
        "WHAT",
        "let the next rank take the next: hwthread, core, numa or socket (default: as --bind-to)",
        |settings, value| put(&mut settings.placement.map_by, choice(value, MAP_BY).map(Some)),
        |settings| settings.placement.map_by.and_then(|map_by| chosen(&map_by, MAP_BY)),
    ),
    Opt::value(
        Placement,
        "display",
        "map",
        "show which rank is bound to what before the start",
        |settings, value| put(&mut settings.placement.display_map, choice(value, &[("map", true)])),
        |settings| settings.placement.display_map.then(|| "map".to_owned()),
    ),
];

fn bind_to(value: &OsStr) -> Result<BindTo, String> {
    match text(value).strip_prefix(USER) {
        Some(list) => user(list).map(BindTo::User).ok_or_else(|| {
            "that is no list of processors for each rank; try 'user:0-1,2-3', or 'user:0+4,1+5'"
                .to_owned()
        }),
        None => {
            choice(value, BIND_TO).map_err(|why| format!("{why}, and does not start with '{USER}'"))
        }
    }
}

/// One set for each rank, with commas between; `+` stands between the pieces of a set.
fn user(list: &str) -> Option<Vec<Vec<u32>>> {
    let sets = list.split(',').map(|set| numbers(&set.replace('+', ",")));
    sets.collect()
}

fn shown_bind_to(bind_to: &BindTo) -> Option<String> {
    match bind_to {
        BindTo::User(sets) => {
            let sets: Vec<String> = sets.iter().map(|set| shown_numbers(set, "+")).collect();
            Some(format!("{USER}{}", sets.join(",")))
        }
        other => chosen(other, BIND_TO),
    }
}

const USER: &str = "user:";

const BIND_TO: &[(&str, BindTo)] = &[
    ("none", BindTo::Nothing),
    ("hwthread", BindTo::HwThread),
    ("core", BindTo::Core),
    ("numa", BindTo::Numa),
    ("socket", BindTo::Socket),
];

const MAP_BY: &[(&str, MapBy)] = &[
    ("hwthread", MapBy::HwThread),
    ("core", MapBy::Core),
    ("numa", MapBy::Numa),
    ("socket", MapBy::Socket),
];
