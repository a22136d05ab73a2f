//! The handshake of a client, in both versions.

use pmi_core::client::{AuthAnswer, AuthProgress, Prover};
use pmi_core::command::{Answer, Identity, Reply, Text, Version};
use pmi_core::error::PeerError;

use super::{CallError, ReadReply, ReplyResult};

/// Parameters of a handshake.
///
/// All but the version is for PMI-2; hydra requires the rank.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Opening<'a> {
    /// The version to ask for.
    pub version: Version,
    /// The rank that the launcher has given this process.
    pub rank: Option<u32>,
    /// The id of its job, if the launcher has set it (`PMI_JOBID`).
    pub job: Option<&'a [u8]>,
    /// Answers a challenge. Without a prover no authentication method is offered, and a server that
    /// requires one refuses.
    pub prover: Option<&'a dyn Prover>,
}

/// Result of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// The negotiated version.
    pub version: Version,
    /// Length of the id of the job that has spawned this one; `None` without a parent job, or if
    /// the server does not report it.
    pub spawner_bytes: Option<usize>,
}

/// Reads the replies to a PMI-2 handshake: returns the answer to a challenge, and hands over the id of the
/// parent job.
pub struct JoinReply<'p, 'j> {
    /// Answers a challenge, with texts of its own.
    pub prover: Option<&'p dyn Prover>,
    /// Progress of its method.
    pub progress: &'j mut AuthProgress,
    /// Receives the id of the parent job, if there is one.
    pub on_spawner: &'j mut (dyn FnMut(Text<'_>) + Send),
}

impl Opening<'_> {
    /// Parameters with `version` alone.
    pub const fn new(version: Version) -> Self {
        Self { version, rank: None, job: None, prover: None }
    }

    /// The result of a handshake with a negotiated version: a server that asks for no proof has not proved
    /// anything either.
    ///
    /// # Errors
    ///
    /// [`PeerError::Unproven`] if the method demands more of the server than these messages.
    pub fn accept<E>(
        &self,
        progress: &AuthProgress,
        version: Version,
    ) -> Result<Version, CallError<E>> {
        match self.prover {
            Some(prover) if !prover.accepts(progress) => Err(CallError::Peer(PeerError::Unproven)),
            _ => Ok(version),
        }
    }
}

impl Opened {
    /// Result of a handshake with a negotiated version, and the length of the id of the parent job.
    pub const fn new(version: Version, spawner_bytes: Option<usize>) -> Self {
        Self { version, spawner_bytes }
    }
}

impl<'p> ReadReply for JoinReply<'p, '_> {
    type Output = Option<AuthAnswer<'p>>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Option<AuthAnswer<'p>>> {
        match reply.answer {
            Answer::Challenge(_) => {
                let answered = self.prover.map(|prover| prover.answer(self.progress, reply));
                return Ok(answered.flatten());
            }
            Answer::Identity(Identity { spawner: Some(name), .. }) => (self.on_spawner)(name),
            _ => {}
        }
        Ok(None)
    }
}

impl core::fmt::Debug for JoinReply<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("JoinReply").field("proves", &self.prover.is_some()).finish_non_exhaustive()
    }
}
