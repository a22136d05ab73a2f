//! Frames of every kind between nodes, with their lists.

use pmi_core::wire::nodes::{
    self, AttachFrame, CollectiveId, Content, ContributionPart, GoneNode, GrownTree, MessageFrame,
    MovedNode, NodeBytes, NodeFrame, Refusal, Target, VERSION,
};
use serde::Serialize;

const ID: CollectiveId = CollectiveId { job: 1, kind: 2, number: 300 };

/// One frame of each kind, and one message for each meaning of a body.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let moved = MovedNode { node: 5, epoch: 2, parent: 0 };
    let chain = [list(&1_u32), list(&0_u32)].concat();
    let empty = ContributionPart { node: 5, count: 3, members: 400, total: 0, offset: 0, len: 0 };
    let part = ContributionPart { count: 1, members: 2, total: 5, offset: 2, len: 3, ..empty };
    let parts = [list(&empty), list(&part)].concat();
    let attach = AttachFrame {
        version: VERSION,
        node: 5,
        nodes: 22,
        radix: 4,
        epoch: 1,
        received: [3, u64::MAX],
        ended: 2,
        offset: 100,
        acknowledged: 1,
        moved: NodeBytes(&list(&moved)),
    };
    let contribution = NodeFrame::Contribution {
        id: ID,
        ended: 7,
        is_complete: true,
        parts: NodeBytes(&parts),
        data: NodeBytes(b"abc"),
    };
    let (sequence, members, total, offset) = (1, 400, 5, 2);
    let ended =
        NodeFrame::Ended { sequence, id: ID, members, total, offset, data: NodeBytes(b"xyz") };
    let mut frames = vec![
        written(&NodeFrame::Attach(attach)),
        written(&NodeFrame::Welcome { version: VERSION, chain: NodeBytes(&chain) }),
        written(&NodeFrame::Refuse(Refusal::Behind)),
        written(&NodeFrame::Ping),
        written(&NodeFrame::Chain { chain: NodeBytes(&chain) }),
        written(&NodeFrame::Resend),
        written(&contribution),
        written(&ended),
        written(&NodeFrame::Settled { control: 1, output: 2, ended: 300 }),
        written(&NodeFrame::HeadLost),
    ];
    let bodies = [
        (Content::Owner, Target::Node(9), b"abc".to_vec()),
        (Content::Owner, Target::Parent, b"abc".to_vec()),
        (Content::Gone, Target::Head, list(&GoneNode { node: 5, is_silent: true })),
        (Content::Moved, Target::Head, list(&moved)),
        (Content::Excluded, Target::All, list(&300_u32)),
        (Content::Grown, Target::All, list(&GrownTree { nodes: 301, first_job: 2 })),
    ];
    frames.extend(bodies.iter().map(|(content, to, body)| message(*content, *to, body)));
    frames
}

fn message(content: Content, to: Target, body: &[u8]) -> Vec<u8> {
    written(&NodeFrame::Message(MessageFrame {
        class: 1,
        from: 7,
        to,
        number: 4,
        content,
        total: body.len() as u32,
        offset: 0,
        data: NodeBytes(body),
    }))
}

/// The encoded list of one item.
fn list(item: &impl Serialize) -> Vec<u8> {
    let mut out = vec![0; 64];
    let len = nodes::write_item(item, &mut out).expect("an item is short");
    out.truncate(len);
    out
}

fn written(frame: &NodeFrame<'_>) -> Vec<u8> {
    let mut out = vec![0; 256];
    let len = nodes::write(frame, &mut out).expect("these frames are short");
    out.truncate(len);
    out
}
