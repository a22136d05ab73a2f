//! The way to the server, as the environment of the process describes it.
//!
//! | environment | session |
//! |---|---|
//! | `PMI_FD`, or `PMI_PORT` and `PMI_ID` | PMI-2 if the server has it, `libpmi` with `pmi-host` only; else PMI-1.1 |
//! | neither, and `PMIX_NAMESPACE` | PMIx |
//! | none of these, and variables of a launcher of several ranks | none, with a warning |
//! | nothing of a launcher | none: rank 0 of 1 |

use std::ffi::OsString;
use std::sync::Arc;

use pmi_core::command::Version;
use pmi_std::ConnectOptions;
use pmi_std::env::{Environment, RequestedVersions, Transport};
use pmi_std::pmix::{self, PmixEnvironment};

use crate::session::{Generation, LocalSession, PmixSession, ServerKind, Session, WireSession};

/// Opens the session of this process.
///
/// # Errors
///
/// The reason, as a sentence for users, if the environment names a server that cannot be used.
pub(crate) fn connect(generation: Generation) -> Result<Arc<dyn Session>, String> {
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let read = Environment::from_variables(variables.iter().map(|(name, value)| (name, value)));
    let mut environment = read.map_err(|error| error.to_string())?;
    if environment.transport == Transport::Singleton {
        let pmix =
            PmixEnvironment::from_variables(variables.iter().map(|(name, value)| (name, value)));
        if let Some(pmix) = pmix.map_err(|error| error.to_string())? {
            let pmix = pmix::connect_by(&pmix).map_err(|error| error.to_string())?;
            return Ok(Arc::new(PmixSession::new(pmix).map_err(|error| error.to_string())?));
        }
        if let Some(hint) = launcher_without_pmi(&variables) {
            eprintln!("libpmi: {hint}; this process continues as rank 0 of 1");
        }
        return Ok(Arc::new(LocalSession::new()));
    }
    let kind = server_kind(&variables);
    environment.versions = match generation {
        // Only this server is known to serve all of `pmi.h` in PMI-2, where a value may have blanks.
        Generation::Pmi1 if kind != ServerKind::Own => RequestedVersions::Only(Version::V1_1),
        _ => RequestedVersions::Newest,
    };
    let options = ConnectOptions::new().environment(environment);
    let member = options.connect_shared().map_err(|error| error.to_string())?;
    let member = member.ok_or("the environment names no server")?;
    Ok(Arc::new(WireSession::new(member, kind).map_err(|error| error.to_string())?))
}

/// The server, as far as its variables show: some requests end a session with another one.
fn server_kind(variables: &[(OsString, OsString)]) -> ServerKind {
    let is_set = |name: &str| value(variables, name).is_some();
    if is_set("PMI_RUN_MARK") {
        ServerKind::Own
    } else if is_set("SLURM_STEP_ID") {
        ServerKind::Slurm
    } else if is_set("FLUX_TASK_RANK") {
        ServerKind::Flux
    } else {
        ServerKind::Other
    }
}

/// The sentence about a launcher that has started several ranks and offers no PMI; `None` without one.
fn launcher_without_pmi(variables: &[(OsString, OsString)]) -> Option<String> {
    LAUNCHERS.iter().find_map(|launcher| {
        let ranks = value(variables, launcher.ranks)?.trim().parse::<u32>().ok()?;
        value(variables, launcher.mark)?;
        (ranks > 1).then(|| {
            let LauncherTraces { name, ranks: variable, remedy, .. } = launcher;
            format!(
                "{variable} states that {name} has started {ranks} ranks, but neither PMI_FD nor PMI_PORT \
                 is set; {remedy}"
            )
        })
    })
}

fn value<'v>(variables: &'v [(OsString, OsString)], name: &str) -> Option<&'v str> {
    variables.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
}

/// Variables of a launcher in the environment of its ranks.
struct LauncherTraces {
    name: &'static str,
    /// Set for ranks only, not for the script of a batch job.
    mark: &'static str,
    /// Number of ranks.
    ranks: &'static str,
    remedy: &'static str,
}

const LAUNCHERS: [LauncherTraces; 5] = [
    LauncherTraces {
        name: "srun",
        mark: "SLURM_STEP_ID",
        ranks: "SLURM_STEP_NUM_TASKS",
        remedy: "use `srun --mpi=pmi2`",
    },
    LauncherTraces {
        name: "Flux",
        mark: "FLUX_TASK_RANK",
        ranks: "FLUX_JOB_SIZE",
        remedy: "use `flux run -o pmi=simple`",
    },
    LauncherTraces {
        name: "PALS",
        mark: "PALS_RANKID",
        ranks: "PALS_SIZE",
        remedy: "load the PMI of that launcher, or use `pmi-host run`",
    },
    LauncherTraces {
        name: "the launcher of Open MPI",
        mark: "OMPI_COMM_WORLD_RANK",
        ranks: "OMPI_COMM_WORLD_SIZE",
        remedy: "use `pmi-host run`",
    },
    // A launcher whose descriptor a program between it and this one has closed.
    LauncherTraces {
        name: "a launcher",
        mark: "PMI_RANK",
        ranks: "PMI_SIZE",
        remedy: "a program that starts the ranks must pass PMI_FD on",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(variables: &[(&str, &str)]) -> Option<String> {
        let own = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        launcher_without_pmi(&variables.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn launcher_of_several_ranks_without_pmi_is_named_with_a_remedy() {
        let step = [("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
        let warning = warned(&step).unwrap();
        assert!(warning.contains("srun has started 4 ranks"), "{warning}");
        assert!(warning.contains("--mpi=pmi2"), "{warning}");
        assert!(warned(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).is_some());
    }

    #[test]
    fn process_of_its_own_or_script_of_a_batch_job_is_not_warned() {
        assert_eq!(warned(&[]), None);
        assert_eq!(warned(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]), None);
        // In the script of `sbatch -n 4`, which is no rank.
        assert_eq!(warned(&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "4")]), None);
    }
}
