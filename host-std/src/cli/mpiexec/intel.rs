//! Options of Intel MPI and of HPE's PALS that neither Hydra nor Open MPI has.

use super::policies::{cpu_bind, depth};
use super::table::HydraEffect::{Only, Options, Refused, Several, Tool, ToolFile, Whole};
use super::table::{HydraOption, flag, same, word, yes};

/// Intel's options, then those of PALS.
pub(crate) const OPTIONS: &[HydraOption] = &[
    flag(&["localonly"], Several(&[("hosts", |_| Ok("localhost".into()))]))
        .note("hosts of a batch system are not used"),
    flag(&["print-rank-map"], Whole("display", |_| Ok("map".into()))),
    flag(&["ordered-output"], Only(&[""], "")).note("lines of ranks are never mixed"),
    word(&["s"], Whole("stdin", same)).note("of Intel MPI; Open MPI's `-s` is `--preload-binary`"),
    word(&["gtool"], Tool)
        .or("I_MPI_GTOOL")
        .note("`TOOL ARGUMENTS:RANKS;…`; these ranks are a program of their own (`MPI_APPNUM`)"),
    word(&["gtoolfile"], ToolFile).note("a line for each value of `-gtool`"),
    flag(
        &["check_mpi", "check-mpi"],
        Refused("libraries are not exchanged; link the program with them"),
    ),
    flag(&["gdb"], Whole("gdb", |_| Ok("all".into()))).note("a gdb for each rank"),
    word(
        &["gdba"],
        Refused("'pmi-host ps' lists the processes of a run, and 'gdb -p PID' attaches to one"),
    ),
    flag(&["prepend-timestamp"], Whole("timestamps", yes)).note("seconds since the start"),
    flag(&["rr"], Whole("ppn", |_| Ok("1".into()))),
    word(&["grr"], Whole("ppn", same)),
    flag(&["cleanup"], Only(&[""], ""))
        .note("the launcher always ends what its ranks have started"),
    flag(&["ilp64"], Refused("libraries are not exchanged; link the program with them")),
    word(&["umask"], Refused("ranks have that of the launcher; set it with 'umask' before")),
    flag(&["noconf"], Refused("files of Intel MPI are not read; leave it out")),
    word(&["cpu-bind"], Options("--bind-to", cpu_bind)).note(
        "of PALS: `none`, `core`, `numa`, `depth`, `thread`, `list:0:1`; `verbose,` shows the map",
    ),
    word(&["d", "depth"], Whole("bind-to", depth))
        .note("of PALS: hardware threads of a rank; Open MPI's `-d` is `--debug-devel`"),
    flag(&["line-buffer", "no-transfer", "abort-on-failure"], Only(&[""], "")).note("of PALS"),
    flag(&["no-abort-on-failure"], Whole("on-exit-error", |_| Ok("ignore".into()))).note("of PALS"),
    flag(&["transfer"], Whole("stage", yes)).note("of PALS: the program is removed after the run"),
    flag(&["vni", "no-vni", "single-node-vni"], Only(&[""], ""))
        .note("of PALS: the network is that of the system"),
    word(&["exclude-hosts"], Whole("exclude-hosts", same)),
    word(&["mem-bind"], Refused("memory is taken where it is touched first; try 'numactl'")),
    word(&["gpu-bind"], Refused("devices are not assigned; set CUDA_VISIBLE_DEVICES with '-env'")),
];
