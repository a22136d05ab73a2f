//! Connections of a head or a node server: listener, handshakes, places, and the edges of the tree.
//!
//! One value for each process. It reads no clock by itself but that of the tree, and never blocks; its
//! owner runs this loop:
//!
//! 1. Wait for readiness, or until [`deadline`](Network::deadline).
//! 2. For each token call [`ready`](Network::ready), and then in any case [`tick`](Network::tick).
//! 3. Handle all events of [`poll_event`](Network::poll_event), send and contribute.
//! 4. Call [`flush`](Network::flush), which moves the frames of the tree to the sockets.
//!
//! States of a connection, first at the side that has accepted, then at the one that has connected:
//!
//! ```text
//! Accepted ── Join ──▶ Joined ── Place ──▶ Member (child of the head)
//!     │                  └───── Place ──▶ Placed ── Attached ──▶ closed
//!     └── Attach ──────────────────────▶ Member
//! Accepted ── StartRequest ─────────────▶ Delegate (it starts further nodes)
//! Requesting ── Start, Started, StarterEnded ──▶ Requesting
//! Joining ── Place ──▶ Member (the head is the parent)
//!     └───── Place ──▶ Leaving ── Attached, once the parent is connected ──▶ closed
//! Attaching ── Welcome ──▶ Member
//! ```

pub mod delegation;
mod greetings;
pub mod head_route;
mod keyring;
mod links;
pub mod roster;
#[cfg(test)]
mod tests;

use super::awake::AwakeClock;
use super::edge::{self, Edge, EdgeError, EdgeProgress};
use super::greeting::{NodeGreeting, NodePlace};
use super::key::{LinkKey, RunKey};
use super::record::CONTENT_MAX;
use super::settings::paused_after;
use super::starter::pool::{StarterEnd, StarterPool};
use crate::resources::NodeResources;
use crate::settings::PortRange;
use head_route::HeadRoute;
use keyring::Keyring;
use links::{LinkState, Links, NodeLink};
use pmi_host_os::admission::gate::TcpGate;
use pmi_host_os::admission::limits::RejectionLog;
use pmi_host_os::admission::{EVICTED, PENDING_MAX};
use pmi_host_os::clock;
use pmi_host_os::listen::{ACCEPTED_AT_ONCE, Listener};
use pmi_host_os::poller::{Poller, Token};
use pmi_std::Stream;
use pmi_tree::{
    Class, CollectiveId, Contribution, Destination, NodeId, TreeError, TreeEvent, TreeNode,
};
use roster::Roster;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Connections of a head or a node server.
pub struct Network {
    keys: Keyring,
    timeout: Duration,
    clock: AwakeClock,
    /// Time in which this process was stopped, for deadlines of its owner.
    stopped: Duration,
    /// Time of the last look at the hosts of other nodes.
    hosts_seen_at: Instant,
    listener: Option<Listener>,
    links: Links,
    side: NetworkSide,
    /// The tree; a node server has none before it is placed.
    tree: Option<TreeNode>,
    events: VecDeque<NetworkEvent>,
    rejections: RejectionLog,
    scratch: Vec<u8>,
}

/// Event for the owner of the connections.
#[derive(Debug)]
pub enum NetworkEvent {
    /// At the head: a node server has connected and proved the key.
    Joined {
        /// Number of its node.
        node: u32,
    },
    /// At the head: a node is connected to its parent.
    Attached {
        /// Its number.
        node: u32,
    },
    /// At the head: a node server that has joined is lost before it was attached.
    Left {
        /// Number of its node.
        node: u32,
        /// Reason, as the predicate of a sentence about the node server.
        why: String,
    },
    /// At the head: a node is ready to start further ones.
    DelegateReady {
        /// Its number.
        node: u32,
    },
    /// At the head: a command that a node was to execute has ended.
    DelegateEnded {
        /// Number of that node.
        node: u32,
        /// End of the command.
        end: StarterEnd,
    },
    /// At the head: a node that was ready to start further ones is lost.
    DelegateLost {
        /// Its number.
        node: u32,
    },
    /// At a node server: its place.
    Placed(NodePlace),
    /// At a node server: the head is lost or cannot be reached, or has refused or excluded this node.
    HeadLost {
        /// Sentence with the reason.
        why: String,
    },
    /// A connection was rejected.
    Rejected {
        /// Sentence for the user.
        report: String,
    },
    /// An event of the tree, except for those that end the node or concern its connections.
    Tree(TreeEvent),
}

enum NetworkSide {
    Head(Box<Roster>),
    Node(Box<NodeSide>),
}

/// Name and ports of a node server, from its command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeNames {
    /// Name of its host, from the starter.
    pub(crate) name: Option<String>,
    /// Ports for other nodes; any by default.
    pub(crate) ports: Option<PortRange>,
}

/// State of a node server besides its connections.
struct NodeSide {
    route: HeadRoute,
    /// Reasons why ways to the head have failed.
    failures: Vec<String>,
    names: NodeNames,
    /// Reads what the node offers to ranks.
    resources: Box<dyn Fn() -> NodeResources>,
    /// Socket for other nodes, before this one has its place: without the keys that come with it, none of
    /// them can be answered.
    door: Option<TcpGate>,
    place: Option<NodePlace>,
    /// Nodes that attached before this one knew of them, by the numbers of their connections.
    early: Vec<(u32, u32)>,
    /// Starters of further nodes.
    starters: Option<StarterPool>,
}

impl Network {
    /// Network of a head, for the hosts of `roster`, which join by the keys that it
    /// [expects](Roster::expect), with a listener.
    pub(crate) fn of_head(
        (key, timeout): (RunKey, Duration),
        listener: TcpGate,
        roster: Roster,
        poller: &Poller,
    ) -> io::Result<Self> {
        let tree = roster.tree();
        let listener = Listener::of(listener, Token::NodeListen, poller)?;
        edge::prepare(&listener, timeout)?;
        let keys = Keyring::of_head(&key)?;
        let network = Self::new((keys, timeout), NetworkSide::Head(Box::new(roster)));
        Ok(Self { listener: Some(listener), tree: Some(tree), ..network })
    }

    /// Network of a node server, which connects to the head by the key that its starter has handed over, and
    /// tells it the `resources` of its host.
    pub(crate) fn of_node(
        key: RunKey,
        route: HeadRoute,
        names: NodeNames,
        resources: Box<dyn Fn() -> NodeResources>,
        poller: &Poller,
    ) -> io::Result<Self> {
        let (failures, early) = (Vec::new(), Vec::new());
        let (door, place, starters) = (None, None, None);
        let side = NodeSide { route, failures, names, resources, door, place, early, starters };
        let keys = Keyring::of_node(&key);
        let mut network = Self::new((keys, JOIN_WITHIN), NetworkSide::Node(Box::new(side)));
        network.dial_head(poller)?;
        Ok(network)
    }

    fn new((keys, timeout): (Keyring, Duration), side: NetworkSide) -> Self {
        Self {
            keys,
            timeout,
            clock: AwakeClock::start(),
            stopped: Duration::ZERO,
            hosts_seen_at: clock::now(),
            listener: None,
            links: Links::default(),
            side,
            tree: None,
            events: VecDeque::new(),
            rejections: RejectionLog::default(),
            scratch: vec![0; 4 * CONTENT_MAX],
        }
    }

    /// Hosts of the run, at the head.
    pub fn roster(&self) -> Option<&Roster> {
        match &self.side {
            NetworkSide::Head(roster) => Some(roster),
            NetworkSide::Node(_) => None,
        }
    }

    /// Lets the hosts of `nodes`, which may be candidates, join by a key, each of them once, at the head.
    pub(crate) fn expect(&mut self, key: &LinkKey, nodes: &[u32]) {
        if let NetworkSide::Head(roster) = &mut self.side {
            roster.expect(key, nodes);
        }
    }

    /// Handles what is ready: the listener, a connection, or at a node server a starter or a relay.
    pub fn ready(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        match token {
            Token::NodeListen => self.accept(poller),
            Token::Node(number) => self.serve(number, poller),
            token => delegation::ready(self, token, poller),
        }
    }

    /// Accepts connections of other nodes.
    fn accept(&mut self, poller: &Poller) -> io::Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = &mut self.listener else { break };
            let Some(arrival) = listener.accept(poller)? else { break };
            let (from, source) = (arrival.from.to_string(), arrival.from.ip());
            self.add_accepted(arrival.stream, from, source, poller)?;
        }
        Ok(())
    }

    /// Accepts a connection that a host has opened over its starter, which was executed for `node`, and
    /// returns the end for the relay.
    pub(crate) fn accept_relayed(&mut self, node: u32, poller: &Poller) -> io::Result<Stream> {
        let (stream, end) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let name = self.roster().map_or("", |roster| roster.name(node));
        let from = format!("the starter of '{name}'");
        // Each starter is a source of its own: no connection comes from 100::/64, which discards all.
        let source = Ipv6Addr::from_bits(1 << 120 | u128::from(node)).into();
        self.add_accepted(stream.into(), from, source, poller)?;
        Ok(end.into())
    }

    fn add_accepted(
        &mut self,
        stream: Stream,
        from: String,
        source: IpAddr,
        poller: &Poller,
    ) -> io::Result<()> {
        let most = self.roster().map_or(0, |roster| roster.nodes() as usize).max(PENDING_MAX);
        for surplus in self.links.pending.surplus(most) {
            let why = EdgeError::Protocol(EVICTED);
            self.close(surplus, &why, poller)?;
        }
        // A connection that is closed already is no fault of this side.
        let Ok(edge) = Edge::accepted(stream, from, self.keys.plain()) else { return Ok(()) };
        let number = self.add(edge, LinkState::Accepted, Some(JOIN_WITHIN));
        self.links.pending.insert(number, source, None);
        self.watch(number, poller)
    }

    /// Serves the connection with this number.
    fn serve(&mut self, number: u32, poller: &Poller) -> io::Result<()> {
        let mut contents = Vec::new();
        let served = self.read(number, &mut contents);
        if let Ok(EdgeProgress::Established) = served {
            self.links.pending.remove(number);
            self.handle_established(number);
        }
        for content in contents {
            if let Err(error) = self.handle_content(number, &content, poller)? {
                return self.close(number, &error, poller);
            }
        }
        if let Err(error) = served {
            return self.close(number, &error, poller);
        }
        self.write(number, poller)
    }

    fn read(
        &mut self,
        number: u32,
        contents: &mut Vec<Vec<u8>>,
    ) -> Result<EdgeProgress, EdgeError> {
        let Some(link) = self.links.all.get_mut(&number) else { return Ok(EdgeProgress::Waiting) };
        let roster: Option<&Roster> = match &self.side {
            NetworkSide::Head(roster) => Some(roster),
            NetworkSide::Node(_) => None,
        };
        let find = |id| self.keys.find(id, roster);
        let read = link.edge.read(&mut self.scratch, &find, |content| {
            contents.push(content.to_vec());
            Ok(())
        });
        // A side that is rejected may read the version of this one.
        let written = link.edge.flush();
        let progress = read?;
        written.map(|()| progress)
    }

    /// Handles the content of a record. The inner error is one of the connection.
    fn handle_content(
        &mut self,
        number: u32,
        content: &[u8],
        poller: &Poller,
    ) -> io::Result<Result<(), EdgeError>> {
        let Some(link) = self.links.all.get(&number) else { return Ok(Ok(())) };
        if let LinkState::Member(node) = link.state {
            let Some(tree) = &mut self.tree else { return Ok(Ok(())) };
            let received = tree.receive(NodeId(node), content, self.clock.now());
            return Ok(
                received.map_err(|_| EdgeError::Protocol("a frame of the tree is malformed"))
            );
        }
        match NodeGreeting::decode(content) {
            Some(greeting) => self.handle_greeting(number, greeting, poller),
            None => Ok(Err(EdgeError::Protocol("a greeting is malformed"))),
        }
    }

    /// Waits for the next event of a node server.
    pub fn next_event(&mut self, poller: &mut Poller) -> io::Result<NetworkEvent> {
        let mut ready = Vec::new();
        loop {
            if let Some(event) = self.poll_event() {
                return Ok(event);
            }
            self.flush(poller)?;
            poller.wait(self.deadline(), &mut ready)?;
            self.turn(&ready, poller)?;
        }
    }

    /// Handles everything that is ready at the connections of a node server.
    pub(crate) fn turn(&mut self, ready: &[Token], poller: &Poller) -> io::Result<()> {
        for token in ready {
            self.ready(*token, poller)?;
        }
        self.tick(clock::now(), poller)
    }

    /// Moves frames of the tree to the connections, as far as these have room, and writes them.
    pub fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        self.attach_early(poller)?;
        let members: Vec<(u32, u32)> =
            self.links.members.iter().map(|(node, number)| (*node, *number)).collect();
        for (node, number) in members {
            let now = self.clock.now();
            let (Some(tree), Some(link)) = (&mut self.tree, self.links.all.get_mut(&number)) else {
                continue;
            };
            let mut is_idle = !link.edge.has_output();
            // Signs of life would fill a connection whose other end reads nothing.
            if !is_idle && tree.is_silent(NodeId(node), now) {
                continue;
            }
            while link.edge.has_room() {
                let len_bytes = tree.transmit(NodeId(node), &mut self.scratch[..CONTENT_MAX], now);
                if len_bytes == 0 {
                    break;
                }
                is_idle = false;
                link.edge.send(&self.scratch[..len_bytes]);
            }
            if link.edge.set_more(!link.edge.has_room()) || !is_idle {
                self.write(number, poller)?;
            }
        }
        delegation::flush(self, poller)?;
        self.collect_tree_events(poller)
    }

    /// Writes the output of a connection, and watches it for what is left.
    fn write(&mut self, number: u32, poller: &Poller) -> io::Result<()> {
        let Some(link) = self.links.all.get_mut(&number) else { return Ok(()) };
        match link.edge.flush() {
            Ok(()) => self.watch(number, poller),
            Err(error) => self.close(number, &error, poller),
        }
    }

    /// Next event.
    ///
    /// Changes after `ready`, `tick` and `flush`.
    pub fn poll_event(&mut self) -> Option<NetworkEvent> {
        self.events.pop_front()
    }

    /// Time of the next [`tick`](Self::tick).
    pub fn deadline(&self) -> Option<Instant> {
        if !self.events.is_empty() {
            return Some(clock::now());
        }
        let links = self.links.all.values().filter_map(|link| link.deadline);
        let tree = self.tree.as_ref().and_then(TreeNode::poll_timeout);
        let tree = tree.map(|at| self.clock.moment_of(at));
        let listener = self.listener.as_ref().and_then(|listener| listener.paused_until);
        let own = [Some(self.clock.next_look()), delegation::deadline(self)].into_iter().flatten();
        links.chain(tree).chain(listener).chain(self.rejections.deadline()).chain(own).min()
    }

    /// Handles deadlines.
    pub fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        if let Some(listener) = &mut self.listener {
            listener.tick(now, poller)?;
        }
        self.clock.look(now);
        if let Some(stopped) = self.clock.take_stopped() {
            let deadlines = self.links.all.values_mut().filter_map(|link| link.deadline.as_mut());
            deadlines.for_each(|deadline| *deadline += stopped);
            self.stopped += stopped;
        }
        self.look_at_hosts(now);
        if let Some(tree) = &mut self.tree {
            tree.handle_timeout(self.clock.at(now));
        }
        if let Some(count) = self.rejections.take_unreported(now).filter(|count| *count > 0) {
            let report =
                format!("{count} further connections to the port of node servers were rejected");
            self.events.push_back(NetworkEvent::Rejected { report });
        }
        let is_over = |link: &NodeLink| link.deadline.is_some_and(|deadline| now >= deadline);
        let over =
            self.links.all.iter().filter(|(_, link)| is_over(link)).map(|(number, _)| *number);
        for number in Vec::from_iter(over) {
            let error = io::Error::from(io::ErrorKind::TimedOut);
            self.close(number, &EdgeError::Io(error), poller)?;
        }
        delegation::start_due(self, poller)?;
        self.collect_tree_events(poller)
    }

    /// Time in which this process was stopped since the last call.
    pub(crate) fn take_stopped(&mut self) -> Duration {
        std::mem::take(&mut self.stopped)
    }

    /// Time without a sign of life after which a node is lost.
    pub const fn lost_after(&self) -> Duration {
        self.timeout
    }

    /// Time without a sign of life after which a node is reported as silent.
    pub fn paused_after(&self) -> Duration {
        paused_after(self.timeout)
    }

    /// Tells the tree which hosts of silent nodes answer.
    fn look_at_hosts(&mut self, now: Instant) {
        let Some(tree) = &mut self.tree else { return };
        if now.saturating_duration_since(self.hosts_seen_at) < HOSTS_AGAIN {
            return;
        }
        self.hosts_seen_at = now;
        for (node, number) in &self.links.members {
            // Another host may be at the other end, which passes on what a starter there carries.
            let is_relayed = match &self.side {
                NetworkSide::Head(roster) => roster.is_relayed(*node),
                NetworkSide::Node(_) => false,
            };
            let Some(link) = self.links.all.get_mut(number).filter(|_| !is_relayed) else {
                continue;
            };
            if let Some(at) = link.edge.poll_answer(now) {
                tree.host_answers(NodeId(*node), self.clock.at(at));
            }
        }
    }

    /// Sends a message through the tree.
    ///
    /// # Errors
    ///
    /// Those of [`TreeNode::send`], and [`TreeError::Over`] at a node server that has no place.
    pub fn send(&mut self, to: Destination, class: Class, body: Vec<u8>) -> Result<(), TreeError> {
        self.tree.as_mut().map_or(Err(TreeError::Over), |tree| tree.send(to, class, body))
    }

    /// Number of collective operations that have ended.
    pub fn ended(&self) -> u64 {
        self.tree.as_ref().map_or(0, TreeNode::ended)
    }

    /// The node of this process; `None` at a node server that has no place.
    pub fn tree(&mut self) -> Option<&mut TreeNode> {
        self.tree.as_mut()
    }

    /// Contributes the local part of a collective operation.
    ///
    /// # Errors
    ///
    /// Those of [`TreeNode::contribute`], and [`TreeError::Over`] at a node server that has no place.
    pub fn contribute(&mut self, id: CollectiveId, own: Contribution) -> Result<(), TreeError> {
        self.tree.as_mut().map_or(Err(TreeError::Over), |tree| tree.contribute(id, own))
    }

    /// Drops the unfinished collective operations of a job that has ended.
    pub fn end_job(&mut self, job: u32) {
        self.tree.iter_mut().for_each(|tree| tree.end_job(job));
    }

    /// True while any other node is connected as parent or child.
    pub(crate) fn has_members(&self) -> bool {
        !self.links.members.is_empty()
    }

    /// True if a message of this class may be sent without exceeding the credit of this node.
    pub fn can_send(&self, class: Class) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.can_send(class))
    }

    /// Stops or resumes the delivery of output to this node; its senders stop when their credit is used up.
    pub fn pause_output(&mut self, is_paused: bool) {
        if let Some(tree) = &mut self.tree {
            tree.pause_output(is_paused);
        }
    }

    /// Excludes a lost node from collective operations.
    pub fn exclude(&mut self, node: NodeId) {
        if let NetworkSide::Head(roster) = &mut self.side {
            roster.exclude(node.0);
        }
        if let Some(tree) = &mut self.tree {
            // Only a number without a node is an error.
            let _ = tree.exclude(node);
        }
    }

    /// True while frames wait for a connection that is slow, and not for a process that is stopped.
    pub fn has_output(&self) -> bool {
        let is_paused =
            |node: u32| self.tree.as_ref().is_some_and(|tree| tree.is_paused(NodeId(node)));
        self.links.members.iter().any(|(node, number)| {
            let link = self.links.all.get(number);
            link.is_some_and(|link| link.edge.has_output()) && !is_paused(*node)
        })
    }

    fn collect_tree_events(&mut self, poller: &Poller) -> io::Result<()> {
        while let Some(event) = self.tree.as_mut().and_then(TreeNode::poll_event) {
            match event {
                TreeEvent::Reconnect { to } => self.attach(to.0, poller)?,
                TreeEvent::Close { peer, .. } => {
                    if let Some(number) = self.links.members.remove(&peer.0) {
                        self.links.all.remove(&number);
                    }
                }
                TreeEvent::HeadLost => {
                    let why = "the connection to the head of the run is lost".to_owned();
                    self.events.push_back(NetworkEvent::HeadLost { why });
                }
                TreeEvent::Expelled => {
                    let why = "the head of the run has taken this node for lost".to_owned();
                    self.events.push_back(NetworkEvent::HeadLost { why });
                }
                event => self.events.push_back(NetworkEvent::Tree(event)),
            }
        }
        Ok(())
    }

    fn add(&mut self, edge: Edge, state: LinkState, within: Option<Duration>) -> u32 {
        let number = self.links.next;
        self.links.next = number.wrapping_add(1);
        let deadline = within.map(|within| clock::now() + within);
        self.links.all.insert(number, NodeLink { edge, state, deadline });
        number
    }

    fn watch(&mut self, number: u32, poller: &Poller) -> io::Result<()> {
        match self.links.all.get_mut(&number) {
            Some(link) => link.edge.watch(Token::Node(number), poller),
            None => Ok(()),
        }
    }

    /// Closes a connection that has ended with `error`.
    fn close(&mut self, number: u32, error: &EdgeError, poller: &Poller) -> io::Result<()> {
        // Dropping the socket also ends its readiness.
        let Some(link) = self.links.all.remove(&number) else { return Ok(()) };
        self.links.pending.remove(number);
        match link.state {
            // A host looks whether it reaches the head.
            LinkState::Accepted if link.edge.was_probed(error) => {}
            LinkState::Accepted => self.report_rejection(&link.edge.peer, error),
            LinkState::Joined(node) | LinkState::Placed(node) => {
                if let NetworkSide::Head(roster) = &mut self.side {
                    roster.leave(node);
                }
                self.events.push_back(NetworkEvent::Left { node, why: error.to_string() });
            }
            LinkState::Joining => {
                if let NetworkSide::Node(side) = &mut self.side {
                    side.failures.push(format!("{}: {error}", link.edge.peer));
                }
                return self.dial_head(poller);
            }
            LinkState::Leaving => {
                let why = format!("the connection to the head of the run is lost ({error})");
                self.events.push_back(NetworkEvent::HeadLost { why });
            }
            LinkState::Attaching(ancestor) => return self.lose_ancestor(ancestor, error, poller),
            LinkState::Delegate(node) => {
                self.events.push_back(NetworkEvent::DelegateLost { node });
            }
            LinkState::Requesting => delegation::end_awaited(self),
            LinkState::Member(node) => {
                if self.links.members.get(&node) == Some(&number) {
                    self.links.members.remove(&node);
                }
                if let Some(tree) = &mut self.tree {
                    tree.disconnected(NodeId(node), self.clock.now());
                }
                return self.collect_tree_events(poller);
            }
        }
        Ok(())
    }

    fn report_rejection(&mut self, from: &str, error: &EdgeError) {
        if let Some(unreported) = self.rejections.next(clock::now()) {
            let more = match unreported {
                0 => String::new(),
                count => format!(" ({count} more were rejected before)"),
            };
            let report =
                format!("a connection from {from} to the port of node servers {error}{more}");
            self.events.push_back(NetworkEvent::Rejected { report });
        }
    }
}

/// Least time between two looks at the hosts of other nodes, which take a system call for each.
const HOSTS_AGAIN: Duration = Duration::from_millis(100);

/// Longest time from a connection to the end of its handshake and the first message, and without a sign of
/// life of the head before a node server knows the setting of the run. TCP sends what a bad wire has lost
/// three times in a row after 7 s at first.
const JOIN_WITHIN: Duration = Duration::from_secs(20);
