//! Options of Slurm's `srun` for a job step: the program is started within the current allocation, or on this
//! machine if there is none.
//!
//! Options that describe an allocation are accepted where it exists anyway: `srun` ignores them within one.
//! Spec: `srun(1)` of Slurm 22.05.

use super::policies::sockets;
use super::slurm_values::{
    bcast, cores_of, cpu_bind, cpus_per_task, distribution, errors, export, hint, input,
    kill_on_bad_exit, label, memory, nodes, output, preserved, tasks_of_core, time,
};
use super::step_gpus;
use super::table::HydraEffect::{
    Help, HostFile, Info, MpiType, MultiProgram, OfAllocation, Only, Options, Own, Preview,
    Refused, Several, StepGpus, Weak, Whole, WithoutEffect,
};
use super::table::{HydraOption, flag, optional, same, word, yes};

/// `srun`'s options, by subject.
pub(crate) const OPTIONS: &[HydraOption] = &[
    // Ranks, programs and hosts.
    word(&["n", "ntasks"], Own("ranks", same)),
    word(&["N", "nodes"], Whole("nodes", nodes))
        .note("the first N hosts of the allocation; without `-n` as many ranks as these take"),
    word(&["ntasks-per-node", "tasks-per-node"], Whole("ppn", same)),
    word(&["ntasks-per-socket"], Options("--map-by ppr:N:node", sockets))
        .note("the sockets of this host are counted"),
    word(&["ntasks-per-core"], Weak("--bind-to core", tasks_of_core))
        .note("1 binds ranks to cores, and more to threads, unless `--cpu-bind` says otherwise"),
    word(&["w", "nodelist"], Whole("hosts", same)),
    word(&["F", "nodefile"], HostFile),
    word(&["x", "exclude"], Whole("exclude-hosts", same)),
    word(&["r", "relative"], Refused("name the hosts to use with '-w'")),
    flag(&["multi-prog"], MultiProgram).note("`%t` and `%o` are replaced in the lines of the file"),
    word(&["m", "distribution"], Options("--map-by", distribution))
        .note(
            "`block`, `cyclic`, and `plane=N` for N on each host; within a host the binding decides, which a \
             message says",
        ),
    flag(&["O", "overcommit", "s", "oversubscribe"], Whole("oversubscribe", yes)),
    // Processors and memory.
    word(&["c", "cpus-per-task"], Weak("--bind-to hwthread:N", cpus_per_task))
        .note("unless `--cpu-bind` says otherwise; also sets SLURM_CPUS_PER_TASK"),
    word(&["cpu-bind"], Options("--bind-to", cpu_bind)).note(
        "`none`, `rank`, `threads`, `cores`, `sockets`, `ldoms`, `map_cpu:LIST`, `mask_cpu:LIST`; `verbose` \
         shows the map",
    ),
    word(&["hint"], Weak("--bind-to", hint)).note(
        "`compute_bound` and `nomultithread` bind to cores, `multithread` to threads, `memory_bound` to \
         cores of one socket after the other; unless `--cpu-bind` says otherwise",
    ),
    word(&["threads-per-core"], Weak("--bind-to", cores_of)).note("1 binds ranks to cores"),
    word(&["B", "extra-node-info", "sockets-per-node", "cores-per-socket"], OfAllocation),
    word(&["mem-bind"], Options("--mem-bind", memory)).note(
        "`none`, `local`, `map_mem:LIST`, `mask_mem:LIST`, and `prefer` with `local`; `verbose` shows the \
         map, `sort` has no effect",
    ),
    // GPUs.
    word(&["gpus-per-task"], StepGpus("--gpus-per-rank", step_gpus::per_task))
        .or("SLURM_GPUS_PER_TASK")
        .note("the nearest ones, for one rank each"),
    word(&["gpus", "G"], StepGpus("--gpu-bind list:LIST", step_gpus::all)).note(
        "each rank has all of its node, unless `--gpu-bind` says otherwise; with `--gpus-per-task` or \
         `--ntasks-per-gpu` it is the number of ranks, if `-n` is missing",
    ),
    word(&["gpus-per-node"], StepGpus("--gpu-bind list:LIST", step_gpus::per_node)).note("likewise"),
    word(&["gpus-per-socket"], StepGpus("--gpu-bind list:LIST", step_gpus::per_socket))
        .note("likewise; the sockets of this host are counted"),
    word(&["gres"], StepGpus("--gpu-bind list:LIST", step_gpus::gres))
        .note("`gpu:N`, likewise; others have no effect, which a message says"),
    word(&["gpu-bind"], StepGpus("--gpu-bind", step_gpus::bind)).or("SLURM_GPU_BIND").note(
        "`none`, `closest`, `single:N`, `per_task:N`, `map_gpu:LIST`, `mask_gpu:LIST`; `verbose,` shows the \
         map; numbers are those of `--gpu-bind list:LIST`",
    ),
    word(&["ntasks-per-gpu"], StepGpus(SINGLE, step_gpus::ranks_of_gpu))
        .or("SLURM_NTASKS_PER_GPU")
        .note("needs `-n` or a number of GPUs"),
    word(&["cpus-per-gpu"], StepGpus("--bind-to hwthread:N", step_gpus::processors_of_gpu))
        .or("SLURM_CPUS_PER_GPU")
        .note("times the GPUs of a rank, unless `--cpu-bind` says otherwise"),
    word(&["tres-per-task"], StepGpus("--gpus-per-rank", step_gpus::tres_per_task))
        .note("`gres/gpu:N`; others have no effect, which a message says"),
    word(&["tres-bind"], StepGpus("--gpu-bind", step_gpus::tres_bind))
        .note("`gres/gpu:` and a value of `--gpu-bind`"),
    word(
        &["gres-flags"],
        Only(
            &["enforce-binding", "disable-binding", "allow-task-sharing"],
            "'--gpu-bind' chooses the GPUs of ranks; leave it out",
        ),
    )
    .note("GPUs of other ranks are hidden by variables, and not barred"),
    word(&["gpu-freq"], Refused("clocks of GPUs are left as they are; leave it out")),
    // Environment and protocols.
    word(&["export"], Options("--env --inherit", export)).note("`ALL`, `NONE`, names and `NAME=VALUE`"),
    word(&["mpi"], MpiType)
        .note("`pmi2` offers PMI-1 and PMI-2 as Slurm does, `pmix` PMIx, `none` what is linked; `list`"),
    flag(&["E", "preserve-env"], Options("--env", preserved))
        .note("SLURM_NTASKS, SLURM_NPROCS and SLURM_NNODES are those of the launcher"),
    optional(
        &["propagate"],
        Only(
            &["", "ALL", "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK"],
            "ranks inherit all limits of the launcher",
        ),
    ),
    flag(&["resv-ports"], Only(&[""], "")).note("ports are taken when they are needed"),
    word(&["D", "chdir"], Own("wdir", same)),
    // Streams.
    flag(&["l", "label"], Whole("label-format", label)),
    word(&["o", "output"], Options("--stdout-to", output))
        .note("one file, or one for each with `%t`, `%N`, `%n`; errors go there, too, without `-e`"),
    word(&["e", "error"], Options("--stderr-to", errors)).note("likewise"),
    word(&["i", "input"], Options("--stdin --stdin-file", input))
        .note("`all` (the default), `none`, a rank, or a file"),
    word(&["open-mode"], Only(&["t"], "files are emptied when they are opened")),
    flag(&["u", "unbuffered"], Whole("unbuffered", yes)),
    flag(&["pty"], Several(&[("pty", |_| Ok("0".into())), ("stdin", |_| Ok("0".into()))])),
    // The end.
    word(&["t", "time"], Whole("timeout", time)).note("minutes, or `D-HH:MM:SS`; 0 is no limit"),
    optional(&["K", "kill-on-bad-exit"], Whole("on-exit-error", kill_on_bad_exit))
        .note("the default here; `-K0` lets the others continue, Slurm's default"),
    word(&["W", "wait"], Whole("exit-timeout", same)),
    flag(&["k", "no-kill"], Refused("the run ends with its nodes; leave it out")),
    word(&["signal"], Refused("'--timeout' ends the run; leave it out")),
    word(&["deadline"], Refused("'-t' limits the time")),
    flag(&["X", "disable-status"], Only(&[""], "")).note("one Ctrl-C ends the run"),
    // Reports.
    flag(&["v", "verbose"], Several(&[("display", |_| Ok("map".into()))])),
    flag(&["Q", "quiet"], Only(&[""], "")).note("the launcher reports faults and nothing else"),
    flag(&["test-only"], Preview),
    flag(&["V", "version"], Info),
    flag(&["h", "help", "usage"], Help),
    word(&["slurmd-debug", "debugger-test"], WithoutEffect("")),
    word(&["profile", "acctg-freq"], WithoutEffect("'--trace FILE' records messages")),
    word(&["cpu-freq"], WithoutEffect("")),
    // The allocation, which exists.
    word(
        &[
            "p", "partition", "A", "account", "J", "job-name", "q", "qos", "C", "constraint", "mem",
            "mem-per-cpu", "mem-per-gpu", "comment", "reservation", "licenses", "L", "wckey",
            "cluster-constraint", "M", "clusters", "jobid", "mail-type", "mail-user", "priority", "power",
            "switches", "tmp", "mincpus",
            "network", "S", "core-spec", "thread-spec", "T", "threads", "delay-boot", "spread-job",
        ],
        OfAllocation,
    ),
    optional(&["exclusive"], WithoutEffect(SHARED_STEPS)),
    optional(&["I", "immediate", "nice"], OfAllocation),
    flag(
        &[
            "stepmgr", "external-launcher", "whole", "Z", "no-allocate", "H", "hold",
            "reboot", "use-min-nodes",
        ],
        OfAllocation,
    ),
    flag(&["overlap"], Whole("overlap", yes)),
    flag(&["exact"], WithoutEffect(SHARED_STEPS)),
    word(&["d", "dependency", "begin"], Refused("'sbatch' and 'salloc' wait for other jobs")),
    // Files and programs around a step.
    optional(&["bcast"], Whole("stage", bcast))
        .note("without a path: the copy is in a directory of its own, and removed after the run"),
    optional(&["compress"], Only(&["none"], "programs are sent as they are; leave it out")),
    optional(&["send-libs"], Only(&["no"], "libraries are not copied; put them on all hosts")),
    word(
        &["prolog", "epilog", "task-prolog", "task-epilog"],
        Refused("start a script that runs it around the program"),
    ),
    optional(&["x11"], Refused("ranks of this node reach its DISPLAY anyway; leave it out")),
    word(&["het-group", "pack-group"], Own("het-group", same))
        .note("without it all components have ranks; Slurm takes the first"),
    word(
        &["container-image", "container-mounts", "container-name", "container-workdir", "container-writable"],
        Refused("start the program in the container, as with 'apptainer exec IMAGE ./program'"),
    ),
    word(
        &["accel-bind", "container", "bb", "bbf", "uid", "gid"],
        Refused("that is not supported; leave it out"),
    ),
];

const SINGLE: &str = "--gpu-bind as:slurm --gpus-per-rank 1 --gpu-share N";

const SHARED_STEPS: &str =
    "bound ranks of one step have no processors of another where there is room";
