//! All that passes between a run and its nodes.
//!
//! A run reaches its nodes by a [`NodeLink`], and a node reaches its run by a [`RunLink`]. Both have two
//! forms: queues in one process, if all ranks are on this machine, and the tree of node servers.
//!
//! ```text
//! message         messages between a run and its nodes
//! job_message     description of the job; spawn_message: spawned jobs
//! node_report     state of the ranks of a node
//! ```

pub(crate) mod job_message;
pub(crate) mod message;
pub(crate) mod node_report;
pub(crate) mod spawn_message;

use crate::launch::topology::resources::OwnResources;
use message::{ToNode, ToRun};
use pmi_host_os::poller::{Poller, Token};
use pmi_nodes::clock::ClockSync;
use pmi_nodes::network::{Network, NetworkEvent};
use pmi_nodes::resources::NodeResources;
use pmi_nodes::start::{NodeServers, StartEvent};
use pmi_tree::{Class, Destination, NodeId, TreeError, TreeEvent};
use rustix::process::Signal;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Link of a run to its nodes.
pub(crate) enum NodeLink {
    /// The only node is in this process.
    Local(Rc<LocalLink>),
    /// Node servers.
    Tree(Box<NodeServers>),
}

/// Link of a node to its run.
pub(crate) enum RunLink {
    /// The run is in this process.
    Local(Rc<LocalLink>),
    /// The head of the run is reached through the tree.
    Tree(Box<Network>),
}

/// Queues between a run and the node in its process.
#[derive(Debug, Default)]
pub(crate) struct LocalLink {
    to_node: RefCell<VecDeque<ToOwnNode>>,
    to_run: RefCell<VecDeque<ToRun>>,
    /// True once the run knows that the node is there.
    is_announced: Cell<bool>,
    /// True while readers of output are slow.
    is_paused: Cell<bool>,
    /// True if the readers have just taken something, so that the node may send what waits.
    is_resumed: Cell<bool>,
    /// True once the node has ended.
    is_over: Cell<bool>,
    /// Mark by which the guard of the node finds the processes of the run.
    guard_mark: RefCell<Option<String>>,
    /// Number of ranks for which the node may have open files.
    ranks_max: Cell<u32>,
    /// What the node offers to ranks.
    resources: OnceCell<Rc<OwnResources>>,
}

/// What passes from a run to the node in its process.
#[derive(Debug)]
pub(crate) enum ToOwnNode {
    /// A message that any node may receive.
    Message(ToNode),
    /// A child of this process has ended.
    ChildEnded,
    /// The user's terminal has changed its size or its foreground process group.
    TerminalChanged,
    /// The last output of the rank with the user's terminal is written.
    TerminalEnded,
    /// The guard removes this file when the launcher is killed.
    GuardFile(PathBuf),
}

/// Event of the nodes for their run.
pub(crate) enum NodeEvent {
    /// A message of a node; `None` if it is malformed.
    Message { from: NodeId, message: Option<Box<ToRun>> },
    /// An event of node servers.
    Servers(StartEvent),
}

impl LocalLink {
    /// True if something is on its way, or, once, if output that waits may be sent.
    pub(crate) fn take_activity(&self) -> bool {
        self.is_resumed.take()
            || !self.to_node.borrow().is_empty()
            || !self.to_run.borrow().is_empty()
    }

    /// The next of what the run has sent.
    pub(crate) fn next_for_node(&self) -> Option<ToOwnNode> {
        self.to_node.borrow_mut().pop_front()
    }

    /// Sends something to the node.
    pub(crate) fn send_to_node(&self, sent: ToOwnNode) {
        self.to_node.borrow_mut().push_back(sent);
    }

    /// Records the mark of the processes of the run, the number of ranks that are possible, and what the node
    /// offers to them.
    pub(crate) fn describe_node(
        &self,
        guard_mark: Option<&str>,
        ranks_max: u32,
        resources: &Rc<OwnResources>,
    ) {
        *self.guard_mark.borrow_mut() = guard_mark.map(str::to_owned);
        self.ranks_max.set(ranks_max);
        // A node describes itself once.
        let _ = self.resources.set(Rc::clone(resources));
    }

    /// Records that the node has ended.
    pub(crate) fn set_over(&self) {
        self.is_over.set(true);
    }
}

impl NodeLink {
    /// Serves the connection or starter behind a token.
    pub(crate) fn ready(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Tree(servers) => servers.ready(token, poller),
        }
    }

    /// Handles deadlines, and collects events.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Tree(servers) => servers.tick(now, poller),
        }
    }

    /// Next event.
    pub(crate) fn poll_event(&mut self) -> Option<NodeEvent> {
        match self {
            Self::Local(link) => {
                if !link.is_announced.replace(true) {
                    return Some(NodeEvent::Servers(StartEvent::Complete));
                }
                let message = Box::new(link.to_run.borrow_mut().pop_front()?);
                Some(NodeEvent::Message { from: OWN_NODE, message: Some(message) })
            }
            Self::Tree(servers) => Some(match servers.poll_event()? {
                StartEvent::Network(NetworkEvent::Tree(TreeEvent::Message {
                    from, body, ..
                })) => {
                    let message = ToRun::read(&body).map(Box::new);
                    NodeEvent::Message { from, message }
                }
                event => NodeEvent::Servers(event),
            }),
        }
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Local(_) => None,
            Self::Tree(servers) => servers.deadline(),
        }
    }

    /// Moves messages to the connections.
    pub(crate) fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Tree(servers) => servers.network.flush(poller),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// [`TreeError`] of the connection.
    pub(crate) fn send(&mut self, to: Destination, message: ToNode) -> Result<(), TreeError> {
        match self {
            Self::Local(link) => {
                link.send_to_node(ToOwnNode::Message(message));
                Ok(())
            }
            Self::Tree(servers) => servers.network.send(to, Class::Control, message.body()),
        }
    }

    /// Sends a message to each of `nodes`.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub(crate) fn send_each(
        &mut self,
        nodes: impl IntoIterator<Item = NodeId>,
        message: ToNode,
    ) -> Result<(), TreeError> {
        match self {
            Self::Local(link) => {
                if nodes.into_iter().next().is_some() {
                    link.send_to_node(ToOwnNode::Message(message));
                }
                Ok(())
            }
            Self::Tree(servers) => {
                let body = message.body();
                let network = &mut servers.network;
                nodes.into_iter().try_for_each(|node| {
                    network.send(Destination::Node(node), Class::Control, body.clone())
                })
            }
        }
    }

    /// Tells the node in this process, if there is one, what concerns it alone.
    pub(crate) fn tell_own_node(&self, what: ToOwnNode) {
        if let Self::Local(link) = self {
            link.send_to_node(what);
        }
    }

    /// Stops or resumes output of nodes.
    pub(crate) fn pause_output(&mut self, is_paused: bool) {
        match self {
            Self::Local(link) => {
                if link.is_paused.replace(is_paused) && !is_paused {
                    link.is_resumed.set(true);
                }
            }
            Self::Tree(servers) => servers.network.pause_output(is_paused),
        }
    }

    /// Excludes a node that is lost.
    pub(crate) fn exclude(&mut self, node: NodeId) {
        if let Self::Tree(servers) = self {
            servers.network.exclude(node);
        }
    }

    /// Drops the unfinished collective operations of a job that has ended.
    pub(crate) fn end_job(&mut self, job: u32) {
        if let Self::Tree(servers) = self {
            servers.network.end_job(job);
        }
    }

    /// The node servers, unless the only node is in this process.
    pub(crate) fn servers(&mut self) -> Option<&mut NodeServers> {
        match self {
            Self::Local(_) => None,
            Self::Tree(servers) => Some(servers),
        }
    }

    /// Registers a file that is removed if the launcher is killed.
    pub(crate) fn guard_file(&mut self, path: &Path) {
        match self {
            Self::Local(link) => link.send_to_node(ToOwnNode::GuardFile(path.to_owned())),
            Self::Tree(servers) => {
                if let Some(guard) = servers.guard() {
                    guard.report_file(path);
                }
            }
        }
    }

    /// Number of ranks that all jobs of the run may have together.
    pub(crate) fn ranks_max(&self) -> u32 {
        match self {
            Self::Local(link) => link.ranks_max.get().min(RANKS_MAX),
            Self::Tree(_) => RANKS_MAX,
        }
    }

    /// What a node offers to ranks; `None` if it has not joined.
    pub(crate) fn resources(&self, node: NodeId) -> Option<&NodeResources> {
        match self {
            Self::Local(link) => link.resources.get().map(|own| own.all()),
            Self::Tree(servers) => {
                let hello = servers.network.roster()?.hello(node.0)?;
                Some(&hello.resources)
            }
        }
    }

    /// Mark by which a guard of this process finds the processes of the run.
    pub(crate) fn guard_mark(&self) -> Option<String> {
        match self {
            Self::Local(link) => link.guard_mark.borrow().clone(),
            Self::Tree(_) => None,
        }
    }

    /// Time without a sign of life after which a node is lost.
    pub(crate) fn lost_after(&self) -> Duration {
        match self {
            Self::Local(_) => Duration::MAX,
            Self::Tree(servers) => servers.network.lost_after(),
        }
    }

    /// Time without a sign of life after which a node is silent.
    pub(crate) fn paused_after(&self) -> Duration {
        match self {
            Self::Local(_) => Duration::MAX,
            Self::Tree(servers) => servers.network.paused_after(),
        }
    }

    /// True if no node server and no starter is left.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Local(link) => link.is_over.get(),
            Self::Tree(servers) => servers.is_over(),
        }
    }

    /// Sends a signal to all starters.
    pub(crate) fn signal_starters(&mut self, signal: Signal) {
        if let Self::Tree(servers) = self {
            servers.signal_starters(signal);
        }
    }
}

/// Start of node servers, and hosts that are added: a run whose only node is in its process has none.
impl NodeLink {
    /// Time without a further node after which a start has failed.
    pub(crate) fn start_timeout(&self) -> Duration {
        match self {
            Self::Local(_) => Duration::ZERO,
            Self::Tree(servers) => servers.start_timeout(),
        }
    }

    /// Nodes that are not in the tree.
    pub(crate) fn absent(&self) -> Vec<u32> {
        match self {
            Self::Local(_) => Vec::new(),
            Self::Tree(servers) => servers.absent(),
        }
    }

    /// The last lines that the starter of a node has written.
    pub(crate) fn output_of(&self, node: u32) -> Option<String> {
        match self {
            Self::Local(_) => None,
            Self::Tree(servers) => servers.output_of(node),
        }
    }

    /// Gives up hosts that are being added.
    pub(crate) fn withdraw_all(&mut self, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Local(_) => Ok(()),
            Self::Tree(servers) => servers.withdraw_all(poller),
        }
    }

    /// Ends all starters, and waits for their ends.
    pub(crate) fn abandon(self) {
        if let Self::Tree(servers) = self {
            servers.abandon();
        }
    }
}

/// The node's side.
impl RunLink {
    /// Sends a message to the run.
    pub(crate) fn send(&mut self, message: ToRun) {
        match self {
            Self::Local(link) => link.to_run.borrow_mut().push_back(message),
            // Only a node without a head cannot send, and it ends.
            Self::Tree(network) => {
                let _ = network.send(Destination::Head, Class::Control, message.body());
            }
        }
    }

    /// True if the run takes output.
    pub(crate) fn takes_output(&self) -> bool {
        match self {
            Self::Local(link) => !link.is_paused.get() && link.to_run.borrow().len() < OUTPUTS_MAX,
            Self::Tree(network) => network.can_send(Class::Output),
        }
    }

    /// Sends output to the run, which [takes it](Self::takes_output).
    pub(crate) fn send_output(&mut self, message: ToRun) {
        match self {
            Self::Local(link) => link.to_run.borrow_mut().push_back(message),
            // As above.
            Self::Tree(network) => {
                let _ = network.send(Destination::Head, Class::Output, message.body());
            }
        }
    }

    /// The tree, unless the run is in this process.
    pub(crate) fn network(&mut self) -> Option<&mut Network> {
        match self {
            Self::Local(_) => None,
            Self::Tree(network) => Some(network),
        }
    }

    /// The next of what a run in this process has sent.
    pub(crate) fn next_of_own_run(&self) -> Option<ToOwnNode> {
        match self {
            Self::Local(link) => link.next_for_node(),
            Self::Tree(_) => None,
        }
    }

    /// Describes the node to a run in this process: the mark of the processes of the run, the number of ranks
    /// that are possible, and what the node offers to them.
    pub(crate) fn describe_node(
        &self,
        guard_mark: Option<&str>,
        ranks_max: u32,
        resources: &Rc<OwnResources>,
    ) {
        if let Self::Local(link) = self {
            link.describe_node(guard_mark, ranks_max, resources);
        }
    }

    /// Relation of the clock of this node to that of the run.
    pub(crate) const fn clock(&self) -> ClockSync {
        match self {
            Self::Local(_) => ClockSync::same(),
            Self::Tree(_) => ClockSync::other(),
        }
    }

    /// True if the standard input and the terminal of the user are those of this process.
    pub(crate) const fn has_streams_of_user(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// True while messages for other nodes wait.
    pub(crate) fn has_output(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Tree(network) => network.has_output(),
        }
    }

    /// Time of the next turn without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Local(_) => None,
            Self::Tree(network) => network.deadline(),
        }
    }
}

/// Number of messages on their way to a run in this process beyond which output waits.
const OUTPUTS_MAX: usize = 16;

/// Number of ranks that all jobs of a run have together, at most.
const RANKS_MAX: u32 = 1 << 20;

/// Number of the node in the process of its run.
pub(crate) const OWN_NODE: NodeId = NodeId(1);
