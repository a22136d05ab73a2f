//! The event loop as the agent of one node: its start, and messages to and from the head of the run.

pub(super) mod earlier;

use super::status::RunView;
use super::uplink::{Uplink, UplinkEvent};
use super::{EventLoop, agent_requests, agent_spawn, listeners, pages};
use crate::cli::config::Config;
use crate::launch::plan::job::{App, Plan};
use crate::launch::signal::Arrived;
use crate::launch::start::descriptors::{DescriptorLimit, FdBudget};
use crate::launch::topology::binding::{self, Binding};
use crate::nodes::job_message::{AppMessage, JobMessage, Origin, TerminalMessage};
use crate::nodes::message::{AgentMessage, FailedRanks, FenceNumber, HeadMessage, RankEnded};
use crate::nodes::network::{Network, NetworkEvent, delegation};
use crate::nodes::node::next_event;
use crate::nodes::node_report::ReportRequest;
use crate::nodes::stage::StagedPrograms;
use crate::operation::{OperationReply, OperationRequest};
use crate::placement::allocation::AllocationSource;
use crate::placement::{ExpectedRanks, PlacedHosts};
use crate::poller::{Poller, Token};
use crate::report;
use crate::run_report::RankEnd;
use crate::server::listen_config::ListenConfig;
use crate::server::{changes, fetches, nodes, operations};
use crate::settings::nodes::StarterName;
use crate::settings::output::StdinTo;
use crate::settings::{Environment, Settings};
use crate::stdio::merge::MergeBatch;
use crate::stdio::outputs::NodeOutput;
use crate::stdio::target;
use crate::verdict::Failure;
use earlier::HeldResult;
use nix::sys::signal::SigSet;
use pmi_core::command::Notice;
use pmi_core::ids::JobId;
use pmi_host_base::exit::{self, FAILED};
use pmi_tree::{Class, CollectiveId, Contribution, Destination, NodeId, TreeEvent};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::process::{Signal, umask};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Parts that the loop of an agent takes over.
pub(super) struct AgentStart {
    pub(super) poller: Poller,
    pub(super) network: Network,
    /// Output of ranks.
    pub(super) output: NodeOutput,
    /// True if all messages of ranks are recorded and sent to the head.
    pub(super) is_traced: bool,
    /// Programs that were sent to this host.
    pub(super) programs: StagedPrograms,
    /// Terminal of a rank.
    pub(super) terminal: Option<TerminalMessage>,
}

/// The parts, and the descriptor that reserves the number at which ranks find their sockets.
pub(super) type ReservedAgent = (OwnedFd, AgentStart);

/// Serves the ranks of a job on the node with this number in the tree, and returns the exit code.
pub(crate) fn serve_node(network: Network, poller: Poller, node: u32, link: OwnedFd) -> u8 {
    // A head on this machine has blocked the signals that it reads. Ranks begin with the mask of this
    // process, and an error would leave it as it is.
    let _ = SigSet::empty().thread_set_mask();
    let mut waiting = WaitingAgent { network, poller, programs: StagedPrograms::default() };
    let mut job = match waiting.await_job() {
        Ok(Some(job)) => job,
        Ok(None) => return FAILED,
        Err(what) => return waiting.fail(what.to_owned()),
    };
    let temporary = job.environment.temporary.clone();
    let staged = AppMessage::stage(&mut job.apps, &mut waiting.programs, temporary.as_deref());
    if let Err(what) = staged {
        return waiting.fail(what);
    }
    waiting.programs.drop_arrived();
    let output = job.streams.output;
    let is_traced = job.supervision.is_traced;
    let terminal = job.streams.terminal;
    let config = match configure(*job, node.saturating_sub(1)) {
        Ok(config) => config,
        Err(what) => return waiting.fail(what),
    };
    let starters = u32::try_from(delegation::starter_count(&waiting.network)).unwrap_or(u32::MAX);
    let others =
        CONNECTIONS.saturating_add(starters).saturating_add(listeners::open_files(&config));
    let limit = DescriptorLimit::new(config.settings.output.files_per_rank(), others);
    if let Err(what) = check_descriptors(&config, &limit) {
        return waiting.fail(what);
    }
    let WaitingAgent { network, poller, programs } = waiting;
    let start = AgentStart { poller, network, output, is_traced, programs, terminal };
    match EventLoop::new(config, limit, Some((link, start))) {
        Ok(agent) => agent.run(),
        // The head sees the end of the connection, and this line in the output of the starter.
        Err(what) => {
            target::write_last(exit::line(what).as_bytes());
            FAILED
        }
    }
}

/// Checks that the hard limit on open files is enough for the ranks of this node, while the head can still be
/// told.
fn check_descriptors(config: &Config, limit: &DescriptorLimit) -> Result<(), String> {
    let budget = |plan: &Plan| FdBudget { ranks: plan.local(), pmix: plan.pmix_ranks() };
    let local = config.hosts.as_ref().zip(config.node);
    let local = local.map_or(0, |(placed, node)| placed.map.ranks_of(node).count());
    let ranks = u32::try_from(local).unwrap_or(u32::MAX);
    // Whether a program uses PMIx is known from its file, which is read only if that matters.
    if limit.check(FdBudget { ranks, pmix: ranks }).is_ok() {
        return Ok(());
    }
    let plan = Plan::first(config.job(), None);
    limit.check(budget(&plan)).map(drop).map_err(|error| error.to_string())
}

/// An agent before it has a job, or after it has failed to prepare one.
struct WaitingAgent {
    network: Network,
    poller: Poller,
    /// Programs that have arrived so far.
    programs: StagedPrograms,
}

impl WaitingAgent {
    /// The job; `None` if the run ends before.
    ///
    /// # Errors
    ///
    /// A sentence about a message of the head.
    fn await_job(&mut self) -> Result<Option<Box<JobMessage>>, &'static str> {
        loop {
            match self.next_message() {
                Some(HeadMessage::Job(job)) => return Ok(Some(job)),
                Some(HeadMessage::Program(piece)) => self.programs.add(piece)?,
                Some(HeadMessage::Finish) | None => return Ok(None),
                _ => {}
            }
        }
    }

    /// Reports that the job cannot be prepared, and waits for the end of the run.
    fn fail(mut self, what: String) -> u8 {
        let failure = Failure::Launcher { what };
        let failed = AgentMessage::Failed { job: 0, failure, outputs: 0 };
        for message in [failed, AgentMessage::Quiet { outputs: 0, jobs: 1 }] {
            let _ = self.network.send(Destination::Head, Class::Control, message.body());
        }
        while self.next_message().is_some_and(|message| message != HeadMessage::Finish) {}
        FAILED
    }

    /// The next message of the head; `None` if it is lost.
    fn next_message(&mut self) -> Option<HeadMessage> {
        loop {
            match next_event(&mut self.network, &mut self.poller).ok()? {
                NetworkEvent::Tree(TreeEvent::Message { body, .. }) => {
                    return HeadMessage::read(&body);
                }
                // This node has no ranks, and merges nothing.
                NetworkEvent::Tree(TreeEvent::FromChild { message, body, .. }) => {
                    let _ = self.network.send(Destination::Parent, Class::Output, body);
                    self.network.tree().into_iter().for_each(|tree| tree.settle(message));
                }
                NetworkEvent::HeadLost { .. } => return None,
                _ => {}
            }
        }
    }
}

/// Configuration of this process as the launcher of the ranks of host number `node`. It takes over the
/// working directory and the mask of permissions of the head.
fn configure(job: JobMessage, node: u32) -> Result<Config, String> {
    job.check().map_err(|error| format!("the description of the job is wrong: {error}"))?;
    let host = usize::try_from(node).ok().and_then(|node| job.hosts.get(node).cloned());
    let host = host.ok_or("the description of the job does not name this host")?;
    let Origin { directory, umask: mask, is_one_machine } = job.origin;
    std::env::set_current_dir(&directory).map_err(|error| {
        format!(
            "the working directory '{}' cannot be entered: {error}; create it on every host, or name \
             another with --wdir",
            directory.display()
        )
    })?;
    umask(Mode::from_raw_mode(mask));
    let expected = job.dial_in.as_ref().map(|dial_in| dial_in.expected.clone());
    let expected_count = expected.as_ref().map_or(0, ExpectedRanks::count);
    let started = job.map.ranks().saturating_sub(expected_count);
    let mut settings = Settings::default();
    settings.job.expected = expected;
    settings.job.attributes = job.facts.attributes;
    settings.job.kvs = job.exchange.kvs;
    settings.nodes.fence = job.exchange.fence;
    settings.names.server = job.exchange.name_server;
    settings.nodes.starter = is_one_machine.then_some(StarterName::Here);
    settings.environment = Environment { report: false, ..job.environment };
    settings.placement = job.placement;
    // The head judges the whole run.
    settings.watching.stall_report = job.supervision.standstill;
    settings.ending.forward_signals = job.supervision.forward_signals;
    settings.ending.on_exit_error = job.supervision.on_exit_error;
    settings.ending.on_singletons = job.supervision.on_singletons;
    (settings.watching.progress, settings.watching.control) = (false, false);
    // Tools connect to the head.
    (settings.watching.tools, settings.watching.is_system_server) = (false, false);
    let terminal = job.streams.terminal.map(|terminal| terminal.rank);
    let own = terminal.filter(|rank| job.map.node_of(*rank) == Some(node));
    settings.output.pty = own;
    settings.output.stdin = match job.streams.readers {
        // A rank with a terminal reads all input.
        _ if terminal.is_some() && own.is_none() => StdinTo::NoRank,
        StdinTo::NoRank => StdinTo::NoRank,
        _ if own.is_some() => StdinTo::First,
        StdinTo::First => readers(job.map.ranks_of(node).filter(|rank| *rank == 0)),
        StdinTo::All => readers(job.map.ranks_of(node).filter(|rank| *rank < started)),
        StdinTo::Ranks(all) => readers(job.map.ranks_of(node).filter(|rank| all.contains(rank))),
    };
    if let Some(processors) = &settings.placement.processors {
        binding::limit_to(processors)?;
    }
    let binding = Binding::resolve(&settings.placement)?.map(Arc::new);
    let source = AllocationSource::Named;
    let nodes = u32::try_from(job.hosts.len()).unwrap_or(u32::MAX);
    let map = job.map.with_nodes(nodes);
    let (dial_in, web) = match job.dial_in {
        Some(dial_in) => dial_in.config(node)?,
        None => (None, None),
    };
    let dial_in_node = dial_in.as_ref().map(|_| node);
    let listen = dial_in.or_else(|| settings.environment.has_port.then(ListenConfig::for_started));
    // A listener adds those that it expects.
    let ranks = if dial_in_node.is_some() { started } else { map.ranks() };
    let hosts = Some(Rc::new(PlacedHosts { hosts: job.hosts, slots: Vec::new(), map, source }));
    Ok(Config {
        ranks,
        parts: job.apps.into_iter().map(App::from).collect(),
        host,
        run: job.run,
        hosts,
        node: Some(node),
        listen,
        dial_in_node,
        web,
        binding,
        universe: job.facts.universe,
        nspace: None,
        settings,
    })
}

fn readers(ranks: impl Iterator<Item = u32>) -> StdinTo {
    let ranks: Vec<u32> = ranks.collect();
    if ranks.is_empty() { StdinTo::NoRank } else { StdinTo::Ranks(ranks) }
}

/// Number of connections to other nodes that have room: the parent, the children, and those that are not
/// authenticated. Starters of further nodes have as many files as a rank.
const CONNECTIONS: u32 = 64;

/// Sends to the head what is due, and handles what has arrived from it. Returns true if anything has: then
/// responses to ranks may be due, and messages to the head.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn exchange(run: &mut EventLoop) -> io::Result<bool> {
    let is_quiet = run.processes.is_quiet() && !run.starts_more() && !run.awaits_peers();
    let Some(uplink) = &mut run.uplink else { return Ok(false) };
    uplink.report_starts(&run.processes);
    uplink.send_outputs(&mut run.io.outputs);
    // The queue is free again for the ranks.
    run.io.outputs.flush(&mut run.poller)?;
    let is_recorded = uplink.send_records(&mut run.service.tracer);
    if is_quiet && is_recorded && run.io.outputs.is_done() {
        uplink.report_quiet(run.jobs.next_group());
    }
    uplink.network.flush(&run.poller)?;
    uplink.network.tick(Instant::now(), &run.poller)?;
    let mut is_any = false;
    while let Some(event) = run.uplink.as_mut().and_then(Uplink::poll_event) {
        is_any = true;
        handle_uplink(run, event)?;
    }
    earlier::answer(run);
    check_blocked_fence(run);
    let fences = run.uplink.as_ref().map(Uplink::fences).unwrap_or_default();
    for FenceNumber { job, number } in fences {
        nodes::join_without_ranks(&mut run.service, JobId(job), number);
        is_any |= run.handle_server_events();
    }
    Ok(is_any)
}

/// Fails the run if ranks of this node wait in a fence that a rank of another node will never enter.
fn check_blocked_fence(run: &mut EventLoop) {
    for gone in run.uplink.as_ref().map(Uplink::gone).unwrap_or_default() {
        let job = JobId(gone.job);
        let waiting_count = nodes::waiting_count(&run.service, job, gone.fence);
        if waiting_count > 0 {
            run.fail(job, Failure::Missing { gone: vec![gone.rank], gone_count: 1, waiting_count });
        }
    }
}

fn handle_uplink(run: &mut EventLoop, event: UplinkEvent) -> io::Result<()> {
    match event {
        UplinkEvent::Message(message) => handle_head_message(run, message)?,
        UplinkEvent::CollectiveEnded { id, data, members } => {
            // Fences are the only collective operations.
            if id.kind != FENCE {
                return Ok(());
            }
            let result = HeldResult { id, data, members };
            let result = run.uplink.as_mut().and_then(|uplink| uplink.earlier.hold(result));
            result.iter().for_each(|result| end_fence(run, result));
        }
        UplinkEvent::FromChild { child, message, body } => {
            match (AgentMessage::read(&body), run.io.outputs.merge()) {
                (Some(AgentMessage::Merged { counts, records }), Some(merge)) => {
                    merge.add(child, MergeBatch { message: Some(message), counts }, &records);
                }
                _ => {
                    let what = report::invalid_message(&format!("of node {}", child.0));
                    run.fail(run.jobs.first(), Failure::Launcher { what });
                }
            }
        }
        UplinkEvent::HeadLost => {
            request_end(run);
            run.processes.kill(Instant::now());
        }
    }
    Ok(())
}

/// Ends a fence with the contributions of all nodes.
pub(super) fn end_fence(run: &mut EventLoop, HeldResult { id, data, members }: &HeldResult) {
    let job = JobId(id.job);
    if let Err(why) = nodes::end_fence(&mut run.service, job, (data, *members)) {
        let what = format!("fence {} cannot end: {why}", id.number);
        run.fail(job, Failure::Launcher { what });
    }
    nodes::join_next_without_members(&mut run.service, job);
}

fn handle_head_message(run: &mut EventLoop, message: HeadMessage) -> io::Result<()> {
    let now = Instant::now();
    let arrived = |number| {
        let signal = Signal::from_named_raw(number)?;
        Some(Arrived { signal, is_for_group: false })
    };
    match message {
        // The agent runs one job, which it has by now.
        HeadMessage::Job(_) => {}
        HeadMessage::Program(piece) => {
            let added = run.uplink.as_mut().map(|uplink| uplink.programs.add(piece));
            if let Some(Err(why)) = added {
                fail_operation(run, why);
            }
        }
        HeadMessage::Forward { signal } => {
            if let Some(arrived) = arrived(signal) {
                run.forward(arrived);
            }
        }
        HeadMessage::ForwardEnd { signal } => {
            request_end(run);
            if let Some(arrived) = arrived(signal)
                && run.termination.hand_on(now, arrived.signal)
            {
                run.processes.forward_end(arrived);
                run.processes.terminate_deaf(now, arrived.signal);
            }
        }
        HeadMessage::Stop => {
            run.processes.stop(Arrived { signal: Signal::TSTP, is_for_group: false });
        }
        HeadMessage::Resume => {
            run.status.excuse_stall(now);
            run.processes.resume();
        }
        HeadMessage::Terminate { code } => {
            request_end(run);
            // Ranks with a listener may have something to save before the signal comes.
            run.notify(Notice::Abort(code));
            run.processes.terminate(now);
        }
        HeadMessage::Kill => {
            request_end(run);
            run.processes.kill(now);
        }
        HeadMessage::Input(bytes) => with_input(run, |up, poller| up.take_input(bytes, poller))?,
        HeadMessage::InputEnded => with_input(run, |up, poller| up.end_input(poller))?,
        HeadMessage::TerminalSize { rows, columns } => run.io.inputs.resize(rows, columns),
        HeadMessage::CloseOutput(stream) => run.io.outputs.close_stream(stream),
        HeadMessage::RankGone(gone) => {
            run.uplink.iter_mut().for_each(|uplink| uplink.note_gone(gone));
        }
        HeadMessage::Failed(FailedRanks { job, all, new }) => {
            let job = JobId(job);
            new.iter().for_each(|(rank, ..)| fetches::fail(&mut run.service, job, *rank));
            nodes::publish_failures(&mut run.service, job, &new);
            run.publish_failed_ranks(job, &all);
        }
        HeadMessage::NodeLost(node) => {
            let number = NodeId(node.saturating_add(1));
            run.io.outputs.merge().into_iter().for_each(|merge| merge.lose_node(number));
            // The last job has all hosts.
            let last = JobId(run.jobs.next_group().saturating_sub(1));
            let plan = run.jobs.plan(last);
            let hosts = plan.and_then(|plan| plan.placement.hosts.clone());
            let name = hosts.as_ref().map_or("", |hosts| hosts.name(node));
            run.service.pmix_notifier().notify_node_down((name, node));
        }
        HeadMessage::FenceEntered(fence) => {
            run.uplink.iter_mut().for_each(|uplink| uplink.note_fence(fence));
        }
        HeadMessage::SendEarlier { node, ended } => {
            run.uplink.iter_mut().for_each(|uplink| uplink.earlier.request(node, ended));
        }
        HeadMessage::Earlier { job, data } => {
            if let Err(why) = nodes::add_earlier(&mut run.service, JobId(job), data) {
                fail_operation(run, &why);
            }
        }
        HeadMessage::EarlierEnded => earlier::release(run),
        HeadMessage::Spawn(notice) => agent_spawn::handle_notice(run, notice),
        HeadMessage::Report(request) => report_ranks(run, &request),
        HeadMessage::Finish => {
            run.uplink.iter_mut().for_each(|uplink| uplink.finish());
        }
        HeadMessage::Records(records) => pages::feed_records(run, &records)?,
        HeadMessage::RecentRecords { page, trace } => {
            pages::show(run, page, &trace)?;
            run.uplink.iter_mut().for_each(Uplink::note_observed);
        }
        HeadMessage::Clock { sent_ns, head_ns } => {
            run.uplink.iter_mut().for_each(|uplink| uplink.handle_clock(sent_ns, head_ns));
        }
        HeadMessage::Operation(OperationReply::Fetch { node, request }) => {
            if let Some(answer) = fetches::handle_request(&mut run.service, node, request) {
                send_operation(run, Ok(answer));
            }
        }
        HeadMessage::Operation(OperationReply::Change { number, change }) => {
            match changes::make(&mut run.service, &change) {
                Ok(answer) => {
                    let result = answer.into();
                    send_operation(run, Ok(OperationRequest::Changed { number, result }));
                }
                Err(why) => fail_operation(run, &why),
            }
        }
        HeadMessage::Operation(reply) => {
            if let Some(reply) = agent_requests::handle_reply(run, reply)
                && let Err(why) = operations::handle_reply(&mut run.service, &reply)
            {
                fail_operation(run, &why);
            }
        }
    }
    Ok(())
}

/// Sends a message about an operation of ranks on several nodes.
pub(super) fn send_operation(run: &mut EventLoop, request: Result<OperationRequest, &'static str>) {
    match (request, &mut run.uplink) {
        (Ok(request), Some(uplink)) => {
            // The head knows the ranks that make requests.
            uplink.report_starts(&run.processes);
            uplink.send(&AgentMessage::Operation(request));
        }
        (Err(why), _) => fail_operation(run, why),
        (Ok(_), None) => {}
    }
}

fn fail_operation(run: &mut EventLoop, why: &str) {
    let what = format!("an operation of ranks on several nodes cannot end: {why}");
    run.fail(run.jobs.first(), Failure::Launcher { what });
}

/// Reports the state of ranks to the head.
fn report_ranks(run: &mut EventLoop, request: &ReportRequest) {
    let EventLoop { jobs, processes, service, status, uplink, .. } = run;
    let report = status.node_report(RunView { jobs, processes, service }, request);
    uplink.iter_mut().for_each(|uplink| uplink.send(&AgentMessage::Report(report.clone())));
}

/// Reports to the head that ranks of this node wait without progress. Returns false if this is no agent.
pub(super) fn report_standstill(run: &mut EventLoop) -> bool {
    run.uplink.as_mut().map(|uplink| uplink.send(&AgentMessage::Standstill)).is_some()
}

/// Starts no further rank, and takes bad ends of ranks for consequences from now on.
fn request_end(run: &mut EventLoop) {
    run.termination.set_requested();
    run.jobs.clear_starts();
    run.io.outputs.expect_no_more(None);
    run.check_all_ended();
}

fn with_input(
    run: &mut EventLoop,
    act: impl FnOnce(&mut Uplink, &Poller) -> io::Result<()>,
) -> io::Result<()> {
    run.uplink.as_mut().map_or(Ok(()), |uplink| act(uplink, &run.poller))
}

/// Serves a connection to another node.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn serve_network(run: &mut EventLoop, token: Token) -> io::Result<()> {
    let Some(uplink) = &mut run.uplink else { return Ok(()) };
    match token {
        Token::NodeListen => uplink.network.accept(&run.poller),
        Token::Node(number) => uplink.network.ready(number, &run.poller),
        Token::StarterOutput(_) | Token::StarterInput(_) | Token::StarterExit(_) => {
            delegation::ready(&mut uplink.network, token, &run.poller)
        }
        _ => Ok(()),
    }
}

/// Continues the input of the ranks of this node.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn feed_readers(run: &mut EventLoop) -> io::Result<()> {
    with_input(run, |uplink, poller| uplink.feed(poller))
}

/// Reports the end of a rank to the head, if this is an agent.
pub(super) fn report_end(run: &mut EventLoop, (job, rank): (JobId, u32), end: RankEnd) {
    let Some(uplink) = &mut run.uplink else { return };
    uplink.report_starts(&run.processes);
    let RankEnd { ending, phase, was_over, traffic, is_singleton, .. } = end;
    let fence_count = nodes::fence_count(&run.service, job, rank);
    let job = job.0;
    uplink.report_end(RankEnded {
        job,
        rank,
        ending,
        phase,
        was_over,
        fence_count,
        traffic,
        is_singleton,
    });
}

/// Hands the contribution of this node to a fence up to the head.
pub(super) fn hand_up_fence(run: &mut EventLoop, job: JobId, generation: u32) {
    let Some(uplink) = &run.uplink else { return };
    let (members, data) = nodes::fence_contribution(&mut run.service, job, uplink.fence_rule());
    let has_ranks = run.jobs.plan(job).is_some_and(|plan| plan.served().count() > 0);
    let Some(uplink) = &mut run.uplink else { return };
    let id = CollectiveId { job: job.0, kind: FENCE, number: generation };
    // Nodes without ranks of the job are always in its next fence.
    if has_ranks && run.summary.continues_after_failures() {
        let fence = FenceNumber { job: job.0, number: generation };
        uplink.send(&AgentMessage::FenceEntered(fence));
    }
    if let Err(error) = uplink.network.contribute(id, Contribution { members, data }) {
        let what = format!("fence {generation} cannot be handed up: {error}");
        run.fail(job, Failure::Launcher { what });
    }
}

/// Prepares the first job of an agent, which may have no rank on this node.
pub(super) fn prepare(run: &mut EventLoop) {
    let first = run.jobs.first();
    prepare_for_failures(run, first);
    if run.uplink.is_some() {
        nodes::join_next_without_members(&mut run.service, first);
    }
}

/// Lets a job continue after failures of ranks, if this is an agent and the run wants that.
pub(super) fn prepare_for_failures(run: &mut EventLoop, job: JobId) {
    if run.uplink.is_some() && run.summary.continues_after_failures() {
        nodes::tolerate_failures(&mut run.service, job);
    }
}

/// Reports a failure to the head after which the other ranks continue. Returns false if this is no agent.
pub(super) fn report_tolerated(run: &mut EventLoop, job: JobId, failure: &Failure) -> bool {
    let Some(uplink) = &mut run.uplink else { return false };
    uplink.send(&AgentMessage::Tolerated(job.0, failure.clone()));
    true
}

/// Kind of the fence of a whole job among collective operations.
pub(super) const FENCE: u8 = 0;
