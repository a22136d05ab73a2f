use super::head_route::HeadRoute;
use super::roster::Roster;
use super::{Network, NetworkEvent, NodeNames};
use crate::edge::{Edge, EdgeProgress};
use crate::greeting::tests::resources;
use crate::greeting::{NodeGreeting, NodeHello, NodeTask};
use crate::handshake::{KnownKey, none};
use crate::key::{LinkKey, RunKey};
use pmi_host_os::admission::Policy;
use pmi_host_os::admission::gate::TcpGate;
use pmi_host_os::clock;
use pmi_host_os::poller::Poller;
use pmi_tree::{CollectiveId, Contribution, NodeId, TreeEvent};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// A head and its only node server, each with a poller of its own.
struct Pair {
    /// Key of the start of the node server.
    key: LinkKey,
    head: (Network, Poller),
    node: (Network, Poller),
}

impl Pair {
    fn connect() -> Self {
        let key = RunKey::generate().unwrap();
        let copy = RunKey::read(&mut format!("{}\n", key.line()).as_bytes()).unwrap();
        let listener = TcpGate::open("127.0.0.1:0".parse().unwrap(), Policy::Secret).unwrap();
        let address = listener.address;
        let timeout = Duration::from_secs(60);
        let mut roster = Roster::new(vec!["n1".into()], 4, timeout, NodeTask::Job);
        let start = key.key().clone();
        roster.expect(&start, &[1]);
        let (of_head, of_node) = (Poller::new().unwrap(), Poller::new().unwrap());
        let head = Network::of_head((key, timeout), listener, roster, &of_head).unwrap();
        let names = NodeNames { name: Some("n1".into()), ..NodeNames::default() };
        let route = HeadRoute::find(vec![address], false, &of_node).unwrap();
        let node = Network::of_node(copy, route, names, Box::new(resources), &of_node).unwrap();
        Self { key: start, head: (head, of_head), node: (node, of_node) }
    }

    /// The report of the head on a connection by this key, which begins with this greeting.
    fn rejection(&mut self, key: KnownKey, greeting: &NodeGreeting) -> String {
        let (head, poller) = (&mut self.head.0, &mut self.head.1);
        let address = head.listener.as_ref().unwrap().address;
        let mut edge = Edge::connect(address, (key, Duration::from_secs(60))).unwrap();
        let (mut ready, mut scratch, mut is_ended) = (Vec::new(), [0; 1024], false);
        loop {
            if let Some(NetworkEvent::Rejected { report }) = head.poll_event() {
                return report;
            }
            let soon = clock::now() + Duration::from_millis(1);
            poller.wait(Some(soon), &mut ready).unwrap();
            head.turn(&ready, poller).unwrap();
            if !is_ended {
                match edge.read(&mut scratch, &none, |_| Ok(())) {
                    Ok(EdgeProgress::Established) => edge.send(&greeting.encode()),
                    progress => is_ended = progress.is_err(),
                }
                is_ended |= edge.flush().is_err();
            }
        }
    }

    /// The first event of the node server that `find` accepts.
    fn wait_at_node<T>(&mut self, find: impl Fn(NetworkEvent) -> Option<T>) -> T {
        let mut ready = Vec::new();
        loop {
            while let Some(event) = self.node.0.poll_event() {
                if let Some(found) = find(event) {
                    return found;
                }
            }
            for (network, poller) in [&mut self.head, &mut self.node] {
                network.flush(poller).unwrap();
                let soon = clock::now() + Duration::from_millis(1);
                poller.wait(Some(soon), &mut ready).unwrap();
                network.turn(&ready, poller).unwrap();
            }
        }
    }
}

// A socket that takes all of the output at once gives no sign of that: the next part must not wait for a timer.
#[test]
fn long_contribution_and_its_result_need_no_timer() {
    let mut pair = Pair::connect();
    pair.wait_at_node(|event| matches!(event, NetworkEvent::Placed(_)).then_some(()));
    let data: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
    let id = CollectiveId { job: 0, kind: 0, number: 0 };
    pair.node.0.contribute(id, Contribution { members: 1, data: data.clone() }).unwrap();
    // As in processes of their own, each side continues after its own events alone, and no timer runs.
    let (mut had_events, mut idle_rounds) = ([true; 2], 0);
    loop {
        while let Some(event) = pair.node.0.poll_event() {
            if let NetworkEvent::Tree(TreeEvent::CollectiveEnded { data: result, .. }) = event {
                assert!(result[..] == data[..], "{} bytes", result.len());
                return;
            }
        }
        assert!(idle_rounds < 100, "the result has not arrived, and no connection is ready");
        let within = Duration::from_millis(if had_events == [false; 2] { 50 } else { 0 });
        for (side, had_events) in [&mut pair.head, &mut pair.node].into_iter().zip(&mut had_events)
        {
            let (network, poller) = side;
            if std::mem::take(had_events) {
                network.flush(poller).unwrap();
            }
            let mut ready = Vec::new();
            poller.wait(Some(clock::now() + within), &mut ready).unwrap();
            for token in ready {
                *had_events = true;
                network.ready(token, poller).unwrap();
            }
        }
        idle_rounds = if had_events == [false; 2] { idle_rounds + 1 } else { 0 };
    }
}

#[test]
fn connection_that_is_closed_without_a_byte_is_no_rejection() {
    let Pair { head: (mut head, mut poller), .. } = Pair::connect();
    let address = head.listener.as_ref().unwrap().address;
    drop(TcpStream::connect(address).unwrap());
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (from, mut ready) = (other.local_addr().unwrap(), Vec::new());
    let report = loop {
        let event = head.poll_event();
        if let Some(NetworkEvent::Rejected { report }) = event {
            break report;
        }
        let soon = clock::now() + Duration::from_millis(1);
        poller.wait(Some(soon), &mut ready).unwrap();
        head.turn(&ready, &poller).unwrap();
    };
    assert!(report.contains(&format!("from {from} ")), "{report}");
    assert!(!report.contains("were rejected before"), "{report}");
    assert!(head.links.all.values().all(|link| link.edge.peer != from.to_string()));
}

#[test]
fn key_of_a_start_admits_nobody_else_and_a_node_passes_for_no_other_one() {
    let mut pair = Pair::connect();
    let joining = NodeGreeting::Join(NodeHello {
        name: Some("n1".into()),
        host: "n1".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        architecture: std::env::consts::ARCH.into(),
        address: "127.0.0.1:9".parse().unwrap(),
        is_relayed: false,
        resources: resources(),
    });
    pair.wait_at_node(|event| matches!(event, NetworkEvent::Placed(_)).then_some(()));
    let report = pair.rejection(KnownKey::start(&pair.key.clone()), &joining);
    assert!(report.contains("has the key of a node server that has joined already"), "{report}");
    let of_node = pair.node.0.keys.to_ancestor(1, 0).unwrap();
    for greeting in [
        joining,
        NodeGreeting::Attach { node: 2 },
        NodeGreeting::Attach { node: 0 },
        NodeGreeting::StartRequest { node: 2 },
    ] {
        let report = pair.rejection(of_node.clone(), &greeting);
        assert!(report.contains("its key is that of another purpose"), "{report}");
    }
    // Neither does the key of its attachment open a connection of another node.
    let other = KnownKey::attachment(2, &of_node.key);
    let report = pair.rejection(other, &NodeGreeting::Attach { node: 2 });
    assert!(report.contains("does not know the key of this run"), "{report}");
    assert!(pair.head.0.has_members(), "the node itself is connected");
}

#[test]
fn node_that_the_head_excludes_loses_the_head() {
    let mut pair = Pair::connect();
    pair.wait_at_node(|event| matches!(event, NetworkEvent::Placed(_)).then_some(()));
    pair.head.0.exclude(NodeId(1));
    let why = pair.wait_at_node(|event| match event {
        NetworkEvent::HeadLost { why } => Some(why),
        NetworkEvent::Tree(event) => panic!("the owner has to handle {event:?}"),
        _ => None,
    });
    assert_eq!(why, "the head of the run has taken this node for lost");
}
