//! Requests that servers of all nodes handle: events, and members that leave a group.

use super::context::{PmixEffect, PmixServer, PmixServerRef};
use super::rank_data::{format_number, numbered_format};
use super::tables::PmixStorage;
use crate::error::{Malformed, Misuse};
use crate::ids::{ProcId, SessionId};
use crate::server::{RemoteError, Storage};
use crate::storage::Buffer;
use crate::store::BlockError;
use crate::wire::pmix::header::Header;
use crate::wire::pmix::{Request, Unpacker};

/// A request of a client, for the servers of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedRequest<'a> {
    /// Process of the client.
    pub peer: ProcId,
    /// Number of its wire format.
    pub format: u8,
    /// Body of the message.
    pub body: &'a [u8],
}

impl<'a> ForwardedRequest<'a> {
    /// Reads the request.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for anything else, and for an unknown wire format.
    pub fn read(&self) -> Result<Request<'a>, Malformed> {
        let format = numbered_format(self.format);
        let format = format.ok_or(Malformed::new(0, "a known wire format"))?;
        Request::read(Unpacker::new(self.body, format))
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// Lends the request of a session for the servers of other nodes, until
    /// [`request_read`](PmixServer::request_read).
    pub fn forwarded(self, id: SessionId) -> Option<ForwardedRequest<'a>> {
        let session = self.sessions.pmix(id)?;
        let held = session.inbox.as_slice().get(..session.state.lifecycle.held_len?)?;
        let format = format_number(session.state.protocol.format);
        let peer = session.state.protocol.peer?;
        Some(ForwardedRequest { peer, format, body: held.get(Header::BYTES..)? })
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Handles a request of a client of another node, which is answered there.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] for a process of this node and for a request that servers do not forward.
    pub fn handle_forwarded(&mut self, request: ForwardedRequest<'_>) -> Result<(), RemoteError> {
        let ForwardedRequest { peer, format, body } = request;
        if self.shared.is_local(peer) {
            return Err(RemoteError::Misuse(Misuse::NoSuch { what: "process of another node" }));
        }
        let malformed = |error| RemoteError::Block(BlockError::Malformed(error));
        let unknown = Malformed::new(0, "a request for all nodes");
        let format = numbered_format(format).ok_or(malformed(unknown))?;
        match Request::read(Unpacker::new(body, format)).map_err(malformed)? {
            Request::Notify { code, range, infos } => {
                // Without room for the event its clients do not receive it, as on its own node.
                if let Ok(at) = self.shared.notify(format, peer, code, range, &infos) {
                    self.deliver(at, None);
                }
            }
            Request::GroupLeave { name, .. } => {
                if let (_, PmixEffect::LeftGroup { at: Some(at), .. }) =
                    self.shared.leave_group(peer, name)
                {
                    self.deliver(at, None);
                }
                self.check_collectives();
            }
            _ => return Err(malformed(unknown)),
        }
        Ok(())
    }
}
