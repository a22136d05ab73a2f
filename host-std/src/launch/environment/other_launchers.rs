//! Variables of other launchers, for scripts and programs that read their ranks there (`--env-for`): tasks of
//! Slurm, ranks of PALS, and programs in the style of `torchrun`.

use crate::launch::plan::job::Plan;
use crate::settings::environment::Rendezvous;
use pmi_host_base::variables::TORCH;
use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Variables of tasks of Slurm with the same value in every rank of a node.
///
/// Spec: `srun(1)`, OUTPUT ENVIRONMENT VARIABLES.
pub(super) fn slurm_of_plan(plan: &Plan) -> Vec<(&'static str, String)> {
    if !plan.environment.emulated.slurm {
        return Vec::new();
    }
    let ranks = plan.ranks.to_string();
    vec![
        ("SLURM_NODEID", node(plan).to_string()),
        ("SLURM_NTASKS", ranks.clone()),
        ("SLURM_NPROCS", ranks),
    ]
}

/// Variables of tasks of Slurm that differ from rank to rank.
pub(super) fn slurm_of_rank(
    plan: &Plan,
    rank: u32,
    local_rank: u32,
) -> Vec<(&'static str, String)> {
    match plan.environment.emulated.slurm {
        true => vec![("SLURM_PROCID", rank.to_string()), ("SLURM_LOCALID", local_rank.to_string())],
        false => Vec::new(),
    }
}

/// Variables of ranks of PALS with the same value in every rank of a node. PALS has files for its own
/// libraries besides (`PALS_APINFO`, `PALS_SPOOL_DIR`), which do not exist here.
///
/// Spec: HPE, *PALS*, `mpiexec(1)`, environment variables of applications.
pub(super) fn pals_of_plan(plan: &Plan) -> Vec<(&'static str, String)> {
    match plan.environment.emulated.pals {
        true => vec![
            ("PALS_NODEID", node(plan).to_string()),
            ("PALS_LOCAL_SIZE", plan.local().to_string()),
            ("PALS_APID", plan.kvsname.clone()),
        ],
        false => Vec::new(),
    }
}

/// Variables of ranks of PALS that differ from rank to rank.
pub(super) fn pals_of_rank(plan: &Plan, rank: u32, local_rank: u32) -> Vec<(&'static str, String)> {
    if !plan.environment.emulated.pals {
        return Vec::new();
    }
    let binding = plan.placement.binding.as_ref();
    let depth = binding.map_or(1, |binding| binding.of(local_rank).len());
    vec![
        ("PALS_RANKID", rank.to_string()),
        ("PALS_LOCAL_RANKID", local_rank.to_string()),
        ("PALS_DEPTH", depth.to_string()),
    ]
}

/// Number of this node in the job.
fn node(plan: &Plan) -> u32 {
    let first = plan.placement.ranks.at(0).unwrap_or_default();
    let hosts = plan.placement.hosts.as_ref();
    hosts.and_then(|placed| placed.map.node_of(first)).unwrap_or_default()
}

impl Rendezvous {
    /// Address on this machine with a port that is free now.
    ///
    /// # Errors
    ///
    /// A message for the user.
    #[expect(clippy::disallowed_methods, reason = "finds a free port, and accepts nobody")]
    pub(crate) fn on_this_machine() -> Result<Self, String> {
        let port = || -> io::Result<u16> {
            Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
        };
        let port = port().map_err(|error| {
            format!("'--env-for torch' needs a port for rank 0, and there is none ({error})")
        })?;
        Ok(Self { address: Ipv4Addr::LOCALHOST.to_string(), port })
    }

    /// Address on the host of rank 0, by the name that the list of hosts has for it. The port is free on this
    /// machine, which may be another one.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn on_host(name: &str) -> Result<Self, String> {
        let address = name.rsplit('@').next().unwrap_or_default().to_owned();
        Ok(Self { address, ..Self::on_this_machine()? })
    }
}

/// Variables of `torchrun` with the same value in every rank: sizes, and an address at which the program of
/// rank 0 listens for the others. None in spawned jobs, whose rank 0 would listen at the port of the first
/// job.
///
/// Spec: PyTorch, *torchrun (Elastic Launch)*, Environment Variables; *Distributed communication package*,
/// Environment variable initialization.
pub(super) fn torch_of_plan(plan: &Plan) -> Vec<(&'static str, String)> {
    let Some(Rendezvous { address, port }) = rendezvous(plan) else { return Vec::new() };
    let first = plan.placement.ranks.at(0).unwrap_or_default();
    let groups = plan
        .placement
        .hosts
        .as_ref()
        .map(|placed| (placed.map.node_of(first).unwrap_or_default(), placed.hosts.len()));
    let (group, groups) = groups.unwrap_or((0, 1));
    vec![
        ("MASTER_ADDR", address.clone()),
        ("MASTER_PORT", port.to_string()),
        ("WORLD_SIZE", plan.ranks.to_string()),
        ("LOCAL_WORLD_SIZE", plan.local().to_string()),
        ("GROUP_RANK", group.to_string()),
        ("GROUP_WORLD_SIZE", groups.to_string()),
    ]
}

/// Variables of `torchrun` that differ from rank to rank.
pub(super) fn torch_of_rank(
    plan: &Plan,
    rank: u32,
    local_rank: u32,
) -> Vec<(&'static str, String)> {
    match rendezvous(plan) {
        None => Vec::new(),
        Some(_) => vec![("RANK", rank.to_string()), ("LOCAL_RANK", local_rank.to_string())],
    }
}

/// True if a user cannot set the variable beside `--env-for torch`. The address and the port are chosen only
/// if the user has not.
pub(crate) fn is_of_torch(name: &OsStr) -> bool {
    TORCH.iter().any(|entry| name == entry.name)
        && !["MASTER_ADDR", "MASTER_PORT"].map(OsStr::new).contains(&name)
}

fn rendezvous(plan: &Plan) -> Option<&Rendezvous> {
    plan.environment.rendezvous.as_ref().filter(|_| plan.spawner.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::tests::plan;
    use pmi_host_base::variables::{PALS, SLURM};

    #[test]
    fn variables_of_tasks_are_in_the_table() {
        let mut plan = plan(&[("./a", 3)]);
        assert!(slurm_of_plan(&plan).is_empty() && slurm_of_rank(&plan, 1, 1).is_empty());
        plan.environment.emulated.slurm = true;
        let all: Vec<_> =
            slurm_of_plan(&plan).into_iter().chain(slurm_of_rank(&plan, 2, 1)).collect();
        assert_eq!(all.len(), SLURM.len());
        assert!(SLURM.iter().all(|entry| all.iter().any(|(name, _)| *name == entry.name)));
        assert!(all.contains(&("SLURM_PROCID", "2".to_owned())));
    }

    #[test]
    fn variables_of_pals_are_in_the_table() {
        let mut plan = plan(&[("./a", 3)]);
        assert!(pals_of_plan(&plan).is_empty() && pals_of_rank(&plan, 1, 1).is_empty());
        plan.environment.emulated.pals = true;
        let all: Vec<_> =
            pals_of_plan(&plan).into_iter().chain(pals_of_rank(&plan, 2, 1)).collect();
        assert_eq!(all.len(), PALS.len());
        assert!(PALS.iter().all(|entry| all.iter().any(|(name, _)| *name == entry.name)));
        for (name, value) in [("PALS_RANKID", "2"), ("PALS_LOCAL_RANKID", "1"), ("PALS_DEPTH", "1")]
        {
            assert!(all.contains(&(name, value.to_owned())), "{name}: {all:?}");
        }
    }

    #[test]
    fn variables_of_torch_are_in_the_table_and_of_the_first_job_alone() {
        let mut plan = plan(&[("./a", 2), ("./b", 1)]);
        assert!(torch_of_plan(&plan).is_empty() && torch_of_rank(&plan, 1, 1).is_empty());
        plan.environment.rendezvous = Some(Rendezvous { address: "127.0.0.1".into(), port: 7 });
        let all: Vec<_> =
            torch_of_plan(&plan).into_iter().chain(torch_of_rank(&plan, 2, 1)).collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        assert!(TORCH.iter().all(|entry| names.contains(&entry.name)));
        assert_eq!(names.len(), TORCH.len());
        for (name, value) in
            [("WORLD_SIZE", "3"), ("RANK", "2"), ("LOCAL_RANK", "1"), ("MASTER_PORT", "7")]
        {
            assert!(all.contains(&(name, value.to_owned())), "{name}: {all:?}");
        }
        let child = plan.spawned(1, plan.parts.clone(), Vec::new(), 4);
        assert!(torch_of_plan(&child).is_empty() && torch_of_rank(&child, 0, 0).is_empty());
    }
}
