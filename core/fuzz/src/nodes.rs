//! Frames between nodes: any bytes are framed and read without harm, and every read frame can be written again.

use super::decode::{fits, front};
use pmi_core::wire::Framed;
use pmi_core::wire::nodes::{
    self, Content, ContributionPart, GoneNode, GrownTree, ListItems, MovedNode, NodeFrame,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Frames of the tree of nodes, with their lists. A number may be longer than needed, so the bytes need
/// not be the same after writing, but their meaning is.
pub fn decode_nodes(bytes: &[u8]) {
    let Some(message) = front(bytes, nodes::frame) else { return };
    let Ok(frame) = nodes::read(message) else { return };
    let out = fits(|out| nodes::write(&frame, out));
    assert!(out.len() <= message.len(), "{frame:?} is written longer than it was read");
    assert_eq!(nodes::frame(&out), Ok(Framed::Whole(out.len())), "{frame:?}");
    assert_eq!(nodes::read(&out), Ok(frame));
    match frame {
        NodeFrame::Attach(attach) => check_list::<MovedNode>(attach.moved.0),
        NodeFrame::Welcome { chain, .. } | NodeFrame::Chain { chain } => check_list::<u32>(chain.0),
        NodeFrame::Contribution { parts, .. } => check_list::<ContributionPart>(parts.0),
        NodeFrame::Message(message) => match message.content {
            Content::Owner => {}
            Content::Gone => check_list::<GoneNode>(message.data.0),
            Content::Moved => check_list::<MovedNode>(message.data.0),
            Content::Excluded => check_list::<u32>(message.data.0),
            Content::Grown => check_list::<GrownTree>(message.data.0),
        },
        _ => {}
    }
}

/// Checks that a list ends, at its first invalid item at the latest, and that its items can be written again.
fn check_list<T: DeserializeOwned + Serialize + PartialEq + Debug>(list: &[u8]) {
    let mut items = ListItems::<T>::new(list);
    let mut written = 0;
    while let Some(item) = items.next() {
        let Ok(item) = item else {
            assert!(items.next().is_none(), "an item follows an invalid one");
            return;
        };
        let out = fits(|out| nodes::write_item(&item, out));
        let mut again = ListItems::<T>::new(&out);
        assert_eq!(again.next(), Some(Ok(item)));
        assert!(again.next().is_none(), "one item is written as two");
        written += out.len();
    }
    assert!(written <= list.len(), "{written} bytes are written of a list of {}", list.len());
}
