//! The calls that both generations have.

use embedded_io_async::{Read, Write};
use pmi_core::command::{FenceGroup, Maxes, Place, Request, Spawn, Text};
use pmi_core::error::Full;
use pmi_core::ids::KvsName;
use pmi_core::parts;
use pmi_core::storage::Buffer;

use super::reply::{
    Codes, ReplyError, SPAWNED_BYTES, Spawned, done, lend, maxes, name, number, received_name,
    spawned, value,
};
use super::{AsyncPmi, CallResult};
use crate::{CallError, SpawnError};

impl<IO: Read + Write, B: Buffer, const MESSAGE_BYTES: usize, const GENERATIONS: u16>
    AsyncPmi<IO, B, MESSAGE_BYTES, GENERATIONS>
{
    /// Asks for the longest name, key and value, and keeps to them from now on.
    ///
    /// Wire: `cmd=get_maxes\n`. PMI-2 has fixed sizes, so nothing is asked.
    /// Units: bytes, each counting a C terminator.
    pub async fn maxes(&mut self) -> CallResult<Maxes, IO> {
        if self.has_frames() {
            return Ok(self.client.maxes());
        }
        let mut result = Err(ReplyError::Unanswered);
        self.call(&Request::Maxes, &mut |reply| result = maxes(reply)).await?;
        Ok(result?)
    }

    /// Requests the number of this program in the launch; `None` if the server does not know it.
    ///
    /// Wire: `cmd=get_appnum\n`. PMI-2 receives it in the handshake.
    /// Spec: PMI-1.1, `get_appnum`.
    pub async fn appnum(&mut self) -> CallResult<Option<u32>, IO> {
        if self.has_frames() {
            return Ok(self.identity().and_then(|who| u32::try_from(who.appnum).ok()));
        }
        self.ask_number(&Request::AppNum).await
    }

    /// Asks how many processes there can be; `None` if there is no bound.
    ///
    /// Wire: `cmd=get_universe_size\n`; in PMI-2 the attribute `universeSize` of the job.
    pub async fn universe_size(&mut self) -> CallResult<Option<u32>, IO> {
        if !self.has_frames() {
            return self.ask_number(&Request::UniverseSize).await;
        }
        let mut size = [-1];
        self.job_numbers(b"universeSize", &mut size).await?;
        Ok(u32::try_from(size[0]).ok())
    }

    /// Asks for the name of the job's space; needed once before [`put`](Self::put) and
    /// [`get`](Self::get).
    ///
    /// Wire: `cmd=get_my_kvsname\n`, `cmd=job-getid;`.
    pub async fn kvsname(&mut self) -> CallResult<&KvsName, IO> {
        let mut result = Err(ReplyError::Unanswered);
        self.call(&Request::KvsName, &mut |reply| result = name(reply)).await?;
        result?;
        received_name(self.client.kvsname())
    }

    /// Stores `value` under `key`; others see it after the next [`fence`](Self::fence).
    ///
    /// Wire: `cmd=put kvsname=N key=K value=V\n`, `cmd=kvs-put;key=K;value=V;`.
    /// Shape: at most 63 and 1023 bytes unless [`maxes`](Self::maxes) reported other limits. PMI-1
    /// has no blanks or line ends in either; in PMI-2 known servers lose the text after a `;`.
    /// Spec: PMI-1.1, `put`; PMI-2 wire protocol, KVSPUT.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`] for a key or value that does not fit, [`CallError::Refused`] by the
    /// server.
    pub async fn put(&mut self, key: &[u8], value: &[u8]) -> CallResult<(), IO> {
        let (key, value) = (Text::plain(key), Text::plain(value));
        self.ask_done(&Request::Put { place: Place::Job(None), key, value }).await
    }

    /// Reads the value of `key` into `out` and returns its length; `None` if there is no such key.
    ///
    /// Wire: `cmd=get kvsname=N key=K\n`, `cmd=kvs-get;jobid=N;srcid=-1;key=K;`. It never waits for
    /// a later put.
    /// Spec: PMI-1.1, `get`; PMI-2 wire protocol, KVSGET.
    ///
    /// # Errors
    ///
    /// [`CallError::Full`] with the length of the value if `out` is too small.
    pub async fn get(&mut self, key: &[u8], out: &mut [u8]) -> CallResult<Option<usize>, IO> {
        let key = Text::plain(key);
        self.ask_value(&Request::Get { place: Place::Job(None), key, wait: false }, out).await
    }

    /// Reads from the key-value space of a connected job.
    ///
    /// Wire and shape: as for [`get`](Self::get), with the other name.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub async fn get_from(
        &mut self,
        job: &[u8],
        key: &[u8],
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        let (place, key) = (Place::Job(Some(Text::plain(job))), Text::plain(key));
        self.ask_value(&Request::Get { place, key, wait: false }, out).await
    }

    /// Waits until every rank of the job is here; then all see what was put before.
    ///
    /// Wire: `cmd=barrier_in\n`, `cmd=kvs-fence;`. Hydra answers the latter at once and has the
    /// gets behind it wait instead.
    pub async fn fence(&mut self) -> CallResult<(), IO> {
        self.ask_done(&Request::Fence { group: FenceGroup::World, tag: None }).await
    }

    /// Waits until every rank of `group` is here, with the same `tag`.
    ///
    /// Wire: `cmd=barrier_in group=G:T\n`.
    /// Spec: PMI-1.2, `barrier_in`.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`] in every version but PMI-1.2.
    pub async fn fence_group(&mut self, group: FenceGroup<'_>, tag: u32) -> CallResult<(), IO> {
        const { assert!(parts::GROUPS, "`fence_group` needs the feature `groups` of pmi-core") }
        self.ask_done(&Request::Fence { group, tag: Some(tag) }).await
    }

    /// Makes `port` known under the name of a service.
    ///
    /// Wire: `cmd=publish_name service=S port=P\n`, `cmd=name-publish;name=S;port=P;infokeycount=0;`.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the name is taken.
    pub async fn publish(&mut self, service: &[u8], port: &[u8]) -> CallResult<(), IO> {
        const { assert!(parts::NAMES, "`publish` needs the feature `names` of pmi-core") }
        let (service, port) = (Text::plain(service), Text::plain(port));
        self.ask_done(&Request::Publish { service, port }).await
    }

    /// Reads the port of a service into `out` and gives its length; `None` if there is no such
    /// service, or the server keeps none.
    ///
    /// Wire: `cmd=lookup_name service=S\n`, `cmd=name-lookup;name=S;infokeycount=0;`.
    ///
    /// # Errors
    ///
    /// [`CallError::Full`] with the length of the port if `out` is too small.
    pub async fn lookup(
        &mut self,
        service: &[u8],
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        const { assert!(parts::NAMES, "`lookup` needs the feature `names` of pmi-core") }
        self.ask_value(&Request::Lookup { service: Text::plain(service) }, out).await
    }

    /// Takes a published name back.
    ///
    /// Wire: `cmd=unpublish_name service=S\n`, `cmd=name-unpublish;name=S;infokeycount=0;`.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if it was not published.
    pub async fn unpublish(&mut self, service: &[u8]) -> CallResult<(), IO> {
        const { assert!(parts::NAMES, "`unpublish` needs the feature `names` of pmi-core") }
        self.ask_done(&Request::Unpublish { service: Text::plain(service) }).await
    }

    /// Spawns processes, which become a job of their own.
    ///
    /// Wire: one `mcmd=spawn` block for each program; in PMI-2 one message.
    /// Shape: `scratch` is lent for the request, which has no bound, and then for the reply: at
    /// least 320 bytes, so that there is room for the job id. It holds as many of the codes as fit.
    /// Spec: PMI-1.1, `mcmd=spawn`; PMI-2 wire protocol, SPAWN.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Refused`] with the codes of the processes; [`CallError::Full`] with the length
    /// that `scratch` needs, in which case nothing was sent.
    pub async fn spawn<'s>(
        &mut self,
        spawn: Spawn<'_>,
        scratch: &'s mut [u8],
    ) -> Result<Spawned<'s>, SpawnError<Codes<'s>, IO::Error>> {
        const { assert!(parts::SPAWN, "`spawn` needs the feature `spawn` of pmi-core") }
        self.drain().await?;
        self.check_state()?;
        if scratch.len() < SPAWNED_BYTES {
            return Err(CallError::Full(Full { needed: SPAWNED_BYTES }).into());
        }
        let (_, len) =
            self.client.send(&Request::Spawn(spawn), scratch).map_err(CallError::from)?;
        self.write(scratch.get(..len).unwrap_or(b"")).await?;
        let mut result = Err(ReplyError::Unanswered);
        self.recv_reply(&mut |reply| result = spawned(reply, scratch)).await?;
        lend(result.map_err(CallError::from)?, scratch)
    }

    /// Ends the whole job with `code`. There is no answer: the caller should exit.
    ///
    /// Wire: `cmd=abort exitcode=C message=M\n`, `cmd=abort;isworld=TRUE;exitcode=C;msg=M;`.
    /// Shape: a message that is too long is cut.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`] if the conversation is over.
    pub async fn abort(&mut self, code: i32, message: &[u8]) -> CallResult<(), IO> {
        // Each byte may take two.
        let len = message.len().min(MESSAGE_BYTES.saturating_sub(ABORT_WORDS) / 2);
        let message = Text::plain(message.get(..len).unwrap_or(b""));
        self.send(&Request::Abort { code: Some(code), world: true, message }).await
    }

    /// Finalizes the session; no call is possible afterwards.
    ///
    /// Wire: `cmd=finalize\n`, `cmd=finalize;`.
    /// Spec: PMI-1.1, `finalize`; PMI-2 wire protocol, FINALIZE.
    pub async fn finalize(&mut self) -> CallResult<(), IO> {
        self.ask_done(&Request::Finalize).await
    }

    pub(super) fn has_frames(&self) -> bool {
        GENERATIONS >= 2 && self.client.version().is_some_and(|version| version.major == 2)
    }

    pub(super) async fn ask_done(&mut self, request: &Request<'_>) -> CallResult<(), IO> {
        let mut result = Err(ReplyError::Unanswered);
        self.call(request, &mut |reply| result = done(reply)).await?;
        Ok(result?)
    }

    pub(super) async fn ask_value(
        &mut self,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        let mut result = Err(ReplyError::Unanswered);
        self.call(request, &mut |reply| result = value(reply, out)).await?;
        Ok(result?)
    }

    async fn ask_number(&mut self, request: &Request<'_>) -> CallResult<Option<u32>, IO> {
        let mut result = Err(ReplyError::Unanswered);
        self.call(request, &mut |reply| result = number(reply)).await?;
        Ok(result?)
    }
}

/// Room for everything but the text of an abort, in either generation.
const ABORT_WORDS: usize = "123456cmd=abort;isworld=TRUE;exitcode=-2147483648;msg=;".len();
