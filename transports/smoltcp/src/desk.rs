//! Sockets that take calls for a server.

use pmi_core::ids::{JobId, Rank, SessionId};
use pmi_core::server::{Peer, Server, Storage};
use pmi_core::storage::Buffer;
use pmi_core::time::{Duration, Instant};
use pmi_link::{Carry, PumpError, pump};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::Socket;

use crate::{SocketLink, hang_up};

/// A few sockets that listen on one port and speak for a server.
///
/// Shape: one place for each socket; `I` and `O` as for [`pmi_link::Carry`]. The server, its events
/// and its jobs stay with the owner, who polls [`Server::poll_event`] between two turns: a session
/// that has told something takes nothing more before that.
#[derive(Debug)]
pub struct Desk<I, O, const PLACES: usize> {
    port: u16,
    patience: Duration,
    places: [Place<I, O>; PLACES],
}

/// What a desk tells besides the events of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A conversation has broken off. Its rank, if it had one, is lost.
    Broken {
        /// The job that was called.
        job: JobId,
        /// Who called, as far as that was said.
        rank: Option<Rank>,
        /// Why.
        error: PumpError,
    },
    /// A caller was sent away: the server has no room for one more session, or the job is gone.
    NoRoom,
}

#[derive(Debug)]
struct Place<I, O> {
    handle: SocketHandle,
    carry: Carry<I, O>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Listening,
    Talking(SessionId),
    /// Until when the caller may take to hang up.
    HangingUp(Instant),
}

impl<I: Buffer + Default, O: Buffer + Default, const PLACES: usize> Desk<I, O, PLACES> {
    /// Makes a desk of these sockets, which are not in use.
    ///
    /// Shape: `port` is not 0; a caller that does not hang up within `patience` after its
    /// conversation is cut off, so that its socket can listen again.
    pub fn new(handles: [SocketHandle; PLACES], port: u16, patience: Duration) -> Self {
        let place = |handle| Place { handle, carry: fresh(), stage: Stage::Listening };
        Self { port, patience, places: handles.map(place) }
    }

    /// Goes on with every socket as far as possible without waiting. Poll the stack before.
    ///
    /// Shape: `peer` says what a new caller has to say and prove; half of `scratch` is for reading,
    /// half has room for one message.
    pub fn turn<S>(
        &mut self,
        now: Instant,
        sockets: &mut SocketSet<'_>,
        server: &mut Server<S>,
        scratch: &mut [u8],
        mut peer: impl FnMut() -> Peer,
        mut told: impl FnMut(Notice),
    ) where
        S: Storage,
        S::Inbox: Default,
        S::Exchanges: Default,
    {
        for place in &mut self.places {
            let socket = sockets.get_mut::<Socket>(place.handle);
            match place.stage {
                Stage::Listening if socket.may_send() || socket.may_recv() => {
                    let session = server.open(peer(), S::Inbox::default(), S::Exchanges::default());
                    place.carry = fresh();
                    place.stage = match session {
                        Ok(session) => Stage::Talking(session),
                        Err(_) => {
                            told(Notice::NoRoom);
                            socket.abort();
                            Stage::HangingUp(now)
                        }
                    };
                }
                // A listening socket answers so again; one whose opening failed listens again.
                Stage::Listening if !socket.is_open() => {
                    let _only_port_zero_is_refused = socket.listen(self.port);
                }
                Stage::Listening => {}
                Stage::Talking(id) => {
                    let Some(notice) = talk(place, id, now, socket, server, scratch) else {
                        continue;
                    };
                    notice.into_iter().for_each(&mut told);
                    server.close(id);
                    place.stage = Stage::HangingUp(now.plus(self.patience));
                }
                Stage::HangingUp(_) if hang_up(socket) => place.stage = Stage::Listening,
                Stage::HangingUp(until) if until <= now => socket.abort(),
                Stage::HangingUp(_) => {}
            }
        }
    }

    /// True when nobody is connected any more, or not yet.
    pub fn is_quiet(&self) -> bool {
        self.places.iter().all(|place| place.stage == Stage::Listening)
    }
}

/// Goes on with one conversation. When it is over, gives what there is to tell about its end, if
/// anything.
fn talk<S: Storage, I: Buffer, O: Buffer>(
    place: &mut Place<I, O>,
    id: SessionId,
    now: Instant,
    socket: &mut Socket<'_>,
    server: &mut Server<S>,
    scratch: &mut [u8],
) -> Option<Option<Notice>> {
    // An owner may have closed the session itself.
    let Some(mut session) = server.session(id) else { return Some(None) };
    let mut link = SocketLink::new(socket);
    match pump(now, &mut session, &mut link, &mut place.carry, scratch) {
        Ok(progress) => progress.finished.then_some(None),
        Err(error) => {
            let (job, rank) = server.peer(id)?;
            Some(Some(Notice::Broken { job, rank, error }))
        }
    }
}

fn fresh<I: Buffer + Default, O: Buffer + Default>() -> Carry<I, O> {
    Carry::new(I::default(), O::default())
}
