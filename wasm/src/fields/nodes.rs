//! Frames between nodes, field by field.

use super::{Fields, MessageField};
use pmi_core::wire::nodes::{
    AttachFrame, ContributionPart, HEAD_BYTES, ListItems, NodeFrame, Refusal, Target, read,
};

/// Name of this wire format.
pub(crate) const DIALECT: &str = "nodes";

/// The fields of a whole frame.
pub(crate) fn of(message: &[u8]) -> Fields {
    let mut fields = Cursor { message, at: 0, fields: Vec::new() };
    fields.fixed("length", HEAD_BYTES);
    let Ok(frame) = read(message) else { return Fields::default() };
    fields.word("frame", name(&frame));
    match frame {
        NodeFrame::Attach(AttachFrame { .. }) => {
            for name in ["version", "node", "nodes", "radix", "epoch"] {
                fields.number(name);
            }
            for name in ["control", "output", "ended", "offset", "acknowledged"] {
                fields.number(name);
            }
            fields.list("moved");
        }
        NodeFrame::Welcome { .. } => {
            fields.number("version");
            fields.list("chain");
        }
        NodeFrame::Chain { .. } => fields.list("chain"),
        NodeFrame::Refuse(reason) => fields.word(
            "reason",
            match reason {
                Refusal::Version => "another version",
                Refusal::Shape => "another shape of the tree",
                Refusal::Excluded => "the head has excluded the node",
                Refusal::Behind => "the parent cannot supply what the child lacks",
            },
        ),
        NodeFrame::Ping | NodeFrame::Resend | NodeFrame::HeadLost => {}
        NodeFrame::Contribution { parts, .. } => {
            fields.id();
            fields.number("ended");
            fields.number("complete");
            let parts = ListItems::<ContributionPart>::new(parts.0).flatten();
            let (mut nodes, mut ranks) = (0, 0);
            for ContributionPart { count, members, .. } in parts {
                nodes += u64::from(count);
                ranks += u64::from(count) * u64::from(members);
            }
            fields.bytes("nodes", Some(format!("{nodes} with {ranks} ranks")));
            fields.bytes("data", None);
        }
        NodeFrame::Ended { .. } => {
            fields.number("sequence");
            fields.id();
            for name in ["ranks", "total", "offset"] {
                fields.number(name);
            }
            fields.bytes("data", None);
        }
        NodeFrame::Message(message) => {
            fields.number("class");
            fields.number("from");
            fields.number("to");
            if let Target::Node(_) = message.to {
                fields.number("target");
            }
            for name in ["number", "content", "total", "offset"] {
                fields.number(name);
            }
            fields.bytes("data", None);
        }
        NodeFrame::Settled { .. } => {
            for name in ["control", "output", "ended"] {
                fields.number(name);
            }
        }
    }
    Fields { dialect: DIALECT, fields: fields.fields }
}

/// The name of a frame, as in the documentation of the wire.
pub(crate) const fn name(frame: &NodeFrame<'_>) -> &'static str {
    match frame {
        NodeFrame::Attach(_) => "attach",
        NodeFrame::Welcome { .. } => "welcome",
        NodeFrame::Refuse(_) => "refuse",
        NodeFrame::Ping => "ping",
        NodeFrame::Chain { .. } => "chain",
        NodeFrame::Resend => "resend",
        NodeFrame::Contribution { .. } => "contribution",
        NodeFrame::Ended { .. } => "ended",
        NodeFrame::Message(_) => "message",
        NodeFrame::Settled { .. } => "settled",
        NodeFrame::HeadLost => "head-lost",
    }
}

/// Reads the encoding of a frame that was read before, to find the places of its fields.
struct Cursor<'a> {
    message: &'a [u8],
    at: usize,
    fields: Vec<MessageField>,
}

impl Cursor<'_> {
    fn push(&mut self, name: &str, start: usize, value: usize, text: Option<String>) {
        let name = name.into();
        self.fields.push(MessageField { start, value, end: self.at, name, text });
    }

    /// A number of a fixed length, the lowest byte first.
    fn fixed(&mut self, name: &str, len: usize) {
        let start = self.at;
        self.at = (start + len).min(self.message.len());
        let bytes = self.message[start..self.at].iter().rev();
        let value = bytes.fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        self.push(name, start, start, Some(value.to_string()));
    }

    /// A number of seven bits in each byte, the lowest first.
    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.message.get(self.at).copied() else { return value };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn number(&mut self, name: &str) {
        let start = self.at;
        let value = self.varint();
        self.push(name, start, start, Some(value.to_string()));
    }

    /// A number with a meaning.
    fn word(&mut self, name: &str, text: &str) {
        let start = self.at;
        self.varint();
        self.push(name, start, start, Some(text.into()));
    }

    /// The identity of a collective operation.
    fn id(&mut self) {
        for name in ["job", "kind", "operation"] {
            self.number(name);
        }
    }

    /// Bytes with their length in front.
    fn bytes(&mut self, name: &str, text: Option<String>) {
        let start = self.at;
        let len = usize::try_from(self.varint()).unwrap_or(usize::MAX);
        let value = self.at;
        self.at = value.saturating_add(len).min(self.message.len());
        self.push(name, start, value, text);
    }

    /// A list of small numbers, which is written as bytes.
    fn list(&mut self, name: &str) {
        let (start, index) = (self.at, self.fields.len());
        self.bytes(name, None);
        let (value, end) = (self.fields[index].value, self.at);
        self.at = value;
        let mut all = Vec::new();
        while self.at < end {
            all.push(self.varint().to_string());
        }
        self.at = end;
        debug_assert!(start <= value);
        self.fields[index].text = Some(all.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::nodes::{CollectiveId, MessageFrame, NodeBytes, write, write_item};

    fn written(frame: &NodeFrame<'_>) -> Vec<u8> {
        let mut out = [0; 300];
        let len = write(frame, &mut out).unwrap();
        out[..len].to_vec()
    }

    #[test]
    fn fields_of_every_frame_follow_each_other_to_its_end() {
        let id = CollectiveId { job: 1, kind: 0, number: 300 };
        let content = pmi_core::wire::nodes::Content::Owner;
        let message = |to| {
            NodeFrame::Message(MessageFrame {
                class: 1,
                from: 700,
                to,
                number: 2,
                content,
                total: 3,
                offset: 0,
                data: NodeBytes(b"abc"),
            })
        };
        let attach = AttachFrame {
            version: 1,
            node: 300,
            nodes: 400,
            radix: 4,
            epoch: 2,
            received: [1, 200],
            ended: 1,
            offset: 0,
            acknowledged: 1,
            moved: NodeBytes(&[1, 2, 3]),
        };
        let frames = [
            NodeFrame::Attach(attach),
            NodeFrame::Welcome { version: 1, chain: NodeBytes(&[1, 0]) },
            NodeFrame::Refuse(Refusal::Behind),
            NodeFrame::Ping,
            NodeFrame::Chain { chain: NodeBytes(&[0]) },
            NodeFrame::Resend,
            NodeFrame::Contribution {
                id,
                ended: 0,
                is_complete: true,
                parts: NodeBytes(b""),
                data: NodeBytes(b"xy"),
            },
            NodeFrame::Ended {
                sequence: 1,
                id,
                members: 400,
                total: 3,
                offset: 0,
                data: NodeBytes(b"xyz"),
            },
            message(Target::Node(500)),
            message(Target::All),
            NodeFrame::Settled { control: 1, output: 300, ended: 2 },
            NodeFrame::HeadLost,
        ];
        for frame in frames {
            let bytes = written(&frame);
            let found = of(&bytes);
            assert_eq!(
                (found.dialect, found.fields[1].text.as_deref()),
                ("nodes", Some(name(&frame)))
            );
            let mut at = 0;
            for field in &found.fields {
                assert_eq!((field.start, field.value >= field.start), (at, true), "{frame:?}");
                at = field.end;
            }
            assert_eq!(at, bytes.len(), "{frame:?}: {:?}", found.fields);
        }
        assert_eq!(of(b"\x02\x00\x63\x63"), Fields::default());
    }

    #[test]
    fn contribution_counts_its_nodes_and_their_ranks() {
        let mut list = [0; 64];
        let part = |node, count| ContributionPart {
            node,
            count,
            members: 16,
            total: 0,
            offset: 0,
            len: 0,
        };
        let first = write_item(&part(5, 4), &mut list).unwrap();
        let len = first + write_item(&part(21, 1), &mut list[first..]).unwrap();
        let id = CollectiveId { job: 1, kind: 0, number: 2 };
        let parts = NodeBytes(&list[..len]);
        let data = NodeBytes(b"");
        let bytes =
            written(&NodeFrame::Contribution { id, ended: 1, is_complete: true, parts, data });
        let found = of(&bytes);
        let text =
            |name: &str| found.fields.iter().find(|field| field.name == name)?.text.as_deref();
        assert_eq!(text("nodes"), Some("5 with 80 ranks"));
        assert_eq!(
            (text("operation"), text("ended"), text("complete")),
            (Some("2"), Some("1"), Some("1"))
        );
    }
}
