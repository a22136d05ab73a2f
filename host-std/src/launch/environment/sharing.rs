//! Announcement to MPI libraries that ranks share processors, or nodes a machine.
//!
//! A rank that waits for a message spins, which is fastest while it has a processor of its own. Where ranks
//! share one, each spins away the time slice of the rank that it waits for, and an operation takes
//! milliseconds. Open MPI and Intel MPI then yield the processor instead, if their launcher says so.
//! MPICH spins in any case, under its own launcher as well.

use crate::launch::plan::job::Plan;
use crate::launch::plan::protocol_offer::ProtocolOffer;
use crate::launch::topology::processors::{ProcessorLocation, ROOT, places};
use std::path::Path;

/// Variables that tell the libraries a program with `offer` may use whether the ranks of `plan` share
/// processors, and where they share memory with each other but not with other nodes of the same machine.
pub(super) fn of_plan(plan: &Plan, offer: &ProtocolOffer) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if offer.pmix {
        let is_oversubscribed = u8::from(plan.is_oversubscribed()).to_string();
        variables.push(("OMPI_MCA_mpi_oversubscribe", is_oversubscribed));
        let directory = plan.pmix.as_ref().and_then(|pmix| pmix.directory.as_ref());
        if let Some(directory) = directory.filter(|_| plan.placement.is_beside_nodes) {
            let directory = directory.display().to_string();
            variables.push(("OMPI_MCA_btl_vader_backing_directory", directory));
        }
    }
    // A program that may start others, as a shell does, finds servers of both kinds.
    let may_use_intel_mpi = offer.pmi && (offer.pmix || offer.may_link_mpi);
    if may_use_intel_mpi && plan.is_oversubscribed() {
        // A machine that does not describe its processors has no such variables: a library that finds one
        // without the others is killed by SIGSEGV.
        let places = places(Path::new(ROOT)).unwrap_or_default();
        variables.extend(of_intel(plan, &places).into_iter().flatten());
    }
    variables
}

/// Wire: `I_MPI_PIN_MAPPING=4:0 0,1 1,2 0,3 1` lists ranks of the node, each with its processor; the other
/// lists have one number for each processor of the machine.
fn of_intel(plan: &Plan, places: &[ProcessorLocation]) -> Option<[(&'static str, String); 5]> {
    let known = |processor: &u32| usize::try_from(*processor).is_ok_and(|at| at < places.len());
    let ranks = plan.local();
    let mut pinned = Vec::new();
    for rank in 0..ranks {
        let processor = plan.processor(rank).filter(known)?;
        pinned.push(format!("{rank} {processor}"));
    }
    let list = |of: fn(&ProcessorLocation) -> u32| {
        let numbers: Vec<String> = places.iter().map(|place| of(place).to_string()).collect();
        numbers.join(",")
    };
    Some([
        ("I_MPI_PIN_MAPPING", format!("{ranks}:{}", pinned.join(","))),
        ("I_MPI_INFO_LCPU", places.len().to_string()),
        ("I_MPI_INFO_CORE", list(|place| place.core)),
        ("I_MPI_INFO_PACK", list(|place| place.socket)),
        ("I_MPI_INFO_THREAD", list(|place| place.thread)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::job::PmixEndpoint;
    use crate::launch::plan::job::tests::plan;

    const PLACES: [ProcessorLocation; 4] = [
        ProcessorLocation { socket: 0, core: 0, thread: 0 },
        ProcessorLocation { socket: 1, core: 0, thread: 0 },
        ProcessorLocation { socket: 0, core: 0, thread: 1 },
        ProcessorLocation { socket: 1, core: 0, thread: 1 },
    ];

    fn value(plan: &Plan, name: &str) -> Option<String> {
        let all = of_intel(plan, &PLACES)?;
        all.into_iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    #[test]
    fn intel_mpi_finds_where_ranks_meet() {
        let mut plan = plan(&[("./a", 3), ("./b", 1)]);
        plan.placement.processors = vec![1, 3];
        assert_eq!(value(&plan, "I_MPI_PIN_MAPPING").unwrap(), "4:0 1,1 3,2 1,3 3");
        assert_eq!(value(&plan, "I_MPI_INFO_LCPU").unwrap(), "4");
        assert_eq!(value(&plan, "I_MPI_INFO_PACK").unwrap(), "0,1,0,1");
        assert_eq!(value(&plan, "I_MPI_INFO_THREAD").unwrap(), "0,0,1,1");
        // Two ranks of another job take as much as two of this one.
        plan.placement.neighbours = 4;
        assert_eq!(value(&plan, "I_MPI_PIN_MAPPING").unwrap(), "4:0 1,1 1,2 1,3 1");
        // A processor that the machine does not describe.
        plan.placement.processors = vec![9];
        assert_eq!(of_intel(&plan, &PLACES), None);
    }

    #[test]
    fn nodes_of_one_machine_have_files_of_shared_memory_of_their_own() {
        let mut plan = plan(&[("./a", 2)]);
        let directory = Some("/tmp/ranks".into());
        plan.pmix = Some(PmixEndpoint { directory, ..PmixEndpoint::new(7, "127.0.0.1:1") });
        let offer = ProtocolOffer { pmix: true, ..ProtocolOffer::PMI };
        let find = |plan: &Plan| {
            let all = of_plan(plan, &offer);
            all.into_iter().find(|(name, _)| name.contains("vader")).map(|(_, value)| value)
        };
        assert_eq!(find(&plan), None);
        plan.placement.is_beside_nodes = true;
        assert_eq!(find(&plan).as_deref(), Some("/tmp/ranks"));
    }

    #[test]
    fn ranks_are_oversubscribed_beyond_the_processors_counting_those_of_other_jobs() {
        let mut plan = plan(&[("./a", 2)]);
        assert!(!plan.is_oversubscribed(), "nothing is known of the processors");
        plan.placement.processors = vec![0, 1];
        assert!(!plan.is_oversubscribed());
        plan.placement.neighbours = 1;
        assert!(plan.is_oversubscribed());
    }
}
