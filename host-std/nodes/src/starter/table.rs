//! Table of starters: programs that run a command on another host.
//!
//! | starter | command | chosen in | tested with |
//! |---|---|---|---|
//! | `ssh` | `ssh -T -x -o BatchMode=yes HOST 'COMMAND'`, per host | anywhere else | OpenSSH |
//! | `rsh` | `rsh HOST 'COMMAND'`, per host | – | a program that imitates it |
//! | `srun` | `srun --overlap … --nodelist=HOSTS COMMAND`, once for each component of the job | `SLURM_JOB_ID` | Slurm 22.05 |
//! | `flux` | `flux exec -r BROKERS COMMAND`, once | `FLUX_URI` | a program that imitates it |
//! | `blaunch` | `blaunch HOST COMMAND`, per host | `LSB_MCPU_HOSTS` | its documentation |
//! | `qrsh` | `qrsh -inherit -noshell HOST COMMAND`, per host | `PE_HOSTFILE` | Grid Engine 8.1.9 |
//! | `oarsh` | `oarsh -T -x HOST 'COMMAND'`, per host | `OAR_JOB_ID` | a program that imitates it |

use pmi_host_base::variables::is_of_slurm;

/// One starter.
#[derive(Debug)]
pub(super) struct StarterRow {
    /// Name for `--starter`.
    pub(super) name: &'static str,
    /// Program, found in `PATH`.
    pub(super) program: &'static str,
    /// Number of calls, and their form.
    pub(super) call: StarterCall,
}

/// Calls of a starter.
#[derive(Debug)]
pub(super) enum StarterCall {
    /// One for each host.
    PerHost {
        /// Options in front of the host, for the program of the row; another program gets none of them.
        options: &'static [&'static str],
        /// True if a shell on the host reads the command, so that its words have to be quoted.
        is_quoted: bool,
    },
    /// One for all hosts.
    Once {
        /// Options in front of the command, for the hosts or the brokers on them.
        options: fn(&[String]) -> Vec<String>,
        /// Those of a call for one host, whose output is that of the command, if there is one.
        of_one: Option<fn(&str) -> Vec<String>>,
    },
}

/// All starters. A new one is a row here and a name in `settings/nodes.rs`.
pub(super) const ROWS: &[StarterRow] = &[
    StarterRow {
        name: SSH,
        program: SSH,
        // No terminal, no display, and no question: it fails instead of prompting.
        call: StarterCall::PerHost {
            options: &["-T", "-x", "-o", "BatchMode=yes"],
            is_quoted: true,
        },
    },
    StarterRow {
        name: "rsh",
        program: "rsh",
        call: StarterCall::PerHost { options: &[], is_quoted: true },
    },
    StarterRow {
        name: SRUN,
        program: SRUN,
        call: StarterCall::Once { options: srun, of_one: Some(srun_one) },
    },
    StarterRow {
        name: FLUX,
        program: FLUX,
        call: StarterCall::Once {
            options: |brokers| ["exec".to_owned(), "-r".to_owned(), brokers.join(",")].into(),
            of_one: None,
        },
    },
    StarterRow {
        name: BLAUNCH,
        program: BLAUNCH,
        call: StarterCall::PerHost { options: &[], is_quoted: false },
    },
    StarterRow {
        name: QRSH,
        program: QRSH,
        call: StarterCall::PerHost { options: &["-inherit", "-noshell"], is_quoted: false },
    },
    StarterRow {
        name: OARSH,
        program: OARSH,
        // Options of `ssh`, of which the site lets through some; `-o` is ignored.
        call: StarterCall::PerHost { options: &["-T", "-x"], is_quoted: true },
    },
];

/// Batch systems in the order in which allocations are looked for: a variable, and the starter. Flux comes
/// first, since it may run inside of any other one. Tasks that PBS and Cobalt start have no standard input.
pub(super) const BATCH_SYSTEMS: &[(&str, &str)] = &[
    ("FLUX_URI", FLUX),
    ("SLURM_JOB_ID", SRUN),
    ("PBS_NODEFILE", SSH),
    ("COBALT_NODEFILE", SSH),
    ("LSB_MCPU_HOSTS", BLAUNCH),
    ("PE_HOSTFILE", QRSH),
    ("OAR_JOB_ID", OARSH),
];

/// Name and program of the starter outside of batch systems.
pub(super) const SSH: &str = "ssh";

const BLAUNCH: &str = "blaunch";
const QRSH: &str = "qrsh";
const OARSH: &str = "oarsh";

/// Name and program of the starter of Flux, which knows hosts by the ranks of their brokers.
pub(super) const FLUX: &str = "flux";

/// Name and program of the starter of Slurm, most options of which are variables as well.
pub(super) const SRUN: &str = "srun";

/// True if a variable is an option of `srun`, or describes a step of the user: options of the batch script
/// would change the step of the node servers. Variables by which `srun` finds the job and its controller are
/// none.
pub(super) fn is_option_of_srun(name: &[u8]) -> bool {
    is_of_slurm(name) && !OF_JOB.iter().any(|kept| kept.as_bytes() == name)
}

/// Variables of the job, the manager of its steps, its cluster, and the configuration and keys of Slurm.
const OF_JOB: [&str; 11] = [
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_CLUSTER_NAME",
    "SLURM_WORKING_CLUSTER",
    "SLURM_JWT",
    "SLURM_SACK_JWKS",
    "SLURM_SACK_KEY",
    "SLURM_SACK_SOCKET",
    "SLURM_STEPMGR",
];

/// Options of `srun` for one host, which passes on each byte of the output at once.
fn srun_one(host: &str) -> Vec<String> {
    [srun(&[host.to_owned()]), vec!["--unbuffered".to_owned()]].concat()
}

/// Options of `srun`: one task on each host of the list, beside a step that runs there already, and its
/// standard input for all of them. A task that fails ends no other one, and neither does a node that fails in
/// an allocation that outlives it: the head decides that.
fn srun(hosts: &[String]) -> Vec<String> {
    let nodes = hosts.len();
    vec![
        "--overlap".to_owned(),
        format!("--nodes={nodes}"),
        format!("--ntasks={nodes}"),
        "--ntasks-per-node=1".to_owned(),
        format!("--nodelist={}", hosts.join(",")),
        "--input=all".to_owned(),
        "--kill-on-bad-exit=0".to_owned(),
        "--no-kill".to_owned(),
        "--mpi=none".to_owned(),
        "--cpu-bind=none".to_owned(),
        "--quiet".to_owned(),
    ]
}

/// Option of `srun` for a component of a heterogeneous job.
pub(super) fn of_component(number: u32) -> String {
    format!("--het-group={number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn srun_finds_the_job_and_no_options_in_its_variables() {
        for name in ["SLURM_JOB_ID", "SLURM_CONF", "SLURM_STEPMGR", "SLURMD_NODENAME", "PATH"] {
            assert!(!is_option_of_srun(name.as_bytes()), "{name}");
        }
        for name in
            ["SRUN_CPUS_PER_TASK", "SLURM_EXPORT_ENV", "SLURM_MEM_PER_CPU", "SLURM_HOSTFILE"]
        {
            assert!(is_option_of_srun(name.as_bytes()), "{name}");
        }
    }
}
