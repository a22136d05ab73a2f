//! The suite for links whose bytes move while others run: the two functions are awaited.

use crate::LinkError;
use crate::link::{Link, Read, Wrote};

/// Runs every check.
pub async fn all<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    short_reads(connect, pause).await;
    one_byte_at_a_time(connect, pause).await;
    not_now_in_the_middle(connect, pause).await;
    back_pressure(connect, pause).await;
    end_of_stream(connect, pause).await;
    gone_without_reading(connect, pause).await;
    big_transfer(connect, pause).await;
}

/// A reader with little room gets everything, in order.
pub async fn short_reads<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, mut far) = connect().await;
    for room in [1, 2, 3, 7, 16] {
        let sent = &pattern(room)[..50];
        let mut received = [0; 50];
        for (part, out) in sent.chunks(room).zip(received.chunks_mut(room)) {
            write_all(&mut near, part, pause).await;
            read_exact(&mut far, out, pause).await;
        }
        assert_eq!(received, sent, "read {room} bytes at a time");
        write_all(&mut near, &sent[..ROOM_BYTES], pause).await;
        for (sent, out) in sent[..ROOM_BYTES].chunks(room).zip(received.chunks_mut(room)) {
            read_exact(&mut far, &mut out[..sent.len()], pause).await;
            assert_eq!(&out[..sent.len()], sent, "written at once, read {room} bytes at a time");
        }
    }
    assert_eq!(far.try_read(&mut []), Ok(Read::NotNow), "an empty read is not the end");
    assert_eq!(near.try_write(&[]), Ok(Wrote::NotNow), "an empty write moves nothing");
}

/// Bytes that are written and read one by one arrive in order, both ways.
pub async fn one_byte_at_a_time<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, mut far) = connect().await;
    for byte in 0..=u8::MAX {
        let mut received = [0];
        write_all(&mut near, &[byte], pause).await;
        read_exact(&mut far, &mut received, pause).await;
        assert_eq!(received, [byte]);
        write_all(&mut far, &[!byte], pause).await;
        read_exact(&mut near, &mut received, pause).await;
        assert_eq!(received, [!byte]);
    }
}

/// A read without bytes reports that, at the start and in the middle, and loses nothing.
pub async fn not_now_in_the_middle<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, mut far) = connect().await;
    let mut received = [0; 8];
    assert_eq!(far.try_read(&mut received), Ok(Read::NotNow), "nothing was sent yet");
    for part in [b"cmd=get_", b"maxes\ncm"] {
        write_all(&mut near, part, pause).await;
        read_exact(&mut far, &mut received, pause).await;
        assert_eq!(&received, part);
        for _ in 0..3 {
            assert_eq!(far.try_read(&mut received), Ok(Read::NotNow), "all of it was read");
            pause().await;
        }
    }
}

/// A peer that does not read is noticed, or everything is kept for it; nothing is lost either way.
pub async fn back_pressure<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, mut far) = connect().await;
    let mut sent = 0;
    let mut refusals = 0;
    while sent < FILL_BYTES_MAX && refusals < 10 {
        match near.try_write(pattern(sent)) {
            Ok(wrote) => {
                refusals = if wrote == Wrote::NotNow { refusals + 1 } else { 0 };
                sent += written(wrote, PART_BYTES);
            }
            Err(error) => panic!("a peer that does not read is no error: {error}"),
        }
        if refusals > 0 {
            pause().await;
        }
    }
    let mut received = 0;
    while received < sent {
        let mut part = [0; PART_BYTES];
        let room = (sent - received).min(part.len());
        received += expect_next(&mut far, &mut part[..room], received, pause).await;
    }
    // The room that was made can be used again.
    write_all(&mut near, b"more", pause).await;
    let mut more = [0; 4];
    read_exact(&mut far, &mut more, pause).await;
    assert_eq!(&more, b"more");
}

/// Bytes that were sent before the end are read before the end, which then stays.
pub async fn end_of_stream<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, far) = connect().await;
    drop(far);
    assert_eq!(wait_for_end(&mut near, pause).await, Ok(()), "the other end has said nothing");

    let (near, mut far) = connect().await;
    let mut near = near;
    write_all(&mut near, b"goodbye", pause).await;
    drop(near);
    let mut received = [0; 7];
    read_exact(&mut far, &mut received, pause).await;
    assert_eq!(&received, b"goodbye");
    assert_eq!(wait_for_end(&mut far, pause).await, Ok(()));
    for _ in 0..3 {
        assert_eq!(far.try_read(&mut received), Ok(Read::End), "the end stays");
    }
}

/// A peer that goes with bytes unread is an end or an error, and writing to it fails in the end.
pub async fn gone_without_reading<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, mut far) = connect().await;
    write_all(&mut near, b"is there a peer?", pause).await;
    // It did come, so that it is lost for certain.
    let mut first = [0];
    read_exact(&mut far, &mut first, pause).await;
    drop(far);
    let end = wait_for_end(&mut near, pause).await;
    assert!(matches!(end, Ok(()) | Err(LinkError::Reset)), "gone is an end or a reset: {end:?}");
    for _ in 0..PATIENCE {
        match near.try_write(b"hello") {
            Err(LinkError::Reset | LinkError::Closed) => return,
            Err(error) => panic!("a peer that is gone is known by name, not as {error:?}"),
            Ok(_) => pause().await,
        }
    }
    panic!("writing to a peer that is gone never failed");
}

/// A lot arrives unchanged, both ways at once.
pub async fn big_transfer<A: Link, B: Link>(
    connect: &mut impl AsyncFnMut() -> (A, B),
    pause: &mut impl AsyncFnMut(),
) {
    let (mut near, mut far) = connect().await;
    let mut there = Transfer::default();
    let mut back = Transfer::default();
    let mut tries = 0;
    while there.received < BIG_BYTES || back.received < BIG_BYTES {
        let moved = there.step(&mut near, &mut far) + back.step(&mut far, &mut near);
        tries = if moved == 0 { tries + 1 } else { 0 };
        assert!(tries < PATIENCE, "nothing moves after {} and {}", there.received, back.received);
        if moved == 0 {
            pause().await;
        }
    }
}

/// One direction of a big transfer.
#[derive(Default)]
struct Transfer {
    sent: usize,
    received: usize,
}

impl Transfer {
    fn step(&mut self, from: &mut impl Link, to: &mut impl Link) -> usize {
        let mut part = [0; PART_BYTES];
        // Lengths that divide neither each other nor the size of any buffer.
        let len = (BIG_BYTES - self.sent).min(part.len() - self.sent % 97);
        let next = &pattern(self.sent)[..len];
        let wrote = match len {
            0 => 0,
            _ => written(from.try_write(next).expect("the peer is there"), len),
        };
        self.sent += wrote;
        let room = part.len() - self.received % 89;
        let read = match to.try_read(&mut part[..room]).expect("the peer is there") {
            Read::Bytes(len) => len,
            Read::NotNow => 0,
            Read::End => panic!("the end came after {} bytes", self.received),
        };
        check(&part[..read], self.received);
        self.received += read;
        wrote + read
    }
}

fn written(wrote: Wrote, asked: usize) -> usize {
    match wrote {
        Wrote::Bytes(len) => {
            assert!((1..=asked).contains(&len), "wrote {len} of {asked} bytes");
            len
        }
        Wrote::NotNow => 0,
    }
}

async fn write_all(link: &mut impl Link, bytes: &[u8], pause: &mut impl AsyncFnMut()) {
    let mut sent = 0;
    for _ in 0..PATIENCE {
        if sent == bytes.len() {
            return;
        }
        match written(link.try_write(&bytes[sent..]).expect("the peer is there"), bytes.len()) {
            0 => pause().await,
            len => sent += len,
        }
    }
    panic!("only {sent} of {} bytes were taken", bytes.len());
}

async fn read_exact(link: &mut impl Link, out: &mut [u8], pause: &mut impl AsyncFnMut()) {
    let mut received = 0;
    for _ in 0..PATIENCE {
        if received == out.len() {
            return;
        }
        match link.try_read(&mut out[received..]).expect("the peer is there") {
            Read::Bytes(len) => {
                assert!((1..=out.len() - received).contains(&len), "read {len} bytes");
                received += len;
            }
            Read::NotNow => pause().await,
            Read::End => panic!("the end came after {received} of {} bytes", out.len()),
        }
    }
    panic!("only {received} of {} bytes came", out.len());
}

/// Reads the next bytes of the pattern.
async fn expect_next(
    link: &mut impl Link,
    out: &mut [u8],
    at: usize,
    pause: &mut impl AsyncFnMut(),
) -> usize {
    for _ in 0..PATIENCE {
        match link.try_read(out).expect("the peer is there") {
            Read::Bytes(len) => {
                check(&out[..len], at);
                return len;
            }
            Read::NotNow => pause().await,
            Read::End => panic!("the end came after {at} bytes"),
        }
    }
    panic!("nothing came after {at} bytes");
}

async fn wait_for_end(
    link: &mut impl Link,
    pause: &mut impl AsyncFnMut(),
) -> Result<(), LinkError> {
    for _ in 0..PATIENCE {
        match link.try_read(&mut [0; 16])? {
            Read::End => return Ok(()),
            Read::NotNow => pause().await,
            Read::Bytes(len) => panic!("{len} bytes arrived that were not sent"),
        }
    }
    panic!("the end never came");
}

/// The bytes that stand from `at` on in a stream in which a byte that is lost, doubled or moved
/// shows.
fn pattern(at: usize) -> &'static [u8; PART_BYTES] {
    let rest = PATTERN.get(at % PERIOD..).and_then(<[u8]>::first_chunk);
    rest.expect("the table is a period and a part long")
}

fn check(part: &[u8], from: usize) {
    let wanted = &pattern(from)[..part.len()];
    if let Some(at) = part.iter().zip(wanted).position(|(is, should)| is != should) {
        panic!("byte {} is {} and should be {}", from + at, part[at], wanted[at]);
    }
}

static PATTERN: [u8; PERIOD + PART_BYTES] = {
    let mut table = [0; PERIOD + PART_BYTES];
    let mut at = 0;
    while at < table.len() {
        let [low, high, ..] = (at % PERIOD).to_le_bytes();
        table[at] = low.wrapping_mul(31) ^ high.wrapping_mul(7);
        at += 1;
    }
    table
};

/// A prime, so that it is no divisor of any buffer size.
const PERIOD: usize = 4093;
/// Number of attempts without progress after which a transfer counts as failed.
const PATIENCE: usize = 20_000;
/// Capacity that every link has without a reader.
const ROOM_BYTES: usize = 16;
/// Size of one transfer.
const PART_BYTES: usize = 4096;
/// More than a system keeps for a peer that does not read; a link that keeps all gets no more.
const FILL_BYTES_MAX: usize = 16 << 20;
/// Several times what a system keeps.
const BIG_BYTES: usize = 1 << 20;
