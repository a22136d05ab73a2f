//! Credentials of unidentified peers that the owner has verified by another service.

use super::response::Response;
use super::session_table::{HAS_EVENT, READY};
use super::state::ProvenRank;
use super::{GivenCredential, Server, Session, Storage};
use crate::command::Request;
use crate::error::{Misuse, PeerError};
use crate::ids::SessionId;
use crate::parts;
use crate::storage::Slots;
use crate::time::Instant;

impl<S: Storage> Server<S> {
    /// Borrows the credential of a session, until [`answer_credential`](Self::answer_credential), with the
    /// nonce that it must carry.
    pub fn credential(&self, session: SessionId) -> Option<GivenCredential<'_>> {
        let challenge = self.sessions.get(session)?.state.protocol.challenge.as_ref()?;
        match self.held_request(session)? {
            Request::Proof { digits, .. } if parts::LISTEN => {
                Some(GivenCredential { text: digits, nonce: *challenge.nonce() })
            }
            _ => None,
        }
    }

    /// Sets the time until which a session waits for [`answer_credential`](Self::answer_credential), in
    /// place of its deadline: a verification may take longer than the rest of that.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn set_credential_deadline(
        &mut self,
        session: SessionId,
        deadline: Instant,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "credential" };
        self.credential(session).ok_or(missing)?;
        let of = self.sessions.get_mut(session).ok_or(missing)?;
        of.state.lifecycle.deadline = Some(deadline);
        Ok(())
    }

    /// Answers a [`CredentialGiven`](super::Event::CredentialGiven): makes the peer a member of its job, if
    /// the credential is valid, carries the nonce of its session, and is of a user that the owner admits;
    /// ends its session otherwise.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn answer_credential(
        &mut self,
        session: SessionId,
        exchange: usize,
        now: Instant,
        is_valid: bool,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "credential" };
        let number = u32::try_from(exchange).map_err(|_| missing)?;
        let of = self.sessions.get_mut(session).ok_or(missing)?;
        let is_it = |response: &Response| *response == Response::Verdict(number);
        let mut pending = of.state.pending_requests();
        let (place, _) = pending.find(|(_, waits)| is_it(&waits.response)).ok_or(missing)?;
        drop(pending);
        let waits = of.state.pending.remove(place).ok_or(missing)?;
        Session::drop_held(of);
        of.state.protocol.challenge.take();
        let claimed = of.state.protocol.claimed.take();
        let job = self.shared.jobs.get_mut(of.state.protocol.job.0 as usize);
        let (header, state) = (waits.header, &mut of.state);
        match (claimed, job) {
            (Some(claimed), Some(job)) if is_valid => {
                let rank = crate::ids::Rank(claimed.rank);
                state.join(job, header, ProvenRank { rank, session, now });
            }
            _ => {
                state.fail(header, PeerError::Unproven);
            }
        }
        self.sessions.push(READY, session);
        self.sessions.push(HAS_EVENT, session);
        Ok(())
    }
}
