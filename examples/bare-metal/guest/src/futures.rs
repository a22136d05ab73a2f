//! Ranks with futures as calls, polled by hand: no executor, no interrupt, one loop.
//!
//! The calls are those of `pmi_link::task`, which run on any executor. The smallest one is [`drive`]: it
//! polls until all futures are done. Each poll checks everything that the future waits for, so that no waker
//! is needed. A guest may have several ranks, which share its card: they are one node of the job.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use embedded_io_async::{Error, ErrorKind, ErrorType, Read, Write};
use pmi_core::command::Version;
use pmi_core::time::{Duration, Instant};
use pmi_core::wire::mapping::PROCESS_MAPPING;
use pmi_link::CallError;
use pmi_link::task::AsyncPmi1;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::IpEndpoint;

use crate::args::Args;
use crate::client::{card_of, key_of, print_card};
use crate::machine::micros;
use crate::net::{Net, core_now};
use crate::say;
use crate::status::Failure;

/// Participates in the job once, in PMI-1, with a rank for each of the guest's process ids.
#[inline(never)]
pub(crate) fn run(args: &Args, mut net: Net) -> Result<(), Failure> {
    let limit = core_now().plus(Duration::from_millis(args.limit_ms));
    let handles = net.sockets();
    let net = &RefCell::new(net);
    let rank = |number: u16, handle| async move {
        let first = (number == 0).then_some(0);
        match args.ids.get(usize::from(number)).copied().or(first) {
            Some(id) => exchange(args, id, Wire { net, handle, number, limit }).await,
            None => Ok(()),
        }
    };
    let [a, b, c, d] = handles;
    let (a, b, c, d) = (pin!(rank(0, a)), pin!(rank(1, b)), pin!(rank(2, c)), pin!(rank(3, d)));
    drive([a, b, c, d])
}

/// Polls futures in turn until all are done, or one has failed.
fn drive<F: Future<Output = Result<(), Failure>>, const COUNT: usize>(
    mut futures: [Pin<&mut F>; COUNT],
) -> Result<(), Failure> {
    let mut context = Context::from_waker(Waker::noop());
    let mut are_done = [false; COUNT];
    while are_done.contains(&false) {
        for (future, is_done) in futures.iter_mut().zip(&mut are_done) {
            if !*is_done && let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                done?;
                *is_done = true;
            }
        }
    }
    Ok(())
}

async fn exchange(args: &Args, id: u64, mut wire: Wire<'_>) -> Result<(), Failure> {
    wire.connect(IpEndpoint::new(args.host.into(), args.port)).await?;
    let mut pmi = AsyncPmi1::new(wire);
    let identity = pmi.greet(id).await?;
    let (rank, size) = (identity.rank, identity.size);
    pmi.init(Version::V1_1).await?;
    pmi.kvsname().await?;
    let mut room = [0; 128];
    if let Some(len) = pmi.get(PROCESS_MAPPING, &mut room).await? {
        let mapping = core::str::from_utf8(room.get(..len).unwrap_or(b"")).unwrap_or("?");
        say!("rank {rank} of {size}: {mapping}");
    }
    pmi.put(key_of(rank).as_bytes(), card_of(rank).as_bytes()).await?;
    pmi.fence().await?;
    for peer in 0..size {
        let len = pmi.get(key_of(peer).as_bytes(), &mut room).await?.unwrap_or(0);
        print_card(rank, size, peer, room.get(..len).unwrap_or(b""))?;
    }
    pmi.finalize().await?;
    // A guest that is switched off before the server has closed the connection leaves the server waiting.
    let mut wire = pmi.into_inner();
    while wire.read(&mut [0; 16]).await? > 0 {}
    wire.hang_up().await
}

/// A TCP connection over the guest's card.
struct Wire<'a> {
    net: &'a RefCell<Net>,
    handle: SocketHandle,
    /// Number of the rank among those of this guest.
    number: u16,
    limit: Instant,
}

impl Wire<'_> {
    async fn connect(&mut self, server: IpEndpoint) -> Result<(), Failure> {
        // The ranks of a guest connect within a microsecond: each has a range of its own.
        let place = u16::try_from(micros() & 0xfff).unwrap_or(0);
        let port = 49_152 + (self.number << 12 | place);
        let dialled = {
            let Net { sockets, iface, .. } = &mut *self.net.borrow_mut();
            sockets.get_mut::<Socket<'_>>(self.handle).connect(iface.context(), server, port)
        };
        dialled.map_err(pmi_smoltcp::StreamError::Connect)?;
        self.until(|socket| match socket.state() {
            State::Established => Some(Ok(())),
            State::Closed => Some(Err(pmi_smoltcp::StreamError::Unreachable.into())),
            _ => None,
        })
        .await
    }

    async fn hang_up(&mut self) -> Result<(), Failure> {
        self.until(|socket| {
            socket.close();
            (!socket.is_active() || socket.state() == State::TimeWait).then_some(Ok(()))
        })
        .await
    }

    /// Polls the network stack until `look` returns a result.
    async fn until<T>(
        &mut self,
        mut look: impl FnMut(&mut Socket<'_>) -> Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        poll_fn(|_| {
            let mut net = self.net.borrow_mut();
            net.poll();
            match look(net.sockets.get_mut(self.handle)) {
                Some(found) => Poll::Ready(found),
                None if core_now() >= self.limit => Poll::Ready(Err(Failure::TooLate)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl ErrorType for Wire<'_> {
    type Error = Failure;
}

impl Read for Wire<'_> {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        self.until(|socket| match socket.can_recv() {
            true => Some(socket.recv_slice(out).map_err(|_| Failure::Gone)),
            false if !socket.may_recv() => Some(Ok(0)),
            false => None,
        })
        .await
    }
}

impl Write for Wire<'_> {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        self.until(|socket| match socket.can_send() {
            true => Some(socket.send_slice(bytes).map_err(|_| Failure::Gone)),
            false if !socket.may_send() => Some(Err(Failure::Gone)),
            false => None,
        })
        .await
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.net.borrow_mut().poll();
        Ok(())
    }
}

impl core::error::Error for Failure {}

impl Error for Failure {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLate => ErrorKind::TimedOut,
            Self::Gone => ErrorKind::ConnectionReset,
            _ => ErrorKind::Other,
        }
    }
}

impl From<CallError<Self>> for Failure {
    fn from(error: CallError<Self>) -> Self {
        match error {
            CallError::Io(failure) => failure,
            CallError::Peer(error) => Self::Peer(error),
            CallError::Misuse(misuse) => Self::Misuse(misuse),
            _ => Self::WrongCard,
        }
    }
}
