//! Output of ranks on its arrival at the head.

use super::Run;
use super::terminal::{self, HeadTerminal};
use crate::link::message::ToNode;
use crate::numbers::index;
use crate::stdio::record::{OutputRecord, TextPlace};
use pmi_host_os::stream::Stream;
use pmi_tree::{Destination, NodeId};
use std::io;
use std::time::Duration;

/// Handles records of one node, or of several that were merged below the head.
pub(super) fn handle(run: &mut Run, from: Option<NodeId>, records: &[u8]) -> io::Result<()> {
    let mut rest = records;
    while let Some(record) = OutputRecord::next(&mut rest) {
        match record {
            OutputRecord::Text { job, rank, stream, text } => {
                if let Some(number) = number(run, from, (job, rank)) {
                    run.io.outputs.receive((stream, number), text);
                }
            }
            OutputRecord::Shared { job, stream, held_ms, places, text, .. } => {
                let held = Duration::from_millis(held_ms.into());
                handle_shared(run, (job, stream), &places, (text, held));
            }
            OutputRecord::Ended { job, rank, stream } => {
                if let Some(number) = number(run, from, (job, rank)) {
                    run.io.outputs.end_remote(stream, number);
                    let is_of = |terminal: &HeadTerminal| terminal.is_of(job, rank);
                    if run.input.terminal.as_ref().is_some_and(is_of) {
                        terminal::end(run)?;
                    }
                }
            }
            OutputRecord::UpToDate { job, rank, stream } => {
                if let Some(number) = number(run, from, (job, rank)) {
                    run.io.outputs.end_wanted(stream, number);
                }
            }
            OutputRecord::Message { node, number, text } => {
                let node = from.unwrap_or(NodeId(node));
                let Some(state) = run.nodes.get_mut(node) else { continue };
                if from.is_some() || state.note_message(number) {
                    let line = String::from_utf8_lossy(text);
                    let line = match run.jobs.names_hosts() {
                        true => format!("{}: {line}", state.host),
                        false => line.into_owned(),
                    };
                    run.io.report(line);
                }
            }
        }
    }
    Ok(())
}

/// Asks the nodes of ranks for the rest of lines for which text of others waits.
pub(super) fn ask_for_lines(run: &mut Run) {
    for (process, stream) in run.io.outputs.take_wanted() {
        let Some((known, _)) = run.nodes.process(process) else { continue };
        let (job, rank) = known.owner;
        let places = run.operations.places(index(job));
        let Some(node) = places.and_then(|places| places.map.node_of(rank)) else { continue };
        let message = ToNode::WantLine { job, rank, stream };
        run.send(Destination::Node(NodeId(node + 1)), message);
    }
}

/// Process number of a rank, if it is on this node, or on any.
fn number(run: &Run, from: Option<NodeId>, rank: (u32, u32)) -> Option<u32> {
    match from {
        Some(node) => run.nodes.number_on(node, rank),
        None => run.nodes.number_of(rank),
    }
}

fn handle_shared(
    run: &mut Run,
    (job, stream): (u32, Stream),
    places: &[TextPlace],
    (text, held): (&[u8], Duration),
) {
    // A set of more ranks than there are is none of a node.
    let hosts = run.operations.places(index(job));
    let most = hosts.map_or(0, |hosts| u64::from(hosts.map.ranks()));
    if places.iter().map(|place| place.ranks.count()).sum::<u64>() > most {
        return;
    }
    let mut numbers = Vec::new();
    for TextPlace { at, ranks } in places {
        for rank in ranks.iter() {
            match run.nodes.note_text((job, rank, stream), (*at, text.len())) {
                Some((number, 0)) => numbers.push(number),
                Some((number, known)) => {
                    let new = text.get(known..).unwrap_or_default();
                    run.io.outputs.receive_shared((stream, &[number]), new, held);
                }
                None => {}
            }
        }
    }
    run.io.outputs.receive_shared((stream, &numbers), text, held);
}
