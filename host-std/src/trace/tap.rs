//! Recording wrapper around a session.

use super::{TraceSource, Tracer};
use pmi_core::error::{Full, PeerError};
use pmi_core::machine::Machine;
use pmi_core::server::{Event, Server};
use pmi_core::time::Instant;
use pmi_std::snapshot::server::ServerSession;

/// A machine of the server, with a recorder of its input and output.
#[derive(Debug)]
pub struct Tap<'a, M> {
    machine: M,
    tracer: &'a mut Tracer,
    subject: TraceSource,
    /// Time of its messages: one reading of the clock serves all that are handled at once.
    time_ns: u64,
}

impl<'a, M> Tap<'a, M> {
    pub(super) const fn new(
        machine: M,
        tracer: &'a mut Tracer,
        subject: TraceSource,
        time_ns: u64,
    ) -> Self {
        Self { machine, tracer, subject, time_ns }
    }
}

impl<M: ServerSession> ServerSession for Tap<'_, M> {
    type Storage = M::Storage;

    fn server(&self) -> &Server<M::Storage> {
        self.machine.server()
    }

    fn take_event(&mut self) -> Option<Event> {
        self.machine.take_event()
    }
}

impl<M: Machine> Machine for Tap<'_, M> {
    type Event<'b>
        = M::Event<'b>
    where
        Self: 'b;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        let taken = self.machine.handle_input(now, bytes);
        // The error of a peer is in its input, so all of that is worth keeping.
        let len = taken.unwrap_or(bytes.len());
        if len > 0 {
            self.tracer.received(self.subject, self.time_ns, bytes.get(..len).unwrap_or(bytes));
        }
        taken
    }

    fn holds_input(&self) -> bool {
        self.machine.holds_input()
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.machine.handle_timeout(now)
    }

    fn handle_end(&mut self, now: Instant) -> Result<(), PeerError> {
        self.machine.handle_end(now)
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        let written = self.machine.poll_transmit(out)?;
        if let Some(message) = written.and_then(|len| out.get(..len)) {
            self.tracer.sent(self.subject, self.time_ns, message);
        }
        Ok(written)
    }

    fn poll_event(&mut self) -> Option<Self::Event<'_>> {
        self.machine.poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }
}
