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

use crate::admission::secret::{GeneratedSecret, SecretUse};
use crate::cli::config::Config;
use crate::io::Io;
use crate::launch::plan::job::Plan;
use crate::launch::plan::user_environment;
use crate::launch::signal::{Ignored, Signals};
use crate::link::NodeLink;
use crate::listeners::Listeners;
use crate::mpir;
use crate::nodes::failed_host::{HostsLeftOut, LateHost};
use crate::nodes::greeting::NodeTask;
use crate::nodes::job_message::{
    AppMessage, DialInMessage, ExchangeMessage, FactsMessage, JobMessage, Origin, StreamsMessage,
    Supervision, TerminalMessage,
};
use crate::nodes::message::ToNode;
use crate::nodes::stage::SentPrograms;
use crate::nodes::start::NodeServers;
use crate::nodes::starter::StarterHost;
use crate::placement::PlacedHosts;
use crate::poller::{Interest, Poller, Token};
use crate::report;
use crate::server::head_server::HeadServer;
use crate::server::listen_config::{ListenConfig, WebListenConfig};
use crate::settings::nodes::StarterName;
use crate::settings::output::StdinTo;
use crate::settings::{Environment, Settings};
use crate::stdio::gather::NodeGather;
use crate::stdio::inputs::Inputs;
use crate::stdio::label::RankNodes;
use crate::stdio::outputs::{NodeOutput, Outputs};
use crate::stdio::places::Places;
use crate::stdio::target;
use crate::stream::Stream;
use crate::verdict::Failure;
use debuggers::StoppedJobs;
use ending::Ending;
pub(super) use input::HeadInput;
use input::NodeInput;
use names::HeadNames;
use operations::Operations;
use pmi_host_base::exit;
use pmi_tree::{Destination, NodeId, TreeError};
use pushes::Pushes;
use queries::Queries;
use reports::Reports;
use rustix::fs::Mode;
use rustix::process::umask;
use spawn::HeadJobs;
use std::io::{Error, Result as IoResult};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use summary::Summary;
use table::NodeTable;
use terminal::HeadTerminal;
use trace::HeadTrace;

/// Outcome of a run.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    /// It has ended with this exit code.
    Ended(u8),
    /// It has not begun, and is to start again without these hosts, which cannot be used.
    Again(HostsLeftOut),
}

/// Runs the first job and all jobs spawned from it on the hosts of `config`, which those in `late` join when
/// they come. All reports are written when it returns.
// Its frame is large, and one frame with that of the caller would be touched by each run.
#[inline(never)]
pub(crate) fn run(config: &Config, late: &[LateHost]) -> RunOutcome {
    let run = Run::of_servers(config, late).map(|mut run| {
        if let Err(error) = run.turn_until_done() {
            // The connections close with this process, and nodes without a head kill their ranks.
            run.give_up(&error);
        }
        run
    });
    match run {
        Ok(run) if !run.ending.hosts.left_out.names.is_empty() => {
            run.link.abandon();
            RunOutcome::Again(run.ending.hosts.left_out)
        }
        Ok(run) => RunOutcome::Ended(run.finish()),
        Err(what) => {
            target::write_last(exit::line(what).as_bytes());
            RunOutcome::Ended(Failure::Launcher { what: String::new() }.exit_code())
        }
    }
}

/// Parts of a run that depend on its link to the nodes.
pub(super) struct RunStart {
    pub(super) poller: Poller,
    pub(super) link: NodeLink,
    /// Plan of the first job.
    pub(super) plan: Rc<Plan>,
    /// Places of its ranks.
    pub(super) placed: Rc<PlacedHosts>,
    /// Names of the hosts, for labels.
    pub(super) labels: RankNodes,
    /// Input for ranks of other processes.
    pub(super) input: HeadInput,
    /// Node at which pages may observe the run.
    pub(super) observers: Option<NodeId>,
    /// Description of the job for node servers, and the programs that are sent to them.
    pub(super) unsent: Option<(JobMessage, Option<SentPrograms>)>,
    /// Hosts that join when they come.
    pub(super) late: Vec<LateHost>,
    pub(super) signals: Signals,
    /// Sentences for the user.
    pub(super) reports: Vec<String>,
}

/// State of a run.
pub(super) struct Run {
    pub(super) poller: Poller,
    signals: Signals,
    link: NodeLink,
    jobs: HeadJobs,
    nodes: NodeTable,
    operations: Operations,
    clients: HeadClients,
    io: Io,
    /// Rank with a terminal of its own.
    pty: Option<u32>,
    /// True if the rank of the first job was not started by this run, and has streams of its own.
    pub(super) is_adopting: bool,
    input: HeadInput,
    summary: Summary,
    ending: Ending,
    reports: Reports,
}

/// PMIx clients that the head serves: tools, and those of nodes as far as the whole run concerns them.
struct HeadClients {
    server: HeadServer,
    listeners: Listeners,
    queries: Queries,
    names: HeadNames,
    pushes: Pushes,
    stopped: StoppedJobs,
}

impl Run {
    /// Prepares a run over node servers.
    fn of_servers(config: &Config, late: &[LateHost]) -> Result<Self, String> {
        let prepare = |error: Error| format!("the job cannot be prepared: {error}");
        let settings = &config.settings;
        let placed = config.hosts.clone().ok_or("the job has no hosts")?;
        let ignored = Ignored::at_start();
        let plan = Rc::new(Plan::first(config.job(), None));
        let node_of = |rank| NodeId(placed.map.node_of(rank).unwrap_or_default() + 1);
        let terminal = HeadTerminal::open(&settings.output, node_of)?;
        let readers = match (settings.output.pty, &settings.output.stdin) {
            (None, readers) => readers.clone(),
            (Some(_), StdinTo::NoRank) => StdinTo::NoRank,
            (Some(rank), _) => StdinTo::Ranks(vec![rank]),
        };
        let mut input = HeadInput::new(&readers, plan.started(), node_of)?;
        input.terminal = terminal;
        let poller = Poller::new().map_err(prepare)?;
        let signals = Signals::new(&settings.ending.forward_signals, ignored).map_err(prepare)?;
        let mut hosts =
            StarterHost::all(&placed.hosts, &settings.nodes, |name| std::env::var(name).ok());
        if let Some(node) = config.dial_in_node {
            hosts.iter_mut().for_each(|host| host.is_apart |= host.node == node + 1);
        }
        let mut servers = NodeServers::open(hosts, &settings.nodes, NodeTask::Job, &poller)?;
        let of_rank = input.terminal.as_ref().map(HeadTerminal::describe);
        let mut first = describe(config, &placed, of_rank)?;
        let mut reports = servers.instructions();
        if let Some(node) = config.dial_in_node {
            let (listen, web) = (config.listen.as_ref(), config.web.as_ref());
            let create = || GeneratedSecret::create(SecretUse::Ranks);
            let is_lacking = listen.is_some_and(ListenConfig::lacks_secret)
                || web.is_some_and(WebListenConfig::lacks_secret);
            let secret = is_lacking.then(create).transpose()?;
            let given = settings.job.proof.secret_file.as_deref();
            let file = secret.as_ref().map(|secret| &*secret.path).or(given.map(Path::new));
            let expected = settings.job.expected.clone().unwrap_or_default();
            first.dial_in = Some(DialInMessage::new((listen, web), expected, file, node)?);
            if let Some(secret) = secret {
                reports.push(report::generated_secret(&secret.path, None));
                servers.keep_secret(secret);
            }
        }
        let mut programs = settings.nodes.staging.has_programs.then(SentPrograms::default);
        if let Some(programs) = &mut programs {
            first.apps.iter_mut().try_for_each(|app| app.send_with(programs))?;
        }
        if settings.hosts.min_nodes.is_some() {
            servers.decide_all();
        }
        let observers = config.web.as_ref().and(config.dial_in_node).map(|node| NodeId(node + 1));
        let mut run = Self::new(
            settings,
            RunStart {
                poller,
                link: NodeLink::Tree(Box::new(servers)),
                plan,
                labels: RankNodes::several(&placed),
                placed,
                input,
                observers,
                unsent: Some((first, programs)),
                late: late.to_vec(),
                signals,
                reports,
            },
        )?;
        if let Some(servers) = run.link.servers().filter(|_| !settings.hosts.starts_early) {
            servers.show_progress();
        }
        Ok(run)
    }

    /// Prepares a run.
    pub(super) fn new(settings: &Settings, start: RunStart) -> Result<Self, String> {
        let prepare = |error: Error| format!("the job cannot be prepared: {error}");
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
            signals,
            reports,
        } = start;
        let summary = Summary::new(&settings.ending)?;
        let mut outputs =
            Outputs::new(&settings.output, labels.clone()).map_err(|error| error.to_string())?;
        // Hosts that are left out take their ranks along, so these are certain after the start.
        if settings.hosts.min_nodes.is_none() {
            outputs.prepare(0, plan.started()).map_err(|error| error.to_string())?;
        }
        poller.add(Token::Signal, signals.source(), Interest::Read).map_err(prepare)?;
        let trace = HeadTrace::open(&settings.tracing, &plan, observers)?;
        let state = Reports::new(&settings.watching, outputs.is_watched_by_user(), trace);
        let mut io = Io::new(Inputs::none(), outputs);
        reports.iter().for_each(|line| io.report(line));
        let mut ending = Ending::new(&settings.ending);
        ending.hosts.min_nodes = settings.hosts.min_nodes;
        ending.hosts.starts_early = settings.hosts.starts_early;
        let mut server = HeadServer::new(settings.job.kvs);
        server.add_job(0, &plan, &placed).map_err(prepare)?;
        let listeners = tools::listen(&settings.watching, &plan, (&mut io, &poller))?;
        let names = HeadNames::open(&settings.names, (&plan.kvsname, plan.ranks), &poller)?;
        if names.are_elsewhere() {
            server.service.hand_names_of_tools_up();
        }
        let nodes = NodeTable::new(&placed, plan.started());
        let operations = Operations::new(Rc::clone(&placed));
        let jobs = HeadJobs::new(plan, unsent, placed, labels, late);
        Ok(Self {
            poller,
            signals,
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
            },
            io,
            pty: settings.output.pty,
            is_adopting: false,
            input,
            summary,
            ending,
            reports: state,
        })
    }

    /// Reports that the loop of this process cannot continue: only system calls fail in it (no memory, no
    /// descriptors left).
    pub(super) fn give_up(&mut self, error: &Error) {
        let what = format!("the launcher cannot continue: {error}");
        target::write_last(exit::line(&what).as_bytes());
        self.ending.termination.set_failure(Failure::Launcher { what });
    }

    /// Exit code of the run, as far as its failures and its output decide.
    fn exit_code(&self) -> u8 {
        let failure = self.ending.termination.failure().map(Failure::exit_code);
        let code = failure.or_else(|| self.summary.tolerated_code());
        code.unwrap_or_else(|| u8::from(self.io.outputs.has_failed()))
    }

    /// Writes the last reports, and returns the exit code.
    pub(super) fn finish(mut self) -> u8 {
        if let Some(count) = self.io.finish() {
            target::write_last(exit::line(report::unreported(count)).as_bytes());
        }
        if self.ending.termination.failure().is_some() {
            mpir::abort();
        }
        let code = self.summary.write(self.exit_code());
        if let Some(trouble) = self.reports.trace.as_mut().and_then(|trace| trace.finish(code)) {
            target::write_last(exit::line(trouble).as_bytes());
        }
        code
    }

    fn turn_until_done(&mut self) -> IoResult<()> {
        let mut ready = Vec::new();
        loop {
            self.handle_deadlines(Instant::now())?;
            self.advance()?;
            if self.is_done() {
                return Ok(());
            }
            self.poller.wait(self.deadline(), &mut ready)?;
            for token in &ready {
                match *token {
                    Token::Signal => self.handle_signals(|run| run.link.flush(&run.poller))?,
                    token => self.handle_ready(token)?,
                }
            }
            self.flush()?;
        }
    }

    /// Handles what is ready, but for signals.
    pub(super) fn handle_ready(&mut self, token: Token) -> IoResult<()> {
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
    pub(super) fn advance(&mut self) -> IoResult<()> {
        while self.handle_events()? {
            self.flush()?;
        }
        // What was handled may have been the last but output: the wait that follows has its deadline.
        self.check_delivery(Instant::now());
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

    pub(super) fn is_done(&self) -> bool {
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
    pub(super) fn deadline(&self) -> Option<Instant> {
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

/// Description of the job of `config` for all nodes.
fn describe(
    config: &Config,
    placed: &PlacedHosts,
    terminal: Option<TerminalMessage>,
) -> Result<JobMessage, String> {
    let Settings { job, nodes, environment, output, placement, ending, watching, tracing, .. } =
        &config.settings;
    let directory = std::env::current_dir()
        .map_err(|error| format!("the working directory has no path: {error}"))?;
    // There is no call that only reads it.
    let mask = umask(Mode::empty());
    umask(mask);
    let of_head = Some(user_environment::for_other_nodes());
    Ok(JobMessage {
        run: config.run.clone(),
        hosts: placed.hosts.clone(),
        map: placed.map.clone(),
        dial_in: None,
        apps: config.parts.iter().map(AppMessage::from).collect(),
        facts: FactsMessage { universe: config.universe, attributes: job.attributes.clone() },
        exchange: ExchangeMessage {
            kvs: job.kvs,
            fence: nodes.fence,
            name_server: config.settings.names.server.clone(),
        },
        environment: Environment { of_head, ..environment.clone() },
        origin: Origin {
            directory: directory.into(),
            umask: mask.as_raw_mode(),
            is_one_machine: nodes.starter.as_ref().is_some_and(StarterName::is_here),
        },
        placement: placement.clone(),
        streams: StreamsMessage {
            readers: output.stdin.clone(),
            terminal,
            output: NodeOutput {
                are_one: Places::are_one(output),
                is_unbuffered: output.unbuffered,
                gather: NodeGather::of(output),
            },
        },
        supervision: Supervision {
            timeout: ending.timeout,
            standstill: watching.standstill(),
            on_exit_error: ending.on_exit_error,
            on_singletons: ending.on_singletons,
            is_traced: tracing.is_requested() || config.web.is_some(),
            forward_signals: ending.forward_signals.clone(),
        },
    })
}
