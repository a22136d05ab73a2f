//! The client's second connection in the role of a process that listens.

use crate::meaning;
use crate::transcript::{Line, Scenario, Side, Step, escaped};
use pmi_core::client::{LISTENER_BYTES, Listener, ListenerEvent};
use pmi_core::command::{Answer, Reply, Request, Verb};
use pmi_core::error::Code;
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::storage::ArrayBuffer;
use pmi_core::time::Instant;

type Member = Listener<ArrayBuffer<LISTENER_BYTES>>;

/// Replays a scenario with a line `@ listener`; the server's bytes arrive in pieces of `piece_bytes`.
/// Returns the number of received messages.
pub(crate) fn play(scenario: &Scenario, piece_bytes: usize) -> usize {
    let mut member = None;
    let mut received = 0;
    for line in &scenario.lines {
        let Line::Said(step) = line else { continue };
        match (step.from.side, &mut member) {
            (Side::Client, None) => member = Some(open(step)),
            (Side::Server, Some(member)) => received += recv(member, step, piece_bytes),
            // A listener sends nothing but the opening.
            (Side::Client, Some(_)) => {}
            (Side::Server, None) => panic!("{}: no listener", step.label),
        }
    }
    received
}

/// Opens with the bytes of the transcript.
fn open(step: &Step) -> Member {
    let said = step.from.dialect(&step.bytes).read_request(&step.bytes).expect("a message");
    let Some(Request::OutOfBand { id, signal, version }) = said.request else {
        panic!("{}: this opens no second connection", step.label)
    };
    let signal = signal.map(|signal| std::str::from_utf8(signal.as_plain().unwrap()).unwrap());
    let id = id.expect("an identity");
    let mut member = Listener::new(ArrayBuffer::new(), id, signal, version).expect("sayable");
    let mut out = [0; MESSAGE_BYTES];
    let len = member.poll_transmit(&mut out).expect("room").expect("an opening");
    assert_eq!(escaped(&out[..len]), escaped(&step.bytes), "{}", step.label);
    assert_eq!(member.poll_transmit(&mut out), Ok(None));
    member
}

/// Hands bytes in and checks the events; a refusal ends the connection.
fn recv(member: &mut Member, step: &Step, piece_bytes: usize) -> usize {
    let mut means = step.means.iter().map(|means| escaped(means));
    for mut piece in step.bytes.chunks(piece_bytes) {
        while !piece.is_empty() {
            let Ok(taken) = member.handle_input(Instant::ZERO, piece) else {
                let refused = means.next().expect("a meaning");
                assert!(!refused.contains("rc=0"), "{}: {refused} is refused", step.label);
                assert!(member.is_finished());
                return step.means.len();
            };
            piece = &piece[taken..];
            let Some(told) = member.poll_event() else { continue };
            let (to, answer) = match told {
                ListenerEvent::Opened(version) => (Verb::OutOfBand, Answer::Version(version)),
                ListenerEvent::Notice(notice) => (Verb::Notice, Answer::Notice(notice)),
            };
            let reply = Reply { to, tag: b"", code: Code::SUCCESS, answer };
            assert_eq!(Some(escaped(&meaning::reply(&reply))), means.next(), "{}", step.label);
        }
    }
    assert_eq!(means.next(), None, "{}: receives less", step.label);
    step.means.len()
}
