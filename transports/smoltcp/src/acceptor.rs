//! Listening sockets of a server.

use pmi_core::error::Misuse;
use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::server::{Server, Storage};
use pmi_core::storage::Buffer;
use pmi_core::time::{Duration, Instant};
use pmi_link::{PumpError, PumpState, pump};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::Socket;

use crate::{SocketLink, close_socket};

/// Sockets that listen on one port, and their connections to a server.
///
/// Shape: one slot for each socket; `I` and `O` as for [`pmi_link::PumpState`]. The server, its
/// events and its jobs stay with the owner, which polls [`Server::poll_event`] between two calls: a
/// session with an event accepts no input before that.
#[derive(Debug)]
pub struct Acceptor<I, O, const SLOTS: usize> {
    port: u16,
    close_timeout: Duration,
    slots: [Slot<I, O>; SLOTS],
}

/// Events of an acceptor, besides those of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AcceptorEvent {
    /// A session has failed. Its rank, if it had one, is lost.
    Disconnected {
        /// The job of the address.
        job: JobId,
        /// The rank of the connection, if it is known.
        rank: Option<Rank>,
        /// Cause of the end.
        error: PumpError,
    },
    /// A connection was rejected, since no session was opened for it: the server has no room for one more,
    /// or the job no longer exists.
    NoRoom,
}

#[derive(Debug)]
struct Slot<I, O> {
    handle: SocketHandle,
    pump_state: PumpState<I, O>,
    state: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Listening,
    Connected(SessionId),
    /// Deadline of the peer's close.
    Closing(Instant),
}

impl<I: Buffer + Default, O: Buffer + Default, const SLOTS: usize> Acceptor<I, O, SLOTS> {
    /// Makes an acceptor of these sockets, which are not in use.
    ///
    /// Shape: `port` is not 0; a connection that the peer does not close within `close_timeout` after its
    /// session is aborted, so that its socket can listen again.
    pub fn new(handles: [SocketHandle; SLOTS], port: u16, close_timeout: Duration) -> Self {
        let slot = |handle| Slot { handle, pump_state: empty_state(), state: SlotState::Listening };
        Self { port, close_timeout, slots: handles.map(slot) }
    }

    /// Drives every socket as far as possible without waiting. Poll the stack before.
    ///
    /// Shape: `open` opens the session of a new connection ([`Server::open`]), with the identity that its
    /// peer must prove, and with memory that the owner lends: an array, or a buffer of a
    /// [`Pool`](pmi_core::pool::Pool). Half of `scratch` is for reading, half has room for one message.
    pub fn poll<S: Storage>(
        &mut self,
        now: Instant,
        sockets: &mut SocketSet<'_>,
        server: &mut Server<S>,
        scratch: &mut [u8],
        mut open: impl FnMut(&mut Server<S>) -> Result<SessionId, Misuse>,
        mut on_event: impl FnMut(AcceptorEvent),
    ) {
        for slot in &mut self.slots {
            let socket = sockets.get_mut::<Socket>(slot.handle);
            match slot.state {
                SlotState::Listening if socket.may_send() || socket.may_recv() => {
                    slot.pump_state = empty_state();
                    slot.state = match open(server) {
                        Ok(session) => SlotState::Connected(session),
                        Err(_) => {
                            on_event(AcceptorEvent::NoRoom);
                            socket.abort();
                            SlotState::Closing(now)
                        }
                    };
                }
                // A socket whose handshake failed is closed, and listens again.
                SlotState::Listening if !socket.is_open() => {
                    let _only_port_zero_is_refused = socket.listen(self.port);
                }
                SlotState::Listening => {}
                SlotState::Connected(id) => {
                    let Some(event) = poll_session(slot, id, now, socket, server, scratch) else {
                        continue;
                    };
                    event.into_iter().for_each(&mut on_event);
                    server.close(id);
                    slot.state = SlotState::Closing(now.plus(self.close_timeout));
                }
                SlotState::Closing(_) if close_socket(socket) => slot.state = SlotState::Listening,
                SlotState::Closing(until) if until <= now => socket.abort(),
                SlotState::Closing(_) => {}
            }
        }
    }

    /// True if no connection is open.
    pub fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| slot.state == SlotState::Listening)
    }
}

/// Drives one session. Once it is over, returns the event of its end, if there is one.
fn poll_session<S: Storage, I: Buffer, O: Buffer>(
    slot: &mut Slot<I, O>,
    id: SessionId,
    now: Instant,
    socket: &mut Socket<'_>,
    server: &mut Server<S>,
    scratch: &mut [u8],
) -> Option<Option<AcceptorEvent>> {
    // An owner may have closed the session itself.
    let Some(mut session) = server.session(id) else { return Some(None) };
    let mut link = SocketLink::new(socket);
    match pump(now, &mut session, &mut link, &mut slot.pump_state, scratch) {
        Ok(progress) => progress.finished.then_some(None),
        Err(error) => {
            let (job, rank) = server.peer(id)?;
            Some(Some(AcceptorEvent::Disconnected { job, rank, error }))
        }
    }
}

fn empty_state<I: Buffer + Default, O: Buffer + Default>() -> PumpState<I, O> {
    PumpState::new(I::default(), O::default())
}
