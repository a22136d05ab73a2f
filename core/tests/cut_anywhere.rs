//! A stream may be cut anywhere: no cut changes its messages.

mod meaning;
mod transcript;

use pmi_core::wire::Framed;
use transcript::{Message, Scenario, Voice, escaped};

#[test]
fn front_of_a_message_is_partial_or_as_wrong_as_the_whole() {
    for message in messages() {
        let whole_is_wrong = meaning::of(&message).starts_with(b"malformed");
        for cut in 0..message.bytes.len() {
            let front = &message.bytes[..cut];
            match message.from.frame(front) {
                Ok(Framed::Partial) => {}
                Err(_) if whole_is_wrong => {}
                other => panic!("{}: {} is {other:?}", message.label, escaped(front)),
            }
        }
    }
}

#[test]
fn bytes_behind_a_message_are_not_inspected() {
    let next: [&[u8]; 6] =
        [b"cmd=put_result rc=0\n", b"cmd=finalize\n", b"mcmd=spawn\n", b"\n", b"\0\xff", b"c"];
    for message in messages().iter().filter(|message| message.unframed.is_none()) {
        let alone = meaning::of(message);
        for next in next {
            let joined = [&message.bytes, next].concat();
            let framed = message.from.frame(&joined);
            let label = &message.label;
            assert_eq!(framed, Ok(Framed::Whole(message.bytes.len())), "{label} {}", escaped(next));
            assert_eq!(meaning::read(message.from, &joined[..message.bytes.len()]), alone);
        }
    }
}

#[test]
fn stream_in_single_bytes_says_the_same_as_in_one_piece() {
    for scenario in transcript::all().into_iter().flat_map(|t| t.scenarios) {
        let in_steps = said(&scenario);
        let mut in_bytes = Vec::new();
        let mut streams = std::collections::BTreeMap::<(u32, Voice), Vec<u8>>::new();
        for step in scenario.steps() {
            let stream = streams.entry((step.rank, step.from)).or_default();
            for byte in &step.bytes {
                stream.push(*byte);
                let is_interleaved = step.from.reorder(stream);
                if let Ok(Framed::Whole(len)) = step.from.frame(stream) {
                    assert!(len == stream.len() || is_interleaved, "{}: ends late", step.label);
                    let message: Vec<u8> = stream.drain(..len).collect();
                    in_bytes.push((step.rank, step.from, meaning::read(step.from, &message)));
                }
            }
        }
        // A message without an end is detected by its first bytes; the test above covers those.
        let wrong = |said: &[u8]| said.starts_with(b"malformed");
        let right = |all: Vec<(u32, Voice, Vec<u8>)>| {
            all.into_iter().filter(|(_, _, said)| !wrong(said)).collect::<Vec<_>>()
        };
        assert_eq!(right(in_bytes), right(in_steps), "{}", scenario.label);
    }
}

fn messages() -> Vec<Message> {
    let transcripts = transcript::all();
    transcripts.iter().flat_map(|t| &t.scenarios).flat_map(Scenario::messages).collect()
}

fn said(scenario: &Scenario) -> Vec<(u32, Voice, Vec<u8>)> {
    let messages = scenario.messages();
    messages.iter().map(|m| (m.rank, m.from, meaning::of(m))).collect()
}
