//! A run: the jobs of one launcher, their first failure and exit code, output, tables, traces and tools.
//!
//! It starts no rank itself; its nodes do, and none without it. [`link`](crate::link) has all that passes
//! between them.
//!
//! ```text
//! NodeServers  node servers: their start, connections, the tree          > StartEvent
//! NodeTable    nodes, and processes of ranks
//! Operations   parts of operations of ranks on several nodes
//! Io           output of ranks, reports to the user
//! HeadInput    standard input for the nodes of its readers
//! HeadTerminal terminal of the user, for a rank with a terminal of its own
//! Summary      start and end of every rank
//! HeadJobs     plans of all jobs, and spawn requests that wait for their answers
//! HeadGrowth   hosts that are added to the run, for spawn requests or because their start was slow
//! Reports      no progress, tables of ranks, status requests
//! Pauses       nodes that are stopped
//! HeadTrace    the records of all nodes
//! HeadClients  published names and PMIx tools; queries of all clients for the processes of all nodes
//! Ending       first failure, signals, the order of the end
//! ```
//!
//! The sequence of a run:
//!
//! 1. Node servers are started on all hosts and connect. If any fails, the run ends before a rank has
//!    started.
//! 2. The description of the job goes to all nodes. They start the ranks and report processes.
//! 3. Output, ends and failures of ranks come up; input and signals go down.
//! 4. The first failure decides the exit code. The other nodes are asked to terminate their ranks.
//! 5. When no rank is left and all output has arrived, the nodes are dismissed.

mod changes;
mod collection;
mod connects;
mod debuggers;
mod ending;
mod failures;
mod fetches;
mod growth;
mod handlers;
mod input;
mod merge;
mod names;
mod node_requests;
mod operations;
mod output;
mod pauses;
mod pushes;
mod queries;
mod reports;
mod spawn;
mod summary;
mod table;
mod terminal;
mod tools;
mod trace;

use crate::io::Io;
use crate::launch::plan::job::Plan;
use crate::launch::signal::{Arrived, Meaning};
use crate::link::job_message::JobMessage;
use crate::link::message::ToNode;
use crate::link::{NodeEvent, NodeLink};
use crate::listeners::Listeners;
use crate::placement::PlacedHosts;
use crate::report;
use crate::server::head_server::HeadServer;
use crate::settings::Settings;
use crate::stdio::inputs::Inputs;
use crate::stdio::label::RankNodes;
use crate::stdio::outputs::Outputs;
use crate::verdict::Failure;
pub(crate) use debuggers::PartProcesses;
use debuggers::StoppedJobs;
use ending::{Ending, FindPresent};
pub(crate) use input::HeadInput;
use input::NodeInput;
use names::HeadNames;
use operations::Operations;
use pmi_host_base::exit;
use pmi_host_os::clock;
use pmi_host_os::poller::{Poller, Token};
use pmi_host_os::refusal;
use pmi_host_os::stream::Stream;
use pmi_nodes::failed_host::{HostsLeftOut, LateHost};
use pmi_nodes::stage::SentPrograms;
use pmi_tree::{Destination, NodeId, TreeError};
use pushes::Pushes;
use queries::Queries;
use reports::Reports;
use spawn::HeadJobs;
use std::io::{Error, Result as IoResult};
use std::rc::Rc;
use std::time::Instant;
use summary::Summary;
use table::NodeTable;
pub(crate) use terminal::HeadTerminal;
use trace::HeadTrace;

/// End of a run.
#[derive(Debug)]
pub(crate) struct RunEnd {
    /// Exit code.
    pub(crate) code: u8,
    /// Last lines for standard error.
    pub(crate) last: String,
    /// Hosts that cannot be used. If there are any, the run has not begun, and is to start again without
    /// them.
    pub(crate) left_out: HostsLeftOut,
}

/// What changes the state of a run.
pub(crate) enum RunEvent {
    /// A descriptor of the run is ready.
    Ready(Token),
    /// A node, or one that is being started.
    Node(NodeEvent),
    /// A signal to the process of the run.
    Signal(Arrived, Meaning),
    /// That process has stopped after a signal, and continues.
    Continued,
    /// The time has come for what was due before.
    Time(Instant),
}

/// Parts of a run that depend on its link to the nodes.
pub(crate) struct RunStart {
    pub(crate) poller: Poller,
    pub(crate) link: NodeLink,
    /// Plan of the first job.
    pub(crate) plan: Rc<Plan>,
    /// Places of its ranks.
    pub(crate) placed: Rc<PlacedHosts>,
    /// Names of the hosts, for labels.
    pub(crate) labels: RankNodes,
    /// Input for ranks of other processes.
    pub(crate) input: HeadInput,
    /// Node at which pages may observe the run.
    pub(crate) observers: Option<NodeId>,
    /// Description of the job for node servers, and the programs that are sent to them.
    pub(crate) unsent: Option<(JobMessage, Option<SentPrograms>)>,
    /// Hosts that join when they come.
    pub(crate) late: Vec<LateHost>,
    /// Asks the batch system for the hosts that the allocation has now, if it can tell.
    pub(crate) find_present: Option<FindPresent>,
    /// Sentences for the user.
    pub(crate) reports: Vec<String>,
}

/// State of a run.
pub(crate) struct Run {
    poller: Poller,
    link: NodeLink,
    jobs: HeadJobs,
    nodes: NodeTable,
    operations: Operations,
    clients: HeadClients,
    io: Io,
    /// Rank with a terminal of its own.
    pty: Option<u32>,
    /// True if the rank of the first job was not started by this run, and has streams of its own.
    pub(crate) is_adopting: bool,
    input: HeadInput,
    summary: Summary,
    ending: Ending,
    reports: Reports,
    /// Last lines for standard error.
    last: String,
}

/// PMIx clients that the head serves: tools, and those of nodes as far as the whole run concerns them.
struct HeadClients {
    server: HeadServer,
    listeners: Listeners,
    queries: Queries,
    names: HeadNames,
    pushes: Pushes,
    stopped: StoppedJobs,
    /// Processes of the first job for a debugger that attaches to the launcher, until they are taken.
    published: Option<Vec<PartProcesses>>,
    is_published: bool,
}

impl Run {
    /// Prepares a run. It is large: each frame that it passed through would be touched.
    pub(crate) fn new(settings: &Settings, start: RunStart) -> Result<Box<Self>, String> {
        let RunStart {
            poller,
            link,
            plan,
            placed,
            labels,
            input,
            observers,
            unsent,
            late,
            find_present,
            reports,
        } = start;
        let summary = Summary::new(&settings.ending)?;
        let mut outputs =
            Outputs::new(&settings.output, labels.clone()).map_err(|error| error.to_string())?;
        // Hosts that are left out take their ranks along, so these are certain after the start.
        if settings.hosts.min_nodes.is_none() {
            outputs.prepare(0, plan.started()).map_err(|error| error.to_string())?;
        }
        let trace = HeadTrace::open(&settings.tracing, &plan, observers)?;
        let state = Reports::new(&settings.watching, outputs.is_watched_by_user(), trace);
        let mut io = Io::new(Inputs::none(), outputs);
        reports.iter().for_each(|line| io.report(line));
        let mut ending = Ending::new(&settings.ending);
        ending.hosts.min_nodes = settings.hosts.min_nodes;
        ending.hosts.find_present = find_present;
        ending.hosts.starts_early = settings.hosts.starts_early;
        let mut server = HeadServer::new(settings.job.kvs);
        server.add_job(0, &plan, &placed).map_err(report::cannot_prepare)?;
        let listeners = tools::listen(&settings.watching, &plan, (&mut io, &poller))?;
        let names = HeadNames::open(&settings.names, (&plan.kvsname, plan.ranks), &poller)?;
        if names.are_elsewhere() {
            server.service.hand_names_of_tools_up();
        }
        let nodes = NodeTable::new(&placed, plan.started());
        let operations = Operations::new(Rc::clone(&placed));
        let jobs = HeadJobs::new(plan, unsent, placed, labels, late);
        Ok(Box::new(Self {
            poller,
            link,
            jobs,
            nodes,
            operations,
            clients: HeadClients {
                server,
                listeners,
                queries: Queries::default(),
                names,
                pushes: Pushes::default(),
                stopped: StoppedJobs::default(),
                published: None,
                is_published: false,
            },
            io,
            pty: settings.output.pty,
            is_adopting: false,
            input,
            summary,
            ending,
            reports: state,
            last: String::new(),
        }))
    }

    /// The loop of this process cannot continue: only system calls fail in it (no memory, no descriptors
    /// left).
    pub(crate) fn give_up(&mut self, error: &Error) {
        let what = format!("the launcher cannot continue: {}", refusal::words(error));
        self.last.push_str(&exit::line(&what));
        self.ending.termination.set_failure(Failure::Launcher { what });
    }

    /// Exit code of the run, as far as its failures and its output decide.
    fn exit_code(&self) -> u8 {
        let failure = self.ending.termination.failure().map(Failure::exit_code);
        let code = failure.or_else(|| self.summary.tolerated_code());
        code.unwrap_or_else(|| u8::from(self.io.outputs.has_failed()))
    }

    /// True once the run has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.ending.termination.failure().is_some()
    }

    /// Ends the run.
    pub(crate) fn finish(mut self: Box<Self>) -> RunEnd {
        let left_out = std::mem::take(&mut self.ending.hosts.left_out);
        if !left_out.names.is_empty() {
            self.link.abandon();
            return RunEnd { code: 0, last: self.last, left_out };
        }
        let code = self.exit_code();
        // The last event may have come after the last look at the progress line.
        self.io.outputs.set_status(None);
        let _ = self.io.outputs.flush(&mut self.poller);
        let mut last = self.last;
        if let Some(count) = self.io.finish() {
            last.push_str(&exit::line(report::unreported(count)));
        }
        let code = self.summary.write(code, &mut last);
        if let Some(trouble) = self.reports.trace.as_mut().and_then(|trace| trace.finish(code)) {
            last.push_str(&exit::line(trouble));
        }
        RunEnd { code, last, left_out }
    }

    /// Changes the state of the run. Everything that happens to it after its preparation enters here;
    /// [`advance`](Self::advance) draws the conclusions, once for several events.
    ///
    /// # Errors
    ///
    /// Those of the system, after which the loop cannot continue.
    pub(crate) fn apply(&mut self, event: RunEvent) -> IoResult<()> {
        match event {
            RunEvent::Ready(token) => self.handle_ready(token),
            RunEvent::Node(event) => self.handle_node_event(event),
            RunEvent::Signal(arrived, meaning) => self.handle_signal(arrived, meaning),
            RunEvent::Continued => {
                self.reports.excuse_stall();
                self.send_all(ToNode::Resume);
                Ok(())
            }
            RunEvent::Time(now) => self.handle_deadlines(now),
        }
    }

    /// Shows the user how the start of the node servers proceeds.
    pub(crate) fn show_start(&mut self) {
        if let Some(servers) = self.link.servers() {
            servers.show_progress();
        }
    }

    /// The processes of the first job, once, when all were started.
    pub(crate) const fn take_published(&mut self) -> Option<Vec<PartProcesses>> {
        self.clients.published.take()
    }

    /// Passes what was sent to connections.
    pub(crate) fn send_all_now(&mut self) -> IoResult<()> {
        self.link.flush(&self.poller)
    }

    /// Handles what is ready.
    fn handle_ready(&mut self, token: Token) -> IoResult<()> {
        match token {
            Token::Source => self.serve_input(),
            Token::StatusSocket | Token::StatusClient(_) => reports::serve_status(self, token),
            Token::PmixListen | Token::Link(_) => tools::serve(self, token),
            Token::NameServer => {
                names::serve_server(self);
                Ok(())
            }
            token => self.link.ready(token, &self.poller),
        }
    }

    /// Handles all messages of nodes. Writing may reveal the end of a connection, and what is handled may
    /// have to be sent.
    pub(crate) fn advance(&mut self) -> IoResult<()> {
        while self.handle_events()? {
            self.flush()?;
        }
        // What was handled may have been the last but output: the wait that follows has its deadline.
        self.check_delivery(clock::now());
        self.flush()
    }

    fn flush(&mut self) -> IoResult<()> {
        tools::settle(self)?;
        trace::flush(self);
        self.io.outputs.flush(&mut self.poller)?;
        self.check_readers();
        // Output that arrives while its readers are slow waits at the nodes.
        self.link.pause_output(self.io.outputs.is_any_full());
        self.link.flush(&self.poller)
    }

    /// True if a host of this name is in the run, and not lost.
    fn is_present(&self, name: &str) -> bool {
        self.nodes.iter().any(|(_, node)| !node.is_lost && node.host == name)
    }

    /// Plan of a job; that of the first one if there is none with this number.
    fn plan(&self, job: u32) -> &Rc<Plan> {
        self.jobs.plan(job)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.ending.termination.is_abandoned
            || ((self.ending.is_over() || !self.ending.hosts.left_out.names.is_empty())
                && self.io.outputs.is_done())
    }

    /// Tells the nodes about readers of the output that have gone.
    fn check_readers(&mut self) {
        for stream in Stream::BOTH {
            if self.io.outputs.is_closed(stream) && self.ending.note_closed(stream) {
                self.send_all(ToNode::CloseOutput(stream));
            }
        }
    }

    /// Time of the next [`handle_deadlines`](Self::handle_deadlines).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let own = [self.link.deadline(), self.io.deadline(), self.input.deadline()];
        let ends = [self.summary.deadline(), self.ending.deadline(), self.reports.deadline()];
        let jobs = [self.jobs.deadline(), self.clients.queries.deadline()];
        let tools = [self.clients.listeners.deadline(), self.clients.server.service.deadline()];
        own.into_iter().chain(ends).chain(jobs).chain(tools).flatten().min()
    }

    /// Sends a message to all nodes.
    fn send_all(&mut self, message: ToNode) {
        self.send(Destination::All, message);
    }

    fn send(&mut self, to: Destination, message: ToNode) {
        let sent = self.link.send(to, message);
        self.check_sent(sent);
    }

    /// Sends a message to each of `nodes`.
    fn send_each(&mut self, nodes: impl IntoIterator<Item = NodeId>, message: ToNode) {
        let sent = self.link.send_each(nodes, message);
        self.check_sent(sent);
    }

    fn check_sent(&mut self, sent: Result<(), TreeError>) {
        if let Err(error) = sent {
            let what = format!("a message to the nodes cannot be sent: {error}");
            self.fail(Failure::Launcher { what }, None);
        }
    }

    /// Sends input to the nodes that want it.
    fn serve_input(&mut self) -> IoResult<()> {
        for (node, input) in self.input.serve(&self.poller)? {
            let message = match input {
                NodeInput::Piece(bytes) => {
                    self.input.terminal.iter_mut().for_each(|terminal| terminal.check_keys(&bytes));
                    ToNode::Input(bytes)
                }
                NodeInput::End => ToNode::InputEnded,
            };
            self.send(Destination::Node(node), message);
        }
        Ok(())
    }
}
