//! State of a run on several nodes for its user: no progress, tables of ranks, status requests.

use super::Run;
use super::collection::{Collection, Collections, Purpose};
use super::merge::{self, Reported};
use super::pauses::{self, Pauses};
use super::table::NodeState;
use super::trace::{self, HeadTrace};
use crate::control::stack::StackReport;
use crate::control::status_server::StatusServer;
use crate::launch::start::gdb::GdbPanes;
use crate::link::message::ToNode;
use crate::link::node_report::NodeReport;
use crate::rank_sets;
use crate::report;
use crate::settings::Watching;
use crate::verdict::Failure;
use crate::watch::graph;
use crate::watch::progress::{Progress, ProgressTask};
use crate::watch::stall::{Stall, StallAction};
use crate::watch::table::{self, JobNode, NodeLink, Table, seconds};
use crate::watch::text::{self, Rows};
use pmi_host_base::ranges::Ranks;
use pmi_host_os::clock;
use pmi_host_os::poller::Token;
use pmi_nodes::resources::NodeResources;
use pmi_tree::NodeId;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// State kept between two reports.
pub(super) struct Reports {
    stall: Stall,
    began: Instant,
    socket: StatusServer,
    /// Time to report ranks that still run although a signal was forwarded.
    remind_at: Option<Instant>,
    collections: Collections,
    /// Nodes that are stopped.
    pub(super) pauses: Pauses,
    /// Trace of the run, if one is requested.
    pub(super) trace: Option<HeadTrace>,
    /// Command that prints the stacks of the ranks with a report of no progress, if they are requested.
    stacks: Option<StackReport>,
    /// Debuggers of ranks that have started in one.
    pub(super) gdb: Option<GdbPanes>,
    /// Progress display, only if output goes to a person at a terminal.
    progress: Option<Progress>,
}

impl Reports {
    pub(super) fn new(
        settings: &Watching,
        is_watched_by_user: bool,
        trace: Option<HeadTrace>,
    ) -> Self {
        let began = clock::now();
        Self {
            stall: Stall::new(settings),
            began,
            socket: StatusServer::new(settings, began),
            remind_at: None,
            collections: Collections::default(),
            pauses: Pauses::new(settings.pause_timeout),
            trace,
            stacks: settings.stall_stacks.then(StackReport::default),
            gdb: None,
            progress: (settings.progress && is_watched_by_user).then(Progress::new),
        }
    }

    /// Start of the run.
    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    /// Time of the next deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let own = [self.stall.deadline(), self.socket.deadline(), self.remind_at];
        let others = [self.collections.deadline(), self.pauses.deadline()];
        let progress = self.progress.as_ref().and_then(Progress::deadline);
        own.into_iter().chain(others).chain([progress]).flatten().min()
    }

    /// Restarts the measurement of stalls.
    pub(super) fn excuse_stall(&mut self) {
        self.stall.excuse(clock::now());
    }

    /// Schedules a report of ranks that still run after the user has requested the end.
    pub(super) fn remind_later(&mut self) {
        self.remind_at = Some(clock::now() + REMINDER);
    }

    /// Stops waiting for the answers of a node that is lost.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        self.pauses.remove_node(node);
        self.collections.remove_node(node);
    }
}

/// Requests the state of ranks from all nodes. Messages to a node keep their order, so it is their state
/// before anything that is sent later.
pub(super) fn request_reports(run: &mut Run, purpose: Purpose) {
    let is_listening = !run.jobs.is_unsent() && !run.ending.is_leaving();
    let there = run.nodes.iter().filter(|(_, node)| is_listening && !node.is_lost);
    let asked: BTreeSet<NodeId> = match &purpose {
        // Few ranks are described, so few nodes are asked.
        Purpose::Missing { table, .. } => {
            let has_missing = |node: NodeId| {
                (0..).zip(&table.jobs).any(|(job, row)| {
                    let missing = missing(table, row);
                    !rank_sets::common(&run.nodes.ranks(node, job), &missing).is_empty()
                })
            };
            there.map(|(node, _)| node).filter(|node| has_missing(*node)).collect()
        }
        _ => there.map(|(node, _)| node).collect(),
    };
    let is_for_all = !matches!(purpose, Purpose::Missing { .. });
    let (now, nodes) = (clock::now(), asked.iter().copied());
    if asked.is_empty()
        && let Purpose::Interrupt { report } = purpose
    {
        return trace::report(run, report);
    }
    let Some(request) = run.reports.collections.open(now, purpose, nodes) else { return };
    let message = ToNode::Report(request);
    match is_for_all {
        true if asked.is_empty() => {}
        true => run.send_all(message),
        false => run.send_each(asked, message),
    }
}

/// Handles the report of a node that its ranks wait without progress.
pub(super) fn handle_standstill(run: &mut Run) {
    // A check that is due later covers it.
    if run.reports.stall.deadline().is_none() {
        request_reports(run, Purpose::Progress);
    }
}

/// Handles the state of the ranks of a node.
pub(super) fn handle_report(run: &mut Run, from: NodeId, report: NodeReport) -> io::Result<()> {
    run.reports.collections.add(from, report);
    check_collections(run)
}

/// Handles deadlines of reports.
pub(super) fn check_reports(run: &mut Run, now: Instant) -> io::Result<()> {
    let Run { reports, link, poller, .. } = run;
    reports.socket.tick(now, |path| link.guard_file(path), poller)?;
    if run.reports.stall.deadline().is_some_and(|at| now >= at) {
        // The answers decide about the next check.
        run.reports.stall.pause();
        request_reports(run, Purpose::Progress);
    }
    if run.reports.remind_at.take_if(|at| now >= *at).is_some() && run.nodes.running_count() > 0 {
        request_reports(run, Purpose::Interrupted);
    }
    pauses::check(run, now);
    check_progress_line(run, now);
    check_collections(run)
}

/// Shows the progress of a long start or a long end.
fn check_progress_line(run: &mut Run, now: Instant) {
    let Some(progress) = &mut run.reports.progress else { return };
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let (running, remaining) = (run.nodes.running_count(), run.nodes.remaining_count());
    let left = remaining.saturating_sub(running);
    let task = match run.ending.termination.has_failed() {
        // The start of node servers has a display of its own.
        false if run.jobs.is_unsent() => None,
        false => (left > 0).then(|| {
            let started = run.nodes.processes().count();
            (ProgressTask::Start, count(started), count(left))
        }),
        true => (running > 0).then(|| (ProgressTask::End, 0, count(running))),
    };
    if let Some(line) = progress.check(now, task) {
        run.io.outputs.set_status(line.as_deref());
    }
}

fn check_collections(run: &mut Run) -> io::Result<()> {
    while let Some(done) = run.reports.collections.take_done(clock::now()) {
        handle_collection(run, done)?;
    }
    Ok(())
}

fn handle_collection(run: &mut Run, done: Collection) -> io::Result<()> {
    let Collection { purpose, reports, .. } = done;
    match purpose {
        Purpose::Progress => check_progress(run, &reports),
        Purpose::Missing { action, mut table } => {
            for at in 0..table.jobs.len() {
                let number = u32::try_from(at).unwrap_or(u32::MAX);
                let all = reported(run, number, &reports);
                let all = Vec::from_iter(all.iter().map(Owned::view));
                let Some(job) = table.jobs.get(at) else { continue };
                let count = graph::ends(&table.jobs, job).count();
                let rows = merge::rows(&all, &job.name);
                let shown = u64::try_from(rows.len()).unwrap_or(u64::MAX);
                if let Some(job) = table.jobs.get_mut(at) {
                    (job.ranks, job.more_ranks) = (rows, count.saturating_sub(shown));
                }
            }
            match action {
                StallAction::Report { lasts } => {
                    run.io.report_table(&text::standstill(&table, seconds(lasts)));
                    if let Some(stacks) = &mut run.reports.stacks {
                        stacks.start();
                    }
                }
                StallAction::Abort { lasts } => {
                    run.fail(Failure::Stalled { limit: lasts }, None);
                    run.io.report_table(&text::table(&table, Rows::Few));
                }
            }
        }
        Purpose::All => {
            let table = table(run, &reports);
            run.io.report_table(&text::table(&table, Rows::Few));
        }
        Purpose::Running { running } => {
            let mut table = table(run, &reports);
            // Some may have ended before the last answer came.
            for (job, running) in table.jobs.iter_mut().zip(running) {
                job.running = running;
            }
            run.io.report_table(&text::table(&table, Rows::Few));
        }
        Purpose::Interrupt { mut report } => {
            let table = table(run, &reports);
            for job in table.jobs.iter().filter(|job| !job.running.is_empty()) {
                report.push_str(&text::running_ranks(job));
            }
            trace::report(run, report);
        }
        Purpose::Interrupted => {
            let table = table(run, &reports);
            let ranks = text::jobs(&table.jobs, Rows::Few);
            run.io.report_table(&format!("{}{ranks}", report::STILL_RUNNING));
        }
        Purpose::Clients => {
            let table = table(run, &reports);
            run.reports.socket.set_answer(clock::now(), &table);
            run.reports.socket.resume(&run.poller)?;
        }
        Purpose::Environment => {
            let of_host = |(node, report): (NodeId, NodeReport)| {
                Some((run.nodes.get(node)?.host.clone(), report.variables))
            };
            let of_hosts = Vec::from_iter(reports.into_iter().filter_map(of_host));
            run.io.report(report::variables_of_hosts(&of_hosts));
        }
    }
    Ok(())
}

/// Decides whether the run makes progress, by the reports of its nodes.
fn check_progress(run: &mut Run, reports: &[(NodeId, NodeReport)]) {
    // Ranks that are stopped make no progress.
    if !run.nodes.have_started() || run.reports.pauses.is_any() {
        run.reports.excuse_stall();
    }
    let now = clock::now();
    // Progress of one job may end a wait of another.
    let found = merge::standstill(now, reports.iter().map(|(_, report)| report));
    let found = found.filter(|_| !run.ending.termination.has_failed());
    if let Some(action) = run.reports.stall.check(now, found) {
        let table = Box::new(table(run, reports));
        request_reports(run, Purpose::Missing { action, table });
    }
}

/// Reports with the hosts of their nodes, and the ranks of a job there.
fn reported<'a>(run: &Run, job: u32, reports: &'a [(NodeId, NodeReport)]) -> Vec<Owned<'a>> {
    let of = |(node, report): &'a (NodeId, NodeReport)| {
        let state = run.nodes.get(*node)?;
        Some(Owned { host: state.host.clone(), ranks: run.nodes.ranks(*node, job), report })
    };
    reports.iter().filter_map(of).collect()
}

/// State of the run: its first job, and spawned ones that have not ended.
fn table(run: &Run, reports: &[(NodeId, NodeReport)]) -> Table {
    let is_shown = |job: &u32| *job == 0 || !run.nodes.has_job_ended(*job);
    let jobs: Vec<u32> = (0..run.nodes.job_count()).filter(is_shown).collect();
    let is_idle = |node: NodeId| jobs.iter().all(|job| run.nodes.ranks(node, *job).is_empty());
    let idle = run.nodes.iter().map(|(node, _)| node).filter(|node| is_idle(*node));
    let idle = idle.filter(|_| run.jobs.names_hosts());
    let idle_nodes = idle.filter_map(|node| node_row(run, node, Ranks::default(), reports));
    Table {
        version: table::VERSION,
        pid: std::process::id(),
        host: run.plan(0).host.clone(),
        seconds: seconds(clock::since(run.reports.began)),
        hosts: run.nodes.iter().filter_map(|(node, state)| host_row(run, node, state)).collect(),
        idle_nodes: idle_nodes.collect(),
        jobs: jobs.iter().map(|job| job_row(run, *job, reports)).collect(),
    }
}

/// What a node offers to ranks.
fn host_row(run: &Run, node: NodeId, state: &NodeState) -> Option<table::Host> {
    let NodeResources { processors, parallelism, memory_bytes, numa_nodes } =
        run.link.resources(node).filter(|_| !state.is_lost)?.clone();
    let numa_nodes = numa_nodes.into_iter().map(|domain| domain.processors).collect();
    let host = state.host.clone();
    Some(table::Host { host, processors, parallelism, memory_bytes, numa_nodes })
}

fn job_row(run: &Run, number: u32, reports: &[(NodeId, NodeReport)]) -> table::Job {
    let all = reported(run, number, reports);
    let all = Vec::from_iter(all.iter().map(Owned::view));
    let plan = run.plan(number);
    let with_ranks = run.nodes.iter().map(|(node, _)| (node, run.nodes.ranks(node, number)));
    let with_ranks = with_ranks.filter(|(_, ranks)| !ranks.is_empty());
    // The only node is named with the ranks.
    let with_ranks = with_ranks.filter(|_| run.jobs.names_hosts());
    let nodes = with_ranks.filter_map(|(node, ranks)| node_row(run, node, ranks, reports));
    let job = table::Job {
        name: plan.kvsname.clone(),
        spawner: plan.spawner.as_ref().map(|by| by.kvsname.clone()),
        program: plan.program_names(),
        size: plan.ranks,
        running: run.nodes.all_running(number),
        nodes: nodes.collect(),
        ..table::Job::default()
    };
    merge::job(job, &run.nodes.all_ended(number), &all)
}

/// A node with these ranks of a job.
fn node_row(
    run: &Run,
    node: NodeId,
    ranks: Ranks,
    reports: &[(NodeId, NodeReport)],
) -> Option<JobNode> {
    let state = run.nodes.get(node)?;
    let has_answered = reports.iter().any(|(other, _)| *other == node);
    let paused = run.reports.pauses.since(node).map(|since| seconds(clock::since(since)));
    Some(JobNode {
        host: state.host.clone(),
        ranks,
        link: match () {
            () if state.is_lost => NodeLink::Lost,
            () if paused.is_some() => NodeLink::Paused,
            () if run.jobs.is_unsent() => NodeLink::Starting,
            () if has_answered || run.ending.is_leaving() => NodeLink::Connected,
            () => NodeLink::Silent,
        },
        last_message_seconds: Some(seconds(clock::since(state.heard_at))),
        paused_seconds: paused.filter(|_| !state.is_lost),
    })
}

/// Serves the status socket and its clients.
pub(super) fn serve_status(run: &mut Run, token: Token) -> io::Result<()> {
    let now = clock::now();
    match token {
        Token::StatusClient(number) => run.reports.socket.serve(number, &run.poller),
        _ if run.reports.socket.wants_answer(now) => {
            run.reports.socket.defer(now, &run.poller)?;
            request_reports(run, Purpose::Clients);
            check_collections(run)
        }
        _ => run.reports.socket.accept(now, &run.poller),
    }
}

/// A report, with the host and the ranks of its node.
struct Owned<'a> {
    host: String,
    ranks: Ranks,
    report: &'a NodeReport,
}

impl Owned<'_> {
    fn view(&self) -> Reported<'_> {
        Reported { host: &self.host, ranks: &self.ranks, report: self.report }
    }
}

/// Ranks of a job at which waits end, as many as a report describes.
fn missing(table: &Table, job: &table::Job) -> Ranks {
    rank_sets::first(&graph::ends(&table.jobs, job), text::ROWS_MAX)
}

/// Delay of the reminder, long enough for ranks that terminate on request.
const REMINDER: Duration = Duration::from_secs(1);
