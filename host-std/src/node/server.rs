//! A node server: from its place in the tree to the end of its run.

use super::lease::{self, Lease, Taken};
use super::{Node, messages};
use crate::cli::config::{Config, place_ranks};
use crate::launch::plan::job::{App, Plan};
use crate::launch::signal::{Signals, UserSignals};
use crate::launch::topology::binding;
use crate::launch::topology::places::NodePlaces;
use crate::launch::topology::resources::OwnResources;
use crate::link::RunLink;
use crate::link::job_message::{AppMessage, JobMessage, Origin, TerminalMessage};
use crate::link::message::{ToNode, ToRun};
use crate::listeners;
use crate::placement::allocation::AllocationSource;
use crate::placement::{ExpectedRanks, PlacedHosts};
use crate::report;
use crate::server::listen_config::ListenConfig;
use crate::settings::output::StdinTo;
use crate::settings::{Environment, Settings};
use crate::stdio::outputs::NodeOutput;
use crate::verdict::Failure;
use nix::sys::signal::SigSet;
use pmi_host_base::exit::{self, FAILED};
use pmi_host_os::clock;
use pmi_host_os::descriptors::{DescriptorLimit, FdBudget};
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::refusal;
use pmi_host_os::target;
use pmi_nodes::network::{Network, NetworkEvent, delegation};
use pmi_nodes::settings::StarterName;
use pmi_nodes::stage::StagedPrograms;
use pmi_tree::{Class, Destination, TreeEvent};
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::process::umask;
use std::io;
use std::rc::Rc;

/// Parts that the loop of a node takes over.
pub(crate) struct NodeStart {
    pub(crate) poller: Poller,
    /// Descriptor that reserves the number at which ranks find their sockets.
    pub(crate) reserved: OwnedFd,
    /// Signals with which ranks begin.
    pub(crate) user_signals: UserSignals,
    pub(crate) link: RunLink,
    /// What this process may use.
    pub(crate) resources: Rc<OwnResources>,
    /// Output of ranks.
    pub(crate) output: NodeOutput,
    /// True if all messages of ranks are recorded and sent to the head.
    pub(crate) is_traced: bool,
    /// True if a debugger has started the launcher.
    pub(crate) is_debugged: bool,
    /// Programs that were sent to this host.
    pub(crate) programs: StagedPrograms,
    /// Terminal of a rank.
    pub(crate) terminal: Option<TerminalMessage>,
    /// What the run has of this host; `None` if it has nothing to itself.
    pub(crate) lease: Option<Lease>,
}

/// Serves the ranks of a job on the node with this number in the tree, and returns the exit code. The head
/// knows the `own` resources of the node.
pub(crate) fn serve_node(
    network: Network,
    poller: Poller,
    node: u32,
    reserved: OwnedFd,
    own: Rc<OwnResources>,
) -> u8 {
    // A head on this machine has blocked the signals that it reads. Ranks begin with the mask of this
    // process, and an error would leave it as it is.
    let _ = SigSet::empty().thread_set_mask();
    let mut waiting = WaitingServer { network, poller, programs: StagedPrograms::default() };
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
    // With `--cpu-set` ranks may use fewer processors than the node has told the head about.
    let resources = match job.placement.processors {
        Some(_) => Rc::default(),
        None => own,
    };
    let mut config = match configure(*job, node.saturating_sub(1)) {
        Ok(config) => config,
        Err(what) => return waiting.fail(what),
    };
    if let Err(what) = place(&mut config) {
        return waiting.fail_with(Failure::Impossible { what });
    }
    let Taken { lease, notes } = match lease::take(&mut config) {
        Ok(taken) => taken,
        Err(what) => return waiting.fail_with(Failure::Impossible { what }),
    };
    let starters = u32::try_from(delegation::files_as_ranks(&waiting.network)).unwrap_or(u32::MAX);
    let others =
        CONNECTIONS.saturating_add(starters).saturating_add(listeners::open_files(&config));
    let limit = DescriptorLimit::new(config.settings.output.files_per_rank(), others);
    if let Err(what) = check_descriptors(&config, &limit) {
        return waiting.fail(what);
    }
    let WaitingServer { network, poller, programs } = waiting;
    let link = RunLink::Tree(Box::new(network));
    let server =
        Signals::take(&config.settings.ending.forward_signals).map_err(report::cannot_prepare);
    let server = server.and_then(|(user_signals, signals)| {
        let start = NodeStart {
            poller,
            reserved,
            user_signals,
            link,
            resources,
            output,
            is_traced,
            is_debugged: false,
            programs,
            terminal,
            lease,
        };
        let mut node = Node::new(config, limit, start)?;
        for note in notes {
            node.io.report(note);
        }
        Ok(NodeServer { node, signals })
    });
    match server {
        Ok(server) => server.run(),
        // The head sees the end of the connection, and this line in the output of the starter.
        Err(what) => {
            target::write_last(exit::line(what).as_bytes());
            FAILED
        }
    }
}

/// A node alone in its process.
struct NodeServer {
    node: Box<Node>,
    signals: Signals,
}

impl NodeServer {
    /// Serves the ranks of the host until the run dismisses the node, and returns the exit code.
    fn run(mut self) -> u8 {
        let mut last = String::new();
        if let Err(error) = self.turn_until_done() {
            self.node.give_up();
            let what = format!("the launcher cannot continue: {}", refusal::words(&error));
            last = exit::line(&what);
            self.node.termination.set_failure(Failure::Launcher { what });
        }
        last.push_str(&self.node.finish());
        if !last.is_empty() {
            target::write_last(last.as_bytes());
        }
        self.node.termination.failure().map_or(0, Failure::exit_code)
    }

    fn turn_until_done(&mut self) -> io::Result<()> {
        self.node.poller.add(Token::Signal, self.signals.source(), Interest::Read)?;
        let mut ready = Vec::new();
        while !self.node.is_done() {
            let has_started = self.node.start_next()?;
            let until = if has_started { Some(clock::now()) } else { self.node.deadline() };
            self.node.poller.wait(until, &mut ready)?;
            messages::serve(&mut self.node, until, &mut ready)?;
            if ready.contains(&Token::Signal) {
                self.signals.handle(&mut *self.node)?;
            }
            self.node.serve_ready(&ready)?;
        }
        Ok(())
    }
}

/// Checks that the hard limit on open files is enough for the ranks of this node, while the head can still be
/// told.
fn check_descriptors(config: &Config, limit: &DescriptorLimit) -> Result<(), String> {
    let budget = |plan: &Plan| FdBudget { ranks: plan.local(), pmix: plan.pmix_ranks() };
    let local = config.node.map_or(0, |node| config.placed.map.ranks_of(node).count());
    let ranks = u32::try_from(local).unwrap_or(u32::MAX);
    // Whether a program uses PMIx is known from its file, which is read only if that matters.
    if limit.check(FdBudget { ranks, pmix: ranks }).is_ok() {
        return Ok(());
    }
    let plan = Plan::first(config.job(), None);
    limit.check(budget(&plan)).map(drop).map_err(|error| error.to_string())
}

/// A node before it has a job, or after it has failed to prepare one.
struct WaitingServer {
    network: Network,
    poller: Poller,
    /// Programs that have arrived so far.
    programs: StagedPrograms,
}

impl WaitingServer {
    /// The job; `None` if the run ends before.
    ///
    /// # Errors
    ///
    /// A sentence about a message of the head.
    fn await_job(&mut self) -> Result<Option<Box<JobMessage>>, &'static str> {
        loop {
            match self.next_message() {
                Some(ToNode::Job(job)) => return Ok(Some(job)),
                Some(ToNode::Program(piece)) => self.programs.add(piece)?,
                Some(ToNode::Finish) | None => return Ok(None),
                _ => {}
            }
        }
    }

    /// Reports that the job cannot be prepared, and waits for the end of the run.
    fn fail(self, what: String) -> u8 {
        self.fail_with(Failure::Launcher { what })
    }

    fn fail_with(mut self, failure: Failure) -> u8 {
        let failed = ToRun::Failed { job: 0, failure, outputs: 0 };
        for message in [failed, ToRun::Quiet { outputs: 0, jobs: 1 }] {
            let _ = self.network.send(Destination::Head, Class::Control, message.body());
        }
        while self.next_message().is_some_and(|message| message != ToNode::Finish) {}
        FAILED
    }

    /// The next message of the head; `None` if it is lost.
    fn next_message(&mut self) -> Option<ToNode> {
        loop {
            match self.network.next_event(&mut self.poller).ok()? {
                NetworkEvent::Tree(TreeEvent::Message { body, .. }) => {
                    return ToNode::read(&body);
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
    settings.job.fence = job.exchange.fence;
    settings.names.server = job.exchange.name_server;
    settings.nodes.starter = is_one_machine.then_some(StarterName::Here);
    settings.environment = Environment { report: false, ..job.environment };
    settings.placement = job.placement;
    // The head judges the whole run.
    settings.watching.stall_report = job.supervision.standstill;
    settings.ending.forward_signals = job.supervision.forward_signals;
    settings.ending.on_exit_error = job.supervision.on_exit_error;
    settings.ending.timeout = job.supervision.timeout;
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
    let placed = Rc::new(PlacedHosts { hosts: job.hosts, slots: Vec::new(), map, source });
    Ok(Config {
        ranks,
        parts: job.apps.into_iter().map(App::from).collect(),
        host,
        run: job.run,
        has_servers: true,
        placed,
        node: Some(node),
        listen,
        dial_in_node,
        web,
        places: NodePlaces::default(),
        universe: job.facts.universe,
        nspace: None,
        settings,
    })
}

/// Places the ranks of this node, on processors that the settings leave to them.
///
/// # Errors
///
/// A message for the user, with the remedy.
fn place(config: &mut Config) -> Result<(), String> {
    let ranks = config.started();
    let Config { settings, parts, host, .. } = config;
    if let Some(processors) = &settings.placement.processors {
        binding::limit_to(processors)?;
    }
    config.places = place_ranks(settings, parts, host, ranks)?;
    config.places.check_here()
}

fn readers(ranks: impl Iterator<Item = u32>) -> StdinTo {
    let ranks: Vec<u32> = ranks.collect();
    if ranks.is_empty() { StdinTo::NoRank } else { StdinTo::Ranks(ranks) }
}

/// Number of connections to other nodes that have room: the parent, the children, and those that are not
/// authenticated.
const CONNECTIONS: u32 = 64;
