//! The handshake of a client, in both versions.

use embedded_io_async::{Read, Write};
use pmi_core::auth::{METHOD, Proof};
use pmi_core::client::State;
use pmi_core::command::{Answer, Identity, Reply, Request, Text, Version};
use pmi_core::error::{Misuse, PeerError};
use pmi_core::parts;
use pmi_core::storage::Buffer;

use super::{AsyncPmi, CallResult};
use crate::CallError;

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
    pub prover: Option<&'a Prover<'a>>,
}

/// Computes the proof that a challenge asks for.
///
/// A function, so that only those link a hash function who need one, and a secret may stay where
/// it is: `&|reply| prove(&secret, reply)` with [`prove`](pmi_core::client::prove()).
pub type Prover<'a> = dyn Fn(&Reply<'_>) -> Option<Proof> + Sync + 'a;

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

/// Parts of the replies to a PMI-2 handshake.
#[derive(Default)]
struct JoinReplies {
    proof: Option<Proof>,
    spawner_bytes: Option<usize>,
}

impl Opening<'_> {
    /// Parameters with `version` alone.
    pub const fn new(version: Version) -> Self {
        Self { version, rank: None, job: None, prover: None }
    }
}

impl<IO: Read + Write, B: Buffer, const MESSAGE_BYTES: usize, const GENERATIONS: u16>
    AsyncPmi<IO, B, MESSAGE_BYTES, GENERATIONS>
{
    /// Sends the process id of a connection and receives its identity; only over TCP, only in
    /// PMI-1, and before every other call.
    ///
    /// Wire: `cmd=initack pmiid=N\n`, answered by four lines.
    /// Spec: PMI-1.1, `initack`.
    ///
    /// # Errors
    ///
    /// [`CallError::Peer`] if the server expects no process with this id.
    pub async fn greet(&mut self, id: u64) -> CallResult<Identity<'static>, IO> {
        const { assert!(parts::LISTEN, "`greet` needs the feature `listen` of pmi-core") }
        self.call(&Request::InitAck { id }, &mut |_| {}).await?;
        self.client.identity().ok_or(CallError::Peer(PeerError::LeftEarly))
    }

    /// Opens the session and returns the negotiated version.
    ///
    /// This is [`open`](Self::open) with nothing but a version: enough for PMI-1, and for PMI-2
    /// where the server knows the process at the other end.
    pub async fn init(&mut self, version: Version) -> CallResult<Version, IO> {
        Ok(self.open(&Opening::new(version), &mut []).await?.version)
    }

    /// Opens the session.
    ///
    /// Wire: `cmd=init pmi_version=M pmi_subversion=N\n`; then, in PMI-2,
    /// `cmd=fullinit;pmijobid=J;pmirank=R;threaded=FALSE;`, with `authtype` if there is a prover,
    /// and after a challenge `cmd=auth-response-complete;authinfo=PROOF;`.
    /// Shape: the id of the parent job is written into `spawner` if it fits; its length is returned
    /// in any case. [`identity`](Self::identity) has the rest.
    /// Spec: PMI-1.1, `init`; PMI-2 wire protocol, FULLINIT and "Authentication".
    ///
    /// # Errors
    ///
    /// [`CallError::Peer`] without a common version ([`PeerError::Version`]) or if the server
    /// refuses. To request an older version, take the stream [back](Self::into_inner) and open a
    /// new session.
    pub async fn open(
        &mut self,
        opening: &Opening<'_>,
        spawner: &mut [u8],
    ) -> CallResult<Opened, IO> {
        self.call(&Request::Init { version: opening.version }, &mut |_| {}).await?;
        let version = self.client.version().unwrap_or(opening.version);
        let spawner_bytes = match self.client.state() {
            State::Agreed { .. } => self.join(opening, spawner).await?,
            _ => None,
        };
        Ok(Opened { version, spawner_bytes })
    }

    /// The identity that the server has assigned: in PMI-2, or over TCP.
    pub const fn identity(&self) -> Option<Identity<'static>> {
        self.client.identity()
    }

    async fn join(
        &mut self,
        opening: &Opening<'_>,
        spawner: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        let Opening { rank, job, prover, .. } = *opening;
        let mut replies = JoinReplies::default();
        let method = prover.map(|_| Text::plain(METHOD));
        let request =
            Request::FullInit { rank, job: job.map(Text::plain), threaded: false, method };
        self.call(&request, &mut |reply| replies.on_reply(reply, prover, spawner)).await?;
        if let State::Challenged { .. } = self.client.state() {
            let proof = replies.proof.ok_or(CallError::Peer(PeerError::Unproven))?;
            let request = Request::Proof { digits: Text::plain(proof.as_bytes()) };
            self.call(&request, &mut |reply| replies.on_reply(reply, None, spawner)).await?;
        }
        match self.client.state() {
            State::Open { .. } => Ok(replies.spawner_bytes),
            // A challenge after the proof: no known method has more than one.
            _ => Err(CallError::Misuse(Misuse::WrongState { needed: "one challenge" })),
        }
    }
}

impl JoinReplies {
    fn on_reply(&mut self, reply: &Reply<'_>, prover: Option<&Prover<'_>>, spawner: &mut [u8]) {
        match reply.answer {
            Answer::Challenge(_) => self.proof = prover.and_then(|prove| prove(reply)),
            Answer::Identity(Identity { spawner: Some(name), .. }) => {
                self.spawner_bytes = Some(name.len());
                if let Some(out) = spawner.get_mut(..name.len()) {
                    out.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
                }
            }
            _ => {}
        }
    }
}
