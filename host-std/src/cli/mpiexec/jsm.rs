//! Options of IBM's `jsrun`. A resource set is one rank here.
//!
//! Spec: `jsrun(1)` of IBM's Job Step Manager.

use super::ReadContext;
use super::policies::{Expansion, modifier, text};
use super::table::HydraEffect::{
    Help, Info, OfAllocation, Only, Options, Own, Refused, Whole, WithoutEffect,
};
use super::table::{HydraOption, flag, pair, same, word};
use std::ffi::{OsStr, OsString};

/// `jsrun`'s options.
pub(crate) const OPTIONS: &[HydraOption] = &[
    word(&["n", "nrs", "p", "np"], Own("ranks", same)).note("a resource set is one rank"),
    word(&["a", "tasks_per_rs"], Only(&["1"], "give the number of ranks with '-n'")),
    word(&["r", "rs_per_host"], Whole("ppn", same)),
    word(&["c", "cpu_per_rs"], Whole("bind-to", cores)),
    word(&["b", "bind"], Options("--bind-to core:N", bind)).note("`rs`, `none` and `packed:N`"),
    word(&["d", "launch_distribution"], Options("--map-by --ppn", distribution))
        .note("`packed`, `cyclic` and `plane:N`"),
    word(&["g", "gpu_per_rs"], Options("--gpus-per-rank", gpus))
        .note("a number; without the option, and with 0, ranks see all GPUs"),
    pair(&["E", "env"], Own("env", same)),
    word(&["h", "chdir"], Own("wdir", same)),
    word(&["o", "stdio_stdout"], Whole("stdout-to", same)),
    word(&["k", "stdio_stderr"], Whole("stderr-to", same)),
    word(&["X", "exit_on_error"], Only(&["1"], "'--on-exit-error ignore' lets the others go on")),
    word(&["m", "memory_per_rs"], OfAllocation),
    word(&["l", "latency_priority"], WithoutEffect("'-r' and '-c' place ranks")),
    word(&["M", "smpiargs"], WithoutEffect("set the variables of the MPI library with '-E'")),
    word(&["U", "erf_input", "K", "rs_per_socket"], Refused("'-r' and '-c' place ranks")),
    flag(&["V", "version"], Info),
    flag(&["help"], Help),
];

/// `-b WHAT`. The processors of a resource set are those of `-c`.
fn bind(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let bound = match text(value)?.split_once(':') {
        None if value == "rs" => return Ok(Vec::new()),
        None if value == "none" => "none".to_owned(),
        Some(("packed", cores)) => modifier("core", cores)?,
        _ => return Err("there are rs, none and packed:N; '-c' assigns the cores of a rank".into()),
    };
    Ok(vec![("bind-to", bound.into())])
}

/// `-d WHAT`: order of the hosts.
fn distribution(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    let given = match text(value)?.split_once(':') {
        None if value == "packed" => ("map-by", "slot".into()),
        None if value == "cyclic" => ("map-by", "node".into()),
        Some(("plane", ranks)) => ("ppn", ranks.into()),
        _ => return Err("there are packed, cyclic and plane:N".to_owned()),
    };
    Ok(vec![given])
}

/// `-g N`.
fn gpus(value: &OsStr, _: &ReadContext<'_>) -> Expansion {
    match text(value)? {
        "0" => Ok(Vec::new()),
        "ALL_GPUS" => {
            Err("name the number of GPUs of a rank, as 'pmi-host topology' counts them".to_owned())
        }
        count => Ok(vec![("gpus-per-rank", count.into())]),
    }
}

/// Cores of a rank.
fn cores(value: &OsStr) -> Result<OsString, String> {
    modifier("core", &value.to_string_lossy()).map(Into::into)
}
