//! Listening socket for ranks that connect by themselves.

use crate::admission::Policy;
use crate::admission::gate::{Arrival, TcpGate};
use crate::clock;
use crate::poller::{Interest, Poller, Token};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A listening socket that can pause.
#[derive(Debug)]
pub struct Listener {
    socket: TcpGate,
    token: Token,
    /// Bound address, with the port that the system chose if any was acceptable.
    pub address: SocketAddr,
    /// Time to resume accepting, while paused.
    pub paused_until: Option<Instant>,
}

impl Listener {
    /// Opens the socket and registers it: connections are reported under `token` and admitted by
    /// `policy`.
    pub fn open(
        address: SocketAddr,
        token: Token,
        policy: Policy,
        poller: &Poller,
    ) -> io::Result<Self> {
        Self::of(TcpGate::open(address, policy)?, token, poller)
    }

    /// Registers a socket that was opened already, as [`open`](Self::open) does.
    ///
    /// The connections that it accepts have its options: they send at once, and keep-alive is enabled.
    pub fn of(socket: TcpGate, token: Token, poller: &Poller) -> io::Result<Self> {
        set_tcp_nodelay(&socket, true)?;
        keep_alive(&socket, (KEEP_IDLE, KEEP_INTERVAL, KEEP_COUNT))?;
        poller.add(token, &socket, Interest::Read)?;
        Ok(Self { token, address: socket.address, socket, paused_until: None })
    }

    /// Accepts the next connection, if there is one. It is non-blocking.
    ///
    /// # Errors
    ///
    /// Errors of the readiness calls; a connection that is closed at once is none.
    pub fn accept(&mut self, poller: &Poller) -> io::Result<Option<Arrival>> {
        match self.socket.accept() {
            Ok(arrival) => Ok(arrival),
            // Probably no open files are left: that may improve, and connections wait in the backlog.
            Err(_) => {
                self.pause(poller)?;
                Ok(None)
            }
        }
    }

    /// Stops accepting for a moment.
    fn pause(&mut self, poller: &Poller) -> io::Result<()> {
        if self.paused_until.replace(clock::now() + PAUSE).is_none() {
            poller.remove(self.token, &self.socket)?;
        }
        Ok(())
    }

    /// Resumes accepting when it is due.
    pub fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
            poller.add(self.token, &self.socket, Interest::Read)?;
        }
        Ok(())
    }
}

/// For options that the connections have as well.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Enables keep-alive: a machine that loses its power closes no connection, so the system has to probe. It
/// does so after `idle`, then each `interval`, and closes the connection after `count` unanswered probes.
pub fn keep_alive(
    socket: impl AsFd,
    (idle, interval, count): (Duration, Duration, u32),
) -> io::Result<()> {
    let socket = socket.as_fd();
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, idle)?;
    set_tcp_keepintvl(socket, interval)?;
    Ok(set_tcp_keepcnt(socket, count)?)
}

/// Number of connections accepted before other descriptors have their turn.
pub const ACCEPTED_AT_ONCE: usize = 64;

/// Length of a pause, long enough for a descriptor to be closed.
const PAUSE: Duration = Duration::from_millis(100);

/// Keep-alive parameters. A computing rank sends nothing for hours, so the system probes: after half a
/// minute, every ten seconds, and after three unanswered probes the connection is closed.
const KEEP_IDLE: Duration = Duration::from_secs(30);
const KEEP_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_COUNT: u32 = 3;
