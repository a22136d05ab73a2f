//! Messages of nodes to their parents.

use crate::net::Net;
use pmi_core::time::Duration;
use pmi_tree::{ChildMessage, Class, Destination, NodeId, OUTPUT_BYTES, TreeEvent};

/// Child and first byte of the messages of children that a node has received, and the last of these.
fn of_children(net: &Net, node: usize) -> (Vec<(u32, u8)>, Option<ChildMessage>) {
    let mut last = None;
    let all = net.events[node].iter().filter_map(|event| match event {
        TreeEvent::FromChild { child, message, body } => {
            last = Some(*message);
            Some((child.0, body[0]))
        }
        _ => None,
    });
    (all.collect(), last)
}

fn send(net: &mut Net, node: u32, to: Destination, first: u8) {
    net.node(node).send(to, Class::Output, vec![first; OUTPUT_BYTES / 4]).unwrap();
    net.wait(Duration::from_secs(3));
}

#[test]
fn message_to_the_parent_goes_no_further_and_is_settled_by_its_owner() {
    let mut net = Net::new(22, 4);
    send(&mut net, 21, Destination::Parent, 1);
    assert_eq!(of_children(&net, 5).0, [(21, 1)]);
    assert!(net.events[0].is_empty() && net.events[1].is_empty());
    (2..5).for_each(|first| send(&mut net, 21, Destination::Parent, first));
    assert!(!net.node(21).can_send(Class::Output));
    assert_eq!(net.node(21).passed_on(), 0);
    let messages: Vec<ChildMessage> = net.events[5]
        .iter()
        .filter_map(|event| match event {
            TreeEvent::FromChild { message, .. } => Some(*message),
            _ => None,
        })
        .collect();
    // Others are settled in front of the first one.
    messages[1..].iter().for_each(|message| net.node(5).settle(*message));
    net.wait(Duration::from_secs(3));
    assert_eq!(net.node(21).passed_on(), 0);
    net.node(5).settle(messages[0]);
    net.wait(Duration::from_secs(3));
    assert_eq!(net.node(21).passed_on(), 4);
    assert!(net.node(21).can_send(Class::Output) && net.events[21].contains(&TreeEvent::Credit));
}

#[test]
fn head_receives_messages_of_its_children_as_others_and_settles_them() {
    let mut net = Net::new(6, 4);
    send(&mut net, 1, Destination::Parent, 1);
    send(&mut net, 1, Destination::Head, 2);
    net.node(0).pause_output(true);
    send(&mut net, 1, Destination::Parent, 3);
    let first = |net: &Net| {
        let first = net.events[0].iter().filter_map(|event| match event {
            TreeEvent::Message { from: NodeId(1), body, .. } => Some(body[0]),
            _ => None,
        });
        first.collect::<Vec<u8>>()
    };
    assert_eq!((first(&net), net.node(1).passed_on()), (vec![1, 2], 1));
    net.node(0).pause_output(false);
    net.wait(Duration::from_secs(3));
    assert_eq!((first(&net), net.node(1).passed_on()), (vec![1, 2, 3], 2));
}

#[test]
fn message_that_a_lost_parent_has_not_settled_is_sent_to_the_next() {
    let mut net = Net::new(22, 4);
    send(&mut net, 21, Destination::Parent, 1);
    let message = of_children(&net, 5).1.unwrap();
    net.node(5).settle(message);
    send(&mut net, 21, Destination::Parent, 2);
    send(&mut net, 21, Destination::Head, 3);
    assert_eq!((net.node(21).passed_on(), of_children(&net, 5).0.len()), (1, 2));
    net.kill(5);
    net.wait(Duration::from_secs(3));
    let (all, last) = of_children(&net, 1);
    assert_eq!(all, [(21, 2)]);
    net.node(1).settle(last.unwrap());
    send(&mut net, 21, Destination::Parent, 4);
    assert_eq!(net.node(21).passed_on(), 2);
    assert_eq!(of_children(&net, 1).0, [(21, 2), (21, 4)]);
    let at_head = net.events[0].iter().filter(|event| matches!(event, TreeEvent::Message { .. }));
    assert_eq!(at_head.count(), 1, "the message to the head came once");
}
