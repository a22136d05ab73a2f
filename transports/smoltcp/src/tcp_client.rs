//! A client over a socket, from connect to close.

use core::fmt;

use pmi_core::client::{Client, ClientEvent};
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;
use pmi_link::{PumpError, PumpState, pump};
use smoltcp::iface::Context;
use smoltcp::socket::tcp::{ConnectError, Socket, State};
use smoltcp::wire::IpEndpoint;

use crate::{SocketLink, close_socket};

/// A client and its connection over one socket, which the owner lends for each call.
///
/// Shape: `B` is the client's buffer; `I` holds unconsumed input, for which a few bytes are enough;
/// `O` holds one message as long as the owner's longest put. The numbers are the client's. A closed
/// client can connect again, however it was closed, and starts with a new handshake.
#[derive(Debug)]
pub struct TcpClient<B, I, O, const SLOTS: usize = 1, const GENERATIONS: u16 = 2> {
    client: Client<B, SLOTS, GENERATIONS>,
    pump: PumpState<I, O>,
    state: DialState,
}

/// State of the connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum DialState {
    /// Never connected.
    Idle,
    /// Waits for the server to accept.
    Connecting,
    /// Connected.
    Connected,
    /// Waits for the server to close too.
    Closing,
    /// The socket is free.
    Closed,
}

/// Error of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ConnectionError {
    /// Cannot connect: the address, or a connection that is still open.
    Connect(ConnectError),
    /// The server has refused the connection, or not answered in the socket's time.
    Unreachable,
    /// The session has failed.
    Pump(PumpError),
}

impl<B, I, O, const SLOTS: usize, const GENERATIONS: u16> TcpClient<B, I, O, SLOTS, GENERATIONS>
where
    B: Buffer + Default,
    I: Buffer + Default,
    O: Buffer + Default,
{
    /// Makes a client without a connection.
    pub fn new() -> Self {
        Self {
            client: Client::new(B::default()),
            pump: PumpState::new(I::default(), O::default()),
            state: DialState::Idle,
        }
    }

    /// Connects to `server` from `local_port`, which was not used for this server just before.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::Connect`], and nothing has changed.
    pub fn connect(
        &mut self,
        socket: &mut Socket<'_>,
        context: &mut Context,
        server: IpEndpoint,
        local_port: u16,
    ) -> Result<(), ConnectionError> {
        socket.connect(context, server, local_port).map_err(ConnectionError::Connect)?;
        self.reset();
        Ok(())
    }

    // Not inlined, and one after the other: what is built here passes through the stack, and is gone
    // before the first turn.
    #[inline(never)]
    fn reset(&mut self) {
        self.client = Client::new(B::default());
        self.pump = PumpState::new(I::default(), O::default());
        self.state = DialState::Connecting;
    }

    /// Makes progress as far as possible without waiting. Poll the stack before.
    ///
    /// Shape: half of `scratch` is for reading, half has room for one message.
    ///
    /// # Errors
    ///
    /// Each is returned once, then the connection closes; the client can connect again after that.
    pub fn poll(
        &mut self,
        now: Instant,
        socket: &mut Socket<'_>,
        scratch: &mut [u8],
    ) -> Result<DialState, ConnectionError> {
        match self.state {
            DialState::Idle | DialState::Closed => {}
            DialState::Closing if close_socket(socket) => self.state = DialState::Closed,
            DialState::Closing => {}
            DialState::Connecting => match socket.state() {
                State::SynSent | State::SynReceived => {}
                State::Closed => {
                    self.state = DialState::Closed;
                    return Err(ConnectionError::Unreachable);
                }
                _ => self.state = DialState::Connected,
            },
            DialState::Connected => {
                let mut link = SocketLink::new(socket);
                match pump(now, &mut self.client, &mut link, &mut self.pump, scratch) {
                    Ok(progress) if progress.finished => self.state = DialState::Closing,
                    Ok(_) => {}
                    Err(error) => {
                        self.state = DialState::Closing;
                        return Err(ConnectionError::Pump(error));
                    }
                }
            }
        }
        Ok(self.state)
    }

    /// Closes the connection at once: the server sees a reset.
    pub fn abort(&mut self, socket: &mut Socket<'_>) {
        socket.abort();
        self.state = DialState::Closing;
    }

    /// The next answer, as [`poll_event`](pmi_core::machine::Machine::poll_event) gives it.
    pub fn poll_event(&mut self) -> Option<ClientEvent<'_>> {
        pmi_core::machine::Machine::poll_event(&mut self.client)
    }

    /// The client machine, which starts requests.
    pub const fn client(&mut self) -> &mut Client<B, SLOTS, GENERATIONS> {
        &mut self.client
    }

    /// State of the connection.
    pub const fn state(&self) -> DialState {
        self.state
    }
}

impl<B, I, O, const SLOTS: usize, const GENERATIONS: u16> Default
    for TcpClient<B, I, O, SLOTS, GENERATIONS>
where
    B: Buffer + Default,
    I: Buffer + Default,
    O: Buffer + Default,
{
    fn default() -> Self {
        Self::new()
    }
}

impl DialState {
    /// True when the socket is free for another call.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Unreachable => f.write_str("the server does not answer"),
            Self::Pump(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectionError {}
