//! Options of Open MPI's `mpirun` (4.1 and 5.0) and of `prterun` that Hydra does not have.

use super::policies::{
    append, assignment, display, export, mca, modifier, output, output_files, pmix_mca, ppr,
    prefix, prepend, prte_mca, rank_by, runtime_options, sockets, tune, with_ft,
};
use super::table::HydraEffect::{
    ConfigFile, HostFile, HwThreads, Only, Options, Own, Personality, Preview, Refused, Version,
    Whole,
};
use super::table::{HydraOption, flag, pair, same, word, yes};

/// Open MPI's options, by subject.
pub(crate) const OPTIONS: &[HydraOption] = &[
    // Ranks and programs.
    word(&["c"], Own("ranks", same)),
    word(&["app"], ConfigFile).note("a line for each program"),
    word(&["wd"], Own("wdir", same)),
    word(&["personality"], Personality)
        .note("`ompi`, `ompi5`, `prte` or `prrte`, and `hydra`, `mpich` or `intel`"),
    flag(&["V"], Version),
    flag(&["q", "quiet"], Only(&[""], "")).note("the launcher reports faults and nothing else"),
    flag(&["allow-run-as-root"], Only(&[""], "")).note("that is always allowed"),
    flag(&["do-not-launch"], Preview),
    flag(&["do-not-resolve"], Only(&[""], "")).note("names are passed to the starter as they are"),
    flag(&["index-argv-by-rank"], Refused("write a program for each rank, with ':' between them")),
    word(&["path"], Refused("write the path of the program, or set PATH for the launcher")),
    word(&["prefix", "app-pmix-prefix"], Options("--env", prefix))
        .note("`bin` and `lib` below it precede PATH and LD_LIBRARY_PATH of the ranks"),
    flag(&["noprefix", "no-app-prefix"], Only(&[""], "")),
    word(&["pmix-prefix"], Refused("this launcher needs no PMIx library; leave it out")),
    word(&["pset"], Refused("named sets of processes are not supported; leave it out")),
    // Environment and parameters.
    word(&["x"], Options("--env", export)).note("`NAME`, `NAME=VALUE` or `NAME*`"),
    pair(&["mca", "omca", "gmca", "gomca"], Options("--env", mca)).note(
        "`OMPI_MCA_NAME` for the ranks; parameters of the launcher for hosts, mapping, binding, labels and \
         the remote shell have the effect of their options",
    ),
    pair(&["prtemca", "gprtemca"], Options("--env", prte_mca)).note("`PRTE_MCA_NAME`, likewise"),
    pair(&["pmixmca", "gpmixmca"], Options("--env", pmix_mca)).note("`PMIX_MCA_NAME`"),
    word(&["tune", "am"], Options("--env", tune)).note("files with `-x`, `--mca` and `NAME = VALUE`"),
    word(&["set-env"], Options("--env", assignment)),
    pair(&["prepend-env"], Options("--env", prepend)).note("separated by `:`"),
    pair(&["append-env"], Options("--env", append)).note("likewise"),
    word(&["unset-env"], Refused("'--inherit LIST' names the variables that ranks inherit")),
    word(&["with-ft"], Options("--env --on-exit-error", with_ft)),
    // Hosts and placement.
    word(&["default-hostfile"], HostFile),
    flag(&["pernode"], Whole("map-by", |_| Ok("ppr:1:node".into()))),
    word(&["npersocket"], Options("--map-by ppr:N:node", sockets))
        .note("the sockets of this host are counted"),
    word(&["ppr"], Options("--map-by ppr:N:node", ppr)),
    word(&["rank-by"], Options("the default", rank_by))
        .note("`slot`, `fill`, `core` and `hwthread`, the default"),
    flag(&["bynode"], Whole("map-by", |_| Ok("node".into()))),
    flag(&["byslot"], Whole("map-by", |_| Ok("slot".into()))),
    flag(&["bycore"], Whole("map-by", |_| Ok("core".into()))),
    flag(&["bind-to-core"], Whole("bind-to", |_| Ok("core".into()))),
    flag(&["bind-to-socket"], Whole("bind-to", |_| Ok("socket".into()))),
    flag(&["bind-to-none"], Whole("bind-to", |_| Ok("none".into()))),
    word(&["cpus-per-proc", "cpus-per-rank"], Whole("bind-to", cores)),
    word(
        &["cpu-set", "cpu-list"],
        Refused("'--bind-to user:0,1' assigns processors to ranks by number"),
    ),
    flag(&["use-hwthread-cpus"], HwThreads)
        .note("without a number of ranks there is one for each hardware thread"),
    flag(&["nolocal"], Refused("name the hosts with '--host', and leave this one out of the list")),
    word(
        &["rankfile", "rf"],
        Refused("'-rankmap 0,1,1,0' places ranks on hosts, and '--bind-to user:0,1' on processors"),
    ),
    flag(&["hetero-nodes"], Only(&[""], "")).note("each node reads its own topology"),
    flag(&["enable-instant-on-support", "use-regexp", "novm"], Only(&[""], "")),
    word(&["max-vm-size"], Refused("node servers start on the hosts that take ranks; leave it out")),
    word(&["launch-agent"], Refused("the path of this program is used on every node; leave it out")),
    word(&["cartofile", "cf"], Refused("the topology is read from the system; leave it out")),
    word(&["gpu-support"], Refused("set the variables of the MPI library with -x; leave it out")),
    // Output.
    word(&["output"], Options("--label --timestamps --stdout-to --stderr-to --merge-stderr", output)).note(
        "`tag`, `rank`, `timestamp`, `merge`, `dir=NAME`, `file=NAME`; labels are `[RANK] ` here",
    ),
    flag(&["tag-output"], Whole("label", yes)).note("labels are `[RANK] ` here"),
    flag(&["timestamp-output"], Whole("timestamps", yes)).note("seconds since the start"),
    word(&["output-filename"], Options("--stdout-to --stderr-to", output_files))
        .note("`NAME.RANK.out` and `NAME.RANK.err`, which are not written to the terminal as well"),
    flag(&["merge-stderr-to-stdout"], Whole("merge-stderr", yes)),
    word(&["stream-buffering"], Refused("start the program with 'stdbuf -oL', or '-o0'")),
    word(&["xml-file"], Refused("'--result FILE' writes a report as JSON")),
    flag(&["xml"], Refused("'--result FILE' writes a report as JSON")),
    word(&["xterm"], Refused("start 'xterm -e ./program', or give one rank a terminal with '--pty 0'")),
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
    flag(&["display-topo"], Refused("'lstopo' shows the topology of a machine")),
    flag(&["show-progress"], Whole("progress", yes)),
    flag(&["get-stack-traces"], Only(&[""], "")).note(
        "a run that exceeds its time is reported with the operations that its ranks wait for",
    ),
    flag(&["report-state-on-timeout"], Only(&[""], "")).note("always reported"),
    word(&["report-pid"], Refused("'pmi-host ps' lists runs with their process ids")),
    word(&["report-uri"], Refused("'pmi-host ps' finds the runs of this machine without a URI")),
    word(&["report-events"], Refused("'pmi-host ps' shows the state of a run")),
    word(&["output-proctable"], Refused("'pmi-host ps' lists processes, with '--json' for programs")),
    flag(&["report-child-jobs-separately"], Refused("the code is that of the first rank that failed")),
    // The end.
    flag(&["continuous"], Whole("on-exit-error", |_| Ok("ignore".into()))),
    flag(&["disable-recovery"], Only(&[""], "")),
    flag(
        &["enable-recovery"],
        Refused("ranks are not restarted; '--on-exit-error ignore' lets the others continue"),
    ),
    word(&["max-restarts"], Refused("ranks are not restarted; leave it out")),
    word(&["spawn-timeout"], Refused("'--timeout' limits the whole run")),
    word(&["runtime-options", "rtos"], Options("--on-exit-error --progress", runtime_options))
        .note("`error-nonzero-status`, `continuous`, `show-progress`, `abort-nonzero-status`"),
    // Input, files and directories.
    word(&["stdin"], Whole("stdin", same)),
    word(&["preload-files"], Refused("files are not copied; put them on a file system of all hosts")),
    flag(&["preload-binary"], Refused("files are not copied; put the program on all hosts")),
    flag(&["set-cwd-to-session-dir"], Refused("'--wdir DIR' names a directory")),
    word(&["tmpdir"], Refused("set TMPDIR, or XDG_RUNTIME_DIR, for the launcher")),
    // Daemons and debuggers.
    flag(&["leave-session-attached", "debug-daemons", "debug-devel"], Whole("display", |_| Ok("map".into())))
        .note("messages of node servers are always written; the map is shown in addition"),
    flag(&["debug-daemons-file"], Refused("redirect the standard error of the launcher")),
    flag(&["tv", "stop-in-init", "stop-on-exec", "stop-in-app"], Refused(DEBUGGER)),
    word(&["debugger"], Refused(DEBUGGER)),
    flag(&["fwd-mpirun-port"], Only(&[""], "")),
    flag(&["dvm", "hnp", "system-server"], Refused(DAEMON)),
    word(&["ompi-server", "singleton", "keepalive", "dvm-uri", "add-host", "add-hostfile"], Refused(DAEMON)),
    flag(&["set-sid", "daemonize", "no-ready-msg"], Refused(DAEMON)),
];

fn cores(value: &std::ffi::OsStr) -> Result<std::ffi::OsString, String> {
    modifier("core", &value.to_string_lossy()).map(Into::into)
}

const DEBUGGER: &str =
    "no debugger is started; start 'gdb --args ./program' as the program of a rank, with '--pty 0'";
const DAEMON: &str = "there are no daemons that outlive a run; leave it out";
