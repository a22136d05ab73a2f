//! The calls of one thread, which wait for their answers.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pmi_core::client::pmix::{
    Attribute, Datum, JobInfo, Object, PmixAnswer, PmixBuffers, PmixClient, PmixClientEvent,
    PmixRequest, PmixState, ProcIdentity, Scope, SpawnApp,
};
use pmi_core::error::Full;
use pmi_core::ids::KvsName;
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::pmix::greeting::Credential;
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Format, Kvals, Proc, Value};
use pmi_link::heap::BoundedBuf;

use super::env::{PmixEnvironment, Security};
use super::error::{CallError, PmixConnectError};
use crate::stream::retry_interrupted;

/// A process that has joined a job, and its session with the server.
#[derive(Debug)]
pub struct Pmix {
    stream: TcpStream,
    client: PmixClient<BoundedBuf, 1>,
    /// Input that the machine has not consumed.
    unread: Vec<u8>,
    /// Committed data of processes, packed, as received since the last fence.
    received: BTreeMap<(Vec<u8>, u32), Vec<u8>>,
    size: u32,
    message: Vec<u8>,
}

/// Time that a get waits for a value that is not committed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Within {
    /// As long as the server thinks right; mostly two seconds.
    #[default]
    Usual,
    /// Not at all.
    Immediate,
    /// So long, in whole seconds.
    Time(Duration),
}

impl Pmix {
    pub(super) fn open(environment: &PmixEnvironment) -> Result<Self, PmixConnectError> {
        let PmixEnvironment { nspace, rank, address, security, format } = environment;
        let identity = ProcIdentity {
            nspace: KvsName::new(nspace.as_bytes()).map_err(CallError::Misuse)?,
            rank: *rank,
            credential: (*security == Security::Native).then(|| Credential {
                user: rustix::process::geteuid().as_raw(),
                group: rustix::process::getegid().as_raw(),
            }),
            format: *format,
        };
        let dial = |error| PmixConnectError::Connect { address: *address, error };
        let stream = TcpStream::connect(address).map_err(dial)?;
        // Every message waits for its answer, so nothing is gained by holding one back.
        stream.set_nodelay(true).map_err(dial)?;
        let lent = || BoundedBuf::new(MESSAGE_BYTES_MAX);
        let memory = PmixBuffers { request: lent(), response: lent(), puts: lent(), job: lent() };
        let mut pmix = Self {
            stream,
            client: PmixClient::new(identity, memory),
            unread: Vec::new(),
            received: BTreeMap::new(),
            size: 0,
            message: vec![0; READ_BYTES],
        };
        pmix.call(&PmixRequest::Init)?;
        pmix.size = pmix.client.job_info().size().unwrap_or(1);
        Ok(pmix)
    }

    /// The rank of this process.
    pub const fn rank(&self) -> u32 {
        self.client.identity().rank
    }

    /// Number of processes of the job.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The name of the job.
    pub fn nspace(&self) -> &[u8] {
        self.client.identity().nspace.as_bytes()
    }

    /// Job-level information from the launcher.
    pub fn job_info(&self) -> JobInfo<'_> {
        self.client.job_info()
    }

    /// Stores a value under a key until it is committed; the last of several counts. Nothing is
    /// sent.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`], for example for a reserved key (`pmix…`).
    pub fn put(&mut self, scope: Scope, key: &[u8], value: Datum<'_>) -> Result<(), CallError> {
        Ok(self.client.put(scope, key, value)?)
    }

    /// Lets others see what was put. Wire: COMMIT.
    ///
    /// # Errors
    ///
    /// [`CallError`], here and below.
    pub fn commit(&mut self) -> Result<(), CallError> {
        self.call(&PmixRequest::Commit)
    }

    /// Waits for every process of the job; what they have committed can be read then. Wire: FENCENB.
    pub fn fence(&mut self) -> Result<(), CallError> {
        self.fence_of(&[], true, None)
    }

    /// Waits for some processes; with `collect` their committed data is exchanged at once. An empty
    /// namespace is the own one, and an empty list is the whole job.
    /// Spec: PMIx Standard, `PMIx_Fence`.
    pub fn fence_of(
        &mut self,
        procs: &[Proc<'_>],
        collect: bool,
        timeout: Option<Duration>,
    ) -> Result<(), CallError> {
        self.received.clear();
        self.call(&PmixRequest::Fence { procs, collect, timeout_s: timeout.map(whole_seconds) })
    }

    /// Reads a value that a process of the job has committed, or that the launcher provides for it;
    /// `None` if there is none. Known values are not requested again. Wire: GETNB.
    ///
    /// Shape: a received value is that of the last commit before the reply; after the next fence
    /// the client requests it again.
    /// Spec: PMIx Standard, `PMIx_Get`.
    pub fn get(&mut self, rank: u32, key: &[u8]) -> Result<Option<Value<'_>>, CallError> {
        self.get_of(Proc { nspace: b"", rank }, key, Within::Usual)
    }

    /// Does as [`get`](Self::get), also for a process of another job, with a time to wait.
    pub fn get_of(
        &mut self,
        of: Proc<'_>,
        key: &[u8],
        within: Within,
    ) -> Result<Option<Value<'_>>, CallError> {
        let of = Proc { nspace: if of.nspace == self.nspace() { b"" } else { of.nspace }, ..of };
        let at = (of.nspace.to_vec(), of.rank);
        if self.cached(&at, key).is_none() {
            // Values of the launcher are never committed later, so there is nothing to wait for.
            let immediate = within == Within::Immediate || keys::is_reserved(key);
            let timeout_s = match within {
                Within::Time(time) if !immediate => Some(whole_seconds(time)),
                _ => None,
            };
            match self.call(&PmixRequest::Get { of, key: Some(key), immediate, timeout_s }) {
                Err(CallError::Refused { status: Status::NOT_FOUND, .. }) => return Ok(None),
                done => done?,
            }
        }
        Ok(self.cached(&at, key))
    }

    /// Requests all that a process has committed so far; nothing if that is nothing. It is requested at every
    /// call. Wire: GETNB without a key.
    ///
    /// Spec: PMIx Standard, `PMIx_Get`, a null key.
    pub fn get_all(&mut self, of: Proc<'_>) -> Result<Kvals<'_>, CallError> {
        let of = Proc { nspace: if of.nspace == self.nspace() { b"" } else { of.nspace }, ..of };
        let at = (of.nspace.to_vec(), of.rank);
        self.received.remove(&at);
        let get = PmixRequest::Get { of, key: None, immediate: true, timeout_s: None };
        match self.call(&get) {
            Ok(()) | Err(CallError::Refused { status: Status::NOT_FOUND, .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(Kvals::new(self.received.get(&at).map_or(b"", Vec::as_slice), self.format()))
    }

    /// Publishes a text under a key for every job of the launcher, until this job has ended. Wire: PUBLISHNB.
    /// Spec: PMIx Standard, `PMIx_Publish`.
    pub fn publish(&mut self, key: &[u8], text: &[u8]) -> Result<(), CallError> {
        self.call(&PmixRequest::Publish { key, text })
    }

    /// Withdraws what this process has published under a key. Wire: UNPUBLISHNB.
    /// Spec: PMIx Standard, `PMIx_Unpublish`.
    pub fn unpublish(&mut self, key: &[u8]) -> Result<(), CallError> {
        self.call(&PmixRequest::Unpublish { key })
    }

    /// The text that is published under a key; `None` if there is none. Wire: LOOKUPNB.
    /// Spec: PMIx Standard, `PMIx_Lookup`.
    pub fn lookup(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        let mut found = None;
        let lookup = PmixRequest::Lookup { key, wait: false, timeout_s: None };
        let done = self.call_with(&lookup, |answer| {
            let mut published = answer.published().filter(|published| published.key == key);
            found = published.find_map(|published| Some(published.value.text()?.to_vec()));
        });
        match done {
            Ok(()) => Ok(found),
            Err(CallError::Refused { status: Status::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts programs as a job of their own, and returns its name. Wire: SPAWNNB.
    /// Spec: PMIx Standard, `PMIx_Spawn`.
    pub fn spawn(
        &mut self,
        apps: &[SpawnApp<'_>],
        directives: &[Attribute<'_>],
    ) -> Result<Vec<u8>, CallError> {
        let mut job = None;
        self.call_with(&PmixRequest::Spawn { apps, directives }, |answer| {
            job = answer.nspace().map(<[u8]>::to_vec);
        })?;
        Ok(job.unwrap_or_default())
    }

    /// Finalizes the session and waits for the reply. Wire: FINALIZE.
    /// Spec: PMIx Standard, `PMIx_Finalize`.
    pub fn finalize(mut self) -> Result<(), CallError> {
        self.call(&PmixRequest::Finalize)
    }

    /// Terminates the whole job with an exit code and a message. Wire: ABORT.
    /// Spec: PMIx Standard, `PMIx_Abort`.
    pub fn abort(mut self, code: i32, message: &str) -> Result<(), CallError> {
        self.call(&PmixRequest::Abort { code, message: message.as_bytes() })
    }

    fn format(&self) -> Format {
        self.client.identity().format
    }

    /// A value that is known without a request.
    fn cached(&self, of: &(Vec<u8>, u32), key: &[u8]) -> Option<Value<'_>> {
        let (nspace, rank) = of;
        let own = if nspace.is_empty() { self.client.known(*rank, key) } else { None };
        own.or_else(|| {
            // Of several values under one key the last one counts.
            let kvals = Kvals::new(self.received.get(of)?, self.format()).map_while(Result::ok);
            kvals.filter(|kval| kval.key == key).last().map(|kval| kval.value)
        })
    }

    /// Sends one request and waits for its answer.
    fn call(&mut self, request: &PmixRequest<'_>) -> Result<(), CallError> {
        self.call_with(request, |_| {})
    }

    /// The same; `read` gets the answer.
    fn call_with(
        &mut self,
        request: &PmixRequest<'_>,
        mut read: impl FnMut(&PmixAnswer<'_>),
    ) -> Result<(), CallError> {
        self.client.start(request)?;
        let is_reserved =
            matches!(request, PmixRequest::Get { key: Some(key), .. } if keys::is_reserved(key));
        loop {
            self.transmit()?;
            while !self.unread.is_empty() {
                let taken = self.client.handle_input(NOW, &self.unread)?;
                self.unread.drain(..taken);
                if taken == 0 {
                    break;
                }
            }
            // The greeting is answered with no event; what has to follow it is sent now.
            self.transmit()?;
            if let Some(done) = self.on_reply(is_reserved, &mut read) {
                return done;
            }
            if self.client.state() == PmixState::Ended {
                return Ok(());
            }
            self.read()?;
        }
    }

    fn transmit(&mut self) -> Result<(), CallError> {
        loop {
            match self.client.poll_transmit(&mut self.message) {
                Ok(Some(len)) => self.stream.write_all(self.message.get(..len).unwrap_or(b""))?,
                Ok(None) => return Ok(()),
                Err(Full { needed }) => self.message.resize(needed, 0),
            }
        }
    }

    fn read(&mut self) -> Result<(), CallError> {
        let mut piece = [0; READ_BYTES];
        match retry_interrupted(|| self.stream.read(&mut piece)) {
            Ok(0) => self.client.handle_end(NOW)?,
            // A server that ends the process it was asked to end may not answer first.
            Err(_) if matches!(self.client.state(), PmixState::Aborting { .. }) => {
                self.client.handle_end(NOW)?;
            }
            Ok(len) => self.unread.extend_from_slice(piece.get(..len).unwrap_or(b"")),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Stores the values of a reply; `None` if there is none yet.
    fn on_reply(
        &mut self,
        is_reserved: bool,
        read: &mut impl FnMut(&PmixAnswer<'_>),
    ) -> Option<Result<(), CallError>> {
        let own = self.client.identity().nspace.clone();
        let PmixClientEvent::Reply { command, status, answer, .. } = self.client.poll_event()?
        else {
            return None;
        };
        read(&answer);
        for Object { of, kvals } in answer.objects() {
            let nspace = if of.nspace == own.as_bytes() { b"" } else { of.nspace };
            let received = self.received.entry((nspace.to_vec(), of.rank)).or_default();
            // Committed data of a process arrives complete; values of the launcher only as
            // requested.
            if !is_reserved {
                received.clear();
            }
            received.extend_from_slice(kvals.rest());
        }
        Some(match status {
            Status::SUCCESS => Ok(()),
            status => Err(CallError::Refused { command, status }),
        })
    }
}

fn whole_seconds(time: Duration) -> u32 {
    let rounded = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(rounded).unwrap_or(u32::MAX)
}

/// The machine has no deadlines.
const NOW: Instant = Instant::ZERO;

/// For one message. The longest one is what a process has posted, or the description of a job.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 4096;
