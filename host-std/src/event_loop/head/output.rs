//! Output of ranks on its arrival at the head.

use super::HeadLoop;
use super::terminal::{self, HeadTerminal};
use crate::numbers::index;
use crate::stdio::record::{OutputRecord, TextPlace};
use crate::stream::Stream;
use pmi_tree::NodeId;
use std::io;
use std::time::Duration;

/// Handles records of one node, or of several that were merged below the head.
///
/// # Errors
///
/// Errors of the readiness calls.
pub(super) fn handle(head: &mut HeadLoop, from: Option<NodeId>, records: &[u8]) -> io::Result<()> {
    let mut rest = records;
    while let Some(record) = OutputRecord::next(&mut rest) {
        match record {
            OutputRecord::Text { job, rank, stream, text } => {
                if let Some(number) = number(head, from, (job, rank)) {
                    head.io.outputs.receive((stream, number), text);
                }
            }
            OutputRecord::Shared { job, stream, held_ms, places, text, .. } => {
                let held = Duration::from_millis(held_ms.into());
                handle_shared(head, (job, stream), &places, (text, held));
            }
            OutputRecord::Ended { job, rank, stream } => {
                if let Some(number) = number(head, from, (job, rank)) {
                    head.io.outputs.end_remote(stream, number);
                    let is_of = |terminal: &HeadTerminal| terminal.is_of(job, rank);
                    if head.input.terminal.as_ref().is_some_and(is_of) {
                        terminal::end(head)?;
                    }
                }
            }
            OutputRecord::Message { node, number, text } => {
                let node = from.unwrap_or(NodeId(node));
                let Some(state) = head.nodes.get_mut(node) else { continue };
                if from.is_some() || state.note_message(number) {
                    let line = format!("{}: {}", state.host, String::from_utf8_lossy(text));
                    head.io.report(line);
                }
            }
        }
    }
    Ok(())
}

/// Process number of a rank, if it is on this node, or on any.
fn number(head: &HeadLoop, from: Option<NodeId>, rank: (u32, u32)) -> Option<u32> {
    match from {
        Some(node) => head.nodes.number_on(node, rank),
        None => head.nodes.number_of(rank),
    }
}

fn handle_shared(
    head: &mut HeadLoop,
    (job, stream): (u32, Stream),
    places: &[TextPlace],
    (text, held): (&[u8], Duration),
) {
    // A set of more ranks than there are is none of an agent.
    let hosts = head.operations.places(index(job));
    let most = hosts.map_or(0, |hosts| u64::from(hosts.map.ranks()));
    if places.iter().map(|place| place.ranks.count()).sum::<u64>() > most {
        return;
    }
    let mut numbers = Vec::new();
    for TextPlace { at, ranks } in places {
        for rank in ranks.iter() {
            match head.nodes.note_text((job, rank, stream), (*at, text.len())) {
                Some((number, 0)) => numbers.push(number),
                Some((number, known)) => {
                    let new = text.get(known..).unwrap_or_default();
                    head.io.outputs.receive_shared((stream, &[number]), new, held);
                }
                None => {}
            }
        }
    }
    head.io.outputs.receive_shared((stream, &numbers), text, held);
}
