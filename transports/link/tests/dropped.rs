//! Calls that are dropped before they complete, as by `with_timeout` or `select`, against a server of this
//! project.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use embedded_io_async::{ErrorType, Read, Write};
use futures_lite::future::{block_on, yield_now};
use pmi_core::command::{Argument, InfoList, Pair, Program, Spawn, Text, Version};
use pmi_core::error::Misuse;
use pmi_core::storage::Buffer;
use pmi_link::CallError;
use pmi_link::task::{AsyncPmi, AsyncPmi1, AsyncStreamClient};

mod stream;
use stream::{Shared, Stream, server};

/// A stream on which every operation is pending once, and then moves at most some bytes.
struct Slow {
    stream: Stream,
    sent: Vec<u8>,
}

impl Slow {
    fn of(server: &Shared, job: pmi_core::ids::JobId, piece_bytes: usize) -> Self {
        Self { stream: Stream::member(server, job, 0, piece_bytes), sent: Vec::new() }
    }
}

impl ErrorType for Slow {
    type Error = Infallible;
}

impl Read for Slow {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Infallible> {
        yield_now().await;
        self.stream.read(out).await
    }
}

impl Write for Slow {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        yield_now().await;
        let len = self.stream.write(bytes).await?;
        self.sent.extend(&bytes[..len]);
        Ok(len)
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        yield_now().await;
        Ok(())
    }
}

/// Polls `call` `polls` times, then drops it; true if it has completed.
async fn dropped_after<F: Future>(polls: usize, call: F) -> bool {
    let mut call = pin!(call);
    for _ in 0..polls {
        let turn = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
        if turn {
            return true;
        }
        yield_now().await;
    }
    false
}

/// Lets `drop_call` drop a call of a fresh session after every number of polls; afterwards the session has to
/// have nothing lost and nothing twice. Returns the messages that the last run has sent after the opening.
fn check_every_drop<B: Buffer, const GENERATIONS: u16>(
    version: Version,
    client: impl Fn(Slow) -> AsyncStreamClient<Slow, B, GENERATIONS>,
    drop_call: impl AsyncFn(&mut AsyncStreamClient<Slow, B, GENERATIONS>, usize) -> bool,
) -> Vec<u8> {
    for polls in 0.. {
        let (server, job) = server(1);
        let mut pmi = client(Slow::of(&server, job, 7));
        let is_complete = block_on(async {
            pmi.init(version).await.unwrap();
            pmi.kvsname().await.unwrap();
            pmi.put(b"first", b"one").await.unwrap();
            let is_complete = drop_call(&mut pmi, polls).await;
            pmi.put(b"second", b"two").await.unwrap();
            pmi.fence().await.unwrap();
            for (key, value) in [(b"first".as_slice(), b"one"), (b"second", b"two")] {
                let mut out = [0; 8];
                assert_eq!(pmi.get(key, &mut out).await, Ok(Some(3)), "{polls} polls");
                assert_eq!(&out[..3], value, "{polls} polls");
            }
            pmi.finalize().await.unwrap();
            is_complete
        });
        if is_complete {
            assert!(polls > 3, "the call completes after {polls} polls");
            return pmi.into_inner().sent;
        }
    }
    unreachable!("a call completes")
}

/// Drops each kind of call that a board makes.
fn check_calls<B: Buffer, const GENERATIONS: u16>(
    version: Version,
    client: impl Fn(Slow) -> AsyncStreamClient<Slow, B, GENERATIONS>,
) -> Vec<u8> {
    let value = [b'v'; 400];
    check_every_drop(version, &client, async |pmi, polls| dropped_after(polls, pmi.fence()).await);
    check_every_drop(version, &client, async |pmi, polls| {
        dropped_after(polls, pmi.get(b"first", &mut [0; 8])).await
    });
    check_every_drop(version, &client, async |pmi, polls| {
        dropped_after(polls, pmi.lookup(b"service", &mut [0; 8])).await
    });
    check_every_drop(version, &client, async |pmi, polls| {
        dropped_after(polls, pmi.put(b"long", &value)).await
    })
}

#[test]
fn call_of_pmi1_may_be_dropped_at_every_poll() {
    let sent = check_calls(Version::V1_1, AsyncPmi1::new);
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.lines().all(|line| line.starts_with("cmd=")), "{sent}");
    assert_eq!(sent.matches("cmd=put").count(), 3, "{sent}");
}

#[test]
fn call_of_pmi2_may_be_dropped_at_every_poll() {
    let sent = check_calls(Version::V2_0, AsyncPmi::new);
    assert_eq!(String::from_utf8(sent).unwrap().matches("cmd=kvs-put;").count(), 3);
}

#[test]
fn abort_follows_the_rest_of_the_request_that_was_dropped() {
    for polls in 0..40 {
        let (server, job) = server(1);
        let mut pmi = AsyncPmi1::new(Slow::of(&server, job, 3));
        block_on(async {
            pmi.init(Version::V1_1).await.unwrap();
            pmi.kvsname().await.unwrap();
            dropped_after(polls, pmi.put(b"key", b"value")).await;
            pmi.abort(7, b"gives up").await.unwrap();
        });
        let sent = String::from_utf8(pmi.into_inner().sent).unwrap();
        assert!(sent.lines().all(|line| line.starts_with("cmd=")), "{sent}");
        assert!(sent.contains("\ncmd=abort exitcode=7"), "{sent}");
    }
}

#[test]
fn spawn_or_put_all_that_is_dropped_while_it_is_sent_ends_the_calls_but_not_the_abort() {
    let program = Program {
        executable: "./child".into(),
        processes: 1,
        arguments: Argument::Given(&[]),
        info: InfoList::Given(&[]),
    };
    let spawn = Spawn::Given { programs: &[program], preputs: &[] };
    let pair = Pair { key: Text::plain(b"key"), value: Text::plain(b"value") };
    for is_spawn in [true, false] {
        let (server, job) = server(1);
        let mut pmi = AsyncPmi::new(Slow::of(&server, job, 3));
        block_on(async {
            pmi.init(Version::V2_0).await.unwrap();
            let name = pmi.kvsname().await.unwrap().as_bytes().to_vec();
            let is_complete = match is_spawn {
                true => dropped_after(2, pmi.spawn(spawn, &mut [0; 512])).await,
                false => dropped_after(2, pmi.put_all(&name, &[pair])).await,
            };
            assert!(!is_complete);
            let refused = pmi.fence().await.unwrap_err();
            assert!(matches!(refused, CallError::Misuse(Misuse::WrongState { .. })), "{refused:?}");
            pmi.abort(1, b"").await.unwrap();
        });
    }
}

/// A link of which the state takes no room, so that the sizes are those of the calls.
struct Uart;

impl ErrorType for Uart {
    type Error = Infallible;
}

impl Read for Uart {
    async fn read(&mut self, _: &mut [u8]) -> Result<usize, Infallible> {
        Ok(0)
    }
}

impl Write for Uart {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        Ok(bytes.len())
    }

    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[test]
fn future_of_a_put_fits_a_small_board() {
    let mut pmi1 = AsyncPmi1::new(Uart);
    let bytes = size_of_val(&pmi1.put(b"key", b"value"));
    assert!(bytes <= 600, "PMI-1: {bytes} bytes");
    let mut pmi2 = AsyncPmi::new(Uart);
    let bytes = size_of_val(&pmi2.put(b"key", b"value"));
    assert!(bytes <= 900, "PMI-2: {bytes} bytes");
}
