//! Trees that grow after their start.

use crate::net::Net;
use pmi_core::time::Duration;
use pmi_tree::{
    Class, CollectiveId, Contribution, Destination, NodeId, OUTPUT_BYTES, TreeError, TreeEvent,
    TreeNode,
};

fn of_job(job: u32) -> CollectiveId {
    CollectiveId { job, kind: 0, number: 0 }
}

fn contribute(net: &mut Net, node: u32, job: u32) {
    let data = format!("{node} ").into_bytes();
    net.node(node).contribute(of_job(job), Contribution { members: 1, data }).unwrap();
}

/// Result of a job by node; `None` of those that have none.
fn results(net: &Net, job: u32) -> Vec<Option<String>> {
    let of_node = |events: &Vec<TreeEvent>| {
        events.iter().find_map(|event| match event {
            TreeEvent::CollectiveEnded { id, data, .. } if *id == of_job(job) => {
                Some(String::from_utf8_lossy(data).into_owned())
            }
            _ => None,
        })
    };
    net.events.iter().map(of_node).collect()
}

fn bodies(net: &Net, node: usize) -> Vec<u8> {
    let bodies = net.events[node].iter().filter_map(|event| match event {
        TreeEvent::Message { body, .. } => Some(body[0]),
        _ => None,
    });
    bodies.collect()
}

fn say(net: &mut Net, to: Destination, text: u8) {
    net.node(0).send(to, Class::Control, vec![text]).unwrap();
}

fn nodes(range: std::ops::Range<u32>) -> String {
    range.map(|node| format!("{node} ")).collect()
}

#[test]
fn nodes_that_join_receive_what_follows_and_take_part_in_later_jobs_only() {
    for (radix, count) in [(4, 1), (4, 20), (2, 5), (1, 3)] {
        let mut net = Net::new(6, radix);
        say(&mut net, Destination::All, 1);
        (1..6).for_each(|node| contribute(&mut net, node, 0));
        net.run();
        // Of an operation of an older job a part is there already.
        (2..6).for_each(|node| contribute(&mut net, node, 1));
        net.run();
        net.grow(count, 2);
        let last = 5 + count;
        say(&mut net, Destination::Node(NodeId(last)), 2);
        say(&mut net, Destination::All, 3);
        net.run();
        contribute(&mut net, 1, 1);
        net.run();
        assert_eq!(results(&net, 1)[..6], vec![Some(nodes(1..6)); 6]);
        (1..6).for_each(|node| contribute(&mut net, node, 2));
        net.run();
        (6..=last).for_each(|node| net.join(node));
        net.run();
        assert_eq!(bodies(&net, last as usize), [2, 3], "radix {radix}");
        assert_eq!((bodies(&net, 5), bodies(&net, 0)), (vec![1, 3], vec![]));
        assert_eq!(results(&net, 0)[6..], vec![None; count as usize]);
        assert_eq!(results(&net, 1)[6..], vec![Some(nodes(1..6)); count as usize]);
        assert!(results(&net, 2).iter().all(Option::is_none));
        let missing: Vec<NodeId> = net.node(0).missing(of_job(2)).collect();
        assert_eq!(missing, (6..=last).map(NodeId).collect::<Vec<_>>());
        // They are not asked for an older one.
        contribute(&mut net, last, 1);
        (6..=last).for_each(|node| contribute(&mut net, node, 2));
        net.run();
        assert_eq!(results(&net, 2), vec![Some(nodes(1..last + 1)); last as usize + 1]);
        net.node(last).send(Destination::Node(NodeId(3)), Class::Control, vec![4]).unwrap();
        net.run();
        assert_eq!(bodies(&net, 3), [1, 3, 4]);
    }
}

#[test]
fn growth_at_every_step_of_an_operation_loses_nothing() {
    for grow_after in 0..40 {
        let mut net = Net::new(6, 2);
        net.piece = 16;
        (1..6).for_each(|node| contribute(&mut net, node, 0));
        say(&mut net, Destination::All, 1);
        for _ in 0..grow_after {
            net.step();
        }
        // Below node 2, and below node 6 of the same growth.
        net.grow(8, 1);
        say(&mut net, Destination::All, 2);
        (6..14).rev().for_each(|node| say(&mut net, Destination::Node(NodeId(node)), 3));
        (1..6).for_each(|node| contribute(&mut net, node, 1));
        for _ in 0..grow_after / 2 {
            net.step();
        }
        for node in 6..14 {
            net.join(node);
            net.step();
        }
        (6..14).for_each(|node| contribute(&mut net, node, 1));
        net.wait(Duration::from_secs(3));
        assert_eq!(results(&net, 1), vec![Some(nodes(1..14)); 14], "after {grow_after}");
        for node in 6..14 {
            assert_eq!(bodies(&net, node), [2, 3], "node {node} after {grow_after}");
        }
        let lost = net.events[0].iter().any(|event| matches!(event, TreeEvent::NodeLost { .. }));
        assert!(!lost);
    }
}

#[test]
fn node_that_joins_below_a_lost_one_continues_below_the_next_ancestor() {
    for (kill_after, is_joined) in (0..12).flat_map(|steps| [(steps, false), (steps, true)]) {
        let mut net = Net::new(6, 4);
        // Nodes 6 to 8 are below node 1.
        net.grow(3, 1);
        say(&mut net, Destination::All, 1);
        for _ in 0..kill_after {
            net.step();
        }
        if is_joined {
            (6..9).for_each(|node| net.join(node));
            for _ in 0..kill_after / 2 {
                net.step();
            }
        }
        net.kill(1);
        net.run();
        net.node(0).exclude(NodeId(1)).unwrap();
        if !is_joined {
            (6..9).for_each(|node| net.join(node));
        }
        net.wait(Duration::from_secs(2));
        (2..9).for_each(|node| contribute(&mut net, node, 1));
        net.wait(Duration::from_secs(2));
        for node in 2..9 {
            assert_eq!(bodies(&net, node as usize), [1], "node {node} after {kill_after}");
            assert_eq!(results(&net, 1)[node as usize], Some(nodes(2..9)), "after {kill_after}");
        }
        assert_eq!(net.node(7).parent(), Some(NodeId(0)));
    }
}

#[test]
fn node_that_joins_below_an_ancestor_is_not_awaited_by_its_first_parent() {
    let mut net = Net::new(3, 1);
    net.grow(1, 1);
    // Node 2 might not have known it yet.
    net.connect(NodeId(3), NodeId(1));
    net.run();
    let mut sent = 0;
    while net.node(0).can_send(Class::Output) {
        sent += 1;
        let body = vec![sent; OUTPUT_BYTES / 4];
        net.node(0).send(Destination::All, Class::Output, body).unwrap();
    }
    net.wait(Duration::from_secs(3));
    assert!(net.node(0).can_send(Class::Output));
    say(&mut net, Destination::Node(NodeId(2)), 9);
    net.run();
    for node in [2, 3] {
        let all: Vec<u8> = (1..=sent).chain((node == 2).then_some(9)).collect();
        assert_eq!(bodies(&net, node), all, "node {node}");
    }
    contribute(&mut net, 3, 1);
    [1, 2].into_iter().for_each(|node| contribute(&mut net, node, 1));
    net.run();
    assert_eq!(results(&net, 1), vec![Some(nodes(1..4)); 4]);
}

#[test]
fn node_that_is_lost_with_its_first_parent_is_found_by_its_own_report() {
    for (kill_after, is_late) in (0..8).flat_map(|steps| [(steps, false), (steps, true)]) {
        let mut net = Net::new(3, 1);
        net.grow(1, 1);
        // Node 2 might not have known it yet.
        net.connect(NodeId(3), NodeId(1));
        for _ in 0..kill_after {
            net.step();
        }
        if !is_late {
            net.node(0).note_parent(NodeId(3), NodeId(1)).unwrap();
        }
        net.kill(1);
        net.kill(3);
        contribute(&mut net, 2, 1);
        net.wait(Duration::from_secs(1));
        if is_late {
            net.node(0).note_parent(NodeId(3), NodeId(1)).unwrap();
        }
        net.wait(Duration::from_secs(8));
        let lost = net.events[0].iter().filter_map(|event| match event {
            TreeEvent::NodeLost { node, .. } => Some(node.0),
            _ => None,
        });
        assert_eq!(lost.collect::<Vec<_>>(), [1, 3], "killed after {kill_after}");
        [1, 3].into_iter().for_each(|node| net.node(0).exclude(NodeId(node)).unwrap());
        net.run();
        assert_eq!(results(&net, 1)[2], Some(nodes(2..3)), "killed after {kill_after}");
    }
}

#[test]
fn own_reports_of_parents_change_nothing_about_nodes_that_are_attached() {
    let mut net = Net::new(22, 4);
    for node in 1..22 {
        let parent = net.node(node).parent().unwrap();
        net.node(0).note_parent(NodeId(node), parent).unwrap();
    }
    net.kill(1);
    net.wait(Duration::from_secs(2));
    // This arrives late: the node is below the head by now.
    net.node(0).note_parent(NodeId(5), NodeId(1)).unwrap();
    net.wait(Duration::from_secs(8));
    let lost = net.events[0].iter().filter(|event| matches!(event, TreeEvent::NodeLost { .. }));
    assert_eq!(lost.count(), 1);
    let mut refused =
        |node: u32, parent: u32| net.node(0).note_parent(NodeId(node), NodeId(parent)).unwrap_err();
    assert_eq!(refused(0, 0), TreeError::NoNode(NodeId(0)));
    assert_eq!(refused(22, 5), TreeError::NoNode(NodeId(22)));
    assert_eq!(refused(21, 2), TreeError::OutOfRange("the parent of a node"));
    assert_eq!(net.node(5).note_parent(NodeId(21), NodeId(5)), Err(TreeError::Over));
}

#[test]
fn node_that_does_not_come_is_excluded() {
    let mut net = Net::new(3, 4);
    net.grow(2, 0);
    net.join(3);
    (1..4).for_each(|node| contribute(&mut net, node, 0));
    net.run();
    assert_eq!(net.node(0).missing(of_job(0)).collect::<Vec<_>>(), [NodeId(4)]);
    net.node(0).exclude(NodeId(4)).unwrap();
    net.run();
    assert_eq!(results(&net, 0)[..4], vec![Some("1 2 3 ".to_owned()); 4]);
    net.join(4);
    net.run();
    assert_eq!(net.events[4], [TreeEvent::Expelled]);
}

#[test]
fn tree_grows_again_and_again() {
    let mut net = Net::new(2, 2);
    for nodes_before in 2..40 {
        let job = nodes_before - 1;
        net.grow(1, job);
        net.join(nodes_before);
        (1..=nodes_before).for_each(|node| contribute(&mut net, node, job));
        net.run();
        let all = nodes_before as usize + 1;
        assert_eq!(results(&net, job), vec![Some(nodes(1..nodes_before + 1)); all]);
    }
    // A node that has missed nothing but is cut returns as one that was there from the start.
    net.cut(NodeId(39), NodeId(19));
    net.wait(Duration::from_secs(2));
    assert!(net.node(39).is_attached());
    assert!(net.events[0].iter().all(|event| !matches!(event, TreeEvent::NodeLost { .. })));
}

#[test]
fn only_the_head_adds_nodes_and_only_new_ones() {
    let mut net = Net::new(3, 4);
    assert_eq!(net.node(1).grow(9, 1), Err(TreeError::Over));
    assert_eq!(net.node(0).grow(3, 1), Err(TreeError::NoNode(NodeId(3))));
    net.run();
    assert!(net.nodes.iter().flatten().map(TreeNode::config).all(|config| config.nodes == 3));
}
