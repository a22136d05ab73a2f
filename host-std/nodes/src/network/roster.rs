//! Hosts of a run, as the head knows them: which have joined, and where they accept other nodes. Hosts that
//! are added later are candidates, with numbers of their own, until they are admitted.

use super::super::greeting::{NodeHello, NodePlace, NodeTask, StartMessage, ancestors};
use super::super::handshake::HandshakeError;
use super::super::key::{KeyName, LinkKey};
use super::greetings;
use pmi_host_os::host_name::is_same;
use pmi_tree::{TreeNode, TreeStart};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Hosts of a run, in the order of their nodes, which are numbered from 1.
#[derive(Debug)]
pub struct Roster {
    hosts: Vec<RosterHost>,
    /// Hosts that are not in the tree, by their numbers.
    candidates: BTreeMap<u32, RosterHost>,
    /// Nodes and candidates by the names of their hosts.
    names: NumbersByName,
    /// Number of the next candidate.
    next: u32,
    radix: u32,
    timeout: Duration,
    task: NodeTask,
    /// Nodes that start further ones.
    delegates: BTreeSet<u32>,
    /// Keys that starters hand over.
    starts: BTreeMap<KeyName, StartKey>,
}

/// Key that a starter hands to the node servers of its hosts.
#[derive(Debug)]
struct StartKey {
    /// `None` once all of its hosts have joined, or will not come.
    key: Option<LinkKey>,
    /// Nodes and candidates that have not joined.
    awaited: BTreeSet<u32>,
}

#[derive(Debug)]
struct RosterHost {
    /// Name as the user or the batch system writes it.
    name: String,
    /// Description of the node server, once it has joined.
    hello: Option<NodeHello>,
    is_placed: bool,
    /// True once its node is lost, or will not come.
    is_excluded: bool,
    /// Name of the key by which it joins.
    key: Option<KeyName>,
    /// Number of nodes in the tree in which it begins, with the head.
    nodes: u32,
    /// State in which it begins, if it was added later.
    start: Option<StartMessage>,
}

impl Roster {
    pub(crate) fn new(names: Vec<String>, radix: u32, timeout: Duration, task: NodeTask) -> Self {
        let mut hosts: Vec<RosterHost> = names.iter().map(|name| RosterHost::new(name)).collect();
        let nodes = u32::try_from(hosts.len() + 1).unwrap_or(u32::MAX);
        hosts.iter_mut().for_each(|host| host.nodes = nodes);
        let (candidates, next, delegates) = (BTreeMap::new(), CANDIDATES, BTreeSet::new());
        let starts = BTreeMap::new();
        let mut names = NumbersByName::default();
        (1..).zip(&hosts).for_each(|(node, host)| names.insert(&host.name, node));
        Self { hosts, candidates, names, next, radix, timeout, task, delegates, starts }
    }

    /// Adds hosts as candidates, and returns the number of the first one, which the others follow.
    pub(super) fn propose(&mut self, names: &[String]) -> u32 {
        let first = self.next;
        for name in names {
            let host = RosterHost::new(name);
            self.names.insert(&host.name, self.next);
            self.candidates.insert(self.next, host);
            self.next = self.next.saturating_add(1);
        }
        first
    }

    /// Takes candidates into the tree as the next nodes, in this order and this state.
    pub(super) fn admit(&mut self, candidates: &[u32], start: &TreeStart) {
        let former = self.hosts.len();
        for number in candidates {
            let Some(host) = self.take_candidate(*number) else { continue };
            self.names.insert(&host.name, self.nodes());
            self.hosts.push(host);
        }
        let nodes = self.nodes();
        for host in &mut self.hosts[former..] {
            (host.nodes, host.start) = (nodes, Some(StartMessage::from(start)));
        }
    }

    /// Takes a candidate out.
    pub(super) fn withdraw(&mut self, candidate: u32) {
        self.spend(candidate);
        self.take_candidate(candidate);
    }

    /// Lets `nodes`, which may be candidates, join by a key: each of them once.
    pub(crate) fn expect(&mut self, key: &LinkKey, nodes: &[u32]) {
        let name = key.name();
        let awaited = BTreeSet::new();
        let start = self.starts.entry(name).or_insert(StartKey { key: None, awaited });
        start.key = Some(key.clone());
        start.awaited.extend(nodes);
        for node in nodes {
            if let Some(host) = self.host_mut(*node) {
                host.key = Some(name);
            }
        }
    }

    /// The key that a starter has handed over under this name.
    ///
    /// # Errors
    ///
    /// There is none, or it has admitted all of its hosts.
    pub(super) fn start_key(&self, name: KeyName) -> Result<LinkKey, HandshakeError> {
        let start = self.starts.get(&name).ok_or(HandshakeError::Proof)?;
        start.key.clone().ok_or(HandshakeError::Spent)
    }

    /// Records that `node` does not join by its key any more. That of its last node is forgotten.
    fn spend(&mut self, node: u32) {
        let name = self.host(node).and_then(|host| host.key);
        if let Some(start) = name.and_then(|name| self.starts.get_mut(&name)) {
            start.awaited.remove(&node);
            if start.awaited.is_empty() {
                start.key = None;
            }
        }
    }

    fn take_candidate(&mut self, candidate: u32) -> Option<RosterHost> {
        let host = self.candidates.remove(&candidate)?;
        self.names.remove(&host.name, candidate);
        Some(host)
    }

    /// True if this is the number of a candidate that has joined.
    pub(super) fn is_ready(&self, candidate: u32) -> bool {
        self.candidates.get(&candidate).is_some_and(|host| host.hello.is_some())
    }

    /// Records that a node is lost, or will not come: another node server of its host may join.
    pub(super) fn exclude(&mut self, node: u32) {
        self.spend(node);
        self.host_mut(node).into_iter().for_each(|host| host.is_excluded = true);
    }

    /// Lets `delegates` start further nodes.
    pub(crate) fn with_delegates(self, delegates: BTreeSet<u32>) -> Self {
        Self { delegates, ..self }
    }

    /// True if `node` starts further ones.
    pub(super) fn is_delegate(&self, node: u32) -> bool {
        self.delegates.contains(&node)
    }

    /// True if the connections of a node to the head go through its starter.
    pub(super) fn is_relayed(&self, node: u32) -> bool {
        let hello = self.host(node).and_then(|host| host.hello.as_ref());
        hello.is_some_and(|hello| hello.is_relayed)
    }

    /// The tree of the head.
    pub(super) fn tree(&self) -> TreeNode {
        TreeNode::new(greetings::tree_config((0, self.nodes()), self.radix, self.timeout))
    }

    /// Number of nodes in the tree, with the head.
    pub(super) fn nodes(&self) -> u32 {
        u32::try_from(self.hosts.len() + 1).unwrap_or(u32::MAX)
    }

    /// Adds a node server that requests its place, and returns the number of its node. It has proved the key
    /// with this name; there are no names without encryption.
    ///
    /// # Errors
    ///
    /// A sentence with the reason to refuse it.
    pub(super) fn join(&mut self, hello: NodeHello, key: Option<KeyName>) -> Result<u32, String> {
        if let Some(why) = hello.mismatch() {
            return Err(why);
        }
        let shown = hello.shown();
        let numbers = match &hello.name {
            Some(name) => self.names.of(name),
            None => self.names.of_host(&hello.host),
        };
        let hosts = numbers.into_iter().filter_map(|number| Some((number, self.host(number)?)));
        let mut named = hosts.filter(|(_, host)| !host.is_excluded).peekable();
        if named.peek().is_none() {
            return Err(format!("'{shown}' is not one of the hosts of this run"));
        }
        let absent = Vec::from_iter(
            named.filter(|(_, host)| host.hello.is_none()).map(|(number, _)| number),
        );
        if absent.is_empty() {
            return Err(format!("a node server of '{shown}' has joined this run already"));
        }
        let may_join = |number: &u32| match key {
            Some(name) => {
                self.starts.get(&name).is_some_and(|start| start.awaited.contains(number))
            }
            None => true,
        };
        let Some(number) = absent.into_iter().find(may_join) else {
            return Err(format!(
                "a node server of '{shown}' has the key of another host, or one that is spent; each needs \
                 the key that its own starter hands over"
            ));
        };
        self.spend(number);
        if let Some(host) = self.host_mut(number) {
            host.hello = Some(hello);
        }
        Ok(number)
    }

    /// Takes a node out that was lost before it was placed.
    pub(super) fn leave(&mut self, node: u32) {
        if let Some(host) = self.host_mut(node) {
            (host.hello, host.is_placed) = (None, false);
        }
    }

    /// Place of `node`, if it has joined and all its ancestors have, or are lost. It counts as placed from
    /// now on.
    pub(super) fn place(&mut self, node: u32) -> Option<NodePlace> {
        let above: Vec<u32> = ancestors(node, self.radix).filter(|above| *above > 0).collect();
        let is_placed =
            |above: &u32| self.host(*above).is_some_and(|host| host.is_placed || host.is_excluded);
        let is_admitted = node < self.nodes() && self.host(node)?.hello.is_some();
        if !is_admitted || !above.iter().all(is_placed) {
            return None;
        }
        let address = |above: &u32| Some((*above, self.host(*above)?.hello.as_ref()?.address));
        let ancestors: Vec<(u32, SocketAddr)> = above.iter().filter_map(address).collect();
        let (radix, task) = (self.radix, self.task.clone());
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let host = self.host_mut(node)?;
        if std::mem::replace(&mut host.is_placed, true) {
            return None;
        }
        let (nodes, start) = (host.nodes, host.start.clone());
        let is_delegate = self.is_delegate(node);
        let keys = None;
        Some(NodePlace {
            node,
            nodes,
            radix,
            timeout_ms,
            is_delegate,
            start,
            ancestors,
            task,
            keys,
        })
    }

    /// Children of `node`.
    pub(super) fn children(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        let first = node.saturating_mul(self.radix).saturating_add(1);
        first..first.saturating_add(self.radix).min(self.nodes())
    }

    /// Description of the node server of `node`, if it has joined.
    pub fn hello(&self, node: u32) -> Option<&NodeHello> {
        self.host(node)?.hello.as_ref()
    }

    /// Name of the host of `node`.
    pub(crate) fn name(&self, node: u32) -> &str {
        self.host(node).map_or("", |host| &host.name)
    }

    fn host(&self, node: u32) -> Option<&RosterHost> {
        if node >= CANDIDATES {
            return self.candidates.get(&node);
        }
        self.hosts.get(usize::try_from(node.checked_sub(1)?).ok()?)
    }

    fn host_mut(&mut self, node: u32) -> Option<&mut RosterHost> {
        if node >= CANDIDATES {
            return self.candidates.get_mut(&node);
        }
        self.hosts.get_mut(usize::try_from(node.checked_sub(1)?).ok()?)
    }
}

impl RosterHost {
    fn new(name: &str) -> Self {
        let name = name.rsplit('@').next().unwrap_or_default().to_owned();
        let (is_placed, is_excluded) = (false, false);
        Self { name, hello: None, is_placed, is_excluded, key: None, nodes: 0, start: None }
    }
}

/// Numbers of nodes and candidates by the names of their hosts.
#[derive(Debug, Default)]
struct NumbersByName(BTreeMap<String, BTreeSet<u32>>);

impl NumbersByName {
    fn insert(&mut self, name: &str, number: u32) {
        self.0.entry(name.to_owned()).or_default().insert(number);
    }

    fn remove(&mut self, name: &str, number: u32) {
        if let Some(numbers) = self.0.get_mut(name) {
            numbers.remove(&number);
        }
    }

    /// Numbers of the hosts with this name.
    fn of(&self, name: &str) -> Vec<u32> {
        self.0.get(name).map(|numbers| numbers.iter().copied().collect()).unwrap_or_default()
    }

    /// Numbers of the hosts that this kernel's name may mean: those with exactly this name, or else with the
    /// same one.
    fn of_host(&self, host: &str) -> Vec<u32> {
        let exact = self.of(host);
        if !exact.is_empty() {
            return exact;
        }
        let meant = self.0.iter().filter(|(name, _)| is_same(name, host));
        let numbers: BTreeSet<u32> = meant.flat_map(|(_, numbers)| numbers).copied().collect();
        numbers.into_iter().collect()
    }
}

/// Number of the first candidate, larger than that of any node.
pub(crate) const CANDIDATES: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::NodeResources;
    use pmi_host_base::ranges::Ranks;

    fn roster(names: &[&str]) -> Roster {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Roster::new(names, 4, Duration::from_secs(5), NodeTask::Check { program: None })
    }

    fn hello(name: Option<&str>, host: &str) -> NodeHello {
        NodeHello {
            name: name.map(str::to_owned),
            host: host.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            address: "127.0.0.1:9".parse().unwrap(),
            is_relayed: false,
            resources: NodeResources::default(),
        }
    }

    #[test]
    fn node_is_found_by_the_name_that_was_handed_over_or_else_by_its_host() {
        let mut roster = roster(&["u@a", "b.example", "c"]);
        assert_eq!(roster.join(hello(Some("c"), "x"), None), Ok(3));
        assert!(
            roster.join(hello(None, "b.local"), None).unwrap_err().contains("not one of the hosts")
        );
        assert_eq!(roster.join(hello(None, "B"), None), Ok(2));
        assert_eq!(roster.join(hello(None, "a"), None), Ok(1));
        assert!(
            roster.join(hello(None, "a"), None).unwrap_err().contains("joined this run already")
        );
        assert!(roster.join(hello(None, "d"), None).unwrap_err().contains("not one of the hosts"));
        assert!(
            roster.join(hello(Some("A"), "a"), None).unwrap_err().contains("not one of the hosts")
        );
        let other = NodeHello { version: "9".to_owned(), ..hello(None, "c") };
        assert!(roster.join(other, None).unwrap_err().contains("same version"));
        let mut other = hello(None, "c");
        other.resources.processors = Ranks::from_iter([u32::MAX]);
        assert!(roster.join(other, None).unwrap_err().contains("more processors than a machine"));
        assert_eq!((roster.name(1), roster.name(9), roster.name(0)), ("a", "", ""));
    }

    #[test]
    fn hosts_of_two_domains_are_two_nodes() {
        let mut roster = roster(&["n.b", "n.a", "n"]);
        for (host, node) in [("n.a", 2), ("n.b", 1), ("n", 3)] {
            assert_eq!(roster.join(hello(None, host), None), Ok(node), "{host}");
        }
    }

    #[test]
    fn node_is_placed_after_its_ancestors_and_once() {
        let names: Vec<String> = (1..=21).map(|node| format!("n{node}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut roster = roster(&names);
        for node in [21, 5, 1] {
            assert_eq!(roster.join(hello(Some(&format!("n{node}")), "x"), None), Ok(node));
        }
        assert_eq!((roster.place(21), roster.place(5)), (None, None));
        assert!(roster.place(1).unwrap().ancestors.is_empty());
        assert_eq!(Vec::from_iter(roster.children(1)), [5, 6, 7, 8]);
        assert_eq!(Vec::from_iter(roster.children(5)), [21]);
        assert_eq!(roster.children(6).count(), 0);
        let above = |place: NodePlace| place.ancestors.into_iter().map(|(node, _)| node);
        assert_eq!(Vec::from_iter(above(roster.place(5).unwrap())), [1]);
        assert_eq!(Vec::from_iter(above(roster.place(21).unwrap())), [5, 1]);
        assert_eq!((roster.place(21), roster.place(2), roster.place(99)), (None, None, None));
        roster.leave(21);
        assert!(roster.hello(21).is_none() && roster.hello(5).is_some());
        // A node below one that will not come is placed below the next ancestor.
        roster.leave(5);
        assert_eq!(roster.join(hello(Some("n21"), "x"), None), Ok(21));
        assert_eq!(roster.place(21), None);
        roster.exclude(5);
        assert_eq!(Vec::from_iter(above(roster.place(21).unwrap())), [1]);
    }

    #[test]
    fn candidates_become_nodes_in_the_order_of_their_admission() {
        let mut roster = roster(&["a", "b"]);
        let first = roster.propose(&["c".to_owned(), "d".to_owned()]);
        assert_eq!((first, roster.nodes()), (CANDIDATES, 3));
        assert_eq!(roster.join(hello(Some("d"), "x"), None), Ok(first + 1));
        assert_eq!((roster.place(first + 1), roster.name(first + 1)), (None, "d"));
        let start = TreeStart::default();
        roster.admit(&[first + 1], &start);
        assert_eq!((roster.nodes(), roster.name(3), roster.name(first + 1)), (4, "d", ""));
        let place = roster.place(3).unwrap();
        assert_eq!((place.nodes, place.start), (4, Some(StartMessage::from(&start))));
        assert_eq!(roster.join(hello(Some("c"), "x"), None), Ok(first));
        roster.withdraw(first);
        assert!(roster.join(hello(Some("c"), "x"), None).is_err());
        assert_eq!(roster.propose(&["e".to_owned()]), first + 2, "no number is used again");
    }

    #[test]
    fn host_whose_node_is_lost_joins_again_as_a_candidate() {
        let mut roster = roster(&["a", "b"]);
        assert_eq!(roster.join(hello(Some("b"), "x"), None), Ok(2));
        roster.leave(2);
        roster.exclude(2);
        assert!(roster.join(hello(Some("b"), "x"), None).is_err());
        let candidate = roster.propose(&["b".to_owned()]);
        assert_eq!(roster.join(hello(Some("b"), "x"), None), Ok(candidate));
    }

    fn key(byte: u8) -> LinkKey {
        let line = format!("{}\n", format!("{byte:02x}").repeat(32));
        crate::key::RunKey::read(&mut line.as_bytes()).unwrap().key().clone()
    }

    #[test]
    fn key_admits_its_host_once_and_no_other_host() {
        let mut roster = roster(&["a", "b"]);
        let (of_a, of_b) = (key(1), key(2));
        assert_eq!(roster.start_key(of_a.name()), Err(HandshakeError::Proof));
        roster.expect(&of_a, &[1]);
        roster.expect(&of_b, &[2]);
        assert_eq!(roster.start_key(of_a.name()), Ok(of_a.clone()));
        let other = roster.join(hello(Some("b"), "x"), Some(of_a.name()));
        assert!(other.unwrap_err().contains("'b' has the key of another host"));
        assert_eq!(roster.join(hello(Some("a"), "x"), Some(of_a.name())), Ok(1));
        assert_eq!(roster.start_key(of_a.name()), Err(HandshakeError::Spent));
        // Both connections have proved it before the first one was admitted.
        let second = roster.join(hello(Some("a"), "x"), Some(of_a.name()));
        assert!(second.unwrap_err().contains("joined this run already"));
        // It stays spent when the node server is lost before it has a place.
        roster.leave(1);
        assert_eq!(roster.start_key(of_a.name()), Err(HandshakeError::Spent));
        let again = roster.join(hello(Some("a"), "x"), Some(of_a.name()));
        assert!(again.unwrap_err().contains("one that is spent"));
        assert_eq!(roster.join(hello(Some("b"), "x"), Some(of_b.name())), Ok(2));
    }

    #[test]
    fn key_of_several_hosts_admits_each_of_them_once() {
        let mut roster = roster(&["a", "b", "c"]);
        let of_all = key(1);
        roster.expect(&of_all, &[1, 2, 3]);
        let join = |roster: &mut Roster, name| {
            roster.join(hello(Some(name), "x"), Some(of_all.name())).is_ok()
        };
        assert!(join(&mut roster, "b") && !join(&mut roster, "b") && join(&mut roster, "a"));
        assert!(roster.start_key(of_all.name()).is_ok());
        // The last one will not come.
        roster.exclude(3);
        assert_eq!(roster.start_key(of_all.name()), Err(HandshakeError::Spent));
    }

    #[test]
    fn key_of_a_candidate_is_spent_with_it() {
        let mut roster = roster(&["a"]);
        let first = roster.propose(&["b".to_owned(), "c".to_owned()]);
        let keys = [key(1), key(2)];
        roster.expect(&keys[0], &[first]);
        roster.expect(&keys[1], &[first + 1]);
        assert_eq!(roster.join(hello(Some("b"), "x"), Some(keys[0].name())), Ok(first));
        roster.admit(&[first], &TreeStart::default());
        roster.withdraw(first + 1);
        for key in keys {
            assert_eq!(roster.start_key(key.name()), Err(HandshakeError::Spent));
        }
    }
}
