//! Frames that no node sends.

use pmi_core::time::Instant;
use pmi_core::wire::nodes::{
    self, AttachFrame, CHUNK_BYTES, CollectiveId, Content, ContributionPart, MessageFrame,
    MovedNode, NodeBytes, NodeFrame, Refusal, Target, VERSION,
};
use pmi_tree::{CloseReason, EdgeLoss, NodeId, TreeConfig, TreeError, TreeEvent, TreeNode};

const NOW: Instant = Instant::ZERO;
const ID: CollectiveId = CollectiveId { job: 0, kind: 0, number: 1 };

fn written(frame: &NodeFrame<'_>) -> Vec<u8> {
    let mut out = vec![0; 2 * CHUNK_BYTES];
    let len = nodes::write(frame, &mut out).unwrap();
    out.truncate(len);
    out
}

fn list(parts: &[ContributionPart]) -> Vec<u8> {
    let encoded = parts.iter().flat_map(|part| {
        let mut out = vec![0; 40];
        let len = nodes::write_item(part, &mut out).unwrap();
        out.truncate(len);
        out
    });
    encoded.collect()
}

fn attach(node: u32) -> AttachFrame<'static> {
    AttachFrame {
        version: VERSION,
        node,
        nodes: 22,
        radix: 4,
        epoch: 1,
        received: [0; 2],
        ended: 0,
        offset: 0,
        acknowledged: 0,
        moved: NodeBytes(b""),
    }
}

/// Node 1 of 22, with its parent 0 and its child 5 attached.
fn node() -> TreeNode {
    let mut node = TreeNode::new(TreeConfig::new(NodeId(1), 22));
    node.connected(NodeId(0), NOW);
    let welcome = NodeFrame::Welcome { version: VERSION, chain: NodeBytes(b"") };
    node.receive(NodeId(0), &written(&welcome), NOW).unwrap();
    node.connected(NodeId(5), NOW);
    node.receive(NodeId(5), &written(&NodeFrame::Attach(attach(5))), NOW).unwrap();
    assert_eq!(node.children().collect::<Vec<_>>(), [NodeId(5)]);
    node
}

fn error(peer: u32, frame: &NodeFrame<'_>) -> TreeError {
    let mut node = node();
    let error = node.receive(NodeId(peer), &written(frame), NOW).expect_err(&format!("{frame:?}"));
    assert_eq!(node.receive(NodeId(peer), b"", NOW), Err(TreeError::NoEdge(NodeId(peer))));
    error
}

#[test]
fn bytes_of_no_frame_end_the_edge() {
    for bytes in [&[0, 0][..], &[0xff, 0xff, 0], &[1, 0, 200], &[2, 0, 3, 0], &[2, 0, 6, 0x80]] {
        let mut node = node();
        let error = node.receive(NodeId(5), bytes, NOW);
        assert!(matches!(error, Err(TreeError::Malformed(_))), "{bytes:?}: {error:?}");
        assert_eq!(node.children().count(), 0);
        assert!(node.is_attached());
    }
}

#[test]
fn frames_of_the_wrong_side_or_time_are_refused() {
    let up = NodeFrame::Contribution {
        id: ID,
        ended: 0,
        is_complete: true,
        parts: NodeBytes(b""),
        data: NodeBytes(b""),
    };
    let down = NodeFrame::Ended {
        sequence: 1,
        id: ID,
        members: 0,
        total: 0,
        offset: 0,
        data: NodeBytes(b""),
    };
    let chain = NodeFrame::Chain { chain: NodeBytes(b"") };
    for frame in [up, NodeFrame::Attach(attach(0))] {
        assert!(matches!(error(0, &frame), TreeError::OutOfOrder(_)), "{frame:?}");
    }
    let refuse = NodeFrame::Refuse(Refusal::Behind);
    for frame in [down, chain, NodeFrame::Resend, refuse, NodeFrame::HeadLost] {
        assert!(matches!(error(5, &frame), TreeError::OutOfOrder(_)), "{frame:?}");
    }
    let mut node = TreeNode::new(TreeConfig::new(NodeId(1), 22));
    node.connected(NodeId(5), NOW);
    let early = node.receive(NodeId(5), &written(&NodeFrame::Ping), NOW);
    assert_eq!(early, Err(TreeError::OutOfOrder("Ping")));
}

#[test]
fn contributions_out_of_range_are_refused() {
    let part = ContributionPart { node: 5, count: 1, members: 1, total: 2, offset: 0, len: 2 };
    let cases: [(ContributionPart, &[u8]); 10] = [
        (ContributionPart { node: 6, ..part }, b"ab"),
        (ContributionPart { node: 22, ..part }, b"ab"),
        (ContributionPart { count: 2, ..part }, b"ab"),
        (ContributionPart { count: 0, ..part }, b"ab"),
        (ContributionPart { offset: 1, ..part }, b"ab"),
        (ContributionPart { offset: u32::MAX, ..part }, b"ab"),
        (ContributionPart { total: u32::MAX, ..part }, b"ab"),
        (ContributionPart { len: 0, ..part }, b""),
        (part, b"a"),
        (part, b"abc"),
    ];
    for (part, data) in cases {
        let parts = list(&[part]);
        let frame = NodeFrame::Contribution {
            id: ID,
            ended: 0,
            is_complete: false,
            parts: NodeBytes(&parts),
            data: NodeBytes(data),
        };
        assert!(matches!(error(5, &frame), TreeError::OutOfRange(_)), "{part:?}");
    }
    let frame = NodeFrame::Contribution {
        id: ID,
        ended: 7,
        is_complete: false,
        parts: NodeBytes(b""),
        data: NodeBytes(b""),
    };
    assert!(matches!(error(5, &frame), TreeError::OutOfRange(_)));
}

#[test]
fn messages_out_of_range_are_refused() {
    let up = MessageFrame {
        class: 0,
        from: 5,
        to: Target::Head,
        number: 1,
        content: Content::Owner,
        total: 2,
        offset: 0,
        data: NodeBytes(b"ab"),
    };
    for frame in [
        MessageFrame { class: 2, ..up },
        MessageFrame { from: 6, ..up },
        MessageFrame { to: Target::Node(22), ..up },
        MessageFrame { content: Content::Gone, to: Target::All, ..up },
        MessageFrame { content: Content::Excluded, ..up },
        MessageFrame { content: Content::Moved, data: NodeBytes(&[6, 1]), ..up },
        MessageFrame { content: Content::Moved, data: NodeBytes(&[0x80, 0x80]), ..up },
        MessageFrame { total: 1, ..up },
        MessageFrame { total: u32::MAX, ..up },
        MessageFrame { offset: 1, ..up },
        MessageFrame { data: NodeBytes(b""), ..up },
    ] {
        error(5, &NodeFrame::Message(frame));
    }
    let down = MessageFrame { from: 0, to: Target::All, ..up };
    let moved = |data| MessageFrame { total: 3, data: NodeBytes(data), ..down };
    for frame in [
        MessageFrame { number: 2, ..down },
        MessageFrame { to: Target::Head, ..down },
        MessageFrame { to: Target::Node(2), ..down },
        MessageFrame { to: Target::Node(1), number: 3, ..down },
        MessageFrame { content: Content::Moved, ..down },
        // Not a child of the receiver, and not to an ancestor of it.
        MessageFrame { to: Target::Node(1), content: Content::Moved, ..moved(&[2, 2, 0]) },
        MessageFrame { to: Target::Node(1), content: Content::Moved, ..moved(&[5, 2, 1]) },
        MessageFrame { to: Target::Node(1), content: Content::Gone, ..down },
        MessageFrame { content: Content::Excluded, data: NodeBytes(&[0x80, 0x80]), ..down },
    ] {
        error(0, &NodeFrame::Message(frame));
    }
    for frame in [
        NodeFrame::Settled { control: 1, output: 0, ended: 0 },
        NodeFrame::Settled { control: 0, output: u64::MAX, ended: 0 },
        NodeFrame::Settled { control: 0, output: 0, ended: 1 },
    ] {
        assert!(matches!(error(5, &frame), TreeError::OutOfRange(_)));
    }
}

#[test]
fn results_with_gaps_or_contradictions_are_refused() {
    let piece = |sequence, total, offset, data| NodeFrame::Ended {
        sequence,
        id: ID,
        members: 1,
        total,
        offset,
        data: NodeBytes(data),
    };
    assert_eq!(error(0, &piece(2, 1, 0, b"a")), TreeError::Gap);
    assert_eq!(error(0, &piece(1, 2, 1, b"a")), TreeError::Gap);
    assert!(matches!(error(0, &piece(1, 1, 0, b"ab")), TreeError::OutOfRange(_)));
    assert!(matches!(error(0, &piece(1, u64::MAX, 0, b"")), TreeError::OutOfRange(_)));
    let mut node = node();
    node.receive(NodeId(0), &written(&piece(1, 3, 0, b"a")), NOW).unwrap();
    let other = node.receive(NodeId(0), &written(&piece(1, 4, 1, b"b")), NOW);
    assert!(matches!(other, Err(TreeError::OutOfRange(_))));
}

#[test]
fn ancestors_that_are_none_are_refused() {
    for chain in [&[0, 0][..], &[2], &[1], &[0x80]] {
        error(0, &NodeFrame::Chain { chain: NodeBytes(chain) });
    }
    let mut node = TreeNode::new(TreeConfig::new(NodeId(21), 22));
    node.connected(NodeId(5), NOW);
    let welcome = |version, chain| NodeFrame::Welcome { version, chain: NodeBytes(chain) };
    let old = node.receive(NodeId(5), &written(&welcome(0, &[1, 0])), NOW);
    assert_eq!(old, Err(TreeError::Version { theirs: 0, ours: VERSION }));
    node.connected(NodeId(1), NOW);
    assert!(node.receive(NodeId(1), &written(&welcome(VERSION, &[2, 0])), NOW).is_err());
    node.connected(NodeId(0), NOW);
    node.receive(NodeId(0), &written(&welcome(VERSION, &[])), NOW).unwrap();
    assert!(node.is_attached());
}

#[test]
fn children_of_another_version_or_tree_get_the_reason() {
    let refused = |attach: AttachFrame<'_>| {
        let mut node = TreeNode::new(TreeConfig::new(NodeId(1), 22));
        node.connected(NodeId(5), NOW);
        node.receive(NodeId(5), &written(&NodeFrame::Attach(attach)), NOW).unwrap();
        let mut out = [0; 100];
        let len = node.transmit(NodeId(5), &mut out, NOW);
        assert_eq!(node.transmit(NodeId(5), &mut out, NOW), 0);
        let close = TreeEvent::Close { peer: NodeId(5), why: CloseReason::Refusing };
        assert_eq!(node.poll_event(), Some(close));
        let Ok(NodeFrame::Refuse(why)) = nodes::read(&out[..len]) else { panic!("no refusal") };
        why
    };
    assert_eq!(refused(AttachFrame { version: VERSION + 1, ..attach(5) }), Refusal::Version);
    assert_eq!(refused(AttachFrame { nodes: 23, ..attach(5) }), Refusal::Shape);
    assert_eq!(refused(AttachFrame { radix: 5, ..attach(5) }), Refusal::Shape);
    let other = NodeFrame::Attach(attach(6));
    let mut node = TreeNode::new(TreeConfig::new(NodeId(1), 22));
    node.connected(NodeId(5), NOW);
    assert!(node.receive(NodeId(5), &written(&other), NOW).is_err());
}

#[test]
fn refused_child_that_attaches_itself_nowhere_is_lost() {
    for refused in [AttachFrame { version: VERSION + 1, ..attach(1) }, attach(1)] {
        let mut head = TreeNode::new(TreeConfig::new(NodeId(0), 3));
        head.connected(NodeId(1), NOW);
        head.receive(NodeId(1), &written(&NodeFrame::Attach(refused)), NOW).unwrap();
        let due = head.poll_timeout().unwrap();
        head.handle_timeout(due);
        let (node, parent, loss) = (NodeId(1), NodeId(0), EdgeLoss::Closed);
        assert_eq!(head.poll_event(), Some(TreeEvent::NodeLost { node, parent, loss }));
    }
}

#[test]
fn nodes_elsewhere_in_the_tree_are_no_peers() {
    let mut node = node();
    for peer in [2, 6 * 4 + 1, 9, 22, u32::MAX] {
        node.connected(NodeId(peer), NOW);
        let close = TreeEvent::Close { peer: NodeId(peer), why: CloseReason::Superfluous };
        assert_eq!(
            node.poll_event(),
            (!NodeId(peer).is_below(NodeId(1), 4) || peer >= 22).then_some(close)
        );
    }
}

#[test]
fn moved_nodes_of_other_subtrees_are_passed_over() {
    let mut node = TreeNode::new(TreeConfig::new(NodeId(1), 100));
    node.connected(NodeId(5), NOW);
    let mut moved = vec![0; 40];
    let len = nodes::write_item(&MovedNode { node: 6, epoch: 9, parent: 5 }, &mut moved).unwrap();
    let attach = AttachFrame { nodes: 100, moved: NodeBytes(&moved[..len]), ..attach(5) };
    node.receive(NodeId(5), &written(&NodeFrame::Attach(attach)), NOW).unwrap();
    assert_eq!(node.children().collect::<Vec<_>>(), [NodeId(5)]);
}
