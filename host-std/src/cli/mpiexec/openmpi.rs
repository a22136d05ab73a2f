//! Options of Open MPI's `mpirun` (4.1 and 5.0) and of `prterun` that Hydra does not have.

use super::policies::{
    append, assignment, bound_to_core, by_core, display, export, mca, modifier, output,
    output_files, pmix_mca, ppr, prefix, prepend, prte_mca, runtime_options, sockets,
    stream_buffering, tune, with_ft,
};
use super::reader::FORWARDED;
use super::table::HydraEffect::{
    ConfigFile, HostFile, HwThreads, Info, Only, Options, Own, OwnIfLater, OwnOptions, Personality,
    Preview, RankBy, RankFile, Refused, Terminals, Whole, WithDefaults, WithoutEffect,
};
use super::table::{HydraOption, flag, pair, same, word, yes};
use crate::cli::layers::PERSONALITY;
use std::ffi::{OsStr, OsString};

/// Open MPI's options, by subject.
pub(crate) const OPTIONS: &[HydraOption] = &[
    // Ranks and programs.
    word(&["c"], Own("ranks", same)),
    word(&["app"], ConfigFile).note("a line for each program"),
    word(&["wd"], Own("wdir", same)),
    word(&["personality"], Personality)
        .or(PERSONALITY)
        .note(
            "`ompi`, `ompi5`, `prte` or `prrte`, and `hydra`, `mpich`, `intel` or `pals`; the variable \
             PMI_HOST_PERSONALITY names it as well",
        ),
    flag(&["V"], Info),
    flag(&["q", "quiet"], Only(&[""], "")).note("the launcher reports faults and nothing else"),
    flag(&["allow-run-as-root"], Only(&[""], "")).note("that is always allowed"),
    flag(&["do-not-launch"], Preview),
    flag(&["do-not-resolve"], Only(&[""], "")).note("names are passed to the starter as they are"),
    flag(&["index-argv-by-rank"], Refused("write a program for each rank, with ':' between them")),
    word(&["path"], OwnIfLater("path", same)),
    word(&["prefix", "app-pmix-prefix"], Options("--env", prefix))
        .note("`bin` and `lib` below it precede PATH and LD_LIBRARY_PATH of the ranks"),
    flag(&["noprefix", "no-app-prefix"], Only(&[""], "")).note("nothing is added to PATH"),
    word(&["pmix-prefix"], Refused("this launcher needs no PMIx library; leave it out")),
    word(&["pset"], Refused("named sets of processes are not supported; leave it out")),
    // Environment and parameters.
    word(&["x"], OwnOptions("--env", export)).note(
        "`NAME`, `NAME=VALUE` or `NAME*`; in front of the first program for all, under the names of Open \
         MPI 4 for this one",
    ),
    pair(&["mca", "omca", "gmca", "gomca"], Options("--env", mca)).note(
        "`OMPI_MCA_NAME` for the ranks; parameters of the launcher for hosts, mapping, binding, labels and \
         the remote shell have the effect of their options, and `mca_base_env_list NAME=VALUE;NAME` that of \
         `-x`",
    ),
    pair(&["prtemca", "gprtemca"], Options("--env", prte_mca)).note("`PRTE_MCA_NAME`, likewise"),
    pair(&["pmixmca", "gpmixmca"], Options("--env", pmix_mca)).note("`PMIX_MCA_NAME`"),
    word(&["tune", "am"], Options("--env", tune)).note("files with `-x`, `--mca` and `NAME = VALUE`"),
    word(&["set-env"], Options("--env", assignment)),
    pair(&["prepend-env"], Options("--env", prepend)).note("separated by `:`"),
    pair(&["append-env"], Options("--env", append)).note("likewise"),
    word(&["unset-env"], Whole("unset-env", same)),
    word(&["with-ft"], Options("--env --on-exit-error", with_ft)),
    // Hosts and placement.
    word(&["default-hostfile"], HostFile),
    flag(&["pernode"], Whole("map-by", |_| Ok("ppr:1:node".into()))),
    word(&["npersocket"], Options("--map-by ppr:N:node", sockets))
        .note("the sockets of this host are counted"),
    word(&["ppr"], Options("--map-by ppr:N:node", ppr)),
    word(&["rank-by"], RankBy).note(
        "`slot` and `fill`, the default; `core` and `hwthread` where ranks are mapped by these, and no \
         effect elsewhere, which a message says",
    ),
    flag(&["bynode", "loadbalance"], Whole("map-by", |_| Ok("node".into()))),
    flag(&["byslot"], Whole("map-by", |_| Ok("slot".into()))),
    flag(&["bycore"], WithDefaults("--map-by core", by_core, bound_to_core)),
    flag(&["bind-to-core"], Whole("bind-to", |_| Ok("core".into()))),
    flag(&["bind-to-socket"], Whole("bind-to", |_| Ok("socket".into()))),
    flag(&["bind-to-none"], Whole("bind-to", |_| Ok("none".into()))),
    word(&["cpus-per-proc", "cpus-per-rank"], Whole("bind-to", cores)),
    word(&["cpu-set", "cpu-list"], Whole("cpu-set", same))
        .note("a processor for each rank with `--bind-to cpu-list`"),
    flag(&["use-hwthread-cpus"], HwThreads)
        .note("without a number of ranks there is one for each hardware thread"),
    flag(&["nolocal"], Whole("local", |_| Ok("false".into()))),
    word(&["rankfile", "rf"], RankFile).note("slots are cores, and those of all hosts the same"),
    flag(&["hetero-nodes", "hetero"], Only(&[""], "")).note("each node reads its own topology"),
    flag(&["enable-instant-on-support", "use-regexp", "novm"], Only(&[""], ""))
        .note("node servers are started where ranks run, and by no list in a short form"),
    word(&["max-vm-size"], Whole("nodes", same)),
    word(&["launch-agent"], Refused("the path of this program is used on every node; leave it out")),
    word(&["cartofile", "cf"], Refused("the topology is read from the system; leave it out")),
    word(&["gpu-support"], Refused("set the variables of the MPI library with -x; leave it out")),
    // Output.
    word(&["output"], Options("--label --timestamps --output-dir --copy-output --merge-stderr", output)).note(
        "`tag`, `rank`, `timestamp`, `merge`, `dir=NAME`, `file=NAME`, `nocopy`; labels are `[RANK] ` here",
    ),
    flag(&["tag-output"], Whole("label", yes)).note("labels are `[RANK] ` here"),
    flag(&["timestamp-output"], Whole("timestamps", yes)).note("seconds since the start"),
    word(&["output-filename", "output-directory"], Options("--output-dir --copy-output", output_files))
        .note("`DIR/1/rank.0/stdout` and so on; `:nocopy` keeps it from the launcher's own streams"),
    flag(&["merge-stderr-to-stdout"], Whole("merge-stderr", yes)),
    word(&["stream-buffering", "stream"], Options("--unbuffered", stream_buffering))
        .note("`0`; `1` is the default, and `2` is not supported"),
    word(&["xml-file"], Refused("'--result FILE' writes a report as JSON")),
    flag(&["xml"], Refused("'--result FILE' writes a report as JSON")),
    word(&["xterm"], Terminals).note("`xterm -e` starts these ranks; `all` and `-1` are all of them"),
    // Reports.
    flag(&["report-bindings"], Whole("display", |_| Ok("map".into()))),
    word(&["display"], Options("--display map", display)).note("`map`, `bind` and `allocation`"),
    flag(
        &[
            "display-map",
            "display-devel-map",
            "display-diffable-map",
            "display-allocation",
            "display-devel-allocation",
        ],
        Whole("display", |_| Ok("map".into())),
    )
    .note("one map of ranks, hosts and processors"),
    flag(&["display-topo"], Refused("'pmi-host topology' shows the topology of a machine")),
    flag(&["show-progress"], Whole("progress", yes)),
    flag(&["get-stack-traces"], WithoutEffect("'pmi-host stack' shows them")).note(
        "a run that exceeds its time is reported with the operations that its ranks wait for",
    ),
    flag(&["report-state-on-timeout"], Only(&[""], "")).note("always reported"),
    word(&["report-pid"], Whole("report-pid", same)),
    word(&["report-uri"], Whole("report-uri", same)),
    word(&["report-events"], Refused("'pmi-host ps' shows the state of a run")),
    word(&["output-proctable"], Refused("'pmi-host ps' lists processes, with '--json' for programs")),
    flag(&["report-child-jobs-separately"], Refused("the code is that of the first rank that failed")),
    // The end.
    flag(&["continuous"], Whole("on-exit-error", |_| Ok("ignore".into()))),
    flag(&["disable-recovery"], Only(&[""], "")).note("a rank that fails ends the run"),
    flag(&["enable-recovery"], Whole("on-exit-error", |_| Ok("ignore".into())))
        .note("the others continue; a rank is not restarted"),
    word(&["max-restarts"], Only(&["0"], "ranks are not restarted; leave it out")).note("`0`"),
    word(&["spawn-timeout"], Whole("start-timeout", same)).note("for the start of node servers"),
    word(&["forward-signals"], Whole("forward-signals", forwarded))
        .note("besides SIGUSR1, SIGUSR2, SIGALRM and SIGURG; `none` forwards none of these but SIGUSR2"),
    word(&["runtime-options", "rtos"], Options("--on-exit-error --progress", runtime_options))
        .note("`error-nonzero-status`, `continuous`, `show-progress`, `abort-nonzero-status`"),
    // Input, files and directories.
    word(&["stdin"], Whole("stdin", same)),
    word(&["preload-files"], Refused("files are not copied; put them on a file system of all hosts")),
    flag(&["preload-binary"], Whole("stage", yes)).note("it is removed after the run"),
    flag(&["set-cwd-to-session-dir"], Refused("'--wdir DIR' names a directory")),
    word(&["tmpdir"], Whole("tmpdir", same)),
    // Daemons and debuggers.
    flag(
        &["leave-session-attached", "debug-daemons", "debug-daemons-file", "debug-devel"],
        Whole("display", |_| Ok("map".into())),
    )
        .note("messages of node servers are always written; the map is shown in addition"),
    flag(&["tv", "stop-in-init", "stop-on-exec", "stop-in-app"], Refused(DEBUGGER)),
    word(&["debugger"], Refused(DEBUGGER)),
    flag(&["fwd-mpirun-port"], Only(&[""], "")).note("node servers know the launcher anyway"),
    flag(&["system-server"], Whole("system-server", yes)),
    flag(&["dvm", "hnp", "test-suicide"], Refused(DAEMON)),
    word(&["ompi-server", "singleton", "keepalive", "dvm-uri", "add-host", "add-hostfile"], Refused(DAEMON)),
    flag(&["set-sid", "daemonize", "no-ready-msg"], Refused(DAEMON)),
];

fn cores(value: &OsStr) -> Result<OsString, String> {
    modifier("core", &value.to_string_lossy()).map(Into::into)
}

const DEBUGGER: &str = "start this launcher under the debugger, which finds its ranks by MPIR, as \
    'totalview mpirun -a -n 4 ./a'; or 'pmi-host run --gdb 0 -n 4 ./a', which opens a gdb for rank 0";
const DAEMON: &str = "there are no daemons that outlive a run; leave it out";

/// Adds the signals that are forwarded by default.
fn forwarded(value: &OsStr) -> Result<OsString, String> {
    if value == "none" {
        return same(value);
    }
    let mut all = OsString::from(FORWARDED);
    all.push(",");
    all.push(value);
    Ok(all)
}
