//! One connection: the socket of a rank, bytes in transit, and the readiness it waits for.

use crate::server::secure::{Certificate, FirstBytes};
use pmi_core::command::{Answer, Reply, Text, Verb};
use pmi_core::error::{Code, PeerError};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::Dialect;
use pmi_host_os::admission::Socket;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_link::{Progress, PumpError, PumpState};
use pmi_std::snapshot::server::{SnapshotLink, SnapshotPeer, Snapshots};
use pmi_std::{BoundedBuf, NonBlocking, Stream};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::SocketAddr;

/// The server's end of a rank's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Address of a peer that connected; `None` for a process started by the launcher.
    pub(crate) from: Option<SocketAddr>,
    /// Socket at the other end, if its user was looked up.
    pub(crate) socket: Option<Socket>,
    /// True until the peer has identified itself.
    pub(crate) is_unauthenticated: bool,
    /// Certificate by which the peer authenticates the server; taken when the handshake begins.
    pub(crate) certificate: Option<Certificate>,
    /// Traffic of the connection.
    pub(crate) traffic: Traffic,
    /// State of a client that shares a snapshot.
    pub(super) snapshot: SnapshotPeer,
    link: Option<NonBlocking<Stream>>,
    carry: PumpState<BoundedBuf>,
    watched_for: Option<Interest>,
}

/// Traffic of the connections of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// Number of messages sent by the rank.
    pub(crate) requests: u32,
    /// Number of bytes received from it.
    pub(crate) received_bytes: u64,
    /// Number of bytes sent to it.
    pub(crate) sent_bytes: u64,
}

impl Traffic {
    /// Adds the traffic of another connection of the same rank.
    pub(crate) fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
    }
}

/// Reason for which a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Its socket is readable or writable.
    Ready,
    /// Its rank has exited, so all it sent can be read at once.
    Ended,
    /// Its session has a response due.
    Due,
}

/// Result of serving a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Nothing is left to do for now.
    Waiting,
    /// Both sides have sent their last message.
    Finished,
    /// The peer has closed its end.
    Closed,
    /// The peer must speak TLS but does not; an error reply was sent.
    Plain,
    /// The peer did not complete the TLS handshake.
    Untrusted,
    /// A reply of this length fits no buffer, which is no fault of the peer. The server refuses what it
    /// cannot send, so that none is as long.
    Unanswerable(usize),
    /// The peer violated the protocol; the number is that of bytes in the scratch buffer that show it.
    Broken(PeerError, usize),
}

impl Connection {
    /// Takes over `stream`, which must be non-blocking, and registers it with the poller.
    pub(crate) fn new(
        stream: Stream,
        from: Option<SocketAddr>,
        token: Token,
        poller: &Poller,
    ) -> io::Result<Self> {
        Self::carrying(CARRY_MAX, (stream, from), token, poller)
    }

    /// The same for a connection of long messages: `carry_max` bytes may be buffered in each direction,
    /// and no more are written at once.
    pub(crate) fn carrying(
        carry_max: usize,
        (stream, from): (Stream, Option<SocketAddr>),
        token: Token,
        poller: &Poller,
    ) -> io::Result<Self> {
        poller.add(token, &stream, Interest::Read)?;
        Ok(Self {
            from,
            socket: None,
            is_unauthenticated: from.is_some(),
            certificate: None,
            traffic: Traffic::default(),
            snapshot: SnapshotPeer::default(),
            link: Some(NonBlocking::of(stream)),
            carry: PumpState::new(BoundedBuf::new(carry_max), BoundedBuf::new(carry_max)),
            watched_for: Some(Interest::Read),
        })
    }

    /// True if the server's end is closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.link.is_none()
    }

    /// Closes the server's end. The poller drops the descriptor by itself.
    pub(crate) fn close(&mut self) {
        self.link = None;
    }

    /// Takes the segment that the client of a rank offers with its first bytes, if it does.
    pub(super) fn accept_segment(&mut self, snapshots: &Snapshots) {
        if let Some(Stream::Unix(socket)) = self.link.as_ref().map(NonBlocking::get_ref) {
            snapshots.accept(&mut self.snapshot, socket);
        }
    }

    /// Leaves input in the socket until the connection is served again.
    pub(crate) fn hold(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        self.watch(None, token, poller)
    }

    /// True if messages reach the peer: no handshake is under way or still to begin.
    pub(crate) fn is_ready(&self) -> bool {
        let is_handshaking = |link: &NonBlocking<Stream>| link.get_ref().is_handshaking();
        self.certificate.is_none() && !self.link.as_ref().is_some_and(is_handshaking)
    }

    /// Starts TLS on a connection whose peer has begun a handshake. Returns the result if there is
    /// nothing to serve.
    fn greet(&mut self, token: Token, poller: &Poller) -> io::Result<Option<Served>> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        let Some(Stream::Tcp(socket)) = self.link.as_ref().map(NonBlocking::get_ref) else {
            return Ok(None);
        };
        let mut input = [0; HELLO];
        match certificate.hello(socket, &mut input) {
            Ok(FirstBytes::Silent) => {
                self.watch(Some(Interest::Read), token, poller)?;
                return Ok(Some(Served::Waiting));
            }
            Ok(FirstBytes::Secured) => {}
            Ok(FirstBytes::Plain { len_bytes }) => {
                let mut refusal = [0; 128];
                let len = refuse_plain(&input[..len_bytes], &mut refusal);
                // Nothing was sent before, so there is room; a peer that is gone needs no answer.
                let _ = (&mut &*socket).write(&refusal[..len]);
                self.close();
                return Ok(Some(Served::Plain));
            }
            Err(_) => {
                self.close();
                return Ok(Some(Served::Closed));
            }
        }
        if let Some(Stream::Tcp(socket)) = self.link.take().map(NonBlocking::into_inner) {
            self.link = Some(NonBlocking::of(certificate.accept(socket)?));
        }
        self.certificate = None;
        Ok(None)
    }

    /// Moves bytes between the socket and `session`, and registers for the next readiness.
    ///
    /// Shape: a connection that is over has its server end closed.
    pub(crate) fn serve(
        &mut self,
        session: &mut impl Machine,
        now: Instant,
        scratch: &mut [u8],
        occasion: Occasion,
        (token, poller): (Token, &Poller),
    ) -> io::Result<Served> {
        if let Some(served) = self.greet(token, poller)? {
            return Ok(served);
        }
        let Some(link) = &mut self.link else { return Ok(Served::Waiting) };
        let moved = loop {
            let (carry, mut link) = (&mut self.carry, SnapshotLink::new(link, &self.snapshot));
            let moved = match occasion {
                Occasion::Due => pmi_link::flush(now, session, &mut link, carry, scratch),
                Occasion::Ready | Occasion::Ended => {
                    pmi_link::pump(now, session, &mut link, carry, scratch)
                }
            };
            if let Ok(Progress { read_bytes, sent_bytes, .. }) = moved {
                self.traffic.received_bytes += wide(read_bytes);
                self.traffic.sent_bytes += wide(sent_bytes);
            }
            // Nothing new can come from a rank that has exited, so reading it terminates.
            let goes_on = moved.is_ok_and(|progress| progress.read_bytes > 0 && !progress.ended);
            if occasion != Occasion::Ended || !goes_on {
                break moved;
            }
        };
        let served = match moved {
            Err(PumpError::Link(_)) if link.get_ref().is_handshaking() => Served::Untrusted,
            Ok(Progress { ended: true, .. }) | Err(PumpError::Link(_)) => Served::Closed,
            Ok(Progress { finished: true, .. }) => Served::Finished,
            Ok(progress) => {
                // Data that TLS has read ahead causes no readable event, but a writable socket causes
                // one.
                let wants_write =
                    progress.wants_write || (progress.wants_read && link.get_mut().is_pending());
                self.watch(Interest::of(progress.wants_read, wants_write), token, poller)?;
                return Ok(Served::Waiting);
            }
            Err(PumpError::Peer { error: PeerError::LeftEarly, .. }) => Served::Closed,
            Err(PumpError::Peer { error, received_bytes }) => Served::Broken(error, received_bytes),
            Err(PumpError::TooSmall(full)) => Served::Unanswerable(full.needed),
            Err(_) => Served::Closed,
        };
        if served != Served::Finished {
            self.close();
        }
        Ok(served)
    }

    fn watch(&mut self, wanted: Option<Interest>, token: Token, poller: &Poller) -> io::Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        // Without interest the session has to progress first, which does not depend on the peer.
        poller.rewatch(token, link, (&mut self.watched_for, wanted))
    }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Error reply to a client that speaks in the clear, in the form of its first request.
fn refuse_plain(input: &[u8], out: &mut [u8]) -> usize {
    let to = match input.get(..13).unwrap_or(input) {
        b"cmd=init_oob " => Verb::OutOfBand,
        start if start.starts_with(b"cmd=init ") => Verb::Init,
        _ => Verb::InitAck,
    };
    let answer = Answer::Message(Text::from("this port speaks TLS"));
    let reply = Reply { to, tag: b"", code: Code::FAIL, answer };
    Dialect::Lines.write_reply(&reply, b"", out).unwrap_or(0)
}

/// Number of bytes that tell one first request from another.
const HELLO: usize = 16;

/// Buffered bytes in each direction between two turns; nearly always none. More than the longest reply,
/// and as much as is read at once.
const CARRY_MAX: usize = super::service::SCRATCH / 2;
