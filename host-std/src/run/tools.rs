//! PMIx tools of a run on several nodes. They connect to the head, which knows all jobs and starts new ones;
//! nodes execute what concerns their ranks.

use super::queries::{self, Query, QueryOrigin};
use super::spawn::{HeadJobs, SpawnOrigin};
use super::table::{NodeTable, RemoteProcess};
use super::{Run, debuggers, names, pushes, spawn};
use crate::io::Io;
use crate::launch::plan::job::Plan;
use crate::launch::plan::spawn_request::SpawnRequest;
use crate::launch::start::process::ProcessEnd;
use crate::link::message::ToNode;
use crate::listeners::{ListenerEvent, Listeners};
use crate::operation::{ControlMessage, OperationReply, OperationRequest, ProcessRow, PushResult};
use crate::report;
use crate::requests::clients::{self, Asked, ClientHost};
use crate::requests::forwarding;
use crate::requests::log::write_log;
use crate::requests::query::{QuerySnapshot, ServerFacts};
use crate::requests::tools::ToolAdmission;
use crate::server::event::{PendingSpawn, ServerEvent};
use crate::server::pmix::control::JobControl;
use crate::server::pmix::credential::UserIdentity;
use crate::server::pmix::forwarding::InputPush;
use crate::server::pmix::host_request::PmixCalls;
use crate::server::pmix::log::LogRequest;
use crate::server::pmix::monitor::MonitorRequest;
use crate::settings::Watching;
use crate::stdio::forward::{OutputPull, OutputSource};
use crate::verdict::PmiPhase;
use crate::web::Rejected;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::Status;
use pmi_host_os::clock;
use pmi_host_os::listen::ACCEPTED_AT_ONCE;
use pmi_host_os::poller::{Poller, Token};
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
pub(super) fn serve(run: &mut Run, token: Token) -> io::Result<()> {
    let Token::Link(session) = token else { return accept(run) };
    run.clients.server.service.ready(session, &run.poller)
}

fn accept(run: &mut Run) -> io::Result<()> {
    for _ in 0..ACCEPTED_AT_ONCE {
        match run.clients.listeners.accept_pmix(&run.poller)? {
            Some(ListenerEvent::PmixPeer { link, from, socket }) => {
                let service = &mut run.clients.server.service;
                service.add_pmix_peer((link, from), socket, NEW_TOOLS_MAX, &run.poller)?;
            }
            Some(ListenerEvent::Rejected(Rejected { from, socket, why }, _link)) => {
                run.io.report_rejected(from, socket, &why);
            }
            Some(ListenerEvent::Peer(_) | ListenerEvent::Gone) => {}
            None => break,
        }
    }
    Ok(())
}

/// Sends the responses and the output that are due, and executes the requests of tools.
pub(super) fn settle(run: &mut Run) -> io::Result<()> {
    run.clients.server.service.flush(&run.poller)?;
    names::check_tools(run);
    while handle_events(run) || send_output(run) {
        run.clients.server.service.flush(&run.poller)?;
    }
    Ok(())
}

/// Handles the deadlines of the listener and of connections.
pub(super) fn tick(run: &mut Run, now: Instant) -> io::Result<()> {
    let Run { clients, link, poller, .. } = run;
    clients.listeners.tick(now, poller, &mut |path| link.guard_file(path))?;
    if run.clients.server.service.tick(clock::now(), &run.poller)? {
        settle(run)?;
    }
    run.io.check_rejections(now);
    queries::check(run, now);
    Ok(())
}

fn send_output(run: &mut Run) -> bool {
    let Run { io, clients, nodes, jobs, .. } = run;
    let (service, numbers) = clients.server.parts();
    forwarding::send((io, service), |process| source((nodes, jobs), numbers, process))
}

fn take_output(run: &mut Run) {
    let Run { io, clients, nodes, jobs, .. } = run;
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
fn handle_events(run: &mut Run) -> bool {
    let mut is_any = false;
    while let Some(event) = run.clients.server.service.poll_event() {
        is_any = true;
        handle_event(run, event);
    }
    if is_any {
        // A tool may have published a name that clients of nodes wait for.
        let answers = run.clients.server.answer_waiting();
        names::send(run, answers);
    }
    is_any
}

fn handle_event(run: &mut Run, event: ServerEvent) {
    match event {
        ServerEvent::ToolDialled { session } => admit(run, session),
        ServerEvent::PmixDialled { session, rank, .. } => {
            let Some((from, socket)) = run.clients.server.service.pmix_caller(session) else {
                return;
            };
            run.clients.server.service.refuse_pmix(session, Status::NO_PERMISSIONS);
            let why = format!("claims to be rank {rank}, which connects on its node only");
            run.io.report_rejected(from, Some(socket), &why);
        }
        ServerEvent::PmixRefused { from, socket, why } => {
            run.io.report_rejected(from, Some(socket), &why);
        }
        ServerEvent::PmixHostRequest { session, exchange } => {
            clients::serve(run, (session, exchange));
        }
        ServerEvent::PmixSilent { job, rank, code, after } => {
            let service = &mut run.clients.server.service;
            if let Some(name) = service.pmix_calls().job_name(job) {
                let secs = after.as_micros() / 1_000_000;
                let who = format!("tool {name}");
                run.io.report(report::without_heartbeat(&who, secs, code));
                service.pmix_notifier().notify_silent(job, rank, code);
            }
        }
        ServerEvent::Operation(Ok(OperationRequest::Name { asker, request })) => {
            names::serve_tool(run, (asker, request));
        }
        ServerEvent::Operation(Ok(OperationRequest::Event(message))) => {
            run.send_all(ToNode::Operation(OperationReply::Event(message)));
        }
        // The server has no ranks, and tools are in no fence with others. The nodes report a mapping that is
        // left out.
        _ => {}
    }
}

fn admit(run: &mut Run, tool: SessionId) {
    let has_room = run.clients.server.service.pmix_links() <= TOOLS_MAX;
    let is_on = run.clients.listeners.tools.is_on();
    let Run { io, clients, jobs, .. } = run;
    let host = &jobs.plan(0).host;
    let admission = ToolAdmission { host, is_on, has_room };
    if admission.decide((&mut clients.server.service, io), tool) {
        describe_jobs(run);
    }
}

/// Lets tools know all jobs of the run.
fn describe_jobs(run: &mut Run) {
    let known: Vec<(u32, JobId)> = run.clients.server.jobs().collect();
    for (number, job) in known {
        let plan = Rc::clone(run.plan(number));
        run.clients.server.service.describe_to_tools(job, &plan);
    }
}

/// Requests of tools. No process of a rank is here.
impl ClientHost for Run {
    fn calls(&mut self) -> PmixCalls<'_> {
        self.clients.server.service.pmix_calls()
    }

    fn control(&mut self, asked: Asked, _: JobId, request: JobControl) -> Option<Status> {
        control(self, asked, request)
    }

    fn spawn(&mut self, (session, exchange): Asked, _: (JobId, u32), request: SpawnRequest) {
        let asked = PendingSpawn { session, exchange };
        spawn::handle(self, (SpawnOrigin::Tool(asked), None), request);
    }

    fn query(&mut self, asked: Asked, wants_memory: bool) {
        let from = QueryOrigin::Tool(asked.0, asked.1);
        queries::open(self, Query { from, wants_memory });
    }

    fn log(&mut self, _: (JobId, u32), entry: &LogRequest) -> Status {
        write_log(entry, 0, |stream, text| self.io.outputs.log_of_tool(stream, text))
    }

    fn monitor(&mut self, _: SessionId, _: (JobId, u32), _: MonitorRequest) -> Status {
        Status::NOT_SUPPORTED
    }

    fn identity(&self, _: (JobId, u32)) -> Option<UserIdentity> {
        None
    }

    fn pull(&mut self, session: SessionId, pull: OutputPull) -> Option<u64> {
        take_output(self);
        Some(self.io.forwarder.add(session, pull, clock::now()))
    }

    fn withdraw(&mut self, session: SessionId, number: u64) -> bool {
        take_output(self);
        self.io.forwarder.withdraw(session, number)
    }

    fn push(&mut self, asked: Asked, push: InputPush) -> Option<PushResult> {
        pushes::start(self, asked, push)
    }
}

/// Has the nodes execute job control, whose answer follows then.
fn control(
    run: &mut Run,
    (session, exchange): (SessionId, usize),
    request: JobControl,
) -> Option<Status> {
    let JobControl { targets, cleanup, acts: actions } = request;
    // Tools are no part of the run.
    let number = |(job, rank)| Some((run.clients.server.number(job)?, rank));
    let targets: Vec<_> = targets.into_iter().filter_map(number).collect();
    if targets.is_empty() {
        return Some(Status::NOT_FOUND);
    }
    let message = ControlMessage { by: None, targets, cleanup, actions };
    queries::control(run, QueryOrigin::ToolControl(session, exchange), message);
    None
}

/// Answers a query of a tool with the state of all processes.
pub(super) fn answer_query(run: &mut Run, asked: (SessionId, usize), rows: Vec<ProcessRow>) {
    describe_jobs(run);
    let jobs: Vec<_> = run.clients.server.jobs().collect();
    let jobs = jobs.into_iter().map(|(number, job)| (job, number, Rc::clone(run.plan(number))));
    let facts =
        ServerFacts { uri: run.clients.listeners.pmix_uri(), ends_at: run.ending.ends_at() };
    let known = QuerySnapshot::new(jobs, rows, facts);
    let mut calls = run.clients.server.service.pmix_calls();
    calls.answer_query(asked, |question, to| known.answer(question, to));
}

/// Lets tools find a spawned job.
pub(super) fn add_job(run: &mut Run, job: JobId, plan: &Plan) {
    let Run { clients, link, .. } = run;
    clients.listeners.tools.add_job(plan.kvsname.clone(), &mut |path| link.guard_file(path));
    run.clients.server.service.describe_to_tools(job, plan);
}

/// Tells tools that all ranks of a job run.
pub(super) fn note_job_start(run: &mut Run, number: u32) {
    if let Some(job) = run.clients.server.job(number).filter(|_| run.clients.listeners.has_pmix()) {
        run.clients.server.service.pmix_notifier().notify_job_start(job);
    }
    debuggers::note_job_start(run, number);
}

/// Tells tools that no rank of a spawned job is left.
pub(super) fn note_job_end(run: &mut Run, number: u32) {
    let plan = Rc::clone(run.plan(number));
    run.clients.listeners.tools.remove_job(&plan.kvsname);
    if let Some(job) = run.clients.server.job(number).filter(|_| run.clients.listeners.has_pmix()) {
        run.clients.server.service.pmix_notifier().notify_job_end(job);
    }
    run.clients.server.note_job_end(number);
    names::note_job_end(run, number);
    debuggers::note_job_end(run, number);
}

/// Tells tools that a rank has ended.
pub(super) fn note_end(
    run: &mut Run,
    (number, rank): (u32, u32),
    (end, phase): (ProcessEnd, PmiPhase),
) {
    if let Some(job) = run.clients.server.job(number).filter(|_| run.clients.listeners.has_pmix()) {
        run.clients.server.service.pmix_notifier().notify_exit(job, rank, end, phase);
    }
}

/// Tells tools that a node is lost.
pub(super) fn note_loss(run: &mut Run, (host, node): (&str, u32)) {
    if run.clients.listeners.has_pmix() {
        run.clients.server.service.pmix_notifier().notify_node_down((host, node));
    }
}

/// Number of tools that may be connected at once.
const TOOLS_MAX: usize = 64;

/// Number of connections that may not have identified themselves yet.
const NEW_TOOLS_MAX: usize = 16;
