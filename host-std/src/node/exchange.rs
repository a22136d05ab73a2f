//! Messages between a node and its run.

use super::earlier::HeldResult;
use super::status::RunView;
use super::uplink::{Uplink, UplinkEvent};
use super::{Node, earlier, pages, requests, spawned_jobs};
use crate::link::ToOwnNode;
use crate::link::message::{FailedRanks, FenceNumber, RankEnded, ToNode, ToRun};
use crate::link::node_report::ReportRequest;
use crate::operation::{OperationReply, OperationRequest};
use crate::report;
use crate::run_report::RankEnd;
use crate::server::{changes, fetches, nodes, operations};
use crate::stdio::StreamOwner;
use crate::stdio::merge::MergeBatch;
use crate::verdict::Failure;
use pmi_core::command::Notice;
use pmi_core::ids::JobId;
use pmi_host_os::clock;
use pmi_host_os::poller::{Poller, Token};
use pmi_tree::{CollectiveId, Contribution, NodeId};
use std::io;

/// Sends to the head what is due, and handles what has arrived from it. Returns true if anything has: then
/// responses to ranks may be due, and messages to the head.
pub(super) fn exchange(node: &mut Node) -> io::Result<bool> {
    let is_quiet = node.processes.is_quiet() && !node.starts_more() && !node.awaits_peers();
    send_outputs(node);
    let uplink = &mut node.uplink;
    uplink.report_terminal(node.io.inputs.raw_for(), false);
    // The queue is free again for the ranks.
    node.io.outputs.flush(&mut node.poller)?;
    let is_recorded = uplink.send_records(&mut node.service.tracer);
    if is_quiet && is_recorded && node.io.outputs.is_done() {
        uplink.report_quiet(node.jobs.next_group());
    }
    if let Some(network) = uplink.link.network() {
        network.flush(&node.poller)?;
        network.tick(clock::now(), &node.poller)?;
    }
    let mut is_any = false;
    while let Some(event) = node.uplink.poll_event() {
        is_any = true;
        handle_uplink(node, event)?;
    }
    earlier::answer(node);
    check_blocked_fence(node);
    for FenceNumber { job, number } in node.uplink.fences() {
        nodes::join_without_ranks(&mut node.service, JobId(job), number);
        is_any |= node.handle_server_events();
    }
    Ok(is_any)
}

/// Fails the run if ranks of this node wait in a fence that a rank of another node will never enter.
fn check_blocked_fence(node: &mut Node) {
    for gone in node.uplink.gone() {
        let job = JobId(gone.job);
        let waiting_count = nodes::waiting_count(&node.service, job, gone.fence);
        if waiting_count > 0 {
            node.fail(
                job,
                Failure::Missing { gone: vec![gone.rank], gone_count: 1, waiting_count },
            );
        }
    }
}

fn handle_uplink(node: &mut Node, event: UplinkEvent) -> io::Result<()> {
    match event {
        UplinkEvent::FromRun(ToOwnNode::Message(message)) => handle_head_message(node, message)?,
        UplinkEvent::CollectiveEnded { id, data, members } => {
            // Fences are the only collective operations.
            if id.kind != FENCE {
                return Ok(());
            }
            let result = HeldResult { id, data, members };
            if let Some(result) = node.uplink.earlier.hold(result) {
                end_fence(node, &result);
            }
        }
        UplinkEvent::FromChild { child, message, body } => {
            match (ToRun::read(&body), node.io.outputs.merge()) {
                (Some(ToRun::Merged { counts, records }), Some(merge)) => {
                    merge.add(child, MergeBatch { message: Some(message), counts }, &records);
                }
                _ => {
                    let what = report::invalid_message(&format!("of node {}", child.0));
                    node.fail(node.jobs.first(), Failure::Launcher { what });
                }
            }
        }
        UplinkEvent::FromRun(ToOwnNode::ChildEnded) => {
            node.processes.note_child_end(clock::now());
        }
        UplinkEvent::FromRun(ToOwnNode::TerminalChanged) => {
            node.io.inputs.handle_terminal_changes(&node.poller)?;
        }
        UplinkEvent::FromRun(ToOwnNode::TerminalEnded) => {
            node.io.inputs.end_terminal(&node.poller)?
        }
        UplinkEvent::FromRun(ToOwnNode::GuardFile(path)) => {
            if let Some(guard) = &mut node.processes.launcher.guard {
                guard.report_file(&path);
            }
        }
        UplinkEvent::HeadLost => {
            request_end(node);
            node.processes.kill(clock::now());
        }
    }
    Ok(())
}

/// Ends a fence with the contributions of all nodes.
pub(super) fn end_fence(node: &mut Node, HeldResult { id, data, members }: &HeldResult) {
    let job = JobId(id.job);
    if let Err(why) = nodes::end_fence(&mut node.service, job, (data, *members)) {
        let what = format!("fence {} cannot end: {why}", id.number);
        node.fail(job, Failure::Launcher { what });
    }
    nodes::join_next_without_members(&mut node.service, job);
}

fn handle_head_message(node: &mut Node, message: ToNode) -> io::Result<()> {
    let now = clock::now();
    match message {
        // The node runs one job, which it has by now.
        ToNode::Job(_) => {}
        ToNode::Program(piece) => {
            if let Err(why) = node.uplink.programs.add(piece) {
                fail_operation(node, why);
            }
        }
        ToNode::Forward(signal) => {
            if let Some(arrived) = signal.arrived() {
                node.forward(arrived);
            }
        }
        ToNode::ForwardEnd(signal) => {
            request_end(node);
            if let Some(arrived) = signal.arrived()
                && node.termination.hand_on(now, arrived.signal)
            {
                node.processes.forward_end(arrived);
                node.processes.terminate_deaf(now, arrived.signal);
            }
        }
        ToNode::Stop(signal) => {
            if let Some(arrived) = signal.arrived() {
                node.processes.stop(arrived);
            }
        }
        ToNode::Resume => {
            node.status.excuse_stall(now);
            node.processes.resume();
        }
        ToNode::Terminate { code } => {
            request_end(node);
            // Ranks with a listener may have something to save before the signal comes. After a failure on
            // this node they know.
            if node.termination.failure().is_none() {
                node.notify(Notice::Abort(code));
            }
            node.processes.terminate(now);
        }
        ToNode::Kill => {
            request_end(node);
            node.processes.kill(now);
        }
        ToNode::Input(bytes) => with_input(node, |up, poller| up.take_input(bytes, poller))?,
        ToNode::InputEnded => with_input(node, |up, poller| up.end_input(poller))?,
        ToNode::TerminalSize { rows, columns } => node.io.inputs.resize(rows, columns),
        ToNode::CloseOutput(stream) => node.io.outputs.close_stream(stream),
        ToNode::RankGone(gone) => node.uplink.note_gone(gone),
        ToNode::Failed(FailedRanks { job, all, new }) => {
            let job = JobId(job);
            new.iter().for_each(|(rank, ..)| fetches::fail(&mut node.service, job, *rank));
            nodes::publish_failures(&mut node.service, job, &new);
            node.publish_failed_ranks(job, &all);
        }
        ToNode::NodeLost(lost) => {
            let number = NodeId(lost.saturating_add(1));
            if let Some(merge) = node.io.outputs.merge() {
                merge.lose_node(number);
            }
            // The last job has all hosts.
            let last = JobId(node.jobs.next_group().saturating_sub(1));
            let plan = node.jobs.plan(last);
            let hosts = plan.and_then(|plan| plan.placement.hosts.clone());
            let name = hosts.as_ref().map_or("", |hosts| hosts.name(lost));
            node.service.pmix_notifier().notify_node_down((name, lost));
        }
        ToNode::FenceEntered(fence) => node.uplink.note_fence(fence),
        ToNode::SendEarlier { node: new, ended } => node.uplink.earlier.request(new, ended),
        ToNode::Earlier { job, data } => {
            if let Err(why) = nodes::add_earlier(&mut node.service, JobId(job), data) {
                fail_operation(node, &why);
            }
        }
        ToNode::EarlierEnded => earlier::release(node),
        ToNode::Spawn(notice) => spawned_jobs::handle_notice(node, notice),
        ToNode::Report(request) => report_ranks(node, &request),
        ToNode::Finish => node.uplink.finish(),
        ToNode::Records(records) => pages::feed_records(node, &records)?,
        ToNode::RecentRecords { page, trace } => {
            pages::show(node, page, &trace)?;
            node.uplink.note_observed();
        }
        ToNode::Clock { sent_ns, head_ns } => {
            node.uplink.handle_clock(sent_ns, head_ns);
        }
        ToNode::WantLine { job, rank, stream } => {
            let owner = StreamOwner { group: job, rank };
            let process = node.jobs.process_of(JobId(job), rank).unwrap_or(u32::MAX);
            node.io.outputs.bring_up_to_date(stream, process, owner);
        }
        ToNode::Operation(OperationReply::Fetch { node: asking, request }) => {
            if let Some(answer) = fetches::handle_request(&mut node.service, asking, request) {
                send_operation(node, Ok(answer));
            }
        }
        ToNode::Operation(OperationReply::Change { number, change }) => {
            match changes::make(&mut node.service, &change) {
                Ok(answer) => {
                    let result = answer.into();
                    send_operation(node, Ok(OperationRequest::Changed { number, result }));
                }
                Err(why) => fail_operation(node, &why),
            }
        }
        ToNode::Operation(reply) => {
            if let Some(reply) = requests::handle_reply(node, reply)
                && let Err(why) = operations::handle_reply(&mut node.service, &reply)
            {
                fail_operation(node, &why);
            }
        }
    }
    Ok(())
}

/// Sends a message about an operation of ranks on several nodes.
pub(super) fn send_operation(node: &mut Node, request: Result<OperationRequest, &'static str>) {
    match request {
        Ok(request) => {
            // The head knows the ranks that make requests.
            node.uplink.report_starts(&node.processes);
            node.uplink.send(ToRun::Operation(request));
        }
        Err(why) => fail_operation(node, why),
    }
}

fn fail_operation(node: &mut Node, why: &str) {
    let what = format!("an operation of ranks on several nodes cannot end: {why}");
    node.fail(node.jobs.first(), Failure::Launcher { what });
}

/// Reports the state of ranks to the head.
fn report_ranks(node: &mut Node, request: &ReportRequest) {
    let Node { jobs, processes, service, status, uplink, .. } = node;
    let report = status.node_report(RunView { jobs, processes, service }, request);
    uplink.send(ToRun::Report(report));
}

/// Starts no further rank, and takes bad ends of ranks for consequences from now on.
fn request_end(node: &mut Node) {
    node.termination.set_requested();
    node.jobs.clear_starts();
    node.io.outputs.expect_no_more(None);
    node.check_all_ended();
}

fn with_input(
    node: &mut Node,
    act: impl FnOnce(&mut Uplink, &Poller) -> io::Result<()>,
) -> io::Result<()> {
    act(&mut node.uplink, &node.poller)
}

/// Serves a connection to another node.
pub(super) fn serve_network(node: &mut Node, token: Token) -> io::Result<()> {
    let Some(network) = node.uplink.link.network() else { return Ok(()) };
    network.ready(token, &node.poller)
}

/// Continues the input of the ranks of this node.
pub(super) fn feed_readers(node: &mut Node) -> io::Result<()> {
    with_input(node, |uplink, poller| uplink.feed(poller))
}

/// Sends queued output as far as the run takes it, after what the run has to know to write it: the ranks,
/// and whether the terminal is raw.
pub(super) fn send_outputs(node: &mut Node) {
    let uplink = &mut node.uplink;
    uplink.report_starts(&node.processes);
    uplink.report_terminal(node.io.inputs.raw_for(), true);
    uplink.send_outputs(&mut node.io.outputs);
}

/// Reports the end of a rank to the head.
pub(super) fn report_end(node: &mut Node, (job, rank): (JobId, u32), end: RankEnd) {
    let uplink = &mut node.uplink;
    uplink.report_starts(&node.processes);
    let RankEnd { ending, phase, was_over, traffic, is_singleton, .. } = end;
    let fence_count = nodes::fence_count(&node.service, job, rank);
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
pub(super) fn hand_up_fence(node: &mut Node, job: JobId, generation: u32) {
    let rule = node.uplink.fence_rule();
    let (members, data) = nodes::fence_contribution(&mut node.service, job, rule);
    let has_ranks = node.jobs.plan(job).is_some_and(|plan| plan.served().count() > 0);
    let uplink = &mut node.uplink;
    let id = CollectiveId { job: job.0, kind: FENCE, number: generation };
    // Nodes without ranks of the job are always in its next fence.
    if has_ranks && node.on_exit_error.continues() {
        let fence = FenceNumber { job: job.0, number: generation };
        uplink.send(ToRun::FenceEntered(fence));
    }
    // Fences end on a node that has all ranks of the run.
    let Some(network) = uplink.link.network() else { return };
    if let Err(error) = network.contribute(id, Contribution { members, data }) {
        let what = format!("fence {generation} cannot be handed up: {error}");
        node.fail(job, Failure::Launcher { what });
    }
}

/// Prepares the first job of a node, which may have no rank on this node.
pub(super) fn prepare(node: &mut Node) {
    let first = node.jobs.first();
    prepare_for_failures(node, first);
    nodes::join_next_without_members(&mut node.service, first);
}

/// Lets a job continue after failures of ranks, if the run wants that.
pub(super) fn prepare_for_failures(node: &mut Node, job: JobId) {
    if node.names_hosts() && node.on_exit_error.continues() {
        nodes::tolerate_failures(&mut node.service, job);
    }
}

/// Reports a failure to the head after which the other ranks continue.
pub(super) fn report_tolerated(node: &mut Node, job: JobId, failure: &Failure) {
    node.uplink.send(ToRun::Tolerated(job.0, failure.clone()));
}

/// Kind of the fence of a whole job among collective operations.
pub(super) const FENCE: u8 = 0;
