//! Options of the job: ranks, programs, and the listeners for further ranks.

use super::OptionSpec;
use super::Topic::Job;
use super::value::{RANKS_MAX, add, count, expected, path, put, ranks, shown_path, text};
use crate::launch::plan::spawn_request::largest_in_set;
use crate::settings::Universe;
use pmi_core::ids::Key;
use pmi_core::limits::PMI2_MAX_ATTRVALUE;
use std::ffi::OsStr;

pub(super) const ROWS: &[OptionSpec] = &[
    Job.value(
        "ranks",
        "N",
        "number of ranks to start (required, unless all ranks connect over TCP); -np is the same",
        |settings, value| put(&mut settings.job.ranks, ranks(value).map(Some)),
        |settings| settings.job.ranks.map(|ranks| ranks.to_string()),
    )
    .with_letter('n')
    .common()
    .of_part(),
    Job.value(
        "wdir",
        "DIR",
        "working directory of the program (default: the current one)",
        |settings, value| put(&mut settings.job.directory, path(value).map(Some)),
        |settings| shown_path(settings.job.directory.as_ref()),
    )
    .common()
    .of_part(),
    Job.value(
        "path",
        "DIRS",
        "directories where programs without a slash are searched (default: those of PATH)",
        |settings, value| put(&mut settings.job.search, Ok(Some(value.to_owned()))),
        |settings| settings.job.search.as_ref().map(|search| text(search)),
    )
    .of_part(),
    Job.value(
        "soft",
        "SET",
        "numbers of ranks that will do, as '2,4:8:2': the largest one up to the number of ranks, and up to \
         the slots with --no-oversubscribe, is started",
        |settings, value| put(&mut settings.job.soft, set(value).map(Some)),
        |settings| settings.job.soft.clone(),
    )
    .of_part(),
    Job.value(
        "universe",
        "N",
        "largest number of processes, including those that ranks spawn; hosts for the slots of all hosts, \
         or endless (default: the slots of hosts that are listed or allocated; without them PMIx programs \
         read the number of processors, and PMI programs none)",
        |settings, value| put(&mut settings.job.universe, universe(value)),
        |settings| match settings.job.universe {
            Universe::Slots => None,
            Universe::Of(universe) => Some(universe.to_string()),
            Universe::Hosts => Some(HOSTS.to_owned()),
            Universe::Endless => Some(ENDLESS.to_owned()),
        },
    ),
    Job.value(
        "attribute",
        "KEY=VALUE",
        "an attribute that ranks may request, as 'cartDims=4,4'; may be repeated",
        |settings, value| add(&mut settings.job.attributes, attribute(value)),
        |settings| {
            let pairs = settings.job.attributes.iter().map(|(key, value)| format!("{key}={value}"));
            Some(pairs.collect::<Vec<_>>().join(" ")).filter(|shown| !shown.is_empty())
        },
    )
    .adding_up(),
    Job.value(
        "umask",
        "MASK",
        "mask of permissions of new files, in octal digits (default: that of the launcher)",
        |settings, value| put(&mut settings.job.umask, mask(value).map(Some)),
        |settings| settings.job.umask.map(|mask| format!("{mask:03o}")),
    ),
    Job.value(
        "listen",
        "ADDR:PORT",
        "address for further ranks, which connect over TCP; port 0 selects any",
        |settings, value| put(&mut settings.job.listen, Ok(Some(text(value)))),
        |settings| settings.job.listen.clone(),
    ),
    Job.value(
        "websocket",
        "[ADDR:]PORT",
        "address for web pages, which observe the run or connect as further ranks; port 0 selects \
        any",
        |settings, value| put(&mut settings.job.websocket, Ok(Some(text(value)))),
        |settings| settings.job.websocket.clone(),
    ),
    Job.value(
        "origin",
        "URL",
        "further origin of pages that may connect, as 'https://lab.example'; pages of this \
        machine always may",
        |settings, value| add(&mut settings.job.origins, Ok(text(value))),
        |settings| Some(settings.job.origins.join(" ")).filter(|shown| !shown.is_empty()),
    )
    .adding_up(),
    Job.value(
        "expect",
        "N|NODESxRANKS",
        "number of further ranks that connect; their numbers follow those of the started ranks. \
         Each is a node of its own; with '2x4', the first four are one node and the next four \
         another, as the ranks of two guests; lists have commas. With 0, only second connections \
         of ranks (PMI-2's 'init_oob') are accepted",
        |settings, value| put(&mut settings.job.expected, expected(value).map(Some)),
        |settings| settings.job.expected.as_ref().map(ToString::to_string),
    ),
    Job.value(
        "secret-file",
        "FILE",
        "secret of ranks that connect (default: none where only this user can connect, else one \
         that is generated for the run)",
        |settings, value| put(&mut settings.job.proof.secret_file, path(value).map(Some)),
        |settings| shown_path(settings.job.proof.secret_file.as_ref()),
    ),
    Job.switch(
        "require-challenge",
        "ranks prove the secret by PMI-2's challenge; a PMI_ID is not sufficient",
        |settings, on| settings.job.proof.requires_challenge = on,
        |settings| settings.job.proof.requires_challenge,
    ),
    Job.switch(
        "short-ids",
        "limit a PMI_ID from the secret to 31 bits, as the clients of MPICH and Flux read it \
        (default: 63)",
        |settings, on| settings.job.proof.has_short_ids = on,
        |settings| settings.job.proof.has_short_ids,
    ),
    Job.value(
        "munge",
        "SOCKET",
        "ranks that connect may prove by a credential of munge that they run as this user; SOCKET is that \
        of munged, as '/run/munge/munge.socket.2'",
        |settings, value| put(&mut settings.job.proof.munge, path(value).map(Some)),
        |settings| shown_path(settings.job.proof.munge.as_ref()),
    ),
    Job.switch(
        "tls",
        "ranks that connect use TLS, with a certificate that is generated for this job",
        |settings, on| settings.job.is_secured = on,
        |settings| settings.job.is_secured,
    ),
    Job.value(
        "kvs-pairs",
        "N",
        "largest number of key-value pairs that ranks may put, in all jobs of the run (default: \
        4194304)",
        |settings, value| put(&mut settings.job.kvs.pairs, count(value)),
        |settings| Some(settings.job.kvs.pairs.to_string()),
    ),
    Job.value(
        "kvs-bytes",
        "BYTES",
        "largest size of these pairs in bytes, and that of the data of PMIx clients (default: \
        1073741824)",
        |settings, value| put(&mut settings.job.kvs.bytes, count(value)),
        |settings| Some(settings.job.kvs.bytes.to_string()),
    ),
];

fn set(value: &OsStr) -> Result<String, String> {
    let set = text(value);
    match largest_in_set(&set, RANKS_MAX) {
        Some(1..) => Ok(set),
        _ => {
            Err("that is no set of numbers of ranks; try '2,4:8:2', which is 2, 4, 6 or 8"
                .to_owned())
        }
    }
}

fn mask(value: &OsStr) -> Result<u32, String> {
    let mask = u32::from_str_radix(&text(value), 8).ok().filter(|mask| *mask <= 0o777);
    mask.ok_or_else(|| "that is no mask of permissions; try '022'".to_owned())
}

fn universe(value: &OsStr) -> Result<Universe, String> {
    match value.to_str() {
        Some(ENDLESS) => Ok(Universe::Endless),
        Some(HOSTS) => Ok(Universe::Hosts),
        _ => ranks(value).map(Universe::Of),
    }
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
const HOSTS: &str = "hosts";
