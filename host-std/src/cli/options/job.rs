//! Options of the job: ranks, programs, and the listeners for further ranks.

use super::value::{add, count, path, put, ranks, shown_path, some_ranks, text};
use super::{Opt, Topic::Job};
use crate::settings::Universe;
use pmi_core::ids::Key;
use pmi_core::limits::PMI2_MAX_ATTRVALUE;
use std::ffi::OsStr;

pub(super) const ROWS: &[Opt] = &[
    Opt::value(
        Job,
        "ranks",
        "N",
        "how many ranks to start (required, unless ranks dial in); -np is the same",
        |settings, value| put(&mut settings.job.ranks, ranks(value).map(Some)),
        |settings| settings.job.ranks.map(|ranks| ranks.to_string()),
    )
    .with_letter('n')
    .common()
    .of_part(),
    Opt::value(
        Job,
        "wdir",
        "DIR",
        "the folder the program starts in (default: this one)",
        |settings, value| put(&mut settings.job.folder, path(value).map(Some)),
        |settings| shown_path(settings.job.folder.as_ref()),
    )
    .common()
    .of_part(),
    Opt::value(
        Job,
        "universe",
        "N",
        "how many processes there may be with those that ranks start, or endless (default: as -n)",
        |settings, value| put(&mut settings.job.universe, universe(value)),
        |settings| match settings.job.universe {
            Universe::Job => None,
            Universe::Of(universe) => Some(universe.to_string()),
            Universe::Endless => Some(ENDLESS.to_owned()),
        },
    ),
    Opt::value(
        Job,
        "attribute",
        "KEY=VALUE",
        "an attribute that ranks may ask for, as 'cartDims=4,4'; may be repeated",
        |settings, value| add(&mut settings.job.attributes, attribute(value)),
        |settings| {
            let pairs = settings.job.attributes.iter().map(|(key, value)| format!("{key}={value}"));
            Some(pairs.collect::<Vec<_>>().join(" ")).filter(|shown| !shown.is_empty())
        },
    )
    .adding_up(),
    Opt::value(
        Job,
        "listen",
        "ADDR:PORT",
        "where further ranks dial in over TCP; port 0 means any",
        |settings, value| put(&mut settings.job.listen, Ok(Some(text(value)))),
        |settings| settings.job.listen.clone(),
    ),
    Opt::value(
        Job,
        "websocket",
        "[ADDR:]PORT",
        "where pages dial in, to watch the run or to be further ranks; port 0 means any",
        |settings, value| put(&mut settings.job.websocket, Ok(Some(text(value)))),
        |settings| settings.job.websocket.clone(),
    ),
    Opt::value(
        Job,
        "origin",
        "URL",
        "pages from there may, too, as 'https://lab.example'; those of this machine always may",
        |settings, value| add(&mut settings.job.origins, Ok(text(value))),
        |settings| Some(settings.job.origins.join(" ")).filter(|shown| !shown.is_empty()),
    )
    .adding_up(),
    Opt::value(
        Job,
        "expect",
        "N",
        "how many ranks dial in; they come behind those that are started. With 0, ranks can open second \
         connections (PMI-2's 'init_oob') and nobody else comes",
        |settings, value| put(&mut settings.job.expected, some_ranks(value).map(Some)),
        |settings| settings.job.expected.map(|expected| expected.to_string()),
    ),
    Opt::value(
        Job,
        "secret-file",
        "FILE",
        "what they must know (default: nothing where only this user can connect, else one that is made for \
         the run)",
        |settings, value| put(&mut settings.job.secret_file, path(value).map(Some)),
        |settings| shown_path(settings.job.secret_file.as_ref()),
    ),
    Opt::switch(
        Job,
        "require-challenge",
        "they prove by PMI-2's challenge that they know it; a PMI_ID is not enough",
        |settings, on| settings.job.requires_challenge = on,
        |settings| settings.job.requires_challenge,
    ),
    Opt::switch(
        Job,
        "short-ids",
        "a PMI_ID from the secret has 31 bits, as the clients of MPICH and Flux read it; ours read 63",
        |settings, on| settings.job.has_short_ids = on,
        |settings| settings.job.has_short_ids,
    ),
    Opt::switch(
        Job,
        "tls",
        "they speak TLS, with a certificate that is made for this job",
        |settings, on| settings.job.is_secured = on,
        |settings| settings.job.is_secured,
    ),
    Opt::value(
        Job,
        "kvs-pairs",
        "N",
        "how many pairs of keys and values ranks may put, in all jobs of the run (default: 4194304)",
        |settings, value| put(&mut settings.job.kvs.pairs, count(value)),
        |settings| Some(settings.job.kvs.pairs.to_string()),
    ),
    Opt::value(
        Job,
        "kvs-bytes",
        "BYTES",
        "how many bytes these pairs may have, and what PMIx clients post likewise (default: 1073741824)",
        |settings, value| put(&mut settings.job.kvs.bytes, count(value)),
        |settings| Some(settings.job.kvs.bytes.to_string()),
    ),
];

fn universe(value: &OsStr) -> Result<Universe, String> {
    if value == ENDLESS { Ok(Universe::Endless) } else { ranks(value).map(Universe::Of) }
}

/// Cuts `KEY=VALUE`; the first `=` counts.
fn attribute(value: &OsStr) -> Result<(String, String), String> {
    let got = text(value);
    let fits = |key: &str, value: &str| {
        Key::check(key.as_bytes()).is_ok() && (1..PMI2_MAX_ATTRVALUE).contains(&value.len())
    };
    match got.split_once('=') {
        Some((key, value)) if fits(key, value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err(
            "that is not KEY=VALUE with a key of up to 63 and a value of up to 1023 bytes, as in \
                  'cartDims=4,4'"
                .to_owned(),
        ),
    }
}

const ENDLESS: &str = "endless";
