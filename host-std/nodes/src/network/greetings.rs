//! Connections before they are edges of the tree: calls to the head and to ancestors, and messages on them.

use super::super::addresses;
use super::super::edge::{self, Edge, EdgeError};
use super::super::greeting::{NodeGreeting, NodeHello, NodePlace, ancestors};
use super::super::handshake::KeyId;
use super::super::settings::paused_after;
use super::keyring::is_of_node;
use super::{JOIN_WITHIN, LinkState, Network, NetworkEvent, NetworkSide, delegation};
use pmi_core::time::Duration;
use pmi_host_os::host_name;
use pmi_host_os::listen::Listener;
use pmi_host_os::poller::{Poller, Token};
use pmi_host_os::refusal;
use pmi_tree::{NodeId, TreeConfig, TreeNode};
use std::io;

impl Network {
    /// Connects to the head by the next way, if one is left.
    pub(super) fn dial_head(&mut self, poller: &Poller) -> io::Result<()> {
        loop {
            let NetworkSide::Node(side) = &mut self.side else { return Ok(()) };
            if !side.route.turn() {
                let (failures, remedy) = (side.failures.join("; "), side.route.remedy());
                let why = refusal::refused().unwrap_or_else(|| format!("{failures}{remedy}"));
                let why = format!("the head of the run cannot be reached: {why}");
                self.events.push_back(NetworkEvent::HeadLost { why });
                return Ok(());
            }
            let Some(key) = self.keys.to_join() else { return Ok(()) };
            match side.route.connect(key, self.timeout) {
                Ok(edge) => {
                    let number = self.add(edge, LinkState::Joining, Some(JOIN_WITHIN));
                    return self.watch(number, poller);
                }
                Err(error) => side.failures.push(format!("{}: {error}", side.route.name())),
            }
        }
    }

    /// Connects to an ancestor, which becomes the parent.
    pub(super) fn attach(&mut self, ancestor: u32, poller: &Poller) -> io::Result<()> {
        let key = self.own_number().and_then(|node| self.keys.to_ancestor(node, ancestor));
        let NetworkSide::Node(side) = &mut self.side else { return Ok(()) };
        let of_place = |place: &NodePlace| {
            let known = place.ancestors.iter().find(|(node, _)| *node == ancestor);
            known.map(|(_, address)| *address)
        };
        let address = side.place.as_ref().and_then(of_place);
        let connected = match (key, address) {
            (Some(key), _) if ancestor == NodeId::HEAD.0 => side.route.connect(key, self.timeout),
            (Some(key), Some(address)) => Edge::connect(address, (key, self.timeout)),
            // An ancestor that is lost when this node gets its place has no address and no key.
            _ => Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        match connected {
            Ok(edge) => {
                let number = self.add(edge, LinkState::Attaching(ancestor), Some(self.timeout));
                self.watch(number, poller)
            }
            Err(error) => self.lose_ancestor(ancestor, &EdgeError::Io(error), poller),
        }
    }

    /// Handles an ancestor that cannot be reached or was lost: the tree names the next one.
    pub(super) fn lose_ancestor(
        &mut self,
        ancestor: u32,
        error: &EdgeError,
        poller: &Poller,
    ) -> io::Result<()> {
        // The machine of the head answers, so another attempt would not find the head either.
        if ancestor == NodeId::HEAD.0
            && matches!(error, EdgeError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
        {
            let why = "the head of the run has ended".to_owned();
            self.events.push_back(NetworkEvent::HeadLost { why });
            return Ok(());
        }
        if let Some(tree) = &mut self.tree {
            tree.disconnected(NodeId(ancestor), self.clock.now());
        }
        self.collect_tree_events(poller)
    }

    /// Continues a connection on which both sides have proved the key.
    pub(super) fn handle_established(&mut self, number: u32) {
        let Some(link) = self.links.all.get(&number) else { return };
        let greeting = match link.state {
            LinkState::Joining => match self.hello(number) {
                Ok(hello) => NodeGreeting::Join(hello),
                Err(why) => {
                    self.events.push_back(NetworkEvent::HeadLost { why });
                    return;
                }
            },
            LinkState::Attaching(_) => match self.own_number() {
                Some(node) => NodeGreeting::Attach { node },
                None => return,
            },
            LinkState::Requesting => match self.own_number() {
                Some(node) => NodeGreeting::StartRequest { node },
                None => return,
            },
            _ => return,
        };
        if let Some(link) = self.links.all.get_mut(&number) {
            link.edge.send(&greeting.encode());
            // The place comes when all ancestors have joined, and starters run for a while.
            if matches!(link.state, LinkState::Joining | LinkState::Requesting) {
                link.deadline = None;
            }
        }
    }

    /// Opens the port of this node server, and describes it.
    fn hello(&mut self, number: u32) -> Result<NodeHello, String> {
        let NetworkSide::Node(side) = &mut self.side else { return Err(String::new()) };
        let cannot = |error: io::Error| format!("no port for other nodes can be opened ({error})");
        let link = self.links.all.get(&number).ok_or_else(String::new)?;
        // The address that reaches the head reaches its other nodes too.
        let address = side.route.own_address(&link.edge).map_err(cannot)?;
        let door = side.door.insert(addresses::bind(address, side.names.ports)?);
        Ok(NodeHello {
            name: side.names.name.clone(),
            host: host_name::own(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            address: door.address,
            is_relayed: side.route.is_relayed(),
            resources: (side.resources)(),
        })
    }

    /// Handles a message. The inner error is one of the connection.
    pub(super) fn handle_greeting(
        &mut self,
        number: u32,
        greeting: NodeGreeting,
        poller: &Poller,
    ) -> io::Result<Result<(), EdgeError>> {
        let Some(link) = self.links.all.get(&number) else { return Ok(Ok(())) };
        let (state, key) = (link.state, link.edge.proved());
        match (state, greeting) {
            (LinkState::Accepted, NodeGreeting::Join(hello)) => match key {
                Some(KeyId::Attachment(_)) | None => return Ok(Err(OTHER_KEY)),
                Some(key) => self.handle_join(number, (hello, key), poller)?,
            },
            (LinkState::Accepted, NodeGreeting::Attach { node }) => {
                if !is_of_node(key, node) {
                    return Ok(Err(OTHER_KEY));
                }
                self.handle_attach(number, node)
            }
            (LinkState::Placed(node), NodeGreeting::Attached { parent }) => {
                if let Some(tree) = &mut self.tree
                    && tree.note_parent(NodeId(node), NodeId(parent)).is_err()
                {
                    return Ok(Err(EdgeError::Protocol("a parent is out of place")));
                }
                self.links.all.remove(&number);
                self.events.push_back(NetworkEvent::Attached { node });
                self.collect_tree_events(poller)?;
            }
            (LinkState::Joining, NodeGreeting::Place(place)) => {
                self.handle_place(number, place, poller)?
            }
            (LinkState::Attaching(ancestor), NodeGreeting::Welcome) => {
                self.connect_member(number, ancestor);
                self.leave_head(poller)?;
            }
            (LinkState::Joining | LinkState::Leaving, NodeGreeting::Refused(why)) => {
                self.links.all.remove(&number);
                self.events.push_back(NetworkEvent::HeadLost { why });
            }
            (LinkState::Accepted, NodeGreeting::StartRequest { node }) => {
                if !is_of_node(key, node) {
                    return Ok(Err(OTHER_KEY));
                }
                return Ok(delegation::handle_request(self, number, node));
            }
            (LinkState::Delegate(node), NodeGreeting::StarterEnded(end)) => {
                self.events.push_back(NetworkEvent::DelegateEnded { node, end });
            }
            (LinkState::Requesting, NodeGreeting::Start(command)) => {
                delegation::add_starter(self, command)
            }
            (LinkState::Requesting, NodeGreeting::Started { node }) => {
                delegation::note_started(self, node)
            }
            (LinkState::Attaching(ancestor), NodeGreeting::Refused(_)) => {
                self.links.all.remove(&number);
                self.lose_ancestor(ancestor, &EdgeError::Closed, poller)?;
            }
            _ => return Ok(Err(EdgeError::Protocol("a greeting is out of place"))),
        }
        Ok(Ok(()))
    }

    /// Handles a node server that requests its place, at the head.
    fn handle_join(
        &mut self,
        number: u32,
        (hello, key): (NodeHello, KeyId),
        poller: &Poller,
    ) -> io::Result<()> {
        let NetworkSide::Head(roster) = &mut self.side else {
            return self.refuse(number, "this node server is not the head of the run", poller);
        };
        let name = match key {
            KeyId::Start(name) => Some(name),
            KeyId::Plain | KeyId::Attachment(_) => None,
        };
        match roster.join(hello, name) {
            Err(why) => {
                self.refuse(number, &why, poller)?;
                self.events.push_back(NetworkEvent::Rejected { report: why });
                Ok(())
            }
            Ok(node) => {
                if let Some(link) = self.links.all.get_mut(&number) {
                    (link.state, link.deadline) = (LinkState::Joined(node), None);
                }
                self.events.push_back(NetworkEvent::Joined { node });
                self.place((node, Some(number)), poller)
            }
        }
    }

    /// Sends a node its place if its ancestors have theirs, and then all nodes below that wait for it. The
    /// number of its connection is looked for unless it is given.
    fn place(&mut self, first: (u32, Option<u32>), poller: &Poller) -> io::Result<()> {
        let mut open = vec![first];
        while let Some((node, number)) = open.pop() {
            let NetworkSide::Head(roster) = &mut self.side else { return Ok(()) };
            let Some(mut place) = roster.place(node) else { continue };
            open.extend(roster.children(node).map(|child| (child, None)));
            let is_child = place.ancestors.is_empty();
            let number = number.or_else(|| self.links.of(LinkState::Joined(node)));
            let Some(number) = number else { continue };
            let Some(link) = self.links.all.get_mut(&number) else { continue };
            place.keys = self.keys.for_node(node, &place.ancestors).map(Box::new);
            link.edge.send(&NodeGreeting::Place(place).encode());
            link.state = LinkState::Placed(node);
            if is_child {
                self.connect_member(number, node);
                self.events.push_back(NetworkEvent::Attached { node });
            }
            self.write(number, poller)?;
        }
        Ok(())
    }

    /// Handles a node that connects to this one, its ancestor.
    fn handle_attach(&mut self, number: u32, node: u32) {
        // The head has placed this node first, or told it of the other one, but its message may arrive later.
        let is_known = self.tree.as_ref().is_some_and(|tree| node < tree.config().nodes);
        if let NetworkSide::Node(side) = &mut self.side
            && !is_known
        {
            return side.early.push((number, node));
        }
        let is_below = match &self.side {
            NetworkSide::Head(roster) => node > 0 && node < roster.nodes(),
            NetworkSide::Node(side) => side
                .place
                .as_ref()
                .is_some_and(|place| ancestors(node, place.radix).any(|above| above == place.node)),
        };
        let Some(link) = self.links.all.get_mut(&number) else { return };
        if !is_below {
            let why = format!("node {node} is not below this one");
            link.edge.send(&NodeGreeting::Refused(why).encode());
            return;
        }
        link.edge.send(&NodeGreeting::Welcome.encode());
        self.connect_member(number, node);
    }

    /// Handles the place of this node server.
    fn handle_place(
        &mut self,
        number: u32,
        mut place: NodePlace,
        poller: &Poller,
    ) -> io::Result<()> {
        let (node, timeout) = (place.node, std::time::Duration::from_millis(place.timeout_ms));
        let parent = ancestors(node, place.radix).next();
        let (Some(parent), NetworkSide::Node(side)) = (parent, &mut self.side) else {
            return Ok(());
        };
        let config = tree_config((node, place.nodes), place.radix, timeout);
        self.tree = Some(match &place.start {
            None => TreeNode::new(config),
            Some(start) => TreeNode::joining(config, &start.into()),
        });
        self.timeout = timeout;
        self.keys.take_place(&mut place);
        // Nodes below may have connected already: the system has accepted them.
        if let Some(door) = side.door.take() {
            let listener = Listener::of(door, Token::NodeListen, poller)?;
            edge::prepare(self.listener.insert(listener), timeout)?;
        }
        side.place = Some(place.clone());
        let is_delegate = place.is_delegate;
        self.events.push_back(NetworkEvent::Placed(place));
        if parent == 0 {
            self.connect_member(number, 0);
        } else {
            if let Some(link) = self.links.all.get_mut(&number) {
                link.state = LinkState::Leaving;
            }
            self.attach(parent, poller)?;
        }
        self.attach_early(poller)?;
        if is_delegate { delegation::request(self, poller) } else { Ok(()) }
    }

    /// Handles the nodes that have connected to this one before it knew of them.
    pub(super) fn attach_early(&mut self, poller: &Poller) -> io::Result<()> {
        let nodes = self.tree.as_ref().map_or(0, |tree| tree.config().nodes);
        let NetworkSide::Node(side) = &mut self.side else { return Ok(()) };
        let (known, early) = side.early.drain(..).partition(|(_, node)| *node < nodes);
        side.early = early;
        let known: Vec<(u32, u32)> = known;
        for (number, node) in known {
            self.handle_attach(number, node);
            self.write(number, poller)?;
        }
        Ok(())
    }

    /// Adds candidates for the tree, and returns the number of the first one, which the others follow.
    pub(crate) fn propose(&mut self, names: &[String]) -> u32 {
        match &mut self.side {
            NetworkSide::Head(roster) => roster.propose(names),
            NetworkSide::Node(_) => 0,
        }
    }

    /// Takes those of the candidates that have joined into the tree. Returns their numbers, with those of
    /// their nodes. Operations of jobs from `first_job` on wait for them. Messages may be sent to them at
    /// once.
    pub(crate) fn admit(
        &mut self,
        candidates: &[u32],
        first_job: u32,
        poller: &Poller,
    ) -> io::Result<Vec<(u32, u32)>> {
        let (NetworkSide::Head(roster), Some(tree)) = (&mut self.side, &mut self.tree) else {
            return Ok(Vec::new());
        };
        let ready = candidates.iter().copied().filter(|number| roster.is_ready(*number));
        let ready: Vec<u32> = ready.collect();
        let former = roster.nodes();
        let nodes = former.saturating_add(u32::try_from(ready.len()).unwrap_or(u32::MAX));
        // Only a tree that does not grow is an error.
        let Ok(start) = tree.grow(nodes, first_job) else { return Ok(Vec::new()) };
        roster.admit(&ready, &start);
        let admitted: Vec<(u32, u32)> = ready.into_iter().zip(former..nodes).collect();
        for (candidate, node) in &admitted {
            let joined = LinkState::Joined(*candidate);
            let links = self.links.all.values_mut().filter(|link| link.state == joined);
            links.for_each(|link| link.state = LinkState::Joined(*node));
        }
        for (_, node) in &admitted {
            self.place((*node, None), poller)?;
        }
        Ok(admitted)
    }

    /// Takes a candidate out, and closes its connection if it has joined.
    pub(crate) fn withdraw(&mut self, candidate: u32, poller: &Poller) -> io::Result<()> {
        let NetworkSide::Head(roster) = &mut self.side else { return Ok(()) };
        roster.withdraw(candidate);
        let joined = LinkState::Joined(candidate);
        let links = self.links.all.iter().filter(|(_, link)| link.state == joined);
        for number in Vec::from_iter(links.map(|(number, _)| *number)) {
            self.refuse(number, "the run does not need this host any more", poller)?;
        }
        Ok(())
    }

    /// Makes a connection an edge of the tree. One that the node had before is closed: it has noticed
    /// the loss of that first.
    fn connect_member(&mut self, number: u32, node: u32) {
        let Some(link) = self.links.all.get_mut(&number) else { return };
        (link.state, link.deadline) = (LinkState::Member(node), None);
        // Where the system refuses it, a connection to a process that is stopped ends after a while.
        let _ = link.edge.keep();
        let now = self.clock.now();
        let Some(tree) = &mut self.tree else { return };
        if let Some(former) = self.links.members.insert(node, number) {
            self.links.all.remove(&former);
        }
        tree.connected(NodeId(node), now);
    }

    /// Ends the connection to the head, if it was only needed for a place.
    fn leave_head(&mut self, poller: &Poller) -> io::Result<()> {
        let is_leaving = |state: LinkState| state == LinkState::Leaving;
        let link = self.links.all.iter_mut().find(|(_, link)| is_leaving(link.state));
        let parent = self.tree.as_ref().and_then(TreeNode::parent);
        if let (Some((number, link)), Some(parent)) = (link, parent) {
            let number = *number;
            link.edge.send(&NodeGreeting::Attached { parent: parent.0 }.encode());
            self.write(number, poller)?;
            self.links.all.remove(&number);
        }
        Ok(())
    }

    /// Sends the reason, and closes the connection.
    fn refuse(&mut self, number: u32, why: &str, poller: &Poller) -> io::Result<()> {
        if let Some(link) = self.links.all.get_mut(&number) {
            link.edge.send(&NodeGreeting::Refused(why.to_owned()).encode());
        }
        self.write(number, poller)?;
        self.links.all.remove(&number);
        Ok(())
    }

    /// True for a node server that has joined a run which had begun.
    pub fn joins_late(&self) -> bool {
        match &self.side {
            NetworkSide::Head(_) => false,
            NetworkSide::Node(side) => {
                side.place.as_ref().is_some_and(|place| place.start.is_some())
            }
        }
    }

    /// Number of this node, once it is known.
    fn own_number(&self) -> Option<u32> {
        match &self.side {
            NetworkSide::Head(_) => Some(0),
            NetworkSide::Node(side) => side.place.as_ref().map(|place| place.node),
        }
    }
}

/// Configuration of the tree of a node, among `nodes` nodes.
pub(super) fn tree_config(
    (node, nodes): (u32, u32),
    radix: u32,
    timeout: std::time::Duration,
) -> TreeConfig {
    let micros = |of: std::time::Duration| u64::try_from(of.as_micros()).unwrap_or(u64::MAX);
    let silence = micros(timeout);
    // A node that has sent nothing for a while sends a sign of life, several of them before it is lost.
    let ping = Duration::from_micros((silence / PINGS).min(PING_MAX_MICROS));
    let pause = Duration::from_micros(micros(paused_after(timeout)));
    let silence = Duration::from_micros(silence);
    TreeConfig { radix, ping, pause, silence, ..TreeConfig::new(NodeId(node), nodes) }
}

/// A connection was to be one of a node, or of a node server without a place, whose key it has not proved.
const OTHER_KEY: EdgeError = EdgeError::Protocol("its key is that of another purpose");

const PINGS: u64 = 4;
const PING_MAX_MICROS: u64 = 1_000_000;
