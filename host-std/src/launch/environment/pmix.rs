//! Environment of a PMIx client.

use crate::launch::plan::job::{Plan, PmixEndpoint};
use crate::launch::plan::pmix_store;

/// Variables with the same value in every rank of the job of `plan`.
pub(crate) fn of_plan(plan: &Plan, endpoint: &PmixEndpoint) -> Vec<(&'static str, String)> {
    // A client takes the newest name that it supports, which also selects an encoding.
    let addresses = [
        "PMIX_SERVER_URI41",
        "PMIX_SERVER_URI4",
        "PMIX_SERVER_URI3",
        "PMIX_SERVER_URI21",
        "PMIX_SERVER_URI2",
    ];
    let mut variables: Vec<_> = addresses.map(|name| (name, endpoint.uri.clone())).into();
    variables.extend([
        ("PMIX_NAMESPACE", plan.kvsname.clone()),
        ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC".to_owned()),
        ("PMIX_SECURITY_MODE", "native".to_owned()),
        // A client assumes that its server has this version.
        ("PMIX_VERSION", "4.2.2".to_owned()),
        // With this name it finds its own node in the job description.
        ("PMIX_HOSTNAME", plan.host.clone()),
        // Open MPI 4 supports a list of launchers, and without this it finds none: every process would
        // be a singleton.
        ("OMPI_MCA_schizo", "ompi".to_owned()),
        // Open MPI would try PMI-1 and PMI-2 first, since their variables may be set as well.
        ("OMPI_MCA_pmix", "^s1,s2,cray,isolated".to_owned()),
        // The placement of a rank is not the library's to choose.
        ("OMPI_MCA_orte_bound_at_launch", "1".to_owned()),
    ]);
    match &endpoint.store {
        Some(directory) => variables.extend(pmix_store::variables(directory, plan.ranks)),
        // The other modules share data in memory formats that are private to one library, and newer
        // clients choose one of those by default.
        None => variables.push((pmix_store::CHOICE, "hash".to_owned())),
    }
    variables.extend(open_mpi_of_plan(plan));
    variables
}

/// Variables of Open MPI that programs and scripts read, the same for all ranks.
pub(super) fn open_mpi_of_plan(plan: &Plan) -> [(&'static str, String); 6] {
    [
        ("OMPI_COMM_WORLD_SIZE", plan.ranks.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", plan.local().to_string()),
        ("OMPI_UNIVERSE_SIZE", plan.universe.pmix.to_string()),
        ("OMPI_NUM_APP_CTX", plan.parts.len().to_string()),
        ("OMPI_FIRST_RANKS", listed(first_ranks(plan))),
        ("OMPI_APP_CTX_NUM_PROCS", listed(plan.parts.iter().map(|part| part.ranks))),
    ]
}

/// Variables that differ from rank to rank.
pub(crate) fn of_rank(rank: u32, local_rank: u32) -> impl Iterator<Item = (&'static str, String)> {
    let variables = [("PMIX_RANK", rank.to_string())];
    variables.into_iter().chain(open_mpi_of_rank(rank, local_rank))
}

/// Variables of Open MPI that programs and scripts read, of one rank.
pub(super) fn open_mpi_of_rank(rank: u32, local_rank: u32) -> [(&'static str, String); 3] {
    [
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", local_rank.to_string()),
        ("OMPI_COMM_WORLD_NODE_RANK", local_rank.to_string()),
    ]
}

fn first_ranks(plan: &Plan) -> impl Iterator<Item = u32> {
    plan.parts.iter().scan(0, |next, part| {
        let first = *next;
        *next += part.ranks;
        Some(first)
    })
}

fn listed(numbers: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers.join(" ")
}
