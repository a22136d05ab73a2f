//! A client over a socket, from dialling to hanging up.

use core::fmt;

use pmi_core::client::{Client, Event};
use pmi_core::command::{Reply, Request};
use pmi_core::error::Misuse;
use pmi_core::storage::Buffer;
use pmi_core::time::Instant;
use pmi_link::{Carry, PumpError, pump};
use smoltcp::iface::Context;
use smoltcp::socket::tcp::{ConnectError, Socket, State};
use smoltcp::wire::IpEndpoint;

use crate::{SocketLink, hang_up};

/// A client and its way over one socket, which the owner lends for each turn.
///
/// Shape: `B` is the client's buffer; `I` holds what was read and not taken, a few bytes are
/// enough; `O` holds one message as long as the owner's longest put. The numbers are the client's.
/// A call can be dialled again after it has ended, in whatever way; that begins with a client that
/// has said nothing.
#[derive(Debug)]
pub struct Call<B, I, O, const SLOTS: usize = 1, const GENERATIONS: u16 = 2> {
    client: Client<B, SLOTS, GENERATIONS>,
    carry: Carry<I, O>,
    stage: Stage,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Nobody was dialled.
    Idle,
    /// Waits for the server to pick up.
    Dialling,
    /// Connected.
    Talking,
    /// Waits for the server to hang up too.
    HangingUp,
    /// The socket is free.
    Over,
}

/// Why a call does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// Cannot be dialled so: the address, or a call that is not over.
    Dial(ConnectError),
    /// The server has refused the connection, or not answered in the socket's time.
    NoAnswer,
    /// The conversation broke off.
    Pump(PumpError),
    /// The question cannot be asked; nothing was sent.
    Misuse(Misuse),
    /// Nobody is there to ask: the call is not dialled, or over.
    NotConnected,
}

impl<B, I, O, const SLOTS: usize, const GENERATIONS: u16> Call<B, I, O, SLOTS, GENERATIONS>
where
    B: Buffer + Default,
    I: Buffer + Default,
    O: Buffer + Default,
{
    /// Makes a call that was not dialled.
    pub fn new() -> Self {
        Self {
            client: Client::new(B::default()),
            carry: Carry::new(I::default(), O::default()),
            stage: Stage::Idle,
        }
    }

    /// Dials `server` from `local_port`, which was not used for this server just before.
    ///
    /// # Errors
    ///
    /// [`CallError::Dial`], and nothing has changed.
    pub fn dial(
        &mut self,
        socket: &mut Socket<'_>,
        context: &mut Context,
        server: IpEndpoint,
        local_port: u16,
    ) -> Result<(), CallError> {
        socket.connect(context, server, local_port).map_err(CallError::Dial)?;
        self.begin();
        Ok(())
    }

    // Not inlined, and one after the other: what is built here passes through the stack, and is gone
    // before the first turn.
    #[inline(never)]
    fn begin(&mut self) {
        self.client = Client::new(B::default());
        self.carry = Carry::new(I::default(), O::default());
        self.stage = Stage::Dialling;
    }

    /// Goes on as far as possible without waiting. Poll the stack before.
    ///
    /// Shape: half of `scratch` is for reading, half has room for one message.
    ///
    /// # Errors
    ///
    /// Each is told once, then the call hangs up; it can be dialled again when it is over.
    pub fn turn(
        &mut self,
        now: Instant,
        socket: &mut Socket<'_>,
        scratch: &mut [u8],
    ) -> Result<Stage, CallError> {
        match self.stage {
            Stage::Idle | Stage::Over => {}
            Stage::HangingUp if hang_up(socket) => self.stage = Stage::Over,
            Stage::HangingUp => {}
            Stage::Dialling => match socket.state() {
                State::SynSent | State::SynReceived => {}
                State::Closed => {
                    self.stage = Stage::Over;
                    return Err(CallError::NoAnswer);
                }
                _ => self.stage = Stage::Talking,
            },
            Stage::Talking => {
                let mut link = SocketLink::new(socket);
                match pump(now, &mut self.client, &mut link, &mut self.carry, scratch) {
                    Ok(progress) if progress.finished => self.stage = Stage::HangingUp,
                    Ok(_) => {}
                    Err(error) => {
                        self.stage = Stage::HangingUp;
                        return Err(CallError::Pump(error));
                    }
                }
            }
        }
        Ok(self.stage)
    }

    /// Asks one question and waits for its answer, taking turns meanwhile.
    ///
    /// Shape: `turn` polls the stack and calls [`turn`](Self::turn); it may sleep, and it ends the
    /// waiting with an error of its own. `read` sees the answer, which may be a refusal.
    ///
    /// # Errors
    ///
    /// Those of `turn`; [`CallError::Misuse`] if the question cannot be asked.
    pub fn ask<T, E: From<CallError>>(
        &mut self,
        request: &Request<'_>,
        mut turn: impl FnMut(&mut Self) -> Result<Stage, E>,
        read: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<T, E> {
        self.client.start(request).map_err(CallError::Misuse)?;
        loop {
            let stage = turn(self)?;
            if let Some(Event::Reply { reply, .. }) = self.event() {
                return Ok(read(&reply));
            }
            if matches!(stage, Stage::Idle | Stage::Over) {
                return Err(CallError::NotConnected.into());
            }
        }
    }

    /// Ends the call at once: the server sees a reset.
    pub fn abandon(&mut self, socket: &mut Socket<'_>) {
        socket.abort();
        self.stage = Stage::HangingUp;
    }

    /// The next answer, as [`poll_event`](pmi_core::machine::Machine::poll_event) gives it.
    pub fn event(&mut self) -> Option<Event<'_>> {
        pmi_core::machine::Machine::poll_event(&mut self.client)
    }

    /// The machine, to start questions with.
    pub const fn client(&mut self) -> &mut Client<B, SLOTS, GENERATIONS> {
        &mut self.client
    }

    /// How far the call has come.
    pub const fn stage(&self) -> Stage {
        self.stage
    }
}

impl<B, I, O, const SLOTS: usize, const GENERATIONS: u16> Default
    for Call<B, I, O, SLOTS, GENERATIONS>
where
    B: Buffer + Default,
    I: Buffer + Default,
    O: Buffer + Default,
{
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// True when the socket is free for another call.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Over)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(error) => error.fmt(f),
            Self::NoAnswer => f.write_str("the server does not answer"),
            Self::Pump(error) => error.fmt(f),
            Self::Misuse(error) => error.fmt(f),
            Self::NotConnected => f.write_str("the call is over"),
        }
    }
}

impl core::error::Error for CallError {}
