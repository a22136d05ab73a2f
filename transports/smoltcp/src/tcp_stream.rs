//! A connection that waits: each read and write polls the stack until it is done.

use core::fmt;

use embedded_io::{ErrorKind, ErrorType};
use pmi_link::{Link, Read, Wrote};
use smoltcp::iface::{Context, Interface, SocketHandle, SocketSet};
use smoltcp::phy::Device;
use smoltcp::socket::tcp::{ConnectError, Socket, State};
use smoltcp::time::Instant;
use smoltcp::wire::IpEndpoint;

use crate::{SocketLink, close_socket};

/// The stack of a node, as a stream uses it while it waits: usually a [`NetStack`].
pub trait Stack {
    /// Polls the interface once.
    ///
    /// # Errors
    ///
    /// [`StreamError::TimedOut`] to end the waiting.
    fn poll(&mut self) -> Result<(), StreamError>;

    /// Lends a socket, with the context of the interface.
    fn with_socket<T>(
        &mut self,
        handle: SocketHandle,
        run: impl FnOnce(&mut Context, &mut Socket<'_>) -> T,
    ) -> T;
}

/// The parts of a stack, lent to a stream while it is open.
pub struct NetStack<'n, 's, D, C> {
    /// The interface.
    pub iface: &'n mut Interface,
    /// Its device.
    pub device: &'n mut D,
    /// The sockets, that of the stream among them.
    pub sockets: &'n mut SocketSet<'s>,
    /// Returns the time, or `None` to end the waiting. Called before every poll: it may sleep until the
    /// device has something.
    pub clock: C,
}

/// A TCP connection with the traits of `embedded-io`, so that the calls of [`pmi_link::blocking`] work on it.
#[derive(Debug)]
pub struct TcpStream<N> {
    stack: N,
    handle: SocketHandle,
}

/// Error of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum StreamError {
    /// Cannot connect: the address, or a connection that is still open.
    Connect(ConnectError),
    /// The server has refused the connection, or not answered in the socket's time.
    Unreachable,
    /// The connection is lost.
    Reset,
    /// The clock, or the stack, has ended the waiting.
    TimedOut,
}

impl<D: Device, C: FnMut() -> Option<Instant>> Stack for NetStack<'_, '_, D, C> {
    fn poll(&mut self) -> Result<(), StreamError> {
        let now = (self.clock)().ok_or(StreamError::TimedOut)?;
        self.iface.poll(now, self.device, self.sockets);
        Ok(())
    }

    fn with_socket<T>(
        &mut self,
        handle: SocketHandle,
        run: impl FnOnce(&mut Context, &mut Socket<'_>) -> T,
    ) -> T {
        run(self.iface.context(), self.sockets.get_mut(handle))
    }
}

impl<N: Stack> TcpStream<N> {
    /// Takes a stack with its socket, which is not connected yet.
    pub const fn new(stack: N, handle: SocketHandle) -> Self {
        Self { stack, handle }
    }

    /// Connects to `server` from `local_port`, which was not used for this server just before, and waits
    /// until the server accepts. A stream can connect again after an error, and after [`close`](Self::close).
    ///
    /// # Errors
    ///
    /// [`StreamError::Connect`], and nothing was sent; [`StreamError::Unreachable`], or the error of the
    /// stack, and the socket is closed.
    pub fn connect(&mut self, server: IpEndpoint, local_port: u16) -> Result<(), StreamError> {
        self.stack
            .with_socket(self.handle, |context, socket| socket.connect(context, server, local_port))
            .map_err(StreamError::Connect)?;
        loop {
            match self.poll(|socket| socket.state()) {
                Ok(State::SynSent | State::SynReceived) => {}
                Ok(State::Closed) => return Err(StreamError::Unreachable),
                Ok(_) => return Ok(()),
                Err(error) => {
                    self.stack.with_socket(self.handle, |_, socket| socket.abort());
                    return Err(error);
                }
            }
        }
    }

    /// Closes the connection and waits until the server has closed it too.
    ///
    /// # Errors
    ///
    /// Those of the stack.
    pub fn close(&mut self) -> Result<(), StreamError> {
        while !self.poll(close_socket)? {}
        Ok(())
    }

    /// The stack.
    pub const fn stack(&mut self) -> &mut N {
        &mut self.stack
    }

    /// Polls the stack once, and lends the socket.
    fn poll<T>(&mut self, run: impl FnOnce(&mut Socket<'_>) -> T) -> Result<T, StreamError> {
        self.stack.poll()?;
        Ok(self.stack.with_socket(self.handle, |_, socket| run(socket)))
    }
}

impl<N> ErrorType for TcpStream<N> {
    type Error = StreamError;
}

impl<N: Stack> embedded_io::Read for TcpStream<N> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, StreamError> {
        while !out.is_empty() {
            match self.poll(|socket| SocketLink::new(socket).try_read(out))? {
                Ok(Read::Bytes(len)) => return Ok(len),
                Ok(Read::End) => break,
                Ok(Read::NotNow) => {}
                Err(_) => return Err(StreamError::Reset),
            }
        }
        Ok(0)
    }
}

impl<N: Stack> embedded_io::Write for TcpStream<N> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        while !bytes.is_empty() {
            match self.poll(|socket| SocketLink::new(socket).try_write(bytes))? {
                Ok(Wrote::Bytes(len)) => return Ok(len),
                Ok(Wrote::NotNow) => {}
                Err(_) => return Err(StreamError::Reset),
            }
        }
        Ok(0)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        // The first poll after a write sends it; waiting for the acknowledgement would gain nothing.
        self.stack.poll()
    }
}

impl<D, C> fmt::Debug for NetStack<'_, '_, D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetStack").finish_non_exhaustive()
    }
}

impl embedded_io::Error for StreamError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect(_) => ErrorKind::InvalidInput,
            Self::Unreachable => ErrorKind::ConnectionRefused,
            Self::Reset => ErrorKind::ConnectionReset,
            Self::TimedOut => ErrorKind::TimedOut,
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Unreachable => f.write_str("the server does not answer"),
            Self::Reset => f.write_str("the connection is lost"),
            Self::TimedOut => f.write_str("the time limit has passed"),
        }
    }
}

impl core::error::Error for StreamError {}
