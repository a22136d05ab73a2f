//! What the server knows of a job before its ranks connect: members, and pairs of its key-value space.

use crate::launch::plan::job::Plan;
use crate::launch::topology::hwloc;
use crate::server::pmix::heap::PmixHeap;
use pmi_core::error::{Full, Misuse};
use pmi_core::ids::{JobId, KvsName, Rank};
use pmi_core::limits::{PMI1_MAX_VALLEN, PMI2_MAX_ATTRVALUE};
use pmi_core::server::{JobSpec, Member, Server};
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_host_base::storage::Heap;
use pmi_std::env::DEAD_PROCESSES;
use pmi_trace::JobFacts;
use std::collections::BTreeMap;
use std::io;

/// Description of the job of `plan`, and its members.
///
/// # Errors
///
/// A name that cannot be served.
pub(super) fn describe(plan: &Plan) -> io::Result<(JobSpec, Vec<Member>)> {
    let name = |name: &str| KvsName::new(name.as_bytes()).map_err(io::Error::other);
    let spec = JobSpec {
        name: name(&plan.kvsname)?,
        spawner: plan.spawner.as_ref().map(|by| name(&by.kvsname)).transpose()?,
        universe_size: plan.universe.pmi,
        size: Some(plan.ranks),
        has_uplink: plan.placement.hosts.is_some(),
    };
    Ok((spec, plan.served().iter().map(|rank| member(plan, rank)).collect()))
}

/// Member for a rank of `plan` that has not connected.
fn member(plan: &Plan, rank: u32) -> Member {
    let is_local = plan.local_rank(rank).is_some();
    let appnum = plan.appnum(rank).min(plan.parts.len().saturating_sub(1));
    let member = Member::new(i32::try_from(appnum).unwrap_or(-1), node(plan, rank));
    let member = match plan.placement.hosts {
        Some(_) => member.with_rank(Rank(rank)),
        None => member,
    };
    let member = match &plan.endpoint {
        Some(endpoint) if !endpoint.requires_challenge || is_local => {
            member.with_token(endpoint.id(rank))
        }
        _ => member,
    };
    // The program of a rank that connects from elsewhere is unknown.
    match is_local && plan.offer(appnum).takes_newer_pmi1 {
        true => member.accepting_newer(),
        false => member,
    }
}

/// Node label of a rank: the number of its host; without other hosts, 0 is the local node. The nodes of ranks
/// that connect follow those of the hosts.
fn node(plan: &Plan, rank: u32) -> u32 {
    let hosts = plan.placement.hosts.as_ref();
    match (hosts, rank.checked_sub(plan.started())) {
        (Some(placed), None) => placed.map.node_of(rank).unwrap_or_default(),
        (None, None) => 0,
        (_, Some(number)) => {
            let count = hosts.map_or(1, |placed| placed.hosts.len());
            let node = plan.placement.expected.node_of(number);
            u32::try_from(count).unwrap_or(u32::MAX).saturating_add(node)
        }
    }
}

/// Description of a job in a trace.
pub(super) fn facts(server: &Server<Heap<PmixHeap>>, job: JobId, plan: &Plan) -> JobFacts {
    let is_spawner = |job: &JobId| {
        let name = server.job(*job).map(|job| job.name().as_bytes());
        name.is_some() && name == plan.spawner.as_ref().map(|by| by.kvsname.as_bytes())
    };
    let spawner = server.jobs().find(is_spawner).map(|job| job.0);
    JobFacts { job: job.0, name: plan.kvsname.clone(), ranks: plan.ranks, spawner }
}

/// Fills the key-value space of a job with the pairs its ranks can read from the start. Returns the length of
/// the process mapping if it was left out, since it is longer than a value may be.
pub(super) fn fill(
    server: &mut Server<Heap<PmixHeap>>,
    job: JobId,
    plan: &Plan,
) -> Result<Option<usize>, Misuse> {
    let mapping = process_mapping((0..plan.ranks).map(|rank| node(plan, rank)));
    if let Ok(mapping) = &mapping {
        server.preset(job, PROCESS_MAPPING, mapping)?;
    }
    if let Some(universe) = plan.universe.pmi {
        server.preset(job, b"universeSize", universe.to_string().as_bytes())?;
    }
    server.preset(job, b"hasNameServ", b"TRUE")?;
    preset_topology(server, job, plan)?;
    if let Some(file) = &plan.placement.topology {
        server.preset(job, hwloc::KEY.as_bytes(), file.path().as_bytes())?;
    }
    for (key, value) in &plan.pairs.attributes {
        server.preset(job, key.as_bytes(), value.as_bytes())?;
    }
    plan.pairs.preputs.iter().try_for_each(|(key, value)| server.preput(job, key, value))?;
    Ok(mapping.err().map(|full| full.needed))
}

/// Sets the attributes of the topology that the launcher knows: the ranks of each node, and the network of
/// the nodes. One node is a complete network by itself; several reach each other by IP, each one every
/// other. Coordinates and pools of shared memory are unknown, and so are the data models of several nodes.
/// Spec: PMI-2 API, Information about the node or job.
fn preset_topology(
    server: &mut Server<Heap<PmixHeap>>,
    job: JobId,
    plan: &Plan,
) -> Result<(), Misuse> {
    let mut nodes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for rank in plan.served().iter() {
        nodes.entry(node(plan, rank)).or_default().push(rank.to_string());
    }
    for (label, ranks) in nodes {
        server.preset_node(job, label, b"localRanksCount", ranks.len().to_string().as_bytes())?;
        let list = ranks.join(",");
        // A longer list is left out: its front would be taken for the whole.
        if list.len() < PMI2_MAX_ATTRVALUE {
            server.preset_node(job, label, b"localRanks", list.as_bytes())?;
        }
    }
    let facts: &[(&[u8], &[u8])] = match plan.placement.hosts {
        None => &[(b"physTopology", b"complete"), (b"isHeterogeneous", b"false")],
        Some(_) => {
            &[(b"physTopology", b"hierarchical"), (b"physTopologyLevels", b"complete,complete")]
        }
    };
    facts.iter().try_for_each(|(key, value)| server.preset(job, key, value))
}

/// Process mapping of ranks on these nodes.
///
/// # Errors
///
/// [`Full`] with its length if it is longer than clients of PMI-1 can read, which count the terminator of the
/// C string.
fn process_mapping(nodes: impl Iterator<Item = u32>) -> Result<Vec<u8>, Full> {
    let mut mapping = [0; PMI1_MAX_VALLEN - 1];
    write_mapping(nodes, &mut mapping).map(|len| mapping[..len].to_vec())
}

/// Publishes the failed ranks of a job where MPI libraries look for them.
pub(super) fn publish_failed(server: &mut Server<Heap<PmixHeap>>, job: JobId, ranks: &[u32]) {
    let mut list = String::new();
    for rank in ranks {
        let next = format!("{}{rank}", if list.is_empty() { "" } else { "," });
        // A list that is too long is truncated.
        if list.len() + next.len() >= PMI1_MAX_VALLEN {
            break;
        }
        list.push_str(&next);
    }
    // The job exists, the key is valid, and the value fits.
    let _ = server.preset(job, DEAD_PROCESSES, list.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks on nodes of which each has one more than the one before.
    fn ragged(nodes: u32) -> impl Iterator<Item = u32> {
        (0..nodes).flat_map(|node| std::iter::repeat_n(node, node as usize + 1))
    }

    #[test]
    fn mapping_of_a_ragged_layout_is_written_up_to_the_length_of_a_value() {
        let mapping = process_mapping(ragged(20)).unwrap();
        assert!(mapping.len() > 64);
        let read = pmi_core::wire::mapping::read_mapping(&mapping, 210).unwrap();
        assert!(read.eq(ragged(20)));
        let full = process_mapping(ragged(200)).unwrap_err();
        assert!(full.needed >= PMI1_MAX_VALLEN, "{full}");
    }
}
