//! The calls of one thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant as Time, SystemTime};

use pmi_core::client::pmix::{
    Attribute, DataRealm, Datum, JobInfo, PmixClient, PmixRequest, PmixTicket, ProcIdentity, Scope,
    SpawnApp,
};
use pmi_core::error::Misuse;
use pmi_core::ids::KvsName;
use pmi_core::wire::pmix::greeting::Credential;
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Format, Kvals, Proc, Value};

use super::connection::{PmixConnection, ProcKey};
use super::env::{PmixEnvironment, Security};
use super::error::{CallError, PmixConnectError};
use super::reply::{Infos, PmixEvent, PmixGroup, PmixReply};
use super::services::service_calls;

/// A process that has joined a job, and its session with the server.
///
/// Calls wait for their replies. [`start_fence`](Self::start_fence) and [`start_get`](Self::start_get) do
/// not: [`is_done`](Self::is_done) and [`wait`](Self::wait) are for their results. At most 64 requests are in
/// flight; a call beyond that waits for a reply first. Several threads use a
/// [`SharedPmix`](super::SharedPmix).
#[derive(Debug)]
pub struct Pmix {
    connection: PmixConnection,
    size: u32,
}

/// A fence in progress.
#[derive(Debug)]
#[must_use = "its end is known from `Pmix::is_done` or `Pmix::wait`"]
pub struct PendingFence(PmixTicket);

/// A get in progress.
#[derive(Debug)]
#[must_use = "its value is returned by `Pmix::wait_get`"]
pub struct PendingGet {
    /// The request; none if the value is known without one.
    ticket: Option<PmixTicket>,
    of: ProcKey,
    key: Vec<u8>,
    within: Within,
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
            credential: (*security == Security::Native).then(own_credential),
            format: *format,
        };
        let connection =
            PmixConnection::open(*address, |memory| Ok(PmixClient::new(identity, memory)))?;
        Ok(Self::new(connection))
    }

    pub(super) fn new(connection: PmixConnection) -> Self {
        let size = connection.client.job_info().size().unwrap_or(1);
        Self { connection, size }
    }

    pub(super) fn into_connection(self) -> PmixConnection {
        self.connection
    }

    /// The rank of this process.
    pub const fn rank(&self) -> u32 {
        self.connection.client.identity().rank
    }

    /// Number of processes of the job.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The name of the job.
    pub fn nspace(&self) -> &[u8] {
        self.connection.client.identity().nspace.as_bytes()
    }

    /// Job-level information from the launcher.
    pub fn job_info(&self) -> JobInfo<'_> {
        self.connection.client.job_info()
    }

    /// Stores a value under a key until it is committed; the last of several counts. Nothing is
    /// sent.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`], for example for a reserved key (`pmix…`).
    pub fn put(&mut self, scope: Scope, key: &[u8], value: Datum<'_>) -> Result<(), CallError> {
        Ok(self.connection.client.put(scope, key, value)?)
    }

    service_calls! { &mut Self }

    /// Enters a fence without waiting for the others; otherwise as [`fence_of`](Self::fence_of). Until it has
    /// ended, values are those before it or after it.
    /// Spec: PMIx Standard, `PMIx_Fence_nb`.
    pub fn start_fence(
        &mut self,
        procs: &[Proc<'_>],
        collect: bool,
        timeout: Option<Duration>,
    ) -> Result<PendingFence, CallError> {
        let timeout_s = timeout.map(whole_seconds);
        self.start(&PmixRequest::Fence { procs, collect, timeout_s }).map(PendingFence)
    }

    /// Requests a value without waiting for it; otherwise as [`get_of`](Self::get_of).
    /// Spec: PMIx Standard, `PMIx_Get_nb`.
    pub fn start_get(
        &mut self,
        of: Proc<'_>,
        key: &[u8],
        within: Within,
    ) -> Result<PendingGet, CallError> {
        let at = self.proc_key(of);
        let of = Proc { nspace: &at.0, rank: at.1 };
        let ticket = match self.connection.cached(&at, key) {
            Some(_) => None,
            None => Some(self.start(&get_request(of, key, within))?),
        };
        Ok(PendingGet { ticket, of: at, key: key.to_vec(), within })
    }

    /// True if a fence has ended, or a get has its value; nothing waits. It sends and receives what it can.
    pub fn is_done(&mut self, pending: &impl Pending) -> Result<bool, CallError> {
        let Some(ticket) = pending.ticket() else { return Ok(true) };
        if !self.connection.has_reply(ticket) {
            self.connection.turn()?;
        }
        Ok(self.connection.has_reply(ticket))
    }

    /// Waits for the end of a fence.
    pub fn wait(&mut self, pending: PendingFence) -> Result<(), CallError> {
        self.connection.wait(pending.0)?.done()
    }

    /// Waits for the value of a get.
    pub fn wait_get(&mut self, pending: PendingGet) -> Result<Option<Value<'_>>, CallError> {
        let PendingGet { ticket, of, key, within } = pending;
        let ticket = match ticket {
            Some(ticket) => ticket,
            None if self.connection.cached(&of, &key).is_some() => {
                return Ok(self.connection.cached(&of, &key));
            }
            // A fence has made the known value an old one.
            None => {
                let proc = Proc { nspace: &of.0, rank: of.1 };
                self.start(&get_request(proc, &key, within))?
            }
        };
        let reply = self.connection.wait(ticket)?;
        if reply.is_missing() {
            return Ok(None);
        }
        reply.done()?;
        let value = self.connection.found(&of, &key);
        Ok(value.or_else(|| self.connection.cached(&of, &key)))
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
        if let Some(ticket) = self.connection.join_prefetch(&self.proc_key(of), key, within) {
            // If the data does not have the key, the get requests it itself.
            self.connection.wait(ticket)?;
        }
        let pending = self.start_get(of, key, within)?;
        self.wait_get(pending)
    }

    /// A hint that gets of all processes will follow that share a realm with `of`: their data is requested
    /// ahead, and no reply is waited for. Wire: GETNB without a key, one for each process.
    ///
    /// Shape: a get of such a process takes what has arrived, or waits for what is under way; that of a
    /// process without committed data requests it again. A fence ends the hint, as its end may change values.
    /// The realm of a process of another job is the process alone.
    /// Spec: PMIx overview, Client, the range of a get.
    pub fn prefetch(&mut self, of: Proc<'_>, realm: DataRealm) -> Result<(), CallError> {
        let of = self.proc_key(of);
        self.connection.prefetch(&of, realm)
    }

    /// Requests all that a process has committed so far; nothing if that is nothing. It is requested at every
    /// call. Wire: GETNB without a key.
    ///
    /// Spec: PMIx Standard, `PMIx_Get`, a null key.
    pub fn get_all(&mut self, of: Proc<'_>) -> Result<Kvals<'_>, CallError> {
        let at = self.proc_key(of);
        let of = Proc { nspace: &at.0, rank: at.1 };
        self.connection.forget(&at);
        let get = PmixRequest::Get { of, key: None, immediate: true, timeout_s: None };
        let reply = self.call(&get)?;
        if !reply.is_missing() {
            reply.done()?;
        }
        Ok(self.connection.received(&at))
    }

    /// The next event that this process has registered for, waiting for it at most as long as `timeout`, or
    /// without a limit.
    ///
    /// Shape: 512 events wait to be taken; the oldest are dropped beyond that
    /// ([`events_lost`](Self::events_lost)).
    pub fn next_event(
        &mut self,
        timeout: Option<Duration>,
    ) -> Result<Option<PmixEvent>, CallError> {
        let deadline = timeout.and_then(|timeout| Time::now().checked_add(timeout));
        loop {
            if let Some(event) = self.connection.take_event() {
                return Ok(Some(event));
            }
            let is_sending = self.connection.is_sending();
            if !PmixConnection::wait_ready(&self.connection, is_sending, deadline)? {
                return Ok(None);
            }
            self.connection.turn()?;
        }
    }

    /// Number of events that were dropped because none were taken.
    pub const fn events_lost(&self) -> u64 {
        self.connection.events_lost()
    }

    /// Finalizes the session and waits for the reply. Wire: FINALIZE.
    /// Spec: PMIx Standard, `PMIx_Finalize`.
    ///
    /// # Errors
    ///
    /// [`Misuse::Busy`] while a fence or a get is in progress.
    pub fn finalize(mut self) -> Result<(), CallError> {
        while self.connection.prefetches.end() {
            self.turn()?;
        }
        self.call(&PmixRequest::Finalize)?.done()
    }

    /// Terminates the whole job with an exit code and a message. Wire: ABORT.
    /// Spec: PMIx Standard, `PMIx_Abort`.
    pub fn abort(mut self, code: i32, message: &str) -> Result<(), CallError> {
        self.call(&PmixRequest::Abort { code, message: message.as_bytes() })?.done()
    }

    fn format(&self) -> Format {
        self.connection.format()
    }

    fn proc_key(&self, of: Proc<'_>) -> ProcKey {
        (if of.nspace == self.nspace() { b"" } else { of.nspace }.to_vec(), of.rank)
    }

    /// Waits until something can be sent or received, and does.
    fn turn(&mut self) -> Result<(), CallError> {
        let is_sending = self.connection.is_sending();
        PmixConnection::wait_ready(&self.connection, is_sending, None)?;
        self.connection.turn()
    }

    /// Sends one request and waits for its reply.
    fn call(&mut self, request: &PmixRequest<'_>) -> Result<PmixReply, CallError> {
        let ticket = self.start(request)?;
        self.connection.wait(ticket)
    }

    /// Sends one request that has no reply.
    fn send(&mut self, request: &PmixRequest<'_>) -> Result<(), CallError> {
        self.start(request)?;
        while self.connection.is_sending() {
            PmixConnection::wait_ready(&self.connection, true, None)?;
            self.connection.turn()?;
        }
        Ok(())
    }

    /// Starts a request as soon as it can be in flight.
    fn start(&mut self, request: &PmixRequest<'_>) -> Result<PmixTicket, CallError> {
        loop {
            match self.connection.start(request) {
                Err(CallError::Misuse(Misuse::Busy)) if *request != PmixRequest::Finalize => {
                    self.turn()?;
                }
                started => return started,
            }
        }
    }
}

/// The socket, for a caller that waits for several things: once it is readable, [`Pmix::is_done`] and
/// [`Pmix::next_event`] with no time have something to do.
impl AsFd for Pmix {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

/// A call in progress.
pub trait Pending: sealed::Sealed {}

impl Pending for PendingFence {}
impl Pending for PendingGet {}

mod sealed {
    use super::{PendingFence, PendingGet, PmixTicket};

    pub trait Sealed {
        fn ticket(&self) -> Option<PmixTicket>;
    }

    impl Sealed for PendingFence {
        fn ticket(&self) -> Option<PmixTicket> {
            Some(self.0)
        }
    }

    impl Sealed for PendingGet {
        fn ticket(&self) -> Option<PmixTicket> {
            self.ticket
        }
    }
}

/// A request for a value.
pub(super) fn get_request<'a>(of: Proc<'a>, key: &'a [u8], within: Within) -> PmixRequest<'a> {
    // Values of the launcher are never committed later, so there is nothing to wait for.
    let immediate = within == Within::Immediate || keys::is_reserved(key);
    let timeout_s = match within {
        Within::Time(time) if !immediate => Some(whole_seconds(time)),
        _ => None,
    };
    PmixRequest::Get { of, key: Some(key), immediate, timeout_s }
}

/// User and group of this process.
pub(super) fn own_credential() -> Credential {
    Credential {
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
    }
}

/// A limit of time as it is sent, at least one second: 0 would be none.
pub(super) fn whole_seconds(time: Duration) -> u32 {
    let rounded = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    u32::try_from(rounded).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_time_is_never_sent_as_none() {
        for (time, expected) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_millis(1001), 2),
            (Duration::MAX, u32::MAX),
        ] {
            assert_eq!(whole_seconds(time), expected, "{time:?}");
        }
    }
}
