//! Variables of tasks of Slurm (`--env-for slurm`), for scripts and programs that read the rank there.
//!
//! Spec: `srun(1)`, OUTPUT ENVIRONMENT VARIABLES.

use crate::launch::plan::job::Plan;

/// Variables with the same value in every rank of a node.
pub(super) fn of_plan(plan: &Plan) -> Vec<(&'static str, String)> {
    if !plan.environment.emulated.slurm {
        return Vec::new();
    }
    let first = plan.placement.ranks.at(0).unwrap_or_default();
    let hosts = plan.placement.hosts.as_ref();
    let node = hosts.and_then(|placed| placed.map.node_of(first)).unwrap_or_default();
    let ranks = plan.ranks.to_string();
    vec![
        ("SLURM_NODEID", node.to_string()),
        ("SLURM_NTASKS", ranks.clone()),
        ("SLURM_NPROCS", ranks),
    ]
}

/// Variables that differ from rank to rank.
pub(super) fn of_rank(plan: &Plan, rank: u32, local_rank: u32) -> Vec<(&'static str, String)> {
    match plan.environment.emulated.slurm {
        true => vec![("SLURM_PROCID", rank.to_string()), ("SLURM_LOCALID", local_rank.to_string())],
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::tests::plan;
    use pmi_host_base::variables::SLURM;

    #[test]
    fn variables_of_tasks_are_in_the_table() {
        let mut plan = plan(&[("./a", 3)]);
        assert!(of_plan(&plan).is_empty() && of_rank(&plan, 1, 1).is_empty());
        plan.environment.emulated.slurm = true;
        let all: Vec<_> = of_plan(&plan).into_iter().chain(of_rank(&plan, 2, 1)).collect();
        assert_eq!(all.len(), SLURM.len());
        assert!(SLURM.iter().all(|entry| all.iter().any(|(name, _)| *name == entry.name)));
        assert!(all.contains(&("SLURM_PROCID", "2".to_owned())));
    }
}
