//! A rank: identifies itself, puts its card, fences, reads all cards.

use core::fmt::Write;

use pmi_core::auth::{self, Secret};
use pmi_core::client::{FixedBuffer, prove};
use pmi_core::command::{Answer, FenceGroup, Place, Reply, Request, Text, Version};
use pmi_core::limits::PMI1_LINE;
use pmi_core::time::{Duration, Instant};
use pmi_smoltcp::{ConnBuffer, ConnectionError, DialState, TcpClient};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::Socket;
use smoltcp::wire::IpEndpoint;

use crate::args::{Args, Speaks};
use crate::machine::memory::Lent;
use crate::machine::micros;
use crate::net::{Net, core_now};
use crate::say;
use crate::status::Failure;

type Client = TcpClient<FixedBuffer, ConnBuffer<64>, ConnBuffer<PMI1_LINE>>;
pub(crate) type Name = heapless::String<64>;

static SCRATCH: Lent<[u8; 2 * PMI1_LINE]> = Lent::new([0; 2 * PMI1_LINE]);

/// The socket with everything that a turn needs.
struct NetClient<'a> {
    net: &'a mut Net,
    handle: SocketHandle,
    scratch: &'static mut [u8],
    limit: Instant,
}

/// Participates in the job once.
// Not inlined: a guest is one or the other, and needs the stack of one.
#[inline(never)]
pub(crate) fn run(args: &Args, net: &mut Net) -> Result<(), Failure> {
    let limit = core_now().plus(Duration::from_millis(args.limit_ms));
    let handle = net.sockets()[0];
    let mut net_client = NetClient { net, handle, scratch: SCRATCH.lend(), limit };
    let mut client = Client::new();
    let server = IpEndpoint::new(args.host.into(), args.port);
    net_client.connect(&mut client, server)?;

    let (rank, size) = match args.speaks {
        Speaks::Pmi1 => net_client.join(&mut client, args.id, Version::V1_1)?,
        Speaks::Binary => {
            client.client().use_binary();
            net_client.join(&mut client, args.id, Version::BINARY)?
        }
        Speaks::Pmi2 => net_client.join_by_proof(&mut client, args)?,
    };
    let own = Place::Job(None);
    net_client.request(&mut client, &Request::KvsName, done)?;
    let (key, value) = (key_of(rank), card_of(rank));
    let (key, value) = (Text::from(key.as_str()), Text::from(value.as_str()));
    net_client.request(&mut client, &Request::Put { place: own, key, value }, done)?;
    net_client.request(
        &mut client,
        &Request::Fence { group: FenceGroup::World, tag: None },
        done,
    )?;
    for peer in 0..size {
        let key = key_of(peer);
        let request = Request::Get { place: own, key: Text::from(key.as_str()), wait: false };
        let mut card = heapless::Vec::<u8, 128>::new();
        net_client.request(&mut client, &request, |reply| {
            if let Answer::Value(value) = reply.answer {
                card.extend(value.bytes().take(128));
            }
        })?;
        print_card(rank, size, peer, &card)?;
    }
    net_client.request(&mut client, &Request::Finalize, done)?;
    // A guest that is switched off before the server has closed the connection leaves the server waiting.
    while !net_client.poll(&mut client)?.is_closed() {}
    Ok(())
}

impl NetClient<'_> {
    /// Connects until a server accepts: the server may be booting too.
    fn connect(&mut self, client: &mut Client, server: IpEndpoint) -> Result<(), Failure> {
        loop {
            let socket = self.net.sockets.get_mut::<Socket<'_>>(self.handle);
            // A different port each time, as far from the last run's as the clock.
            let port = 49_152 + u16::try_from(micros() & 0x3fff).unwrap_or(0);
            client.connect(socket, self.net.iface.context(), server, port)?;
            loop {
                match self.poll(client) {
                    Ok(DialState::Connected) => return Ok(()),
                    Ok(_) => {}
                    Err(Failure::Call(ConnectionError::Unreachable)) => break,
                    Err(Failure::TooLate) => return Err(ConnectionError::Unreachable.into()),
                    Err(other) => return Err(other),
                }
            }
            let again = core_now().plus(Duration::from_millis(100));
            while core_now() < again {
                if core_now() >= self.limit {
                    return Err(ConnectionError::Unreachable.into());
                }
                self.net.poll();
            }
        }
    }

    /// Handshake of PMI-1 and of the binary dialect. Gives rank and size.
    fn join(
        &mut self,
        client: &mut Client,
        id: u64,
        version: Version,
    ) -> Result<(u32, u32), Failure> {
        let who = self.request(client, &Request::InitAck { id }, who)?;
        self.request(client, &Request::Init { version }, done)?;
        self.request(client, &Request::Maxes, done)?;
        who.ok_or(Failure::WrongCard)
    }

    /// Handshake of PMI-2, with a proof if there is a secret.
    fn join_by_proof(&mut self, client: &mut Client, args: &Args) -> Result<(u32, u32), Failure> {
        let secret = Secret::new(args.secret.as_bytes()).ok();
        let method = secret.is_some().then_some(Text::plain(auth::METHOD));
        self.request(client, &Request::Init { version: Version::V2_0 }, done)?;
        let hello = Request::FullInit { rank: Some(args.rank), job: None, threaded: false, method };
        let (known, proof) = self.request(client, &hello, |reply| {
            let proof = secret.as_ref().and_then(|secret| prove(secret, reply));
            (who(reply), proof)
        })?;
        let known = match proof {
            Some(proof) => {
                let digits = Text::plain(proof.as_bytes());
                self.request(client, &Request::Proof { digits }, who)?
            }
            None => known,
        };
        known.ok_or(Failure::WrongCard)
    }

    fn request<T>(
        &mut self,
        client: &mut Client,
        request: &Request<'_>,
        read: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<T, Failure> {
        client.request(request, |client| self.poll(client), read)
    }

    fn poll(&mut self, client: &mut Client) -> Result<DialState, Failure> {
        self.net.poll();
        let now = core_now();
        if now >= self.limit {
            return Err(Failure::TooLate);
        }
        let socket = self.net.sockets.get_mut::<Socket<'_>>(self.handle);
        Ok(client.poll(now, socket, self.scratch)?)
    }
}

const fn done(_: &Reply<'_>) {}

/// Rank and size, if this reply contains them.
const fn who(reply: &Reply<'_>) -> Option<(u32, u32)> {
    match reply.answer {
        Answer::Identity(identity) => Some((identity.rank, identity.size)),
        _ => None,
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
