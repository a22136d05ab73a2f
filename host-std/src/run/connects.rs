//! Operations of ranks with those of other runs: the part of this run goes to the name server, and the
//! parts of the others go to the nodes with members.

use super::operations::{Gathering, results};
use super::{Run, names};
use crate::link::message::ToNode;
use crate::names::client::ConnectOutcome;
use crate::operation::OperationReply;
use crate::other_runs::{ConnectPart, ConnectResult, ConnectedMessage, JobPart};
use crate::server::pmix::facts::describe_to_others;
use crate::verdict::Failure;
use pmi_core::server::pmix::{ForeignProcs, collective_blocks};
use pmi_core::wire::pmix::WILDCARD;
use pmi_core::wire::pmix::names::Status;
use pmi_host_base::ranges::Ranks;
use pmi_tree::NodeId;
use std::collections::BTreeMap;

/// Sends the part of this run, which is complete.
pub(super) fn start(run: &mut Run, gathering: Gathering) {
    let Some(part) = part(run, &gathering) else {
        let what = "an operation of ranks with other runs has a malformed part".to_owned();
        return run.fail(Failure::Launcher { what }, None);
    };
    let Run { clients, poller, operations, .. } = run;
    let Some(client) = &mut clients.names.client else {
        return fail(run, gathering, Status::NOT_FOUND);
    };
    let (query, update) = client.connect(&part, poller);
    operations.elsewhere.insert(query, gathering);
    names::apply(run, update);
}

/// Hands the result of a query to the nodes. Nothing happens if their members have given it up.
pub(super) fn finish(run: &mut Run, query: u64, outcome: ConnectOutcome) {
    let Some(gathering) = run.operations.elsewhere.remove(&query) else { return };
    match outcome {
        ConnectOutcome::Failed(status) => fail(run, gathering, status),
        ConnectOutcome::Connected(others) if !is_of_others(&gathering, &others) => {
            fail(run, gathering, Status::BAD_PARAM);
        }
        ConnectOutcome::Connected(others) => {
            let data = gathering.data();
            reply(run, gathering, |number| {
                let (data, others) = (data.clone(), others.clone());
                OperationReply::Connected(ConnectedMessage { number, data, others })
            });
        }
    }
}

/// True if a result has the jobs that the members have listed.
fn is_of_others(gathering: &Gathering, result: &ConnectResult) -> bool {
    let (_, others) = gathering.operation.others().unzip();
    let listed = ForeignProcs::new(others.unwrap_or_default());
    let mut listed: Vec<&[u8]> = listed.map_while(Result::ok).map(|of| of.nspace).collect();
    let mut received: Vec<&[u8]> = result.jobs.iter().map(|job| job.nspace.as_slice()).collect();
    listed.sort_unstable();
    received.sort_unstable();
    listed == received
}

fn fail(run: &mut Run, gathering: Gathering, status: Status) {
    reply(run, gathering, |number| OperationReply::NotConnected(number, status.0));
}

fn reply(run: &mut Run, gathering: Gathering, of: impl Fn(u32) -> OperationReply) {
    let nodes = run.nodes.iter().count();
    for (to, reply) in results(gathering.parts, nodes, of) {
        run.send(to, ToNode::Operation(reply));
    }
}

/// Withdraws the part of a node from an operation that other runs may take part in already. The others of
/// this run wait for it again.
pub(super) fn withdraw(run: &mut Run, from: NodeId, number: u32) {
    let Run { clients, poller, operations, .. } = run;
    let is_its = |gathering: &Gathering| {
        gathering.parts.get(&from).is_some_and(|part| part.number == number)
    };
    let found = operations.elsewhere.iter().find(|(_, gathering)| is_its(gathering));
    let Some(query) = found.map(|(query, _)| *query) else { return };
    if let Some(mut gathering) = operations.elsewhere.remove(&query) {
        gathering.parts.remove(&from);
        operations.reopen(gathering);
    }
    if let Some(client) = &mut clients.names.client {
        let update = client.withdraw(query, poller);
        names::apply(run, update);
    }
}

/// The part of this run; `None` if a node has sent a malformed one.
fn part(run: &Run, gathering: &Gathering) -> Option<ConnectPart> {
    let operation = &gathering.operation;
    let mut data: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for part in gathering.parts.values() {
        for block in collective_blocks(&part.data) {
            let (job, block) = block.ok()?;
            data.entry(job.0).or_default().extend(block);
        }
    }
    let own = operation.members.iter().map(|(job, ranks)| {
        let plan = run.jobs.plan(*job);
        JobPart {
            nspace: plan.kvsname.clone().into_bytes(),
            size: plan.ranks,
            ranks: ranks.clone(),
            info: describe_to_others(plan, plan.placement.hosts.as_deref()),
            data: data.remove(job).unwrap_or_default(),
        }
    });
    let own = own.collect();
    let (kind, packed) = operation.others()?;
    let others = others(packed)?;
    Some(ConnectPart { kind, is_partial: gathering.is_partial(), own, others })
}

/// Processes of other runs, by namespace; `None` if they are malformed.
fn others(packed: &[u8]) -> Option<Vec<(Vec<u8>, Option<Ranks>)>> {
    let all = ForeignProcs::new(packed).map(|of| {
        let of = of.ok()?;
        if of.ranks().eq([WILDCARD]) {
            return Some((of.nspace.to_vec(), None));
        }
        if !of.ranks().is_sorted_by(|one, next| one < next) {
            return None;
        }
        Some((of.nspace.to_vec(), Some(of.ranks().collect())))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::super::operations::{EndedOperation, Operations};
    use super::super::table::NodeTable;
    use super::*;
    use crate::operation::{Operation, OperationKind, OperationPart};
    use crate::placement::tests::placed;
    use crate::server::head_server::HeadServer;
    use pmi_host_base::kvs_budget::KvsLimits;
    use pmi_tree::Destination;
    use std::rc::Rc;

    /// Processes of the namespace `ns`, as nodes pack them.
    fn packed(ranks: &[u32]) -> Vec<u8> {
        let count = u32::try_from(ranks.len()).unwrap();
        let mut packed = [2_u32.to_be_bytes(), count.to_be_bytes()].concat();
        packed.extend(b"ns");
        packed.extend(ranks.iter().flat_map(|rank| rank.to_be_bytes()));
        packed
    }

    #[test]
    fn operation_with_other_runs_goes_on_elsewhere_and_waits_again_for_a_withdrawn_part() {
        let places = placed("n1:2,n2:2", 4);
        let mut operations = Operations::new(Rc::new(places.clone()));
        let nodes = NodeTable::new(&places, 4);
        let server = HeadServer::new(KvsLimits::default());
        let part = |number, is_partial| OperationPart {
            number,
            operation: Operation {
                kind: OperationKind::Connect,
                name: Some(packed(&[0])),
                members: vec![(0, (0..4).collect())],
            },
            is_partial,
            data: vec![u8::try_from(number).unwrap()],
        };
        let ended = |operations: &mut Operations| match operations.take_ended(&nodes, &server) {
            Some(EndedOperation::Elsewhere(gathering)) => Some(gathering),
            Some(here) => panic!("{here:?}"),
            None => None,
        };
        assert!(operations.add(NodeId(2), part(5, false)));
        assert!(ended(&mut operations).is_none());
        assert!(operations.add(NodeId(1), part(3, true)));
        let mut gathering = ended(&mut operations).unwrap();
        assert_eq!((gathering.data(), gathering.is_partial()), (vec![3, 5], true));
        gathering.parts.remove(&NodeId(1));
        operations.reopen(gathering);
        assert!(ended(&mut operations).is_none());
        assert!(operations.add(NodeId(1), part(4, false)));
        let gathering = ended(&mut operations).unwrap();
        assert_eq!((gathering.data(), gathering.is_partial()), (vec![4, 5], false));
        // The result for each node has the number of its own part.
        let reply = |number| OperationReply::NotConnected(number, -61);
        let to = |node, number| (Destination::Node(NodeId(node)), reply(number));
        assert_eq!(results(gathering.parts, 2, reply), [to(1, 4), to(2, 5)]);
    }

    #[test]
    fn result_has_the_jobs_that_were_listed() {
        let gathering = |others: Vec<u8>| {
            let members = Vec::new();
            let operation = Operation { kind: OperationKind::Fence, name: Some(others), members };
            Gathering { operation, members: BTreeMap::new(), parts: BTreeMap::new() }
        };
        let job = |nspace: &[u8]| JobPart {
            nspace: nspace.to_vec(),
            size: 1,
            ranks: Ranks::default(),
            info: Vec::new(),
            data: Vec::new(),
        };
        let is_it = |jobs: &[&[u8]]| {
            let jobs = jobs.iter().map(|nspace| job(nspace)).collect();
            is_of_others(&gathering(packed(&[0])), &ConnectResult { is_partial: false, jobs })
        };
        assert!(is_it(&[b"ns"]));
        assert!(!is_it(&[b"n"]) && !is_it(&[]) && !is_it(&[b"ns", b"ns"]));
    }

    #[test]
    fn processes_of_other_runs_are_read_by_namespace() {
        let ranks = |ranks: &[u32]| Some(ranks.iter().copied().collect::<Ranks>());
        let both = [packed(&[0, 1, 4]), packed(&[WILDCARD])].concat();
        let expected = vec![(b"ns".to_vec(), ranks(&[0, 1, 4])), (b"ns".to_vec(), None)];
        assert_eq!(others(&both), Some(expected));
        for len in 1..both.len() {
            assert_eq!(others(&both[..len]).is_some(), len == packed(&[0, 1, 4]).len(), "{len}");
        }
        assert_eq!(others(&packed(&[1, 0])), None);
        assert_eq!(others(&packed(&[1, 1])), None);
    }
}
