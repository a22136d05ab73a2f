//! Lost edges and nodes.

use crate::net::{Net, id};
use pmi_core::time::{Duration, Instant};
use pmi_tree::{Class, Destination, EdgeLoss, NodeId, Silence, TreeConfig, TreeEvent, TreeNode};

/// Nodes that the head has reported as lost.
fn lost(net: &Net) -> Vec<(u32, u32, EdgeLoss)> {
    let lost = net.events[0].iter().filter_map(|event| match event {
        TreeEvent::NodeLost { node, parent, loss } => Some((node.0, parent.0, *loss)),
        _ => None,
    });
    lost.collect()
}

#[test]
fn children_of_a_lost_node_continue_below_the_next_ancestor() {
    let mut net = Net::new(22, 4);
    for node in 2..22 {
        net.contribute(node, 1, format!("{node} ").as_bytes());
    }
    net.run();
    net.kill(1);
    net.wait(Duration::from_millis(200));
    assert_eq!(lost(&net), [(1, 0, EdgeLoss::Closed)]);
    assert!(net.results(1).is_empty());
    net.node(0).exclude(NodeId(1)).unwrap();
    net.run();
    let expected: String = (2..22).map(|node| format!("{node} ")).collect();
    assert_eq!(net.results(1).len(), 21);
    assert!(
        net.results(1)
            .iter()
            .all(|(data, members)| { *data == expected.as_bytes() && *members == 40 })
    );
    assert_eq!(net.node(21).parent(), Some(NodeId(5)));
    assert_eq!(net.node(5).parent(), Some(NodeId(0)));
}

#[test]
fn cut_edge_between_living_nodes_loses_nothing() {
    // At every step of an operation in turn.
    for cut_after in 0..40 {
        let mut net = Net::new(22, 4);
        net.piece = 64;
        let control = Class::Control;
        for node in 1..22 {
            net.contribute(node, 1, format!("{node} ").repeat(50).as_bytes());
        }
        net.node(21).send(Destination::Head, control, vec![1; 300]).unwrap();
        net.node(0).send(Destination::Node(NodeId(21)), control, vec![2; 300]).unwrap();
        net.node(0).send(Destination::All, control, vec![3; 300]).unwrap();
        for _ in 0..cut_after {
            net.step();
        }
        net.cut(NodeId(1), NodeId(5));
        net.wait(Duration::from_millis(500));
        assert_eq!(net.results(1).len(), 22, "cut after {cut_after}");
        let expected: Vec<u8> =
            (1..22).flat_map(|node| format!("{node} ").repeat(50).into_bytes()).collect();
        assert!(net.results(1).iter().all(|(data, members)| *data == expected && *members == 42));
        assert_eq!(lost(&net), []);
        let messages = |node: usize| {
            let bodies = net.events[node].iter().filter_map(|event| match event {
                TreeEvent::Message { body, .. } => Some(body[0]),
                _ => None,
            });
            bodies.collect::<Vec<u8>>()
        };
        assert_eq!((messages(0), messages(21)), (vec![1], vec![2, 3]), "cut after {cut_after}");
        assert_eq!(messages(7), [3]);
        assert_eq!(net.node(5).parent(), Some(NodeId(0)));
    }
}

#[test]
fn node_below_a_lost_one_that_does_not_return_is_lost_too() {
    let mut net = Net::new(22, 4);
    net.kill(1);
    net.kill(5);
    net.wait(Duration::from_secs(8));
    let mut found = lost(&net);
    found.sort_unstable_by_key(|(node, ..)| *node);
    assert_eq!(found, [(1, 0, EdgeLoss::Closed), (5, 1, EdgeLoss::Detached)]);
    assert_eq!(net.node(21).parent(), Some(NodeId(0)));
}

#[test]
fn loss_of_the_head_reaches_all_nodes() {
    let mut net = Net::new(22, 4);
    net.contribute(3, 1, b"x");
    net.run();
    net.kill(0);
    net.wait(Duration::from_secs(6));
    for node in 1..22 {
        assert_eq!(net.events[node], [TreeEvent::HeadLost], "node {node}");
    }
}

#[test]
fn excluded_node_that_comes_back_is_refused() {
    let mut net = Net::new(6, 4);
    net.node(0).exclude(NodeId(1)).unwrap();
    net.run();
    assert_eq!(net.events[1], [TreeEvent::Expelled]);
    net.kill(1);
    net.run();
    assert_eq!(net.node(5).parent(), Some(NodeId(0)));
    for node in [2, 3, 4, 5] {
        net.contribute(node, 1, b"x");
    }
    net.run();
    assert_eq!(net.results(1).len(), 5);
    assert!(net.node(0).missing(id(1)).next().is_none());
}

#[test]
fn child_of_the_head_returns_to_it_at_once() {
    let mut net = Net::new(6, 4);
    net.contribute(5, 1, b"5");
    net.run();
    net.cut(NodeId(0), NodeId(1));
    net.run();
    assert_eq!(net.node(1).parent(), Some(NodeId(0)));
    for node in 1..5 {
        net.contribute(node, 1, b"x");
    }
    net.wait(Duration::from_secs(3));
    assert_eq!(net.results(1), vec![(b"xxxx5".to_vec(), 10); 6]);
    assert_eq!(lost(&net), []);
}

#[test]
fn node_whose_connection_ends_before_it_is_attached_is_lost() {
    let mut head = TreeNode::new(TreeConfig::new(NodeId(0), 3));
    head.connected(NodeId(1), Instant::ZERO);
    head.disconnected(NodeId(1), Instant::ZERO);
    let due = head.poll_timeout().unwrap();
    head.handle_timeout(due);
    let (node, parent, loss) = (NodeId(1), NodeId(0), EdgeLoss::Closed);
    assert_eq!(head.poll_event(), Some(TreeEvent::NodeLost { node, parent, loss }));
}

/// Lets a number of seconds pass in which the host of a stopped node answers.
fn pause(net: &mut Net, node: u32, seconds: u64) {
    for _ in 0..seconds {
        net.wait(Duration::from_secs(1));
        let now = net.now;
        net.node(0).host_answers(NodeId(node), now);
    }
}

/// What was silent at node 1 for the head, one after the other; `None` once it continues.
fn silences(net: &Net) -> Vec<Option<Silence>> {
    let of_event = |event: &TreeEvent| match event {
        TreeEvent::Silent { peer: NodeId(1), silence } => Some(Some(*silence)),
        TreeEvent::Continued { peer: NodeId(1) } => Some(None),
        _ => None,
    };
    net.events[0].iter().filter_map(of_event).collect()
}

#[test]
fn node_whose_host_may_be_silent_for_longer_is_told_from_a_stopped_one() {
    let mut net = Net::with_silence(3, 4, Duration::from_secs(30));
    net.stopped.insert(NodeId(1));
    net.wait(Duration::from_secs(25));
    assert_eq!((lost(&net), silences(&net)), (vec![], vec![Some(Silence::Host)]));
    // Its host answers again, and then no more.
    pause(&mut net, 1, 20);
    net.wait(Duration::from_secs(20));
    let all = [Some(Silence::Host), Some(Silence::Process), Some(Silence::Host)];
    assert_eq!((lost(&net), silences(&net)), (vec![], all.to_vec()));
    net.wait(Duration::from_secs(12));
    assert_eq!(lost(&net), [(1, 0, EdgeLoss::Silent)]);
}

#[test]
fn stopped_node_whose_host_answers_stays_and_gets_what_was_sent_later() {
    let mut net = Net::new(3, 4);
    net.stopped.insert(NodeId(1));
    pause(&mut net, 1, 3);
    net.node(0).send(Destination::All, Class::Control, vec![7; 100_000]).unwrap();
    net.contribute(2, 1, b"two");
    pause(&mut net, 1, 30);
    assert_eq!(lost(&net), []);
    // A connection that nobody reads would fill up.
    assert!(net.waiting_bytes(0, 1) < 1000, "{}", net.waiting_bytes(0, 1));
    assert_eq!(silences(&net), [Some(Silence::Process)]);
    net.stopped.clear();
    net.wait(Duration::from_secs(2));
    assert_eq!(silences(&net), [Some(Silence::Process), None]);
    let is_message = |event: &TreeEvent| matches!(event, TreeEvent::Message { body, .. } if body.len() == 100_000);
    assert!(net.events[1].iter().any(is_message), "{:?}", net.events[1]);
    net.contribute(0, 1, b"");
    net.contribute(1, 1, b"one");
    net.run();
    assert_eq!(net.results(1).len(), 3);
}

#[test]
fn stopped_node_whose_host_answers_no_more_is_lost() {
    let mut net = Net::new(3, 4);
    net.stopped.insert(NodeId(1));
    pause(&mut net, 1, 20);
    assert_eq!(lost(&net), []);
    net.wait(Duration::from_millis(6200));
    assert_eq!(lost(&net), [(1, 0, EdgeLoss::Silent)]);
}

#[test]
fn children_of_a_stopped_node_stay_while_its_host_answers() {
    let mut net = Net::new(7, 2);
    net.stopped.insert(NodeId(1));
    for _ in 0..20 {
        net.wait(Duration::from_secs(1));
        let now = net.now;
        for node in [0, 3, 4] {
            net.node(node).host_answers(NodeId(1), now);
        }
    }
    assert_eq!(lost(&net), []);
    net.stopped.clear();
    net.wait(Duration::from_secs(2));
    assert_eq!(net.node(3).parent(), Some(NodeId(1)));
    for node in 0..7 {
        net.contribute(node, 1, b"x");
    }
    net.run();
    assert_eq!(net.results(1).len(), 7);
}
