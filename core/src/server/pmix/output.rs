//! Output of processes, forwarded to clients that have requested it.
//!
//! The owner has the output, so it also holds the requests and what is left to be sent.

use super::context::PmixServer;
use super::session::PmixResponse;
use super::shared_bytes::pack;
use super::tables::PmixStorage;
use crate::error::Misuse;
use crate::ids::SessionId;
use crate::server::Storage;
use crate::server::session::SessionPhase;
use crate::server::session_table::READY;
use crate::storage::Slots;
use crate::wire::pmix::header::TAG_OUTPUT;
use crate::wire::pmix::{Proc, Type};

/// Output of a process, for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedOutput<'a> {
    /// The process that has written it.
    pub source: Proc<'a>,
    /// The stream: a bit of [`channel`](crate::wire::pmix::names::channel).
    pub channel: u16,
    /// Number of the request at the client.
    pub reference: u64,
    /// The output; empty at its end.
    pub bytes: &'a [u8],
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Sends output to a client.
    ///
    /// Wire: PROC, IOF_CHANNEL, SIZE reference, SIZE 0 (no INFO follows), BYTE_OBJECT; tag 2.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session is not open, and [`Misuse::NoRoom`] while the client has not read
    /// earlier output, or without memory. Nothing is sent then.
    pub fn send_output(
        &mut self,
        id: SessionId,
        output: &ForwardedOutput<'_>,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "open session" };
        let full = Misuse::NoRoom { what: "output" };
        let state = self.sessions.state_mut(id).ok_or(missing)?;
        if state.lifecycle.phase != SessionPhase::Open {
            return Err(missing);
        }
        let unsent = state.pending_requests().filter(|(_, pending)| pending.tag == TAG_OUTPUT);
        // A place is left for the answer to a request.
        let taken = state.pending_requests().count();
        if unsent.count() >= UNSENT_MAX || taken + 1 >= state.pending.capacity() {
            return Err(full);
        }
        let body = pack(state.protocol.format, |to| {
            output.source.write(to.one(Type::PROC));
            to.one(Type::IOF_CHANNEL).u16(output.channel);
            to.one(Type::SIZE).size(output.reference).one(Type::SIZE).size(0);
            to.one(Type::BYTE_OBJECT).blob(output.bytes);
        });
        state.push_response(TAG_OUTPUT, PmixResponse::Body(body.ok_or(full)?));
        self.sessions.push(READY, id);
        Ok(())
    }
}

/// Upper bound of unsent output messages of one session; the owner keeps the rest.
const UNSENT_MAX: usize = 4;
