//! A rank: identifies itself, puts its card, fences, reads all cards.

use core::fmt::Write as _;

use embedded_io::{Read, Write};
use pmi_core::auth::Secret;
use pmi_core::client::{Pmi1Buffer, prove};
use pmi_core::command::{Reply, Version};
use pmi_core::time::{Duration, Instant};
use pmi_link::CallError;
use pmi_link::blocking::{Opening, StreamClient};
use pmi_smoltcp::{Stack, StreamError, TcpStream};
use smoltcp::iface::{Context, SocketHandle};
use smoltcp::socket::tcp::Socket;
use smoltcp::wire::IpEndpoint;

use crate::args::{Args, RequestedVersions};
use crate::machine::micros;
use crate::net::{Net, core_now};
use crate::say;
use crate::status::Failure;

type Client<L> = StreamClient<L, Pmi1Buffer, 2>;
pub(crate) type Name = heapless::String<64>;

/// The stack, until the guest's time is over.
struct LimitedNet<'n> {
    net: &'n mut Net,
    limit: Instant,
}

/// Participates in the job once, over TCP.
// Not inlined: a guest is one or the other, and needs the stack of one.
#[inline(never)]
pub(crate) fn run(args: &Args, net: &mut Net) -> Result<(), Failure> {
    let limit = core_now().plus(Duration::from_millis(args.limit_ms));
    let handle = net.sockets()[0];
    let mut line = TcpStream::new(LimitedNet { net, limit }, handle);
    connect(&mut line, IpEndpoint::new(args.host.into(), args.port))?;
    // A guest that is switched off before the server has closed the connection leaves the server waiting.
    exchange(line, args)?.close()?;
    Ok(())
}

/// The session of a rank over a connected link, which is given back.
pub(crate) fn exchange<L: Read + Write>(line: L, args: &Args) -> Result<L, Failure>
where
    Failure: From<CallError<L::Error>>,
{
    let mut pmi = Client::with_buffer(line, Pmi1Buffer::new());
    open(&mut pmi, args)?;
    let identity = pmi.identity().ok_or(Failure::WrongCard)?;
    let (rank, size) = (identity.rank, identity.size);
    pmi.maxes()?;
    pmi.kvsname()?;
    pmi.put(key_of(rank).as_bytes(), card_of(rank).as_bytes())?;
    pmi.fence()?;
    for peer in 0..size {
        let mut card = [0; 128];
        let len = pmi.get(key_of(peer).as_bytes(), &mut card)?.unwrap_or(0);
        print_card(rank, size, peer, card.get(..len).unwrap_or(b""))?;
    }
    pmi.finalize()?;
    Ok(pmi.into_inner())
}

/// Connects until a server accepts: the server may be booting too.
fn connect(line: &mut TcpStream<LimitedNet<'_>>, server: IpEndpoint) -> Result<(), StreamError> {
    loop {
        // A different port each time, as far from the last run's as the clock.
        let port = 49_152 + u16::try_from(micros() & 0x3fff).unwrap_or(0);
        match line.connect(server, port) {
            Err(StreamError::Unreachable) => {}
            Err(StreamError::TimedOut) => return Err(StreamError::Unreachable),
            connected => return connected,
        }
        let again = core_now().plus(Duration::from_millis(100));
        while core_now() < again {
            line.stack().poll().map_err(|_| StreamError::Unreachable)?;
        }
    }
}

/// The handshake of the requested dialect, in PMI-2 with a proof if there is a secret.
fn open<L: Read + Write>(pmi: &mut Client<L>, args: &Args) -> Result<(), Failure>
where
    Failure: From<CallError<L::Error>>,
{
    let secret = Secret::new(args.secret.as_bytes()).ok();
    let prover = |reply: &Reply<'_>| prove(secret.as_ref()?, reply);
    let version = match args.versions {
        RequestedVersions::Pmi1 => Version::V1_1,
        RequestedVersions::Binary => {
            pmi.use_binary();
            Version::BINARY
        }
        RequestedVersions::Pmi2 => Version::V2_0,
    };
    let mut opening = Opening::new(version);
    if version == Version::V2_0 {
        opening.rank = Some(args.rank);
        opening.prover = secret.is_some().then_some(&prover);
    } else {
        pmi.greet(args.id())?;
    }
    pmi.open(&opening, &mut [])?;
    Ok(())
}

impl Stack for LimitedNet<'_> {
    fn poll(&mut self) -> Result<(), StreamError> {
        self.net.poll();
        if core_now() < self.limit { Ok(()) } else { Err(StreamError::TimedOut) }
    }

    fn with_socket<T>(
        &mut self,
        handle: SocketHandle,
        run: impl FnOnce(&mut Context, &mut Socket<'_>) -> T,
    ) -> T {
        run(self.net.iface.context(), self.net.sockets.get_mut(handle))
    }
}

/// Prints what was read for a peer.
///
/// # Errors
///
/// The value is no card of that peer.
pub(crate) fn print_card(rank: u32, size: u32, peer: u32, card: &[u8]) -> Result<(), Failure> {
    let (key, card) = (key_of(peer), core::str::from_utf8(card).unwrap_or(""));
    // Guests and processes may share a job; their cards agree only in the rank that they name.
    let mut start = Name::new();
    let _fits = write!(start, "rank-{peer}@");
    if !card.starts_with(start.as_str()) {
        say!("rank {rank} of {size}: {key} is {card:?}");
        return Err(Failure::WrongCard);
    }
    say!("rank {rank} of {size}: {key} = {card}");
    Ok(())
}

pub(crate) fn key_of(rank: u32) -> Name {
    let mut key = Name::new();
    let _fits = write!(key, "card-{rank}");
    key
}

pub(crate) fn card_of(rank: u32) -> Name {
    let mut card = Name::new();
    let _fits = write!(card, "rank-{rank}@bare-{}", ARCH);
    card
}

const ARCH: &str = if cfg!(target_arch = "riscv64") {
    "riscv64"
} else if cfg!(target_arch = "aarch64") {
    "aarch64"
} else {
    "x86_64"
};
