//! The socket that ranks dial in at.

use crate::admission::{Admission, Policy};
use crate::poller::{Interest, Poller, Token};
use pmi_std::Stream;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// A connection that was accepted and judged.
#[derive(Debug)]
pub struct Arrival {
    /// Our end.
    pub stream: Stream,
    /// The address of the other end.
    pub from: SocketAddr,
    /// Whether anything of it may be read.
    pub admission: Admission,
}

/// A listening socket that can be closed for a moment.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    token: Token,
    policy: Policy,
    /// Where it listens; with the port that was given if any would do.
    pub address: SocketAddr,
    /// When to take callers again.
    pub paused_until: Option<Instant>,
}

impl Listener {
    /// Opens it and watches it; connections are announced by `token` and judged by `policy`.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn open(
        address: SocketAddr,
        token: Token,
        policy: Policy,
        poller: &Poller,
    ) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        poller.add(token, &socket, Interest::Read)?;
        Ok(Self { token, policy, address: socket.local_addr()?, socket, paused_until: None })
    }

    /// The next connection, if there is one. Its end is noticed, and it never waits.
    ///
    /// # Errors
    ///
    /// Those of the readiness calls; a connection that is closed at once is none.
    pub fn accept(&mut self, poller: &Poller) -> io::Result<Option<Arrival>> {
        loop {
            match self.socket.accept() {
                Ok((stream, from)) => {
                    let prepared = stream.set_nonblocking(true).and(stream.set_nodelay(true));
                    if prepared.and(keep_alive(&stream)).is_ok() {
                        let stream = Stream::Tcp(stream);
                        let admission = self.policy.judge(&stream, (from, self.address));
                        return Ok(Some(Arrival { stream, from, admission }));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                // No open files left, or the like: it may be better later, and callers wait in line.
                Err(_) => {
                    self.pause(poller)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Accepts nothing for a moment.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn pause(&mut self, poller: &Poller) -> io::Result<()> {
        if self.paused_until.replace(Instant::now() + PAUSE).is_none() {
            poller.remove(self.token, &self.socket)?;
        }
        Ok(())
    }

    /// Takes callers again if it is time to.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
            poller.add(self.token, &self.socket, Interest::Read)?;
        }
        Ok(())
    }
}

/// A machine that loses its power says no goodbye; the system asks for it.
fn keep_alive(stream: &std::net::TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEP_IDLE)?;
    set_tcp_keepintvl(stream, KEEP_INTERVAL)?;
    Ok(set_tcp_keepcnt(stream, KEEP_COUNT)?)
}

/// Connections that are accepted before others have their turn.
pub const ACCEPTED_AT_ONCE: usize = 64;

/// Long enough for something to be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// A rank that computes says nothing for hours, so it is the system that asks: after half a minute, every
/// ten seconds, and at the third question without an answer it is gone.
const KEEP_IDLE: Duration = Duration::from_secs(30);
const KEEP_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_COUNT: u32 = 3;
