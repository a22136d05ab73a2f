//! Published names: those that the head holds, or a name server in its place.

use super::{Run, connects, trace};
use crate::link::message::ToNode;
use crate::names::client::{NameClient, NameUpdate};
use crate::names::{NameServerRequest, Publisher};
use crate::operation::{Asker, ForwardedMessage, NameMessage, OperationReply};
use crate::server::head_server::NameAnswers;
use crate::server::operations::answer_name;
use crate::settings::NameSettings;
use pmi_core::ids::JobId;
use pmi_host_os::poller::Poller;
use pmi_tree::{Destination, NodeId};
use rustix::process::getuid;
use std::collections::BTreeMap;

/// Server of published names besides that of the head.
#[derive(Debug)]
pub(super) struct HeadNames {
    pub(super) client: Option<NameClient>,
    /// Tools that have made requests, with their namespaces.
    tools: BTreeMap<JobId, Vec<u8>>,
}

impl HeadNames {
    /// Connects to the name server of `settings`, if there is one. The first job has this namespace, and so
    /// many ranks.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(super) fn open(
        settings: &NameSettings,
        (nspace, size): (&str, u32),
        poller: &Poller,
    ) -> Result<Self, String> {
        let mut client = NameClient::open(settings, poller)?;
        let lost =
            client.as_mut().and_then(|open| open.start_job(nspace.as_bytes(), size, poller).report);
        lost.map_or(Ok(Self { client, tools: BTreeMap::new() }), Err)
    }

    /// True if a name server holds the names.
    pub(super) const fn are_elsewhere(&self) -> bool {
        self.client.is_some()
    }
}

/// Executes a request of a rank on a node; false if the node does not have this rank.
pub(super) fn serve(run: &mut Run, from: NodeId, (asker, request): (Asker, NameMessage)) -> bool {
    let by = match &request {
        NameMessage::Publish { by, .. } => Some(*by),
        NameMessage::Pmix(ForwardedMessage { job, rank, .. }) => Some((*job, *rank)),
        NameMessage::Unpublish { .. } | NameMessage::Lookup { .. } => None,
    };
    let is_its = |by| run.nodes.number_on(from, by).is_some();
    if !by.is_none_or(is_its) {
        return false;
    }
    if !run.clients.names.are_elsewhere() {
        let answers = run.clients.server.handle_name(from, asker, request);
        send(run, answers);
        return true;
    }
    let jobs = &run.jobs;
    let publisher = |(job, rank)| {
        let nspace = jobs.plan(job).kvsname.clone().into_bytes();
        Publisher { nspace, rank, node: from.0, user: getuid().as_raw() }
    };
    let request = convert(request, publisher);
    ask(run, (from, asker), request);
    true
}

/// Has the name server execute a request of a tool.
pub(super) fn serve_tool(run: &mut Run, (asker, request): (Asker, NameMessage)) {
    let Run { clients, .. } = run;
    let (server, tools) = (&clients.server, &mut clients.names.tools);
    let publisher = |(job, rank)| {
        let nspace = server.tool_namespace(JobId(job)).unwrap_or_default().to_vec();
        tools.insert(JobId(job), nspace.clone());
        Publisher { nspace, rank, node: THIS.0, user: getuid().as_raw() }
    };
    let request = convert(request, publisher);
    ask(run, (THIS, asker), request);
}

fn convert(
    request: NameMessage,
    publisher: impl FnOnce((u32, u32)) -> Publisher,
) -> NameServerRequest {
    match request {
        NameMessage::Publish { by, service, port } => {
            NameServerRequest::Publish { by: publisher(by), service, port }
        }
        NameMessage::Unpublish { service } => NameServerRequest::Unpublish { service },
        NameMessage::Lookup { service } => NameServerRequest::Lookup { service },
        NameMessage::Pmix(ForwardedMessage { job, rank, format, body }) => {
            NameServerRequest::Pmix { by: publisher((job, rank)), format, body }
        }
    }
}

fn ask(run: &mut Run, origin: (NodeId, Asker), request: NameServerRequest) {
    let Run { clients, poller, .. } = run;
    if let Some(client) = &mut clients.names.client {
        let update = client.send(origin, request, poller);
        apply(run, update);
    }
}

/// Serves the connection to the name server.
pub(super) fn serve_server(run: &mut Run) {
    let Run { clients, poller, .. } = run;
    if let Some(update) = clients.names.client.as_mut().map(|client| client.serve(poller)) {
        apply(run, update);
    }
}

/// Handles what the name server has sent.
pub(super) fn apply(run: &mut Run, update: NameUpdate) {
    let NameUpdate { answers, connects, ended, report } = update;
    send(run, answers);
    connects.into_iter().for_each(|(query, outcome)| connects::finish(run, query, outcome));
    for nspace in ended {
        run.send_all(ToNode::Operation(OperationReply::OtherEnded(nspace)));
    }
    if let Some(report) = report {
        trace::report(run, report);
    }
}

/// Sends answers to requests about published names.
pub(super) fn send(run: &mut Run, answers: NameAnswers) {
    for ((node, asker), answer) in answers {
        if node == THIS {
            answer_name(&mut run.clients.server.service, asker, &answer);
            continue;
        }
        let reply = OperationReply::Name { asker, answer };
        run.send(Destination::Node(node), ToNode::Operation(reply));
    }
}

/// Tells the name server that a job has been started.
pub(super) fn note_job_start(run: &mut Run, job: u32) {
    let Run { clients, poller, jobs, .. } = run;
    if let Some(client) = &mut clients.names.client {
        let plan = jobs.plan(job);
        let update = client.start_job(plan.kvsname.as_bytes(), plan.ranks, poller);
        apply(run, update);
    }
}

/// Removes what does not outlive a rank, which has ended.
pub(super) fn note_end(run: &mut Run, (job, rank): (u32, u32)) {
    run.clients.server.remove_names_of((job, rank));
    let Run { clients, poller, jobs, .. } = run;
    if let Some(client) = &mut clients.names.client {
        let update = client.end_rank(jobs.plan(job).kvsname.as_bytes(), rank, poller);
        apply(run, update);
    }
}

/// The same for all ranks of a job.
pub(super) fn note_job_end(run: &mut Run, job: u32) {
    let Run { clients, poller, jobs, .. } = run;
    if let Some(client) = &mut clients.names.client {
        let update = client.end_job(jobs.plan(job).kvsname.as_bytes(), poller);
        apply(run, update);
    }
}

/// The same for tools that are gone.
pub(super) fn check_tools(run: &mut Run) {
    let Run { clients, .. } = &mut *run;
    let server = &clients.server;
    // Numbers of jobs are reused.
    let is_gone = |job: &JobId, nspace: &mut Vec<u8>| {
        server.tool_namespace(*job).is_none_or(|name| name != nspace.as_slice())
    };
    let gone: Vec<(JobId, Vec<u8>)> = clients.names.tools.extract_if(.., is_gone).collect();
    for (_, nspace) in gone {
        let Run { clients, poller, .. } = &mut *run;
        if let Some(client) = &mut clients.names.client {
            let update = client.end_job(&nspace, poller);
            apply(run, update);
        }
    }
}

/// The head, whose clients are tools.
const THIS: NodeId = NodeId(0);
