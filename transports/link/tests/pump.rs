//! The driver loop with a machine that records its calls.

use std::collections::VecDeque;

use pmi_core::error::{Full, PeerError};
use pmi_core::machine::Machine;
use pmi_core::storage::ArrayBuffer;
use pmi_core::time::Instant;
use pmi_link::{LinkError, Progress, PumpError, PumpState, flush, pump};
use pmi_testkit::pipe::{ALL, BYTEWISE, GOOD, Pipe, pipe};

const NOW: Instant = Instant::ZERO;
const BROKEN: PeerError = PeerError::TimedOut;

/// Replies to every line with itself in capitals. It pauses while replies are due, and until its owner has
/// acted on a `?`; a `!` breaks it, with an explanation.
#[derive(Default)]
struct Echo {
    line: Vec<u8>,
    owed: VecDeque<Vec<u8>>,
    /// Number of due replies at which it pauses.
    patience: usize,
    asks: bool,
    broken: bool,
    ended: bool,
}

impl Machine for Echo {
    type Event<'a> = ();

    fn handle_input(&mut self, _: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.broken {
                return Err(BROKEN);
            }
            if self.asks || self.owed.len() > self.patience {
                return Ok(at);
            }
            self.line.push(byte.to_ascii_uppercase());
            if *byte == b'\n' {
                self.asks = self.line.starts_with(b"?");
                self.broken = self.line.starts_with(b"!");
                self.owed.push_back(std::mem::take(&mut self.line));
            }
        }
        if self.broken { Err(BROKEN) } else { Ok(bytes.len()) }
    }

    fn handle_timeout(&mut self, _: Instant) -> Result<(), PeerError> {
        Ok(())
    }

    fn handle_end(&mut self, _: Instant) -> Result<(), PeerError> {
        self.ended = true;
        if self.line.is_empty() { Ok(()) } else { Err(PeerError::LeftEarly) }
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let Some(line) = self.owed.front() else { return Ok(None) };
        let len = line.len();
        out.get_mut(..len).ok_or(Full { needed: len })?.copy_from_slice(line);
        self.owed.pop_front();
        Ok(Some(len))
    }

    fn poll_event(&mut self) -> Option<()> {
        std::mem::take(&mut self.asks).then_some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        self.ended && self.owed.is_empty()
    }
}

type Held = ArrayBuffer<40>;

fn carry() -> PumpState<Held> {
    PumpState::new(Held::new(), Held::new())
}

fn turn(
    echo: &mut Echo,
    link: &mut Pipe,
    carry: &mut PumpState<Held>,
) -> Result<Progress, PumpError> {
    pump(NOW, echo, link, carry, &mut [0; 64])
}

const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

#[test]
fn requests_are_answered_over_every_kind_of_link() {
    for rules in ALL {
        for patience in 0..3 {
            let mut echo = Echo { patience, ..Echo::default() };
            let (mut near, mut far) = pipe(rules);
            let mut carry = carry();
            far.write_all(LINES.repeat(20).as_bytes());
            let mut received = String::new();
            for _ in 0..10_000 {
                turn(&mut echo, &mut near, &mut carry).unwrap();
                received += &far.read_text();
            }
            assert_eq!(received, LINES.repeat(20).to_uppercase(), "{rules:?}, {patience}");
        }
    }
}

#[test]
fn requests_of_one_segment_are_answered_in_one() {
    let mut echo = Echo::default();
    let (mut near, mut far) = pipe(GOOD);
    far.write_all(b"one\ntwo\nthree\n");
    let progress = turn(&mut echo, &mut near, &mut carry()).unwrap();
    // The machine pauses after every line, and all the same nothing is sent twice.
    assert_eq!((near.reads, near.writes), (1, 1), "a short read has emptied the link");
    assert_eq!(far.read_text(), "ONE\nTWO\nTHREE\n");
    let expected = Progress { read_bytes: 14, sent_bytes: 14, wants_read: true, ..progress };
    assert_eq!(progress, expected);
    assert!(!progress.again && !progress.held && !progress.wants_write && !progress.finished);
}

#[test]
fn full_read_is_followed_by_another() {
    let (mut near, mut far) = pipe(GOOD);
    // Half of the scratch is 32 bytes.
    far.write_all(&[[b'x'; 31].as_slice(), b"\n"].concat());
    turn(&mut Echo::default(), &mut near, &mut carry()).unwrap();
    assert_eq!(near.reads, 2);
}

#[test]
fn flushing_never_reads() {
    let mut echo = Echo::default();
    let (mut near, mut far) = pipe(GOOD);
    far.write_all(b"unheard\n");
    echo.owed.push_back(b"news\n".to_vec());
    let progress = flush(NOW, &mut echo, &mut near, &mut carry(), &mut [0; 64]).unwrap();
    assert_eq!((near.reads, far.read_text().as_str()), (0, "news\n"));
    assert!(progress.wants_read && !progress.wants_write);
}

#[test]
fn link_without_room_is_waited_for_and_nothing_more_is_rendered() {
    let mut echo = Echo::default();
    let (mut near, mut far) = pipe(BYTEWISE);
    for _ in 0..3 {
        echo.owed.push_back(b"a long line of news\n".to_vec());
    }
    let mut carry = carry();
    let progress = turn(&mut echo, &mut near, &mut carry).unwrap();
    assert!(progress.wants_write && progress.wants_read);
    assert_eq!(echo.owed.len(), 2, "no more than the carry has room for");
    let mut received = String::new();
    for _ in 0..100 {
        turn(&mut echo, &mut near, &mut carry).unwrap();
        received += &far.read_text();
    }
    assert_eq!(received, "a long line of news\n".repeat(3));
    assert_eq!(carry.unsent_bytes(), 0);
}

#[test]
fn machine_that_waits_for_its_owner_stops_the_reading() {
    let mut echo = Echo::default();
    let (mut near, mut far) = pipe(GOOD);
    far.write_all(b"?\nlater\n");
    let mut carry = carry();
    let progress = turn(&mut echo, &mut near, &mut carry).unwrap();
    assert!(progress.held && !progress.wants_read);
    assert_eq!((far.read_text().as_str(), carry.unconsumed_bytes()), ("?\n", 6));
    far.write_all(b"even later\n");
    let reads = near.reads;
    assert!(turn(&mut echo, &mut near, &mut carry).unwrap().held);
    assert_eq!(near.reads, reads);
    assert!(echo.poll_event().is_some());
    let progress = turn(&mut echo, &mut near, &mut carry).unwrap();
    assert!(!progress.held && progress.wants_read);
    assert_eq!(far.read_text(), "LATER\nEVEN LATER\n");
}

#[test]
fn error_reply_is_sent_before_the_fault_is_reported() {
    for rules in ALL {
        let mut echo = Echo::default();
        let (mut near, mut far) = pipe(rules);
        far.write_all(b"a\n!bad\nnever received\n");
        let mut carry = carry();
        let mut received = String::new();
        let error = (0..200).find_map(|_| {
            let turned = turn(&mut echo, &mut near, &mut carry).err();
            received += &far.read_text();
            turned
        });
        assert!(matches!(error, Some(PumpError::Peer { error: BROKEN, .. })), "{error:?}");
        assert_eq!(received, "A\n!BAD\n", "{rules:?}");
    }
}

#[test]
fn bytes_before_a_fault_are_at_the_front_of_the_scratch() {
    let (mut near, mut far) = pipe(GOOD);
    far.write_all(b"!bad\n");
    let mut scratch = [0; 64];
    let error = pump(NOW, &mut Echo::default(), &mut near, &mut carry(), &mut scratch);
    assert_eq!(error, Err(PumpError::Peer { error: BROKEN, received_bytes: 5 }));
    assert_eq!(&scratch[..5], b"!bad\n");
}

#[test]
fn end_comes_after_what_was_said_and_before_the_last_answer() {
    let mut echo = Echo::default();
    let (mut near, mut far) = pipe(GOOD);
    far.write_all(b"last words\n");
    far.close_sending();
    let mut carry = carry();
    let first = turn(&mut echo, &mut near, &mut carry).unwrap();
    assert!(!first.ended, "the read was short");
    let second = turn(&mut echo, &mut near, &mut carry).unwrap();
    assert!(second.ended && second.finished && !second.wants_read);
    assert_eq!(far.read_text(), "LAST WORDS\n");

    let (mut near, mut far) = pipe(GOOD);
    far.write_all(b"cut o");
    drop(far);
    let mut echo = Echo::default();
    let mut carry = self::carry();
    turn(&mut echo, &mut near, &mut carry).unwrap();
    let error = PumpError::Peer { error: PeerError::LeftEarly, received_bytes: 0 };
    assert_eq!(turn(&mut echo, &mut near, &mut carry), Err(error));
}

#[test]
fn input_of_a_disconnected_peer_is_processed_without_replies() {
    for flushes in [false, true] {
        let mut echo = Echo::default();
        let (mut near, mut far) = pipe(GOOD);
        echo.owed.push_back(b"an answer\n".to_vec());
        far.write_all(b"abort\n?\n");
        far.close_receiving();
        let mut carry = carry();
        let call = if flushes { flush } else { pump };
        let error = call(NOW, &mut echo, &mut near, &mut carry, &mut [0; 64]);
        assert_eq!(error, Err(PumpError::Link(LinkError::Closed)));
        assert!(echo.poll_event().is_some(), "the question came through");
    }
}

#[test]
fn too_little_room_for_a_message_is_reported() {
    let mut echo = Echo::default();
    let (mut near, _far) = pipe(GOOD);
    echo.owed.push_back(vec![b'x'; 50]);
    for scratch in [&mut [0; 64][..], &mut [0; 400]] {
        let error = pump(NOW, &mut echo, &mut near, &mut carry(), scratch);
        assert_eq!(error, Err(PumpError::TooSmall(Full { needed: 50 })));
    }
    assert_eq!(echo.owed.len(), 1, "nothing was lost");
}

#[test]
fn peer_that_never_stops_does_not_keep_the_others_waiting() {
    let mut echo = Echo::default();
    let (mut near, mut far) = pipe(GOOD);
    far.write_all(&b"no end to it, and no line feed either".repeat(1000));
    let progress = turn(&mut echo, &mut near, &mut carry()).unwrap();
    assert!(progress.again && progress.read_bytes < 1000);
}
