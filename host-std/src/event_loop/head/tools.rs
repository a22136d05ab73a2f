//! PMIx tools of a run on several nodes. They connect to the head, which knows all jobs and starts new ones;
//! nodes execute what concerns their ranks.

use super::super::forwarding;
use super::super::io::Io;
use super::super::listeners::{ListenerEvent, Listeners};
use super::super::pmix::write_log;
use super::super::query::{QuerySnapshot, ServerFacts};
use super::super::tools::{NewTool, ToolAdmission};
use super::queries::{self, Query, QueryOrigin};
use super::spawn::HeadJobs;
use super::table::{NodeTable, RemoteProcess};
use super::{HeadLoop, debuggers, names, pushes, spawn};
use crate::launch::plan::job::Plan;
use crate::launch::start::process::ProcessEnd;
use crate::nodes::message::HeadMessage;
use crate::operation::{ControlMessage, OperationReply, OperationRequest, ProcessRow};
use crate::poller::{Poller, Token};
use crate::server::event::ServerEvent;
use crate::server::listen::ACCEPTED_AT_ONCE;
use crate::server::pmix::control::JobControl;
use crate::server::pmix::host_request::Wish;
use crate::settings::Watching;
use crate::stdio::forward::OutputSource;
use crate::verdict::PmiPhase;
use crate::web::Rejected;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::{Status, keys};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// Opens the listener of tools as the user has set it.
///
/// # Errors
///
/// A message for the user, if this cannot be the system server, or its address cannot be written.
pub(super) fn listen(
    settings: &Watching,
    plan: &Plan,
    (io, poller): (&mut Io, &Poller),
) -> Result<Listeners, String> {
    let mut listeners = Listeners::new(None, (None, None), None);
    listeners.admit_tools(settings, plan, poller)?;
    if listeners.tools.is_on() {
        io.outputs.tap();
    }
    Ok(listeners)
}

/// Serves the listener of tools, or the connection of one.
///
/// # Errors
///
/// Errors of the system.
pub(super) fn serve(head: &mut HeadLoop, token: Token) -> io::Result<()> {
    let Token::Link(session) = token else { return accept(head) };
    head.clients.server.service.ready(session, &head.poller)
}

fn accept(head: &mut HeadLoop) -> io::Result<()> {
    for _ in 0..ACCEPTED_AT_ONCE {
        match head.clients.listeners.accept_pmix(&head.poller)? {
            Some(ListenerEvent::PmixPeer { link, from, socket }) => {
                let service = &mut head.clients.server.service;
                service.add_pmix_peer((link, from), socket, NEW_TOOLS_MAX, &head.poller)?;
            }
            Some(ListenerEvent::Rejected(Rejected { from, socket, why }, _link)) => {
                head.io.report_rejected(from, socket, &why);
            }
            Some(ListenerEvent::Peer(_) | ListenerEvent::Gone) => {}
            None => break,
        }
    }
    Ok(())
}

/// Sends the responses and the output that are due, and executes the requests of tools.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn settle(head: &mut HeadLoop) -> io::Result<()> {
    head.clients.server.service.flush(&head.poller)?;
    names::check_tools(head);
    while handle_events(head) || send_output(head) {
        head.clients.server.service.flush(&head.poller)?;
    }
    Ok(())
}

/// Handles the deadlines of the listener and of connections.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn tick(head: &mut HeadLoop, now: Instant) -> io::Result<()> {
    head.clients.listeners.tick(now, &head.poller, head.servers.guard())?;
    if head.clients.server.service.tick(Instant::now(), &head.poller)? {
        settle(head)?;
    }
    head.io.check_rejections(now);
    queries::check(head, now);
    Ok(())
}

fn send_output(head: &mut HeadLoop) -> bool {
    let HeadLoop { io, clients, nodes, jobs, .. } = head;
    let (service, numbers) = clients.server.parts();
    forwarding::send((io, service), |process| source((nodes, jobs), numbers, process))
}

fn take_output(head: &mut HeadLoop) {
    let HeadLoop { io, clients, nodes, jobs, .. } = head;
    let (service, numbers) = clients.server.parts();
    forwarding::take_output((io, service), |process| source((nodes, jobs), numbers, process));
}

/// The rank that is this process.
fn source(
    (nodes, jobs): (&NodeTable, &HeadJobs),
    numbers: &BTreeMap<u32, JobId>,
    process: u32,
) -> Option<OutputSource> {
    let (RemoteProcess { owner: (number, rank), pid }, _) = nodes.process(process)?;
    let plan = jobs.plan(number);
    Some(OutputSource {
        job: *numbers.get(&number)?,
        rank,
        pid,
        nspace: plan.kvsname.clone(),
        host: plan.host_of(rank).to_owned(),
    })
}

/// Executes the events of the server; true if there were any.
fn handle_events(head: &mut HeadLoop) -> bool {
    let mut is_any = false;
    while let Some(event) = head.clients.server.service.poll_event() {
        is_any = true;
        handle_event(head, event);
    }
    if is_any {
        // A tool may have published a name that clients of nodes wait for.
        let answers = head.clients.server.answer_waiting();
        names::send(head, answers);
    }
    is_any
}

fn handle_event(head: &mut HeadLoop, event: ServerEvent) {
    match event {
        ServerEvent::ToolDialled { session, user } => admit(head, (session, user)),
        ServerEvent::PmixDialled { session, rank, .. } => {
            let Some((from, socket)) = head.clients.server.service.pmix_caller(session) else {
                return;
            };
            head.clients.server.service.refuse_pmix(session, Status::NO_PERMISSIONS);
            let why = format!("claims to be rank {rank}, which connects on its node only");
            head.io.report_rejected(from, Some(socket), &why);
        }
        ServerEvent::PmixRefused { from, socket, why } => {
            head.io.report_rejected(from, Some(socket), &why);
        }
        ServerEvent::PmixHostRequest { session, exchange } => {
            if let Some(status) = handle_request(head, (session, exchange)) {
                head.clients.server.service.pmix_calls().answer((session, exchange), status);
            }
        }
        ServerEvent::Operation(Ok(OperationRequest::Name { asker, request })) => {
            names::serve_tool(head, (asker, request));
        }
        ServerEvent::Operation(Ok(OperationRequest::Event(message))) => {
            head.send_all(&HeadMessage::Operation(OperationReply::Event(message)));
        }
        // The server has no ranks, and tools are in no fence with others. The nodes report a mapping that is
        // left out.
        _ => {}
    }
}

fn admit(head: &mut HeadLoop, tool: NewTool) {
    let has_room = head.clients.server.service.pmix_links() <= TOOLS_MAX;
    let is_on = head.clients.listeners.tools.is_on();
    let HeadLoop { io, clients, jobs, .. } = head;
    let host = &jobs.plan(0).host;
    let admission = ToolAdmission { host, is_on, has_room };
    if admission.decide((&mut clients.server.service, io), tool) {
        describe_jobs(head);
    }
}

/// Lets tools know all jobs of the run.
fn describe_jobs(head: &mut HeadLoop) {
    let known: Vec<(u32, JobId)> = head.clients.server.jobs().collect();
    for (number, job) in known {
        let plan = Rc::clone(head.plan(number));
        head.clients.server.service.describe_to_tools(job, &plan);
    }
}

/// Executes a request of a tool. Returns the status of its answer, unless it has another one, now or later.
fn handle_request(head: &mut HeadLoop, asked: (SessionId, usize)) -> Option<Status> {
    let mut calls = head.clients.server.service.pmix_calls();
    Some(match calls.wish(asked.0) {
        Wish::JobControl(_, request) => return control(head, asked, request),
        Wish::Spawn(_, _, request) => {
            spawn::handle_tool(head, asked, request);
            return None;
        }
        Wish::Query => {
            let wants_memory = calls.query_names(asked.0, &[keys::QUERY_MEMORY_USAGE]);
            let from = QueryOrigin::Tool(asked.0, asked.1);
            queries::open(head, Query { from, wants_memory });
            return None;
        }
        Wish::Log(_, _, entry) => {
            write_log(&entry, 0, |stream, text| head.io.outputs.log_of_tool(stream, text))
        }
        Wish::Validated(identity) => {
            calls.answer_validated(asked, identity);
            return None;
        }
        Wish::PullOutput(pull) => {
            take_output(head);
            let number = head.io.forwarder.add(asked.0, pull, Instant::now());
            head.clients.server.service.pmix_calls().answer_pull(asked, number);
            return None;
        }
        Wish::WithdrawOutput(number) => {
            take_output(head);
            match head.io.forwarder.withdraw(asked.0, number) {
                true => Status::SUCCESS,
                false => Status::NOT_FOUND,
            }
        }
        Wish::PushInput(push) => return pushes::start(head, asked, push),
        // No process of a rank is on this node.
        Wish::Credential(..) | Wish::Monitor(..) => Status::NOT_SUPPORTED,
        Wish::Refused(status) => status,
    })
}

/// Has the nodes execute job control, whose answer follows then.
fn control(
    head: &mut HeadLoop,
    (session, exchange): (SessionId, usize),
    request: JobControl,
) -> Option<Status> {
    let JobControl { targets, cleanup, acts: actions } = request;
    // Tools are no part of the run.
    let number = |(job, rank)| Some((head.clients.server.number(job)?, rank));
    let targets: Vec<_> = targets.into_iter().filter_map(number).collect();
    if targets.is_empty() {
        return Some(Status::NOT_FOUND);
    }
    let message = ControlMessage { by: None, targets, cleanup, actions };
    queries::control(head, QueryOrigin::ToolControl(session, exchange), message);
    None
}

/// Answers a query of a tool with the state of all processes.
pub(super) fn answer_query(head: &mut HeadLoop, asked: (SessionId, usize), rows: Vec<ProcessRow>) {
    describe_jobs(head);
    let jobs: Vec<_> = head.clients.server.jobs().collect();
    let jobs = jobs.into_iter().map(|(number, job)| (job, number, Rc::clone(head.plan(number))));
    let facts =
        ServerFacts { uri: head.clients.listeners.pmix_uri(), ends_at: head.ending.ends_at() };
    let known = QuerySnapshot::new(jobs, rows, facts);
    let mut calls = head.clients.server.service.pmix_calls();
    calls.answer_query(asked, |question, to| known.answer(question, to));
}

/// Lets tools find a spawned job.
pub(super) fn add_job(head: &mut HeadLoop, job: JobId, plan: &Plan) {
    head.clients.listeners.tools.add_job(plan.kvsname.clone(), head.servers.guard());
    head.clients.server.service.describe_to_tools(job, plan);
}

/// Tells tools that all ranks of a job run.
pub(super) fn note_job_start(head: &mut HeadLoop, number: u32) {
    if let Some(job) = head.clients.server.job(number).filter(|_| head.clients.listeners.has_pmix())
    {
        head.clients.server.service.pmix_notifier().notify_job_start(job);
    }
    debuggers::note_job_start(head, number);
}

/// Tells tools that no rank of a spawned job is left.
pub(super) fn note_job_end(head: &mut HeadLoop, number: u32) {
    let plan = Rc::clone(head.plan(number));
    head.clients.listeners.tools.remove_job(&plan.kvsname);
    if let Some(job) = head.clients.server.job(number).filter(|_| head.clients.listeners.has_pmix())
    {
        head.clients.server.service.pmix_notifier().notify_job_end(job);
    }
    head.clients.server.note_job_end(number);
    names::note_job_end(head, number);
    debuggers::note_job_end(head, number);
}

/// Tells tools that a rank has ended.
pub(super) fn note_end(
    head: &mut HeadLoop,
    (number, rank): (u32, u32),
    (end, phase): (ProcessEnd, PmiPhase),
) {
    if let Some(job) = head.clients.server.job(number).filter(|_| head.clients.listeners.has_pmix())
    {
        head.clients.server.service.pmix_notifier().notify_exit(job, rank, end, phase);
    }
}

/// Tells tools that a node is lost.
pub(super) fn note_loss(head: &mut HeadLoop, (host, node): (&str, u32)) {
    if head.clients.listeners.has_pmix() {
        head.clients.server.service.pmix_notifier().notify_node_down((host, node));
    }
}

/// Number of tools that may be connected at once.
const TOOLS_MAX: usize = 64;

/// Number of connections that may not have identified themselves yet.
const NEW_TOOLS_MAX: usize = 16;
