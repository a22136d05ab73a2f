//! Options of IBM's `jsrun`. A resource set is one rank here.
//!
//! Spec: `jsrun(1)` of IBM's Job Step Manager.

use super::policies::modifier;
use super::table::HydraEffect::{Help, Info, OfAllocation, Only, Own, Refused, Whole};
use super::table::{HydraOption, flag, pair, same, word};
use std::ffi::{OsStr, OsString};

/// `jsrun`'s options.
pub(crate) const OPTIONS: &[HydraOption] = &[
    word(&["n", "nrs", "p", "np"], Own("ranks", same)).note("a resource set is one rank"),
    word(&["a", "tasks_per_rs"], Only(&["1"], "give the number of ranks with '-n'")),
    word(&["r", "rs_per_host"], Whole("ppn", same)),
    word(&["c", "cpu_per_rs"], Whole("bind-to", cores)),
    word(&["b", "bind"], Only(&["rs", "packed:1"], "'-c' assigns the cores of a rank")),
    word(&["d", "launch_distribution"], Only(&["packed"], "leave it out")),
    word(&["g", "gpu_per_rs"], Only(&["0"], "devices are not assigned; set CUDA_VISIBLE_DEVICES")),
    pair(&["E", "env"], Own("env", same)),
    word(&["h", "chdir"], Own("wdir", same)),
    word(&["o", "stdio_stdout"], Whole("stdout-to", same)),
    word(&["k", "stdio_stderr"], Whole("stderr-to", same)),
    word(&["X", "exit_on_error"], Only(&["1"], "'--on-exit-error ignore' lets the others go on")),
    word(&["l", "latency_priority", "m", "memory_per_rs", "M", "smpiargs"], OfAllocation),
    word(&["U", "erf_input", "K", "rs_per_socket"], Refused("'-r' and '-c' place ranks")),
    flag(&["V", "version"], Info),
    flag(&["help"], Help),
];

/// Cores of a rank.
fn cores(value: &OsStr) -> Result<OsString, String> {
    modifier("core", &value.to_string_lossy()).map(Into::into)
}
