//! Options of `aprun`, as HPE's PALS and Cray's ALPS have it.
//!
//! Spec: `aprun(1)`.

use super::policies::{bound_by_depth, cpu_bind, depth, domains, gpu_bind, mem_bind};
use super::table::HydraEffect::{
    Help, HostFile, Info, OfAllocation, Only, Options, Own, Refused, Weak, Whole, WithDefaults,
};
use super::table::{HydraOption, flag, pair, same, word};

/// `aprun`'s options.
pub(crate) const OPTIONS: &[HydraOption] = &[
    word(&["n", "pes"], Own("ranks", same)),
    word(&["N", "pes-per-node"], Whole("ppn", same)),
    word(&["d", "cpus-per-pe"], Weak("--bind-to hwthread:N", depth))
        .note("hardware threads of a rank, unless `-cc` says otherwise"),
    word(&["cc", "cpu-binding"], WithDefaults("--bind-to", cpu_bind, bound_by_depth))
        .note("`none`, `core`, `numa`, `depth`, which is `-d`, `thread`, `list:0:1`"),
    word(&["gpu-bind"], Options("--gpu-bind", gpu_bind))
        .note("of PALS: `none`, `closest`, `list:0:1,2`; others as of `run`"),
    word(&["mem-bind"], Options("--mem-bind", mem_bind))
        .note("of PALS: `none`, `local`, `list:0:1`; others as of `run`"),
    word(&["L", "node-list"], Whole("hosts", same)),
    word(&["l", "node-list-file"], HostFile),
    pair(&["e", "environment-override"], Own("env", same)),
    word(&["wdir"], Own("wdir", same)),
    flag(&["b", "bypass-app-transfer", "q", "quiet", "cpu-binding-all"], Only(&[""], ""))
        .note("programs are not sent, and the launcher reports faults and nothing else"),
    word(&["j", "cpus-per-cu"], Only(&["0", "1"], "'-d' assigns hardware threads to a rank")),
    word(&["a", "architecture", "m", "memory-per-pe", "p", "protection-domain"], OfAllocation),
    word(&["S", "pes-per-numa-node"], Options("--map-by ppr:N:node", domains))
        .note("the memory domains of this host are counted"),
    word(
        &["sn", "numa-nodes-per-node", "sl", "numa-node-list"],
        Refused("'-cc' binds ranks; leave it out"),
    ),
    word(&["t", "cpu-time-limit"], Refused("'--timeout' limits the time of the run")),
    flag(&["V", "version"], Info),
    flag(&["h", "help"], Help),
];
