//! Jobs of a run on several nodes, and spawn requests of their ranks.
//!
//! The head resolves a request, places the ranks and sends the job to all nodes, also to those without a rank
//! of it: they serve reads of its data. The answer follows when all ranks are started.

use super::growth::{self, HeadGrowth};
use super::{Run, debuggers, names, tools, trace};
use crate::launch::plan::debugger_daemons::place_daemons;
use crate::launch::plan::hosts::RunHosts;
use crate::launch::plan::job::{App, Plan};
use crate::launch::plan::local_ranks::LocalRanks;
use crate::launch::plan::spawn_outcome::Commands;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::link::job_message::{AppMessage, JobMessage};
use crate::link::message::ToNode;
use crate::link::spawn_message::{SpawnAnswer, SpawnMessage, SpawnNotice, SpawnedJob};
use crate::numbers::index;
use crate::operation::Asker;
use crate::placement::{NodeMap, PlacedHosts, SpawnedPart, place_spawned};
use crate::report;
use crate::requests::LATE;
use crate::server::event::PendingSpawn;
use crate::stdio::forward::{OutputDelivery, OutputPull};
use crate::stdio::label::RankNodes;
use crate::verdict::Failure;
use pmi_core::command::CodeRun;
use pmi_core::error::Code;
use pmi_host_os::clock;
use pmi_nodes::failed_host::LateHost;
use pmi_nodes::stage::SentPrograms;
use pmi_tree::{Destination, NodeId};
use std::fmt::Display;
use std::rc::Rc;
use std::time::Instant;

/// Plans of all jobs, and requests that wait for an answer.
pub(super) struct HeadJobs {
    first: Rc<Plan>,
    /// Spawned jobs, in the order of their numbers, which begin at 1.
    spawned: Vec<Rc<Plan>>,
    /// Places of the ranks of the first job, with all hosts of the run.
    placed: Rc<PlacedHosts>,
    /// Hosts of all ranks, for labels.
    labels: RankNodes,
    waiting: Vec<WaitingSpawn>,
    /// Description of the first job, until it is sent.
    unsent: Option<JobMessage>,
    /// Programs that are sent to the nodes; `None` if all nodes have them.
    programs: Option<SentPrograms>,
    pub(super) growth: HeadGrowth,
}

/// A spawn request whose job is being started.
struct WaitingSpawn {
    job: u32,
    from: SpawnOrigin,
    commands: Commands,
    /// Time at which all ranks must be started; `None` without a limit.
    deadline: Option<Instant>,
    /// Daemons of a debugger that are started next, before the answer.
    daemons: Option<SpawnRequest>,
    /// The requested job, if this one has its daemons.
    beside: Option<u32>,
}

/// Origin of a spawn request.
#[derive(Clone, Copy)]
pub(super) enum SpawnOrigin {
    /// A rank of this node, by its job and number.
    Rank(NodeId, Asker, (u32, u32)),
    /// A tool.
    Tool(PendingSpawn),
}

impl SpawnOrigin {
    /// Job and number of the rank; of a tool those of a rank that ranks of the new job are like.
    const fn by(self) -> (u32, u32) {
        match self {
            Self::Rank(_, _, by) => by,
            Self::Tool(_) => (0, 0),
        }
    }

    /// Node of the rank.
    pub(super) const fn node(self) -> Option<NodeId> {
        match self {
            Self::Rank(node, ..) => Some(node),
            Self::Tool(_) => None,
        }
    }

    const fn is_tool(self) -> bool {
        matches!(self, Self::Tool(_))
    }
}

impl HeadJobs {
    pub(super) fn new(
        first: Rc<Plan>,
        unsent: Option<(JobMessage, Option<SentPrograms>)>,
        placed: Rc<PlacedHosts>,
        labels: RankNodes,
        late: Vec<LateHost>,
    ) -> Self {
        let (unsent, programs) = unsent.unzip();
        let growth = HeadGrowth::new(unsent.as_ref(), placed.hosts.len(), late);
        let (spawned, waiting, programs) = (Vec::new(), Vec::new(), programs.flatten());
        Self { first, spawned, placed, labels, waiting, unsent, programs, growth }
    }

    /// True until the first job is sent to the nodes.
    pub(super) const fn is_unsent(&self) -> bool {
        self.unsent.is_some()
    }

    /// True if the run has a list of hosts.
    pub(super) fn names_hosts(&self) -> bool {
        self.first.names_hosts()
    }

    /// Takes the description of the first job, to send it.
    pub(super) const fn take_unsent(&mut self) -> Option<JobMessage> {
        self.unsent.take()
    }

    /// Plan of a job; that of the first one if there is none with this number.
    pub(super) fn plan(&self, job: u32) -> &Rc<Plan> {
        let spawned = job.checked_sub(1).and_then(|at| self.spawned.get(index(at)));
        spawned.unwrap_or(&self.first)
    }

    /// All hosts of the run, with the places of the ranks of the first job.
    pub(super) const fn placed(&self) -> &Rc<PlacedHosts> {
        &self.placed
    }

    /// Replaces the hosts of the run by more of them.
    pub(super) fn set_placed(&mut self, placed: Rc<PlacedHosts>) {
        self.placed = placed;
    }

    /// Time at which the next job must be started.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|one| one.deadline);
        waiting.chain([self.growth.deadline()]).flatten().min()
    }

    fn take_waiting(&mut self, job: u32) -> Option<WaitingSpawn> {
        let at = self.waiting.iter().position(|one| one.job == job)?;
        Some(self.waiting.swap_remove(at))
    }
}

/// Handles a spawn request of a rank.
pub(super) fn handle_request(run: &mut Run, node: NodeId, message: SpawnMessage) {
    let SpawnMessage { asker, by, request } = message;
    if run.nodes.number_on(node, by).is_none() && !run.ending.termination.has_failed() {
        let host = run.nodes.get(node).map_or("", |node| &node.host);
        let what = format!("the agent on {host} sent a spawn of a rank that it does not have");
        return run.fail(Failure::Launcher { what }, None);
    }
    handle(run, (SpawnOrigin::Rank(node, asker, by), None), request);
}

/// Accepts or rejects a spawn request. It gets an answer either way, and the job of a rank continues.
/// With `beside`, the job consists of the daemons of that one, which was requested with them.
pub(super) fn handle(
    run: &mut Run,
    (from, beside): (SpawnOrigin, Option<u32>),
    mut request: SpawnRequest,
) {
    if run.ending.termination.has_failed() || run.ending.is_leaving() || run.jobs.is_unsent() {
        return answer(run, from, Err(Code::FAIL), &[]);
    }
    let placed = Rc::clone(&run.jobs.placed);
    let loads = run.nodes.loads(&placed.slots);
    let own = match from {
        SpawnOrigin::Rank(node, ..) => placed.name(node.0.saturating_sub(1)).to_owned(),
        SpawnOrigin::Tool(_) => run.plan(0).host.clone(),
    };
    let lost = run.nodes.lost();
    let known = match run.jobs.names_hosts() {
        true => RunHosts::Several { hosts: &placed.hosts, lost: &lost, own: &own },
        false => RunHosts::One(&own),
    };
    match request.added_hosts(known) {
        // A run without node servers has no others, which the request itself is refused for.
        Ok(_) if !run.jobs.names_hosts() => {}
        Ok(hosts) if hosts.is_empty() && !growth::is_settling(run) => {}
        Ok(hosts) => return growth::begin(run, hosts, (from, request)),
        Err(why) => return refuse(run, (from, beside), (why.code(), &[]), why),
    }
    let runs = match place_daemons(&mut request, |nspace| debuggers::nodes_of(run, nspace)) {
        Ok(runs) => runs,
        Err(why) => return refuse(run, (from, beside), (Code::FAIL, &[]), why),
    };
    let (by, directives) = (from.by(), request.directives.clone());
    let forwards = directives.forwards;
    let mut daemons = request.daemons.is_some().then(|| request.clone());
    let preputs = request.preputs.clone();
    let deadline = request.timeout().map(|timeout| clock::now() + timeout);
    let room = run.link.ranks_max().saturating_sub(run.nodes.rank_count());
    let resolved = request.resolve_on(known, room);
    let (parts, commands) = match resolved {
        Ok(resolved) => resolved,
        Err((refusal, codes)) => {
            return refuse(run, (from, beside), (refusal.code(), &codes), refusal);
        }
    };
    let job = run.nodes.job_count();
    let (apps, nodes): (Vec<App>, Vec<Vec<u32>>) = parts.into_iter().unzip();
    let wanted = apps.iter().zip(nodes);
    let wanted: Vec<SpawnedPart> =
        wanted.map(|(app, nodes)| SpawnedPart { ranks: app.ranks, nodes }).collect();
    let mut loads = loads;
    let map = match runs {
        // Those of each program.
        Some(runs) => {
            let nodes = u32::try_from(loads.len()).unwrap_or(u32::MAX);
            NodeMap::of_blocks(&runs.repeat(wanted.len()), nodes)
        }
        None => place_spawned(&wanted, &mut loads),
    };
    let Some(map) = map else {
        return refuse(run, (from, beside), (Code::FAIL, &[]), "its ranks have no places");
    };
    let blocks = map.blocks();
    let is_lost = |node: u32| run.nodes.get(NodeId(node + 1)).is_none_or(|node| node.is_lost);
    if let Some((node, _)) = blocks.iter().find(|(node, _)| is_lost(*node)) {
        let why = format!("node {} is lost; name another one", placed.name(*node));
        return refuse(run, (from, beside), (Code::FAIL, &[]), why);
    }
    let places = Rc::new(PlacedHosts { map, ..(*placed).clone() });
    let mut messages: Vec<AppMessage> = apps.iter().map(AppMessage::from).collect();
    if let Some(programs) = &mut run.jobs.programs
        && let Err(why) = messages.iter_mut().try_for_each(|app| app.send_with(programs))
    {
        return refuse(run, (from, beside), (Code::FAIL, &[]), why);
    }
    let nodes: Vec<u32> = blocks.iter().map(|(node, _)| node + 1).collect();
    send_programs(run, &nodes);
    let mut plan = run.plan(by.0).spawned(by.1, apps, preputs.clone(), job);
    plan.spawner = plan.spawner.filter(|_| !from.is_tool());
    plan.placement.ranks = LocalRanks::default();
    plan.placement.hosts = run.jobs.names_hosts().then(|| Rc::clone(&places));
    plan.pairs.directives = directives.clone();
    if let Err(error) = run.io.outputs.prepare(job, plan.started()) {
        return refuse(run, (from, beside), (Code::FAIL, &[]), error);
    }
    let id = match run.clients.server.add_job(job, &plan, &places) {
        Ok(id) => id,
        Err(error) => return refuse(run, (from, beside), (Code::FAIL, &[]), error),
    };
    if let (SpawnOrigin::Tool(asked), true) = (from, forwards != [false; 2]) {
        // The library of a tool writes output of request 0 to its own streams.
        let (sources, delivery) = (vec![(id, None)], OutputDelivery::default());
        let pull = OutputPull { sources, streams: forwards, reference: 0, delivery };
        run.io.forwarder.add(asked.session, pull, clock::now());
    }
    tools::add_job(run, id, &plan);
    run.operations.add_job(Rc::clone(&places));
    run.nodes.add_job(&places);
    run.jobs.labels.add_job(&places);
    if let Some(trace) = &mut run.reports.trace {
        trace.add_spawned(&plan, job, (!from.is_tool()).then_some(by.0));
    }
    let daemons = daemons.as_mut().and_then(|of| of.take_daemons_of(&plan.kvsname));
    run.jobs.spawned.push(Rc::new(plan));
    names::note_job_start(run, job);
    run.jobs.waiting.push(WaitingSpawn { job, from, commands, deadline, daemons, beside });
    let is_of_tool = from.is_tool();
    let apps = messages;
    let added = run.jobs.growth.added(&placed.hosts);
    let spawned = SpawnedJob { job, by, is_of_tool, apps, blocks, added, preputs, directives };
    let message = ToNode::Spawn(SpawnNotice::New(Box::new(spawned)));
    run.jobs.growth.add_job(&message);
    run.send_all(message);
}

/// Sends the programs of the next job to those of `nodes` that lack them.
pub(super) fn send_programs(run: &mut Run, nodes: &[u32]) {
    let programs = run.jobs.programs.as_mut().map(|programs| programs.take_pieces(nodes));
    for (lacking, pieces) in programs.into_iter().flatten() {
        let is_for_all = lacking.len() == run.nodes.iter().count();
        for piece in pieces {
            let message = ToNode::Program(piece);
            match is_for_all {
                true => run.send_all(message),
                false => {
                    run.send_each(lacking.iter().map(|node| NodeId(*node)), message);
                }
            }
        }
    }
}

/// Answers the request for a job once all its ranks are started.
pub(super) fn check_started(run: &mut Run, job: u32) {
    if !run.nodes.has_started_all(job) || run.nodes.is_undone(job) {
        return;
    }
    let Some(waiting) = run.jobs.take_waiting(job) else { return };
    let WaitingSpawn { from, commands, daemons, beside, .. } = waiting;
    send_all(run, SpawnNotice::Started { job });
    tools::note_job_start(run, job);
    match daemons {
        Some(daemons) => handle(run, (from, Some(job)), daemons),
        None => answer(run, from, Ok(beside.unwrap_or(job)), &commands.done()),
    }
}

/// Handles a rank of a spawned job that cannot be started: the job is undone.
pub(super) fn handle_not_started(run: &mut Run, job: u32, failure: &Failure) {
    if job == 0 || !run.nodes.set_undone(job) {
        return;
    }
    send_all(run, SpawnNotice::Undone { job });
    if let Some(WaitingSpawn { from, commands, beside, .. }) = run.jobs.take_waiting(job) {
        let rank = match failure {
            Failure::Start { rank, .. } => *rank,
            _ => 0,
        };
        let codes = commands.refused(commands.of_rank(rank), Code::FAIL);
        let why = report::failure(failure, run.plan(job), |_| None, 0);
        refuse(run, (from, beside), (Code::FAIL, &codes), why);
    }
    check_ended(run, job);
}

/// Undoes the jobs that are not started in time.
pub(super) fn check_late(run: &mut Run, now: Instant) {
    let is_late = |one: &&WaitingSpawn| one.deadline.is_some_and(|deadline| now >= deadline);
    while let Some(late) = run.jobs.waiting.iter().find(is_late) {
        let (job, what) = (late.job, LATE.to_owned());
        handle_not_started(run, job, &Failure::Launcher { what });
        // Nothing is left of one that was undone before.
        run.jobs.take_waiting(job);
    }
}

/// Undoes the jobs that are being started on a node that is lost.
pub(super) fn handle_loss(run: &mut Run, node: NodeId) {
    let host = run.nodes.get(node).map(|node| node.host.clone()).unwrap_or_default();
    for job in run.nodes.starting_on(node) {
        let what = format!("node {host} is lost");
        handle_not_started(run, job, &Failure::Launcher { what });
    }
}

/// Reports the end of a spawned job to all nodes once no rank of it is left.
pub(super) fn check_ended(run: &mut Run, job: u32) {
    if job > 0 && run.nodes.has_job_ended(job) && !run.ending.is_leaving() {
        run.link.end_job(job);
        send_all(run, SpawnNotice::Ended { job });
        tools::note_job_end(run, job);
    }
}

fn send_all(run: &mut Run, notice: SpawnNotice) {
    run.send_all(ToNode::Spawn(notice));
}

/// Refuses a request whose hosts cannot be added.
pub(super) fn refuse_added(run: &mut Run, from: SpawnOrigin, why: impl Display) {
    refuse(run, (from, None), (Code::FAIL, &[]), why);
}

/// Reports to the user, and answers to the requesting rank, why nothing was spawned.
fn refuse(
    run: &mut Run,
    (from, beside): (SpawnOrigin, Option<u32>),
    (code, codes): (Code, &[CodeRun]),
    why: impl Display,
) {
    if let Some(job) = beside {
        // A job does not run without the daemons that were requested with it.
        let what = why.to_string();
        handle_not_started(run, job, &Failure::Launcher { what });
    }
    if let SpawnOrigin::Rank(_, _, (job, rank)) = from {
        let pid = run.nodes.pid((job, rank));
        let text = report::not_spawned(run.plan(job), (rank, pid), why);
        trace::report(run, text);
    }
    answer(run, from, Err(code), codes);
}

fn answer(run: &mut Run, from: SpawnOrigin, made: Result<u32, Code>, codes: &[CodeRun]) {
    match from {
        SpawnOrigin::Rank(node, asker, _) => {
            let codes = codes.iter().map(|run| (run.count, run.code.0)).collect();
            let made = made.map_err(|code| code.0);
            let answer = SpawnAnswer { asker, made, codes };
            run.send(Destination::Node(node), ToNode::Spawn(SpawnNotice::Answer(answer)));
        }
        SpawnOrigin::Tool(asked) => {
            let made = made.and_then(|number| run.clients.server.job(number).ok_or(Code::FAIL));
            run.clients.server.service.answer_spawn(asked, made, codes);
        }
    }
}
