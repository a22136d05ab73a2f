//! Operations of ranks on several nodes, gathered at the head.

use super::changes::{self, Changes};
use super::queries::{self, Query, QueryOrigin};
use super::table::NodeTable;
use super::{Run, connects, debuggers, fetches, names, pushes};
use crate::link::message::ToNode;
use crate::numbers::index;
use crate::operation::{
    ForwardedMessage, Operation, OperationKind, OperationPart, OperationReply, OperationRequest,
};
use crate::placement::PlacedHosts;
use crate::server::head_server::HeadServer;
use crate::verdict::Failure;
use pmi_core::server::pmix::group_participants;
use pmi_core::wire::pmix::WILDCARD;
use pmi_tree::{Destination, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Operations that some nodes have handed up.
#[derive(Debug)]
pub(super) struct Operations {
    /// Places of the ranks, by number of the job.
    jobs: Vec<Rc<PlacedHosts>>,
    open: Vec<Gathering>,
    /// Number of the last group.
    serial: u32,
    pub(super) changes: Changes,
    /// Operations whose part of this run is at the name server, by query.
    pub(super) elsewhere: BTreeMap<u64, Gathering>,
}

/// Parts of one operation.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) operation: Operation,
    /// Members by node: jobs and ranks.
    pub(super) members: BTreeMap<NodeId, Vec<(u32, u32)>>,
    pub(super) parts: BTreeMap<NodeId, NodePart>,
}

/// Part of one node.
#[derive(Debug)]
pub(super) struct NodePart {
    pub(super) number: u32,
    is_partial: bool,
    pub(super) data: Vec<u8>,
}

/// An operation that waits for no node any more.
#[derive(Debug)]
pub(super) enum EndedOperation {
    /// The results for the nodes.
    Here(Vec<(Destination, OperationReply)>),
    /// Other runs take part.
    Elsewhere(Gathering),
}

impl Operations {
    /// Creates the table of a run whose first job has these places.
    pub(super) fn new(placed: Rc<PlacedHosts>) -> Self {
        let (open, elsewhere) = (Vec::new(), BTreeMap::new());
        Self { jobs: vec![placed], open, serial: 0, changes: Changes::default(), elsewhere }
    }

    /// Adds the next job.
    pub(super) fn add_job(&mut self, placed: Rc<PlacedHosts>) {
        self.jobs.push(placed);
    }

    /// Places of the ranks of a job.
    pub(super) fn places(&self, job: usize) -> Option<&PlacedHosts> {
        self.jobs.get(job).map(Rc::as_ref)
    }

    /// Adds the part of a node; false if the node has no such operation.
    pub(super) fn add(&mut self, from: NodeId, part: OperationPart) -> bool {
        let OperationPart { number, operation, is_partial, data } = part;
        self.withdraw(from, number, operation.kind);
        // A node may be in the next operation of the same members already.
        let is_it = |one: &Gathering| one.operation == operation && !one.parts.contains_key(&from);
        let at = match self.open.iter().position(is_it) {
            Some(at) => at,
            None => {
                let Some(members) = self.members(&operation) else { return false };
                if self.open.len() >= OPEN_MAX {
                    return false;
                }
                self.open.push(Gathering { operation, members, parts: BTreeMap::new() });
                self.open.len() - 1
            }
        };
        let gathering = &mut self.open[at];
        let is_bootstrap = gathering.operation.kind == OperationKind::Bootstrap;
        if !is_bootstrap && !gathering.members.contains_key(&from) {
            return false;
        }
        gathering.parts.insert(from, NodePart { number, is_partial, data });
        true
    }

    /// Members of an operation by node; `None` if one does not exist.
    fn members(&self, operation: &Operation) -> Option<BTreeMap<NodeId, Vec<(u32, u32)>>> {
        let mut all: BTreeMap<NodeId, Vec<(u32, u32)>> = BTreeMap::new();
        for (job, ranks) in &operation.members {
            let map = &self.jobs.get(index(*job))?.map;
            if ranks.count() > u64::from(map.ranks()) {
                return None;
            }
            for rank in ranks.iter() {
                let node = NodeId(map.node_of(rank)? + 1);
                all.entry(node).or_default().push((*job, rank));
            }
        }
        Some(all)
    }

    /// Removes a part of a node.
    fn withdraw(&mut self, from: NodeId, number: u32, kind: OperationKind) {
        for gathering in &mut self.open {
            if gathering.operation.kind.shares_numbers(kind)
                && gathering.parts.get(&from).is_some_and(|part| part.number == number)
            {
                gathering.parts.remove(&from);
            }
        }
        self.open.retain(|gathering| !gathering.parts.is_empty());
    }

    /// Waits again for a part that was withdrawn, if others are left.
    pub(super) fn reopen(&mut self, gathering: Gathering) {
        if !gathering.parts.is_empty() && self.open.len() < OPEN_MAX {
            self.open.push(gathering);
        }
    }

    /// The next operation that waits for no node any more.
    pub(super) fn take_ended(
        &mut self,
        nodes: &NodeTable,
        server: &HeadServer,
    ) -> Option<EndedOperation> {
        let is_complete = |gathering: &Gathering| match gathering.operation.kind {
            OperationKind::Bootstrap => self.bootstrap(gathering, nodes, server).is_complete,
            _ => gathering.is_complete(nodes),
        };
        let at = self.open.iter().position(is_complete)?;
        let gathering = self.open.remove(at);
        if gathering.operation.others().is_some() {
            return Some(EndedOperation::Elsewhere(gathering));
        }
        let is_bootstrap = gathering.operation.kind == OperationKind::Bootstrap;
        let lacks_members = is_bootstrap && self.bootstrap(&gathering, nodes, server).lacks_members;
        let is_partial = lacks_members || gathering.is_partial();
        let data = gathering.data();
        let Gathering { operation, parts, .. } = gathering;
        self.serial += u32::from(is_bootstrap || operation.kind == OperationKind::Construct);
        let (kind, serial) = (operation.kind, self.serial);
        let job = operation.members.first().map_or(0, |(job, _)| *job);
        Some(EndedOperation::Here(results(parts, nodes.iter().count(), |number| {
            let data = data.clone();
            OperationReply::Ended { kind, job, number, serial, is_partial, data }
        })))
    }

    /// Progress of a bootstrap, whose participants are in the parts.
    fn bootstrap(
        &self,
        gathering: &Gathering,
        nodes: &NodeTable,
        server: &HeadServer,
    ) -> Bootstrap {
        let all = || gathering.parts.values().flat_map(|part| group_participants(&part.data));
        let leading = || all().filter(|one| one.leaders > 0);
        let needed = leading().map(|one| one.leaders).max().unwrap_or(0);
        let have = u64::try_from(leading().count()).unwrap_or(u64::MAX);
        if needed == 0 || have < needed {
            return Bootstrap { is_complete: false, lacks_members: false };
        }
        let job_of = |nspace| server.number_of(nspace);
        let joined: BTreeSet<(u32, u32)> =
            all().filter_map(|one| Some((job_of(one.proc.nspace)?, one.proc.rank))).collect();
        let (mut is_complete, mut lacks_members) = (true, false);
        // The nodes reject a group with a process that does not exist.
        let named = leading().flat_map(|one| one.named());
        for (job, rank) in named.filter_map(|proc| Some((job_of(proc.nspace)?, proc.rank))) {
            let size = self.places(index(job)).map_or(0, |placed| placed.map.ranks());
            let ranks = if rank == WILDCARD { 0..size } else { rank..rank.saturating_add(1) };
            for absent in ranks.map(|rank| (job, rank)).filter(|rank| !joined.contains(rank)) {
                lacks_members |= nodes.has_ended(absent);
                is_complete &= nodes.has_ended(absent) || absent.1 >= size;
            }
        }
        Bootstrap { is_complete, lacks_members }
    }

    /// A rank that has ended, and for which members of an operation wait that cannot end without it, and the
    /// number of these members.
    fn blocked(&self, nodes: &NodeTable) -> Option<((u32, u32), usize)> {
        let strict = self.open.iter().filter(|one| !one.operation.kind.tolerates_ends());
        let mut blocked = strict.filter_map(|gathering| {
            let (here, absent): (Vec<_>, Vec<_>) =
                gathering.members.iter().partition(|(node, _)| gathering.parts.contains_key(node));
            let mut absent = absent.into_iter().flat_map(|(_, ranks)| ranks);
            let gone = absent.find(|rank| nodes.has_ended(**rank))?;
            Some((*gone, here.into_iter().map(|(_, ranks)| ranks.len()).sum()))
        });
        blocked.next()
    }
}

/// Progress of the bootstrap of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bootstrap {
    /// True if all leaders are there, and each process that they name has joined or ended.
    is_complete: bool,
    /// True if one of these has ended without having joined.
    lacks_members: bool,
}

impl Gathering {
    /// True if members are gone without having joined.
    pub(super) fn is_partial(&self) -> bool {
        self.parts.len() < self.members.len() || self.parts.values().any(|part| part.is_partial)
    }

    /// Data of all parts, in the order of the nodes.
    pub(super) fn data(&self) -> Vec<u8> {
        self.parts.values().flat_map(|part| part.data.iter().copied()).collect()
    }

    /// True if each node has handed up its part, or has no member that runs.
    fn is_complete(&self, nodes: &NodeTable) -> bool {
        let is_tolerant = self.operation.kind.tolerates_ends();
        let has_ended =
            |ranks: &[(u32, u32)]| is_tolerant && ranks.iter().all(|rank| nodes.has_ended(*rank));
        self.members.iter().all(|(node, ranks)| self.parts.contains_key(node) || has_ended(ranks))
    }
}

/// The results of an operation for the nodes with these parts, of a run with so many nodes. `of` makes the
/// one for a part with this number.
pub(super) fn results(
    parts: BTreeMap<NodeId, NodePart>,
    nodes: usize,
    of: impl Fn(u32) -> OperationReply,
) -> Vec<(Destination, OperationReply)> {
    let numbers: BTreeSet<u32> = parts.values().map(|part| part.number).collect();
    if let (1, Some(number)) = (numbers.len(), numbers.first().copied())
        && parts.len() == nodes
    {
        // One message for all, which the tree multiplies.
        return vec![(Destination::All, of(number))];
    }
    parts.into_iter().map(|(node, part)| (Destination::Node(node), of(part.number))).collect()
}

/// Handles a message of a node about an operation.
pub(super) fn handle_request(run: &mut Run, from: NodeId, request: OperationRequest) {
    let is_valid = match request {
        OperationRequest::Part(part) => run.operations.add(from, part),
        OperationRequest::Withdrawn { number } => {
            run.operations.withdraw(from, number, OperationKind::Fence);
            connects::withdraw(run, from, number);
            true
        }
        OperationRequest::Forwarded(message) => forward(run, from, message),
        OperationRequest::Name { asker, request } => names::serve(run, from, (asker, request)),
        OperationRequest::Fetch(request) => fetches::forward(run, from, request),
        OperationRequest::Fetched(answer) => fetches::distribute(run, from, answer),
        OperationRequest::Change { asker, by, change } => {
            changes::start(run, from, (asker, by), change)
        }
        OperationRequest::Changed { number, result } => changes::note(run, from, number, result),
        OperationRequest::ListProcesses { asker, wants_memory } => {
            let from = QueryOrigin::Node(from, asker);
            queries::open(run, Query { from, wants_memory });
            true
        }
        OperationRequest::Processes { number, rows } => {
            queries::handle_rows(run, from, number, rows);
            true
        }
        OperationRequest::Control { asker, message } => {
            queries::control(run, QueryOrigin::Control(from, asker), message);
            true
        }
        OperationRequest::Stopped(message) => debuggers::note_stopped(run, from, message),
        OperationRequest::Pushed { number, result } => pushes::note(run, from, number, result),
        // Tools connect to the head.
        OperationRequest::Event(_) => false,
    };
    if !is_valid {
        let host = run.nodes.get(from).map_or("", |node| &node.host);
        let what = format!("the agent on {host} sent an operation of ranks that it does not have");
        run.fail(Failure::Launcher { what }, None);
    }
    end_complete(run);
}

fn forward(run: &mut Run, from: NodeId, message: ForwardedMessage) -> bool {
    let is_its = run.nodes.number_on(from, (message.job, message.rank)).is_some();
    if is_its {
        run.clients.server.handle_forwarded(&message);
        run.send_all(ToNode::Operation(OperationReply::Forwarded(message)));
    }
    is_its
}

/// Handles the end of a rank.
pub(super) fn note_end(run: &mut Run, rank: (u32, u32)) {
    names::note_end(run, rank);
    end_complete(run);
}

/// Ends the operations that wait for no node any more.
fn end_complete(run: &mut Run) {
    while let Some(ended) = run.operations.take_ended(&run.nodes, &run.clients.server) {
        match ended {
            EndedOperation::Here(replies) => {
                for (to, reply) in replies {
                    run.send(to, ToNode::Operation(reply));
                }
            }
            EndedOperation::Elsewhere(gathering) => connects::start(run, gathering),
        }
    }
    if !run.ending.termination.has_failed()
        && let Some(((job, gone), waiting_count)) = run.operations.blocked(&run.nodes)
    {
        let failure = Failure::Missing { gone: vec![gone], gone_count: 1, waiting_count };
        run.fail_in(job, failure, None);
    }
}

/// Operations that may be open at once.
const OPEN_MAX: usize = 1 << 16;
