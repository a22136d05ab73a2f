//! Every variable that this launcher sets for ranks or removes, with the reason. `docs/environment.md`
//! is the same table for users.

/// A variable, or all with a common prefix, and the reason for its treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableRule {
    /// Its name; a star at the end stands for any suffix.
    pub name: &'static str,
    /// The reason, in a line.
    pub why: &'static str,
}

impl VariableRule {
    /// True if the entry covers a variable of this name.
    pub fn means(&self, name: &[u8]) -> bool {
        fits(self.name.as_bytes(), name)
    }
}

/// True if a pattern, in which a star at the end stands for any suffix, covers a variable of this name.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

const fn rule(name: &'static str, why: &'static str) -> VariableRule {
    VariableRule { name, why }
}

/// Variables that are always set, replacing inherited values.
pub const SET: &[VariableRule] = &[
    rule(
        "PMI_FD",
        "descriptor of the connection to the server, one end of a socket pair; not with --pmi-port",
    ),
    rule("PMI_RANK", "the rank, for clients and scripts that read it before a request"),
    rule("PMI_SIZE", "the number of ranks, likewise"),
    rule("PMI_SPAWNED", "1 in jobs of MPI_Comm_spawn, else 0: clients test the number"),
    rule("PMI_JOBID", "PMI-2: the name of the job, which clients repeat; a wrong one is rejected"),
    rule("PMI_HOSTNAME", "the name under which the launcher knows this node"),
    rule("MPI_LOCALNRANKS", "the number of ranks on this node: libraries assign devices by it"),
    rule("MPI_LOCALRANKID", "the number of this rank among them"),
    rule(
        "PMI_RUN_MARK",
        "a mark of the run, by which its remaining processes are found when its launcher is killed",
    ),
    rule(
        "PMI_PORT",
        "with --listen: address for a second connection; with --pmi-port: that of the server",
    ),
    rule("PMI_ID", "with --listen or --pmi-port: identity for that connection"),
    rule("PMI_SOCKTYPE", "with --listen under TLS: the transport of that connection"),
    rule("PMI_TLS_PIN", "with --listen under TLS: certificate to trust there"),
    rule("PMIX_NAMESPACE", "PMIx: the name of the job"),
    rule("PMIX_RANK", "PMIx: the rank"),
    rule(
        "PMIX_SERVER_URI41",
        "PMIx: address of the server; a client reads the newest name that it knows",
    ),
    rule("PMIX_SERVER_URI4", "PMIx: the same for clients of 4.0"),
    rule("PMIX_SERVER_URI3", "PMIx: the same for clients of 3"),
    rule("PMIX_SERVER_URI21", "PMIx: the same for clients of 2.1 and 2.2"),
    rule("PMIX_SERVER_URI2", "PMIx: the same for clients of 2.0, which are rejected as too old"),
    rule("PMIX_BFROP_BUFFER_TYPE", "PMIx: values are packed without the names of their types"),
    rule("PMIX_SECURITY_MODE", "PMIx: security mechanism of a client; its socket proves its user"),
    rule("PMIX_VERSION", "PMIx: the version that a client assumes for its server"),
    rule("PMIX_HOSTNAME", "PMIx: the name by which a client finds its node in job data"),
    rule(
        "OMPI_MCA_schizo",
        "Open MPI 4: requests go to its server; it does not search for known launchers",
    ),
    rule("OMPI_MCA_pmix", "Open MPI 4: PMIx alone, where PMI may be offered as well"),
    rule("OMPI_MCA_orte_bound_at_launch", "Open MPI 4: ranks are already bound when they start"),
    rule("OMPI_COMM_WORLD_RANK", "Open MPI: the rank, for programs and scripts"),
    rule("OMPI_COMM_WORLD_SIZE", "Open MPI: the number of ranks, likewise"),
    rule("OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI: the number of the rank on this node, likewise"),
    rule("OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI: the number of ranks on this node, likewise"),
    rule(
        "OMPI_COMM_WORLD_NODE_RANK",
        "Open MPI: the number of the rank among all jobs on this node, likewise",
    ),
    rule("OMPI_UNIVERSE_SIZE", "Open MPI: the largest number of ranks, likewise"),
    rule("OMPI_NUM_APP_CTX", "Open MPI: the number of programs of the job, likewise"),
    rule("OMPI_FIRST_RANKS", "Open MPI: the first rank of each program, likewise"),
    rule("OMPI_APP_CTX_NUM_PROCS", "Open MPI: the number of ranks of each program, likewise"),
];

/// Variables that are set unless present.
pub const DEFAULTS: &[(VariableRule, &str)] = &[(
    rule(
        "GFORTRAN_UNBUFFERED_PRECONNECTED",
        "Fortran programs write each complete line, rather than a full buffer",
    ),
    "y",
)];

/// Protocol of MPICH's library, if a program is offered more than one, or if `--pmi` chooses.
pub const MPICH_VERSION: VariableRule = rule(
    "MPIR_CVAR_PMI_VERSION",
    "MPICH: its protocol, where more than one is offered or --pmi selects it",
);

/// Variables that announce what ranks share, memory with the server or processors; set unless `--env` sets
/// them.
pub const SHARING: &[VariableRule] = &[
    rule(
        "PMI_SNAPSHOT",
        "1: the server shares the values of the job in memory with clients of pmi-host; --env PMI_SNAPSHOT=0 \
         has them use messages alone",
    ),
    rule(
        "PMIX_GDS_MODULE",
        "PMIx: ds21,hash if job data is in shared memory, for Open MPI with libpmix 4.2; else hash: it comes \
         in messages, as for all with --env PMIX_GDS_MODULE=hash",
    ),
    rule("PMIX_DSTORE_21_BASE_PATH", "PMIx, with ds21: directory of that memory"),
    rule("INITIAL_SEG_SIZE", "PMIx, with ds21: length of its table of jobs"),
    rule("NS_META_SEG_SIZE", "PMIx, with ds21: length of its table of ranks"),
    rule("NS_DATA_SEG_SIZE", "PMIx, with ds21: greatest length of its values"),
    rule(
        "OMPI_MCA_mpi_oversubscribe",
        "Open MPI 4: 1 if the node has more ranks than processors; a rank that waits then yields",
    ),
    rule(
        "OMPI_MCA_btl_vader_backing_directory",
        "Open MPI 4, with --starter local: directory of the node for memory that its ranks share",
    ),
    rule(
        "I_MPI_PIN_MAPPING",
        "Intel MPI, with more ranks than processors: the processor of each; a rank that waits then yields",
    ),
    rule("I_MPI_INFO_LCPU", "Intel MPI, with that: number of processors of the machine"),
    rule("I_MPI_INFO_CORE", "Intel MPI, with that: the core of each processor"),
    rule("I_MPI_INFO_PACK", "Intel MPI, with that: the socket of each processor"),
    rule("I_MPI_INFO_THREAD", "Intel MPI, with that: the thread of each processor in its core"),
];

/// Variables by which ranks use the C libraries of this project, with `--preload-pmi`.
const PRELOAD: &[VariableRule] = &[
    rule("LD_PRELOAD", "libpmi.so.0 and libpmi2.so.0 of pmi-host, before what is set already"),
    rule(
        "LD_LIBRARY_PATH",
        "the directory of these, likewise: for programs that load them by name",
    ),
    rule("I_MPI_PMI_LIBRARY", "Intel MPI: libpmi2.so.0 of pmi-host, unless --env sets another one"),
];

/// Variables of `torchrun`, with `--env-for torch`; `--env` may set the first two.
pub const TORCH: &[VariableRule] = &[
    rule("MASTER_ADDR", "torch: host of rank 0, at which its program listens for the others"),
    rule("MASTER_PORT", "torch: port there, which was free when the job was prepared"),
    rule("WORLD_SIZE", "torch: the number of ranks"),
    rule("RANK", "torch: the rank"),
    rule("LOCAL_RANK", "torch: the number of the rank on this node: programs choose devices by it"),
    rule("LOCAL_WORLD_SIZE", "torch: the number of ranks on this node"),
    rule("GROUP_RANK", "torch: the number of the node"),
    rule("GROUP_WORLD_SIZE", "torch: the number of nodes"),
];

/// Variables of a task of Slurm, with `--env-for slurm`; `--env` may set them.
pub const SLURM: &[VariableRule] = &[
    rule("SLURM_PROCID", "as srun: the rank"),
    rule("SLURM_LOCALID", "as srun: the number of the rank on this node"),
    rule("SLURM_NODEID", "as srun: the number of the node"),
    rule("SLURM_NTASKS", "as srun: the number of ranks"),
    rule("SLURM_NPROCS", "as srun: likewise, by its old name"),
];

/// Variables of a rank of PALS, with `--env-for pals`; `--env` may set them.
pub const PALS: &[VariableRule] = &[
    rule("PALS_RANKID", "as PALS: the rank"),
    rule("PALS_LOCAL_RANKID", "as PALS: the number of the rank on this node"),
    rule("PALS_LOCAL_SIZE", "as PALS: the number of ranks on this node"),
    rule("PALS_NODEID", "as PALS: the number of the node"),
    rule("PALS_DEPTH", "as PALS: the number of processors that the rank is bound to, else 1"),
    rule("PALS_APID", "as PALS: the name of the job"),
];

/// Variables of an outer launcher that a client would take for its own.
const REMOVED: &[VariableRule] = &[
    rule("PMI_*", "PMI of an outer job: its socket, its ranks, its switches"),
    rule("PMIX_*", "PMIx of an outer job: with a namespace set, libraries connect to its server"),
    rule("PMIX_MCA_gds", "PMIx: a store of job data that this server does not have"),
    rule("INITIAL_SEG_SIZE", "PMIx: layout of the outer job's store of job data"),
    rule("NS_META_SEG_SIZE", "PMIx: likewise"),
    rule("NS_DATA_SEG_SIZE", "PMIx: likewise"),
    rule("SM_USE_LINEAR_SEARCH", "PMIx: likewise"),
    rule("HYDI_*", "Hydra: a control descriptor that is not ours"),
    rule("MPI_LOCALNRANKS", "Hydra: the outer job's ranks on this node"),
    rule("MPI_LOCALRANKID", "Hydra: the outer job's place on this node"),
    rule("MPI_APPNUM", "Hydra: the outer job's application"),
    rule("MPI_UNIVERSE_SIZE", "Hydra: the outer job's universe"),
    rule("MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "Hydra: the interface of the outer job's node"),
    rule("SLURM_PROCID", "Slurm: a rank of the outer step, alike for all of ours"),
    rule("SLURM_LOCALID", "Slurm: likewise, on this node"),
    rule("SLURM_NODEID", "Slurm: the outer step's number of this node"),
    rule("SLURM_GTIDS", "Slurm: ranks of the outer step on this node"),
    rule("SLURM_TASK_PID", "Slurm: the process of the outer step"),
    rule("SLURM_STEP*", "Slurm: the outer step; with it, libraries act as its ranks"),
    rule("SLURM_SRUN_COMM_*", "Slurm: address of the outer step's launcher"),
    rule("SLURM_LAUNCH_NODE_IPADDR", "Slurm: host of the outer step's launcher"),
    rule("SLURM_MPI_TYPE", "Slurm: the protocol of the outer step"),
    rule("SLURM_PMI*", "Slurm: PMI-1, PMI-2 and PMIx of the outer step"),
    rule("OMPI_COMM_WORLD_*", "Open MPI: rank and size in the outer job"),
    rule("OMPI_UNIVERSE_SIZE", "Open MPI: the outer job's universe"),
    rule("OMPI_APP_CTX_NUM_PROCS", "Open MPI: the outer job's programs"),
    rule("OMPI_FIRST_RANKS", "Open MPI: the outer job's programs"),
    rule("OMPI_NUM_APP_CTX", "Open MPI: the outer job's programs"),
    rule("OMPI_COMMAND", "Open MPI: the outer job's program"),
    rule("OMPI_ARGV", "Open MPI: the outer job's program"),
    rule("OMPI_FILE_LOCATION", "Open MPI: files of the outer job"),
    rule("OMPI_MCA_ess*", "Open MPI: the component that its daemons force on ranks"),
    rule("OMPI_MCA_orte_*", "Open MPI: the outer job's daemons"),
    rule("OMPI_MCA_pmix*", "Open MPI: the component that its daemons force on ranks"),
    rule("OMPI_MCA_schizo", "Open MPI: how its daemons monitor their processes"),
    rule("OMPI_MCA_mpi_oversubscribe", "Open MPI: sharing of processors by the outer job's ranks"),
    rule(
        "OMPI_MCA_btl_vader_backing_directory",
        "Open MPI: memory that the outer job's ranks share",
    ),
    rule("I_MPI_PIN_MAPPING", "Intel MPI: processors of the outer job's ranks"),
    rule("I_MPI_PIN_INFO", "Intel MPI: processors of the outer job's rank"),
    rule("I_MPI_INFO_*", "Intel MPI: what its launcher has read about the outer job's node"),
    rule("OMPI_MCA_initial_wdir", "Open MPI: the outer job's directory"),
    rule("PRTE_*", "Open MPI's launcher: the outer job"),
    rule("FLUX_PMI_LIBRARY_PATH", "Flux: names a library that connects to the outer job"),
    rule("FLUX_TASK_*", "Flux: a rank of the outer job, alike for all of ours"),
    rule("PALS_*", "Cray: the outer job and its ranks"),
    rule("ALPS_APP_*", "Cray: the outer job and its ranks"),
    rule("JSM_*", "IBM: the outer job and its ranks"),
    rule("MV2_COMM_WORLD_*", "MVAPICH: rank and size in the outer job"),
    rule("MPISPAWN_*", "MVAPICH: the outer job's helper on this node"),
    rule("MPIRUN_*", "MVAPICH: the outer job's launcher"),
];

/// Variables that are kept although their names match removed ones: switches that a user sets on purpose.
const KEPT: &[VariableRule] = &[
    rule(
        "PMI_DEBUG",
        "makes clients print debug messages; unless 0, PMI-2 reports it to them (`pmiverbose`)",
    ),
    rule("PMI_USE_LOGFILE", "makes clients write a log"),
    rule("PMI_REQUEST_VERSION", "selects the protocol of `pmi-std`"),
    rule("PMIX_MCA_*", "tunes PMIx libraries"),
];

/// Variables that describe a host or a login there: ranks have those of their own host, and never those of
/// the launcher's.
pub const OF_HOST: &[VariableRule] = &[
    rule("DBUS_SESSION_BUS_ADDRESS", "a socket of the login there"),
    rule("HOST", "the name of the host, as some shells set it"),
    rule("HOSTNAME", "likewise"),
    rule("SLURMD_NODENAME", "Slurm: the name of the node"),
    rule("SLURM_TOPOLOGY_ADDR", "Slurm: the place of the node in the network"),
    rule("SSH_AUTH_SOCK", "ssh: a socket of the login there"),
    rule("SSH_CLIENT", "ssh: likewise, its connection"),
    rule("SSH_CONNECTION", "ssh: likewise"),
    rule("SSH_TTY", "ssh: likewise, its terminal"),
    rule("XDG_RUNTIME_DIR", "a directory of the login there"),
    rule("XDG_SESSION_ID", "the number of the login there"),
];

/// Variables that a batch system sets on each node: the node's value wins over that of the launcher's host,
/// which ranks have where the node has none.
pub const BY_NODE: &[VariableRule] = &[
    rule("CUDA_VISIBLE_DEVICES*", "devices of NVIDIA on the node"),
    rule("NVIDIA_VISIBLE_DEVICES", "likewise, for containers"),
    rule("ROCR_VISIBLE_DEVICES", "devices of AMD on the node"),
    rule("HIP_VISIBLE_DEVICES", "likewise"),
    rule("GPU_DEVICE_ORDINAL", "likewise, for OpenCL"),
    rule("ZE_AFFINITY_MASK", "devices of Intel on the node"),
    rule("ONEAPI_DEVICE_SELECTOR", "likewise"),
    rule("SLINGSHOT_*", "HPE Slingshot: access of the job to the network of the node"),
    rule("FI_CXI_DEFAULT_VNI", "HPE Slingshot: likewise, for libfabric"),
    rule("SLURM_JOB_GPUS", "Slurm: devices of the job on the node"),
    rule("SLURM_GPUS_ON_NODE", "Slurm: their number"),
    rule("SLURM_CPUS_ON_NODE", "Slurm: the number of processors on the node"),
    rule("PBS_NODENUM", "PBS: the number of the node"),
    rule("PBS_TASKNUM", "PBS: the number of the task there"),
    rule("LSB_BIND_CPU_LIST", "LSF: processors of the job on the node"),
    rule("SGE_BINDING", "Grid Engine: processors of the job on the node (`-binding env`)"),
    rule("SGE_JOB_SPOOL_DIR", "Grid Engine: files about the job on the node"),
];

/// Variable by which `srun` shows a node server that it passes the environment of the head on, as all do
/// without `--export=NONE`. Ranks do not find it.
pub const IS_PASSED_ON: &str = "PMI_HOST_IS_PASSED_ON";

/// Variables that name a directory: the node's value wins if the directory of the launcher's host does not
/// exist there.
pub const DIRECTORY_OF_NODE: &[VariableRule] = &[
    rule("TMPDIR", "directory of temporary files"),
    rule("SLURM_JOB_TMP", "Slurm: likewise, of the job"),
    rule("TMP", "Grid Engine: likewise"),
];

/// True for variables of Slurm that describe a step, are options of `srun`, or describe the job.
pub fn is_of_slurm(name: &[u8]) -> bool {
    name.starts_with(b"SRUN_") || name.starts_with(b"SLURM_")
}

/// True if one of these rules covers a variable of this name.
pub fn covers(rules: &[VariableRule], name: &[u8]) -> bool {
    rules.iter().any(|rule| rule.means(name))
}

/// Whether the variable `name` of ours gives way to one that the user has set, according to `is_set`. Those
/// of Intel MPI are set together or not at all.
pub fn gives_way(name: &str, is_set: impl Fn(&str) -> bool) -> bool {
    const INTEL: &str = "I_MPI_";
    let all = SHARING.iter().chain([&MPICH_VERSION]).chain(TORCH).chain(SLURM).chain(PALS);
    let mut all = all.map(|entry| entry.name);
    match all.clone().any(|other| other == name) {
        true if name.starts_with(INTEL) => {
            all.any(|other| other.starts_with(INTEL) && is_set(other))
        }
        true => is_set(name),
        false => false,
    }
}

/// Entry by which a variable of this name is set, if any.
pub fn set(name: &[u8]) -> Option<VariableRule> {
    let defaults = DEFAULTS.iter().map(|(entry, _)| entry);
    SET.iter()
        .chain([&MPICH_VERSION])
        .chain(SHARING)
        .chain(PRELOAD)
        .chain(defaults)
        .find(|entry| entry.means(name))
        .copied()
}

/// Entry by which an inherited variable of this name is removed, if any.
pub fn removed(name: &[u8]) -> Option<VariableRule> {
    let found = REMOVED.iter().find(|entry| entry.means(name))?;
    // A full name takes precedence over a prefix.
    let is_named = || REMOVED.iter().any(|entry| entry.name.as_bytes() == name);
    let is_kept = KEPT.iter().any(|entry| entry.means(name)) && !is_named();
    Some(*found).filter(|_| !is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Coverage: SLURM-15, PALS-1, FLUX-4
    #[test]
    fn traces_of_an_outer_launcher_are_removed() {
        for name in [
            "PMI_FD",
            "PMI_PORT",
            "PMI_ID",
            "PMIX_NAMESPACE",
            "HYDI_CONTROL_FD",
            "OMPI_COMM_WORLD_RANK",
            "MPI_LOCALRANKID",
            "SLURM_PROCID",
            "SLURM_STEP_ID",
            "SLURM_STEPID",
            "SLURM_PMI2_PROC_MAPPING",
            "SLURM_PMIXP_ABORT_AGENT_PORT",
            "FLUX_TASK_RANK",
            "PALS_RANKID",
            "PMIX_MCA_gds",
        ] {
            assert!(removed(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn variables_of_the_user_stay() {
        for name in [
            "PATH",
            "PMI_DEBUG",
            "OMPI_MCA_btl",
            "UCX_TLS",
            "MPIR_CVAR_PMI_VERSION",
            "SLURM_JOB_ID",
            "SLURM_NTASKS",
            "SLURM_CPUS_PER_TASK",
            "FLUX_URI",
            "PMI",
            "PMIX_MCA_ptl",
        ] {
            assert!(removed(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn variables_that_the_launcher_sets_are_those_removed_from_an_outer_job() {
        for entry in SET.iter().chain(SHARING) {
            assert!(removed(entry.name.as_bytes()).is_some(), "{}", entry.name);
        }
    }

    #[test]
    fn settings_of_the_user_stay_and_those_of_intel_mpi_stay_alone() {
        let set = |name: &'static str| move |other: &str| other == name;
        let oversubscribe = "OMPI_MCA_mpi_oversubscribe";
        assert!(gives_way(oversubscribe, set(oversubscribe)));
        assert!(!gives_way(oversubscribe, set("I_MPI_INFO_LCPU")));
        assert!(gives_way("I_MPI_PIN_MAPPING", set("I_MPI_INFO_LCPU")));
        assert!(!gives_way("PMI_RANK", set("PMI_RANK")));
    }

    #[test]
    fn page_has_the_same_rows() {
        let page = include_str!("../../../docs/environment.md");
        let rows = |line: &str| line.starts_with("| `");
        let defaults = DEFAULTS.iter().map(|(entry, _)| entry);
        let set = SET.iter().chain([&MPICH_VERSION]).chain(SHARING).chain(defaults);
        let all = set.chain(PRELOAD).chain(TORCH).chain(SLURM).chain(PALS).chain(REMOVED);
        let all = all.chain(KEPT);
        let all = all.chain(OF_HOST).chain(BY_NODE).chain(DIRECTORY_OF_NODE);
        for entry in all.clone() {
            let row = format!("| `{}` | {} |", entry.name, entry.why);
            assert!(page.lines().any(|line| line == row), "docs/environment.md lacks: {row}");
        }
        assert_eq!(page.lines().filter(|line| rows(line)).count(), all.count(), "rows of the page");
    }
}
