//! Messages of trees without faults.

use crate::net::Net;
use pmi_core::time::Duration;
use pmi_tree::{Class, Destination, MESSAGE_BYTES_MAX, NodeId, OUTPUT_BYTES, TreeError, TreeEvent};

/// Sender and first byte of the messages that a node has received.
fn received(net: &Net, node: usize) -> Vec<(u32, u8)> {
    let messages = net.events[node].iter().filter_map(|event| match event {
        TreeEvent::Message { from, body, .. } => Some((from.0, body[0])),
        _ => None,
    });
    messages.collect()
}

#[test]
fn messages_reach_their_receivers_once_and_in_order() {
    for piece in [1, 5, 4096] {
        let mut net = Net::new(22, 4);
        net.piece = piece;
        let control = Class::Control;
        net.node(0).send(Destination::All, control, vec![1]).unwrap();
        net.node(0).send(Destination::Node(NodeId(21)), control, vec![2; 40_000]).unwrap();
        net.node(0).send(Destination::All, control, vec![3]).unwrap();
        net.run();
        net.node(21).send(Destination::Head, control, vec![4]).unwrap();
        net.node(21).send(Destination::Node(NodeId(7)), control, vec![5]).unwrap();
        net.node(21).send(Destination::Node(NodeId(21)), control, vec![6]).unwrap();
        net.run();
        net.node(6).send(Destination::All, control, vec![7]).unwrap();
        net.run();
        assert_eq!(received(&net, 0), [(21, 4), (6, 7)]);
        assert_eq!(received(&net, 5), [(0, 1), (0, 3), (6, 7)]);
        assert_eq!(received(&net, 6), [(0, 1), (0, 3)]);
        assert_eq!(received(&net, 7), [(0, 1), (0, 3), (21, 5), (6, 7)]);
        assert_eq!(received(&net, 21), [(0, 1), (0, 2), (0, 3), (21, 6), (6, 7)]);
    }
}

#[test]
fn output_that_is_not_read_stops_its_sender_and_nothing_else() {
    let mut net = Net::new(6, 4);
    net.node(0).pause_output(true);
    let mut sent: u8 = 0;
    while net.node(5).can_send(Class::Output) {
        sent += 1;
        let body = vec![sent; OUTPUT_BYTES / 8];
        net.node(5).send(Destination::Head, Class::Output, body).unwrap();
        net.run();
    }
    assert_eq!(sent, 8);
    // Beyond the credit it waits at its sender.
    net.node(5).send(Destination::Head, Class::Output, vec![9; 10]).unwrap();
    net.node(5).send(Destination::Head, Class::Control, vec![100]).unwrap();
    for node in 1..6 {
        net.contribute(node, 1, b"x");
    }
    net.wait(Duration::from_secs(20));
    assert_eq!(net.results(1).len(), 6);
    assert_eq!(received(&net, 0), [(5, 100)]);
    net.node(0).pause_output(false);
    net.wait(Duration::from_secs(3));
    let order: Vec<u8> = received(&net, 0).into_iter().map(|(_, first)| first).collect();
    assert_eq!(order, [100, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(net.events[5].iter().filter(|event| **event == TreeEvent::Credit).count(), 1);
    assert!(net.node(5).can_send(Class::Output));
}

#[test]
fn input_that_a_node_does_not_read_stops_the_head_only() {
    let mut net = Net::new(6, 4);
    net.node(5).pause_output(true);
    while net.node(0).can_send(Class::Output) {
        let body = vec![1; OUTPUT_BYTES / 4];
        net.node(0).send(Destination::Node(NodeId(5)), Class::Output, body).unwrap();
        net.run();
    }
    net.node(0).send(Destination::All, Class::Control, vec![2]).unwrap();
    net.wait(Duration::from_secs(20));
    assert_eq!(received(&net, 5), [(0, 2)]);
    assert!(!net.node(0).can_send(Class::Output));
    net.node(5).pause_output(false);
    net.wait(Duration::from_secs(3));
    assert_eq!(received(&net, 5), [(0, 2), (0, 1), (0, 1), (0, 1), (0, 1)]);
    assert!(net.node(0).can_send(Class::Output));
    assert!(net.events[0].contains(&TreeEvent::Credit));
}

#[test]
fn impossible_messages_are_refused() {
    let mut net = Net::new(3, 4);
    let no_node = net.node(1).send(Destination::Node(NodeId(3)), Class::Control, vec![1]);
    assert_eq!(no_node, Err(TreeError::NoNode(NodeId(3))));
    let long = vec![1; MESSAGE_BYTES_MAX + 1];
    let long = net.node(1).send(Destination::Head, Class::Control, long);
    assert!(matches!(long, Err(TreeError::TooLong { .. })), "{long:?}");
    net.run();
    assert_eq!(received(&net, 0), []);
}

#[test]
fn idle_edges_stay_by_signs_of_life() {
    let mut net = Net::new(6, 4);
    net.wait(Duration::from_secs(60));
    assert!((1..6).all(|node| net.node(node).is_attached()));
    assert!(net.events.iter().all(Vec::is_empty));
}
