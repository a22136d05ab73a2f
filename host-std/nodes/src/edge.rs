//! Connection to another node server: socket, handshake, records, and what waits to be written.

use super::handshake::{FindKey, Handshake, HandshakeError, KeyId, KnownKey};
use super::key::LinkKey;
use super::peer_host::{ReceivedSegments, repeat_often};
use super::record::{CONTENT_MAX, RecordError, Records};
use pmi_host_os::clock;
use pmi_host_os::listen::keep_alive;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::random::random;
use pmi_std::Stream;
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, set_tcp_user_timeout, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getpeername, socket_with};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Connection to another node server: one of TCP, or one end of a pair whose other end a
/// relay has. What TCP alone has does nothing for the latter.
#[derive(Debug)]
pub struct Edge {
    stream: Stream,
    /// The other end, for messages.
    pub peer: String,
    state: EdgeState,
    /// Bytes that the socket has not taken, after `sent` that it has.
    output: Vec<u8>,
    sent: usize,
    /// True if the tree had more for it than there was room.
    has_more: bool,
    /// True until an outgoing connection is established.
    is_connecting: bool,
    /// True until the first byte of the other end.
    is_silent: bool,
    /// Segments that had arrived at the last look at them, and its time.
    segments: (u32, Instant),
    watched: Option<Interest>,
}

#[derive(Debug)]
enum EdgeState {
    Handshake(Handshake),
    /// The key is proved.
    Established {
        key: KeyId,
        records: Records,
    },
}

/// End of a connection.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The other end has closed it.
    #[error("closed the connection")]
    Closed,
    /// The other end has closed it in the handshake; a side that rejects a proof does so.
    #[error(
        "closed the connection during the handshake; the key may be that of another run, or its host has \
         joined"
    )]
    ClosedEarly,
    /// Error of the system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The handshake has failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// A record is wrong.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A message is wrong, or out of place.
    #[error("sent a message that is not part of the protocol ({0})")]
    Protocol(&'static str),
}

/// Progress of a [`read`](Edge::read).
#[derive(Debug, PartialEq, Eq)]
pub enum EdgeProgress {
    /// There is more input, later.
    Waiting,
    /// The key is proved; records follow.
    Established,
}

impl Edge {
    /// Takes a connection that was accepted, for TCP by a [prepared](prepare) socket, and begins the
    /// handshake: with the key `plain` and no encryption, or else with one that [`read`](Self::read) finds.
    pub fn accepted(
        stream: impl Into<Stream>,
        peer: String,
        plain: Option<&LinkKey>,
    ) -> io::Result<Self> {
        let mut edge = Self::new(stream.into(), peer, Handshake::acceptor(plain, random()?));
        // The socket has room for that; a connection that is lost already is reported when it is read.
        let _ = edge.flush();
        Ok(edge)
    }

    /// Begins to connect to `peer`.
    ///
    /// # Errors
    ///
    /// Errors of the system; some of the connection itself are reported when it is used.
    pub fn connect(peer: SocketAddr, (key, timeout): (KnownKey, Duration)) -> io::Result<Self> {
        Self::initiated(dial(peer, timeout)?, peer.to_string(), key)
    }

    /// Takes a connection that this side makes, and which need not be established.
    pub(super) fn initiated(stream: Stream, peer: String, key: KnownKey) -> io::Result<Self> {
        let edge = Self::new(stream, peer, Handshake::initiator(key, random()?));
        Ok(Self { is_connecting: true, ..edge })
    }

    fn new(stream: Stream, peer: String, handshake: Handshake) -> Self {
        let mut edge = Self {
            stream,
            peer,
            state: EdgeState::Handshake(handshake),
            output: Vec::new(),
            sent: 0,
            has_more: false,
            is_connecting: false,
            is_silent: true,
            segments: (0, clock::now()),
            watched: None,
        };
        edge.collect_handshake();
        edge
    }

    /// Address of this end.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `AddrNotAvailable` unless this is a connection of TCP.
    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        match &self.stream {
            Stream::Tcp(stream) => stream.local_addr(),
            _ => Err(ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// Keeps the connection for as long as both processes do: one that is stopped reads nothing, and from
    /// then on only its owner decides what that means, by what the [host answers](Self::poll_answer).
    pub(super) fn keep(&self) -> io::Result<()> {
        Ok(set_tcp_user_timeout(&self.stream, 0)?)
    }

    /// Last time at which the system of the other host has answered; `None` if it has not since the last
    /// call.
    pub(super) fn poll_answer(&mut self, now: Instant) -> Option<Instant> {
        let ReceivedSegments { count, last } = ReceivedSegments::of(&self.stream).ok()?;
        let (former, looked_at) = std::mem::replace(&mut self.segments, (count, now));
        if former == count {
            return None;
        }
        // While the other side takes nothing, its own probes arrive, which have no time.
        let last = now.checked_sub(last).filter(|last| *last > looked_at);
        Some(last.unwrap_or(now))
    }

    /// True if the other end has closed the connection, which has ended with `error`, without a byte: it has
    /// only looked whether it can connect.
    pub fn was_probed(&self, error: &EdgeError) -> bool {
        self.is_silent
            && match error {
                EdgeError::Closed | EdgeError::ClosedEarly => true,
                EdgeError::Io(error) => error.kind() != ErrorKind::TimedOut,
                _ => false,
            }
    }

    /// True once both sides have proved the key.
    pub(super) const fn is_established(&self) -> bool {
        matches!(self.state, EdgeState::Established { .. })
    }

    /// The key that both sides have proved.
    pub(super) const fn proved(&self) -> Option<KeyId> {
        match &self.state {
            EdgeState::Handshake(_) => None,
            EdgeState::Established { key, .. } => Some(*key),
        }
    }

    /// Reads what is there, up to one `scratch`, and hands the content of each complete record to
    /// `handle`, which gets no further one after an error. `find` finds the key of a connection that was
    /// accepted.
    ///
    /// # Errors
    ///
    /// [`EdgeError`]; the connection is to be closed.
    pub fn read(
        &mut self,
        scratch: &mut [u8],
        find: FindKey<'_>,
        mut handle: impl FnMut(&[u8]) -> Result<(), EdgeError>,
    ) -> Result<EdgeProgress, EdgeError> {
        if self.is_connecting {
            socket_error(&self.stream).and_then(|state| state).map_err(io::Error::from)?;
            self.is_connecting = getpeername(&self.stream).is_err();
            if self.is_connecting {
                return Ok(EdgeProgress::Waiting);
            }
        }
        let len_bytes = match self.stream.read(scratch) {
            Ok(0) if !self.is_established() => return Err(EdgeError::ClosedEarly),
            Ok(0) => return Err(EdgeError::Closed),
            Ok(len_bytes) => len_bytes,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(EdgeProgress::Waiting);
            }
            Err(error) => return Err(error.into()),
        };
        self.is_silent = false;
        let mut bytes = &scratch[..len_bytes];
        let mut progress = EdgeProgress::Waiting;
        if let EdgeState::Handshake(handshake) = &mut self.state {
            let taken = handshake.receive(bytes, find);
            // A side that is rejected may read the version of this one.
            self.collect_handshake();
            bytes = &bytes[taken?..];
            if let EdgeState::Handshake(handshake) = &mut self.state
                && let Some((key, records)) = handshake.take_records()
            {
                self.state = EdgeState::Established { key, records };
                progress = EdgeProgress::Established;
            }
        }
        if let EdgeState::Established { records, .. } = &mut self.state {
            while let Some(content) = records.read(&mut bytes)? {
                handle(content)?;
            }
        }
        Ok(progress)
    }

    /// True if more content may be [sent](Self::send).
    pub fn has_room(&self) -> bool {
        self.is_established() && self.output.len() - self.sent < OUTPUT_MAX
    }

    /// True if bytes wait that the socket has not taken.
    pub(super) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Sets whether there is more to send than there was room for: the socket is watched for that, even if it
    /// takes all of the output. Returns whether this is a change.
    pub fn set_more(&mut self, has_more: bool) -> bool {
        std::mem::replace(&mut self.has_more, has_more) != has_more
    }

    /// Adds content to the output, as records. Before the end of the handshake it is lost.
    pub fn send(&mut self, content: &[u8]) {
        if let EdgeState::Established { records, .. } = &mut self.state {
            records.write(content, &mut self.output);
        }
    }

    /// Writes as much of the output as the socket takes.
    ///
    /// # Errors
    ///
    /// Errors of the system; the connection is to be closed.
    pub fn flush(&mut self) -> Result<(), EdgeError> {
        while !self.is_connecting && self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(EdgeError::Closed),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !self.is_connecting {
            self.output.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// Watches the socket for what can be done next.
    pub fn watch(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        let wanted = match self.is_connecting {
            true => Some(Interest::Write),
            false => Interest::of(true, self.has_output() || self.has_more),
        };
        poller.rewatch(token, &self.stream, (&mut self.watched, wanted))
    }

    /// Ends the watch, so that another poller can begin one.
    pub fn unwatch(&mut self, token: Token, poller: &Poller) -> io::Result<()> {
        poller.rewatch(token, &self.stream, (&mut self.watched, None))
    }

    fn collect_handshake(&mut self) {
        if let EdgeState::Handshake(handshake) = &mut self.state {
            self.output.extend(handshake.due());
            handshake.sent();
        }
    }
}

/// Begins to connect to `peer` over TCP, by a [prepared](prepare) socket.
///
/// # Errors
///
/// Errors of the system; some of the connection itself are reported when it is used.
pub(super) fn dial(peer: SocketAddr, timeout: Duration) -> io::Result<Stream> {
    let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &peer) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    prepare(&socket, timeout)?;
    Ok(TcpStream::from(socket).into())
}

/// Prepares a socket of a connection, or one that listens, whose connections inherit its options: no delay of
/// small messages, and an end of the connection when the other machine has been silent for `timeout`, whether
/// anything was sent to it or not. Until `Edge::keep`, it ends as well when the other process has taken
/// nothing for that time.
pub fn prepare(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    let socket = socket.as_fd();
    set_tcp_nodelay(socket, true)?;
    set_tcp_user_timeout(socket, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX))?;
    // The tree decides about a silence before the system does.
    let probes = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).saturating_add(2);
    let probes = probes.clamp(1, PROBES_MAX);
    repeat_often(socket, timeout);
    keep_alive(socket, (PROBE, PROBE, probes))
}

/// Time between two probes of a silent machine, the least that the system supports.
const PROBE: Duration = Duration::from_secs(1);

/// Largest number of probes that the system supports.
const PROBES_MAX: u32 = 127;

/// Output that may wait at one connection before no more is requested from the tree: some records.
const OUTPUT_MAX: usize = 4 * CONTENT_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_os::admission::Policy;
    use pmi_host_os::listen::Listener;
    use rustix::net::sockopt;
    use std::net::TcpListener;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn pair(key: KnownKey) -> [Edge; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let initiator = Edge::connect(address, (key, TIMEOUT)).unwrap();
        let (stream, from) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        [initiator, Edge::accepted(stream, from.to_string(), None).unwrap()]
    }

    /// Finds the key of an attachment, whichever node names it.
    fn find(key: &LinkKey) -> impl Fn(KeyId) -> Result<LinkKey, HandshakeError> {
        move |_| Ok(key.clone())
    }

    #[test]
    fn connections_have_the_options_of_the_socket_that_accepts_them() {
        let poller = Poller::new().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let mut listener = Listener::open(any, Token::NodeListen, Policy::Secret, &poller).unwrap();
        prepare(&listener, TIMEOUT).unwrap();
        let _peer = TcpStream::connect(listener.address).unwrap();
        let arrival =
            std::iter::from_fn(|| Some(listener.accept(&poller).unwrap())).flatten().next();
        let Some(Stream::Tcp(stream)) = arrival.map(|arrival| arrival.stream) else { panic!() };
        assert!(
            sockopt::tcp_nodelay(&stream).unwrap() && sockopt::socket_keepalive(&stream).unwrap()
        );
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 5000);
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), PROBE);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 7);
        let read = (&stream).read(&mut [0]).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::WouldBlock);
    }

    /// Serves both ends until `until` holds, or one of them fails.
    fn drive(
        edges: &mut [Edge; 2],
        key: &LinkKey,
        received: &mut [Vec<u8>; 2],
        mut until: impl FnMut(&[Edge; 2], &[Vec<u8>; 2]) -> bool,
    ) -> Result<(), (usize, EdgeError)> {
        let mut scratch = vec![0; 1 << 16];
        while !until(edges, received) {
            for (at, edge) in edges.iter_mut().enumerate() {
                edge.flush().map_err(|error| (at, error))?;
                let take = |content: &[u8]| {
                    received[at].extend(content);
                    Ok(())
                };
                edge.read(&mut scratch, &find(key), take).map_err(|error| (at, error))?;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    #[test]
    fn content_arrives_in_order_and_output_is_bounded() {
        let key = LinkKey::generate().unwrap();
        let (mut edges, mut received) =
            (pair(KnownKey::attachment(5, &key)), [const { Vec::new() }; 2]);
        drive(&mut edges, &key, &mut received, |edges, _| edges.iter().all(Edge::is_established))
            .unwrap();
        let mut sent = Vec::new();
        while edges[0].has_room() {
            let content = vec![u8::try_from(sent.len() % 251).unwrap(); 10_000];
            sent.extend(&content);
            edges[0].send(&content);
        }
        assert!(sent.len() < OUTPUT_MAX + 10_000 && edges[0].has_output());
        edges[1].send(b"up");
        let all = sent.len();
        drive(&mut edges, &key, &mut received, |_, received| {
            received[1].len() == all && received[0].len() == 2
        })
        .unwrap();
        assert_eq!((&received[1], &received[0][..]), (&sent, &b"up"[..]));
        assert!(!edges[0].has_output() && edges[0].has_room());
    }

    #[test]
    fn connection_to_a_process_that_reads_nothing_stays_while_its_host_answers() {
        let key = LinkKey::generate().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let second = Duration::from_secs(1);
        prepare(&listener, second).unwrap();
        let known = KnownKey::plain(&key);
        let initiator = Edge::connect(listener.local_addr().unwrap(), (known, second)).unwrap();
        let (stream, from) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut edges = [initiator, Edge::accepted(stream, from.to_string(), Some(&key)).unwrap()];
        let mut received = [const { Vec::new() }; 2];
        drive(&mut edges, &key, &mut received, |edges, _| edges.iter().all(Edge::is_established))
            .unwrap();
        let edge = &mut edges[0];
        edge.keep().unwrap();
        while !edge.has_output() {
            edge.send(&[7; 10_000]);
            edge.flush().unwrap();
        }
        let began = clock::now();
        let (mut asked, mut answers) = (began, 0);
        while clock::since(began) < 6 * second {
            std::thread::sleep(second / 5);
            edge.flush().unwrap();
            let answer = edge.poll_answer(clock::now());
            answers += usize::from(answer.is_some_and(|at| at > asked));
            asked = answer.unwrap_or(asked);
        }
        assert!(answers >= 3, "{answers}");
    }

    #[test]
    fn wrong_key_ends_the_connection_at_both_ends() {
        let keys = [(); 2].map(|()| LinkKey::generate().unwrap());
        let (mut edges, mut received) =
            (pair(KnownKey::attachment(5, &keys[0])), [const { Vec::new() }; 2]);
        let ended = drive(&mut edges, &keys[1], &mut received, |_, _| false).unwrap_err();
        assert!(matches!(ended, (1, EdgeError::Handshake(HandshakeError::Proof))), "{ended:?}");
        let [mut initiator, acceptor] = edges;
        drop(acceptor);
        let mut scratch = [0; 64];
        let ended = loop {
            match initiator.read(&mut scratch, &find(&keys[0]), |_| Ok(())) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(ended, EdgeError::ClosedEarly | EdgeError::Io(_)), "{ended:?}");
        assert!(received.concat().is_empty());
    }

    #[test]
    fn address_without_a_listener_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let key = LinkKey::generate().unwrap();
        let refused = match Edge::connect(address, (KnownKey::start(&key), TIMEOUT)) {
            Ok(mut edge) => loop {
                match edge.read(&mut [0; 64], &find(&key), |_| Ok(())) {
                    Ok(_) => std::thread::yield_now(),
                    Err(EdgeError::Io(error)) => break error,
                    Err(other) => panic!("{other}"),
                }
            },
            Err(error) => error,
        };
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
