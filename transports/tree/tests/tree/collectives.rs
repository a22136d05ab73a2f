//! Collective operations of trees without faults.

use crate::net::{Net, id};
use pmi_core::wire::nodes::CHUNK_BYTES;
use pmi_tree::{Contribution, NodeId, TreeError, TreeEvent};

#[test]
fn barrier_ends_on_all_nodes_and_only_when_all_have_contributed() {
    for (nodes, radix) in [(2, 4), (5, 4), (6, 4), (22, 4), (9, 2), (9, 1), (40, 16)] {
        let mut net = Net::new(nodes, radix);
        for number in 1..4 {
            for node in (1..nodes).rev() {
                assert!(net.results(number).is_empty(), "{nodes} nodes");
                let missing: Vec<NodeId> = net.node(0).missing(id(number)).collect();
                assert!(missing.is_empty() || missing.contains(&NodeId(node)));
                net.contribute(node, number, b"");
                net.run();
            }
            assert_eq!(net.results(number).len(), nodes as usize);
            let members = u64::from(nodes - 1) * 2;
            assert!(net.results(number).iter().all(|result| *result == (Vec::new(), members)));
        }
    }
}

#[test]
fn results_are_the_contributions_in_the_order_of_nodes_at_every_cut() {
    for piece in [1, 2, 3, 7, 100, 4096] {
        let mut net = Net::new(12, 3);
        net.piece = piece;
        let mut expected = Vec::new();
        for node in 1..12 {
            expected.extend(format!("card of {node};").repeat(node as usize % 4).bytes());
        }
        for node in [3, 11, 1, 2, 10, 9, 8, 4, 5, 7, 6] {
            let data = format!("card of {node};").repeat(node as usize % 4);
            net.contribute(node, 1, data.as_bytes());
            net.run();
        }
        let results = net.results(1);
        assert_eq!(results.len(), 12);
        assert!(results.iter().all(|(data, _)| *data == expected), "pieces of {piece}");
    }
}

#[test]
fn long_contributions_pass_in_chunks() {
    let mut net = Net::new(22, 4);
    let len = |node: u32| CHUNK_BYTES * (node as usize % 3) + node as usize - 1;
    let data = |node: u32| -> Vec<u8> {
        (0..len(node)).map(|at| u8::try_from((at * 7 + node as usize) % 251).unwrap()).collect()
    };
    let expected: Vec<u8> = (1..22).flat_map(data).collect();
    for node in 1..22 {
        net.contribute(node, 1, &data(node));
    }
    net.run();
    let results = net.results(1);
    assert_eq!(results.len(), 22);
    assert!(results.iter().all(|(data, members)| *data == expected && *members == 42));
}

#[test]
fn operations_that_overlap_end_each_by_itself() {
    let mut net = Net::new(7, 2);
    for number in [1, 2, 3] {
        for node in 1..7 {
            if node != number {
                net.contribute(node, number, &[u8::try_from(number).unwrap()]);
            }
        }
    }
    net.run();
    for number in [2, 3, 1] {
        assert!(net.results(number).is_empty());
        net.contribute(number, number, &[u8::try_from(number).unwrap()]);
        net.run();
        assert_eq!(net.results(number).len(), 7);
    }
}

#[test]
fn head_may_contribute_and_a_second_contribution_is_refused() {
    let mut net = Net::new(3, 4);
    net.contribute(0, 1, b"head ");
    net.contribute(2, 1, b"two");
    let again = net.node(2).contribute(id(1), Contribution::default());
    assert_eq!(again, Err(TreeError::Contributed));
    net.run();
    net.contribute(1, 1, b"one ");
    net.run();
    assert_eq!(net.results(1), vec![(b"head one two".to_vec(), 6); 3]);
    let again = net.node(2).contribute(id(1), Contribution::default());
    assert_eq!(again, Err(TreeError::Contributed));
}

#[test]
fn excluded_node_is_not_awaited() {
    let mut net = Net::new(6, 4);
    for node in [1, 2, 3, 5] {
        net.contribute(node, 1, b"x");
    }
    net.run();
    assert_eq!(net.node(0).missing(id(1)).collect::<Vec<_>>(), [NodeId(4)]);
    net.node(0).exclude(NodeId(4)).unwrap();
    net.run();
    assert_eq!(net.results(1), vec![(b"xxxx".to_vec(), 8); 5]);
    assert_eq!(net.events[4], [TreeEvent::Expelled]);
    assert_eq!(net.node(0).exclude(NodeId(0)), Err(TreeError::NoNode(NodeId(0))));
}

#[test]
fn unfinished_operations_of_an_ended_job_take_no_place() {
    let mut net = Net::new(7, 2);
    // More than a node may have open at once.
    for number in 0..1100 {
        net.contribute(1, number, b"a");
        net.contribute(6, number, b"b");
        net.run();
        let job = id(number).job;
        (0..7).for_each(|node| net.node(node).end_job(job));
    }
    for node in 1..7 {
        net.contribute(node, 2000, b"");
    }
    net.run();
    assert_eq!(net.results(2000).len(), 7);
}
