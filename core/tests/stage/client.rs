//! The client in the role of the clients of a transcript: it sends their requests and reads the bytes
//! of the server, from any server.

use crate::meaning;
use crate::transcript::{Line, Scenario, Side, Step, escaped};
use pmi_core::client::{Client, ClientEvent, PMI2_BUFFER_BYTES, State};
use pmi_core::command::Request;
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::storage::ArrayBuffer;
use pmi_core::time::Instant;
use pmi_core::wire::{Framed, WriteError};
use std::collections::BTreeMap;

type Member<const SLOTS: usize> = Client<ArrayBuffer<PMI2_BUFFER_BYTES>, SLOTS>;

/// Replays a scenario with a line `@ client`; the server's bytes arrive in pieces of `piece_bytes`.
/// Returns the number of sent and received messages.
pub(crate) fn play(scenario: &Scenario, piece_bytes: usize) -> usize {
    let has_threads = scenario.does("client").is_some_and(|how| how.ends_with(" threads"));
    let is_lines = scenario.label.starts_with("pmi1");
    if has_threads || is_lines {
        play_with::<4>(scenario, piece_bytes)
    } else {
        // With one slot a client need not name its exchanges.
        play_with::<1>(scenario, piece_bytes)
    }
}

fn play_with<const SLOTS: usize>(scenario: &Scenario, piece_bytes: usize) -> usize {
    let mut members: BTreeMap<u32, Member<SLOTS>> = BTreeMap::new();
    let mut messages = 0;
    for line in &scenario.lines {
        let Line::Said(step) = line else { continue };
        let member = members.entry(step.rank).or_insert_with(|| Client::new(ArrayBuffer::new()));
        messages += match step.from.side {
            Side::Client => say(member, step),
            Side::Server => recv(member, step, piece_bytes),
        };
    }
    for (rank, member) in members {
        let state = member.state();
        assert!(!matches!(state, State::Failed(_)), "{}: {rank} is {state:?}", scenario.label);
        assert_eq!(member.outstanding(), 0, "{}: {rank} still waits", scenario.label);
    }
    messages
}

/// Starts the request of every message of a step and checks the output: the bytes of the transcript
/// if a star marks them as the codec's own form, else other bytes of the same request.
fn say<const SLOTS: usize>(member: &mut Member<SLOTS>, step: &Step) -> usize {
    let mut rest = &step.bytes[..];
    let mut messages = 0;
    while let Ok(Framed::Whole(len)) = step.from.frame(rest) {
        let (message, after) = rest.split_at(len);
        let said = step.from.dialect(message).read_request(message).expect("a message");
        let request = said.request.expect("a request");
        let mut out = vec![0; message.len().max(MESSAGE_BYTES)];
        // Some requests are sent at once, others queued first; a spawn cannot be queued.
        let len = if message.len() % 2 == 0 || matches!(request, Request::Spawn(_)) {
            member.send(&request, &mut out).map(|(_, len)| len)
        } else {
            member
                .start(&request)
                .map(|_| member.poll_transmit(&mut out).expect("room").expect("a message"))
                .map_err(WriteError::from)
        };
        let len = len.unwrap_or_else(|error| {
            panic!("{}: {} cannot be said: {error:?}", step.label, escaped(message))
        });
        let out = &out[..len];
        if step.ours {
            assert_eq!(escaped(out), escaped(message), "{}", step.label);
        } else {
            let again = step.from.dialect(out).read_request(out).expect("a message").request;
            assert_eq!(again.map(|again| again.verb()), Some(request.verb()), "{}", step.label);
        }
        assert_eq!(member.poll_transmit(&mut [0; 1]), Ok(None), "{}: says more", step.label);
        rest = after;
        messages += 1;
    }
    assert!(rest.is_empty(), "{}: a client says whole messages", step.label);
    messages
}

/// Hands bytes in and checks the replies.
fn recv<const SLOTS: usize>(member: &mut Member<SLOTS>, step: &Step, piece_bytes: usize) -> usize {
    let mut means = step.means.iter().map(|means| escaped(means));
    for mut piece in step.bytes.chunks(piece_bytes) {
        loop {
            let taken = member.handle_input(Instant::ZERO, piece);
            piece = &piece[taken.unwrap_or_else(|error| panic!("{}: {error}", step.label))..];
            let Some(ClientEvent::Reply { reply, .. }) = member.poll_event() else { break };
            assert_eq!(Some(escaped(&meaning::reply(&reply))), means.next(), "{}", step.label);
        }
        assert!(piece.is_empty(), "{}: {} is not taken", step.label, escaped(piece));
    }
    assert_eq!(means.next(), None, "{}: receives less", step.label);
    step.means.len()
}
