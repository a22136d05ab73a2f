//! The socket that ranks dial in at.

use crate::poller::{Interest, Poller, Token};
use pmi_std::Stream;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// A listening socket that can be closed for a moment.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    token: Token,
    /// Where it listens; with the port that was given if any would do.
    pub address: SocketAddr,
    /// When to take callers again.
    pub paused_until: Option<Instant>,
}

impl Listener {
    /// Opens it and watches it; callers are told by `token`.
    ///
    /// Errors: those of the system.
    pub fn open(address: SocketAddr, token: Token, poller: &Poller) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        poller.add(token, &socket, Interest::Read)?;
        Ok(Self { token, address: socket.local_addr()?, socket, paused_until: None })
    }

    /// The next caller, if there is one. It is told when its peer vanishes, and never waits.
    ///
    /// Errors: those of the readiness calls; a caller that hangs up at once is none.
    pub fn accept(&mut self, poller: &Poller) -> io::Result<Option<(Stream, SocketAddr)>> {
        loop {
            match self.socket.accept() {
                Ok((stream, from)) => {
                    let prepared = stream.set_nonblocking(true).and(stream.set_nodelay(true));
                    if prepared.and(keep_alive(&stream)).is_ok() {
                        return Ok(Some((Stream::Tcp(stream), from)));
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

    /// Takes nobody for a moment. Whoever guesses secrets shall not get far.
    ///
    /// Errors: those of the system.
    pub fn pause(&mut self, poller: &Poller) -> io::Result<()> {
        if self.paused_until.replace(Instant::now() + PAUSE).is_none() {
            poller.remove(self.token, &self.socket)?;
        }
        Ok(())
    }

    /// Takes callers again if it is time to.
    ///
    /// Errors: those of the system.
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

/// Short for people, long for whoever tries two thousand million numbers.
const PAUSE: Duration = Duration::from_millis(100);

/// A rank that computes says nothing for hours, so it is the system that asks: after half a minute, every
/// ten seconds, and at the third question without an answer it is gone.
const KEEP_IDLE: Duration = Duration::from_secs(30);
const KEEP_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_COUNT: u32 = 3;
