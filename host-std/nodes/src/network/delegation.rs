//! Nodes that start further ones: the connection over which the head hands them commands.
//!
//! It is a connection of its own, since that of the tree carries frames only. When it is lost, the node ends
//! those of its starters whose nodes have not connected, and the head starts these nodes itself.

use super::super::edge::EdgeError;
use super::super::greeting::NodeGreeting;
use super::super::key::LinkKey;
use super::super::record::CONTENT_MAX;
use super::super::starter::StarterCommand;
use super::super::starter::pool::{StarterEnd, StarterPool};
use super::{JOIN_WITHIN, LinkState, Network, NetworkEvent, NetworkSide, NodeLink, NodeSide};
use pmi_host_os::clock;
use pmi_host_os::descriptors::DescriptorLimit;
use pmi_host_os::poller::{Poller, Token};
use pmi_tree::NodeId;
use rustix::process::Signal;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Hands a command to `node`, at the head. Returns false if the node is not ready for that.
pub(crate) fn delegate(network: &mut Network, node: u32, command: &StarterCommand) -> bool {
    let content = NodeGreeting::Start(command.clone()).encode();
    content.len() <= CONTENT_MAX && send(network, node, &content)
}

/// Tells `node` that `started`, which it was to start, has connected.
pub(crate) fn confirm(network: &mut Network, node: u32, started: u32) {
    send(network, node, &NodeGreeting::Started { node: started }.encode());
}

/// Ends the starts of `node`, at the head: it terminates its starters whose nodes have not connected.
pub(crate) fn end(network: &mut Network, node: u32) {
    // Dropping the socket also ends its readiness.
    network.links.all.retain(|_, link| link.state != LinkState::Delegate(node));
}

fn send(network: &mut Network, node: u32, content: &[u8]) -> bool {
    let is_of_node = |link: &&mut NodeLink| link.state == LinkState::Delegate(node);
    let link = network.links.all.values_mut().find(is_of_node);
    link.map(|link| link.edge.send(content)).is_some()
}

/// Writes what waits on connections of nodes that start others.
pub(super) fn flush(network: &mut Network, poller: &Poller) -> io::Result<()> {
    let is_of_starts =
        |link: &NodeLink| matches!(link.state, LinkState::Delegate(_) | LinkState::Requesting);
    let waits = |link: &NodeLink| is_of_starts(link) && link.edge.has_output();
    let waiting = network.links.all.iter().filter(|(_, link)| waits(link));
    for number in Vec::from_iter(waiting.map(|(number, _)| *number)) {
        network.write(number, poller)?;
    }
    Ok(())
}

/// Handles a node that is ready to start others, at the head.
///
/// # Errors
///
/// The node is to start none.
pub(super) fn handle_request(
    network: &mut Network,
    number: u32,
    node: u32,
) -> Result<(), EdgeError> {
    let is_expected = network.roster().is_some_and(|roster| roster.is_delegate(node));
    let is_open = network.links.all.values().any(|link| link.state == LinkState::Delegate(node));
    match network.links.all.get_mut(&number) {
        Some(link) if is_expected && !is_open => {
            (link.state, link.deadline) = (LinkState::Delegate(node), None);
            network.events.push_back(NetworkEvent::DelegateReady { node });
            Ok(())
        }
        _ => Err(EdgeError::Protocol("this node starts no other ones")),
    }
}

/// Connects this node server to the head for nodes to start.
pub(super) fn request(network: &mut Network, poller: &Poller) -> io::Result<()> {
    let NetworkSide::Node(side) = &mut network.side else { return Ok(()) };
    let place = side.place.as_ref().map(|place| place.node);
    let key = place.and_then(|node| network.keys.to_ancestor(node, NodeId::HEAD.0));
    // Without this connection, its nodes do not join, and the head reports them.
    let connected = key.map(|key| side.route.connect(key, network.timeout));
    let Some(Ok(edge)) = connected else { return Ok(()) };
    let number = network.add(edge, LinkState::Requesting, Some(JOIN_WITHIN));
    network.watch(number, poller)
}

/// Number of ranks that need as many open files as the starters of this node server.
pub fn files_as_ranks(network: &Network) -> usize {
    match &network.side {
        NetworkSide::Head(_) => 0,
        NetworkSide::Node(side) => side.starters.as_ref().map_or(0, StarterPool::files_as_ranks),
    }
}

/// Time at which a starter of this node server is due.
pub(super) fn deadline(network: &Network) -> Option<Instant> {
    match &network.side {
        NetworkSide::Head(_) => None,
        NetworkSide::Node(side) => side.starters.as_ref().and_then(StarterPool::deadline),
    }
}

/// Adds a command of the head.
pub(super) fn add_starter(network: &mut Network, command: StarterCommand) {
    // Without encryption, starters hand over the key of the run, which the head does not send.
    let key_line = network.keys.plain().map(LinkKey::line).unwrap_or_default();
    if let NetworkSide::Node(side) = &mut network.side {
        // The limit of the user is in force.
        let of_user = || StarterPool::new(Vec::new(), key_line, DescriptorLimit::new(0, 0));
        side.starters.get_or_insert_with(of_user).add(command);
    }
}

/// Notes that a node that this one has started is connected to the head.
pub(super) fn note_started(network: &mut Network, node: u32) {
    starters(network).into_iter().for_each(|starters| starters.handle_joined(node));
}

/// Serves a starter of this node server that is ready, and reports its end to the head; or its own relay.
pub(super) fn ready(network: &mut Network, token: Token, poller: &Poller) -> io::Result<()> {
    let timeout = network.timeout;
    let NetworkSide::Node(side) = &mut network.side else { return Ok(()) };
    if token == Token::HeadRelay {
        if let Err(error) = side.route.serve_relay() {
            network.events.push_back(NetworkEvent::HeadLost { why: error.to_string() });
        }
        return Ok(());
    }
    let NodeSide { starters: Some(starters), route, .. } = &mut **side else { return Ok(()) };
    let end = starters.ready(token, &mut |_| route.dial_for_other(timeout));
    report(network, end, poller)
}

/// Starts the nodes whose turn has come.
pub(super) fn start_due(network: &mut Network, poller: &Poller) -> io::Result<()> {
    let failed = starters(network).map(|starters| starters.start_due(poller));
    report(network, failed.unwrap_or_default(), poller)
}

/// Ends the starters whose nodes have not connected.
pub(super) fn end_awaited(network: &mut Network) {
    let starters = starters(network);
    starters.into_iter().for_each(|starters| starters.signal_awaited(Signal::TERM));
}

fn report(
    network: &mut Network,
    ends: impl IntoIterator<Item = StarterEnd>,
    poller: &Poller,
) -> io::Result<()> {
    let is_to_head = |link: &NodeLink| link.state == LinkState::Requesting;
    let link = network.links.all.iter_mut().find(|(_, link)| is_to_head(link));
    let Some((number, link)) = link else { return Ok(()) };
    let number = *number;
    for end in ends {
        link.edge.send(&NodeGreeting::StarterEnded(end).encode());
    }
    if link.edge.has_output() { network.write(number, poller) } else { Ok(()) }
}

fn starters(network: &mut Network) -> Option<&mut StarterPool> {
    match &mut network.side {
        NetworkSide::Head(_) => None,
        NetworkSide::Node(side) => side.starters.as_mut(),
    }
}

/// A node server that ends leaves no starter behind that waits for a host, and nothing that relays have not
/// written: its connections are closed already.
impl Drop for NodeSide {
    fn drop(&mut self) {
        let Self { route, starters, .. } = self;
        if let Some(starters) = starters {
            starters.signal_awaited(Signal::TERM);
        }
        let mut nowhere = |_| Err(io::ErrorKind::ConnectionRefused.into());
        let mut serve = || {
            // That to the head comes first: what it has for other nodes goes to their starters.
            let has_more = route.serve_relay().unwrap_or(false);
            let starters = starters.as_mut();
            starters.is_some_and(|starters| starters.serve_relays(&mut nowhere)) || has_more
        };
        let until = clock::now() + TAKEN_WITHIN;
        while serve() && clock::now() < until {
            thread::sleep(LOOK);
        }
    }
}

/// Longest time for which a node server that ends waits for what is to be taken from it.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Interval of looks at that.
const LOOK: Duration = Duration::from_millis(1);
